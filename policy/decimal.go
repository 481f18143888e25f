package policy

import (
	"math/big"
	"regexp"
)

// decimalGrammar admits what documents write as numbers or amounts. The length of
// an exponent is limited: 1e999999999 is short to write and long to compute.
var decimalGrammar = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$`)

const longestDecimal = 1000

// parseDecimal is the exact value of a decimal, nil if the text is none.
func parseDecimal(text string) *big.Rat {
	if len(text) > longestDecimal || !decimalGrammar.MatchString(text) {
		return nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

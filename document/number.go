package document

import (
	"math/big"
	"regexp"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
)

// CheckNumbers reports the numbers in v that RFC 8785 cannot write down exactly.
func CheckNumbers(v *Value, ps *Problems) {
	switch v.Kind {
	case Number:
		if !canon.SafeNumber(v.Text) {
			ps.Add(CodeNumberUnsafe, v.At, "", "%s cannot be kept exactly as a number; write it as a string", Brief(v.Text))
		}
	case List:
		for _, item := range v.Items {
			CheckNumbers(item, ps)
		}
	case Object:
		for _, m := range v.Members {
			CheckNumbers(m.Value, ps)
		}
	}
}

// The scalars of the YAML 1.2 core schema. What matches none is a string: yes,
// on, 1_000, 12:30 and 2026-01-02 are.
var (
	yamlNull    = regexp.MustCompile(`^(?:null|Null|NULL|~|)$`)
	yamlTrue    = regexp.MustCompile(`^(?:true|True|TRUE)$`)
	yamlFalse   = regexp.MustCompile(`^(?:false|False|FALSE)$`)
	yamlDecimal = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
	yamlBased   = regexp.MustCompile(`^(?:0o[0-7]+|0x[0-9a-fA-F]+)$`)
	yamlNaN     = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

// longestBased keeps the conversion of hexadecimal and octal literals cheap; one
// that is longer is far beyond what is safe.
const longestBased = 400

// plainScalar is the value of an unquoted YAML scalar. ok is false for the
// numbers that JSON does not have.
func plainScalar(s string, at Position) (v *Value, ok bool) {
	switch {
	case yamlNull.MatchString(s):
		return &Value{Kind: Null, At: at}, true
	case yamlTrue.MatchString(s):
		return &Value{Kind: Boolean, Text: "true", At: at}, true
	case yamlFalse.MatchString(s):
		return &Value{Kind: Boolean, Text: "false", At: at}, true
	case yamlDecimal.MatchString(s):
		return &Value{Kind: Number, Text: jsonNumber(s), At: at}, true
	case yamlBased.MatchString(s) && len(s) <= longestBased:
		n, _ := new(big.Int).SetString(s, 0)
		return &Value{Kind: Number, Text: n.String(), At: at}, true
	case yamlNaN.MatchString(s), yamlBased.MatchString(s):
		return nil, false
	}
	return &Value{Kind: Text, Text: s, At: at}, true
}

// jsonNumber is a decimal number of YAML as JSON writes it: no plus sign, no
// leading zeros, digits on both sides of the point.
func jsonNumber(s string) string {
	sign := ""
	switch s[0] {
	case '-':
		sign, s = "-", s[1:]
	case '+':
		s = s[1:]
	}
	exponent := ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		s, exponent = s[:i], s[i:]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction + exponent
}

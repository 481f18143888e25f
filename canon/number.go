package canon

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// UnsafeNumber is a number whose canonical text has another value than was written:
// signing it would sign something else.
type UnsafeNumber struct {
	Pointer   string // RFC 6901, to the number
	Literal   string // as written
	Canonical string // what it would become; "" if it is out of range
}

func (e *UnsafeNumber) Error() string {
	becomes := "is out of range"
	if e.Canonical != "" {
		becomes = "would become " + e.Canonical
	}
	return fmt.Sprintf("number_unsafe: %.64s at %q %s; write it as a string", e.Literal, e.Pointer, becomes)
}

// SafeNumber reports whether the JSON number literal keeps its exact decimal value
// when it is written in RFC 8785 form, that is as the shortest text of the nearest
// double.
func SafeNumber(literal string) bool {
	form := canonicalNumber(literal)
	return form != "" && SameNumber(literal, form)
}

// canonicalNumber is a literal in RFC 8785 form, "" if it is beyond the largest
// double.
func canonicalNumber(literal string) string {
	f, err := strconv.ParseFloat(literal, 64)
	switch {
	case err != nil:
		return ""
	case f == 0: // which has no sign
		return "0"
	}
	return string(jsontext.AppendFloat(nil, f, 64))
}

// SameNumber reports whether two JSON number literals have the same decimal value,
// however they are written.
func SameNumber(a, b string) bool { return decimalOf(a) == decimalOf(b) }

// decimal is ±0.digits × 10^exponent, digits without zeros at either end, so that
// equal values are equal structs. Comparing such texts is exact and, other than big
// numbers, costs nothing for exponents that are meant to hurt.
type decimal struct {
	negative bool
	digits   string
	exponent int64
}

func decimalOf(literal string) (d decimal) {
	rest, negative := strings.CutPrefix(literal, "-")
	mantissa := rest
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		// An exponent too large to parse saturates; such a literal is out of range,
		// or zero, whatever its exact value.
		d.exponent, _ = strconv.ParseInt(rest[i+1:], 10, 64)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	digits := strings.TrimLeft(all, "0")
	if digits == "" {
		return decimal{} // zero has no sign and no exponent
	}
	d.negative = negative
	d.exponent += int64(len(whole) - (len(all) - len(digits)))
	d.digits = strings.TrimRight(digits, "0")
	return d
}

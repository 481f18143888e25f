package journal

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// Canonical is the RFC 8785 form of b. Duplicate names, invalid UTF-8, lone
// surrogates, numbers out of range and anything after the value are refused.
func Canonical(b []byte) ([]byte, error) {
	if IsCanonical(b) {
		return bytes.Clone(b), nil
	}
	if err := checkJSON(b); err != nil {
		return nil, err
	}
	return jcs.Transform(b)
}

// isCanonicalForm reports whether b is its own RFC 8785 form.
func isCanonicalForm(b []byte) bool {
	canonical, err := Canonical(b)
	return err == nil && bytes.Equal(canonical, b)
}

// UnsafeNumber is a number whose canonical text has another value than was
// written: signing it would sign something else.
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
	return fmt.Sprintf("%s: %.64s at %q %s; write it as a string", ErrNumberUnsafe, e.Literal, e.Pointer, becomes)
}

// Unwrap is ErrNumberUnsafe.
func (e *UnsafeNumber) Unwrap() error { return ErrNumberUnsafe }

// SafeNumbers returns an [*UnsafeNumber] for the first number in b that its
// canonical form would change, comparing decimal values exactly.
func SafeNumbers(b []byte) error {
	var unsafe *UnsafeNumber
	s := scanner{b: b}
	s.visit = func(start, end int) {
		if unsafe != nil {
			return
		}
		literal := string(b[start:end])
		if canonical, ok := keepsValue(literal); !ok {
			unsafe = &UnsafeNumber{pointer(s.path), literal, canonical}
		}
	}
	if err := s.document(); err != nil {
		return err
	}
	if unsafe != nil {
		return unsafe
	}
	return nil
}

// keepsValue reports whether a number survives canonical form, and what becomes
// of it.
func keepsValue(literal string) (canonical string, ok bool) {
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return "", false
	}
	if canonical, err = jcs.NumberToJSON(f); err != nil {
		return "", false
	}
	return canonical, decimalOf(literal) == decimalOf(canonical)
}

// decimal is a number as 0.digits × 10^exp, with digits that neither begin nor
// end in 0: equal numbers have equal decimals, and nothing is ever expanded.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

func decimalOf(literal string) decimal {
	rest, negative := strings.CutPrefix(literal, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(rest), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exp, _ := strconv.Atoi(exponent) // beyond an int it is clamped: such a number never survives
	all := whole + fraction
	digits := strings.TrimLeft(all, "0")
	exp += len(whole) - (len(all) - len(digits))
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return decimal{} // zero has no sign
	}
	return decimal{negative, digits, exp}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(path []string) string {
	var b strings.Builder
	for _, segment := range path {
		b.WriteByte('/')
		pointerEscapes.WriteString(&b, segment)
	}
	return b.String()
}

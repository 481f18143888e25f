package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// errNumberUnsafe: a number would be sent with another value than was written.
var errNumberUnsafe = errors.New("the number would change its value in canonical JSON")

// canonical is the RFC 8785 form of one JSON value. A number that it could only
// write with another decimal value is errNumberUnsafe.
func canonical(raw []byte) ([]byte, error) {
	if journal.IsCanonical(raw) {
		return bytes.Clone(raw), nil
	}
	out, err := jcs.Transform(raw)
	if err == nil && plainNumbers(raw) {
		return out, nil
	}
	if number := unsafeNumber(raw); number != "" {
		return nil, fmt.Errorf("%w: %s", errNumberUnsafe, shorten(number, 60))
	}
	return out, err
}

// plainNumbers reports whether every number in valid JSON is an integer of at most
// 15 digits, as almost all are: such a one keeps its value, and need not be looked
// at closely.
func plainNumbers(raw []byte) bool {
	digits, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c >= '0' && c <= '9':
			if digits++; digits > 15 {
				return false
			}
		case digits > 0 && (c == '.' || c == 'e' || c == 'E'):
			return false
		default:
			digits = 0
		}
	}
	return true
}

// canonicalOf encodes v and brings it into canonical form.
func canonicalOf(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return canonical(b.Bytes())
}

func digestOf(data []byte) string {
	return flow.Digest(data)
}

// unsafeNumber is the first number in raw whose value a float64 cannot carry,
// "" if there is none or raw is not JSON.
func unsafeNumber(raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		if n, ok := token.(json.Number); ok && !safeNumber(n.String()) {
			return n.String()
		}
	}
}

// safeNumber compares decimal values as text: exponents can be far beyond what
// exact arithmetic could expand.
func safeNumber(written string) bool {
	f, err := strconv.ParseFloat(written, 64)
	if err != nil {
		return false
	}
	kept, err := jcs.NumberToJSON(f)
	if err != nil {
		return false
	}
	w, okW := parseDecimal(written)
	k, okK := parseDecimal(kept)
	return okW && okK && w == k
}

// decimal is a number as its significant digits and the power of ten of the
// last one; zero has no digits.
type decimal struct {
	negative bool
	digits   string
	exponent int64
}

func parseDecimal(s string) (decimal, bool) {
	var d decimal
	s, d.negative = strings.CutPrefix(s, "-")
	mantissa := s
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
		e, err := strconv.ParseInt(s[i+1:], 10, 32)
		if err != nil {
			return d, strings.Trim(mantissa, "0.") == "" // zero, whatever its exponent
		}
		d.exponent = e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}, true
	}
	d.exponent += int64(len(digits)-len(d.digits)) - int64(len(fraction))
	return d, true
}

package policy

import (
	"math"
	"strconv"
	"testing"
)

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "10": "10", "0.50": "1/2", "1e3": "1000", "25E-2": "1/4", "-3.5": "-7/2", "1e+2": "100",
	} {
		if got := parseDecimal(text); got == nil || got.RatString() != want {
			t.Errorf("%s is %v, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", ".5", "5.", "+1", "1/3", "0x10", "1_000", "1e1000", "1e", "NaN", "inf", " 1", "1 ", "1\n", "١"} {
		if got := parseDecimal(text); got != nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// FuzzDecimal compares the order of two decimals with that of their nearest
// floats: rounding may make different numbers equal, but never swaps them.
func FuzzDecimal(f *testing.F) {
	f.Add("10", "11.01")
	f.Add("0.1", "1e-1")
	f.Add("-5", "999999999999999999.999999999")
	f.Add("1e999", "1/3")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := parseDecimal(a), parseDecimal(b)
		if x == nil || y == nil {
			return
		}
		fx, errX := strconv.ParseFloat(a, 64)
		fy, errY := strconv.ParseFloat(b, 64)
		if errX != nil && !math.IsInf(fx, 0) || errY != nil && !math.IsInf(fy, 0) {
			t.Fatalf("%q and %q were read, but %v and %v", a, b, errX, errY)
		}
		if order := x.Cmp(y); fx < fy && order >= 0 || fx > fy && order <= 0 || a == b && order != 0 {
			t.Errorf("%s and %s are ordered %d", a, b, order)
		}
	})
}

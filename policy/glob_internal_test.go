package policy

import (
	"testing"

	"pgregory.net/rapid"
)

// TestOverlap compares with all short names: two patterns of at most four
// characters that have a name in common have one of at most seven.
func TestOverlap(t *testing.T) {
	var names []string
	for length, last := 1, []string{""}; length <= 7; length++ {
		var next []string
		for _, s := range last {
			next = append(next, s+"a", s+"b")
		}
		names, last = append(names, next...), next
	}
	pattern := rapid.StringMatching(`[ab*?]{1,4}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := pattern.Draw(t, "a"), pattern.Draw(t, "b")
		want := ""
		for _, s := range names {
			if wild(a, s) && wild(b, s) {
				want = s
				break
			}
		}
		empty := wild(a, "") && wild(b, "")
		if got := meet(a, b); got != (want != "" || empty) {
			t.Fatalf("%s and %s: got %v, both match %q", a, b, got, want)
		}
		if meet(a, b) != meet(b, a) {
			t.Fatalf("%s and %s: it matters which comes first", a, b)
		}
	})
}

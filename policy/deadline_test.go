package policy

import (
	"testing"
	"time"
)

// FuzzMoment compares the order of two moments with that of package time. A day
// lies between its own first second and that of the next.
func FuzzMoment(f *testing.F) {
	f.Add("2026-03-01", "2026-03-01T23:59:59Z")
	f.Add("0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z")
	f.Add("2026-03-01T12:00:00+05:30", "soon")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := parseMoment(a), parseMoment(b)
		if day, err := time.Parse(time.DateOnly, a); err == nil {
			next := day.AddDate(0, 0, 1)
			if x == nil || x.Cmp(moment(day)) <= 0 || x.Cmp(moment(next)) >= 0 {
				t.Errorf("the day %s was read as %v", a, x)
			}
		}
		s, errA := time.Parse(time.RFC3339, a)
		u, errB := time.Parse(time.RFC3339, b)
		if errA != nil || errB != nil {
			return
		}
		if x == nil || y == nil {
			t.Fatalf("%q or %q was not read", a, b)
		}
		if want, got := s.Compare(u), x.Cmp(y); got != want {
			t.Errorf("%s and %s are ordered %d, want %d", a, b, got, want)
		}
	})
}

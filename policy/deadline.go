package policy

import (
	"math/big"
	"time"
)

// parseMoment is a time in nanoseconds since 1970, nil if the text is none. It is
// exact where a time.Duration would run over.
func parseMoment(text string) *big.Rat {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return nil
		}
		t = day.Add(24*time.Hour - time.Second) // a day ends with its last second
	}
	return moment(t)
}

func moment(t time.Time) *big.Rat {
	seconds := big.NewInt(t.Unix())
	nanos := seconds.Mul(seconds, big.NewInt(int64(time.Second)))
	return new(big.Rat).SetInt(nanos.Add(nanos, big.NewInt(int64(t.Nanosecond()))))
}

// mostShift is the part of the time left by which a deadline may move.
var mostShift = big.NewRat(1, 4)

// deadlineShift finds a deadline that moved so far, in either direction, that it
// is another one.
func (c change) deadlineShift() []string {
	old, new := c.old.Deadline, c.new.Deadline
	switch {
	case old == new:
		return nil
	case old == "":
		return []string{"the deadline " + briefly(new) + " is added"}
	case new == "":
		return []string{"the deadline " + briefly(old) + " is removed"}
	}
	if why := shifted(parseMoment(old), parseMoment(new), moment(c.now)); why != "" {
		return []string{became("the deadline", old, new) + ", " + why}
	}
	return nil
}

// shifted says why a deadline has moved too far; "" if it has not.
func shifted(old, new, now *big.Rat) string {
	switch {
	case old == nil || new == nil:
		return "which cannot be compared"
	case old.Cmp(new) == 0:
		return ""
	}
	left := minus(old, now)
	if left.Sign() <= 0 {
		return "and the old one is past"
	}
	part := minus(new, old)
	part.Quo(part.Abs(part), left)
	if part.Cmp(mostShift) <= 0 {
		return ""
	}
	return "by more than a quarter of the time that was left"
}

func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

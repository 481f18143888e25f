package flow

import "math"

// ledger is what a run may use, has used, and has reserved for attempts in flight.
// Counters only grow; used may overshoot limit by what was in flight.
type ledger struct {
	limit, used, reserved Use
	// held is what attempts had reserved of money that were lost: it may have been spent,
	// so nobody else gets it, and it may not, so it does not count as used.
	held  Use
	holds bool // else all that a lost attempt had reserved is used
}

func newLedger(limits Use, holds bool) ledger {
	return ledger{limit: limits.clone(), used: Use{}, reserved: Use{}, held: Use{}, holds: holds}
}

// Fate is how an attempt ended, for what it had reserved.
type Fate int

const (
	Told   Fate = iota // it came to an end that it told of, also to a failure
	Lost               // nobody knows how it ended, nor what it used
	Unsent             // it surely did nothing
)

// Fate is that of the attempt which an effect.failed or effect.finished ends. An outcome
// that somebody decided is that of a lost one.
func (b *Effect) Fate() Fate {
	switch {
	case b.By != "":
		return Lost
	case b.Error != nil && b.Error.NotSent:
		return Unsent
	}
	return Told
}

// Estimated reports whether what is reserved of a bound is an estimate of money, which
// only the use tells. Everything else that is reserved is a count of what is done.
func Estimated(bound string) bool { return bound == CostUSD || bound == Tokens }

func (u Use) clone() Use {
	c := make(Use, len(u))
	for name, n := range u {
		c[name] = n
	}
	return c
}

func (u Use) add(v Use) {
	for name, n := range v {
		u[name] += n
	}
}

// refuses names the first bound, in order of name, that want would exceed. What
// is not limited ends where numbers do.
func (l *ledger) refuses(want Use) string {
	var room [8]string
	for _, name := range want.appendNames(room[:0]) {
		limit, ok := l.limit[name]
		if !ok {
			limit = math.MaxInt64
		}
		if want[name] > limit-l.used[name]-l.held[name]-l.reserved[name] {
			return name
		}
	}
	return ""
}

func (l *ledger) tally() Tally { return Tally{l.used.clone(), l.held.clone(), l.limit.clone()} }

// left is what nobody has used or holds of a bound; false: it has no limit.
func (l *ledger) left(bound string) (int64, bool) {
	limit, ok := l.limit[bound]
	return max(0, limit-l.used[bound]-l.held[bound]-l.reserved[bound]), ok
}

func (l *ledger) reserve(want Use) { l.reserved.add(want) }

// settle ends a reservation: what was reported is charged, or all of it where
// nothing was reported. Of money a lost attempt holds what it has not reported, and
// one that did nothing gives all of it back.
func (l *ledger) settle(reserved, reported Use, how Fate) {
	for name, n := range reserved {
		l.reserved[name] -= n
		told, ok := reported[name]
		switch estimate := l.holds && Estimated(name); {
		case estimate && how == Lost:
			if n > told {
				l.held[name] += n - told
			}
		case estimate && how == Unsent, ok:
		default:
			l.used[name] += n
		}
	}
	l.used.add(reported)
}

func (l *ledger) extend(by Use) {
	for name, n := range by {
		if _, ok := l.limit[name]; ok {
			l.limit[name] += max(n, 0)
		}
	}
}

package flow

import "math"

// ledger is what a run may use, has used, and holds for attempts in flight.
// Counters only grow; used may overshoot limit by what was in flight.
type ledger struct{ limit, used, held Use }

func newLedger(limits Use) ledger {
	return ledger{limit: limits.clone(), used: Use{}, held: Use{}}
}

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
		if want[name] > limit-l.used[name]-l.held[name] {
			return name
		}
	}
	return ""
}

func (l *ledger) hold(want Use) { l.held.add(want) }

// settle ends a reservation: what was reported is charged, or all of it where
// nothing was reported.
func (l *ledger) settle(held, reported Use) {
	for name, n := range held {
		l.held[name] -= n
		if _, ok := reported[name]; !ok {
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

package tipstaff

import (
	"math"

	"github.com/tipstaff/tipstaff/flow"
)

// Ledger is what a run may use, has used and holds for attempts in flight, as
// its records tell, by the rules by which the engine grants.
type Ledger struct {
	Limit flow.Use `json:"limit,omitempty"` // a name without limit is only counted
	Used  flow.Use `json:"used,omitempty"`
	// Lost is what of Used was reserved by attempts that told nothing of it: money alone,
	// for everything else is counted as it is reserved.
	Lost flow.Use `json:"lost,omitempty"`
	// Open holds, by path, what each unsettled attempt has reserved.
	Open map[string]flow.Use `json:"open,omitempty"`
	// Suspended are the paths of those that wait elsewhere: what they use is counted
	// there until they have an outcome.
	Suspended map[string]bool `json:"suspended,omitempty"`
	// Granted holds, by gate, extensions that were decided and not yet taken: until
	// then they raise nothing.
	Granted map[string]flow.Use `json:"granted,omitempty"`
}

// Held is what unsettled attempts have reserved of a bound.
func (l *Ledger) Held(name string) int64 {
	var sum int64
	for _, reserve := range l.Open {
		sum = saturated(sum, max(reserve[name], 0))
	}
	return sum
}

// intend holds what an attempt reserves. A former attempt of which nothing more
// was heard was lost in a crash, and is charged in full: a crash loop cannot
// spend for free.
func (l *Ledger) intend(path string, reserve flow.Use) {
	if _, lost := l.Open[path]; lost {
		l.settle(path, nil)
	}
	put(&l.Open, path, reserve)
}

// reserve holds more for an attempt under way.
func (l *Ledger) reserve(path string, more flow.Use) {
	held, open := l.Open[path]
	if !open && !l.Suspended[path] {
		return
	}
	sum := flow.Use{}
	for _, part := range []flow.Use{held, more} {
		for name, n := range part {
			sum[name] = saturated(sum[name], max(n, 0))
		}
	}
	put(&l.Open, path, sum)
}

func (l *Ledger) suspend(path string) { put(&l.Suspended, path, true) }

// end charges what was in flight when the run ended: nobody will report it.
func (l *Ledger) end() {
	for path := range l.Open {
		if !l.Suspended[path] {
			l.settle(path, nil)
		}
	}
	l.Open, l.Suspended, l.Granted = nil, nil, nil
}

// settle ends an attempt: what it reported is charged, and of what it did not
// report the reservation.
func (l *Ledger) settle(path string, reported flow.Use) {
	for name, n := range l.Open[path] {
		if _, ok := reported[name]; !ok {
			l.charge(name, n)
			if name == BoundCostUSD && n > 0 {
				put((*map[string]int64)(&l.Lost), name, saturated(l.Lost[name], n))
			}
		}
	}
	for name, n := range reported {
		l.charge(name, n)
	}
	delete(l.Open, path)
	delete(l.Suspended, path)
}

func (l *Ledger) charge(name string, n int64) {
	if n < 0 {
		return // counters only grow
	}
	put((*map[string]int64)(&l.Used), name, saturated(l.Used[name], n))
}

// grant remembers an extension until the run takes it.
func (l *Ledger) grant(gate string, by flow.Use) { put(&l.Granted, gate, by) }

// take raises the limits that a decision extended.
func (l *Ledger) take(gate string) {
	for name, n := range l.Granted[gate] {
		if limit, ok := l.Limit[name]; ok && n > 0 {
			l.Limit[name] = saturated(limit, n)
		}
	}
	delete(l.Granted, gate)
}

// carry takes over totals of an earlier segment or of a fork's source. What was
// in flight before it is settled there.
func (l *Ledger) carry(used, limit flow.Use) {
	if used != nil {
		l.Used = used
	}
	if limit != nil {
		l.Limit = limit
	}
	l.Open, l.Suspended, l.Granted = nil, nil, nil
}

// put sets an entry of a map that may be yet to be made.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// saturated is a + b, or the largest number there is.
func saturated(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

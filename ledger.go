package tipstaff

import (
	"math"
	"strings"

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
	// Held is what attempts had reserved that were lost: nobody knows what they used.
	Held flow.Use `json:"held,omitempty"`
	// Holds: what lost attempts had reserved of money is held; else it is used.
	Holds bool `json:"holds,omitempty"`
	// Open is, by path, what each unsettled attempt has reserved, and Known what it is known
	// to have used.
	Open  map[string]flow.Use `json:"open,omitempty"`
	Known map[string]flow.Use `json:"known,omitempty"`
	// Tries are, by path, the numbers of those attempts that are not the first.
	Tries map[string]int `json:"tries,omitempty"`
	// Suspended are the paths of those that wait elsewhere: what they use is counted
	// there until they have an outcome.
	Suspended map[string]bool `json:"suspended,omitempty"`
	// Granted holds, by gate, extensions that were decided and not yet taken: until
	// then they raise nothing.
	Granted map[string]flow.Use `json:"granted,omitempty"`
}

// Reserved is what unsettled attempts have reserved of a bound.
func (l *Ledger) Reserved(name string) int64 {
	var sum int64
	for _, reserve := range l.Open {
		sum = saturated(sum, max(reserve[name], 0))
	}
	return sum
}

// intend takes what an attempt reserves. A former attempt of which nothing more
// was heard was lost in a crash, and what it had reserved stays gone: a crash loop
// cannot spend for free.
func (l *Ledger) intend(path string, b *Effect) {
	if _, lost := l.Open[path]; lost {
		l.lose(path)
	}
	put(&l.Open, path, b.Reserve)
	if b.Attempt > 1 {
		put(&l.Tries, path, b.Attempt)
	}
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

// spent is what an attempt under way is known to have used.
func (l *Ledger) spent(path string, soFar flow.Use) {
	if _, open := l.Open[path]; open {
		put(&l.Known, path, soFar)
	}
}

// end settles what was in flight when the run ended: nobody will report it.
func (l *Ledger) end() {
	for path := range l.Open {
		if !l.Suspended[path] {
			l.lose(path)
		}
	}
	l.Open, l.Known, l.Tries, l.Suspended, l.Granted = nil, nil, nil, nil, nil
}

// finish ends an attempt as the record of its end says.
func (l *Ledger) finish(path string, b *Effect) {
	for name, n := range b.Held {
		more(&l.Held, name, n)
	}
	if l.Holds && b.Attempt > max(1, l.Tries[path]) { // the next one was refused, and this one lost
		l.lose(path)
	}
	if b.Fate() == flow.Lost && b.Use == nil {
		l.lose(path)
		return
	}
	l.settle(path, b.Use, b.Fate())
}

// decideDoubt loses the attempt that somebody has decided about at a gate: what became of
// it stays unknown, unless that was brought.
func (l *Ledger) decideDoubt(gate string, given map[string]int64) {
	path := AskerPath(InDoubt, gate)
	if _, open := l.Open[path]; l.Holds && open && given[path] == 0 && strings.HasPrefix(gate, path+"/in_doubt") {
		l.lose(path)
	}
}

// lose ends an attempt that nobody will hear of any more.
func (l *Ledger) lose(path string) { l.settle(path, l.Known[path], flow.Lost) }

// settle ends an attempt: what it reported is charged, and of what it did not report the
// reservation. Of money a lost attempt holds the rest, and one that did nothing gives it
// back.
func (l *Ledger) settle(path string, reported flow.Use, how flow.Fate) {
	for name, n := range l.Open[path] {
		told, ok := reported[name]
		switch estimate := l.Holds && flow.Estimated(name); {
		case estimate && how == flow.Lost:
			more(&l.Held, name, n-told)
		case estimate && how == flow.Unsent, ok:
		default:
			l.charge(name, n)
			if name == BoundCostUSD {
				more(&l.Lost, name, n)
			}
		}
	}
	for name, n := range reported {
		l.charge(name, n)
	}
	delete(l.Open, path)
	delete(l.Known, path)
	delete(l.Tries, path)
	delete(l.Suspended, path)
}

func (l *Ledger) charge(name string, n int64) {
	if n < 0 {
		return // counters only grow
	}
	put((*map[string]int64)(&l.Used), name, saturated(l.Used[name], n))
}

// more adds what is not nothing.
func more(to *flow.Use, name string, n int64) {
	if n > 0 {
		put((*map[string]int64)(to), name, saturated((*to)[name], n))
	}
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
func (l *Ledger) carry(used, held, limit flow.Use) {
	if used != nil {
		l.Used, l.Held = used, held
	}
	if limit != nil {
		l.Limit = limit
	}
	l.Open, l.Known, l.Tries, l.Suspended, l.Granted = nil, nil, nil, nil, nil
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

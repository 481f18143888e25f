package cortex

import (
	"slices"
	"time"
)

// blaming are the reasons which say that what the run relied on was wrong, not the world.
var blaming = []string{"factual_error", "wrong_assumption", "output_invalid"}

// delta is what an end says about the items that were cited.
func (b *Attest) delta() int {
	switch {
	case b.Outcome == Success:
		return 1
	case b.Outcome == Failure && slices.Contains(blaming, b.Reason):
		return -1
	}
	return 0
}

// Change is what the end of a run does to an item.
type Change struct {
	Item URI
	Standing
}

// Settle is what follows from the end of a run: the record that comes right after
// its attest, and the items that change. standing tells how an item stands;
// false: it is not there.
func Settle(seq int64, at time.Time, b *Attest, w Weights, standing func(URI) (Standing, bool, error)) (*LearnWeights, []Change, error) {
	delta := b.delta()
	learned := &LearnWeights{Counted: []string{}, Delta: delta, New: w, Prev: w, SourceSeq: seq}
	changes, err := counted(b, standing)
	if err != nil {
		return nil, nil, err
	}
	worth := make([]Factors, len(changes))
	for i := range changes {
		c := &changes[i]
		worth[i] = c.Factors(at)
		learned.Counted = append(learned.Counted, c.Item.String())
		c.cited(delta, at)
	}
	switch {
	case delta == 0:
		learned.Why = Neutral
	case len(changes) == 0:
		learned.Why = NothingCounted
	default:
		var ok bool
		if learned.New, ok = w.learn(int64(delta), worth); !ok {
			learned.Why = Degenerate
		}
	}
	learned.Skipped = learned.Why != ""
	return learned, changes, nil
}

// counted are the cited items that were there before the run, each once: a run
// does not learn from its own events.
func counted(b *Attest, standing func(URI) (Standing, bool, error)) ([]Change, error) {
	var changes []Change
	seen, began := map[URI]bool{}, time.Time(b.Began)
	for _, item := range b.Cited {
		u, err := ParseURI(item)
		if err != nil {
			return nil, err
		}
		if seen[u] || u.ID.Time().After(began) { // an id tells its time to the millisecond: most need no look
			continue
		}
		seen[u] = true
		s, ok, err := standing(u)
		if err != nil {
			return nil, err
		}
		if ok && s.Forgotten == 0 && s.Created.Before(began) {
			changes = append(changes, Change{u, s})
		}
	}
	return changes, nil
}

func (s *Standing) cited(delta int, at time.Time) {
	switch delta {
	case 1:
		s.Citations++
		s.Accesses++
		s.LastUse = at
	case -1:
		s.Citations = max(0, s.Citations-1)
	default:
		s.LastUse = at
	}
}

package cortex

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
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

// Ending is the attest of a run that a terminal envelope ends. own are the items
// that the run itself has left behind; the envelope's body names the others.
func Ending(d flow.Draft, began time.Time, own []URI) (*Attest, error) {
	var body tipstaff.Terminal
	if err := json.Unmarshal(d.Body, &body); err != nil {
		return nil, fmt.Errorf("the body of %s: %w", d.Kind, err)
	}
	a := &Attest{Began: Time(began), Cited: []string{}, CreatedBy: body.OnBehalfOf}
	if a.CreatedBy == "" {
		a.CreatedBy = d.From
	}
	switch tipstaff.Kind(d.Kind) {
	case tipstaff.KindIntentAttest:
		a.Outcome = body.Outcome
	case tipstaff.KindIntentFail:
		a.Outcome, a.Reason = Failure, body.Reason
	case tipstaff.KindIntentCancel:
		a.Outcome = Cancelled
	default:
		return nil, fmt.Errorf("%s ends no run", d.Kind)
	}
	for _, u := range own {
		body.Cited = append(body.Cited, u.String())
	}
	seen := map[string]bool{}
	for _, item := range body.Cited {
		if !seen[item] {
			seen[item] = true
			a.Cited = append(a.Cited, item)
		}
	}
	return a, nil
}

// Sign puts into the body of a terminal envelope what the memory keeps of the
// run: the items it cites, and where in the log its attest stands.
func (b *Attest) Sign(body json.RawMessage, seq int64) (json.RawMessage, error) {
	var members, evidence map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(members["evidence"], &evidence); err != nil || evidence == nil {
		return nil, fmt.Errorf("the evidence of a terminal envelope is not an object")
	}
	evidence["cortex"] = flow.JSON(Place{AttestSeq: seq, LearnSeq: seq + 1})
	members["evidence"] = flow.JSON(evidence)
	members["cited"] = flow.JSON(b.Cited)
	return flow.JSON(members), nil
}

// Place is where the memory's log tells of the end of a run: what a terminal
// envelope says under evidence.cortex.
type Place struct {
	AttestSeq int64 `json:"attest_seq"`
	LearnSeq  int64 `json:"learn_seq"`
}

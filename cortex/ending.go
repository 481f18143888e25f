package cortex

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Ending is the attest of a run that a terminal envelope ends. own are the items
// that the run itself has left behind; the envelope's body names the others.
func Ending(d flow.Draft, began time.Time, own []URI) (*Attest, error) {
	var body struct {
		Outcome string   `json:"outcome"`
		Reason  string   `json:"reason"`
		Cited   []string `json:"cited"`
		Actor   string   `json:"on_behalf_of"`
	}
	if err := json.Unmarshal(d.Body, &body); err != nil {
		return nil, fmt.Errorf("the body of %s: %w", d.Kind, err)
	}
	a := &Attest{Began: Time(began), Cited: []string{}, CreatedBy: body.Actor}
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

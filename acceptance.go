package tipstaff

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Acceptances knows which programs a user has accepted in a run, by the
// envelopes seen so far. Its zero value has seen none.
//
// A program takes effect (plan.proposed) only if the envelope it names accepted
// exactly its intent and its program: an intent.accept or, after a material
// correction, the decision of the confirmation gate. A correction that is not
// material runs under the acceptance in force, which covers it from then on.
type Acceptances struct {
	byEnvelope map[ID][]Terms   // what each covers
	shown      map[string]Terms // what open confirmation gates show
	inForce    ID               // the acceptance under which the last program took effect
}

func (t Terms) complete() bool { return t.IntentHash != "" && t.ProgramDigest != "" }

// Apply takes note of an envelope. It returns [ErrNotAccepted] for a
// plan.proposed that rests on no acceptance, and nothing else.
func (a *Acceptances) Apply(e *Event) error {
	switch e.Kind {
	case KindIntentAccept:
		var body IntentAccept
		// What a gate showed and what is accepted by it are one and the same.
		if decode(e.Body, &body) && byUser(e, body.OnBehalfOf) && (body.Gate == "" || a.shown[body.Gate] == body.Terms) {
			a.accept(e.ID, body.Terms)
		}
		delete(a.shown, body.Gate)
	case KindPolicyGate:
		var body GateOpened
		if decode(e.Body, &body) && GateKind(body.Kind) == Confirmation {
			var terms Terms
			_ = decode(body.Subject, &terms) // what it does not show it cannot accept
			put(&a.shown, body.Gate, terms)
		}
	case KindPolicyGateResolve:
		var body GateResolved
		if !decode(e.Body, &body) {
			return nil
		}
		if body.Action == "accept" && body.Decision() && byUser(e, body.OnBehalfOf) {
			a.accept(e.ID, a.shown[body.Gate])
		}
		delete(a.shown, body.Gate)
	case KindIntentCorrect:
		var body IntentCorrect
		if decode(e.Body, &body) && body.Material != nil && !*body.Material && !a.inForce.IsZero() {
			a.accept(a.inForce, body.Terms)
		}
	case KindPlanProposed:
		return a.check(e)
	}
	return nil
}

func (a *Acceptances) accept(id ID, t Terms) {
	if !t.complete() || id.IsZero() {
		return
	}
	put(&a.byEnvelope, id, append(a.byEnvelope[id], t))
}

func (a *Acceptances) check(e *Event) error {
	var body PlanProposed
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return fmt.Errorf("%w: the body of plan.proposed is unreadable: %v", ErrNotAccepted, err)
	}
	by, err := ParseID(body.AcceptedBy)
	if err != nil {
		return fmt.Errorf("%w: plan.proposed names no acceptance", ErrNotAccepted)
	}
	covered := a.byEnvelope[by]
	if len(covered) == 0 {
		return fmt.Errorf("%w: %s is not an acceptance of this run", ErrNotAccepted, by)
	}
	if !slices.Contains(covered, body.Terms) {
		accepted := covered[0]
		if accepted.ProgramDigest != body.ProgramDigest {
			return fmt.Errorf("%w: %s accepted program %s, not %s", ErrNotAccepted, by, accepted.ProgramDigest, body.ProgramDigest)
		}
		return fmt.Errorf("%w: %s accepted intent %s, not %s", ErrNotAccepted, by, accepted.IntentHash, body.IntentHash)
	}
	a.inForce = by
	return nil
}

// byUser reports whether a user stands behind an envelope: by the user's key, or
// by a surface that signs with the executor's and says for whom.
func byUser(e *Event, onBehalfOf string) bool { return e.From == "user" || onBehalfOf != "" }

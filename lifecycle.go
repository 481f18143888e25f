package tipstaff

import (
	"errors"
	"fmt"
	"slices"
)

// State is where a run stands in its lifecycle.
type State string

const (
	Drafting   State = "drafting"
	Proposed   State = "proposed"
	Clarifying State = "clarifying"
	Accepted   State = "accepted"
	Executing  State = "executing"
	Completed  State = "completed"
	Failed     State = "failed"
	Cancelled  State = "cancelled"
)

// edges are the 18 legal transitions. Terminal states have none.
var edges = map[State][]State{
	Drafting:   {Cancelled, Failed, Proposed},
	Proposed:   {Accepted, Cancelled, Clarifying, Failed},
	Clarifying: {Cancelled, Failed, Proposed},
	Accepted:   {Cancelled, Executing, Failed},
	// A correction leaves a run executing or, if it is material, sends it back to
	// accepted until someone accepts it.
	Executing: {Accepted, Cancelled, Completed, Executing, Failed},
}

// Transition reports whether a run may move from one state to another. Unknown
// states move nowhere.
func Transition(from, to State) bool { return slices.Contains(edges[from], to) }

// Terminal reports whether the state is an end.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Errors of [Machine.Apply] and [Acceptances.Apply].
var (
	ErrNoEnvelope        = errors.New("no envelope")
	ErrEnvelopeMismatch  = errors.New("the envelope belongs to another run")
	ErrUnknownKind       = errors.New("the kind drives no lifecycle")
	ErrTerminal          = errors.New("the run has ended")
	ErrInvalidTransition = errors.New("the lifecycle has no such transition")
	ErrNotAccepted       = errors.New("nobody accepted exactly this program")
)

// Machine is the lifecycle of one run: the fold of its envelopes. The zero
// Machine stands before intent.draft, which names the run and makes it drafting.
type Machine struct {
	Run   ID    `json:"run,omitzero"`
	State State `json:"state,omitempty"`
}

// Apply moves the machine as an envelope says, or returns one of the errors
// above and changes nothing.
//
// Only kinds that drive are taken: of others, ask [Kind.Driving] first.
// intent.draft is taken by a machine without a state, and by no other.
func (m *Machine) Apply(e *Event) error {
	if e == nil {
		return ErrNoEnvelope
	}
	creates := m.State == "" && e.Kind == KindIntentDraft
	if e.Run != m.Run && !(creates && m.Run.IsZero()) {
		return fmt.Errorf("%w: %s is not %s", ErrEnvelopeMismatch, e.Run, m.Run)
	}
	if creates {
		*m = Machine{Run: e.Run, State: Drafting}
		return nil
	}
	to, err := target(e)
	if err != nil {
		return err
	}
	if m.State.Terminal() {
		return fmt.Errorf("%w: %s after %s", ErrTerminal, e.Kind, m.State)
	}
	if !Transition(m.State, to) {
		return fmt.Errorf("%w: from %q to %s by %s", ErrInvalidTransition, string(m.State), to, e.Kind)
	}
	m.State = to
	return nil
}

// target is the state an envelope drives to. Of the bodies, only that of
// intent.correct has a say.
func target(e *Event) (State, error) {
	switch e.Kind {
	case KindIntentCompiled, KindIntentAnswer:
		return Proposed, nil
	case KindIntentClarify:
		return Clarifying, nil
	case KindIntentAccept:
		return Accepted, nil
	case KindPlanProposed:
		return Executing, nil
	case KindIntentAttest:
		return Completed, nil
	case KindIntentFail:
		return Failed, nil
	case KindIntentCancel:
		return Cancelled, nil
	case KindIntentCorrect:
		// An unreadable correction is taken for a material one: it may then not go
		// on without an acceptance.
		var body IntentCorrect
		if !decode(e.Body, &body) || body.Material != nil && *body.Material {
			return Accepted, nil
		}
		return Executing, nil
	}
	return "", fmt.Errorf("%w: %q", ErrUnknownKind, string(e.Kind))
}

// Lifecycle is the way a run took, in words: drafting --[intent.compiled]-->
// proposed and so on. Records that drive nothing, or not from where the run
// stood, leave no trace in it.
func Lifecycle(events []Event) string {
	var t trail
	for i := range events {
		t.apply(&events[i])
	}
	return t.Text
}

// trail is a machine that remembers its way.
type trail struct {
	Machine
	Text string `json:"text,omitempty"`
}

func (t *trail) apply(e *Event) {
	switch {
	case t.Machine.Apply(e) != nil:
	case t.Text == "":
		t.Text = string(t.State)
	default:
		t.Text += " --[" + string(e.Kind) + "]--> " + string(t.State)
	}
}

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Answers to a confirmation.
const (
	actionAccept = "accept"
	actionReject = "reject"
	actionRevise = "revise" // of a draft: it is written again, with what the person says
	actionKeep   = "keep"
	actionCancel = "cancel"
)

// confirmed is what a confirmation continues with.
type confirmed struct {
	Gate     string `json:"gate"`
	Action   string `json:"action"`
	Feedback string `json:"feedback,omitempty"`
}

// confirmSubject is exactly what is accepted.
type confirmSubject struct {
	IntentHash    string            `json:"intent_hash"`
	ProgramDigest string            `json:"program_digest"`
	Reasons       []tipstaff.Reason `json:"reasons"`
	Changes       []tipstaff.Change `json:"changes,omitempty"`
}

// confirmation asks whether a plan may take effect. Nobody answers it but a person,
// and no time runs out. Its plan is the one in force, which it leaves, or of a run that
// has none the one that is to be confirmed.
type confirmation struct{ *planProgram }

func (p *confirmation) root() string {
	if d := p.segment.Draft; d != nil {
		return revisedRoot(phaseConfirm, len(d.Wanted)+1)
	}
	return revisedRoot(phaseConfirm, p.segment.Revision.Number)
}

func (p *confirmation) continues() bool { return true }

func (p *confirmation) flow(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	p.left = newRemainder(p.segment.Approved)
	next, former := p.segment.Revision, p.segment.Former
	if former == nil {
		return p.confirmFirst(fc)
	}
	d, err := fc.Wait(flow.Gate{Kind: string(tipstaff.Confirmation),
		Question: fmt.Sprintf("Revision %d changes what was accepted. Accept it, keep revision %d, or cancel the run?", next.Number, former.Number),
		Subject:  flow.JSON(confirmSubject{next.IntentHash, next.ProgramDigest, p.segment.Reasons, p.segment.Changes}),
		Actions:  []string{actionAccept, actionKeep, actionCancel}, Deny: actionCancel})
	if err != nil {
		return nil, err
	}
	if d.Action == actionAccept || d.Action == actionKeep {
		return nil, flow.Continue(flow.JSON(confirmed{Gate: d.Gate, Action: d.Action}))
	}
	return nil, &declined{decision: d}
}

// next turns to what the answer has chosen.
func (p *confirmation) next(ctx context.Context, t *transition, state json.RawMessage, cut bool) error {
	if cut {
		return p.planProgram.next(ctx, t, nil, cut)
	}
	var answer confirmed
	if err := json.Unmarshal(state, &answer); err != nil {
		return errors.New("the program goes on although nothing was confirmed")
	}
	if err := p.handOn(ctx, t); err != nil {
		return err
	}
	if answer.Action == actionRevise && p.segment.Draft != nil {
		d := *p.segment.Draft
		d.Wanted = append(slices.Clone(d.Wanted), answer.Feedback)
		t.to = segment{Phase: phaseDraft, Latest: 1, Revision: *d.With, Draft: &d, Recalled: t.to.Recalled}
		d.With = nil
		return nil
	}
	chosen := p.segment.Revision
	if chosen.IntentHash == "" {
		chosen.IntentHash = p.doc.Intent.Hash()
	}
	switch {
	case answer.Action == actionAccept:
		i := slices.IndexFunc(t.events, func(e tipstaff.Event) bool { return decides(&e, answer.Gate) })
		if i < 0 {
			return fmt.Errorf("no record decides gate %s", answer.Gate)
		}
		var b tipstaff.GateResolved
		chosen.ByParent = json.Unmarshal(t.events[i].Body, &b) == nil && b.Via == viaParent
		chosen.AcceptedBy, chosen.Asks = t.events[i].ID.String(), p.stillAsks(chosen.ByParent)
		chosen.Shown = p.draft.Rules >= rulesShown
	case answer.Action == actionKeep && p.segment.Former != nil:
		chosen = *p.segment.Former
	default:
		return fmt.Errorf("a confirmation was answered with %q", answer.Action)
	}
	t.before = []flow.Draft{{Kind: string(tipstaff.KindPlanProposed), From: journal.Executor, Body: flow.JSON(chosen.proposed())}}
	t.to.Phase, t.to.Revision = phaseWalk, chosen
	return nil
}

// stillAsks is which calls ask of a program that was accepted at the gate. Of a correction a
// person was shown the changes alone, and a parent is nobody who may decide.
func (p *confirmation) stillAsks(byParent bool) string {
	switch {
	case p.draft.Rules < rulesAsk:
		return ""
	case p.segment.Former != nil:
		return p.segment.Former.Asks
	case byParent:
		return p.segment.Revision.Asks
	}
	return ""
}

// firstSubject is what is accepted of a program that nobody has accepted yet.
type firstSubject struct {
	IntentHash    string            `json:"intent_hash"`
	ProgramDigest string            `json:"program_digest"`
	Intent        json.RawMessage   `json:"intent"`
	Outline       *tipstaff.Outline `json:"outline"`
	Bounds        tipstaff.Bounds   `json:"bounds"`
	// Cut are the calls of which not every value is shown. The acceptance does not cover
	// them: they ask when their turn comes.
	Cut []string `json:"cut,omitempty"`

	FeedbackRequired []string `json:"feedback_required_for,omitempty"`
}

// confirmFirst asks about a program that somebody else than its user brought.
func (p *confirmation) confirmFirst(fc flow.Context) (json.RawMessage, error) {
	subject := firstSubject{p.doc.Intent.Hash(), p.draft.ProgramDigest, p.doc.Intent.JSON(), p.doc.Outline(p.resolver()), p.draft.Bounds, nil, nil}
	if p.draft.Rules < rulesShown {
		withoutGiven(subject.Outline)
	} else {
		subject.Cut = slices.Sorted(maps.Keys(cutIn(subject.Outline)))
	}
	actions := []string{actionAccept, actionReject}
	if d := p.segment.Draft; d != nil && len(d.Wanted) < mostRevised {
		actions, subject.FeedbackRequired = []string{actionAccept, actionRevise, actionReject}, []string{actionRevise}
	}
	d, err := fc.Wait(flow.Gate{Kind: string(tipstaff.Confirmation), Question: "Accept this plan?",
		Subject: flow.JSON(subject),
		Actions: actions, Deny: actionReject})
	if err != nil {
		return nil, err
	}
	switch d.Action {
	case actionAccept:
		return nil, flow.Continue(flow.JSON(confirmed{Gate: d.Gate, Action: d.Action}))
	case actionRevise:
		return nil, flow.Continue(flow.JSON(confirmed{d.Gate, d.Action, d.Feedback}))
	}
	return nil, &declined{decision: d}
}

// withoutGiven makes an outline what it was under the first rules.
func withoutGiven(o *tipstaff.Outline) {
	o.Given = nil
	for _, c := range o.Children {
		withoutGiven(c)
	}
}

// accept is the acceptance of a program that a gate has shown.
func (r *Runner) accept(ctx context.Context, g tipstaff.Gate, req tipstaff.DecideRequest) ([]flow.Draft, error) {
	if len(req.Answer) > 0 {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "an acceptance takes no answer").WithCommand("say why with --note")
	}
	var shown firstSubject
	if err := json.Unmarshal(g.Subject, &shown); err != nil {
		return nil, fmt.Errorf("gate %s: %w", g.Key, err)
	}
	body := tipstaff.IntentAccept{Terms: tipstaff.Terms{IntentHash: shown.IntentHash, ProgramDigest: shown.ProgramDigest}, Revision: 1, Bounds: shown.Bounds,
		Via: req.Via, Client: client(ctx), Gate: g.ID.String(), Note: req.Note, DecidedBy: req.DecidedBy, OnBehalfOf: principal(ctx)}
	return []flow.Draft{{Kind: string(tipstaff.KindIntentAccept), Path: g.Key, From: signer(ctx), Body: flow.JSON(body)}}, nil
}

// declined ends a run by a decision: it is cancelled, not failed.
type declined struct {
	decision flow.Decision
	cause    error // nil: it has none beside the decision
}

func (d *declined) Unwrap() error { return d.cause }

func (d *declined) Error() string {
	switch {
	case d.decision.Note != "":
		return d.decision.Note
	case d.cause != nil:
		return d.cause.Error()
	}
	return "the confirmation was answered with " + d.decision.Action
}

// Declined is the error of a performer whose run a decision ends: it is cancelled. cause
// says what was decided about.
func Declined(d flow.Decision, cause error) error { return &declined{d, cause} }

// ended is an outcome as the run's lifecycle knows it: what a decision has ended
// is cancelled.
func ended(out flow.Outcome) flow.Outcome {
	if errors.As(out.Err, new(*declined)) && out.Status == flow.Failed {
		out.Status = flow.Cancelled
	}
	return out
}

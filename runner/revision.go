package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
)

// revision is a program of a run, with what was frozen for it. The first is that
// of the intent.draft; every correction makes the next.
type revision struct {
	Number        int               `json:"number,omitzero"` // from 1; it has none before it is taken up
	ProgramDigest string            `json:"program_digest"`
	IntentHash    string            `json:"intent_hash"`
	Skill         string            `json:"skill,omitempty"`
	SkillDigest   string            `json:"skill_digest,omitempty"`
	Bounds        tipstaff.Bounds   `json:"bounds"`
	Frozen        map[string]string `json:"frozen"`
	// ByParent: its parent has accepted it, and nobody who could see its calls.
	ByParent bool `json:"by_parent,omitempty"`
	// Shown: a person has accepted it at a gate, who knows of it what the gate has shown.
	Shown bool `json:"shown,omitempty"`
	// Asks is that of the draft, for this program.
	Asks string `json:"asks,omitempty"`
	// AcceptedBy is the envelope under whose acceptance it runs. "": nobody has
	// accepted it yet.
	AcceptedBy string `json:"accepted_by,omitempty"`
	// Accepted is the revision that was accepted, if it is another: one that does
	// not change the terms runs under the acceptance of those before. Later ones are
	// compared with what was accepted, so that small steps do not add up unseen.
	Accepted *revision `json:"accepted,omitempty"`
}

// accepted is the revision that somebody has accepted.
func (r revision) accepted() revision {
	if r.Accepted != nil {
		return *r.Accepted
	}
	return r
}

// corrected is the number as surfaces show it: a program that was never corrected
// needs none.
func (r revision) corrected() int {
	if r.Number > 1 {
		return r.Number
	}
	return 0
}

// proposed is the envelope that puts r in force.
func (r revision) proposed() tipstaff.PlanProposed {
	return tipstaff.PlanProposed{Terms: tipstaff.Terms{IntentHash: r.IntentHash, ProgramDigest: r.ProgramDigest}, Revision: r.Number, AcceptedBy: r.AcceptedBy}
}

// Phases of a run that has a program.
const (
	phaseWalk    = "walk"    // the program is walked
	phaseConfirm = "confirm" // a person is asked whether a program may take effect
)

// segment is what a segment of a run's history is about: the state of the
// run.continued that opens it. The first segment has no such record, and is the
// walk of revision 1.
type segment struct {
	Phase    string    `json:"phase"`
	Revision revision  `json:"revision"`         // the one that is walked, or to be confirmed
	Former   *revision `json:"former,omitempty"` // while one is to be confirmed: the one in force
	// Reasons say why it must be confirmed.
	Reasons []tipstaff.Reason `json:"reasons,omitempty"`
	Changes []tipstaff.Change `json:"changes,omitempty"` // and what is confirmed
	Latest  int               `json:"latest"`            // the highest number of a revision so far

	Draft *drafting `json:"draft,omitempty"` // how far a draft has come

	Recalled []string `json:"recalled,omitempty"` // items of the memory that its drafting began with

	Carried  map[string]plan.Done   `json:"carried,omitempty"`
	InDoubt  map[string]doubtedCall `json:"in_doubt,omitempty"`
	Approved map[string]approval    `json:"approved,omitempty"`

	// Pipeline is the state with which a pipeline goes on, and Sessions what the stages
	// that keep a session have said in it: digests, by stage.
	Pipeline json.RawMessage   `json:"pipeline,omitempty"`
	Begins   json.RawMessage   `json:"begins,omitempty"` // or the Envelope with which one begins that was a draft
	Sessions map[string]string `json:"talks,omitempty"`

	since int64 // seq of the run.continued; 0: the run itself has none
}

// doubtedCall is a call in doubt as a segment keeps it: a long input by digest.
type doubtedCall struct {
	plan.Doubt
	InputDigest string `json:"input_digest,omitempty"`
}

// approval is a decision that a call may be made, and what it was about. It holds
// for one call.
type approval struct {
	Gate    string `json:"gate"`
	Subject string `json:"subject"` // digest
}

// inForce is the revision that evidence speaks of.
func (c *segment) inForce() revision {
	if c.Former != nil {
		return *c.Former
	}
	return c.Revision
}

// first is the segment of a run that was never corrected: the walk of a program
// that was accepted when the run was made, else its confirmation.
func (b *draftBody) first() segment {
	phase := phaseConfirm
	switch {
	case b.Hold:
		phase = phaseHold
	case b.ProgramDigest == "":
		phase = phaseDraft
	case b.acceptedVia != "":
		phase = phaseWalk
	}
	first := b.asRevision("")
	first.Number = 1
	return segment{Phase: phase, Latest: 1, Revision: first}
}

// asRevision is the program of the draft as a revision that has no number yet.
func (b *draftBody) asRevision(intentHash string) revision {
	return revision{ProgramDigest: b.ProgramDigest, IntentHash: intentHash, Skill: b.Skill, SkillDigest: b.SkillDigest, Bounds: b.Bounds, Frozen: b.Frozen, Asks: b.Asks}
}

// revised is the draft with another program in place of its own.
func (b draftBody) revised(r revision) draftBody {
	b.ProgramDigest, b.Skill, b.SkillDigest, b.Bounds, b.Frozen, b.Asks = r.ProgramDigest, r.Skill, r.SkillDigest, r.Bounds, r.Frozen, r.Asks
	return b
}

// programAt is the program that a run stood under at a record, for a fork that
// takes it over.
func programAt(ctx context.Context, src source, run string, at int64) (program, error) {
	p, err := openProgramAt(ctx, src, run, at)
	if err != nil {
		return nil, err
	}
	if s := &p.shared().segment; s.Phase == phaseConfirm && s.since > 0 {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "at record %d run %s has a correction that nobody had confirmed: it cannot be forked there", at, run).
			WithHint("fork it at a record before %d, or after the decision", s.since)
	}
	return p, nil
}

// openRevision is the plan that a run had, or would have, at a revision.
func (p *planProgram) openRevision(ctx context.Context, src source, r revision) (*planProgram, error) {
	opened, err := openSegment(ctx, src, p.run, p.draft, &segment{Phase: phaseWalk, Revision: r})
	if err != nil {
		return nil, err
	}
	revised, ok := opened.(*planProgram)
	if !ok {
		return nil, fmt.Errorf("revision %d of run %s is not a plan", r.Number, p.run)
	}
	return revised, nil
}

// segmentIn is the segment in which record at (0: the last) of a run stands, also
// if that is the one of the run it was forked from; nil: a first.
func segmentIn(ctx context.Context, src source, run string, at int64, draft *draftBody) (*segment, error) {
	e, err := continuedBefore(ctx, src, run, at)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return segmentInherited(ctx, src, draft)
	}
	return readSegment(ctx, src, e)
}

// segmentInherited is the one that a fork begins in; nil: a first.
func segmentInherited(ctx context.Context, src source, draft *draftBody) (*segment, error) {
	if draft.ForkOf == nil {
		return nil, nil
	}
	base, err := readDraft(ctx, src, draft.ForkOf.Run)
	if err != nil {
		return nil, err
	}
	c, err := segmentIn(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq, base)
	if c == nil || err != nil {
		return nil, err
	}
	// Whoever forks accepts what is forked, and says within which bounds.
	c.since, c.Revision.Accepted, c.Revision.Bounds = 0, nil, draft.Bounds
	if askEffects(draft.Asks) != nil {
		c.Revision.Asks = joinAsks(c.Revision.Asks, draft.Asks)
	}
	if c.Phase != phaseWalk || c.Revision.ProgramDigest != draft.ProgramDigest {
		return nil, fmt.Errorf("the run says that it was forked with program %s, but record %d of run %s stands under %s",
			draft.ProgramDigest, draft.ForkOf.Seq, draft.ForkOf.Run, c.Revision.ProgramDigest)
	}
	return c, nil
}

// readSegment reads the state of a run.continued.
func readSegment(ctx context.Context, src source, e *tipstaff.Event) (*segment, error) {
	var body tipstaff.RunContinued
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return nil, fmt.Errorf("record %d cannot be read: %w", e.Seq, err)
	}
	state, err := attached(ctx, src, body.State)
	if err != nil {
		return nil, fmt.Errorf("the state of record %d is not there: %w", e.Seq, err)
	}
	c := &segment{since: e.Seq}
	if err := json.Unmarshal(state, c); err != nil {
		return nil, fmt.Errorf("the state of record %d cannot be read: %w", e.Seq, err)
	}
	return c, nil
}

// rows tells of a run without reading its records; a store can, an export cannot.
type rows interface {
	Run(ctx context.Context, run string) (flow.Row, error)
}

// continuedBefore is the last run.continued up to record at (0: the head); nil if
// there is none. A store knows where it is, if nobody has meddled with it.
func continuedBefore(ctx context.Context, src source, run string, at int64) (*tipstaff.Event, error) {
	if store, ok := src.(rows); ok {
		row, err := store.Run(ctx, run)
		if err != nil || row.Cont == 0 {
			return nil, err
		}
		if e, err := eventAt(ctx, src, run, row.Cont); err == nil && e.Kind == tipstaff.KindRunContinued && (at == 0 || e.Seq <= at) {
			return e, nil
		}
	}
	var last *tipstaff.Event
	err := eachEvent(ctx, src, run, at, func(e *tipstaff.Event) error {
		if e.Kind == tipstaff.KindRunContinued {
			last = e
		}
		return nil
	})
	return last, err
}

func eventAt(ctx context.Context, src source, run string, seq int64) (*tipstaff.Event, error) {
	found, err := src.Records(ctx, run, seq-1, 1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("run %s has no record %d", run, seq)
	}
	e, err := tipstaff.ParseEvent(found[0].Bytes)
	return &e, err
}

// state is where a run in this segment stands in its lifecycle.
func (c *segment) state() tipstaff.State {
	switch {
	case c.Phase == phaseDraft, c.Phase == phaseHold:
		return tipstaff.Drafting
	case c.Phase == phaseWalk:
		return tipstaff.Executing
	case c.Former == nil:
		return tipstaff.Proposed
	}
	return tipstaff.Accepted
}

// terms are what somebody agreed to by accepting the program.
func (p *planProgram) terms() policy.Terms {
	terms := p.doc.Terms(p.resolver())
	if p.draft.Rules < rulesShown {
		return terms.Earlier()
	}
	return terms
}

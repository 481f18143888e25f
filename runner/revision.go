package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
func (r revision) proposed() map[string]any {
	return map[string]any{"intent_hash": r.IntentHash, "program_digest": r.ProgramDigest, "revision": r.Number, "accepted_by": r.AcceptedBy}
}

// Phases of a run that has a program.
const (
	phaseWalk    = "walk"    // the program is walked
	phaseConfirm = "confirm" // a person is asked whether a program may take effect
)

// chapter is what a segment of a run's history is about: the state of the
// run.continued that opens it. The first segment has no such record, and is the
// walk of revision 1.
type chapter struct {
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

	// Pipeline is the state with which a pipeline goes on, and Talks what the stages
	// that keep a session have said in it: digests, by stage.
	Pipeline json.RawMessage   `json:"pipeline,omitempty"`
	Begins   json.RawMessage   `json:"begins,omitempty"` // or the Envelope with which one begins that was a draft
	Talks    map[string]string `json:"talks,omitempty"`

	since int64 // seq of the run.continued; 0: the run itself has none
	turn  bool  // the program is a turn, which has but one chapter
	pipe  bool  // the program is a pipeline
}

// doubtedCall is a call in doubt as a chapter keeps it: a long input by digest.
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
func (c *chapter) inForce() revision {
	if c.Former != nil {
		return *c.Former
	}
	return c.Revision
}

// root is the path under which the chapter's records stand. Those of one revision
// never meet those of another.
func (c *chapter) root() string {
	root := "root"
	switch {
	case c.pipe: // its stages stand on their own
		return ""
	case c.Phase != phaseWalk:
		root = c.Phase
	case c.turn:
		root = "turn"
	}
	switch {
	case c.Draft != nil && c.Phase == phaseConfirm:
		if n := len(c.Draft.Wanted); n > 0 {
			root = fmt.Sprintf("%s@%d", root, n+1)
		}
	case c.Draft != nil: // the answers to a round of questions begin it, or what a person wants to be different
		root = fmt.Sprintf("%s@%d", root, c.Draft.Round+len(c.Draft.Wanted)+1)
	case c.Revision.Number > 1:
		root = fmt.Sprintf("%s@%d", root, c.Revision.Number)
	}
	return root
}

// first is the chapter of a run that was never corrected: the walk of a program
// that was accepted when the run was made, else its confirmation.
func (b *draftBody) first() chapter {
	phase := phaseConfirm
	switch {
	case b.Hold:
		phase = phaseHold
	case b.ProgramDigest == "":
		phase = phaseDraft
	case b.acceptedVia != "":
		phase = phaseWalk
	}
	return chapter{Phase: phase, turn: b.ProgramKind == plan.KindTurn, pipe: b.ProgramKind == kindPipeline, Latest: 1, Revision: revision{Number: 1, ProgramDigest: b.ProgramDigest,
		Skill: b.Skill, SkillDigest: b.SkillDigest, Bounds: b.Bounds, Frozen: b.Frozen, Asks: b.Asks}}
}

// revised is the draft with another program in place of its own.
func (b draftBody) revised(r revision) draftBody {
	b.ProgramDigest, b.Skill, b.SkillDigest, b.Bounds, b.Frozen, b.Asks = r.ProgramDigest, r.Skill, r.SkillDigest, r.Bounds, r.Frozen, r.Asks
	return b
}

// openChapter is the program of a chapter, nil being a run's first, of the same run
// as p.
func openChapter(ctx context.Context, src source, p *program, c *chapter) (*program, error) {
	if c == nil {
		first := p.draft.first()
		c = &first
	}
	next := &program{run: p.run, chapter: *c, draft: p.draft.revised(c.inForce())}
	next.chapter.pipe = p.draft.ProgramKind == kindPipeline
	return next, next.thaw(ctx, src)
}

// programAt is the program that a run stood under at a record, for a fork that
// takes it over.
func programAt(ctx context.Context, src source, run string, at int64) (*program, error) {
	draft, err := readDraft(ctx, src, run)
	if err != nil {
		return nil, err
	}
	c, err := chapterIn(ctx, src, run, at, draft)
	if err != nil {
		return nil, err
	}
	if c != nil && c.Phase == phaseConfirm {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "at record %d run %s has a correction that nobody had confirmed: it cannot be forked there", at, run).
			WithHint("fork it at a record before %d, or after the decision", c.since)
	}
	return openChapter(ctx, src, &program{run: run, draft: *draft}, c)
}

// openRevision is the program that a run had, or would have, at a revision.
func openRevision(ctx context.Context, src source, p *program, r revision) (*program, error) {
	return openChapter(ctx, src, p, &chapter{Phase: phaseWalk, Revision: r})
}

// revisedInputs are the inputs of a run for a document that may declare others:
// those it does not know are left aside, those it adds have their defaults.
func revisedInputs(doc *plan.Document, inputs json.RawMessage) (json.RawMessage, error) {
	given, err := declaredInputs(doc, inputs)
	if err != nil {
		return nil, err
	}
	checked, problems := doc.CheckInputs(given)
	if len(problems) > 0 {
		return nil, fmt.Errorf("the revised program does not take the run's inputs: %s", problems[0].Message)
	}
	return checked, nil
}

// declaredInputs are those of a run that a document knows.
func declaredInputs(doc *plan.Document, inputs json.RawMessage) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(inputs, &all); err != nil {
		return nil, fmt.Errorf("the inputs cannot be read: %w", err)
	}
	given := map[string]json.RawMessage{}
	for _, in := range doc.Inputs {
		if v, ok := all[in.Name]; ok {
			given[in.Name] = v
		}
	}
	return given, nil
}

// chapterIn is the chapter in which record at (0: the last) of a run stands, also
// if that is the one of the run it was forked from; nil: a first.
func chapterIn(ctx context.Context, src source, run string, at int64, draft *draftBody) (*chapter, error) {
	if c, err := chapterAt(ctx, src, run, at); c != nil || err != nil {
		return c, err
	}
	return chapterInherited(ctx, src, draft)
}

// chapterInherited is the one that a fork begins in; nil: a first.
func chapterInherited(ctx context.Context, src source, draft *draftBody) (*chapter, error) {
	if draft.ForkOf == nil {
		return nil, nil
	}
	base, err := readDraft(ctx, src, draft.ForkOf.Run)
	if err != nil {
		return nil, err
	}
	c, err := chapterIn(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq, base)
	if c == nil || err != nil {
		return nil, err
	}
	// Whoever forks accepts what is forked, and says within which bounds.
	c.since, c.Revision.Accepted, c.Revision.Bounds = 0, nil, draft.Bounds
	if c.Phase != phaseWalk || c.Revision.ProgramDigest != draft.ProgramDigest {
		return nil, fmt.Errorf("the run says that it was forked with program %s, but record %d of run %s stands under %s",
			draft.ProgramDigest, draft.ForkOf.Seq, draft.ForkOf.Run, c.Revision.ProgramDigest)
	}
	return c, nil
}

// readChapter reads the state of a run.continued.
func readChapter(ctx context.Context, src source, e *tipstaff.Event) (*chapter, error) {
	var body struct {
		State json.RawMessage `json:"state"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return nil, fmt.Errorf("record %d cannot be read: %w", e.Seq, err)
	}
	state, err := attached(ctx, src, body.State)
	if err != nil {
		return nil, fmt.Errorf("the state of record %d is not there: %w", e.Seq, err)
	}
	c := &chapter{since: e.Seq}
	if err := json.Unmarshal(state, c); err != nil {
		return nil, fmt.Errorf("the state of record %d cannot be read: %w", e.Seq, err)
	}
	return c, nil
}

// chapterAt is the chapter in which record at of a run stands (0: its last one),
// as far as a run.continued says so; nil: it is the run's first.
func chapterAt(ctx context.Context, src source, run string, at int64) (*chapter, error) {
	e, err := continuedBefore(ctx, src, run, at)
	if err != nil || e == nil {
		return nil, err
	}
	return readChapter(ctx, src, e)
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
	err := eachRecord(ctx, src, run, 0, func(s flow.Stored) error {
		if at > 0 && s.Seq > at {
			return errEnough
		}
		if e, err := tipstaff.ParseEvent(s.Bytes); err == nil && e.Kind == tipstaff.KindRunContinued {
			last = &e
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
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

// state is where a run in this chapter stands in its lifecycle.
func (c *chapter) state() tipstaff.State {
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

// hasChildren reports whether the run may have started others, be it in an earlier
// revision.
func (p *program) hasChildren() bool { return len(p.children) > 0 || p.chapter.Latest > 1 }

// carry is what a walk takes over, with long results put back.
func (c *chapter) carry(ctx context.Context, src source) (plan.Carry, error) {
	all := plan.Carry{Done: maps.Clone(c.Carried), Doubts: map[string]plan.Doubt{}}
	for id, done := range all.Done {
		if done.Output != nil {
			continue
		}
		output, err := src.Blob(ctx, done.Digest)
		if err != nil {
			return all, fmt.Errorf("the result of %s is not there: %w", done.Path, err)
		}
		done.Output = output
		all.Done[id] = done
	}
	for id, d := range c.InDoubt {
		if d.InputDigest != "" {
			input, err := src.Blob(ctx, d.InputDigest)
			if err != nil {
				return all, fmt.Errorf("the input of %s is not there: %w", d.Path, err)
			}
			d.Input = input
		}
		all.Doubts[id] = d.Doubt
	}
	return all, nil
}

// terms are what somebody agreed to by accepting the program.
func (p *program) terms() policy.Terms {
	terms := p.doc.Terms(p.resolver())
	if p.draft.Rules < rulesShown {
		return terms.Earlier()
	}
	return terms
}

// outline is the program as a tree, with the paths of this revision.
func (p *program) outline() *tipstaff.Outline {
	if p.pipe != nil {
		return pipelineOutline(p.pipe, p.plans)
	}
	walked := chapter{Phase: phaseWalk, Revision: p.chapter.inForce(), turn: p.doc.Turn != nil}
	return rerooted(p.doc.Outline(p.resolver()), p.doc.Root.Path, walked.root())
}

// rerooted puts an outline, whose paths begin with one root, under another.
func rerooted(o *tipstaff.Outline, from, to string) *tipstaff.Outline {
	moved := *o
	moved.Path = to + strings.TrimPrefix(o.Path, from)
	moved.Children = slices.Clone(o.Children)
	for i, c := range moved.Children {
		moved.Children[i] = rerooted(c, from, to)
	}
	return &moved
}

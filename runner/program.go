package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/skill"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// Names under which intent.draft lists the digests of frozen documents.
const (
	frozenManifest = "manifest"
	frozenTools    = "tools"
)

// source is where the records and documents of runs are read from: the store,
// or an export.
type source interface {
	Records(ctx context.Context, run string, after int64, limit int) ([]flow.Stored, error)
	Blob(ctx context.Context, digest string) ([]byte, error)
}

// program is what a run executes in one segment of its history, opened from what was
// frozen when the run was made or corrected. From it alone the flow can be driven,
// replayed and verified. Each kind has a file of its own, and a line in openSegment.
type program interface {
	shared() *common
	// root is the path under which the segment's records stand. Those of one revision
	// never meet those of another.
	root() string
	// flow is the deterministic part of the run.
	flow(flow.Context, json.RawMessage) (json.RawMessage, error)
	// continues reports that a segment ends when its flow says so. Others are only cut,
	// by a correction.
	continues() bool
	// next completes the transition to the segment that follows, given the state with
	// which the flow continues. cut: a correction was handed in, and there is no state.
	next(ctx context.Context, t *transition, state json.RawMessage, cut bool) error
	// verify judges the first of parts, which is a segment of this program, and returns
	// its outcome. more is false if what follows cannot be judged.
	verify(j *judge, parts []part, each func(tipstaff.Event)) (outcome string, more bool)
	// count adds to the evidence of a run that ends what the kind knows of it.
	count(a *account, ev *evidence)
	// terminal is what the envelope that ends the run says beside what those of other
	// kinds say; nil: nothing.
	terminal(flow.Outcome) tipstaff.Ending
	// beside is what is written to another run with the record that ends this one; nil:
	// nothing. An error says that the run cannot end now.
	beside(context.Context, *Runner, flow.Outcome) (*flow.Beside, error)
	// branch is the text of a fork, and changes the body of its draft accordingly.
	branch(context.Context, *Runner, *draftBody) (document, error)
}

// common is what the programs of all kinds have.
type common struct {
	run      string
	segment  segment
	draft    draftBody // of the run; what it says of the program is that of the revision in force
	text     document
	inputs   json.RawMessage
	limits   flow.Use
	gate     *tool.Gate                // over the frozen manifest, tools and policy
	skills   map[string]*skill.Skill   // that were frozen, by URI
	children map[string]*plan.Document // of those skills that have a plan, by URI
	agents   agentSet
	files    workFiles
	line     []string        // the runs that its worktree went through: the first has made it
	asked    []string        // the runs whose gates about the delivery it has inherited
	unasked  map[string]bool // paths that a fork has inherited from a run that asked less
	// performers do what the program asks for: those of the runner that opened it.
	performers performers
}

// dispatched reports whether another run has started this one as a part of itself.
func (c *common) dispatched() bool {
	return c.draft.Parent.Dispatched()
}

func (c *common) shared() *common                       { return c }
func (c *common) continues() bool                       { return true }
func (c *common) count(*account, *evidence)             {}
func (c *common) terminal(flow.Outcome) tipstaff.Ending { return tipstaff.Ending{} }

func (c *common) verify(j *judge, parts []part, each func(tipstaff.Event)) (string, bool) {
	return j.replayed(parts, each)
}

func (c *common) beside(context.Context, *Runner, flow.Outcome) (*flow.Beside, error) {
	return nil, nil
}

func (c *common) branch(context.Context, *Runner, *draftBody) (document, error) { return c.text, nil }

// draftBody is an intent.draft, and what the runner needs to make it.
type draftBody struct {
	tipstaff.IntentDraft
	Rollback *rollbackBody `json:"rollback,omitempty"` // of a run that goes back, or forks off: what it takes over

	after       string // the run before it: of a turn that is to be made, or of a run that takes another's place
	request     string // that has made the run which a rollback takes the place of
	origin      string // of the run; "": the runner's
	key         string // of the request that makes it, and what that asks for
	keyDigest   string
	tied        bool   // what it works with is on one machine
	worker      string // who was chosen for the task that a run is made for
	acceptedVia string // of the intent.accept with which the run was made; "": it was made without

	revision int // of the program, if it is forked with one that is not its source's first; 0 is 1
}

// Rules of runs. A run is driven, replayed and verified under those that it was made
// with, so that a new rule never makes an old journal false. A fork has those of its
// source.
const (
	// rulesShown: an acceptance covers what was shown whole.
	rulesShown = 1
	// rulesKept: images and other media of results are blobs of the run, and the results of
	// the last step share what is left of the window. The cost of a stage is all that was
	// charged for it. Models that draft are asked for a draft. Whoever gives the result of a
	// remote stage gives its output alone, and a stage that asks need not have its own yet.
	rulesKept = 2
	// rulesHeld: the money that a lost attempt had reserved is held, and not spent. The text
	// of a stage's failure is cut.
	rulesHeld = tipstaff.RulesHeld

	// rulesAsk: where the document was brought by somebody who may not decide, calls ask
	// whatever the policy allows, and so do workers that may change something.
	rulesAsk = 4

	// rulesDelivered: worktrees are made ready, checks run on what is delivered, and a delivery
	// names first what is obeyed, suggests what can be done, and says why it asks again.
	rulesDelivered = 5

	rulesNow = rulesDelivered
)

// Rules are the newest that this version knows: runs are made under them.
const Rules = rulesNow

// openProgram reads the frozen program of a run: the revision that is in force.
func openProgram(ctx context.Context, src source, run string) (program, error) {
	return openProgramAt(ctx, src, run, 0)
}

// openProgramAt is the program that a run stood under at a record (0: its last).
func openProgramAt(ctx context.Context, src source, run string, at int64) (program, error) {
	draft, err := readDraft(ctx, src, run)
	if err != nil {
		return nil, err
	}
	s, err := segmentIn(ctx, src, run, at, draft)
	if err != nil {
		return nil, err
	}
	return openSegment(ctx, src, run, *draft, s)
}

// openSegment opens the program of a segment; nil is a run's first.
func openSegment(ctx context.Context, src source, run string, draft draftBody, s *segment) (program, error) {
	if draft.Rules > rulesNow { // to drive it under older ones would record what they do not allow
		return nil, tipstaff.Errorf(tipstaff.FormatNewer, "run %s was made under rules %d of a newer version, and this one knows %d", run, draft.Rules, rulesNow).
			WithHint("it takes a newer Tipstaff to drive this run, to end or to judge it")
	}
	if s == nil {
		first := draft.first()
		s = &first
	}
	c := &common{run: run, segment: *s, draft: draft.revised(s.inForce()), performers: performersOf(src)}
	if err := c.open(ctx, src); err != nil {
		return nil, err
	}
	if draft.Files != nil {
		var err error
		if c.line, err = worktreeLine(ctx, src, run, &draft); err != nil {
			return nil, err
		}
		if c.asked, err = askedBy(ctx, src, &draft); err != nil {
			return nil, err
		}
	}
	switch text := c.text.(type) {
	case pipelineText:
		if s.Phase == phaseHold {
			return &pipelineDraftProgram{c}, nil
		}
		return openPipeline(ctx, src, c, text)
	case planText:
		switch {
		case s.Phase == phaseDraft:
			return &draftingProgram{c}, nil
		case s.Phase == phaseConfirm:
			own, err := openPlan(ctx, src, c, text.Document)
			return &confirmation{own}, err
		case text.Turn != nil:
			return openTurn(ctx, src, c, text.Document)
		}
		return openPlan(ctx, src, c, text.Document)
	}
	return nil, fmt.Errorf("run %s executes a %s, which nobody here knows", run, draft.ProgramKind)
}

func readDraft(ctx context.Context, src source, run string) (*draftBody, error) {
	first, err := src.Records(ctx, run, 0, 5) // the draft, what was compiled, its acceptance, and whence it was forked
	if err != nil {
		return nil, err
	}
	if len(first) == 0 {
		return nil, flow.ErrNoRun
	}
	e, err := tipstaff.ParseEvent(first[0].Bytes)
	if err != nil || e.Kind != tipstaff.KindIntentDraft {
		return nil, fmt.Errorf("the first record of run %s is not an intent.draft", run)
	}
	draft := new(draftBody)
	if err := json.Unmarshal(e.Body, draft); err != nil {
		return nil, fmt.Errorf("the intent.draft of run %s cannot be read: %w", run, err)
	}
	if len(first) > 2 {
		if e, err := tipstaff.ParseEvent(first[2].Bytes); err == nil && e.Kind == tipstaff.KindIntentAccept {
			if b := tipstaff.BodyOf[tipstaff.IntentAccept](&e); b.Gate == "" {
				draft.acceptedVia = b.Via
			}
		}
	}
	if draft.Rollback != nil {
		if draft.Followup != nil {
			draft.Rollback.Feedback = draft.Followup.Feedback
		}
		err = draft.Rollback.readEdits(ctx, src, first)
	}
	return draft, err
}

// open loads the documents that the draft names.
func (c *common) open(ctx context.Context, src source) (err error) {
	var canonical []byte
	if digest := c.draft.ProgramDigest; digest != "" {
		if canonical, err = src.Blob(ctx, digest); err != nil {
			return fmt.Errorf("the program of run %s is not there: %w", c.run, err)
		}
	}
	if c.text, err = openDocument(c.draft.ProgramKind, c.draft.Skill, canonical); err != nil {
		return fmt.Errorf("the program of run %s cannot be read: %w", c.run, err)
	}
	if c.inputs, err = attached(ctx, src, c.draft.Inputs); err != nil {
		return err
	}
	c.limits = c.text.limits(c.draft.Bounds)
	manifest, tools, err := c.frozenTools(ctx, src)
	if err != nil {
		return err
	}
	if err := c.openSkills(ctx, src); err != nil {
		return err
	}
	if err := c.openAgents(ctx, src); err != nil {
		return err
	}
	c.gate = tool.NewGate(c.text.allowed(c.skills, c.agents), manifest, tools)
	c.gate.Run = policy.Run{ID: c.run, Principal: c.draft.User}
	if c.draft.Rules >= rulesAsk {
		c.gate.Asks = c.mustAsk
	}
	c.unasked, err = c.unaskedCalls(ctx, src)
	return err
}

func (c *common) frozenTools(ctx context.Context, src source) (manifest *workspace.Manifest, tools *tool.Registry, err error) {
	if digest := c.draft.Frozen[frozenManifest]; digest != "" {
		data, err := src.Blob(ctx, digest)
		if err != nil {
			return nil, nil, fmt.Errorf("the manifest that run %s froze is not there: %w", c.run, err)
		}
		if manifest, err = workspace.ParseFrozen(data); err != nil {
			return nil, nil, err
		}
	}
	data, err := src.Blob(ctx, c.draft.Frozen[frozenTools])
	if err != nil {
		return nil, nil, fmt.Errorf("the tools that run %s froze are not there: %w", c.run, err)
	}
	tools, err = tool.LoadFrozen(data)
	return manifest, tools, err
}

// attached puts back a payload that a record names by digest.
func attached(ctx context.Context, src source, raw json.RawMessage) (json.RawMessage, error) {
	var ref struct {
		Blob string `json:"$blob"`
	}
	if json.Unmarshal(raw, &ref) != nil || ref.Blob == "" {
		return raw, nil
	}
	return src.Blob(ctx, ref.Blob)
}

// replayed is the job of driving the program over its records alone.
func replayed(p program) flow.Job {
	c := p.shared()
	return flow.Job{Run: c.run, Root: rootOf(p), Flow: flowOf(p), Input: c.inputs, Limits: c.limits, Holds: c.draft.Holds(),
		Keep: func(text []byte) (string, error) { return flow.Digest(text), nil }} // as the drive named it
}

// resolver answers for what was frozen.
func (c *common) resolver() resolver {
	return resolver{manifest: c.gate.Manifest, tools: c.gate.Tools, skills: &skillCatalog{taken: c.skills}, performers: c.performers}
}

// deadline is when the run must be over; zero: never.
func (c *common) deadline() time.Time { return c.text.intent().Deadline }

// outline is the program as a tree, with the paths of this revision.
func (c *common) outline() *tipstaff.Outline {
	o := c.text.outline(c.resolver())
	if n := c.segment.inForce().Number; n > 1 {
		return rerooted(o, planRoot, revisedRoot(planRoot, n))
	}
	return o
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

// started tells of a run with this program.
func (c *common) started() tipstaff.Started {
	described := c.text.described()
	described.Digest, described.Revision = c.draft.ProgramDigest, c.segment.inForce().corrected()
	return tipstaff.Started{Run: idOf(c.run), Validated: tipstaff.Validated{Outline: c.outline(), Program: described}}
}

// hasChildren reports whether the run may have started others, be it in an earlier
// revision.
func (c *common) hasChildren() bool { return len(c.children) > 0 || c.segment.Latest > 1 }

// cited are the items of the memory that the run has used.
func (c *common) cited() []string {
	if c.segment.Recalled == nil {
		return []string{}
	}
	return c.segment.Recalled
}

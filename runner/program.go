package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
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

// program is what a run executes, as it was frozen when the run was made or
// corrected. From it alone the flow can be driven, replayed and verified.
type program struct {
	run     string
	chapter chapter // the part of the run that it is for
	doc     *plan.Document
	pipe    *pipeline.Pipeline // of a pipeline, for which doc stands; nil: it is none
	plans   stagePlans         // and what its plan stages walk
	state   *pipeline.Envelope // and its state, as far as it has come
	talks   *talks             // and what its model stages have said, where that is kept
	inputs  json.RawMessage
	limits  flow.Use
	gate    *tool.Gate              // over the frozen manifest, tools and policy
	draft   draftBody               // of the run; what it says of the program is that of the revision in force
	carry   plan.Carry              // what earlier revisions have done
	left    *leavings               // and what the walk leaves to later ones, as far as it has come
	skills  map[string]*skill.Skill // that were frozen, by URI
	// children are the plans of those skills that have one, by URI.
	children map[string]*plan.Document
	crew     crew            // who does its steps
	history  []agent.Message // of a turn: what was said before it
	spoken   agent.Output    // and how it came out, as far as it has
	desk     agent.Desk      // where its turns lay what they ask models
	turns    sync.Map        // by path: *liveTurn
	exhibits exhibits        // what remote stages show to hosts
	cutOnce  sync.Once
	cut      map[string]bool // the calls of which the gate that accepted it did not show every value
	// refused holds, by path, what the frozen gate refuses: the call is asked for
	// all the same, so that the refusal is recorded as its outcome.
	refused sync.Map
}

// draftBody is what the runner reads of its own intent.draft.
type draftBody struct {
	ProgramKind   string            `json:"program_kind"`
	ProgramDigest string            `json:"program_digest,omitempty"` // "": it is to be drafted
	Prose         string            `json:"prose,omitempty"`          // for which
	Skill         string            `json:"skill,omitempty"`
	SkillDigest   string            `json:"skill_digest,omitempty"`
	Inputs        json.RawMessage   `json:"inputs"`
	Bounds        tipstaff.Bounds   `json:"bounds"`
	User          string            `json:"user"`
	Origin        string            `json:"origin"`
	Keys          keysBody          `json:"keys"`
	Frozen        map[string]string `json:"frozen"`
	Rules         int               `json:"rules,omitempty"` // under which the run was made
	Asks          string            `json:"asks,omitempty"`  // asksOnce or asksAll; "": the acceptance covers what it can
	Title         string            `json:"title,omitempty"`
	Trace         string            `json:"trace,omitempty"` // the span of whoever asked for the run
	By            string            `json:"by,omitempty"`    // who asked for it on behalf of the user; "": the user

	Pipeline *tipstaff.PipelineStatus `json:"pipeline,omitempty"` // of a pipeline
	Rollback *rollbackBody            `json:"rollback,omitempty"` // of one that goes back, or forks off: what it takes over
	Hold     bool                     `json:"hold,omitempty"`     // it is a draft until it is started

	Parent *parentBody `json:"parent,omitempty"`
	ForkOf *forkBody   `json:"fork_of,omitempty"`

	after       string // the run before it: of a turn that is to be made, or of a run that takes another's place
	acceptedVia string // of the intent.accept with which the run was made; "": it was made without

	revision int // of the program, if it is forked with one that is not its source's first; 0 is 1
}

// Rules of runs. A run is driven, replayed and verified under those that it was made
// with, so that a new rule never makes an old journal false. A fork has those of its
// source.
const (
	// rulesShown: an acceptance covers what was shown whole.
	rulesShown = 1

	rulesNow = rulesShown
)

// Calls that an acceptance does not cover, because whoever gave it could not.
const (
	asksOnce = "once" // once calls: the program was handed over by somebody who may not decide
	asksAll  = "all"  // all calls: a parent run has accepted the program
)

type keysBody struct {
	User     string `json:"user"`
	Executor string `json:"executor"`
}

type parentBody struct {
	Run      string `json:"run"`
	Relation string `json:"relation"`
}

type forkBody struct {
	Run  string `json:"run"`
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// openProgram reads the frozen program of a run: the revision that is in force.
func openProgram(ctx context.Context, src source, run string) (*program, error) {
	draft, err := readDraft(ctx, src, run)
	if err != nil {
		return nil, err
	}
	c, err := chapterIn(ctx, src, run, 0, draft)
	if err != nil {
		return nil, err
	}
	return openChapter(ctx, src, &program{run: run, draft: *draft}, c)
}

// openWith is openProgram of a new run, for whoever has read the document already.
func openWith(ctx context.Context, src source, run string, read *prepared) (*program, error) {
	draft, err := readDraft(ctx, src, run)
	if err != nil {
		return nil, err
	}
	p := &program{run: run, doc: read.doc, pipe: read.pipe, plans: read.stages, draft: *draft, chapter: draft.first()}
	return p, p.thaw(ctx, src)
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
		draft.acceptedVia = acceptedVia(first[2])
	}
	if draft.Rollback != nil {
		err = draft.Rollback.readEdits(ctx, src, first)
	}
	return draft, err
}

// acceptedVia is how a program was accepted by the record, "" if that is none.
func acceptedVia(s flow.Stored) string {
	e, err := tipstaff.ParseEvent(s.Bytes)
	if err != nil || e.Kind != tipstaff.KindIntentAccept {
		return ""
	}
	var b struct{ Via, Gate string }
	if json.Unmarshal(e.Body, &b) != nil || b.Gate != "" {
		return ""
	}
	return b.Via
}

// thaw loads the documents that the draft names.
func (p *program) thaw(ctx context.Context, src source) error {
	if p.draft.ProgramDigest == "" {
		p.doc = unwritten(p.draft.Skill)
	} else if p.doc == nil || p.doc.Digest() != p.draft.ProgramDigest {
		canonical, err := src.Blob(ctx, p.draft.ProgramDigest)
		if err != nil {
			return fmt.Errorf("the program of run %s is not there: %w", p.run, err)
		}
		if err = p.load(canonical); err != nil {
			return fmt.Errorf("the program of run %s cannot be read: %w", p.run, err)
		}
	}
	var err error
	if p.inputs, err = attached(ctx, src, p.draft.Inputs); err != nil {
		return err
	}
	if p.chapter.inForce().Number > 1 {
		if p.inputs, err = revisedInputs(p.doc, p.inputs); err != nil {
			return fmt.Errorf("run %s: %w", p.run, err)
		}
	}
	if p.carry, err = p.chapter.carry(ctx, src); err != nil {
		return err
	}
	p.limits = p.ledgerLimits()
	manifest, tools, err := p.frozen(ctx, src)
	if err != nil {
		return err
	}
	if err := p.thawSkills(ctx, src); err != nil {
		return err
	}
	if err := p.thawCrew(ctx, src); err != nil {
		return err
	}
	if p.doc.Turn != nil {
		if err := p.thawMessages(ctx, src); err != nil {
			return err
		}
	}
	if err := p.thawChildren(); err != nil {
		return err
	}
	if p.pipe != nil {
		if err := p.thawState(ctx, src); err != nil {
			return err
		}
	}
	p.gate = tool.NewGate(p.allowList(), manifest, tools)
	p.gate.Run = policy.Run{ID: p.run, Principal: p.draft.User}
	return nil
}

func (p *program) frozen(ctx context.Context, src source) (*workspace.Manifest, *tool.Registry, error) {
	var manifest *workspace.Manifest
	if digest := p.draft.Frozen[frozenManifest]; digest != "" {
		data, err := src.Blob(ctx, digest)
		if err != nil {
			return nil, nil, fmt.Errorf("the manifest that run %s froze is not there: %w", p.run, err)
		}
		if manifest, err = workspace.ParseFrozen(data); err != nil {
			return nil, nil, err
		}
	}
	data, err := src.Blob(ctx, p.draft.Frozen[frozenTools])
	if err != nil {
		return nil, nil, fmt.Errorf("the tools that run %s froze are not there: %w", p.run, err)
	}
	tools, err := tool.LoadFrozen(data)
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

// flow is the deterministic part of the run.
func (p *program) flow(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	p.left = newLeavings(p.chapter.Approved)
	switch p.chapter.Phase {
	case phaseDraft:
		return p.draftPlan(fc)
	case phaseConfirm:
		return p.confirm(fc)
	}
	if p.pipe != nil {
		return p.execute(fc)
	}
	return performer{p, p.doc, p.gate}.walk(fc, p.inputs)
}

// performer carries out the nodes of a plan for a program: of its own document, or
// of the plan that a stage of a pipeline walks.
type performer struct {
	*program
	doc  *plan.Document
	gate *tool.Gate
}

func (p performer) walk(fc flow.Context, inputs json.RawMessage) (json.RawMessage, error) {
	h := plan.Handlers{ToolCall: p.toolCall, Step: p.step, SubDispatch: p.subDispatch, Mode: p.mode(), Verbatim: p.draft.Rules < rulesShown}
	if p.pipe == nil { // a pipeline is not corrected
		h.Carry, h.Keep = p.carry, p.left
	}
	return plan.Walk(fc, p.doc, inputs, h)
}

// replayed is the job of driving the program over its records alone.
func (p *program) replayed() flow.Job {
	return flow.Job{Run: p.run, Root: p.chapter.root(), Flow: p.flow, Input: p.inputs, Limits: p.limits}
}

// approvalExpiry is how long an approval may be thought over.
const approvalExpiry = 24 * time.Hour

// toolCall performs a tool node: the gate is asked over what the run froze, a
// person where the policy wants one, and then the call is made. A refusal goes
// the same way, so that it is recorded as the call's outcome.
func (p performer) toolCall(fc flow.Context, call plan.ToolRequest) (flow.Result, error) {
	uri := call.Node.Tool
	asks := p.asks()
	v := p.gate.Ask(tool.Request{URI: uri, Args: call.Args, Literal: call.Literal && asks != asksOnce && p.covered(call.Node.ID), Agent: asks == asksAll, Run: policy.Run{Path: fc.Path()}})
	if v.Err != nil {
		p.refused.Store(fc.Path(), v.Err)
	}
	by := v.By
	if v.Do == policy.Ask {
		var err error
		if by, err = p.approval(fc, call.Node, v); err != nil {
			return flow.Result{}, err
		}
	}
	class, retry, limits := flow.Once, call.Retry, plan.ToolInfo{}
	if v.Definition != nil {
		class, limits.Timeout = v.Class, v.Definition.Timeout
	}
	if class == flow.Once {
		retry = flow.Retry{}
	}
	r, err := fc.Do(flow.Call{Name: tool.ActivityName, Class: class, Timeout: call.Node.EffectiveTimeout(limits), Retry: retry,
		Input:   flow.JSON(tool.Input{URI: uri, Args: call.Args, Parse: call.Node.Parse, By: by, Facts: v.FactsDigest()}),
		Reserve: flow.Use{tipstaff.BoundToolCalls: 1}})
	var ended *flow.Error
	if v.Err != nil && err == nil { // only somebody who wrote it down could have a result of what the gate refuses
		return flow.Result{}, v.Err
	}
	if errors.As(err, &ended) && ended.Code == tool.CodeKilled {
		return r, flow.ErrCancelled // it did not fail: it was ended with its group or run
	}
	if err == nil || ended != nil {
		p.left.spend(call.Node.ID)
	}
	return r, err
}

// asks is which calls of the program ask although it was accepted.
func (p *program) asks() string {
	if p.draft.acceptedVia == viaParent || p.chapter.Revision.ByParent {
		return asksAll
	}
	return p.draft.Asks
}

// approval asks a person whether a call may be made, and returns the gate that
// allowed it. One that an earlier revision was given holds if it was about the
// same, tool and arguments, and its call was not made.
func (p *program) approval(fc flow.Context, n *plan.Node, v tool.Verdict) (gate string, err error) {
	subject := flow.Digest(v.Subject)
	if earlier, ok := p.chapter.Approved[n.ID]; ok && earlier.Subject == subject {
		return earlier.Gate, nil
	}
	d, err := fc.Wait(flow.Gate{Key: "approval", Kind: string(tipstaff.Approval), Question: "May " + n.Tool + " be called with these arguments?",
		Subject: v.Subject, Actions: []string{"allow", "deny"}, Deny: "deny", Expires: approvalExpiry})
	if err != nil {
		return "", err
	}
	if d.Action != "allow" {
		return "", &flow.Error{Code: "approval_denied", Message: denial(d), Detail: flow.JSON(map[string]string{"rule": v.Rule}), NotSent: true}
	}
	p.left.approve(n.ID, approval{d.Gate, subject})
	return d.Gate, nil
}

func denial(d flow.Decision) string {
	switch {
	case d.Via == "expiry":
		return "nobody approved the call in time"
	case d.Note != "":
		return fmt.Sprintf("%s did not allow the call: %s", d.By, d.Note)
	}
	return d.By + " did not allow the call"
}

// resolver answers for what was frozen.
func (p *program) resolver() resolver {
	return resolver{manifest: p.gate.Manifest, tools: p.gate.Tools, skills: &skillShelf{taken: p.skills}}
}

// deadline is when the run must be over; zero: never.
func (p *program) deadline() time.Time { return p.doc.Intent.Deadline }

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
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

// program is what a run executes, as it was frozen when the run was made. From
// it alone the flow can be driven, replayed and verified.
type program struct {
	run    string
	doc    *plan.Document
	inputs json.RawMessage
	limits flow.Use
	gate   *tool.Gate // over the frozen manifest, tools and policy
	draft  draftBody
	// refused holds, by path, what the frozen gate refuses: the call is asked for
	// all the same, so that the refusal is recorded as its outcome.
	refused sync.Map
}

// draftBody is what the runner reads of its own intent.draft.
type draftBody struct {
	ProgramKind   string            `json:"program_kind"`
	ProgramDigest string            `json:"program_digest"`
	Inputs        json.RawMessage   `json:"inputs"`
	Bounds        tipstaff.Bounds   `json:"bounds"`
	User          string            `json:"user"`
	Origin        string            `json:"origin"`
	Keys          keysBody          `json:"keys"`
	Frozen        map[string]string `json:"frozen"`
	Title         string            `json:"title,omitempty"`
	Parent        *parentBody       `json:"parent,omitempty"`
	ForkOf        *forkBody         `json:"fork_of,omitempty"`
}

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

// openProgram reads the frozen program of a run.
func openProgram(ctx context.Context, src source, run string) (*program, error) {
	return openWith(ctx, src, run, nil)
}

// openWith is openProgram for whoever has read the document already.
func openWith(ctx context.Context, src source, run string, doc *plan.Document) (*program, error) {
	first, err := src.Records(ctx, run, 0, 1)
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
	p := &program{run: run, doc: doc}
	if err := json.Unmarshal(e.Body, &p.draft); err != nil {
		return nil, fmt.Errorf("the intent.draft of run %s cannot be read: %w", run, err)
	}
	return p, p.thaw(ctx, src)
}

// thaw loads the documents that the draft names.
func (p *program) thaw(ctx context.Context, src source) error {
	if p.doc == nil || p.doc.Digest() != p.draft.ProgramDigest {
		canonical, err := src.Blob(ctx, p.draft.ProgramDigest)
		if err != nil {
			return fmt.Errorf("the program of run %s is not there: %w", p.run, err)
		}
		if p.doc, err = plan.Load(canonical); err != nil {
			return fmt.Errorf("the program of run %s cannot be read: %w", p.run, err)
		}
	}
	var err error
	if p.inputs, err = attached(ctx, src, p.draft.Inputs); err != nil {
		return err
	}
	p.limits = flow.Use(p.draft.Bounds)
	manifest, tools, err := p.frozen(ctx, src)
	if err != nil {
		return err
	}
	p.gate = tool.NewGate(p.doc.AllowList(), manifest, tools)
	return nil
}

func (p *program) frozen(ctx context.Context, src source) (*tool.Manifest, *tool.Registry, error) {
	var manifest *tool.Manifest
	if digest := p.draft.Frozen[frozenManifest]; digest != "" {
		data, err := src.Blob(ctx, digest)
		if err != nil {
			return nil, nil, fmt.Errorf("the manifest that run %s froze is not there: %w", p.run, err)
		}
		if manifest, err = tool.ParseFrozen(data); err != nil {
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
	return plan.Walk(fc, p.doc, p.inputs, plan.Handlers{ToolCall: p.toolCall})
}

// approvalExpiry is how long an approval may be thought over.
const approvalExpiry = 24 * time.Hour

// toolCall performs a tool node: the gate is asked over what the run froze, a
// person where the policy wants one, and then the call is made. A refusal goes
// the same way, so that it is recorded as the call's outcome.
func (p *program) toolCall(fc flow.Context, call plan.ToolRequest) (flow.Result, error) {
	uri := call.Node.Tool
	v := p.gate.Ask(tool.Request{URI: uri, Args: call.Args, Literal: call.Literal})
	if v.Err != nil {
		p.refused.Store(fc.Path(), v.Err)
	}
	by := v.By
	if v.Do == policy.Ask {
		d, err := fc.Wait(flow.Gate{Key: "approval", Kind: string(tipstaff.Approval), Question: "May " + uri + " be called with these arguments?",
			Subject: v.Subject, Actions: []string{"allow", "deny"}, Deny: "deny", Expires: approvalExpiry})
		if err != nil {
			return flow.Result{}, err
		}
		if d.Action != "allow" {
			return flow.Result{}, &flow.Error{Code: "approval_denied", Message: denial(d), Detail: flow.JSON(map[string]string{"rule": v.Rule}), NotSent: true}
		}
		by = d.Gate
	}
	class, retry, limits := flow.Once, call.Retry, plan.ToolInfo{}
	if v.Definition != nil {
		class, limits.Timeout = v.Definition.Class, v.Definition.Timeout
	}
	if class == flow.Once {
		retry = flow.Retry{}
	}
	r, err := fc.Do(flow.Call{Name: tool.ActivityName, Class: class, Timeout: call.Node.EffectiveTimeout(limits), Retry: retry,
		Input:   flow.JSON(tool.Input{URI: uri, Args: call.Args, Parse: call.Node.Parse, By: by}),
		Reserve: flow.Use{tipstaff.BoundToolCalls: 1}})
	var ended *flow.Error
	if errors.As(err, &ended) && ended.Code == tool.CodeKilled {
		return r, flow.ErrCancelled // it did not fail: it was ended with its group or run
	}
	return r, err
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

// deadline is when the run must be over; zero: never.
func (p *program) deadline() time.Time { return p.doc.Intent.Deadline }

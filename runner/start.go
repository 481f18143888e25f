package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
)

// Start validates a plan, freezes it with everything that verifying it needs,
// creates its run and begins to drive it. A program handed over is accepted by
// that act.
func (r *Runner) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	p, err := r.prepare(req)
	if err != nil {
		return tipstaff.Started{}, err
	}
	started := tipstaff.Started{Program: p.described(), Outline: p.doc.Outline(p.resolver)}
	if req.DryRun {
		return started, nil
	}
	run, err := r.create(ctx, p, req)
	if err != nil {
		return tipstaff.Started{}, explain(err, run)
	}
	started.Run = run
	frozen, err := openWith(ctx, r.Store, run.String(), p.doc)
	if err != nil {
		return started, explain(err, run)
	}
	started.Done, err = r.begin(run.String(), frozen, person{yes: req.Yes, ask: req.Ask})
	return started, explain(err, run)
}

// prepared is a program that passed validation and preflight.
type prepared struct {
	doc      *plan.Document
	inputs   json.RawMessage
	bounds   tipstaff.Bounds
	manifest *tool.Manifest
	tools    *tool.Registry
	resolver plan.Resolver
}

func (p *prepared) described() tipstaff.Program {
	return tipstaff.Program{Kind: "plan", Name: p.doc.Name, Digest: p.doc.Digest()}
}

func (r *Runner) prepare(req tipstaff.StartRequest) (*prepared, error) {
	manifest, err := r.manifest()
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewRegistry(manifest, r.Servers(manifest, r.Workspace, nil))
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.Refused, Message: err.Error(), Err: err}
	}
	p := &prepared{manifest: manifest, tools: tools, resolver: resolver{manifest, tools}}
	doc, problems := plan.Check(req.Name, req.Program, p.resolver)
	if len(problems) > 0 {
		return nil, invalid(req.Name, problems)
	}
	p.doc = doc
	if p.inputs, problems = doc.CheckInputs(req.Inputs); len(problems) > 0 {
		return nil, invalid(req.Name, problems)
	}
	ceiling := tipstaff.Bounds(nil)
	if manifest != nil {
		ceiling = manifest.Bounds
	}
	p.bounds = tipstaff.EffectiveBounds(ceiling, tipstaff.Bounds(doc.Limits()), nil)
	return p, p.preflight()
}

func invalid(name string, problems []tipstaff.Problem) error {
	noun := "problems"
	if len(problems) == 1 {
		noun = "problem"
	}
	return &tipstaff.Error{Code: tipstaff.InvalidProgram, Problems: problems,
		Message: fmt.Sprintf("%s cannot be run: %d %s", name, len(problems), noun)}
}

// preflight finds, before a run exists, the tools that could not be called.
func (p *prepared) preflight() error {
	for leaf := range p.doc.Root.Leaves {
		if leaf.Kind != plan.ToolCall {
			continue
		}
		if _, err := p.tools.Lookup(leaf.Tool); err != nil {
			e := &tipstaff.Error{Code: tipstaff.Refused, Message: fmt.Sprintf("node %s: %v", leaf.ID, err), Err: err}
			if p.manifest == nil {
				return e.WithHint("there is no tipstaff.yaml in this workspace: it declares the servers and tools that plans may use")
			}
			return e.WithHint("declare the tool in tipstaff.yaml, or correct its pin in the plan")
		}
	}
	return nil
}

// manifest reads the workspace's tipstaff.yaml; nil if there is none.
func (r *Runner) manifest() (*tool.Manifest, error) {
	path := filepath.Join(r.Workspace, "tipstaff.yaml")
	src, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the manifest cannot be read: %v", err), Err: err}
	}
	m, problems := tool.ParseManifest("tipstaff.yaml", src)
	if len(problems) > 0 {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the manifest " + path + " is not valid", Problems: problems}
	}
	return m, nil
}

// create stores the run: the program and what was frozen as blobs, then its
// first four envelopes in one transaction.
func (r *Runner) create(ctx context.Context, p *prepared, req tipstaff.StartRequest) (tipstaff.ID, error) {
	frozen, err := r.freeze(ctx, p)
	if err != nil {
		return tipstaff.ID{}, err
	}
	program, err := r.Store.PutBlob(ctx, p.doc.Canonical())
	if err != nil {
		return tipstaff.ID{}, err
	}
	body := draftBody{ProgramKind: "plan", ProgramDigest: program, Inputs: p.inputs, Bounds: p.bounds, Frozen: frozen, Title: req.Title}
	return r.createFrom(ctx, body, p.doc, req.AcceptVia, nil)
}

func (r *Runner) freeze(ctx context.Context, p *prepared) (map[string]string, error) {
	tools, err := p.tools.Freeze()
	if err != nil {
		return nil, err
	}
	frozen := map[string]string{}
	if frozen[frozenTools], err = r.Store.PutBlob(ctx, tools); err != nil {
		return nil, err
	}
	if p.manifest != nil {
		if frozen[frozenManifest], err = r.Store.PutBlob(ctx, p.manifest.Frozen()); err != nil {
			return nil, err
		}
	}
	return frozen, nil
}

// createFrom makes a run of a given program: drafted, compiled, accepted and in
// effect, all at once. more follows the four envelopes.
func (r *Runner) createFrom(ctx context.Context, body draftBody, doc *plan.Document, via string, more []flow.Draft) (tipstaff.ID, error) {
	if via == "" {
		via = "command"
	}
	run := tipstaff.NewID(r.Now())
	body.User, body.Origin = userOf(ctx), r.Origin
	body.Keys = keysBody{User: r.Keys.User.String(), Executor: r.Keys.Executor.String()}
	accept := tipstaff.NewID(r.Now()).String()
	accepted := map[string]any{"intent_hash": doc.Intent.Hash(), "program_digest": body.ProgramDigest, "revision": 1,
		"bounds": body.Bounds, "via": via}
	if who := principal(ctx); who != "" {
		accepted["on_behalf_of"] = who
	}
	drafts := []flow.Draft{
		{Kind: string(tipstaff.KindIntentDraft), From: journal.Executor, Body: flow.JSON(body)},
		{Kind: string(tipstaff.KindIntentCompiled), From: journal.Executor, Body: flow.JSON(map[string]any{
			"intent": doc.Intent.JSON(), "intent_hash": doc.Intent.Hash(), "program_digest": body.ProgramDigest, "attempts": 0})},
		{Kind: string(tipstaff.KindIntentAccept), From: signer(ctx), ID: accept, Body: flow.JSON(accepted)},
		{Kind: string(tipstaff.KindPlanProposed), From: journal.Executor, Body: flow.JSON(map[string]any{
			"intent_hash": doc.Intent.Hash(), "program_digest": body.ProgramDigest, "revision": 1, "accepted_by": accept})},
	}
	row := flow.NewRun{ID: run.String(), User: body.User, Kind: body.ProgramKind, Origin: r.Origin, Title: body.Title, Program: body.ProgramDigest}
	if body.ForkOf != nil {
		row.Base, row.BaseSeq = body.ForkOf.Run, body.ForkOf.Seq
	}
	return run, r.Store.Create(ctx, row, append(drafts, more...))
}

// resolver answers plan's questions about tools from the manifest. There are no
// agents and no child runs in this release.
type resolver struct {
	manifest *tool.Manifest
	tools    *tool.Registry
}

func (r resolver) Tool(uri string) plan.ToolInfo {
	info := plan.ToolInfo{}
	if r.manifest != nil {
		info.MaxTimeout = r.manifest.MaxTimeout
	}
	if d, err := r.tools.Lookup(uri); err == nil {
		info.Class, info.Timeout = d.Class, d.Timeout
	}
	return info
}

func (resolver) Skill(uri string) plan.SkillInfo {
	return plan.SkillInfo{Trouble: plan.Trouble{Code: "unpinned_skill", Message: "this version of Tipstaff knows no skills"}}
}

func (resolver) Agent(name string) plan.AgentInfo {
	return plan.AgentInfo{Trouble: plan.Trouble{Code: "agent_unknown", Message: "this version of Tipstaff has no agents: use tool_call and gate nodes"}}
}

func (resolver) Dispatch(string) plan.Trouble {
	return plan.Trouble{Code: "sub_dispatch_disabled", Message: "this version of Tipstaff starts no child runs"}
}

// Feature: worktrees, delivery and anchors do not exist in this release either.
func (resolver) Feature(name string) plan.Trouble {
	return plan.Trouble{Code: "field_invalid", Message: "this version of Tipstaff does not have " + name}
}

func (r resolver) Bounds() flow.Use {
	if r.manifest == nil {
		return nil
	}
	return flow.Use(r.manifest.Bounds)
}

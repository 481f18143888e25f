package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	resolver resolver
	skills   *skillShelf
}

func (p *prepared) described() tipstaff.Program {
	return tipstaff.Program{Kind: "plan", Name: p.doc.Name, Digest: p.doc.Digest()}
}

func (r *Runner) prepare(req tipstaff.StartRequest) (*prepared, error) {
	return r.prepareWith(req, func(*plan.Document) (map[string]json.RawMessage, error) { return req.Inputs, nil })
}

// prepareWith is prepare for whoever must see the document to know its inputs.
func (r *Runner) prepareWith(req tipstaff.StartRequest, inputs func(*plan.Document) (map[string]json.RawMessage, error)) (*prepared, error) {
	manifest, err := r.manifest()
	if err != nil {
		return nil, err
	}
	if req.AllowSubDispatch {
		manifest = manifest.WithSubDispatch()
	}
	lock, err := r.lock()
	if err != nil {
		return nil, err
	}
	tools, err := r.tools(manifest, lock)
	if err != nil {
		return nil, err
	}
	set, err := r.skillSet()
	if err != nil {
		return nil, err
	}
	shelf := newShelf(set)
	p := &prepared{manifest: manifest, tools: tools, skills: shelf, resolver: resolver{manifest: manifest, tools: tools, skills: shelf, chain: chain{""}}}
	doc, problems := checkFirst(req.Name, req.Program, p.resolver)
	if len(problems) > 0 {
		return nil, invalid(req.Name, problems)
	}
	p.doc = doc
	given, err := inputs(doc)
	if err != nil {
		return nil, err
	}
	if p.inputs, problems = doc.CheckInputs(given); len(problems) > 0 {
		return nil, invalid(req.Name, problems)
	}
	ceiling := tipstaff.Bounds(nil)
	if manifest != nil {
		ceiling = manifest.Bounds
	}
	p.bounds = tipstaff.EffectiveBounds(ceiling, tipstaff.Bounds(doc.Limits()), nil)
	return p, p.preflight(req.Name, lock, r.Servers(manifest, r.Workspace, nil))
}

func invalid(name string, problems []tipstaff.Problem) error {
	noun := "problems"
	if len(problems) == 1 {
		noun = "problem"
	}
	return &tipstaff.Error{Code: tipstaff.InvalidProgram, Problems: problems, Err: errInvalid,
		Message: fmt.Sprintf("%s cannot be run: %d %s", name, len(problems), noun)}
}

// errInvalid tells a program with problems from a workspace with problems.
var errInvalid = errors.New("the program is not valid")

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
	if s := p.skills.taken[p.doc.Skill]; s != nil {
		body.Skill, body.SkillDigest = p.doc.Skill, s.Digest()
	}
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
	return frozen, r.freezeSkills(ctx, p.skills, p.doc, frozen)
}

// createFrom makes a run of a given program: drafted, compiled, accepted and in
// effect, all at once. more follows the four envelopes.
func (r *Runner) createFrom(ctx context.Context, body draftBody, doc *plan.Document, via string, more []flow.Draft) (tipstaff.ID, error) {
	if via == "" {
		via = "command"
	}
	run := tipstaff.NewID(r.Now())
	return run, r.store(ctx, run, body, doc, append(r.accepted(ctx, body, doc, via), more...))
}

// store creates a run: drafted and compiled, followed by more.
func (r *Runner) store(ctx context.Context, run tipstaff.ID, body draftBody, doc *plan.Document, more []flow.Draft) error {
	body.User, body.Origin = userOf(ctx), r.Origin
	body.Keys = keysBody{User: r.Keys.User.String(), Executor: r.Keys.Executor.String()}
	drafts := []flow.Draft{
		{Kind: string(tipstaff.KindIntentDraft), From: journal.Executor, Body: flow.JSON(body)},
		{Kind: string(tipstaff.KindIntentCompiled), From: journal.Executor, Body: flow.JSON(map[string]any{
			"intent": doc.Intent.JSON(), "intent_hash": doc.Intent.Hash(), "program_digest": body.ProgramDigest, "attempts": 0})},
	}
	row := flow.NewRun{ID: run.String(), User: body.User, Kind: body.ProgramKind, Origin: r.Origin, Title: body.Title, Program: body.ProgramDigest}
	if body.ForkOf != nil {
		row.Base, row.BaseSeq = body.ForkOf.Run, body.ForkOf.Seq
	}
	return r.Store.Create(ctx, row, append(drafts, more...))
}

// accepted is the acceptance of a program by whoever hands it over, and the
// program in effect.
func (r *Runner) accepted(ctx context.Context, body draftBody, doc *plan.Document, via string) []flow.Draft {
	id := tipstaff.NewID(r.Now()).String()
	accept := map[string]any{"intent_hash": doc.Intent.Hash(), "program_digest": body.ProgramDigest, "revision": cmp.Or(body.revision, 1),
		"bounds": body.Bounds, "via": via}
	if who := principal(ctx); who != "" {
		accept["on_behalf_of"] = who
	}
	return []flow.Draft{
		{Kind: string(tipstaff.KindIntentAccept), From: signer(ctx), ID: id, Body: flow.JSON(accept)},
		{Kind: string(tipstaff.KindPlanProposed), From: journal.Executor, Body: flow.JSON(map[string]any{
			"intent_hash": doc.Intent.Hash(), "program_digest": body.ProgramDigest, "revision": cmp.Or(body.revision, 1), "accepted_by": id})},
	}
}

// resolver answers plan's questions about tools and skills. There are no agents
// in this release.
type resolver struct {
	manifest *tool.Manifest
	tools    *tool.Registry
	skills   *skillShelf
	chain    chain // of the program that asks
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

func (r resolver) Skill(uri string) plan.SkillInfo { return r.skills.info(uri) }

func (resolver) Agent(name string) plan.AgentInfo {
	return plan.AgentInfo{Trouble: plan.Trouble{Code: "agent_unknown", Message: "this version of Tipstaff has no agents: use tool_call and gate nodes"}}
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

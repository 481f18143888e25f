package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// Start validates a plan, freezes it with everything that verifying it needs,
// creates its run and begins to drive it. A program handed over is accepted by
// that act.
func (r *Runner) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	if _, rounds := req.Bounds[tipstaff.BoundStages]; rounds && req.Run.IsZero() && req.Hold == nil && !pipeline.IsPipeline(req.Program) {
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.InvalidArgument, "%s bounds the rounds of a pipeline, and this is none", tipstaff.BoundStages)
	}
	if req.Draft != nil {
		return r.startDraft(ctx, req)
	}
	if req.Hold != nil || req.Agent != nil || !req.Run.IsZero() {
		return r.startHeld(ctx, req)
	}
	p, err := r.prepare(req)
	if err != nil {
		return tipstaff.Started{}, err
	}
	started := p.started()
	if req.DryRun {
		started.Shown, err = p.draw(req.Show)
		return started, err
	}
	run, err := r.create(ctx, p, req)
	if err != nil {
		return tipstaff.Started{}, explain(err, run)
	}
	started.Run = run
	frozen, err := openWith(ctx, r.Store, run.String(), p)
	if err != nil {
		return started, explain(err, run)
	}
	started.Done, err = r.begin(run.String(), frozen, person{yes: req.Yes, ask: req.Ask})
	return started, explain(err, run)
}

// prepared is a program that passed validation and preflight.
type prepared struct {
	doc     *plan.Document
	pipe    *pipeline.Pipeline // of a pipeline, for which doc stands; nil: it is none
	inputs  json.RawMessage
	bounds  tipstaff.Bounds
	asked   tipstaff.Bounds // by whoever starts it, which can only lower them
	crew    crew
	session *conversation            // of a turn; nil: it is none
	status  *tipstaff.PipelineStatus // of a pipeline; nil: it is none
	stages  stagePlans               // what its plan stages walk
	// costBound: somebody has set a bound of cost.
	costBound bool
	// live is the manifest as it stands, where models are opened from it while the
	// frozen one holds for all else. nil: they are the same.
	live     *workspace.Manifest
	manifest *workspace.Manifest
	tools    *tool.Registry
	resolver resolver
	skills   *skillShelf
}

func (p *prepared) described() tipstaff.Program {
	return tipstaff.Program{Kind: p.doc.Kind, Name: p.doc.Name, Digest: p.doc.Digest()}
}

// started is what is known before there is a run.
func (p *prepared) started() tipstaff.Started {
	s := tipstaff.Started{Program: p.described()}
	if p.pipe == nil {
		s.Outline = p.doc.Outline(p.resolver)
		return s
	}
	s.Outline, s.Warnings = pipelineOutline(p.pipe, p.stages), slices.Concat(p.pipe.Warnings(), p.kept())
	return s
}

// kept are the bounds that somebody has asked to be higher than they are.
func (p *prepared) kept() (warnings []tipstaff.Problem) {
	for _, name := range p.asked.Above(p.bounds) {
		warnings = append(warnings, tipstaff.Problem{Code: "bound_kept", Message: fmt.Sprintf("%s stays at %s: the %s asked for would raise it, and a start can only lower bounds",
			name, tipstaff.FormatBound(name, p.bounds[name]), tipstaff.FormatBound(name, p.asked[name]))})
	}
	return warnings
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
	have, err := r.stock(manifest)
	if err != nil {
		return nil, err
	}
	p := &prepared{manifest: manifest, tools: have.tools, skills: have.skills,
		resolver: resolver{manifest: manifest, tools: have.tools, skills: have.skills, chain: chain{""}}}
	if pipeline.IsPipeline(req.Program) {
		return p, r.preparePipeline(p, req, have.lock)
	}
	doc, problems := checkFirst(req.Name, req.Program, p.resolver)
	if len(problems) > 0 {
		return nil, invalid(req.Name, problems)
	}
	p.doc = doc
	p.bounds = tipstaff.EffectiveBounds(manifest.Ceiling(), tipstaff.Bounds(doc.Limits()), req.Bounds)
	_, p.costBound = tipstaff.Min(manifest.Ceiling(), tipstaff.Bounds(doc.Limits()), req.Bounds)[tipstaff.BoundCostUSD]
	if err := r.hire(p); err != nil {
		return nil, err
	}
	if doc.Turn != nil {
		if err := r.sitDown(p); err != nil {
			return nil, err
		}
	}
	given, err := inputs(doc)
	if err != nil {
		return nil, err
	}
	if p.inputs, problems = doc.CheckInputs(given); len(problems) > 0 {
		return nil, invalid(req.Name, problems)
	}
	if err := p.checkAnchor(req.Name, r.Workspace); err != nil {
		return nil, err
	}
	return p, p.preflight(req.Name, have.lock, r.Servers(manifest, r.Workspace, nil))
}

// stock is what a workspace has for plans under a manifest.
type stock struct {
	*desk
	skills *skillShelf
}

func (r *Runner) stock(m *workspace.Manifest) (*stock, error) {
	d, err := r.desk(m)
	if err != nil {
		return nil, err
	}
	set, err := r.skillSet()
	if err != nil {
		return nil, err
	}
	return &stock{d, newShelf(set)}, nil
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
func (r *Runner) manifest() (*workspace.Manifest, error) {
	path := filepath.Join(r.Workspace, "tipstaff.yaml")
	src, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the manifest cannot be read: %v", err), Err: err}
	}
	m, problems := workspace.ParseIn(workspace.Beside(r.Workspace), "tipstaff.yaml", src)
	if len(problems) > 0 {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the manifest " + path + " is not valid", Problems: problems}
	}
	return m, r.replacePolicy(m)
}

// AnchorFile is the file that the manifest of a workspace names for anchors; "": none.
func AnchorFile(workspace string) (string, error) {
	m, err := New(Config{Workspace: workspace}).manifest()
	if err != nil || m == nil {
		return "", err
	}
	return anchorIn(m, workspace), nil
}

func anchorIn(m *workspace.Manifest, dir string) string {
	if m.Anchor == "" || filepath.IsAbs(m.Anchor) {
		return m.Anchor
	}
	return filepath.Join(dir, m.Anchor)
}

// replacePolicy puts the policy of a file in the place of the manifest's, if there
// is one.
func (r *Runner) replacePolicy(m *workspace.Manifest) error {
	if r.Policy == "" {
		return nil
	}
	src, err := os.ReadFile(r.Policy)
	if err != nil {
		return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the policy cannot be read: %v", err), Err: err}
	}
	p, problems := workspace.ParsePolicy(r.Policy, src)
	if len(problems) > 0 {
		return &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the policy " + r.Policy + " is not valid", Problems: problems}
	}
	m.Policy = p
	return nil
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
	body := draftBody{ProgramKind: p.doc.Kind, ProgramDigest: program, Inputs: p.inputs, Bounds: p.bounds, Frozen: frozen, Title: req.Title, Pipeline: p.status, Asks: asksOf(ctx, brings(req))}
	if p.session != nil {
		body.after = p.session.last
	}
	if s := p.skills.taken[p.doc.Skill]; s != nil {
		body.Skill, body.SkillDigest = p.doc.Skill, s.Digest()
	}
	return r.createFrom(ctx, body, p.doc, via(req), nil)
}

func (r *Runner) freeze(ctx context.Context, p *prepared) (map[string]string, error) {
	for _, doc := range p.plans() {
		p.skills.reach(doc)
	}
	held := p.tools
	if p.startsPrograms() {
		held = held.WithPrograms(p.manifest, r.Workspace)
	}
	tools, err := held.Freeze()
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
	if err := r.freezeCrew(ctx, p.crew, frozen); err != nil {
		return nil, err
	}
	if p.session != nil {
		if err := r.freezeMessages(ctx, p.session.messages, frozen); err != nil {
			return nil, err
		}
	}
	return frozen, r.freezeSkills(ctx, p.skills, frozen)
}

// createFrom makes a run of a given program: drafted, compiled, accepted and in
// effect, all at once. more follows the four envelopes.
func (r *Runner) createFrom(ctx context.Context, body draftBody, doc *plan.Document, via string, more []flow.Draft) (tipstaff.ID, error) {
	run := tipstaff.NewID(r.Now())
	return run, r.store(ctx, run, body, doc, append(r.accepted(ctx, body, doc, via), more...))
}

// store creates a run: drafted and, if there is a program, compiled, followed by
// more.
func (r *Runner) store(ctx context.Context, run tipstaff.ID, body draftBody, doc *plan.Document, more []flow.Draft) error {
	if body.Rollback == nil || body.Parent.Relation != relationRollback { // else it stays whose it was, whoever rolls it back
		body.User = userOf(ctx)
	}
	body.Origin, body.Trace, body.By = r.Origin, tool.Traceparent(ctx), onBehalf(ctx, body.User)
	body.Keys = keysBody{User: r.Keys.User.String(), Executor: r.Keys.Executor.String()}
	body.Pipeline = statusIn(run, body.Pipeline)
	if body.ForkOf == nil {
		body.Rules = rulesNow
	}
	drafts := []flow.Draft{{Kind: string(tipstaff.KindIntentDraft), From: journal.Executor, Body: flow.JSON(body)}}
	if body.ProgramDigest != "" && !body.Hold {
		drafts = append(drafts, compiled(body.ProgramDigest, doc))
	}
	row := flow.NewRun{ID: run.String(), User: body.User, Kind: body.ProgramKind, Origin: r.Origin, Title: body.Title, Program: body.ProgramDigest}
	if doc.Turn != nil {
		row.Session, row.After = doc.Turn.Session, body.after
	}
	if s := body.Pipeline; s != nil {
		row.Envelope, row.Thread, row.After = s.Envelope, s.Thread, body.after
		if body.Rollback == nil || body.Parent.Relation == relationRollback { // a fork was not made by that request
			row.Request = s.Request
		}
	}
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

// resolver answers plan's questions about tools, skills and agents.
type resolver struct {
	manifest *workspace.Manifest
	tools    *tool.Registry
	skills   *skillShelf
	chain    chain // of the program that asks
}

func (r resolver) Tool(uri string) plan.ToolInfo {
	info := plan.ToolInfo{}
	if r.manifest != nil {
		info.MaxTimeout = time.Duration(r.manifest.MaxTimeout)
	}
	if d, err := r.tools.Lookup(uri); err == nil {
		info.Class, info.Timeout = d.Class, d.Timeout
	}
	return info
}

func (r resolver) Skill(uri string) plan.SkillInfo { return r.skills.info(uri) }

func (r resolver) Agent(name string) plan.AgentInfo {
	return plan.AgentInfo{Trouble: agentTrouble(r.manifest, name)}
}

// Feature: worktrees and delivery do not exist in this release either.
func (r resolver) Feature(name string) plan.Trouble {
	if name == "anchor" {
		if r.manifest != nil && r.manifest.Anchor != "" {
			return plan.Trouble{}
		}
		return plan.Trouble{Code: "field_invalid", Message: "anchor: true needs anchor.file in tipstaff.yaml: the file outside the store that says where the run came to rest"}
	}
	return plan.Trouble{Code: "field_invalid", Message: "this version of Tipstaff does not have " + name}
}

func (r resolver) Bounds() flow.Use {
	if r.manifest == nil {
		return nil
	}
	return flow.Use(r.manifest.Bounds)
}

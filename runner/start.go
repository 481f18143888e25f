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
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// Start validates a program, freezes it with everything that verifying it needs,
// creates its run and begins to drive it. A program handed over is accepted by
// that act.
func (r *Runner) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	if err := mayStart(ctx, req); err != nil {
		return tipstaff.Started{}, err
	}
	digest := requestDigest("start", req)
	if started, found, err := r.madeBefore(ctx, req.Key, digest); found || err != nil {
		return started, err
	}
	if err := r.mayBegin(ctx, userOf(ctx), req.Detach); err != nil {
		return tipstaff.Started{}, err
	}
	var err error
	if req.Project, err = r.projectOf(req.Project); err != nil {
		return tipstaff.Started{}, err
	}
	o, err := r.openRequest(req)
	if err == nil {
		err = may(ctx, o.handed.needs())
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	p, err := r.prepareWith(ctx, o, inputsTaken{})
	if err != nil {
		return tipstaff.Started{}, err
	}
	asks, err := p.handed.asks(ctx)
	if err != nil {
		return tipstaff.Started{}, err
	}
	body, err := r.freeze(ctx, p)
	if err != nil {
		return tipstaff.Started{}, explain(err, tipstaff.ID{})
	}
	body.Title, body.Asks = req.Title, asks
	body.hosted(req.Hosting, digest)
	if p.task != nil {
		body.worker = p.task.Worker
		body.label(tipstaff.LabelTask, p.task.ID)
	}
	run := tipstaff.NewID(r.Now())
	return r.host(ctx, run, body, p.text, r.accepted(ctx, body, p.text, via(req.Via)), p.validated(), person{Presence: req.Presence}, req.Detach)
}

// Validate says what Start or Draft would, and creates nothing.
func (r *Runner) Validate(ctx context.Context, req tipstaff.ValidateRequest) (v tipstaff.Validated, err error) {
	var p *prepared
	switch {
	case req.Correct != nil && req.Start == nil && req.Draft == nil:
		return r.validateCorrection(ctx, *req.Correct)
	case req.Correct != nil || (req.Start == nil) == (req.Draft == nil):
		return v, tipstaff.Errorf(tipstaff.InvalidArgument, "give one of what is to be started, what a plan is to be drafted for, and a correction")
	case req.Start != nil:
		var o opened
		if err = mayValidate(ctx, req.Start.Hosting, req.Start.Presence, req.Start.AllowSubDispatch); err == nil {
			_, err = r.projectOf(req.Start.Project)
		}
		if err == nil {
			o, err = r.openRequest(*req.Start)
		}
		if err == nil {
			p, err = r.prepareWith(ctx, o, inputsTaken{missing: req.Ask})
		}
	default:
		if err = mayValidate(ctx, req.Draft.Hosting, req.Draft.Presence, req.Draft.AllowSubDispatch); err == nil {
			p, err = r.prepareDraft(ctx, *req.Draft)
		}
	}
	if err != nil {
		return v, err
	}
	v = p.validated()
	if v.Turn != nil && p.session.last == "" { // each start begins another
		v.Turn.Session = ""
	}
	if req.Graph == "" {
		return v, nil
	}
	text, ok := p.text.(pipelineText)
	if !ok {
		return v, tipstaff.Errorf(tipstaff.InvalidArgument, "only pipelines are drawn; this is a %s", v.Program.Kind)
	}
	v.Graph, err = text.drawn(req.Graph, nil)
	return v, err
}

// beginNew opens a run that was just made and begins to drive it.
func (r *Runner) beginNew(ctx context.Context, run tipstaff.ID, v tipstaff.Validated, who person) (tipstaff.Started, error) {
	started := tipstaff.Started{Run: run, Validated: v}
	p, err := openProgram(ctx, r.Store, run.String())
	if err != nil {
		return started, explain(err, run)
	}
	return started, explain(r.submitNew(ctx, p, who), run)
}

// prepared is a program that passed validation and preflight.
type prepared struct {
	text    document
	handed  handed // with what is the caller's own in the inputs
	inputs  json.RawMessage
	bounds  tipstaff.Bounds
	asked   tipstaff.Bounds // by whoever starts it, which can only lower them
	agents  agentSet
	session *conversation            // of a turn; nil: it is none
	task    *tipstaff.Task           // that the run is made for; nil: none
	status  *tipstaff.PipelineStatus // of a pipeline; nil: it is none
	files   *tipstaff.RunFiles       // where its agents work; nil: they change no files
	writes  bool                     // one of them may
	said    tipstaff.Bounds          // those of the bounds that somebody has set
	// costBound: one of cost is among them.
	costBound bool
	// live is the manifest as it stands, where models are opened from it while the
	// frozen one holds for all else. nil: they are the same.
	live     *workspace.Manifest
	manifest *workspace.Manifest
	lock     *tool.Lock // nil: nothing is checked against it
	tools    *tool.Registry
	resolver resolver
	skills   *skillCatalog
	warnings []tipstaff.Problem // of a turn
	idle     []string           // entries of writable that open nothing
}

// newPrepared is what a workspace has for programs.
func (r *Runner) newPrepared(subDispatch bool) (*prepared, error) {
	m, err := r.manifest()
	if err != nil {
		return nil, err
	}
	if subDispatch {
		m = m.WithSubDispatch()
	}
	return r.preparedUnder(m)
}

// newTurn is newPrepared for a turn, which needs no tipstaff.yaml.
func (r *Runner) newTurn() (*prepared, error) {
	m, err := r.manifest()
	if err != nil {
		return nil, err
	}
	if m != nil || r.Implicit == nil {
		return r.preparedUnder(m)
	}
	if m, err = r.implicit(); err != nil {
		return nil, err
	}
	p, err := r.preparedUnder(m)
	if err == nil {
		a, _ := m.Agent(workspace.DefaultAgent)
		p.warnings = []tipstaff.Problem{{Code: "manifest_missing", Message: fmt.Sprintf(
			"no tipstaff.yaml here: %s answers, may read below %s, and asks for all else; `tipstaff init` writes one", m.Models[a.Model].Model, r.Workspace)}}
	}
	return p, err
}

// implicit is the manifest of a turn in a workspace that has none.
func (r *Runner) implicit() (*workspace.Manifest, error) {
	m, err := r.Implicit()
	if err != nil {
		return nil, err
	}
	return m, r.replacePolicy(m)
}

// preparedUnder is what a workspace has for programs under a manifest.
func (r *Runner) preparedUnder(m *workspace.Manifest) (*prepared, error) {
	have, err := r.catalog(m)
	if err != nil {
		return nil, err
	}
	set, err := r.skillSet()
	if err != nil {
		return nil, err
	}
	skills := newSkillCatalog(set)
	return &prepared{manifest: m, lock: have.lock, tools: have.tools, skills: skills, idle: r.protection(m).Idle(),
		resolver: resolver{manifest: m, tools: have.tools, skills: skills, chain: chain{""}, performers: r.performers}}, nil
}

// validated is what is known before there is a run.
func (p *prepared) validated() tipstaff.Validated {
	v := tipstaff.Validated{Program: p.text.described(), Outline: p.text.outline(p.resolver), Bounds: p.bounds}
	if text, ok := p.text.(planText); ok {
		for _, in := range text.Inputs {
			v.Inputs = append(v.Inputs, tipstaff.SkillField{Name: in.Name, Required: in.Required, Schema: in.Schema})
		}
		if p.session != nil {
			p.describe(text.Document, &v)
		}
	}
	v.Warnings = slices.Clone(p.warnings)
	for _, a := range p.resolver.manifest.Rules().Advice() {
		v.Warnings = append(v.Warnings, tipstaff.Problem{Code: "policy_compares_text", Message: a.Message})
	}
	for _, entry := range p.idle {
		v.Warnings = append(v.Warnings, tipstaff.Problem{Code: CodeOpensNothing, Message: opensNothing(entry)})
	}
	text, ok := p.text.(pipelineText)
	if !ok || text.Pipeline == nil {
		return v
	}
	v.Warnings = append(v.Warnings, text.Warnings()...)
	for _, name := range p.asked.Above(p.bounds) {
		v.Warnings = append(v.Warnings, tipstaff.Problem{Code: "bound_kept", Message: fmt.Sprintf("%s stays at %s: the %s asked for would raise it, and a start can only lower bounds",
			name, tipstaff.FormatBound(name, p.bounds[name]), tipstaff.FormatBound(name, p.asked[name]))})
	}
	return v
}

func (r *Runner) prepare(ctx context.Context, req tipstaff.StartRequest) (*prepared, error) {
	o, err := r.openRequest(req)
	if err != nil {
		return nil, err
	}
	return r.prepareWith(ctx, o, inputsTaken{})
}

// inputsTaken says which inputs a program takes.
type inputsTaken struct {
	had     json.RawMessage // of those that a run has had, the ones that it declares; nil: those of the request
	missing bool            // those that are not given may still come
}

// prepareWith is prepare for a program that takes its inputs otherwise.
func (r *Runner) prepareWith(ctx context.Context, req opened, take inputsTaken) (*prepared, error) {
	var (
		p   *prepared
		err error
	)
	if plan.IsTurn(req.Program) {
		p, err = r.newTurn()
	} else {
		p, err = r.newPrepared(req.AllowSubDispatch)
	}
	if err != nil {
		return nil, err
	}
	p.handed = req.handed
	if err := r.prepareTask(ctx, p, &req.StartRequest); err != nil {
		return nil, err
	}
	if pipeline.IsPipeline(req.Program) {
		return p, r.preparePipeline(ctx, p, req)
	}
	if _, rounds := req.Bounds[tipstaff.BoundStages]; rounds {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%s bounds the rounds of a pipeline, and this is none", tipstaff.BoundStages)
	}
	first := p.resolver
	first.files = true
	doc, problems := checkFirst(req.Name, req.Program, first)
	if len(problems) > 0 {
		return nil, invalid(req.Name, problems)
	}
	p.text = planText{doc}
	p.bind(tipstaff.Bounds(doc.Limits()), tipstaff.Bounds(doc.Limits()), req.Bounds)
	if err := r.settleAgents(p); err != nil {
		return nil, err
	}
	if doc.Turn != nil { // its place is the session that it goes on with, and the tools that its agent may use
		if p.session, err = r.conversation(ctx, doc.Turn.Session); err != nil {
			return nil, err
		}
		tools := []string{}
		if own := p.agents.settled[doc.Root.Agent].Tools; own != nil {
			tools = *own
		}
		if doc, err = inSession(doc, p.session, tools); err != nil {
			return nil, err
		}
		p.text = planText{doc}
	}
	if take.had != nil {
		if req.Inputs, err = declaredInputs(doc, take.had); err != nil {
			return nil, err
		}
	}
	p.inputs, problems = doc.CheckInputs(req.Inputs)
	if take.missing {
		problems = slices.DeleteFunc(problems, func(p tipstaff.Problem) bool { return p.Code == plan.CodeInputMissing })
	}
	if len(problems) > 0 {
		return nil, inputsRefused(req.Name, doc, problems)
	}
	if err := p.checkAnchor(req.Name, r.Workspace); err != nil {
		return nil, err
	}
	if err := r.prepareFiles(ctx, p, req.NoFiles); err != nil {
		return nil, err
	}
	return p, p.preflight(req.Name, r.Servers(p.manifest, r.Workspace, nil))
}

// prepareTask finds the task that a run is to be made for. Whether it still is pending is
// seen again when the run is made.
func (r *Runner) prepareTask(ctx context.Context, p *prepared, req *tipstaff.StartRequest) error {
	if req.Task == nil {
		return nil
	}
	t, err := r.openTask(ctx, req.Task.ID, tipstaff.ScopeRun)
	switch {
	case err != nil:
		return err
	case pipeline.IsPipeline(req.Program) || plan.IsTurn(req.Program):
		return tipstaff.Errorf(tipstaff.InvalidArgument, "a task is done by a plan")
	case t.Status != tipstaff.TaskPending && !t.Status.Ended():
		return tipstaff.Errorf(tipstaff.TaskBusy, "task %s is %s: run %s does it", t.ID, t.Status, t.RunID).
			WithCommand("`tipstaff task resume %s` goes on with it", t.ID)
	}
	if err := t.CheckMove(tipstaff.TaskInProgress, tipstaff.BySystem); err != nil {
		return err
	}
	t.Worker = cmp.Or(req.Task.Worker, t.Worker)
	p.task = &t
	if len(req.Program) == 0 { // what it changes reaches the user at a gate
		_, by := r.performers.agent(p.manifest, t.Role)
		if t.Worker != "" {
			_, own := r.performers.agent(p.manifest, t.Worker)
			by.Writes = by.Writes && own.Writes
		}
		req.Program = t.Plan(by.Writes)
	}
	return nil
}

// bind settles the bounds of a run: those of the manifest, of the program, of which it
// says some itself, and of whoever starts it.
func (p *prepared) bind(program, said, asked tipstaff.Bounds) {
	p.bounds = tipstaff.EffectiveBounds(p.manifest.Ceiling(), program, asked)
	p.said = tipstaff.Min(p.manifest.Ceiling(), said, asked)
	_, p.costBound = p.said[tipstaff.BoundCostUSD]
}

func invalid(name string, problems []tipstaff.Problem) error {
	noun := "problems"
	if len(problems) == 1 {
		noun = "problem"
	}
	return &tipstaff.Error{Code: tipstaff.InvalidProgram, Problems: problems, Err: errInvalid,
		Message: fmt.Sprintf("%s cannot be run: %d %s", name, len(problems), noun)}
}

// inputsRefused says where the plan describes the inputs that are at fault, and how they
// are given.
func inputsRefused(name string, doc *plan.Document, problems []tipstaff.Problem) error {
	for i, problem := range problems {
		for _, in := range doc.Inputs {
			if problem.Path == "inputs."+in.Name && in.At.Line > 0 {
				problems[i].File, problems[i].Line, problems[i].Column = name, in.At.Line, in.At.Column
			}
		}
	}
	var refused *tipstaff.Error
	err := invalid(name, problems)
	if errors.As(err, &refused) {
		return refused.WithCommand("give inputs with --input NAME=VALUE, or all of them with --inputs FILE")
	}
	return err
}

// errInvalid tells a program with problems from a workspace with problems.
var errInvalid = errors.New("the program is not valid")

// manifest reads the workspace's tipstaff.yaml; nil if there is none.
func (r *Runner) manifest() (*workspace.Manifest, error) {
	m, err := workspace.Read(r.Workspace)
	if m == nil {
		return nil, err
	}
	return m, r.replacePolicy(m)
}

// replacePolicy gives a manifest the policy that the command line names, if it does.
func (r *Runner) replacePolicy(m *workspace.Manifest) error {
	if r.Policy == "" {
		return nil
	}
	src, err := os.ReadFile(r.Policy)
	if err != nil {
		return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the policy cannot be read: %v", err), Err: err}
	}
	own, problems := workspace.ParsePolicy(r.Policy, src)
	if len(problems) > 0 {
		return &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the policy " + r.Policy + " is not valid", Problems: problems}
	}
	m.Policy = own
	return nil
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

// freeze stores a program with all that driving and verifying it needs, and returns
// what the draft of its run says of them.
func (r *Runner) freeze(ctx context.Context, p *prepared) (draftBody, error) {
	for _, doc := range p.text.plans() {
		p.skills.reach(doc)
	}
	registry := p.tools
	if p.startsPrograms() {
		registry = registry.WithPrograms(p.manifest, r.Workspace)
	}
	described := p.text.described()
	body := draftBody{IntentDraft: tipstaff.IntentDraft{ProgramKind: described.Kind, Inputs: p.inputs, Bounds: p.bounds, Frozen: map[string]string{}, Pipeline: p.status, Files: p.files}}
	body.tied = p.tied()
	tools, err := registry.Freeze()
	if err != nil {
		return body, err
	}
	if body.Frozen[frozenTools], err = r.Store.PutBlob(ctx, tools); err != nil {
		return body, err
	}
	if p.manifest != nil {
		if body.Frozen[frozenManifest], err = r.Store.PutBlob(ctx, p.manifest.Frozen()); err != nil {
			return body, err
		}
	}
	if err := r.freezeAgents(ctx, p.agents, body.Frozen); err != nil {
		return body, err
	}
	if p.session != nil {
		body.after = p.session.last
		for i, m := range agent.MessageBlobs(p.session.messages) {
			if _, err := r.Store.PutBlob(ctx, m.Data); err != nil {
				return body, err
			}
			body.Frozen[fmt.Sprintf("%s%06d", tipstaff.FrozenMessage, i+1)] = m.Digest
		}
		for i, digest := range agent.Kept(p.session.messages) {
			body.Frozen[fmt.Sprintf("%s%06d", frozenImage, i+1)] = digest
		}
	}
	if err := r.freezeSkills(ctx, p.skills, body.Frozen); err != nil {
		return body, err
	}
	if s := p.skills.taken[p.text.skill()]; s != nil {
		body.Skill, body.SkillDigest = p.text.skill(), s.Digest()
	}
	if canonical := p.text.Canonical(); canonical != nil {
		body.ProgramDigest, err = r.Store.PutBlob(ctx, canonical)
	}
	return body, err
}

// store creates a run: drafted and, if there is a program, compiled, followed by
// more.
func (r *Runner) store(ctx context.Context, run tipstaff.ID, body draftBody, doc document, more []flow.Draft) error {
	if p := body.Parent; p == nil || p.Relation != relationRollback && p.Relation != relationFollowup { // else it stays whose it was
		body.User = userOf(ctx)
	}
	body.Origin, body.Trace, body.By = cmp.Or(body.origin, r.Origin), tool.Traceparent(ctx), ""
	if p := principal(ctx); strings.HasPrefix(p, "token:") && p != "token:"+body.User { // it acts for another than its own user
		body.By = p
	}
	body.Keys = r.Keys
	body.Within = slices.DeleteFunc(tipstaff.CallerFrom(ctx).OwnRuns(), func(run string) bool { return run == "" })
	if s := body.Pipeline; s != nil { // without an Envelope or a thread of others it belongs to its own
		own := *s
		own.Envelope, own.Thread = cmp.Or(s.Envelope, "env_"+run.String()), cmp.Or(s.Thread, run.String())
		body.Pipeline = &own
	}
	if body.ForkOf == nil {
		body.Rules = rulesNow
	}
	drafts := []flow.Draft{{Kind: string(tipstaff.KindIntentDraft), From: journal.Executor, Body: flow.JSON(body)}}
	if body.ProgramDigest != "" && !body.Hold {
		drafts = append(drafts, compiled(body.ProgramDigest, doc))
	}
	row := flow.NewRun{ID: run.String(), User: body.User, Kind: body.ProgramKind, Origin: body.Origin, Title: body.Title, Program: body.ProgramDigest,
		Project: body.Labels[labelProject], Key: body.key, KeyDigest: body.keyDigest, Labels: body.Labels}
	if body.ProgramDigest != "" {
		row.Name = doc.described().Name
	}
	if _, ok := body.Labels[tipstaff.LabelMessage]; ok && body.ForkOf == nil {
		row.Alone = tipstaff.LabelMessage
	}
	if t := doc.turn(); t != nil {
		row.Session, row.After = t.Session, body.after
	}
	if s := body.Pipeline; s != nil {
		row.Envelope, row.Thread, row.After, row.Request = s.Envelope, s.Thread, body.after, s.Request
		if body.Rollback != nil { // a fork was not made by that request
			row.Request = body.request
		}
	}
	if body.ForkOf != nil { // it gets copies of the tasks of its source
		row.Base, row.BaseSeq = body.ForkOf.Run, body.ForkOf.Seq
		row.Parent = body.ForkOf.Run
	} else {
		row.Task, row.Worker = body.Labels[tipstaff.LabelTask], body.worker
	}
	if body.Parent != nil {
		row.Parent = body.Parent.Run
	}
	var err error
	if row.Host, err = r.tie(ctx, &body); err != nil {
		return err
	}
	return r.Store.Create(ctx, row, append(drafts, more...))
}

// accepted is the acceptance of a program by whoever hands it over, and the
// program in effect.
func (r *Runner) accepted(ctx context.Context, body draftBody, doc document, via string) []flow.Draft {
	id := tipstaff.NewID(r.Now()).String()
	terms, revision := tipstaff.Terms{IntentHash: doc.intent().Hash(), ProgramDigest: body.ProgramDigest}, cmp.Or(body.revision, 1)
	accept := tipstaff.IntentAccept{Terms: terms, Revision: revision, Bounds: body.Bounds, Via: via, OnBehalfOf: principal(ctx)}
	return []flow.Draft{
		{Kind: string(tipstaff.KindIntentAccept), From: signer(ctx), ID: id, Body: flow.JSON(accept)},
		{Kind: string(tipstaff.KindPlanProposed), From: journal.Executor, Body: flow.JSON(tipstaff.PlanProposed{Terms: terms, Revision: revision, AcceptedBy: id})},
	}
}

// resolver answers plan's questions about tools, skills and agents.
type resolver struct {
	manifest *workspace.Manifest
	tools    *tool.Registry
	skills   *skillCatalog
	chain    chain // of the program that asks
	files    bool  // it may have files and deliver

	performers performers
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
	_, info := r.performers.agent(r.manifest, name)
	return info
}

// Feature: only a program that is started by itself has files.
func (r resolver) Feature(name string) plan.Trouble {
	if name == "anchor" {
		if r.manifest != nil && r.manifest.Anchor != "" {
			return plan.Trouble{}
		}
		return plan.Trouble{Code: "field_invalid", Message: "anchor: true needs anchor.file in tipstaff.yaml: the file outside the store that says where the run came to rest"}
	}
	if r.files {
		return plan.Trouble{}
	}
	return withoutFiles(name)
}

// withoutFiles refuses what a program cannot have that is part of another, or that nobody
// has written.
func withoutFiles(name string) plan.Trouble {
	return plan.Trouble{Code: "field_invalid", Message: "only a program that somebody starts can have " + name}
}

// Release: the expressions of plans are those of pipelines.
func (r resolver) Release(expression string) plan.Trouble {
	if _, err := pipeline.CompileRelease(expression); err != nil {
		return plan.Trouble{Code: "bad_expression", Message: "release: " + err.Error()}
	}
	return plan.Trouble{}
}

func (r resolver) Bounds() flow.Use {
	if r.manifest == nil {
		return nil
	}
	return flow.Use(r.manifest.Bounds)
}

package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
)

// kindPipeline is what intent.draft calls the program.
const kindPipeline = "pipeline"

// pipelineInputs are the inputs of a pipeline run.
type pipelineInputs struct {
	RawInput   string           `json:"raw_input"`
	Metadata   map[string]exact `json:"metadata,omitempty"`
	Goals      []string         `json:"goals,omitempty"`
	Thread     string           `json:"thread_id,omitempty"`
	Session    string           `json:"session_id,omitempty"`
	Request    string           `json:"request_id,omitempty"`
	User       string           `json:"user_id,omitempty"`
	StageOrder []string         `json:"stage_order,omitempty"`
	ReceivedAt time.Time        `json:"received_at"`
	// Outputs are those that a single agent begins with.
	Outputs map[string]exact `json:"outputs,omitempty"`
}

// preparePipeline is prepare for pipelines.
func (r *Runner) preparePipeline(p *prepared, req tipstaff.StartRequest, lock *tool.Lock) error {
	in, err := r.pipelineInputs(req.Inputs)
	if err != nil {
		return err
	}
	pipe, problems := pipeline.Check(req.Name, req.Program, r.pipelineResolver(p, req))
	if len(problems) > 0 {
		return invalid(req.Name, problems)
	}
	if len(in.StageOrder) > 0 {
		if pipe, err = pipe.WithOrder(in.StageOrder); err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "stage_order: %v", err)
		}
	}
	p.pipe = pipe
	if p.stages, err = readPlans(pipe); err != nil {
		return err
	}
	p.doc = plan.Standing(kindPipeline, pipe.Name, pipe.Canonical(), pipe.AllowList())
	said := limitsOf(pipe)
	p.asked, p.bounds = req.Bounds, tipstaff.EffectiveBounds(p.manifest.Ceiling(), said, req.Bounds)
	_, p.costBound = tipstaff.Min(p.manifest.Ceiling(), said, req.Bounds)[tipstaff.BoundCostUSD]
	if err := r.hire(p); err != nil {
		return err
	}
	if p.inputs, err = in.check(); err != nil {
		return err
	}
	p.status = in.status(r.Now())
	return p.preflight(req.Name, lock, r.Servers(p.manifest, r.Workspace, nil))
}

// pipelineInputs reads what a pipeline is given; the rest it has by default.
func (r *Runner) pipelineInputs(given map[string]json.RawMessage) (*pipelineInputs, error) {
	in := &pipelineInputs{ReceivedAt: r.Now().UTC()}
	var metadata, outputs map[string]json.RawMessage
	fields := map[string]any{"raw_input": &in.RawInput, "metadata": &metadata, "goals": &in.Goals, "thread_id": &in.Thread,
		"session_id": &in.Session, "request_id": &in.Request, "user_id": &in.User, "stage_order": &in.StageOrder, "outputs": &outputs}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		into, ok := fields[name]
		if !ok {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "a pipeline has no input %q", name).
				WithHint("its inputs are raw_input (--text), metadata (--input K=V), goals and thread_id")
		}
		if err := json.Unmarshal(given[name], into); err != nil {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the input %s cannot be used: %v", name, err)
		}
	}
	in.Metadata, in.Outputs = exacts(metadata), exacts(outputs)
	return in, checkThread(in.Thread)
}

// check is the inputs as they are stored: what they hold is what an Envelope may
// hold, and canonical.
func (in *pipelineInputs) check() (json.RawMessage, error) {
	for _, name := range slices.Sorted(maps.Keys(in.Metadata)) {
		if _, err := pipeline.Decode(json.RawMessage(in.Metadata[name])); err != nil {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "metadata.%s: %v", name, err)
		}
	}
	seen := map[string]bool{}
	for _, goal := range in.Goals {
		if goal == "" || seen[goal] {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "a goal has a name, and no other goal has it: %q", goal)
		}
		seen[goal] = true
	}
	return flow.JSON(in), nil
}

// checkThread refuses a key that could not stand in a path or on a line.
func checkThread(key string) error {
	ok := len(key) <= 128
	for i := 0; ok && i < len(key); i++ {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			ok = false
		}
	}
	if !ok {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%q is no key of a thread: it has 1 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'", brief(json.RawMessage(key)))
	}
	return nil
}

// status gives an Envelope its identity. Ids that the caller does not care about are
// made here, once: they stand in the first record. Its own follows from the run's.
func (in *pipelineInputs) status(now time.Time) *tipstaff.PipelineStatus {
	return &tipstaff.PipelineStatus{Version: 1, Thread: in.Thread, Request: cmp.Or(in.Request, "req_"+tipstaff.NewID(now).String())}
}

// limitsOf are the bounds that a pipeline sets; nil: those of a draft without one.
func limitsOf(p *pipeline.Pipeline) tipstaff.Bounds {
	limits := p.Limits()
	limits[tipstaff.BoundStages] = pipeline.DefaultStages
	if p != nil {
		limits[tipstaff.BoundStages] = p.MaxStages
	}
	return limits
}

// ledgerLimits are what the engine holds the run to. Iterations it only counts, and
// rounds it does not know: a person may grant one more edge, and only the executor
// knows.
func (p *program) ledgerLimits() flow.Use {
	limits := flow.Use(maps.Clone(p.draft.Bounds))
	if p.pipe != nil {
		delete(limits, tipstaff.BoundIterations)
		delete(limits, tipstaff.BoundStages)
	}
	return limits
}

// load reads the program that was frozen.
func (p *program) load(canonical []byte) (err error) {
	if p.draft.ProgramKind != kindPipeline {
		p.doc, err = plan.Load(canonical)
		return err
	}
	if p.pipe, err = pipeline.Load(canonical); err != nil {
		return err
	}
	if p.plans, err = readPlans(p.pipe); err != nil {
		return err
	}
	p.doc = plan.Standing(kindPipeline, p.pipe.Name, canonical, p.pipe.AllowList())
	return nil
}

// plans are the documents that are walked: the plan itself, or those of a
// pipeline's stages.
func (p *prepared) plans() []*plan.Document {
	if p.pipe == nil {
		return []*plan.Document{p.doc}
	}
	var docs []*plan.Document
	for _, a := range p.pipe.Agents {
		if doc := p.stages[a.Name]; doc != nil {
			docs = append(docs, doc)
		}
	}
	return docs
}

// stagePlans are the documents that the plan stages of a pipeline walk, by stage. They
// are read once: a stage that is visited often walks the same one each time.
type stagePlans map[string]*plan.Document

func readPlans(p *pipeline.Pipeline) (stagePlans, error) {
	plans := stagePlans{}
	for _, a := range p.Agents {
		if a.Plan == nil {
			continue
		}
		doc, err := plan.Load(a.Plan.Document)
		if err != nil {
			return nil, fmt.Errorf("the plan of stage %s cannot be read: %w", a.Name, err)
		}
		plans[a.Name] = doc
	}
	return plans, nil
}

// pipelineResolver answers the questions of a pipeline's document about what is
// around it.
func (r *Runner) pipelineResolver(p *prepared, req tipstaff.StartRequest) pipeline.Resolver {
	res := pipeline.Resolver{
		Ceiling: p.manifest.Ceiling(),
		Model: func(name string) pipeline.Trouble {
			if _, ok := p.manifest.Model(name); ok {
				return pipeline.Trouble{}
			}
			return pipeline.Trouble{Code: "model_unknown", Message: fmt.Sprintf("tipstaff.yaml declares no model %q", name)}
		},
		Agent: func(name string) pipeline.Trouble { return pipeline.Trouble(agentTrouble(p.manifest, name)) },
		Skill: func(uri string) pipeline.Trouble {
			return pipeline.Trouble(p.skills.info(uri).Trouble)
		},
		Tool: func(uri string) (string, pipeline.Trouble) {
			return string(p.resolver.Tool(uri).Class), pipeline.Trouble{}
		},
		Plan: func(document json.RawMessage) []tipstaff.Problem {
			_, problems := checkFirst(req.Name, document, p.resolver)
			return problems
		},
	}
	if !req.NoFiles {
		res.File = func(name string) ([]byte, error) {
			return readShort(filepath.Join(filepath.Dir(req.Name), name), pipeline.MaxSize)
		}
	}
	return res
}

// pipelineOutline is a pipeline for views: its stages in their order, and below
// them the plans that they walk.
func pipelineOutline(p *pipeline.Pipeline, plans stagePlans) *tipstaff.Outline {
	root := &tipstaff.Outline{Kind: kindPipeline, ID: p.Name}
	for _, a := range p.Agents {
		stage := &tipstaff.Outline{Path: a.Name, ID: a.Name, Kind: "stage", Label: stageLabel(a), Class: a.Effect, Hosted: a.Way == pipeline.WayRemote}
		if doc := plans[a.Name]; doc != nil {
			stage.Children = []*tipstaff.Outline{doc.Outline(nil)}
		}
		root.Children = append(root.Children, stage)
	}
	return root
}

// stageLabel says in a word who runs a stage.
func stageLabel(a *pipeline.Agent) string {
	switch a.Way {
	case pipeline.WayModel:
		return "model " + cmp.Or(a.Model.Agent, a.Model.Name)
	case pipeline.WayTool:
		return a.Tool.URI
	case pipeline.WayRemote:
		return "remote " + a.Remote.Agent
	}
	return string(a.Way)
}

// draw is the picture that a dry run is asked for.
func (p *prepared) draw(format string) ([]byte, error) {
	switch {
	case format == "":
		return nil, nil
	case format == "schema":
		return pipeline.Schema(), nil
	case p.pipe == nil:
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "only pipelines are drawn; this is a %s", p.doc.Kind)
	}
	return drawn(p.pipe, format, nil)
}

// drawn is a drawing in a format that there is.
func drawn(p *pipeline.Pipeline, format string, counts map[pipeline.Edge]int64) ([]byte, error) {
	if format != pipeline.GraphMermaid && format != pipeline.GraphDOT {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "a pipeline is drawn as mermaid or dot, not as %q", format)
	}
	text, err := p.Graph(format, counts)
	return []byte(text), err
}

// talks is what was said in the sessions that stages keep, by stage.
type talks struct{ said map[string]json.RawMessage }

// thawState finds where the pipeline begins: at its start, or where an earlier
// chapter has left it.
func (p *program) thawState(ctx context.Context, src source) error {
	p.talks = &talks{said: map[string]json.RawMessage{}}
	for stage, digest := range p.chapter.Talks {
		said, err := src.Blob(ctx, digest)
		if err != nil {
			return fmt.Errorf("what stage %s has said is not there: %w", stage, err)
		}
		p.talks.said[stage] = said
	}
	var err error
	switch {
	case p.chapter.Pipeline != nil:
		p.state, err = pipeline.Restore(p.chapter.Pipeline)
	case p.chapter.Begins != nil:
		p.state, err = pipeline.DecodeEnvelope(p.chapter.Begins)
	default:
		p.state, err = p.firstState(ctx, src)
	}
	if err != nil {
		return err
	}
	p.state.Rollbacks, err = rollbacks(ctx, src, &p.draft, p.chapter.since)
	return err
}

// firstState is the Envelope at the start of a run or, of a fork, of the run whose
// journal it inherits.
func (p *program) firstState(ctx context.Context, src source) (*pipeline.Envelope, error) {
	run, draft := p.run, &p.draft
	for draft.ForkOf != nil {
		run = draft.ForkOf.Run
		base, err := readDraft(ctx, src, run)
		if err != nil {
			return nil, err
		}
		draft = base
	}
	return firstEnvelope(ctx, src, run, draft, p.pipe)
}

// firstEnvelope makes the Envelope that a draft describes.
func firstEnvelope(ctx context.Context, src source, run string, draft *draftBody, p *pipeline.Pipeline) (*pipeline.Envelope, error) {
	raw, err := attached(ctx, src, draft.Inputs)
	if err != nil {
		return nil, err
	}
	var in pipelineInputs
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("the inputs of run %s cannot be read: %w", run, err)
	}
	first := pipeline.Input{EnvelopeID: draft.Pipeline.Envelope, RequestID: draft.Pipeline.Request, ThreadID: cmp.Or(draft.Pipeline.Thread, run), RunID: run,
		SessionID: cmp.Or(in.Session, "sess_"+run), UserID: cmp.Or(in.User, draft.User), RawInput: in.RawInput, Goals: in.Goals,
		StageOrder: in.StageOrder, ReceivedAt: in.ReceivedAt, CreatedAt: in.ReceivedAt, Bounds: draft.Bounds,
		MaxStages: draft.Bounds[tipstaff.BoundStages]}
	if first.Metadata, err = values(in.Metadata); err != nil {
		return nil, err
	}
	env := pipeline.NewEnvelope(p, first)
	for _, key := range slices.Sorted(maps.Keys(in.Outputs)) {
		if env.Outputs[key], err = pipeline.DecodeObject(in.Outputs[key]); err != nil {
			return nil, fmt.Errorf("outputs.%s: %w", key, err)
		}
	}
	return env, nil
}

// values reads members as the values of an Envelope.
func values[T ~[]byte](raw map[string]T) (map[string]any, error) {
	read := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		v, err := pipeline.Decode([]byte(raw[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		read[name] = v
	}
	return read, nil
}

// rollbacks are what a run takes over from those that it was rolled back or forked
// from, oldest first. A run that continued since (since > 0) has them behind it.
func rollbacks(ctx context.Context, src source, draft *draftBody, since int64) ([]pipeline.Rollback, error) {
	if since > 0 {
		return nil, nil
	}
	var list []pipeline.Rollback
	for draft.ForkOf != nil {
		if draft.Rollback != nil {
			list = append(list, draft.Rollback.Rollback)
		}
		if e, err := continuedBefore(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq); err != nil || e != nil {
			break // what is inherited begins there
		}
		base, err := readDraft(ctx, src, draft.ForkOf.Run)
		if err != nil {
			return nil, err
		}
		draft = base
	}
	slices.Reverse(list)
	return list, nil
}

// pipelineResult is the value of a pipeline that came to its end.
type pipelineResult struct {
	plan.Result
	TerminalReason    pipeline.Reason `json:"terminal_reason"`
	TerminationReason string          `json:"termination_reason"`
}

// execute runs the pipeline.
func (p *program) execute(fc flow.Context) (json.RawMessage, error) {
	env, err := pipeline.Execute(fc, p.pipe, p.state, p.perform)
	var halted *pipeline.Ending
	if errors.As(err, &halted) && halted.Halted != nil {
		err = &declined{*halted.Halted, halted}
	}
	if err != nil {
		return nil, err
	}
	outputs := map[string]json.RawMessage{}
	for key, out := range env.Outputs {
		outputs[key] = pipeline.EncodeValue(out)
	}
	return flow.JSON(pipelineResult{plan.Result{Outcome: plan.Success, Outputs: flow.JSON(outputs), Tally: plan.Tally{Counts: map[string]int{}, Skipped: []string{}, Continued: []string{}}},
		env.TerminalReason, env.TerminationReason}), nil
}

// readShort reads a regular file, at most one byte more than limit: enough to see that
// it is too long.
func readShort(path string, limit int64) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

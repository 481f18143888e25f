package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
)

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
func (r *Runner) preparePipeline(ctx context.Context, p *prepared, req opened) error {
	in, err := r.pipelineInputs(req.Inputs)
	if err != nil {
		return err
	}
	pipe, problems := pipeline.Check(req.Name, req.Program, r.pipelineResolver(p, req))
	if len(problems) > 0 {
		return invalid(req.Name, problems)
	}
	if len(in.StageOrder) > 0 {
		ordered, err := pipe.WithOrder(in.StageOrder)
		if err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "stage_order: %v", err)
		}
		p.handed.own = p.handed.own || ordered != pipe
		pipe = ordered
	}
	p.handed.own = p.handed.own || len(in.Outputs) > 0
	if p.text, err = newPipelineText(pipe); err != nil {
		return err
	}
	p.asked = req.Bounds
	p.bind(limitsOf(pipe), pipe.Said(), req.Bounds)
	if err := r.settleAgents(p); err != nil {
		return err
	}
	if p.inputs, err = in.check(); err != nil {
		return err
	}
	p.status = in.status(r.Now())
	if err := r.prepareFiles(ctx, p, req.NoFiles); err != nil {
		return err
	}
	return p.preflight(req.Name, r.Servers(p.manifest, r.Workspace, nil))
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
				WithHint("its inputs are raw_input, metadata, goals and thread_id").WithCommand("--text is raw_input, --input K=V metadata")
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
	raw := flow.JSON(in)
	if len(raw) < pipeline.MaxEnvelope/8 { // however its characters are written, there is room for it
		return raw, nil
	}
	metadata, err := values(in.Metadata)
	if err != nil {
		return nil, err
	}
	return raw, fitsEnvelope(pipeline.NewEnvelope(nil, pipeline.Input{RawInput: in.RawInput, Metadata: metadata, Goals: in.Goals}))
}

// fitsEnvelope refuses an Envelope that is too large to be kept.
func fitsEnvelope(e *pipeline.Envelope) error {
	if size := e.Size(); size > pipeline.MaxEnvelope {
		return tipstaff.Errorf(tipstaff.LimitReached, "the Envelope would have %d bytes: %d are the most", size, pipeline.MaxEnvelope)
	}
	return nil
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
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not the key of a thread: it has 1 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'", brief(json.RawMessage(key)))
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

// pipelineResolver answers the questions of a pipeline's document about what is
// around it.
func (r *Runner) pipelineResolver(p *prepared, req opened) pipeline.Resolver {
	res := pipeline.Resolver{
		Ceiling: p.manifest.Ceiling(),
		Feature: func(string) plan.Trouble { return plan.Trouble{} },
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
		Performer: func(way pipeline.Way, name string) pipeline.Trouble { return r.performers.has(p.manifest, way, name) },
		Plan: func(document json.RawMessage) []tipstaff.Problem {
			_, problems := checkFirst(req.Name, document, p.resolver)
			return problems
		},
	}
	if !req.NoFiles {
		res.File = func(name string) ([]byte, error) {
			return r.beside(req, p, name)
		}
	}
	return res
}

// pipelineProgram executes a pipeline.
type pipelineProgram struct {
	*common
	pipe     pipelineText
	state    pipeline.State             // as far as it has come
	sessions map[string]json.RawMessage // what was said in those that model stages keep, by stage
}

// openPipeline finds where the pipeline begins: at its start, or where an earlier
// segment has left it.
func openPipeline(ctx context.Context, src source, c *common, text pipelineText) (*pipelineProgram, error) {
	p := &pipelineProgram{common: c, pipe: text, sessions: map[string]json.RawMessage{}}
	for stage, digest := range c.segment.Sessions {
		said, err := src.Blob(ctx, digest)
		if err != nil {
			return nil, fmt.Errorf("what stage %s has said is not there: %w", stage, err)
		}
		p.sessions[stage] = said
	}
	var err error
	switch s := &c.segment; {
	case s.Pipeline != nil:
		p.state, err = pipeline.Restore(s.Pipeline)
	case s.Begins != nil:
		p.state.Envelope, err = pipeline.DecodeEnvelope(s.Begins)
	default:
		p.state.Envelope, err = p.firstState(ctx, src)
	}
	if err != nil {
		return nil, err
	}
	p.state.Earlier, p.state.Uncut = c.draft.Rules < rulesKept, c.draft.Rules < rulesHeld
	p.state.Rollbacks, err = rollbacks(ctx, src, &c.draft, c.segment.since)
	return p, err
}

// root: its stages stand on their own.
func (p *pipelineProgram) root() string { return "" }

func (p *pipelineProgram) terminal(out flow.Outcome) tipstaff.Ending { return pipelineEnd(out) }

func (p *pipelineProgram) count(a *account, ev *evidence) { a.countStages(ev) }

// next: its history begins afresh, and nothing else of it changes.
func (p *pipelineProgram) next(_ context.Context, t *transition, state json.RawMessage, cut bool) error {
	if cut {
		return errors.New("a pipeline cannot be corrected")
	}
	t.to.Phase, t.to.Revision, t.to.Pipeline = phaseWalk, p.segment.inForce(), state
	for _, stage := range slices.Sorted(maps.Keys(p.sessions)) {
		digest, err := t.put(p.sessions[stage])
		if err != nil {
			return err
		}
		if t.to.Sessions == nil {
			t.to.Sessions = map[string]string{}
		}
		t.to.Sessions[stage] = digest
		t.keep = append(t.keep, digest)
	}
	return nil
}

// firstState is the Envelope at the start of a run or, of a fork, of the run whose
// journal it inherits.
func (p *pipelineProgram) firstState(ctx context.Context, src source) (*pipeline.Envelope, error) {
	run, draft := p.run, &p.draft
	for draft.ForkOf != nil {
		run = draft.ForkOf.Run
		base, err := readDraft(ctx, src, run)
		if err != nil {
			return nil, err
		}
		draft = base
	}
	return firstEnvelope(ctx, src, run, draft, p.pipe.Pipeline)
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
		e, err := continuedBefore(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq)
		if err != nil {
			return nil, err
		}
		if e != nil {
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
	TerminalReason    tipstaff.TerminalReason `json:"terminal_reason"`
	TerminationReason string                  `json:"termination_reason"`
}

func (p *pipelineProgram) flow(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	err := pipeline.Execute(fc, p.pipe.Pipeline, &p.state, p.perform)
	var halted *pipeline.Ending
	if errors.As(err, &halted) && halted.Halted != nil {
		err = &declined{*halted.Halted, halted}
	}
	if err != nil {
		return nil, err
	}
	outputs := map[string]json.RawMessage{}
	for key, out := range p.state.Outputs {
		outputs[key] = pipeline.EncodeValue(out)
	}
	return flow.JSON(pipelineResult{plan.Result{Outcome: plan.Success, Outputs: flow.JSON(outputs), Tally: plan.Tally{Counts: map[string]int{}, Skipped: []string{}, Continued: []string{}}},
		p.state.TerminalReason, p.state.TerminationReason}), nil
}

// readShort reads a regular file, at most one byte more than limit: enough to see that
// it is too long.
func readShort(path string, limit int64) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// exact is a value in an envelope that must come back as it was given. Bodies of
// envelopes are canonical, and that form knows no difference between 1 and 1.0 and
// no large integers: what it would change stands there as text.
type exact json.RawMessage

// exactly marks such a text.
const exactly = "$json"

// MarshalJSON implements [json.Marshaler].
func (e exact) MarshalJSON() ([]byte, error) {
	var own map[string]json.RawMessage
	marked := json.Unmarshal(e, &own) == nil && own[exactly] != nil
	if canonical, err := canon.Form(e); err == nil && !marked && spelled(canonical) == spelled(e) {
		return e, nil
	}
	return json.Marshal(map[string]string{exactly: string(e)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *exact) UnmarshalJSON(raw []byte) error {
	var own map[string]json.RawMessage
	var text string
	if json.Unmarshal(raw, &own) == nil && len(own) == 1 && json.Unmarshal(own[exactly], &text) == nil {
		raw = []byte(text)
	}
	*e = bytes.Clone(raw)
	return nil
}

// exacts are values that are to come back as they are.
func exacts(raw map[string]json.RawMessage) map[string]exact {
	all := map[string]exact{}
	for key, v := range raw {
		all[key] = exact(v)
	}
	return all
}

// raws are the values themselves.
func raws(all map[string]exact) map[string]json.RawMessage {
	raw := map[string]json.RawMessage{}
	for key, v := range all {
		raw[key] = json.RawMessage(v)
	}
	return raw
}

// spelled is a document with its members sorted and its numbers as they are written.
func spelled(raw []byte) string {
	v, err := canon.Decode(raw, canon.MaxDepth)
	if err != nil {
		return ""
	}
	return string(flow.JSON(v))
}

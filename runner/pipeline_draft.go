package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/tipstaff/tipstaff"
	docs "github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pipeline"
)

// A pipeline may be a draft before it is run: made, changed as often as one likes, and
// started once. pipeline_draft_fold.go says what its records add up to.

// CreateEnvelope makes a draft. A request that has made one before is given that one
// again.
func (r *Runner) CreateEnvelope(ctx context.Context, req tipstaff.EnvelopeRequest) (none tipstaff.Started, err error) {
	if err := may(ctx, basic(tipstaff.ScopeRun)); err != nil {
		return none, err
	}
	p, err := r.preparePipelineDraft(ctx, req)
	if err != nil {
		return none, err
	}
	asks, err := p.handed.asks(ctx)
	if err != nil {
		return none, err
	}
	body, err := r.freeze(ctx, p)
	if err != nil {
		return none, explain(err, tipstaff.ID{})
	}
	body.Title, body.Hold, body.Asks = req.Title, true, asks
	started := tipstaff.Started{Run: tipstaff.NewID(r.Now()), Validated: p.validated()}
	err = r.store(ctx, started.Run, body, p.text, nil)
	if errors.Is(err, flow.ErrRequestKnown) {
		started.Run, err = r.sameRequest(ctx, body)
		started.Existed = err == nil
	}
	return started, explain(err, started.Run)
}

// preparePipelineDraft checks what a draft is made of. It need not have a program yet.
func (r *Runner) preparePipelineDraft(ctx context.Context, req tipstaff.EnvelopeRequest) (*prepared, error) {
	o, err := r.openRequest(tipstaff.StartRequest{Program: req.Program, File: req.File, Name: req.Name, Inputs: req.Inputs, Bounds: req.Bounds, NoFiles: req.NoFiles})
	if err == nil {
		err = may(ctx, o.handed.needs())
	}
	if err != nil {
		return nil, err
	}
	if o.Program != nil {
		if _, faults := docs.ReadAll(o.Program, pipeline.MaxSize); len(faults) > 0 { // nobody can say what it is
			return nil, invalid(o.Name, faults.Public(o.Name))
		}
		if !pipeline.IsPipeline(o.Program) {
			return nil, tipstaff.Errorf(tipstaff.InvalidProgram, "%s is not a pipeline: only pipelines are held as drafts", o.Name)
		}
		return r.prepareWith(ctx, o, inputsTaken{})
	}
	p, err := r.newPrepared(false)
	if err != nil {
		return nil, err
	}
	in, err := r.pipelineInputs(req.Inputs)
	if err != nil {
		return nil, err
	}
	p.text, p.status, p.handed.own = pipelineText{}, in.status(r.Now()), len(in.Outputs) > 0
	p.bounds = tipstaff.EffectiveBounds(p.manifest.Ceiling(), limitsOf(nil), req.Bounds)
	p.inputs, err = in.check()
	return p, err
}

// sameRequest is the run that a request has made, if it was made of the same.
func (r *Runner) sameRequest(ctx context.Context, body draftBody) (none tipstaff.ID, err error) {
	rows, err := r.Store.Runs(ctx, flow.Query{User: userOf(ctx), Request: body.Pipeline.Request})
	if err != nil || len(rows) == 0 {
		return none, cmp.Or(err, flow.ErrRequestKnown)
	}
	head, first := rows[0], rows[len(rows)-1]
	made, err := readDraft(ctx, r.Store, first.ID)
	if err != nil {
		return none, err
	}
	if made.Inputs, err = attached(ctx, r.Store, made.Inputs); err != nil {
		return none, err
	}
	if !made.Hold || made.ProgramDigest != body.ProgramDigest || made.Title != body.Title || !maps.Equal(made.Bounds, body.Bounds) ||
		!sameJSON(asked(made.Inputs), asked(body.Inputs)) {
		return none, tipstaff.Errorf(tipstaff.RequestConflict, "request %s has made run %s, of something else", body.Pipeline.Request, first.ID).
			WithHint("a request id names one request: give another, or none")
	}
	return idOf(head.ID), nil
}

// asked are inputs without what nobody asked for: when they came.
func asked(inputs json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(inputs, &members) != nil {
		return inputs
	}
	delete(members, "received_at")
	return flow.JSON(members)
}

// UpdateEnvelope changes a draft: all that is asked for, or nothing.
func (r *Runner) UpdateEnvelope(ctx context.Context, req tipstaff.EnvelopeUpdate) error {
	row, err := r.openToChange(ctx, req.Run, tipstaff.ScopeRun)
	if err != nil {
		return err
	}
	edits := len(req.Outputs)+len(req.Remove)+len(req.Metadata) > 0
	c := &change{Outputs: req.Outputs, Remove: req.Remove, Metadata: req.Metadata, Usage: req.Usage}
	err = r.changePipelineDraft(ctx, row.ID, func(d *pipelineDraft) ([]flow.Draft, error) {
		if version := d.env.Version; req.Version != 0 && req.Version != version {
			return nil, tipstaff.Errorf(tipstaff.VersionStale, "the draft has version %d, not %d", version, req.Version).
				WithHint("read it again, then change it")
		}
		if err := d.mayAdd(req.Usage); err != nil {
			return nil, err
		}
		asks, err := d.edit(ctx, handed{own: edits, served: !edits})
		if err != nil {
			return nil, err
		}
		u, err := d.changed(c, actor(ctx))
		if err != nil {
			return nil, err
		}
		u.Asks = asks
		return []flow.Draft{updated(u)}, nil
	})
	return explain(err, req.Run)
}

// edit is what a draft asks after a change, if it did not before; "": it asks no more.
func (d *pipelineDraft) edit(ctx context.Context, h handed) (string, error) {
	h.of = d.edited
	asks, err := h.asks(ctx)
	if asks == d.edited {
		asks = ""
	}
	return asks, err
}

// Counters of calls are 32 bits wide on the wire; two amounts of 62 bits can be added up.
const (
	maxCalls  = math.MaxInt32
	maxAmount = 1<<62 - 1
)

// mayAdd refuses use that is negative, or that a counter of the draft could not hold.
func (d *pipelineDraft) mayAdd(u *tipstaff.Usage) error {
	if u == nil {
		return nil
	}
	e := d.env
	for _, c := range []struct {
		name            string
		held, more, max int64
	}{
		{"llm_calls", e.LLMCallCount, u.LLMCalls, maxCalls},
		{"tool_calls", e.ToolCallCount, u.ToolCalls, maxCalls},
		{"tokens_in", e.TokensIn, u.TokensIn, maxAmount},
		{"tokens_out", e.TokensOut, u.TokensOut, maxAmount},
		{"cost_usd", int64(e.CostUSD), u.CostUSD, maxAmount},
	} {
		switch {
		case c.more < 0:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "usage.%s: %d is less than 0, and counters only grow", c.name, c.more)
		case c.more > c.max-c.held:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "usage.%s: %d and the %d before are more than can be counted, which is %d", c.name, c.more, c.held, c.max)
		}
	}
	return nil
}

// changePipelineDraft writes to a draft that nobody else changes meanwhile.
func (r *Runner) changePipelineDraft(ctx context.Context, run string, f func(*pipelineDraft) ([]flow.Draft, error)) error {
	for {
		d, err := r.openPipelineDraft(ctx, run)
		if err != nil {
			return err
		}
		drafts, err := f(d)
		if err != nil {
			return err
		}
		if err = r.Store.Write(ctx, run, d.unmoved(drafts)); !errors.Is(err, errMoved) {
			return err
		}
	}
}

// errMoved: somebody else was faster. What was read must be read again.
var errMoved = errors.New("the run has moved on")

// unmoved writes drafts if the draft still stands where it was read.
func (d *pipelineDraft) unmoved(drafts []flow.Draft) func(flow.Tx) ([]flow.Draft, error) {
	return func(tx flow.Tx) ([]flow.Draft, error) {
		if tx.Row().Head != d.head {
			return nil, errMoved
		}
		return drafts, nil
	}
}

// openPipelineDraft reads a draft that may be changed.
func (r *Runner) openPipelineDraft(ctx context.Context, run string) (*pipelineDraft, error) {
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	if row.Kind != kindPipeline || tipstaff.State(row.State) != tipstaff.Drafting {
		return nil, tipstaff.Errorf(tipstaff.WrongState, "run %s is %s: only a draft can be changed", run, row.State)
	}
	d, err := readPipelineDraft(ctx, r.Store, run)
	if err == nil && d.locked != "" {
		return nil, tipstaff.Errorf(tipstaff.WrongState, "the draft is locked: run %s works on it", d.locked).
			WithHint("wait for that run to end, or cancel it")
	}
	return d, err
}

func updated(u *tipstaff.DraftUpdated) flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindDraftUpdated), Body: flow.JSON(u)}
}

// ExecuteEnvelope starts a draft, or drives an unfinished run on that nobody drives and
// that waits for nothing.
func (r *Runner) ExecuteEnvelope(ctx context.Context, req tipstaff.ExecuteRequest) (none tipstaff.Started, err error) {
	row, err := r.openToChange(ctx, req.Run, tipstaff.ScopeRun)
	if err != nil {
		return none, err
	}
	o, err := r.openRequest(tipstaff.StartRequest{Program: req.Program, File: req.File, Name: req.Name, NoFiles: req.NoFiles})
	if err = cmp.Or(err, may(ctx, o.handed.needs())); err == nil {
		err = r.mayBegin(ctx, row.User, false)
	}
	if err != nil {
		return none, err
	}
	if row.Kind != kindPipeline {
		return none, tipstaff.Errorf(tipstaff.WrongState, "run %s is a %s, no pipeline", row.ID, row.Kind)
	}
	if tipstaff.State(row.State) != tipstaff.Drafting {
		return r.driveOn(ctx, row, req, o)
	}
	err = r.changePipelineDraft(ctx, row.ID, func(d *pipelineDraft) ([]flow.Draft, error) { return r.startPipelineDraft(ctx, d, req, o) })
	if err != nil {
		return none, explain(err, req.Run)
	}
	p, err := openProgram(ctx, r.Store, row.ID)
	if err != nil {
		return none, explain(err, req.Run)
	}
	started := p.shared().started()
	return started, explain(r.submitNew(ctx, p, person{}), req.Run)
}

// driveOn resumes a run that was started before. Its program is the one that it
// froze.
func (r *Runner) driveOn(ctx context.Context, row flow.Row, req tipstaff.ExecuteRequest, o opened) (none tipstaff.Started, err error) {
	run, err := r.get(ctx, req.Run)
	if err != nil {
		return none, err
	}
	if run.Status != tipstaff.StatusInterrupted && run.Status != tipstaff.StatusAwaitingResume {
		return none, tipstaff.Errorf(tipstaff.WrongState, "run %s is %s: it cannot be driven on", run.ID, run.Status)
	}
	if o.Program != nil {
		doc, problems := pipeline.Check(o.Name, o.Program, pipeline.Resolver{})
		if len(problems) > 0 {
			return none, invalid(o.Name, problems)
		}
		if doc.Digest() != run.Program.Digest {
			return none, tipstaff.Errorf(tipstaff.WrongState, "run %s executes program %s, not %s", run.ID, run.Program.Digest, doc.Digest()).
				WithHint("a run keeps the program that it was started with")
		}
	}
	if len(req.Bounds) > 0 {
		return none, tipstaff.Errorf(tipstaff.InvalidArgument, "run %s has its bounds: they are set when it is started", run.ID)
	}
	return r.resume(ctx, row, tipstaff.Presence{}, false)
}

// startPipelineDraft takes a draft from drafting to executing, in one transaction: by
// that act it is accepted.
func (r *Runner) startPipelineDraft(ctx context.Context, d *pipelineDraft, req tipstaff.ExecuteRequest, o opened) (drafts []flow.Draft, err error) {
	update, err := r.settleProgram(ctx, d, req, o)
	if err != nil {
		return nil, err
	}
	if update != nil {
		drafts = append(drafts, updated(update))
		if d, err = d.with(ctx, r.Store, *update); err != nil {
			return nil, err
		}
	}
	canonical, err := r.Store.Blob(ctx, d.draft.ProgramDigest)
	if err != nil {
		return nil, err
	}
	text, err := openPipelineText(canonical)
	if err != nil {
		return nil, err
	}
	accepted := r.accepted(ctx, d.draft, text, via(req.Via))
	next := d.segment(text.intent().Hash(), accepted[0].ID)
	drafts = append(append(drafts, compiled(d.draft.ProgramDigest, text)), accepted...)
	return append(drafts, flow.Draft{Kind: string(tipstaff.KindRunContinued), Body: flow.JSON(tipstaff.RunContinued{
		State: flow.JSON(next), Used: d.used(), Limit: text.limits(d.draft.Bounds), WallMs: new(int64)})}), nil
}

// settleProgram decides what a draft is started with: its own program or the one
// that is given, within bounds that may only be lowered. The update says what it
// changes; nil: nothing.
func (r *Runner) settleProgram(ctx context.Context, d *pipelineDraft, req tipstaff.ExecuteRequest, o opened) (*tipstaff.DraftUpdated, error) {
	u := &tipstaff.DraftUpdated{Version: d.env.Version + 1, Changed: []string{}, By: actor(ctx),
		ProgramDigest: d.draft.ProgramDigest, Bounds: d.draft.Bounds, Frozen: d.draft.Frozen, Asks: d.draft.Asks}
	if req.Thread != d.draft.Pipeline.Thread {
		if err := checkThread(req.Thread); err != nil {
			return nil, err
		}
		u.Thread = req.Thread
	}
	switch {
	case o.Program != nil:
		var err error
		if o.Inputs, err = d.inputs(ctx, r.Store); err != nil {
			return nil, err
		}
		p, err := r.prepareWith(ctx, o, inputsTaken{})
		if err != nil {
			return nil, err
		}
		if _, ok := p.text.(pipelineText); !ok {
			return nil, tipstaff.Errorf(tipstaff.InvalidProgram, "%s is not a pipeline", o.Name)
		}
		p.handed.of = d.edited
		if u.Asks, err = p.handed.asks(ctx); err != nil {
			return nil, err
		}
		body, err := r.freeze(ctx, p)
		if err != nil {
			return nil, err
		}
		u.ProgramDigest, u.Frozen, u.Bounds = body.ProgramDigest, body.Frozen, body.Bounds
	case d.draft.ProgramDigest == "":
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the draft has no pipeline, and none was given").
			WithHint("give one with the request")
	case len(req.Bounds) == 0 && u.Thread == "":
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(req.Bounds)) {
		if limit, ok := u.Bounds[name]; !ok || req.Bounds[name] > limit {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "bounds can only be lowered here: %s is %s", name, tipstaff.FormatBound(name, limit)).
				WithHint("a rollback may raise them, within the manifest's")
		}
	}
	u.Bounds = tipstaff.Min(u.Bounds, req.Bounds)
	for name, changed := range map[string]bool{"bounds": len(req.Bounds) > 0 || o.Program != nil, "pipeline": o.Program != nil, "thread_id": u.Thread != ""} {
		if changed {
			u.Changed = append(u.Changed, name)
		}
	}
	slices.Sort(u.Changed)
	return u, nil
}

// inputs are those that the draft was made with, as a request brings them.
func (d *pipelineDraft) inputs(ctx context.Context, src source) (map[string]json.RawMessage, error) {
	raw, err := attached(ctx, src, d.draft.Inputs)
	if err != nil {
		return nil, err
	}
	var in pipelineInputs
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	given := map[string]json.RawMessage{}
	_ = json.Unmarshal(asked(flow.JSON(in)), &given) // which flow.JSON has just made
	given["metadata"], given["outputs"] = flow.JSON(raws(in.Metadata)), flow.JSON(raws(in.Outputs))
	return given, nil
}

// compiled is the envelope by which a program is known.
func compiled(digest string, doc document) flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindIntentCompiled), From: journal.Executor, Body: flow.JSON(tipstaff.IntentCompiled{
		Intent: doc.intent().JSON(), IntentHash: doc.intent().Hash(), ProgramDigest: digest})}
}

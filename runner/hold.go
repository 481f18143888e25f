package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pipeline"
)

// A pipeline may be held as a draft before it is run: made, changed as often as one
// likes, and started once. hold_fold.go says what its records add up to.

// CreateEnvelope makes a draft. A request that has made one before is given that one
// again.
func (r *Runner) CreateEnvelope(ctx context.Context, req tipstaff.EnvelopeRequest) (tipstaff.Started, error) {
	p, err := r.prepareHeld(req)
	if err != nil {
		return tipstaff.Started{}, err
	}
	body, err := r.freeze(ctx, p)
	if err != nil {
		return tipstaff.Started{}, explain(err, tipstaff.ID{})
	}
	body.Title, body.Hold, body.Asks = req.Title, true, asksOf(ctx, brings(req.NoFiles, req.Program))
	started := tipstaff.Started{Run: tipstaff.NewID(r.Now()), Validated: p.validated()}
	err = r.store(ctx, started.Run, body, p.text, nil)
	if errors.Is(err, flow.ErrRequestKnown) {
		started.Run, err = r.sameRequest(ctx, body)
		started.Existed = err == nil
	}
	return started, explain(err, started.Run)
}

// prepareHeld checks what a draft is made of. It need not have a program yet.
func (r *Runner) prepareHeld(req tipstaff.EnvelopeRequest) (*prepared, error) {
	if req.Program != nil {
		if !pipeline.IsPipeline(req.Program) {
			return nil, tipstaff.Errorf(tipstaff.InvalidProgram, "%s is no pipeline: only pipelines are held as drafts", req.Name)
		}
		return r.prepare(tipstaff.StartRequest{Program: req.Program, Name: req.Name, Inputs: req.Inputs, Bounds: req.Bounds, NoFiles: req.NoFiles})
	}
	manifest, err := r.manifest()
	if err != nil {
		return nil, err
	}
	p, err := r.newPrepared(manifest)
	if err != nil {
		return nil, err
	}
	in, err := r.pipelineInputs(req.Inputs)
	if err != nil {
		return nil, err
	}
	p.text, p.status = pipelineText{}, in.status(r.Now())
	p.bounds = tipstaff.EffectiveBounds(manifest.Ceiling(), limitsOf(nil), req.Bounds)
	p.inputs, err = in.check()
	return p, err
}

// sameRequest is the run that a request has made, if it was made of the same.
func (r *Runner) sameRequest(ctx context.Context, body draftBody) (tipstaff.ID, error) {
	rows, err := r.Store.Runs(ctx, flow.Query{User: userOf(ctx), Request: body.Pipeline.Request})
	if err != nil || len(rows) == 0 {
		return tipstaff.ID{}, cmp.Or(err, flow.ErrRequestKnown)
	}
	head, first := rows[0], rows[len(rows)-1]
	made, err := readDraft(ctx, r.Store, first.ID)
	if err != nil {
		return tipstaff.ID{}, err
	}
	if made.Inputs, err = attached(ctx, r.Store, made.Inputs); err != nil {
		return tipstaff.ID{}, err
	}
	if !made.Hold || made.ProgramDigest != body.ProgramDigest || made.Title != body.Title || !maps.Equal(made.Bounds, body.Bounds) ||
		!sameJSON(asked(made.Inputs), asked(body.Inputs)) {
		return tipstaff.ID{}, tipstaff.Errorf(tipstaff.RequestConflict, "request %s has made run %s, of something else", body.Pipeline.Request, first.ID).
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
	c := &change{Outputs: req.Outputs, Remove: req.Remove, Metadata: req.Metadata, Usage: req.Usage}
	err := r.updateHeld(ctx, req.Run, func(h *held) ([]flow.Draft, error) {
		if req.Version != 0 && req.Version != h.version {
			return nil, tipstaff.Errorf(tipstaff.VersionStale, "the draft has version %d, not %d", h.version, req.Version).
				WithHint("read it again, then change it")
		}
		u, err := h.changed(c, changer(ctx))
		return []flow.Draft{updated(u)}, err
	})
	return explain(err, req.Run)
}

// updateHeld writes to a draft that nobody else changes meanwhile.
func (r *Runner) updateHeld(ctx context.Context, id tipstaff.ID, f func(*held) ([]flow.Draft, error)) error {
	run, err := r.mayChange(id)
	if err != nil {
		return err
	}
	for {
		h, err := r.openHeld(ctx, run)
		if err != nil {
			return err
		}
		drafts, err := f(h)
		if err != nil {
			return err
		}
		err = r.Store.Write(ctx, run, h.unmoved(drafts))
		if !errors.Is(err, errBeaten) {
			return err
		}
	}
}

// errBeaten: somebody else was faster.
var errBeaten = errors.New("the run has moved on")

// unmoved writes drafts if the draft still stands where it was read.
func (h *held) unmoved(drafts []flow.Draft) func(flow.Tx) ([]flow.Draft, error) {
	return func(tx flow.Tx) ([]flow.Draft, error) {
		if tx.Row().Head != h.head {
			return nil, errBeaten
		}
		return drafts, nil
	}
}

// openHeld reads a draft that may be changed.
func (r *Runner) openHeld(ctx context.Context, run string) (*held, error) {
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	if row.Kind != kindPipeline || tipstaff.State(row.State) != tipstaff.Drafting {
		return nil, tipstaff.Errorf(tipstaff.WrongState, "run %s is %s: only a draft can be changed", run, row.State)
	}
	h, err := readHeld(ctx, r.Store, run)
	if err != nil {
		return nil, err
	}
	if h.locked != "" {
		return nil, tipstaff.Errorf(tipstaff.WrongState, "the draft is locked: run %s works on it", h.locked).
			WithHint("wait for that run to end, or cancel it")
	}
	return h, nil
}

// changed applies a change and is the record of it.
func (h *held) changed(c *change, by string) (*tipstaff.DraftUpdated, error) {
	if err := h.apply(c); err != nil {
		return nil, err
	}
	if size := h.env.Size(); size > pipeline.MaxEnvelope {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the Envelope would have %d bytes: %d are the most", size, pipeline.MaxEnvelope)
	}
	h.version++
	h.env.Version = h.version
	return &tipstaff.DraftUpdated{Version: h.version, Changed: c.names(), Value: flow.JSON(c), Used: h.used, By: by}, nil
}

// names are the fields that a change touches.
func (c *change) names() []string {
	names := []string{}
	for _, key := range slices.Sorted(maps.Keys(c.Outputs)) {
		names = append(names, "outputs."+key)
	}
	for _, key := range c.Remove {
		names = append(names, "outputs."+key)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		names = append(names, "metadata."+key)
	}
	if c.Usage != nil || c.Hops > 0 {
		names = append(names, "usage")
	}
	return names
}

func updated(u *tipstaff.DraftUpdated) flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindDraftUpdated), Body: flow.JSON(u)}
}

// changer is who changes a draft, as its records name them.
func changer(ctx context.Context) string {
	return cmp.Or(tipstaff.CallerFrom(ctx).Principal, "local:cli")
}

// ExecuteEnvelope starts a draft, or drives an unfinished run on that nobody drives and
// that waits for nothing.
func (r *Runner) ExecuteEnvelope(ctx context.Context, req tipstaff.ExecuteRequest) (tipstaff.Started, error) {
	run, err := r.mayChange(req.Run)
	if err != nil {
		return tipstaff.Started{}, err
	}
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return tipstaff.Started{}, explain(err, req.Run)
	}
	if row.Kind != kindPipeline {
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.WrongState, "run %s is a %s, no pipeline", run, row.Kind)
	}
	if tipstaff.State(row.State) != tipstaff.Drafting {
		return r.driveOn(ctx, req)
	}
	if err := r.acceptHeld(ctx, req); err != nil {
		return tipstaff.Started{}, explain(err, req.Run)
	}
	p, err := openProgram(ctx, r.Store, run)
	if err != nil {
		return tipstaff.Started{}, explain(err, req.Run)
	}
	started := p.shared().started()
	_, err = r.begin(run, p, person{})
	return started, explain(err, req.Run)
}

// driveOn resumes a run that was started before. Its program is the one that it
// froze.
func (r *Runner) driveOn(ctx context.Context, req tipstaff.ExecuteRequest) (tipstaff.Started, error) {
	run, err := r.Get(ctx, req.Run)
	if err != nil {
		return tipstaff.Started{}, err
	}
	if run.Status != tipstaff.StatusInterrupted && run.Status != tipstaff.StatusAwaitingResume {
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.WrongState, "run %s is %s: it cannot be driven on", run.ID, run.Status)
	}
	if req.Program != nil {
		doc, problems := pipeline.Check(req.Name, req.Program, pipeline.Resolver{})
		if len(problems) > 0 {
			return tipstaff.Started{}, invalid(req.Name, problems)
		}
		if doc.Digest() != run.Program.Digest {
			return tipstaff.Started{}, tipstaff.Errorf(tipstaff.WrongState, "run %s executes program %s, not %s", run.ID, run.Program.Digest, doc.Digest()).
				WithHint("a run keeps the program that it was started with")
		}
	}
	if len(req.Bounds) > 0 {
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.InvalidArgument, "run %s has its bounds: they are set when it is started", run.ID)
	}
	return r.Resume(ctx, tipstaff.ResumeRequest{Run: req.Run})
}

// acceptHeld takes a draft from drafting to executing, in one transaction: by that
// act it is accepted.
func (r *Runner) acceptHeld(ctx context.Context, req tipstaff.ExecuteRequest) error {
	return r.updateHeld(ctx, req.Run, func(h *held) ([]flow.Draft, error) {
		update, err := r.settleProgram(ctx, h, req)
		if err != nil {
			return nil, err
		}
		drafts := []flow.Draft{}
		if update != nil {
			drafts = append(drafts, updated(update))
		}
		canonical, err := r.Store.Blob(ctx, h.draft.ProgramDigest)
		if err != nil {
			return nil, err
		}
		text, err := openPipelineText(canonical)
		if err != nil {
			return nil, err
		}
		accepted := r.accepted(ctx, h.draft, text, via(req.Via))
		next := h.segment(text.intent().Hash(), accepted[0].ID)
		drafts = append(append(drafts, compiled(h.draft.ProgramDigest, text)), accepted...)
		return append(drafts, flow.Draft{Kind: string(tipstaff.KindRunContinued), Body: flow.JSON(map[string]any{
			"state": next, "used": h.used, "limit": text.limits(h.draft.Bounds), "wall_ms": 0})}), nil
	})
}

// settleProgram decides what a draft is started with: its own program or the one
// that is given, within bounds that may only be lowered. The update says what it
// changes; nil: nothing.
func (r *Runner) settleProgram(ctx context.Context, h *held, req tipstaff.ExecuteRequest) (*tipstaff.DraftUpdated, error) {
	bounds := req.Bounds
	thread := req.Thread
	if thread == h.draft.Pipeline.Thread {
		thread = ""
	} else if err := checkThread(thread); err != nil {
		return nil, err
	}
	switch {
	case req.Program != nil:
		inputs, err := h.inputs(ctx, r.Store)
		if err != nil {
			return nil, err
		}
		p, err := r.prepare(tipstaff.StartRequest{Program: req.Program, Name: req.Name, NoFiles: req.NoFiles, Inputs: inputs})
		if err != nil {
			return nil, err
		}
		if _, ok := p.text.(pipelineText); !ok {
			return nil, tipstaff.Errorf(tipstaff.InvalidProgram, "%s is no pipeline", req.Name)
		}
		body, err := r.freeze(ctx, p)
		if err != nil {
			return nil, err
		}
		h.draft.ProgramDigest, h.draft.Frozen, h.draft.Bounds, h.draft.Asks = body.ProgramDigest, body.Frozen, body.Bounds, asksOf(ctx, req.NoFiles)
	case h.draft.ProgramDigest == "":
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the draft has no pipeline, and none was given").
			WithHint("give one with the request")
	case len(bounds) == 0 && thread == "":
		return nil, nil
	}
	if err := onlyLowers(bounds, h.draft.Bounds); err != nil {
		return nil, err
	}
	h.draft.Bounds = tipstaff.Min(h.draft.Bounds, bounds)
	u := &tipstaff.DraftUpdated{Version: h.version + 1, Changed: []string{}, By: changer(ctx), Thread: thread,
		ProgramDigest: h.draft.ProgramDigest, Bounds: h.draft.Bounds, Frozen: h.draft.Frozen, Asks: h.draft.Asks}
	if len(bounds) > 0 || req.Program != nil {
		u.Changed = append(u.Changed, "bounds")
	}
	if req.Program != nil {
		u.Changed = append(u.Changed, "pipeline")
	}
	if thread != "" {
		u.Changed = append(u.Changed, "thread_id")
		h.join(thread)
	}
	return u, h.again(ctx, r.Store, u)
}

// again builds the Envelope for another program, with everything that was changed
// in it.
func (h *held) again(ctx context.Context, src source, u *tipstaff.DraftUpdated) error {
	had := h.env
	if err := h.begin(ctx, src); err != nil {
		return err
	}
	e := h.env
	e.Outputs, e.Metadata = had.Outputs, had.Metadata
	e.AgentHopCount, e.LLMCallCount, e.ToolCallCount = had.AgentHopCount, had.LLMCallCount, had.ToolCallCount
	e.TokensIn, e.TokensOut, e.CostUSD = had.TokensIn, had.TokensOut, had.CostUSD
	h.version = u.Version
	e.Version = u.Version
	return nil
}

// onlyLowers refuses bounds that are above those that hold.
func onlyLowers(asked, hold tipstaff.Bounds) error {
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if limit, ok := hold[name]; !ok || asked[name] > limit {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "bounds can only be lowered here: %s is %s", name, tipstaff.FormatBound(name, limit)).
				WithHint("a rollback may raise them, within the manifest's")
		}
	}
	return nil
}

// inputs are those that the draft was made with, as a request brings them.
func (h *held) inputs(ctx context.Context, src source) (map[string]json.RawMessage, error) {
	raw, err := attached(ctx, src, h.draft.Inputs)
	if err != nil {
		return nil, err
	}
	var in pipelineInputs
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	return in.asGiven(), nil
}

// asGiven are inputs in the form in which somebody brings them.
func (in *pipelineInputs) asGiven() map[string]json.RawMessage {
	given := map[string]json.RawMessage{}
	_ = json.Unmarshal(asked(flow.JSON(in)), &given) // which flow.JSON has just made
	given["metadata"], given["outputs"] = flow.JSON(raws(in.Metadata)), flow.JSON(raws(in.Outputs))
	return given
}

// compiled is the envelope by which a program is known.
func compiled(digest string, doc document) flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindIntentCompiled), From: journal.Executor, Body: flow.JSON(map[string]any{
		"intent": doc.intent().JSON(), "intent_hash": doc.intent().Hash(), "program_digest": digest, "attempts": 0})}
}

// statusIn is where a run belongs: without an Envelope or a thread of others, to its
// own.
func statusIn(run tipstaff.ID, s *tipstaff.PipelineStatus) *tipstaff.PipelineStatus {
	if s == nil {
		return nil
	}
	own := *s
	own.Envelope, own.Thread = cmp.Or(s.Envelope, "env_"+run.String()), cmp.Or(s.Thread, run.String())
	return &own
}

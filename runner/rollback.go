package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pipeline"
)

// A pipeline goes back to a boundary in a new run, which inherits the journal up to
// there and all counters of the run that is left: data comes back, budget does not.
// A rollback takes the place of that run, a fork is another line of work beside it.

// How such a run is related to the one it comes from.
const (
	relationRollback = "rollback"
	relationFork     = "fork"
)

// rollbackBody is what a run that goes back takes over. What somebody has edited
// stands in its run.forked, as it was given; here it is named by its digest.
type rollbackBody struct {
	pipeline.Rollback
	Edits string `json:"edits,omitempty"`
	// Head is the last record of the run that was left: the counters include it.
	Head int64 `json:"head"`
}

// edits are what somebody changes in going back.
type edits struct {
	Outputs  map[string]json.RawMessage `json:"outputs,omitempty"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

func (e edits) none() bool { return len(e.Outputs) == 0 && len(e.Metadata) == 0 }

// applyTo puts the edits into what a run takes over.
func (e edits) applyTo(r *pipeline.Rollback) (err error) {
	r.Outputs = map[string]map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(e.Outputs)) {
		if r.Outputs[key], err = pipeline.DecodeObject(e.Outputs[key]); err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "outputs.%s: %v", key, err)
		}
	}
	if r.Metadata, err = values(e.Metadata); err != nil {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "metadata.%v", err)
	}
	return nil
}

// readEdits takes the edits from run.forked, which stands among the first records.
func (b *rollbackBody) readEdits(ctx context.Context, src source, first []flow.Stored) error {
	if b.Edits == "" {
		return nil
	}
	for _, s := range first {
		e, err := parse(ctx, src, s)
		if err != nil || e.Kind != tipstaff.KindRunForked {
			continue
		}
		var forked tipstaff.RunForked
		if err := json.Unmarshal(e.Body, &forked); err != nil {
			return fmt.Errorf("record %d cannot be read: %w", e.Seq, err)
		}
		if digest := flow.Digest(forked.Value); digest != b.Edits {
			return fmt.Errorf("record %d has edits with the digest %s, but %s were made", e.Seq, digest, b.Edits)
		}
		var given edits
		if err := json.Unmarshal(forked.Value, &given); err != nil {
			return fmt.Errorf("the edits of record %d cannot be read: %w", e.Seq, err)
		}
		return given.applyTo(&b.Rollback)
	}
	return fmt.Errorf("the edits %s are not there", b.Edits)
}

// branch is a fork or a rollback.
type branch struct {
	tipstaff.ForkRequest
	rollback bool
}

// forPipeline reports whether a fork is asked for in the terms of pipelines.
func forPipeline(req tipstaff.ForkRequest) bool {
	return req.Checkpoint != "" || req.Stage != "" || req.Thread != "" || len(req.Outputs)+len(req.Metadata)+len(req.Raise) > 0
}

// Rollback makes a run from a boundary of a pipeline run, which takes its place.
func (r *Runner) Rollback(ctx context.Context, req tipstaff.RollbackRequest) (tipstaff.Run, error) {
	row, err := r.pipelineRow(ctx, req.Run)
	if err != nil {
		return tipstaff.Run{}, err
	}
	return r.goBack(ctx, branch{tipstaff.ForkRequest{Run: req.Run, Place: req.Place, Changes: req.Changes}, true}, row)
}

// pipelineRow is the row of a run that has checkpoints.
func (r *Runner) pipelineRow(ctx context.Context, id tipstaff.ID) (flow.Row, error) {
	run, err := r.guard(id)
	if err != nil {
		return flow.Row{}, err
	}
	row, err := r.Store.Run(ctx, run)
	if err == nil && row.Kind != kindPipeline {
		err = tipstaff.Errorf(tipstaff.WrongState, "run %s is a %s: only pipelines have checkpoints", run, row.Kind)
	}
	return row, explain(err, id)
}

// goBack makes a new run at a boundary of a pipeline run.
func (r *Runner) goBack(ctx context.Context, req branch, row flow.Row) (tipstaff.Run, error) {
	for {
		made, err := r.forkAtBoundary(ctx, req, row)
		if errors.Is(err, errBeaten) {
			if row, err = r.Store.Run(ctx, row.ID); err == nil {
				continue
			}
		}
		if err != nil {
			return tipstaff.Run{}, explain(err, req.Run)
		}
		return r.Get(ctx, made)
	}
}

// forkAtBoundary makes the new run. errBeaten: the old one has gone on meanwhile.
func (r *Runner) forkAtBoundary(ctx context.Context, req branch, row flow.Row) (tipstaff.ID, error) {
	if err := r.mayLeave(ctx, req, row); err != nil {
		return tipstaff.ID{}, err
	}
	b, err := r.boundaryAsked(ctx, req.Run, req.Place)
	if err != nil {
		return tipstaff.ID{}, err
	}
	base, err := pipelineAt(ctx, r.Store, b.run, b.seq)
	if err != nil {
		return tipstaff.ID{}, err
	}
	body, err := forkBodyOf(ctx, r.Store, base, b)
	if err != nil {
		return tipstaff.ID{}, err
	}
	head, err := r.headOf(ctx, row)
	if err != nil {
		return tipstaff.ID{}, err
	}
	made := tipstaff.NewID(r.Now())
	forked, err := r.takeOver(ctx, made, req, &body, base, head, b)
	if err != nil {
		return tipstaff.ID{}, err
	}
	if req.rollback && !tipstaff.State(row.State).Terminal() {
		if forked.Beside, err = r.giveUp(ctx, head, made); err != nil {
			return tipstaff.ID{}, err
		}
	}
	return made, r.store(ctx, made, body, base.text, append(r.accepted(ctx, body, base.text, "command"), forked))
}

// pipelineAt is programAt of a pipeline.
func pipelineAt(ctx context.Context, src source, run string, at int64) (*pipelineProgram, error) {
	p, err := programAt(ctx, src, run, at)
	if err != nil {
		return nil, err
	}
	own, ok := p.(*pipelineProgram)
	if !ok {
		return nil, tipstaff.Errorf(tipstaff.WrongState, "run %s is no pipeline", run)
	}
	return own, nil
}

// mayLeave refuses to go back in a run that somebody drives and, of a rollback, in
// one whose place another has taken.
func (r *Runner) mayLeave(ctx context.Context, req branch, row flow.Row) error {
	switch state := tipstaff.State(row.State); {
	case state == tipstaff.Drafting:
		return tipstaff.Errorf(tipstaff.WrongState, "run %s is a draft: it has no checkpoints yet", row.ID)
	case !state.Terminal() && (r.driving(row.ID) || r.alive(row)): // the drive of one that has ended may still be tidying up
		return tipstaff.Errorf(tipstaff.WrongState, "run %s is running", row.ID).WithHint("wait until it rests, or cancel it")
	case !req.rollback:
		return checkThread(req.Thread)
	}
	draft, err := readDraft(ctx, r.Store, row.ID)
	if err != nil {
		return err
	}
	if draft.single() && !tipstaff.State(row.State).Terminal() {
		return tipstaff.Errorf(tipstaff.WrongState, "run %s works on a draft: another cannot take its place", row.ID).WithHint("cancel it, and run the agent again")
	}
	line, err := r.Store.Runs(ctx, flow.Query{Envelope: row.Envelope, Limit: 1})
	if err == nil && len(line) == 1 && line[0].ID != row.ID {
		return tipstaff.Errorf(tipstaff.WrongState, "run %s has taken the place of run %s", line[0].ID, row.ID).
			WithHint("roll that one back")
	}
	return err
}

// boundaryAsked is the boundary that a request names: by a checkpoint, or else the
// newest, of a stage, of the records up to one.
func (r *Runner) boundaryAsked(ctx context.Context, run tipstaff.ID, at tipstaff.Place) (*boundary, error) {
	named := 0
	for _, by := range []bool{at.Checkpoint != "", at.Stage != "", at.At != 0} {
		if by {
			named++
		}
	}
	switch {
	case named > 1:
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "name a checkpoint, a stage or a record, not several of them")
	case at.Checkpoint != "":
		return boundaryOf(ctx, r.Store, run.String(), at.Checkpoint)
	}
	return newestBoundary(ctx, r.Store, run.String(), at.At, at.Stage)
}

// newestBoundary is the last one of a run up to a record (0: its head) or, of a
// stage, the last that it was merged at; in what the run inherits if it has none of
// its own.
func newestBoundary(ctx context.Context, src source, run string, upTo int64, stage string) (*boundary, error) {
	for at := run; ; {
		found, err := lastBoundary(ctx, src, at, upTo, stage)
		if found != nil || err != nil {
			return found, err
		}
		draft, err := readDraft(ctx, src, at)
		if err != nil {
			return nil, err
		}
		if draft.ForkOf == nil {
			break
		}
		at, upTo = draft.ForkOf.Run, draft.ForkOf.Seq
	}
	what := "has no checkpoint yet"
	if stage != "" {
		what = fmt.Sprintf("has no checkpoint of stage %q", stage)
	}
	return nil, tipstaff.Errorf(tipstaff.CheckpointNotFound, "run %s %s", run, what)
}

// lastBoundary looks for it in the records of one run. It also says which stage was
// the last of the turn, and which checkpoint was made before it.
func lastBoundary(ctx context.Context, src source, run string, upTo int64, stage string) (last *boundary, err error) {
	asked, latest, parent := false, pipeline.Start, "" // of the turn that is being read
	err = eachEvent(ctx, src, run, upTo, func(e *tipstaff.Event) (err error) {
		if e.N == 0 { // labels are others'
			return nil
		}
		var b struct{ ID, Stage string }
		switch e.Kind {
		case tipstaff.KindStageStarted:
			err = json.Unmarshal(e.Body, &b)
			asked, latest = asked || b.Stage == stage, b.Stage
		case tipstaff.KindCheckpointCreated:
			err = json.Unmarshal(e.Body, &b)
			parent = b.ID
		case tipstaff.KindTurnMerged:
			var found *boundary
			if found, err = readBoundary(run, e); err == nil && (stage == "" || asked) {
				found.stage, found.parent = latest, parent
				last = found
			}
			asked = false
		}
		return err
	})
	return last, err
}

// forkBodyOf is the intent.draft of a run that is forked at a boundary, where base is
// the program.
func forkBodyOf(ctx context.Context, src source, base *pipelineProgram, b *boundary) (draftBody, error) {
	last, err := src.Records(ctx, b.run, b.seq-1, 1)
	if err != nil {
		return draftBody{}, err
	}
	if len(last) == 0 {
		return draftBody{}, fmt.Errorf("run %s has no record %d", b.run, b.seq)
	}
	h, err := segmentOf(ctx, src, b.run, b.seq)
	if err != nil {
		return draftBody{}, err
	}
	body := base.draft
	body.Hold, body.Rollback, body.after = false, nil, ""
	body.Bounds = maps.Clone(body.Bounds)
	_, limit := flow.Totals(h, base.limits) // with what decisions have added to them
	maps.Copy(body.Bounds, limit)
	body.ForkOf = &tipstaff.ForkPoint{Run: b.run, Seq: b.seq, Hash: journal.Hash(last[0].Hash).String()}
	return body, nil
}

// left is a run that is left, as it stood then.
type left struct {
	row      flow.Row
	program  *pipelineProgram
	counters pipeline.Counters
	used     flow.Use
	wallMs   int64
}

// headOf reads what a run has used, up to its last record.
func (r *Runner) headOf(ctx context.Context, row flow.Row) (*left, error) {
	p, err := stateAt(ctx, r.Store, row.ID, row.Head)
	if err != nil {
		return nil, err
	}
	l := &left{row: row, program: p}
	l.counters, l.used, l.wallMs, err = countersAt(ctx, r.Store, p, row.Head)
	return l, err
}

// countersAt are the counters of a run after a record: what its program counts, which
// has been replayed up to there, and what its ledger has, where that is more because
// something was cut off.
func countersAt(ctx context.Context, src source, p *pipelineProgram, at int64) (pipeline.Counters, flow.Use, int64, error) {
	h, err := segmentOf(ctx, src, p.run, at)
	if err != nil {
		return pipeline.Counters{}, nil, 0, err
	}
	used, _ := flow.Totals(h, p.limits)
	e := p.state
	c := pipeline.Counters{
		Iteration: e.Iteration, TokensIn: e.TokensIn, TokensOut: e.TokensOut, StageNumber: e.CurrentStageNumber,
		LLMCallCount:  max(e.LLMCallCount, used[tipstaff.BoundModelCalls]),
		AgentHopCount: max(e.AgentHopCount, used[tipstaff.BoundAgentHops]),
		ToolCallCount: max(e.ToolCallCount, used[tipstaff.BoundToolCalls]),
		CostUSD:       max(e.CostUSD, tipstaff.USD(used[tipstaff.BoundCostUSD])),
		EdgeCounts:    slices.Clone(e.EdgeCounts), Visits: maps.Clone(e.Visits),
	}
	c.TokensOut += max(0, used[tipstaff.BoundTokens]-e.TokensIn-e.TokensOut)
	for _, records := range [][]flow.Record{h.Base, h.Records} {
		for i := range records {
			var b struct{ N int64 }
			if records[i].Kind == string(tipstaff.KindTransition) && json.Unmarshal(records[i].Body, &b) == nil {
				c.Transitions = max(c.Transitions, b.N)
			}
		}
	}
	return c, used, flow.Wall(h).Milliseconds(), nil
}

// takeOver completes the draft of the new run with what it has of the one that is
// left, and is the record that says so.
func (r *Runner) takeOver(ctx context.Context, made tipstaff.ID, req branch, body *draftBody, base *pipelineProgram, head *left, b *boundary) (flow.Draft, error) {
	old := *head.program.draft.Pipeline
	old.Thread = cmp.Or(head.row.Thread, old.Thread) // it may have been started in another than it was made for
	status := tipstaff.PipelineStatus{Envelope: "env_" + made.String(), Request: old.Request, Thread: cmp.Or(req.Thread, made.String()), Version: head.program.state.Version}
	body.Parent = &tipstaff.RunParent{Run: b.run, Relation: relationFork}
	if req.rollback {
		status.Envelope, status.Thread = old.Envelope, cmp.Or(old.Thread, head.row.ID)
		body.Parent.Relation, body.after = relationRollback, head.row.ID
	}
	body.Pipeline = &status
	by := changer(ctx)
	body.Rollback = &rollbackBody{Head: head.row.Head, Rollback: pipeline.Rollback{RunID: made.String(), EnvelopeID: status.Envelope, ThreadID: status.Thread,
		Turn: b.turn, Version: head.program.state.Version, Counters: head.counters, Raised: req.Raise, By: by, From: head.row.ID, Checkpoint: b.checkpoint()}}
	if err := raise(body, base.raisableTo(), req.Raise); err != nil {
		return flow.Draft{}, err
	}
	forked := tipstaff.RunForked{FromRun: head.row.ID, Seq: b.seq, Checkpoint: b.checkpoint(), Counters: head.used, WallMs: &head.wallMs, Raised: req.Raise, By: by}
	if given := (edits{req.Outputs, req.Metadata}); !given.none() {
		if err := given.applyTo(&pipeline.Rollback{}); err != nil {
			return flow.Draft{}, err
		}
		forked.Value = flow.JSON(given)
		body.Rollback.Edits = flow.Digest(forked.Value)
	}
	return flow.Draft{Kind: string(tipstaff.KindRunForked), Body: flow.JSON(forked)}, nil
}

// checkpoint is the id of a boundary.
func (b *boundary) checkpoint() string { return fmt.Sprintf("cp_%s_%d", b.run, b.turn) }

// raisable are the bounds that a rollback may raise, by the names of documents, and
// what they are in those of a run, in how many of its units.
var raisable = map[string]struct {
	bound string
	unit  int64
}{
	"max_iterations": {tipstaff.BoundIterations, 1}, "max_llm_calls": {tipstaff.BoundModelCalls, 1}, "max_agent_hops": {tipstaff.BoundAgentHops, 1},
	"max_stages": {tipstaff.BoundStages, 1}, "max_tool_calls": {tipstaff.BoundToolCalls, 1}, "max_tokens": {tipstaff.BoundTokens, 1},
	"max_cost_usd": {tipstaff.BoundCostUSD, 1}, "max_wall_seconds": {tipstaff.BoundWallTime, 1000},
}

// mostRaised is how far a bound can be raised at all, as far as a document could.
const mostRaised = 1_000_000

// raise sets bounds anew, within ceiling.
func raise(body *draftBody, ceiling tipstaff.Bounds, to map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(to)) {
		known, ok := raisable[name]
		if !ok {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%q is no bound of a pipeline", name).
				WithHint("bounds are %v", slices.Sorted(maps.Keys(raisable)))
		}
		n := to[name]
		most, limited := ceiling[known.bound]
		switch {
		case n <= 0, n > (1<<63-1)/known.unit, n > mostRaised && known.bound != tipstaff.BoundCostUSD && known.bound != tipstaff.BoundTokens && known.bound != tipstaff.BoundWallTime:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%s cannot be %d: it is a number from 1 to %d", name, n, int64(mostRaised))
		case limited && n*known.unit > most:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%s cannot be raised to %d: %s is the most", name, n, tipstaff.FormatBound(known.bound, most)).
				WithHint("the manifest may permit more than the pipeline says: bounds.%s in tipstaff.yaml, when the run is made", known.bound)
		case n*known.unit < body.Bounds[known.bound]:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%s is %s already: a rollback can only raise it", name, tipstaff.FormatBound(known.bound, body.Bounds[known.bound]))
		}
		body.Bounds[known.bound] = n * known.unit
	}
	return nil
}

// raisableTo is how far the bounds of a pipeline may be raised: to what the manifest
// permits that it has frozen, and where that says nothing to its own.
func (p *pipelineProgram) raisableTo() tipstaff.Bounds {
	ceiling := tipstaff.EffectiveBounds(nil, limitsOf(p.pipe.Pipeline), nil)
	maps.Copy(ceiling, p.gate.Manifest.Ceiling())
	return ceiling
}

// giveUp ends the run that is rolled back, beside the record that makes the new one.
func (r *Runner) giveUp(ctx context.Context, head *left, made tipstaff.ID) (*flow.Beside, error) {
	a, at, err := accountOf(ctx, r.Store, head.row.ID)
	if err != nil {
		return nil, err
	}
	used, limit, err := r.totals(ctx, head.row.ID, head.program)
	if err != nil {
		return nil, err
	}
	why := newCancel(changer(ctx), "rolled back to "+made.String(), relationRollback)
	out := flow.Outcome{Status: flow.Cancelled, Used: used, Limit: limit, Err: rolledBack(made.String())}
	return &flow.Beside{Run: head.row.ID, Write: func(tx flow.Tx) ([]flow.Draft, error) {
		now := tx.Row()
		if now.Head != at || now.Head != head.row.Head || r.alive(now) {
			return nil, errBeaten
		}
		closed, err := closings(tx)
		return append(closed, r.cancelled(head.program, a, out, why)), err
	}}, nil
}

// rolledBack is how a run ends whose place another takes.
func rolledBack(by string) error {
	return &pipeline.Ending{Reason: tipstaff.TerminalRolledBack, Outcome: tipstaff.OutcomeCancelled, Text: "run " + by + " has taken its place"}
}

// maxLabel is how long the name of a checkpoint may be.
const maxLabel = 128

// Label gives the newest boundary of a run, or the checkpoint that is named, a name.
// A run that is driven is not disturbed.
func (r *Runner) Label(ctx context.Context, req tipstaff.LabelRequest) (none tipstaff.Checkpoint, err error) {
	if _, err := r.pipelineRow(ctx, req.Run); err != nil {
		return none, err
	}
	if req.Label == "" || len(req.Label) > maxLabel || req.Label != tipstaff.Printable(req.Label) {
		return none, tipstaff.Errorf(tipstaff.InvalidArgument, "a label is one line of 1 to %d bytes", maxLabel)
	}
	body, err := r.labelBody(ctx, req)
	if err == nil {
		err = r.Store.Write(ctx, req.Run.String(), func(flow.Tx) ([]flow.Draft, error) {
			return []flow.Draft{{Kind: string(tipstaff.KindCheckpointCreated), Note: true, Body: body}}, nil
		})
	}
	if err != nil {
		return none, explain(err, req.Run)
	}
	all, err := r.Checkpoints(ctx, req.Run)
	for _, c := range slices.Backward(all) {
		if slices.Contains(c.Labels, req.Label) {
			return c, nil
		}
	}
	return none, err
}

// labelBody is checkpoint.created of a boundary that somebody names.
func (r *Runner) labelBody(ctx context.Context, req tipstaff.LabelRequest) (json.RawMessage, error) {
	b, err := r.boundaryAsked(ctx, req.Run, tipstaff.Place{Checkpoint: req.Checkpoint})
	if err != nil {
		return nil, err
	}
	if b, err = lastBoundary(ctx, r.Store, b.run, b.seq, ""); err != nil { // with what was before it
		return nil, err
	}
	e, err := boundaryState(ctx, r.Store, b)
	if err != nil {
		return nil, err
	}
	return flow.JSON(map[string]any{"id": b.checkpoint(), "envelope_id": e.EnvelopeID, "thread_id": e.ThreadID, "stage": b.stage, "turn": b.turn,
		"iteration": e.Iteration, "epoch": e.Epoch, "parent_id": b.parent, "digest": b.digest, "automatic": false, "labels": []string{req.Label},
		"size_bytes": e.Size(), "by": changer(ctx)}), nil
}

// boundaryState is the Envelope at a boundary. It must be the one that was recorded.
func boundaryState(ctx context.Context, src source, b *boundary) (*pipeline.Envelope, error) {
	p, err := stateOf(ctx, src, b)
	if err != nil {
		return nil, err
	}
	if digest := p.state.DataDigest(); digest != b.digest {
		return nil, tipstaff.Errorf(tipstaff.ReplayMismatch, "the data at %s is %s, but %s was recorded", b.checkpoint(), digest, b.digest)
	}
	return p.state.Envelope, nil
}

// driven reports whether anybody has begun to drive a run.
func driven(records []flow.Record) bool {
	return slices.ContainsFunc(records, func(r flow.Record) bool {
		return r.Kind == string(tipstaff.KindRunStarted) || r.Kind == string(tipstaff.KindRunContinued)
	})
}

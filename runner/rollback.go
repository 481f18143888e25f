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
	"github.com/tipstaff/tipstaff/pipeline"
)

// A pipeline goes back to a boundary in a new run, which inherits the journal up to
// there and all counters of the run that is left: data comes back, budget does not.
// A rollback takes the place of that run, a fork is another line of work beside it.

// How such a run is related to the one it comes from.
const (
	relationRollback = "rollback"
	relationFork     = "fork"
	relationFollowup = "followup"
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

// applyEdits puts edits into what a run takes over.
func applyEdits(raw json.RawMessage, r *pipeline.Rollback) (err error) {
	var e edits
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("the edits cannot be read: %w", err)
	}
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
		return applyEdits(forked.Value, &b.Rollback)
	}
	return fmt.Errorf("the edits %s are not there", b.Edits)
}

// branch is a fork or a rollback.
type branch struct {
	tipstaff.ForkRequest
	rollback bool
	followup *tipstaff.Followup // nil: it is none
	by       string
	asks     string          // beside what its source does
	edits    json.RawMessage // nil: none
	ceiling  flow.Use        // of the manifest by now, where that is another
	// manifestOnly: bounds may be raised to whatever the manifest permits, as they could
	// be under the first rules.
	manifestOnly bool
}

// Rollback makes a run from a boundary of a pipeline run, which takes its place.
func (r *Runner) Rollback(ctx context.Context, req tipstaff.RollbackRequest) (tipstaff.Run, error) {
	row, err := r.openToBranch(ctx, req.Run, req.Checkpoint, false, &req.Changes)
	if err != nil {
		return tipstaff.Run{}, err
	}
	made, err := r.goBack(ctx, branch{ForkRequest: tipstaff.ForkRequest{Run: req.Run, Place: req.Place, Changes: req.Changes}, rollback: true}, row)
	if err != nil {
		return tipstaff.Run{}, explain(err, req.Run)
	}
	return r.get(ctx, made.Run)
}

// checkpointed refuses a run that has no checkpoints.
func checkpointed(row flow.Row) error {
	if row.Kind != kindPipeline {
		return tipstaff.Errorf(tipstaff.WrongState, "run %s is a %s: only pipelines have checkpoints", row.ID, row.Kind)
	}
	return nil
}

// goBack makes a new run at a boundary of a pipeline run.
func (r *Runner) goBack(ctx context.Context, req branch, row flow.Row) (made tipstaff.Started, err error) {
	if err := checkpointed(row); err != nil {
		return made, err
	}
	req.by = actor(ctx)
	if req.asks, err = (handed{}).asks(ctx); err != nil {
		return made, err
	}
	if given := (edits{req.Outputs, req.Metadata}); len(given.Outputs)+len(given.Metadata) > 0 {
		req.edits = flow.JSON(given)
	}
	for {
		made, err := r.forkAtBoundary(ctx, req, row)
		if errors.Is(err, errMoved) {
			if row, err = r.Store.Run(ctx, row.ID); err == nil {
				continue
			}
		}
		return made, err
	}
}

// forkAtBoundary makes the new run. errMoved: the old one has gone on meanwhile.
func (r *Runner) forkAtBoundary(ctx context.Context, req branch, row flow.Row) (none tipstaff.Started, err error) {
	if err := r.mayLeave(ctx, req, row); err != nil {
		return none, err
	}
	b, err := r.boundaryAsked(ctx, req.Run, req.Place)
	if err != nil {
		return none, err
	}
	head, err := leftAt(ctx, r.Store, row.ID, row.Head)
	if err != nil {
		return none, err
	}
	made := tipstaff.NewID(r.Now())
	req.ceiling = r.ceilingNow(head.program.common, req.Raise)
	body, text, forked, err := head.branch(ctx, r.Store, made.String(), req, b)
	if err != nil {
		return none, err
	}
	if !req.rollback {
		body.forked(req.ForkRequest)
	}
	draft := flow.Draft{Kind: string(tipstaff.KindRunForked), Body: flow.JSON(forked)}
	if req.rollback {
		// What takes the place of a fork was not made by a request, as the fork was not.
		body.after, body.request = row.ID, row.Request
		if !tipstaff.State(row.State).Terminal() {
			if draft.Beside, err = r.giveUp(ctx, head, made); err != nil {
				return none, err
			}
		}
	}
	return r.create(ctx, made, body, text, append(r.accepted(ctx, body, text, "command"), draft), person{}, req.Detach)
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
	b, err := findBoundary(ctx, r.Store, run.String(), at.At, func(b *boundary) bool { return at.Stage == "" || slices.Contains(b.stages, at.Stage) })
	switch {
	case b != nil || err != nil:
		return b, err
	case at.Stage != "":
		return nil, tipstaff.Errorf(tipstaff.CheckpointNotFound, "run %s has no checkpoint of stage %q", run, at.Stage)
	}
	return nil, tipstaff.Errorf(tipstaff.CheckpointNotFound, "run %s has no checkpoint yet", run)
}

// left is a run that is left, as it stood after a record.
type left struct {
	run, user string
	head      int64
	status    tipstaff.PipelineStatus // whose Envelope it is
	counters  pipeline.Counters
	used      flow.Use
	held      flow.Use // for attempts that were lost
	wallMs    int64
	program   *pipelineProgram
}

// leftAt reads what a run has used, up to a record: what its program counts, replayed up
// to there, and what its ledger has, where that is more because something was cut off.
func leftAt(ctx context.Context, src source, run string, at int64) (*left, error) {
	p, err := stateAt(ctx, src, run, at)
	if err != nil {
		return nil, err
	}
	h, err := segmentOf(ctx, src, run, at)
	if err != nil {
		return nil, err
	}
	e, l := p.state, &left{run: run, user: p.draft.User, head: at, wallMs: flow.Wall(h).Milliseconds(), program: p}
	// It may have been started in another thread than it was made for.
	l.status = tipstaff.PipelineStatus{Envelope: p.draft.Pipeline.Envelope, Request: p.draft.Pipeline.Request, Thread: e.ThreadID, Version: e.Version}
	tally := flow.Totals(h, p.limits)
	l.used, l.held = tally.Used, tally.Held
	l.counters = pipeline.Counters{
		Iteration: e.Iteration, TokensIn: e.TokensIn, TokensOut: e.TokensOut, StageNumber: e.CurrentStageNumber,
		LLMCallCount:  max(e.LLMCallCount, l.used[tipstaff.BoundModelCalls]),
		AgentHopCount: max(e.AgentHopCount, l.used[tipstaff.BoundAgentHops]),
		ToolCallCount: max(e.ToolCallCount, l.used[tipstaff.BoundToolCalls]),
		CostUSD:       max(e.CostUSD, tipstaff.USD(l.used[tipstaff.BoundCostUSD])),
		EdgeCounts:    slices.Clone(e.EdgeCounts), Visits: maps.Clone(e.Visits),
	}
	l.counters.TokensOut += max(0, l.used[tipstaff.BoundTokens]-e.TokensIn-e.TokensOut)
	for _, record := range slices.Concat(h.Base, h.Records) {
		var b tipstaff.Transitioned
		if record.Kind == string(tipstaff.KindTransition) && json.Unmarshal(record.Body, &b) == nil {
			l.counters.Transitions = max(l.counters.Transitions, b.N)
		}
	}
	return l, nil
}

// branch is the draft of a run that leaves l and goes back to a boundary, its program,
// and the record that says so. Verify computes the same again.
func (l *left) branch(ctx context.Context, src source, made string, req branch, b *boundary) (body draftBody, text document, forked tipstaff.RunForked, err error) {
	p, err := programAt(ctx, src, b.run, b.seq)
	if err != nil {
		return body, nil, forked, err
	}
	base, ok := p.(*pipelineProgram)
	if !ok {
		return body, nil, forked, tipstaff.Errorf(tipstaff.WrongState, "run %s is not a pipeline", b.run)
	}
	h, err := segmentOf(ctx, src, b.run, b.seq)
	if err != nil {
		return body, nil, forked, err
	}
	last, err := src.Records(ctx, b.run, b.seq-1, 1)
	if err != nil || len(last) == 0 {
		return body, nil, forked, cmp.Or(err, fmt.Errorf("run %s has no record %d", b.run, b.seq))
	}
	body = base.draft
	body.Hold, body.Asks = false, joinAsks(base.draft.Asks, req.asks)
	body.ForkOf = &tipstaff.ForkPoint{Run: b.run, Seq: b.seq, Hash: last[0].Hash}
	body.Parent = &tipstaff.RunParent{Run: b.run, Relation: relationFork}
	status := l.status
	switch {
	case req.rollback:
		body.Parent.Relation, body.User = relationRollback, l.user // it stays whose it was, whoever rolls it back
	case req.followup != nil:
		body.Parent.Relation, body.User, body.Followup = relationFollowup, l.user, req.followup
		fallthrough
	default:
		status.Envelope, status.Thread = "env_"+made, cmp.Or(req.Thread, made)
	}
	body.Pipeline = &status
	body.Bounds = maps.Clone(body.Bounds)
	maps.Copy(body.Bounds, flow.Totals(h, base.limits).Limit) // with what decisions have added to them
	ceiling := tipstaff.Min(base.gate.Manifest.Ceiling())
	if !req.manifestOnly { // where the manifest says nothing, the pipeline's own limits hold
		ceiling = tipstaff.EffectiveBounds(nil, limitsOf(base.pipe.Pipeline), nil)
		maps.Copy(ceiling, base.gate.Manifest.Ceiling())
	}
	maps.Copy(ceiling, tipstaff.Bounds(req.ceiling))
	if err := raise(body.Bounds, ceiling, req.Raise, true); err != nil {
		return body, nil, forked, err
	}
	body.Rollback = &rollbackBody{Head: l.head, Rollback: pipeline.Rollback{RunID: made, EnvelopeID: status.Envelope, ThreadID: status.Thread,
		Turn: b.turn, Version: status.Version, Counters: l.counters, Raised: req.Raise, By: req.by, From: l.run, Checkpoint: b.checkpoint()}}
	if req.followup != nil {
		body.Rollback.Enter = base.pipe.corrects()
	}
	forked = tipstaff.RunForked{FromRun: l.run, Seq: b.seq, Checkpoint: b.checkpoint(), Counters: l.used, Held: l.held, WallMs: &l.wallMs, Raised: req.Raise, Ceiling: req.ceiling, By: req.by, Value: req.edits}
	if req.edits != nil {
		body.Rollback.Edits = flow.Digest(req.edits)
		err = applyEdits(req.edits, &pipeline.Rollback{})
	}
	return body, base.text, forked, err
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

// raise sets bounds anew, within ceiling; higher: none of them to less than it is.
func raise(bounds, ceiling tipstaff.Bounds, to map[string]int64, higher bool) error {
	for _, name := range slices.Sorted(maps.Keys(to)) {
		known, ok := raisable[name]
		if _, has := bounds[known.bound]; !ok || !higher && !has { // of pipelines it may stand in the document alone
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not a bound of this run", name).
				WithHint("bounds are %v", slices.Sorted(maps.Keys(raisable)))
		}
		n := to[name]
		if !higher { // a plan's, which calls it so
			name = known.bound
		}
		most, limited := ceiling[known.bound]
		switch {
		case n <= 0, n > (1<<63-1)/known.unit, n > mostRaised && known.bound != tipstaff.BoundCostUSD && known.bound != tipstaff.BoundTokens && known.bound != tipstaff.BoundWallTime:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%s cannot be %d: it is a number from 1 to %d", name, n, int64(mostRaised))
		case limited && n*known.unit > most:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%s cannot be raised to %s: %s is the most", name, tipstaff.FormatBound(known.bound, n*known.unit), tipstaff.FormatBound(known.bound, most)).
				WithHint("the manifest may permit more: bounds.%s in tipstaff.yaml", known.bound)
		case higher && n*known.unit < bounds[known.bound]:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%s is %s already: a pipeline that goes back can only raise it", name, tipstaff.FormatBound(known.bound, bounds[known.bound]))
		}
		bounds[known.bound] = n * known.unit
	}
	return nil
}

// giveUp ends the run that is rolled back, beside the record that makes the new one.
func (r *Runner) giveUp(ctx context.Context, head *left, made tipstaff.ID) (*flow.Beside, error) {
	a, at, err := accountOf(ctx, r.Store, head.run)
	if err != nil {
		return nil, err
	}
	tally, err := r.totals(ctx, head.run, head.program)
	if err != nil {
		return nil, err
	}
	why := newCancel(actor(ctx), "rolled back to "+made.String(), relationRollback)
	out := flow.Outcome{Status: flow.Cancelled, Tally: tally, Err: &pipeline.Ending{
		Reason: tipstaff.TerminalRolledBack, Outcome: tipstaff.OutcomeCancelled, Text: "run " + made.String() + " has taken its place"}}
	return &flow.Beside{Run: head.run, Write: func(tx flow.Tx) ([]flow.Draft, error) {
		now := tx.Row()
		if now.Head != at || now.Head != head.head || r.alive(now) {
			return nil, errMoved
		}
		closed, err := closings(tx)
		return append(closed, r.cancelled(head.program, a, out, why)), err
	}}, nil
}

// maxLabel is how long the name of a checkpoint may be.
const maxLabel = 128

// Label gives the newest boundary of a run, or the checkpoint that is named, a name.
// A run that is driven is not disturbed.
func (r *Runner) Label(ctx context.Context, req tipstaff.LabelRequest) (none tipstaff.Checkpoint, err error) {
	row, err := r.openToBranch(ctx, req.Run, req.Checkpoint, false, nil)
	if err = cmp.Or(err, checkpointed(row)); err != nil {
		return none, err
	}
	if req.Label == "" || len(req.Label) > maxLabel || req.Label != tipstaff.Printable(req.Label) {
		return none, tipstaff.Errorf(tipstaff.InvalidArgument, "a label is one line of 1 to %d bytes", maxLabel)
	}
	b, err := r.boundaryAsked(ctx, req.Run, tipstaff.Place{Checkpoint: req.Checkpoint})
	if err != nil {
		return none, explain(err, req.Run)
	}
	p, err := boundaryState(ctx, r.Store, b)
	if err != nil {
		return none, explain(err, req.Run)
	}
	e := p.state
	body := flow.JSON(tipstaff.CheckpointCreated{ID: b.checkpoint(), Stage: b.stage, Turn: b.turn, Iteration: e.Iteration, Epoch: e.Epoch, ParentID: b.parent,
		Digest: b.digest, SizeBytes: e.Size(), EnvelopeID: e.EnvelopeID, ThreadID: e.ThreadID, Labels: []string{req.Label}, By: actor(ctx)})
	err = r.Store.Write(ctx, row.ID, func(flow.Tx) ([]flow.Draft, error) {
		return []flow.Draft{{Kind: string(tipstaff.KindCheckpointCreated), Note: true, Body: body}}, nil
	})
	if err != nil {
		return none, explain(err, req.Run)
	}
	all, err := tipstaff.CheckpointsOf(localUser(ctx), r, req.Run)
	for _, c := range slices.Backward(all) {
		if slices.Contains(c.Labels, req.Label) {
			return c, nil
		}
	}
	return none, err
}

// boundaryState is a run at a boundary. Its data must be what was recorded.
func boundaryState(ctx context.Context, src source, b *boundary) (*pipelineProgram, error) {
	p, err := stateUpTo(ctx, src, b.run, b.seq, &b.turn)
	if err != nil {
		return nil, err
	}
	if digest := p.state.DataDigest(); digest != b.digest {
		return nil, tipstaff.Errorf(tipstaff.ReplayMismatch, "the data at %s is %s, but %s was recorded", b.checkpoint(), digest, b.digest)
	}
	return p, nil
}

// driven reports whether anybody has begun to drive a run.
func driven(records []flow.Record) bool {
	return slices.ContainsFunc(records, func(r flow.Record) bool {
		return r.Kind == string(tipstaff.KindRunStarted) || r.Kind == string(tipstaff.KindRunContinued)
	})
}

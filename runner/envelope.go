package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
)

// stateAt is a pipeline run as it stood after a record (0: its head), found by driving
// the program over what is recorded. It performs nothing.
func stateAt(ctx context.Context, src source, run string, at int64) (*pipelineProgram, error) {
	return stateUpTo(ctx, src, run, at, nil)
}

// stateUpTo is stateAt or, at the boundary of a turn, the run before what follows from
// the boundary by itself has followed.
func stateUpTo(ctx context.Context, src source, run string, at int64, turn *int64) (*pipelineProgram, error) {
	opened, err := openProgramAt(ctx, src, run, at)
	if err != nil {
		return nil, err
	}
	p, ok := opened.(*pipelineProgram)
	if !ok {
		return nil, tipstaff.Errorf(tipstaff.WrongState, "run %s is not a pipeline: it has no Envelope", run)
	}
	h, err := segmentOf(ctx, src, run, at)
	if err != nil {
		return nil, err
	}
	switch {
	case turn != nil:
		p.state.StopAt = turn
	case p.draft.Rollback != nil && !driven(h.Records):
		p.state.StopRolledBack = true
	}
	out, err := flow.Replay(h).Drive(ctx, replayed(p))
	if err != nil {
		return nil, err
	}
	if out.Status == flow.Interrupted && !errors.Is(out.Err, pipeline.ErrBoundary) {
		return nil, &tipstaff.Error{Code: tipstaff.ReplayMismatch, Run: idOf(run), Err: out.Err,
			Message: fmt.Sprintf("the state of run %s does not follow from its records: %v", run, out.Err)}
	}
	return p, nil
}

// Envelope is the state of a pipeline run, as it is now or as it was at a checkpoint.
func (r *Runner) Envelope(ctx context.Context, id tipstaff.ID, checkpoint string) (data []byte, err error) {
	if err := r.permit(ctx, id, tipstaff.ScopeRead); err != nil {
		return nil, err
	}
	if checkpoint == "" {
		data, err = r.envelopeNow(ctx, id)
		return data, explain(err, id)
	}
	b, err := boundaryOf(ctx, r.Store, id.String(), checkpoint)
	if err != nil {
		return nil, explain(err, id)
	}
	p, err := boundaryState(ctx, r.Store, b)
	if err != nil {
		return nil, explain(err, id)
	}
	return pipeline.EncodeEnvelope(p.state.Ordered(p.pipe.Pipeline)), nil
}

func (r *Runner) envelopeNow(ctx context.Context, id tipstaff.ID) ([]byte, error) {
	p, err := openProgram(ctx, r.Store, id.String())
	if err != nil {
		return nil, err
	}
	var env *pipeline.Envelope
	if _, ok := p.(*pipelineDraftProgram); ok {
		d, err := readPipelineDraft(ctx, r.Store, id.String())
		if err != nil {
			return nil, err
		}
		env = d.env.Ordered(d.pipe)
	} else {
		now, err := stateAt(ctx, r.Store, id.String(), 0)
		if err != nil {
			return nil, err
		}
		env = now.state.Ordered(now.pipe.Pipeline)
	}
	run, err := r.get(ctx, id)
	if err != nil {
		return nil, err
	}
	env.WallMs = run.Bounds[tipstaff.BoundWallTime].Used
	if run.State.Terminal() { // and it was not the executor that ended it
		text := ""
		if run.Error != nil {
			text = run.Error.Message
		}
		env.Terminate(tipstaff.TerminalReason(run.Pipeline.TerminalReason), text, run.EndedAt)
		if env.TerminalReason == tipstaff.TerminalCancelled && text != "" { // which the executor cannot know
			env.TerminationReason = tipstaff.Joined(": ", pipeline.TextCancelled, text)
		}
	}
	if err := r.gatesNow(ctx, env, run); err != nil {
		return nil, err
	}
	return pipeline.Shown{Envelope: *env, State: string(run.State), Condition: string(run.Condition), LastSeq: run.HeadSeq}.MarshalJSON()
}

// gatesNow puts into the Envelope what is known of the gates of a run beyond what its
// program has taken: their ids, and which of several at once have been answered.
func (r *Runner) gatesNow(ctx context.Context, env *pipeline.Envelope, run tipstaff.Run) error {
	env.InterruptPending = len(run.OpenGates) > 0
	if !slices.ContainsFunc(env.Interrupts, func(in pipeline.Interrupt) bool { return in.Open }) {
		return nil
	}
	gates, err := r.Store.Gates(ctx, flow.GateQuery{Run: run.ID.String()})
	for i := range env.Interrupts {
		in := &env.Interrupts[i]
		for _, g := range gates {
			if in.Open && g.Key == in.Key {
				in.ID, in.Open = g.ID, g.Decided == 0
			}
		}
		in.Open = in.Open && !run.State.Terminal()
	}
	return err
}

// boundary is the turn.merged record of a turn, in the run that wrote it.
type boundary struct {
	run    string
	seq    int64
	turn   int64
	digest string
	stage  string   // the last that was started before it
	parent string   // the checkpoint before it
	stages []string // of its turn
}

// parseCheckpoint takes the id of a checkpoint apart: cp_<run>_<turn>.
func parseCheckpoint(id string) (run string, turn int64, ok bool) {
	rest, ok := strings.CutPrefix(id, "cp_")
	run, number, cut := strings.Cut(rest, "_")
	turn, err := strconv.ParseInt(number, 10, 64)
	if _, bad := tipstaff.ParseID(run); !ok || !cut || bad != nil || err != nil || turn < 0 {
		return "", 0, false
	}
	return run, turn, true
}

// boundaryOf finds the boundary that a checkpoint names, in a run or in what it
// inherits: not from before it was left.
func boundaryOf(ctx context.Context, src source, run, checkpoint string) (*boundary, error) {
	var found *boundary
	var err error
	if owner, turn, ok := parseCheckpoint(checkpoint); ok {
		found, err = findBoundary(ctx, src, run, 0, func(b *boundary) bool { return b.run == owner && b.turn == turn })
	}
	if err == nil && found == nil {
		err = tipstaff.Errorf(tipstaff.CheckpointNotFound, "run %s has no checkpoint %q", run, checkpoint).
			WithCommand("`tipstaff show %s --checkpoints` lists them", run)
	}
	return found, err
}

// findBoundary is the last boundary of a run, up to a record (0: its head), that is
// wanted; in what the run inherits if it has none of its own. nil: there is none.
func findBoundary(ctx context.Context, src source, run string, upTo int64, want func(*boundary) bool) (last *boundary, err error) {
	for {
		var stages []string // of the turn that is being read
		stage, parent := pipeline.Start, ""
		err = eachEvent(ctx, src, run, upTo, func(e *tipstaff.Event) error {
			if e.N == 0 { // labels are others'
				return nil
			}
			switch e.Kind {
			case tipstaff.KindStageStarted:
				stage = tipstaff.BodyOf[tipstaff.StageStarted](e).Stage
				stages = append(stages, stage)
			case tipstaff.KindCheckpointCreated:
				parent = tipstaff.BodyOf[tipstaff.Checkpoint](e).ID
			case tipstaff.KindTurnMerged:
				var b tipstaff.TurnMerged
				if err := json.Unmarshal(e.Body, &b); err != nil {
					return err
				}
				if found := (&boundary{run, e.Seq, b.Turn, b.Digest, stage, parent, stages}); want(found) {
					last = found
				}
				stages = nil
			}
			return nil
		})
		if last != nil || err != nil {
			return last, err
		}
		draft, err := readDraft(ctx, src, run)
		if err != nil || draft.ForkOf == nil {
			return nil, err
		}
		run, upTo = draft.ForkOf.Run, draft.ForkOf.Seq
	}
}

// Graph is a drawing of the pipeline, with how often its edges were taken.
func (r *Runner) Graph(ctx context.Context, id tipstaff.ID, format string) ([]byte, error) {
	if err := r.permit(ctx, id, tipstaff.ScopeRead); err != nil {
		return nil, err
	}
	drawn, err := r.graph(ctx, id, format)
	return drawn, explain(err, id)
}

func (r *Runner) graph(ctx context.Context, id tipstaff.ID, format string) ([]byte, error) {
	p, err := openProgram(ctx, r.Store, id.String())
	if err != nil {
		return nil, err
	}
	text, ok := p.shared().text.(pipelineText)
	if !ok || text.Pipeline == nil {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "only pipelines are drawn; run %s is a %s", id, p.shared().text.described().Kind)
	}
	if format == pipeline.GraphJSON { // the shape, which no run changes
		return text.drawn(format, nil)
	}
	counts := map[pipeline.Edge]int64{}
	moves, err := tipstaff.Transitions(localUser(ctx), r, id) // also of what it inherits from another's run
	if err != nil {
		return nil, err
	}
	for _, t := range moves {
		if t.TakesEdge() {
			counts[pipeline.Edge{From: t.From, To: t.To}]++
		}
	}
	return text.drawn(format, counts)
}

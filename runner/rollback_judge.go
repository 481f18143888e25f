package runner

import (
	"encoding/json"
	"maps"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// wentBack checks what a run took over when it went back: the boundary, the identity,
// the counters of the run that was left, and no more budget than it could be given.
func (j *judge) wentBack() {
	draft := j.draft
	if draft.ForkOf == nil || draft.Pipeline == nil {
		return
	}
	if draft.Rollback == nil {
		j.fault("rollback_mismatch", 1, "", "the run was forked from a pipeline, but does not say what it takes over")
		return
	}
	forked, at := j.forked()
	if forked == nil {
		j.fault("rollback_mismatch", 1, "", "no record says that the run was forked")
		return
	}
	r := draft.Rollback
	if forked.FromRun != r.From || forked.Seq != draft.ForkOf.Seq || forked.Checkpoint != r.Checkpoint || forked.By != r.By ||
		!maps.Equal(forked.Raised, r.Raised) || (forked.Value != nil) != (r.Edits != "") {
		j.fault("rollback_mismatch", at, "", "it was forked otherwise than its draft says")
	}
	j.identity(draft)
	j.source(draft)
	j.counters(draft, forked, at)
}

// forked is the record that says so.
func (j *judge) forked() (*tipstaff.RunForked, int64) {
	for i := range j.trace.events {
		e := j.trace.events[i]
		if e.Kind != tipstaff.KindRunForked {
			continue
		}
		b := new(tipstaff.RunForked)
		if attach(j.ctx, j.src, &e) != nil || json.Unmarshal(e.Body, b) != nil {
			return nil, 0
		}
		return b, e.Seq
	}
	return nil, 0
}

// identity checks whose Envelope it is.
func (j *judge) identity(draft *draftBody) {
	r, s := draft.Rollback, draft.Pipeline
	if r.RunID != j.program.shared().run || r.EnvelopeID != s.Envelope || r.ThreadID != s.Thread {
		j.fault("rollback_mismatch", 1, "", "the Envelope that it takes over is not its own")
	}
	base, err := readDraft(j.ctx, j.src, draft.ForkOf.Run)
	if err != nil || base.Pipeline == nil {
		j.fault("rollback_mismatch", 1, "", "the run it was forked from is no pipeline")
		return
	}
	if own := base.Pipeline.Envelope == s.Envelope; own != (draft.Parent != nil && draft.Parent.Relation == relationRollback) {
		j.fault("rollback_mismatch", 1, "", "a rollback keeps its Envelope, and only a rollback does")
	}
}

// source checks that it goes back to a boundary, under the same program and within
// bounds that it could be given.
func (j *judge) source(draft *draftBody) {
	e, err := eventAt(j.ctx, j.src, draft.ForkOf.Run, draft.ForkOf.Seq)
	if err != nil || e.Kind != tipstaff.KindTurnMerged || tipstaff.BodyOf[tipstaff.TurnMerged](e).Turn != draft.Rollback.Turn {
		j.fault("rollback_mismatch", 1, "", "record %d of run %s is not the boundary of turn %d", draft.ForkOf.Seq, draft.ForkOf.Run, draft.Rollback.Turn)
		return
	}
	base, err := pipelineAt(j.ctx, j.src, draft.ForkOf.Run, draft.ForkOf.Seq)
	if err != nil {
		j.fault("rollback_mismatch", 1, "", "%v", err)
		return
	}
	want, err := forkBodyOf(j.ctx, j.src, base, &boundary{run: draft.ForkOf.Run, seq: draft.ForkOf.Seq, turn: draft.Rollback.Turn})
	if err == nil {
		ceiling := base.raisableTo()
		if draft.Rules < rulesShown { // when only the manifest set one
			ceiling = base.gate.Manifest.Ceiling()
		}
		err = raise(&want, ceiling, draft.Rollback.Raised)
	}
	switch {
	case err != nil:
		j.fault("rollback_mismatch", 1, "", "%v", err)
	case want.ProgramDigest != draft.ProgramDigest || !maps.Equal(want.Frozen, draft.Frozen):
		j.fault("rollback_mismatch", 1, "", "the program is not the one that was frozen")
	case want.Asks != draft.Asks:
		j.fault("rollback_mismatch", 1, "", "its calls ask otherwise than those of the run it was forked from: %q, not %q", draft.Asks, want.Asks)
	case !maps.Equal(want.Bounds, draft.Bounds):
		j.fault("rollback_mismatch", 1, "", "it may use %v, but could only be given %v", draft.Bounds, want.Bounds)
	}
}

// counters computes again what the run that was left had used. An export need not
// have all of it.
func (j *judge) counters(draft *draftBody, forked *tipstaff.RunForked, at int64) {
	r := draft.Rollback
	if _, err := eventAt(j.ctx, j.src, r.From, r.Head); err != nil {
		return
	}
	p, err := stateAt(j.ctx, j.src, r.From, r.Head)
	if err != nil {
		j.fault("rollback_mismatch", 1, "", "%v", err)
		return
	}
	counters, used, wall, err := countersAt(j.ctx, j.src, p, r.Head)
	if err != nil {
		j.fault("rollback_mismatch", 1, "", "%v", err)
		return
	}
	if want := flow.JSON(counters); !sameJSON(flow.JSON(r.Counters), want) {
		j.fault("rollback_mismatch", 1, "", "counters: %s", differing(flow.JSON(r.Counters), want))
	}
	if forked.WallMs == nil || !maps.Equal(forked.Counters, used) || *forked.WallMs != wall {
		j.fault("rollback_mismatch", at, "", "run %s had used %v in %d ms, and its run.forked says something else", r.From, used, wall)
	}
}

// leftBehind reports whether a run was ended because another has taken its place.
// That one says so too, where it can be asked.
func (j *judge) leftBehind(end *tipstaff.Event) bool {
	if b := tipstaff.BodyOf[tipstaff.IntentCancel](end); j.draft.Pipeline == nil || b.Via != relationRollback || b.TerminalReason != "rolled_back" {
		return false
	}
	store, ok := j.src.(flow.Reader)
	if !ok {
		return true
	}
	line, err := store.Runs(j.ctx, flow.Query{Envelope: j.draft.Pipeline.Envelope})
	if err != nil {
		return false
	}
	for _, row := range line {
		if next, err := readDraft(j.ctx, j.src, row.ID); err == nil && next.Rollback != nil && next.Rollback.From == j.program.shared().run {
			return true
		}
	}
	return false
}

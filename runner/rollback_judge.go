package runner

import (
	"encoding/json"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// wentBack computes again what a run took over when it went back: the boundary, the
// identity, the counters of the run that was left, and no more budget than it could be
// given.
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
	if forked == nil || forked.WallMs == nil {
		j.fault("rollback_mismatch", 1, "", "no record says how the run was forked")
		return
	}
	// What somebody has edited is named here by its digest, and was read by it.
	had := *draft.Rollback
	had.Outputs, had.Metadata, had.Feedback = nil, nil, ""
	req := branch{asks: draft.Asks, rollback: draft.Parent != nil && draft.Parent.Relation == relationRollback, by: had.By, edits: forked.Value, ceiling: forked.Ceiling, manifestOnly: draft.Rules < rulesShown}
	if draft.Parent != nil && draft.Parent.Relation == relationFollowup {
		req.followup = draft.Followup
	}
	req.Raise, req.Thread = had.Raised, draft.Pipeline.Thread
	want, _, said, err := j.branchAgain(req, &had, forked)
	if err != nil {
		j.fault("rollback_mismatch", 1, "", "%v", err)
		return
	}
	want.ForkOf.Hash = draft.ForkOf.Hash // which is a matter of integrity
	if !req.rollback {
		want.User = draft.User // whoever forks it
	}
	type taken struct {
		ForkOf   *tipstaff.ForkPoint      `json:"fork_of"`
		Parent   *tipstaff.RunParent      `json:"parent"`
		Rules    int                      `json:"rules"`
		Program  string                   `json:"program_digest"`
		Frozen   map[string]string        `json:"frozen"`
		Asks     string                   `json:"asks"`
		User     string                   `json:"user"`
		Bounds   tipstaff.Bounds          `json:"bounds"`
		Pipeline *tipstaff.PipelineStatus `json:"pipeline"`
		Rollback *rollbackBody            `json:"rollback"`
	}
	of := func(b *draftBody, r *rollbackBody) json.RawMessage {
		return flow.JSON(taken{b.ForkOf, b.Parent, b.Rules, b.ProgramDigest, b.Frozen, b.Asks, b.User, b.Bounds, b.Pipeline, r})
	}
	if is, must := of(draft, &had), of(&want, want.Rollback); !sameJSON(is, must) {
		j.fault("rollback_mismatch", 1, "", "%s", differing(is, must))
	}
	if is, must := flow.JSON(forked), flow.JSON(said); !sameJSON(is, must) {
		j.fault("rollback_mismatch", at, "", "%s", differing(is, must))
	}
}

// branchAgain is what a run takes over, computed from the run that was left. An export
// need not have that run's records: then what is recorded of it is believed.
func (j *judge) branchAgain(req branch, had *rollbackBody, forked *tipstaff.RunForked) (body draftBody, text document, said tipstaff.RunForked, err error) {
	line, head := had.From, &left{run: had.From, head: had.Head, user: j.draft.User, status: *j.draft.Pipeline,
		counters: had.Counters, used: forked.Counters, held: forked.Held, wallMs: *forked.WallMs}
	if _, err = eventAt(j.ctx, j.src, had.From, had.Head); err == nil {
		head, err = leftAt(j.ctx, j.src, had.From, had.Head)
	} else if _, stored := j.src.(rows); !stored {
		line = j.draft.ForkOf.Run
		var base *draftBody
		if base, err = readDraft(j.ctx, j.src, line); err == nil && base.Pipeline != nil && line == had.From {
			head.status.Envelope = base.Pipeline.Envelope
		}
	}
	if err != nil {
		return body, nil, said, fmt.Errorf("run %s, which was left at record %d: %w", had.From, had.Head, err)
	}
	b, err := boundaryOf(j.ctx, j.src, line, had.Checkpoint)
	if err != nil {
		return body, nil, said, err
	}
	return head.branch(j.ctx, j.src, j.program.shared().run, req, b)
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

// leftBehind reports whether a run was ended because another has taken its place.
// That one says so too, where it can be asked.
func (j *judge) leftBehind(end *tipstaff.Event) bool {
	if b := tipstaff.BodyOf[tipstaff.IntentCancel](end); j.draft.Pipeline == nil || b.Via != relationRollback || b.TerminalReason != string(tipstaff.TerminalRolledBack) {
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

package runner

import (
	"encoding/json"
	"maps"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// verify checks the part of a run in which it was a draft: every change counts on
// from the one before, and what was started is what they add up to.
func (p *heldProgram) verify(j *judge, parts []part, _ func(tipstaff.Event)) (outcome string, more bool) {
	was := &parts[0]
	events, err := j.attached(was.events)
	if err == nil {
		err = j.changes(p.common, events)
	}
	if err != nil {
		j.fault("draft_mismatch", was.events[0].Seq, "", "%v", err)
		return string(flow.Interrupted), true
	}
	if len(parts) > 1 {
		j.begun(p.common, events, &parts[1].events[0])
		return string(flow.ParkedRun), true
	}
	if was.history.Ended != "" {
		j.ending(was.history, p, flow.Outcome{Status: was.history.Ended})
		j.cancel(nil)
		return string(was.history.Ended), true
	}
	return string(flow.ParkedRun), true
}

// attached are records with their payloads.
func (j *judge) attached(events []tipstaff.Event) ([]tipstaff.Event, error) {
	whole := make([]tipstaff.Event, len(events))
	for i := range events {
		whole[i] = events[i]
		if err := attach(j.ctx, j.src, &whole[i]); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// changes follows a draft from record to record.
func (j *judge) changes(p *common, events []tipstaff.Event) error {
	h, err := foldHeld(j.ctx, j.src, p.run, &p.draft, nil)
	if err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		if e.Kind != tipstaff.KindDraftUpdated {
			continue
		}
		var u tipstaff.DraftUpdated
		if err := json.Unmarshal(e.Body, &u); err != nil {
			return err
		}
		had, locked := h.version, h.locked
		if err := h.update(&u); err != nil {
			return err
		}
		j.change(e, &u, h, had, locked)
	}
	return nil
}

// change checks one record, given where the draft stood before it and stands after it.
func (j *judge) change(e *tipstaff.Event, u *tipstaff.DraftUpdated, h *held, had int64, locked string) {
	want := had + 1
	if u.Locked != "" { // which changes nothing
		want = had
	}
	if u.Version != want {
		j.fault("draft_mismatch", e.Seq, "", "the draft has version %d after version %d", u.Version, had)
	}
	if u.Value != nil && !maps.Equal(u.Used, h.used) {
		j.fault("draft_mismatch", e.Seq, "", "it says that %v was used, but the changes add up to %v", u.Used, h.used)
	}
	if u.Unlocked != locked {
		j.fault("draft_mismatch", e.Seq, "", "it is changed by run %q while it is locked by run %q", u.Unlocked, locked)
	}
	if u.Unlocked != "" {
		j.agentResult(e, u)
	}
}

// agentResult checks that a draft was given what the run of a single agent came to.
// An export of the draft does not have that run.
func (j *judge) agentResult(e *tipstaff.Event, u *tipstaff.DraftUpdated) {
	store, ok := j.src.(rows)
	if !ok {
		return
	}
	row, err := store.Run(j.ctx, u.Unlocked)
	if err != nil || !tipstaff.State(row.State).Terminal() {
		j.fault("draft_mismatch", e.Seq, "", "run %s, which it is said to come from, has not ended: %v", u.Unlocked, err)
		return
	}
	p, err := stateAt(j.ctx, j.src, u.Unlocked, 0)
	if err != nil {
		j.fault("draft_mismatch", e.Seq, "", "%v", err)
		return
	}
	h, err := segmentOf(j.ctx, j.src, u.Unlocked, 0)
	if err != nil {
		j.fault("draft_mismatch", e.Seq, "", "%v", err)
		return
	}
	used, _ := flow.Totals(h, p.limits)
	if want := flow.JSON(p.result(flow.Outcome{Status: flow.Status(row.State), Used: used})); !sameJSON(u.Value, want) {
		j.fault("draft_mismatch", e.Seq, "", "from run %s: %s", u.Unlocked, differing(u.Value, want))
	}
}

// begun checks that a run began with its draft, and with the program and the bounds
// that were accepted for it.
func (j *judge) begun(p *common, events []tipstaff.Event, continued *tipstaff.Event) {
	h, err := foldHeld(j.ctx, j.src, p.run, &p.draft, events)
	if err != nil {
		j.fault("draft_mismatch", continued.Seq, "", "%v", err)
		return
	}
	var accepted struct {
		Bounds tipstaff.Bounds `json:"bounds"`
	}
	var proposed struct {
		IntentHash    string `json:"intent_hash"`
		ProgramDigest string `json:"program_digest"`
		AcceptedBy    string `json:"accepted_by"`
	}
	for i := range events {
		switch events[i].Kind {
		case tipstaff.KindIntentAccept:
			err = json.Unmarshal(events[i].Body, &accepted)
		case tipstaff.KindPlanProposed:
			err = json.Unmarshal(events[i].Body, &proposed)
		}
		if err != nil {
			j.fault("draft_mismatch", events[i].Seq, "", "%v", err)
			return
		}
	}
	if proposed.ProgramDigest != h.draft.ProgramDigest || !maps.Equal(accepted.Bounds, h.draft.Bounds) {
		j.fault("draft_mismatch", continued.Seq, "", "program %s within %v was accepted, but the draft has %s within %v",
			proposed.ProgramDigest, accepted.Bounds, h.draft.ProgramDigest, h.draft.Bounds)
	}
	var b struct {
		State json.RawMessage `json:"state"`
	}
	_ = json.Unmarshal(continued.Body, &b) // it was read before
	state, err := attached(j.ctx, j.src, b.State)
	if want := flow.JSON(h.segment(proposed.IntentHash, proposed.AcceptedBy)); err != nil || !sameJSON(state, want) {
		j.fault("draft_mismatch", continued.Seq, "", "%s", differing(state, want))
	}
}

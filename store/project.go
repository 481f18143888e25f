package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// project writes what follows from a record.
func (t *Tx) project(st *runState, r flow.Record) (err error) {
	kind := tipstaff.Kind(r.Kind)
	switch kind {
	case tipstaff.KindRunStarted, tipstaff.KindRunResumed:
		st.owned, st.wake, st.dirty = r.Kind, time.Time{}, true
	case tipstaff.KindRunParked, tipstaff.KindRunInterrupted:
		st.owned, st.dirty = r.Kind, true
		err = t.release(st)
		if kind == tipstaff.KindRunInterrupted && r.Epoch == 0 && err == nil { // its owner says so otherwise
			err = t.endLaunch(st)
		}
	case tipstaff.KindRunQueued:
		st.dirty = true
		err = t.exec(`UPDATE runs SET claimed = 0 WHERE n = ?`, st.n)
	case tipstaff.KindRunContinued:
		st.cont, st.dirty = r.Seq, true
	case tipstaff.KindRunCancelRequested:
		st.cancel, st.dirty = r.Seq, true
	case tipstaff.KindRunCorrectionRequested:
		st.correction, st.dirty = r.Seq, true
	case tipstaff.KindDraftUpdated:
		if err = t.join(st, r.Body); err == nil {
			var u tipstaff.DraftUpdated
			_ = json.Unmarshal(r.Body, &u) // join has read it
			err = t.rename(st, u.ProgramDigest)
		}
	}
	for _, follow := range [...]func(*runState, flow.Record) error{t.projectGate, t.projectTask, t.projectEnd, t.projectAnchor, t.refer, t.rememberEvent} {
		if err == nil {
			err = follow(st, r)
		}
	}
	return err
}

// projectGate keeps the row of the gate that a record opens or closes.
func (t *Tx) projectGate(st *runState, r flow.Record) error {
	switch kind := tipstaff.Kind(r.Kind); {
	case kind.OpensGate():
		b, err := flow.ReadOpened(r.Kind, r.Body)
		if err != nil {
			return fmt.Errorf("body of %s: %w", r.Kind, err)
		}
		if b.Gate == "" {
			return fmt.Errorf("%s at %q names no gate", r.Kind, r.Path)
		}
		return t.exec(`INSERT INTO gates (run, id, "user", kind, key, opened, opened_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			st.n, b.Gate, st.user, b.Kind, r.Path, r.Seq, r.At.UnixNano(), stamp(b.ExpiresAt.Time))
	case kind.ClosesGate():
		b, err := flow.ReadResolved(r.Kind, r.Body)
		if err != nil || b.Gate == "" { // an acceptance or a cancellation that was not asked for
			return err
		}
		return t.exec(`UPDATE gates SET decided = ?, via = ? WHERE run = ? AND id = ?`, r.Seq, b.Via, st.n, b.Gate)
	}
	return nil
}

// projectEnd writes what follows from a terminal envelope: nobody owns the run,
// nothing waits in it, nothing wakes it, no session of it goes on.
func (t *Tx) projectEnd(st *runState, r flow.Record) error {
	if !tipstaff.Kind(r.Kind).Terminal() {
		return nil
	}
	st.wake, st.dirty = time.Time{}, true
	if err := t.exec(`UPDATE gates SET decided = ?, via = 'run_ended' WHERE run = ? AND decided = 0`, st.seq, st.n); err != nil {
		return err
	}
	if err := t.closeSessions(`run = ?`, st.id); err != nil {
		return err
	}
	if err := t.wakeParent(st); err != nil {
		return err
	}
	return t.release(st)
}

// wakeParent has the run be due that has dispatched this one, which has ended, if it rests. So
// whoever looks for runs that are due finds it, whatever becomes of who ended this one. While
// it is driven its drive may look at this one; if not, it is due when it parks.
func (t *Tx) wakeParent(st *runState) error {
	parent := ""
	err := t.query(func(r Row) error { parent = r.Text(0); return nil }, `SELECT parent FROM runs WHERE n = ? AND base = ''`, st.n)
	if err != nil || parent == "" {
		return err
	}
	draft, err := readDraft(context.Background(), t.c, st.id, st.n)
	if err != nil || !draft.Parent.Dispatched() {
		return err
	}
	if err := t.alone("run " + parent); err != nil { // nobody parks it meanwhile
		return err
	}
	if above := t.s.states[parent]; above != nil && above.owned == string(tipstaff.KindRunParked) {
		above.wake = t.now
	}
	return t.exec(`UPDATE runs SET wake_at = ? WHERE id = ? AND owned = 'run.parked' AND holder IS NULL AND state NOT IN ('completed', 'failed', 'cancelled')`,
		t.now.UnixNano(), parent)
}

// refer keeps the blobs alive that a record names.
func (t *Tx) refer(st *runState, r flow.Record) error {
	digests, err := journal.Digests(r.Kind, r.Note, r.Body)
	if err != nil {
		return err
	}
	for _, digest := range digests {
		if err := t.keepBlob(st, digest.String()); err != nil {
			return err
		}
	}
	return nil
}

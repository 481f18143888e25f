package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Projector derives rows from a record, in the transaction that stores it. It
// must be a function of the record and of what it wrote before: its error, or
// its panic, fails the append. Payloads stand in the record as references.
type Projector func(ProjectTx, flow.Record) error

// ProjectTx is what a projector may do. Arguments are int64, string, []byte or
// nil.
type ProjectTx interface {
	Run() string
	Exec(query string, args ...any) error
	Query(each func(row []any) error, query string, args ...any) error
}

type projectTx struct {
	t   *tx
	run string
}

func (p projectTx) Run() string { return p.run }

func (p projectTx) Exec(query string, args ...any) error { return p.t.exec(query, args...) }

func (p projectTx) Query(each func([]any) error, query string, args ...any) error {
	return p.t.c.query(context.Background(), func(r row) error {
		values := make([]any, len(r))
		for i, v := range r {
			values[i] = v
		}
		return each(values)
	}, query, args...)
}

// gateBody is what the bodies of envelopes say about gates.
type gateBody struct {
	Gate    string    `json:"gate"`
	Kind    string    `json:"gate_kind"`
	Expires time.Time `json:"expires_at"`
	Via     string    `json:"via"`
}

func (b *gateBody) read(d flow.Draft) error {
	if err := json.Unmarshal(d.Body, b); err != nil {
		return fmt.Errorf("body of %s: %w", d.Kind, err)
	}
	return nil
}

// opens reports whether records of a kind open a gate.
func opens(kind tipstaff.Kind) bool {
	return kind == tipstaff.KindPolicyGate || kind == tipstaff.KindIntentClarify
}

// closes reports whether records of a kind decide the gate they name. Before
// acceptance an answer, an acceptance or a cancellation is the decision itself.
func closes(kind tipstaff.Kind) bool {
	switch kind {
	case tipstaff.KindPolicyGateResolve, tipstaff.KindIntentAnswer, tipstaff.KindIntentAccept, tipstaff.KindIntentCancel:
		return true
	}
	return false
}

// plain reports whether a record of this kind changes nothing but the journal of
// its run.
func (s *Store) plain(d flow.Draft) bool {
	if d.From != "" || d.Beside != nil || s.opts.Projectors[d.Kind] != nil {
		return false
	}
	switch tipstaff.Kind(d.Kind) {
	case tipstaff.KindRunInterrupted, tipstaff.KindRunCancelRequested, tipstaff.KindRunCorrectionRequested, tipstaff.KindRunContinued, tipstaff.KindDraftUpdated:
		return false
	}
	return true
}

// project writes what follows from a record.
func (t *tx) project(st *runState, r flow.Record) error {
	kind := tipstaff.Kind(r.Kind)
	switch kind {
	case tipstaff.KindRunStarted, tipstaff.KindRunResumed:
		st.owned, st.wake, st.dirty = r.Kind, time.Time{}, true
	case tipstaff.KindRunParked, tipstaff.KindRunInterrupted:
		st.owned, st.dirty = r.Kind, true
		if err := t.release(st); err != nil {
			return err
		}
	case tipstaff.KindRunContinued:
		st.cont, st.dirty = r.Seq, true
	case tipstaff.KindRunCancelRequested:
		st.cancel, st.dirty = r.Seq, true
	case tipstaff.KindRunCorrectionRequested:
		st.correction, st.dirty = r.Seq, true
	case tipstaff.KindDraftUpdated:
		if err := t.join(st, r.Body); err != nil {
			return err
		}
	}
	if err := t.projectGate(st, r); err != nil {
		return err
	}
	if kind.Terminal() {
		if err := t.end(st); err != nil {
			return err
		}
	}
	if err := t.projectAnchor(st, r); err != nil {
		return err
	}
	if err := t.refer(st, r.Draft); err != nil {
		return err
	}
	if err := t.rememberEvent(st, r); err != nil {
		return err
	}
	if p := t.w.s.opts.Projectors[r.Kind]; p != nil {
		if err := p(projectTx{t, st.id}, r); err != nil {
			return fmt.Errorf("projecting %s of run %s: %w", r.Kind, st.id, err)
		}
	}
	return nil
}

// projectGate keeps the row of the gate that a record opens or closes.
func (t *tx) projectGate(st *runState, r flow.Record) error {
	kind := tipstaff.Kind(r.Kind)
	if !opens(kind) && !closes(kind) {
		return nil
	}
	var b gateBody
	if err := b.read(r.Draft); err != nil {
		return err
	}
	if opens(kind) {
		return t.openGate(st, r, b)
	}
	if b.Gate == "" {
		return nil // an acceptance or a cancellation that was not asked for
	}
	return t.exec(`UPDATE gates SET decided = ?, via = ? WHERE run = ? AND id = ?`, r.Seq, b.Via, st.n, b.Gate)
}

func (t *tx) openGate(st *runState, r flow.Record, b gateBody) error {
	if b.Gate == "" {
		return fmt.Errorf("%s at %q names no gate", r.Kind, r.Path)
	}
	if r.Kind == string(tipstaff.KindIntentClarify) {
		b.Kind = string(tipstaff.Clarification)
	}
	return t.exec(`INSERT INTO gates (run, id, kind, key, opened, opened_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		st.n, b.Gate, b.Kind, r.Path, r.Seq, r.At.UnixNano(), stamp(b.Expires))
}

// closesDecided reports whether a draft is a closing that came too late and is
// left out: by expiry, by being superseded or by the end of the run. Anybody
// else's second decision is an error, as is one of a gate that never was.
func (t *tx) closesDecided(st *runState, d flow.Draft) (late bool, err error) {
	if !closes(tipstaff.Kind(d.Kind)) {
		return false, nil
	}
	var b gateBody
	if err := b.read(d); err != nil || b.Gate == "" {
		return false, err
	}
	decided, err := t.decided(st, b.Gate)
	if err != nil || decided == 0 {
		return false, err
	}
	if d.Kind == string(tipstaff.KindPolicyGateResolve) {
		switch b.Via {
		case "expiry", "superseded", "run_ended":
			return true, nil
		}
	}
	conflict := tipstaff.Errorf(tipstaff.DecisionConflict, "gate %s of run %s was decided by record %d", b.Gate, st.id, decided)
	conflict.Err = flow.ErrDecided
	return false, conflict
}

// end is what follows from a terminal envelope: nobody owns the run, nothing
// waits in it, nothing wakes it.
func (t *tx) end(st *runState) error {
	st.wake, st.dirty = time.Time{}, true
	if err := t.exec(`UPDATE gates SET decided = ?, via = 'run_ended' WHERE run = ? AND decided = 0`, st.seq, st.n); err != nil {
		return err
	}
	return t.release(st)
}

// refer keeps the blobs alive that a record names.
func (t *tx) refer(st *runState, d flow.Draft) error {
	digests, err := journal.Digests(d.Kind, d.Note, d.Body)
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

// keepBlob records that the run needs a blob. Not everything that has a digest
// is stored as one.
func (t *tx) keepBlob(st *runState, digest string) error {
	return t.exec(`INSERT OR IGNORE INTO blob_refs (run, digest) SELECT ?, digest FROM blobs WHERE digest = ?`, st.n, digest)
}

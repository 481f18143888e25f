package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// tx is the transaction of one batch.
type tx struct {
	w       *writer
	c       *conn
	now     time.Time // of the current op
	buf     []byte
	wrote   int         // statements that changed something
	touched []*runState // by the current op
	inbox   int64       // id of the last row written there
	notices []notice    // what to tell after the commit
	files   []envelopeFile
	rested  bool // an anchor is to be written
}

// runState is what the writer must know of a run to append to it.
type runState struct {
	n          int64
	id         string
	kind       string
	anchor     bool // where it comes to rest is anchored
	seq        int64
	hash       journal.Hash
	machine    tipstaff.Machine
	epoch      int64
	held       bool
	owned      string
	cont       int64
	cancel     int64
	correction int64
	env        journal.Hash
	envs       int64
	head       int64 // up to which the row was taken
	wake       time.Time
	keys       *Keys          // that the run published; nil: not looked up yet
	sound      bool           // every signature up to seq was made or checked by this process
	dirty      bool           // the row must be written
	fold       *tipstaff.Fold // up to seq, of a run that is driven here; nil: it is read when needed
}

func (st *runState) ended() bool { return st.machine.State.Terminal() }

// foldEvery is how many records may follow the row of a run before it is taken
// again.
const foldEvery = 1000

// perform runs one op. An error that is its own is kept in it; one that concerns
// the whole transaction is returned.
func (t *tx) perform(o *op) error {
	t.now = t.w.s.opts.Now().UTC().Round(0)
	o.err = nil
	notices, files, wrote, memory := len(t.notices), len(t.files), t.wrote, t.w.memory
	t.touched = t.touched[:0]
	if !o.plain {
		if err := t.c.exec(`SAVEPOINT op`); err != nil {
			return err
		}
	}
	err := t.apply(o)
	if err == nil {
		if o.plain {
			return nil
		}
		return t.c.exec(`RELEASE op`)
	}
	if faultOf(err) > ordinary || (o.plain && t.wrote > wrote) {
		return err
	}
	o.err = err
	t.notices, t.files, t.w.memory = t.notices[:notices], t.files[:files], memory
	for _, st := range t.touched {
		delete(t.w.states, st.id)
	}
	if o.plain {
		return nil
	}
	return errors.Join(t.c.exec(`ROLLBACK TO op`), t.c.exec(`RELEASE op`))
}

// apply calls the op and writes the rows it changed. A panic is the op's own
// failure: the writer serves other runs.
func (t *tx) apply(o *op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a transaction: %v\n%s", p, debug.Stack())
		}
	}()
	if err := o.apply(t); err != nil {
		return err
	}
	for _, st := range t.touched {
		if st.dirty || st.seq-st.head >= foldEvery {
			if err := t.writeRow(st); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tx) exec(query string, args ...any) error {
	t.wrote++
	return t.c.exec(query, args...)
}

// state is what is known of a run, for an op that will change it.
func (t *tx) state(run string) (*runState, error) {
	st, ok := t.w.states[run]
	if !ok {
		var err error
		if st, err = t.loadState(run); err != nil {
			return nil, err
		}
		t.w.states[run] = st
	}
	t.touched = append(t.touched, st)
	return st, nil
}

func (t *tx) loadState(run string) (*runState, error) {
	ctx := context.Background()
	st := &runState{id: run}
	anchor, err := t.c.column(ctx, "anchor")
	if err != nil {
		return nil, err
	}
	err = t.c.one(ctx, func(r row) (err error) {
		st.n, st.epoch, st.owned, st.held = r.int(0), r.int(1), r.text(2), r[3] != nil
		st.cont, st.cancel, st.correction = r.int(4), r.int(5), r.int(6)
		copy(st.env[:], r.bytes(7))
		st.envs, st.head, st.wake = r.int(8), r.int(9), r.time(10)
		st.machine.State = tipstaff.State(r.text(11))
		st.kind, st.anchor = r.text(12), r.int(13) > 0
		st.machine.Run, err = tipstaff.ParseID(run)
		return err
	}, `SELECT n, epoch, owned, holder, cont, cancel, correction, env, envs, head, wake_at, state, kind, `+anchor+` FROM runs WHERE id = ?`, run)
	if errors.Is(err, errNoRow) {
		return nil, fmt.Errorf("%w: %s", flow.ErrNoRun, run)
	}
	if err != nil {
		return nil, err
	}
	err = t.c.query(ctx, func(r row) error {
		st.seq = r.int(0)
		copy(st.hash[:], r.bytes(1))
		return nil
	}, `SELECT seq, hash FROM records WHERE run = ? ORDER BY seq DESC LIMIT 1`, st.n)
	if err == nil && st.seq < st.head {
		err = lostTail(run, st.seq, st.head)
	}
	st.sound = st.seq == 0 || t.w.s.sound.of(run) == journal.Head{Seq: st.seq, Hash: st.hash}
	return st, err
}

// append stores one draft. Epoch 0 is a writer without a lease.
func (t *tx) append(st *runState, epoch int64, d flow.Draft) error {
	if st.ended() {
		return fmt.Errorf("%w: %s", flow.ErrEnded, st.id)
	}
	if late, err := t.closesDecided(st, d); late || err != nil {
		return err
	}
	if kind := tipstaff.Kind(d.Kind); kind.Terminal() {
		body, err := t.attest(st, d)
		if err != nil {
			return fmt.Errorf("%s of run %s: %w", d.Kind, st.id, err)
		}
		d.Body = body
	}
	rec := journal.Record{At: t.now, Body: d.Body, Kind: d.Kind, Path: d.Path, Run: st.id, Seq: st.seq + 1}
	var stored []byte
	if d.From == "" {
		rec.Epoch, rec.N, rec.Note = epoch, d.N, d.Note
		t.buf = rec.AppendTo(t.buf[:0])
		stored = t.buf
	} else {
		if d.ID == "" {
			d.ID = tipstaff.NewID(t.now).String()
		}
		var err error
		if rec.Body, err = canon.Form(d.Body); err != nil {
			return fmt.Errorf("body of %s: %w", d.Kind, err)
		}
		if stored, err = t.seal(st, d, rec); err != nil {
			return err
		}
		d.Body = rec.Body // what is derived from the record is derived from its bytes
	}
	hash := st.hash.Next(stored)
	if err := t.exec(`INSERT INTO records (run, seq, kind, bytes, hash) VALUES (?, ?, ?, ?, ?)`, st.n, rec.Seq, d.Kind, stored, hash[:]); err != nil {
		return err
	}
	st.seq, st.hash = rec.Seq, hash
	if st.sound && d.From != "" {
		t.w.s.sound.set(st.id, st.seq, st.hash)
	}
	if st.fold != nil {
		st.fold.Apply(&tipstaff.Event{V: journal.Version, Seq: rec.Seq, Kind: tipstaff.Kind(rec.Kind), At: rec.At, Run: st.machine.Run,
			Path: rec.Path, Epoch: rec.Epoch, N: rec.N, Note: rec.Note, Body: d.Body, From: d.From})
	}
	beside := d.Beside
	d.Beside = nil // no part of the record
	r := flow.Record{Seq: rec.Seq, Epoch: epoch, At: t.now, Draft: d}
	if err := t.tell(st, epoch == 0, r); err != nil {
		return err
	}
	if err := t.project(st, r); err != nil || beside == nil {
		return err
	}
	return t.write(beside.Run, beside.Write)
}

// appendAll stores the drafts of one op, which check has let pass.
func (t *tx) appendAll(st *runState, epoch int64, drafts []flow.Draft) error {
	for _, d := range drafts {
		if err := t.append(st, epoch, d); err != nil {
			return err
		}
	}
	return nil
}

// check refuses drafts that no journal may hold, before they are queued. Who
// drives a run is said by Acquire and Park alone.
func check(drafts []flow.Draft) error {
	for _, d := range drafts {
		switch kind := tipstaff.Kind(d.Kind); {
		case !tipstaff.KnownKind(kind):
			return fmt.Errorf("%q is no kind of record that this version knows: nothing was stored", d.Kind)
		case kind == tipstaff.KindRunStarted, kind == tipstaff.KindRunResumed, kind == tipstaff.KindRunParked:
			return fmt.Errorf("%s is written with the lease, not by a draft", d.Kind)
		case journal.IsEnvelope(d.Kind) != (d.From != ""):
			return fmt.Errorf("envelopes are signed by user or executor, other records by nobody: %s is from %q", d.Kind, d.From)
		case d.ID != "" && !validID(d):
			return fmt.Errorf("%q is no id for a %s record: envelopes have one, a ULID", d.ID, d.Kind)
		case len(d.Body) > 0 && !journal.ValidBody(d.Body):
			return fmt.Errorf("the body of a %s record at %q is not one line of JSON", d.Kind, d.Path)
		}
	}
	return nil
}

func validID(d flow.Draft) bool {
	_, err := tipstaff.ParseID(d.ID)
	return err == nil && d.From != ""
}

// seal makes an envelope: the lifecycle allows it, and it is signed over the
// chain so far.
func (t *tx) seal(st *runState, d flow.Draft, rec journal.Record) ([]byte, error) {
	if err := st.drive(d); err != nil {
		return nil, fmt.Errorf("%s of run %s: %w", d.Kind, st.id, err)
	}
	key, err := t.signer(st, d)
	if err != nil {
		return nil, fmt.Errorf("%s of run %s: %w", d.Kind, st.id, err)
	}
	rec.From, rec.ID = d.From, d.ID
	if rec.ID == "" {
		rec.ID = tipstaff.NewID(t.now).String()
	}
	rec.Prev, rec.Head = st.env.String(), st.hash.String()
	b, err := key.Seal(rec)
	if err != nil {
		return nil, fmt.Errorf("%s of run %s: %w", d.Kind, st.id, err)
	}
	st.env, st.dirty = journal.Sum(b), true
	st.envs++
	t.files = append(t.files, envelopeFile{run: st.id, seq: rec.Seq, kind: d.Kind, bytes: b})
	return b, nil
}

// signer is the key for a draft. It must be one that the run has published, or
// nobody could verify the envelope.
func (t *tx) signer(st *runState, d flow.Draft) (*journal.PrivateKey, error) {
	key, err := t.w.s.keys.signer(d.From)
	if err != nil {
		return nil, err
	}
	if st.keys == nil {
		if st.keys, err = t.published(st, d); err != nil {
			return nil, err
		}
	}
	if pub := key.Public(); *st.keys != (Keys{}) && pub != st.keys.User && pub != st.keys.Executor {
		return nil, t.w.s.otherKeys()
	}
	return key, nil
}

func (s *Store) otherKeys() error {
	return fmt.Errorf("%w: the run was begun with other keys than those in %s: restore them, or fork the run", journal.ErrUnknownKey, s.dir.keys())
}

// published are the keys that the run's first record names; none if it names
// none.
func (t *tx) published(st *runState, first flow.Draft) (*Keys, error) {
	var body struct {
		Keys Keys `json:"keys"`
	}
	if st.seq > 0 {
		err := t.c.query(context.Background(), func(r row) error {
			rec, err := journal.Parse(r.bytes(0))
			first = flow.Draft{Kind: rec.Kind, Body: rec.Body}
			return err
		}, `SELECT bytes FROM records WHERE run = ? AND seq = 1`, st.n)
		if err != nil {
			return nil, err
		}
	}
	if tipstaff.Kind(first.Kind) != tipstaff.KindIntentDraft {
		return &body.Keys, nil
	}
	return &body.Keys, json.Unmarshal(first.Body, &body)
}

// drive moves the lifecycle, if the kind does.
func (st *runState) drive(d flow.Draft) error {
	kind := tipstaff.Kind(d.Kind)
	if !kind.Driving() && kind != tipstaff.KindIntentDraft {
		return nil
	}
	return st.machine.Apply(&tipstaff.Event{Kind: kind, Run: st.machine.Run, Body: d.Body})
}

// writeRow brings the row of a run up to its last record.
func (t *tx) writeRow(st *runState) error {
	if st.fold == nil {
		var err error
		if st.fold, err = t.readFold(st); err != nil {
			return err
		}
	}
	fold, err := json.Marshal(st.fold)
	if err != nil {
		return err
	}
	err = t.exec(`UPDATE runs SET state = ?, epoch = ?, owned = ?, cont = ?, cancel = ?, correction = ?, env = ?, envs = ?,
		head = ?, head_hash = ?, fold = ?, wake_at = ?, updated = ? WHERE n = ?`,
		string(st.machine.State), st.epoch, st.owned, st.cont, st.cancel, st.correction, st.env[:], st.envs,
		st.seq, st.hash[:], string(fold), stamp(st.wake), t.now.UnixNano(), st.n)
	if err != nil {
		return err
	}
	st.head, st.dirty = st.seq, false
	if !st.held {
		st.fold = nil // runs that rest are many, and must not fill the memory
	}
	return nil
}

// readFold is the status of the run up to its last record: that of the row, and
// the records since.
func (t *tx) readFold(st *runState) (*tipstaff.Fold, error) {
	ctx := context.Background()
	f := new(tipstaff.Fold)
	err := t.c.query(ctx, func(r row) error {
		if len(r.bytes(0)) == 0 {
			return nil
		}
		return json.Unmarshal(r.bytes(0), f)
	}, `SELECT fold FROM runs WHERE n = ?`, st.n)
	if err != nil {
		return nil, fmt.Errorf("the stored status of run %s: %w", st.id, err)
	}
	err = t.c.query(ctx, func(r row) error {
		e, err := tipstaff.ParseEvent(r.bytes(0))
		if err != nil && tipstaff.CodeOf(err) != tipstaff.FormatNewer { // a fold passes over what it does not know
			return err
		}
		f.Apply(&e)
		return nil
	}, `SELECT bytes FROM records WHERE run = ? AND seq > ? ORDER BY seq`, st.n, st.head)
	return f, err
}

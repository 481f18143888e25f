package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Tx is a transaction of the writer, of which there is one at a time.
type Tx struct {
	s       *Store
	c       Conn
	now     time.Time // of the current op
	buf     []byte
	touched []*runState // by the current op
	letters []letter    // for the inbox
	events  []event     // for the memory
	inbox   int64       // id of the last row written there; 0: others may have written in between
	locked  map[string]bool
	notices []Notice // what to tell after the commit
	sound   map[string]journal.Head

	Envelopes []Envelope // that were written; they are also kept as files
	Tasks     []string   // ids of those that changed; they are also kept as files
	Launches  []string   // runs whose launch changed; it is also kept as a file
	Rested    bool       // an anchor is to be written
}

// Envelope is a signed record that was stored.
type Envelope struct {
	Run   string
	Seq   int64
	Bytes []byte
}

// Begin returns the Tx of a transaction that has begun. moved says that another
// process has written since the last one: what is remembered may no longer hold.
func (s *Store) Begin(c Conn, moved bool) *Tx {
	if moved {
		s.RolledBack()
	}
	return &Tx{s: s, c: c, sound: map[string]journal.Head{}}
}

// RolledBack drops what the writer remembers of a transaction that did not commit.
func (s *Store) RolledBack() {
	clear(s.states)
	s.memory = memoryHead{}
}

// cachedStates bounds the memory of idle runs.
const cachedStates = 20_000

// Committed ends a transaction that is durable now, and returns what listeners are
// to be told.
func (t *Tx) Committed(in *Inbox) []Notice {
	in.seen = max(in.seen, t.inbox)
	for run, head := range t.sound {
		t.s.sound.set(run, head)
	}
	if len(t.s.states) > cachedStates {
		clear(t.s.states)
	}
	return t.s.hub.wanted(t.notices)
}

// runState is what the writer must know of a run to append to it.
type runState struct {
	n          int64
	id         string
	user       string
	kind       string
	anchor     bool // where it comes to rest is anchored
	seq        int64
	hash       journal.Hash
	machine    tipstaff.Machine
	epoch      int64
	held       bool
	mine       bool // by this store
	owned      string
	cont       int64
	cancel     int64
	correction int64
	env        journal.Hash
	envs       int64
	head       int64 // up to which the row was taken
	wake       time.Time
	keys       *tipstaff.RunKeys // that the run published; nil: not looked up yet
	sound      bool              // every signature up to seq was made or checked by this process
	dirty      bool              // the row must be written
	fold       *tipstaff.Fold    // up to seq, of a run that is driven here; nil: it is read when needed
}

func (st *runState) ended() bool { return st.machine.State.Terminal() }

// foldEvery is how many records may follow the row of a run before it is taken
// again.
const foldEvery = 1000

// Perform applies an op and writes the rows it changed. After an error the
// transaction must be rolled back. A panic is the op's own failure: the writer
// serves other runs.
func (t *Tx) Perform(o *Op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a transaction: %v\n%s", p, debug.Stack())
		}
	}()
	t.now = t.s.opts.Now().UTC().Round(0)
	t.touched = t.touched[:0]
	if err := o.Apply(t); err != nil {
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

// lock keeps other processes from what is called so, until the transaction ends.
func (t *Tx) lock(name string) (moved bool, err error) {
	if t.locked[name] {
		return false, nil
	}
	if t.locked == nil {
		t.locked = map[string]bool{}
	}
	t.locked[name] = true
	return t.c.Lock(name)
}

// alone is lock, for what is read only afterwards.
func (t *Tx) alone(name string) error {
	_, err := t.lock(name)
	return err
}

func (t *Tx) exec(query string, args ...any) error { return t.c.Exec(query, args...) }

// query has no context: nobody may break a transaction off that others share.
func (t *Tx) query(each func(Row) error, query string, args ...any) error {
	return t.c.Query(context.Background(), each, query, args...)
}

func (t *Tx) number(query string, args ...any) (int64, error) {
	return Number(context.Background(), t.c, query, args...)
}

// state is what is known of a run, for an op that will change it.
func (t *Tx) state(run string) (*runState, error) {
	if err := t.alone("run " + run); err != nil {
		return nil, err
	}
	st, ok := t.s.states[run]
	if ok && t.s.opts.Shared && !st.mine && !slices.Contains(t.touched, st) {
		ok = false
	}
	if !ok {
		var err error
		if st, err = t.loadState(run); err != nil {
			return nil, err
		}
		t.s.states[run] = st
	}
	t.touched = append(t.touched, st)
	return st, nil
}

func (t *Tx) loadState(run string) (*runState, error) {
	st := &runState{id: run}
	err := one(context.Background(), t.c, func(r Row) (err error) {
		st.n, st.epoch, st.owned, st.held = r.Int(0), r.Int(1), r.Text(2), r[3] != nil
		st.cont, st.cancel, st.correction = r.Int(4), r.Int(5), r.Int(6)
		st.env, st.envs, st.head, st.wake = r.Hash(7), r.Int(8), r.Int(9), r.Time(10)
		st.machine.State = tipstaff.State(r.Text(11))
		st.kind, st.anchor, st.user = r.Text(12), r.Int(13) > 0, r.Text(14)
		st.machine.Run, err = tipstaff.ParseID(run)
		return err
	}, `SELECT n, epoch, owned, holder, cont, cancel, correction, env, envs, head, wake_at, state, kind, anchor, "user" FROM runs WHERE id = ?`, run)
	if errors.Is(err, errNoRow) {
		return nil, fmt.Errorf("%w: %s", flow.ErrNoRun, run)
	}
	if err != nil {
		return nil, err
	}
	err = t.query(func(r Row) error {
		st.seq, st.hash = r.Int(0), r.Hash(1)
		return nil
	}, `SELECT seq, hash FROM records WHERE run = ? ORDER BY seq DESC LIMIT 1`, st.n)
	if err == nil && st.seq < st.head {
		err = lostTail(run, st.seq, st.head)
	}
	st.sound = st.seq == 0 || t.s.sound.of(run) == journal.Head{Seq: st.seq, Hash: st.hash}
	return st, err
}

// InsertRecord is what every step does: a driver may know a faster way for many of them.
const InsertRecord = `INSERT INTO records (run, seq, kind, bytes, hash) VALUES (?, ?, ?, ?, ?)`

// append stores one draft, which check has let pass. Epoch 0 is a writer without a
// lease.
func (t *Tx) append(st *runState, epoch int64, d flow.Draft) error {
	if st.ended() {
		return fmt.Errorf("%w: %s", flow.ErrEnded, st.id)
	}
	if late, err := t.closesDecided(st, d); late || err != nil {
		return err
	}
	if kind := tipstaff.Kind(d.Kind); kind.Terminal() {
		if err := t.endTasks(st, epoch, kind); err != nil {
			return err
		}
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
		if d.Body, err = canon.Form(d.Body); err != nil {
			return fmt.Errorf("body of %s: %w", d.Kind, err)
		}
		rec.Body = d.Body // what is derived from the record is derived from its bytes
		if stored, err = t.seal(st, d, rec); err != nil {
			return fmt.Errorf("%s of run %s: %w", d.Kind, st.id, err)
		}
	}
	hash := st.hash.Next(stored)
	if err := t.exec(InsertRecord, st.n, rec.Seq, d.Kind, stored, hash[:]); err != nil {
		return err
	}
	st.seq, st.hash = rec.Seq, hash
	if st.sound && d.From != "" {
		t.sound[st.id] = journal.Head{Seq: st.seq, Hash: st.hash}
	}
	if st.fold != nil {
		st.fold.Apply(&tipstaff.Event{V: journal.Version, Seq: rec.Seq, Kind: tipstaff.Kind(rec.Kind), At: rec.At, Run: st.machine.Run,
			Path: rec.Path, Epoch: rec.Epoch, N: rec.N, Note: rec.Note, Body: d.Body, From: d.From})
	}
	beside, launch := d.Beside, d.Launch
	d.Beside, d.Launch = nil, nil // no part of the record
	r := flow.Record{Seq: rec.Seq, Epoch: epoch, At: t.now, Draft: d}
	if err := t.tell(st, epoch == 0, r); err != nil {
		return err
	}
	if launch != nil {
		if err := t.launch(st, launch); err != nil {
			return err
		}
	}
	for _, digest := range d.Keep {
		if err := t.keepBlob(st, digest); err != nil {
			return err
		}
	}
	if err := t.project(st, r); err != nil || beside == nil {
		return err
	}
	return t.write(beside.Run, beside.Write)
}

// appendAll stores the drafts of one op and the blobs that they refer to.
func (t *Tx) appendAll(st *runState, epoch int64, drafts []flow.Draft, blobs []blob) error {
	if err := t.putBlobs(blobs); err != nil {
		return err
	}
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
		case (kind == tipstaff.KindRunLaunched) != (d.Launch != nil):
			return fmt.Errorf("a launch comes with its run.launched, not with %s", d.Kind)
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
func (t *Tx) seal(st *runState, d flow.Draft, rec journal.Record) ([]byte, error) {
	if kind := tipstaff.Kind(d.Kind); kind.Driving() || kind == tipstaff.KindIntentDraft {
		if err := st.machine.Apply(&tipstaff.Event{Kind: kind, Run: st.machine.Run, Body: d.Body}); err != nil {
			if missing := lacks(st.machine.State); kind == tipstaff.KindIntentAttest && missing != nil {
				err = fmt.Errorf("%w: it has no %s yet; write what is missing and drive it again, which repeats nothing", err, strings.Join(missing, ", no "))
			}
			return nil, err
		}
	}
	key, err := t.signer(st, d)
	if err != nil {
		return nil, err
	}
	rec.From, rec.ID = d.From, d.ID
	rec.Prev, rec.Head = st.env.String(), st.hash.String()
	b, err := key.Seal(rec)
	if err != nil {
		return nil, err
	}
	st.env, st.dirty = journal.Sum(b), true
	st.envs++
	t.Envelopes = append(t.Envelopes, Envelope{Run: st.id, Seq: rec.Seq, Bytes: b})
	return b, nil
}

// signer is the key for a draft. It must be one that the run has published, or
// nobody could verify the envelope.
func (t *Tx) signer(st *runState, d flow.Draft) (*journal.PrivateKey, error) {
	key, err := t.s.keys.signer(d.From)
	if err != nil {
		return nil, err
	}
	if st.keys == nil {
		if st.keys, err = t.published(st, d); err != nil {
			return nil, err
		}
	}
	if pub := key.Public(); *st.keys != (tipstaff.RunKeys{}) && pub != st.keys.User && pub != st.keys.Executor {
		return nil, t.s.otherKeys()
	}
	return key, nil
}

// published are the keys that the run's first record names, which may be yet to be
// stored; none if it names none.
func (t *Tx) published(st *runState, first flow.Draft) (*tipstaff.RunKeys, error) {
	if st.seq > 0 {
		d, err := readDraft(context.Background(), t.c, st.id, st.n)
		return &d.Keys, err
	}
	var d tipstaff.IntentDraft
	if tipstaff.Kind(first.Kind) != tipstaff.KindIntentDraft {
		return &d.Keys, nil
	}
	return &d.Keys, json.Unmarshal(first.Body, &d)
}

// writeRow brings the row of a run up to its last record.
func (t *Tx) writeRow(st *runState) error {
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
	queued := int64(0)
	if st.fold.Queue != nil && !st.ended() {
		queued = 1
	}
	err = t.exec(`UPDATE runs SET state = ?, epoch = ?, owned = ?, cont = ?, cancel = ?, correction = ?, env = ?, envs = ?,
		head = ?, head_hash = ?, fold = ?, wake_at = ?, queued = ?, ended = ?, cost = ?, updated = ? WHERE n = ?`,
		string(st.machine.State), st.epoch, st.owned, st.cont, st.cancel, st.correction, st.env[:], st.envs,
		st.seq, st.hash[:], string(fold), stamp(st.wake), queued, stamp(st.fold.Ended), st.fold.Ledger.Used[tipstaff.BoundCostUSD], t.now.UnixNano(), st.n)
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
func (t *Tx) readFold(st *runState) (*tipstaff.Fold, error) {
	var f *tipstaff.Fold
	err := t.query(func(r Row) error { f = tipstaff.ReadFold(r.Bytes(0)); return nil }, `SELECT fold FROM runs WHERE n = ?`, st.n)
	if err != nil {
		return nil, fmt.Errorf("the stored status of run %s: %w", st.id, err)
	}
	err = t.query(func(r Row) error {
		e, err := tipstaff.ParseEvent(r.Bytes(0))
		if err != nil && tipstaff.CodeOf(err) != tipstaff.FormatNewer { // a fold passes over what it does not know
			return err
		}
		f.Apply(&e)
		return nil
	}, `SELECT bytes FROM records WHERE run = ? AND seq > ? ORDER BY seq`, st.n, f.Seq)
	return f, err
}

// Heartbeat renews all leases of this store with one statement. What others are writing to is
// renewed the next time: it waits for nobody, and so nobody waits for it in turn.
func (t *Tx) Heartbeat() error {
	if t.s.opts.Shared {
		return t.exec(`UPDATE runs SET heartbeat = ? WHERE n IN (SELECT n FROM runs WHERE holder = ? FOR UPDATE SKIP LOCKED)`, t.now.UnixNano(), t.s.holder)
	}
	return t.exec(`UPDATE runs SET heartbeat = ? WHERE holder = ?`, t.now.UnixNano(), t.s.holder)
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// opening is how many records at the start of a run its drives rely on in every
// segment: the draft, what was compiled, its acceptance, and whence it was forked.
const opening = 5

// loading is the history of a run on its way to a drive. Every record in it was
// checked against its hash, its kind and, if it is signed, its signature, before
// anything obeys it.
type loading struct {
	row     flow.Row
	draft   tipstaff.IntentDraft
	history flow.History
	part    journal.Part
	machine tipstaff.Machine // as the records have it
	later   bool             // it begins with a run.continued: earlier envelopes are not in it
	driven  bool             // an envelope in it drives the lifecycle
	moved   bool             // it has been continued since: what was loaded is no longer the segment
}

// unsound says that what is stored of a run is not what was written.
func unsound(run string, seq int64, err error) error {
	return fmt.Errorf("%w: record %d of run %s: %w", flow.ErrIntegrity, seq, run, err)
}

func lostTail(run string, head, had int64) error {
	return fmt.Errorf("%w: run %s ends at record %d, but had %d", flow.ErrIntegrity, run, head, had)
}

// Load implements [flow.Log]. What Acquire has checked a moment ago is only read on.
func (s *Store) Load(ctx context.Context, run string) (flow.History, error) {
	if l, ok := s.acquired.LoadAndDelete(run); ok {
		l := l.(*loading)
		if err := l.readOn(ctx, s.db, math.MaxInt64); err != nil {
			return flow.History{}, err
		}
		if !l.moved {
			return l.whole(), nil
		}
	}
	l, err := s.load(ctx, run)
	if err != nil {
		return flow.History{}, err
	}
	return l.whole(), nil
}

// whole is the history of all that was read.
func (l *loading) whole() flow.History {
	state := l.machine.State
	if l.later && !l.driven { // no envelope of this segment says it
		state = tipstaff.State(l.row.State)
	}
	l.history.Lacks = lacks(state)
	return l.history
}

// lacks are the records that must come before a run in a state can complete.
func lacks(state tipstaff.State) []string {
	way := []string{string(tipstaff.KindIntentCompiled), string(tipstaff.KindIntentAccept), string(tipstaff.KindPlanProposed)}
	switch state {
	case tipstaff.Drafting, tipstaff.Clarifying:
		return way
	case tipstaff.Proposed:
		return way[1:]
	case tipstaff.Accepted:
		return way[2:]
	}
	return nil
}

// checkKept refuses a run of whose last envelope there is only the file: what the run would do
// next may have been done.
func (s *Store) checkKept(ctx context.Context, row flow.Row, kept KeptFile) error {
	if kept.Seq == 0 {
		return nil
	}
	there, err := Number(ctx, s.db, `SELECT count(*) FROM records WHERE run = ? AND seq = ? AND kind = ?`, row.N, kept.Seq, kept.Kind)
	if err == nil && there == 0 {
		err = fmt.Errorf("%w: record %d of run %s is no %s, and %s was written for one: the database was set back, or its disk has lost what it had acknowledged",
			flow.ErrIntegrity, kept.Seq, row.ID, kept.Kind, kept.Name)
	}
	return err
}

// load reads and checks the present segment of a run.
func (s *Store) load(ctx context.Context, run string) (*loading, error) {
	kept := s.opts.Kept(run) // before the run is read: others may be writing
	row, err := s.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	if row.Head < row.FoldSeq {
		return nil, lostTail(run, row.Head, row.FoldSeq)
	}
	if err := s.checkKept(ctx, row, kept); err != nil {
		return nil, err
	}
	known := s.sound.of(run)
	if known.Seq > row.Head {
		known = journal.Head{}
	}
	l, err := s.loadFrom(ctx, row, known)
	if errors.Is(err, journal.ErrUnmet) {
		l, err = s.loadFrom(ctx, row, journal.Head{})
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (s *Store) loadFrom(ctx context.Context, row flow.Row, known journal.Head) (*loading, error) {
	own, err := s.segment(ctx, row.N, row.Head)
	if err != nil {
		return nil, err
	}
	l := &loading{row: row, later: own.number > 0}
	l.history = flow.History{Segment: own.number, Blob: func(digest string) ([]byte, error) { return s.Blob(context.Background(), digest) }}
	if l.machine.Run, err = tipstaff.ParseID(row.ID); err != nil {
		return nil, err
	}
	if l.draft, err = readDraft(ctx, s.db, row.ID, row.N); err != nil {
		return nil, err
	}
	keys, err := s.signers(ctx, row.ID, l.draft)
	if err != nil {
		return nil, err
	}
	if l.later {
		if _, err := s.checked(ctx, row, keys, 1, min(opening, own.first-1), known); err != nil {
			return nil, err
		}
	}
	if l.part, err = partOf(ctx, s.db, row.ID, row.N, keys, own.first, known); err != nil {
		return nil, err
	}
	l.history.Records = make([]flow.Record, 0, row.Head-own.first+2)
	if err := l.readOn(ctx, s.db, math.MaxInt64); err != nil {
		return nil, err
	}
	if l.later {
		if err := s.addCancel(ctx, l, keys); err != nil {
			return nil, err
		}
	}
	if err := s.addBase(ctx, l); err != nil {
		return nil, err
	}
	return l, s.checkAnchors(ctx, l)
}

// addCancel puts a cancel that was asked for before the segment began after its
// first record: it still holds.
func (s *Store) addCancel(ctx context.Context, l *loading, keys tipstaff.RunKeys) error {
	seq, err := Number(ctx, s.db, `SELECT cancel FROM runs WHERE n = ?`, l.row.N)
	h := &l.history
	if err != nil || seq == 0 || len(h.Records) == 0 || seq > h.Records[0].Seq {
		return err
	}
	cancel, err := s.checked(ctx, l.row, keys, seq, seq, journal.Head{})
	if err != nil {
		return err
	}
	if kind := cancel[0].Kind; kind != string(tipstaff.KindRunCancelRequested) {
		return unsound(l.row.ID, seq, fmt.Errorf("it is taken for a cancel and is %s", kind))
	}
	h.Records = slices.Insert(h.Records, 1, cancel...)
	return nil
}

// addBase adds what a fork takes from its source.
func (s *Store) addBase(ctx context.Context, l *loading) error {
	fork := l.draft.ForkOf
	if fork != nil && (fork.Run != l.row.Base || fork.Seq != l.row.BaseSeq) {
		return fmt.Errorf("%w: run %s is stored as a fork of %q at %d, its draft says %q at %d", flow.ErrIntegrity, l.row.ID, l.row.Base, l.row.BaseSeq, fork.Run, fork.Seq)
	}
	base, segments, err := s.base(ctx, l.row, l.draft)
	l.history.Segment += segments
	if !l.later {
		l.history.Base = base // else the present segment no longer follows from it
	}
	return err
}

// readOn reads the records that have come since.
func (l *loading) readOn(ctx context.Context, q Querier, last int64) error {
	return readChecked(ctx, q, &l.part, l.row.ID, l.row.N, last, l.add)
}

// readChecked reads the records of a run from where part ends to last, page by page,
// and gives each that is sound. n is what other tables call the run.
func readChecked(ctx context.Context, q Querier, part *journal.Part, run string, n, last int64, each func(flow.Record) error) error {
	for {
		after := part.Head().Seq
		err := q.Query(ctx, func(r Row) error {
			rec, err := part.Add(r.Bytes(1), r.Text(3), r.Hash(2))
			switch {
			case err == journal.ErrUnmet:
				return err
			case err != nil:
				return unsound(run, r.Int(0), err)
			}
			return each(recordOf(rec))
		}, `SELECT seq, bytes, hash, kind FROM records WHERE run = ? AND seq BETWEEN ? AND ? ORDER BY seq`, n, after+1, min(after+page, last))
		if err != nil || part.Head().Seq < after+page {
			return err
		}
	}
}

// add takes the next record.
func (l *loading) add(rec flow.Record) error {
	if rec.Seq == l.row.FoldSeq && l.part.Head().Hash.String() != l.row.FoldHash {
		return unsound(l.row.ID, rec.Seq, errors.New("the run row remembers another hash of it"))
	}
	switch kind := tipstaff.Kind(rec.Kind); {
	case kind == tipstaff.KindRunContinued:
		l.moved = l.moved || len(l.history.Records) > 0
	case kind.Driving() || kind == tipstaff.KindIntentDraft:
		l.drive(&tipstaff.Event{Kind: kind, Run: l.machine.Run, Body: rec.Body})
	}
	l.history.Records = append(l.history.Records, rec)
	if rec.Seq == l.row.Head { // what comes after it may have moved the state on
		return l.compare(l.row.State)
	}
	return nil
}

// drive folds the lifecycle. In a later segment the first envelope that drives it may
// come from any state. What is not allowed leaves the state, and the comparison finds it.
func (l *loading) drive(e *tipstaff.Event) {
	err := l.machine.Apply(e)
	for _, from := range []tipstaff.State{tipstaff.Executing, tipstaff.Proposed, tipstaff.Drafting} {
		if err != nil && l.later && !l.driven {
			l.machine.State = from
			err = l.machine.Apply(e)
		}
	}
	l.driven = true
	if l.machine.State.Terminal() {
		l.history.Ended = flow.Status(l.machine.State)
	}
}

// compare refuses a state in the run's row that does not follow from its records.
func (l *loading) compare(state string) error {
	if has := tipstaff.State(state); has == l.machine.State || l.later && !l.driven && !has.Terminal() {
		return nil
	}
	return fmt.Errorf("%w: run %s is stored as %q, its envelopes lead to %q", flow.ErrIntegrity, l.row.ID, state, l.machine.State)
}

// readDraft reads what the first record of a run publishes, as far as it is an
// intent.draft. n is what other tables call the run.
func readDraft(ctx context.Context, q Querier, run string, n int64) (d tipstaff.IntentDraft, err error) {
	err = q.Query(ctx, func(r Row) error {
		rec, err := journal.Parse(r.Bytes(0))
		if err == nil && tipstaff.Kind(rec.Kind) == tipstaff.KindIntentDraft {
			err = json.Unmarshal(rec.Body, &d)
		}
		if err != nil {
			return unsound(run, 1, err)
		}
		return nil
	}, `SELECT bytes FROM records WHERE run = ? AND seq = 1`, n)
	return d, err
}

// signers are the keys that may sign in a run: those that it publishes, which must
// be known here; where it publishes none, this store's.
func (s *Store) signers(ctx context.Context, run string, d tipstaff.IntentDraft) (tipstaff.RunKeys, error) {
	own := s.Keys()
	if d.Keys == (tipstaff.RunKeys{}) || d.Keys == own {
		return own, nil
	}
	known, err := s.PublicKeys(ctx)
	if err == nil && !(slices.Contains(known, d.Keys.User) && slices.Contains(known, d.Keys.Executor)) {
		err = unsound(run, 1, fmt.Errorf("%w: it publishes keys that were never this store's", journal.ErrUnknownKey))
	}
	return d.Keys, err
}

// partOf checks the records of a run from first on.
func partOf(ctx context.Context, q Querier, run string, n int64, keys tipstaff.RunKeys, first int64, known journal.Head) (journal.Part, error) {
	after := journal.Head{Seq: first - 1}
	err := q.Query(ctx, func(r Row) error { after.Hash = r.Hash(0); return nil }, `SELECT hash FROM records WHERE run = ? AND seq = ?`, n, first-1)
	return journal.NewPart(run, after, known, keys.User, keys.Executor), err
}

// checked reads the records first to last of a run.
func (s *Store) checked(ctx context.Context, run flow.Row, keys tipstaff.RunKeys, first, last int64, known journal.Head) (records []flow.Record, err error) {
	part, err := partOf(ctx, s.db, run.ID, run.N, keys, first, known)
	if err == nil {
		err = readChecked(ctx, s.db, &part, run.ID, run.N, last, func(r flow.Record) error { records = append(records, r); return nil })
	}
	if got := part.Head().Seq; err == nil && got < last {
		err = lostTail(run.ID, got, last)
	}
	return records, err
}

// segment is where the history of a drive begins.
type segment struct {
	first  int64 // seq of its first record: run.continued, or the run's own first
	number int   // how many run.continued there are up to it
}

// segment finds the one that a record lies in.
func (s *Store) segment(ctx context.Context, n, seq int64) (g segment, err error) {
	g.first = 1
	err = s.db.Query(ctx, func(r Row) error {
		if g.number = int(r.Int(1)); g.number > 0 {
			g.first = r.Int(0)
		}
		return nil
	}, `SELECT max(seq), count(*) FROM records WHERE run = ? AND seq <= ? AND kind = 'run.continued'`, n, seq)
	return g, err
}

// base reads what a fork inherits: the segment of its source up to the record it
// was forked at and, if that is the source's first and the source a fork too,
// what that inherits. It also counts the run.continued of all of them.
//
// What a fork's signed draft says of its base fixes every byte of it. Signatures in
// the base are looked at only where there is no such draft, or not yet.
func (s *Store) base(ctx context.Context, fork flow.Row, draft tipstaff.IntentDraft) (records []flow.Record, segments int, err error) {
	for whole := false; fork.Base != ""; { // whole: a later part begins with run.continued
		source, err := s.Run(ctx, fork.Base)
		if err != nil {
			return nil, 0, fmt.Errorf("the source of run %s: %w", fork.ID, err)
		}
		g, err := s.segment(ctx, source.N, fork.BaseSeq)
		if err != nil {
			return nil, 0, err
		}
		segments += g.number
		if !whole {
			above, err := readDraft(ctx, s.db, source.ID, source.N)
			if err != nil {
				return nil, 0, err
			}
			keys, err := s.signers(ctx, source.ID, above)
			if err != nil {
				return nil, 0, err
			}
			covered := journal.Head{}
			if draft.ForkOf != nil {
				covered = journal.Head{Seq: draft.ForkOf.Seq, Hash: draft.ForkOf.Hash}
			}
			part, err := s.checked(ctx, source, keys, g.first, fork.BaseSeq, covered)
			if errors.Is(err, journal.ErrUnmet) {
				err = unsound(source.ID, fork.BaseSeq, fmt.Errorf("run %s was forked from another journal", fork.ID))
			}
			if err != nil {
				return nil, 0, err
			}
			records, draft = append(part, records...), above
		}
		whole = whole || g.number > 0
		fork = source
	}
	return records, segments, nil
}

// heads remembers up to which record the signatures of runs are known to be good:
// this process has checked them or made them. The hash covers all before it, so a
// journal that no longer passes through it is checked anew.
type heads struct {
	mu    sync.Mutex
	known map[string]journal.Head
}

func (h *heads) of(run string) journal.Head {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[run]
}

func (h *heads) set(run string, head journal.Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known) >= cachedStates {
		h.known = map[string]journal.Head{}
	}
	h.known[run] = head
}

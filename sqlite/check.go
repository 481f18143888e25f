package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	draft   draftBody
	history flow.History
	part    journal.Part
	machine tipstaff.Machine // as the records have it
	later   bool             // it begins with a run.continued: earlier envelopes are not in it
	driven  bool             // an envelope in it drives the lifecycle
	moved   bool             // it has been continued since: what was loaded is no longer the segment
}

// draftBody is what the store reads of an intent.draft.
type draftBody struct {
	Keys Keys `json:"keys"`
	Fork *struct {
		Run  string       `json:"run"`
		Seq  int64        `json:"seq"`
		Hash journal.Hash `json:"hash"`
	} `json:"fork_of"`
}

// unsound says that what is stored of a run is not what was written.
func unsound(run string, seq int64, err error) error {
	return fmt.Errorf("%w: record %d of run %s: %w", flow.ErrIntegrity, seq, run, err)
}

// load reads and checks the present segment of a run.
func (s *Store) load(ctx context.Context, run string) (*loading, error) {
	row, err := s.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	if row.Head < row.FoldSeq {
		return nil, lostTail(run, row.Head, row.FoldSeq)
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

func lostTail(run string, head, had int64) error {
	return fmt.Errorf("%w: run %s ends at record %d, but had %d", flow.ErrIntegrity, run, head, had)
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
	if l.draft, err = s.readDraft(ctx, row); err != nil {
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
	if l.part, err = s.partOf(ctx, row, keys, own.first, known); err != nil {
		return nil, err
	}
	l.history.Records = make([]flow.Record, 0, row.Head-own.first+2)
	if err := s.readOn(ctx, l); err != nil {
		return nil, err
	}
	if err := s.addInherited(ctx, l, keys); err != nil {
		return nil, err
	}
	return l, s.checkAnchors(ctx, l)
}

// addInherited adds what does not stand in the segment itself: a cancel that was asked
// for before it began, and what a fork takes from its source.
func (s *Store) addInherited(ctx context.Context, l *loading, keys Keys) error {
	h := &l.history
	if l.later {
		if err := s.addCancel(ctx, l, keys); err != nil {
			return err
		}
	}
	fork := l.draft.Fork
	if fork != nil && (fork.Run != l.row.Base || fork.Seq != l.row.BaseSeq) {
		return fmt.Errorf("%w: run %s is stored as a fork of %q at %d, its draft says %q at %d", flow.ErrIntegrity, l.row.ID, l.row.Base, l.row.BaseSeq, fork.Run, fork.Seq)
	}
	base, segments, err := s.base(ctx, l.row, l.draft)
	h.Segment += segments
	if !l.later {
		h.Base = base // else the present segment no longer follows from it
	}
	return err
}

// readOn reads the records that have come since.
func (s *Store) readOn(ctx context.Context, l *loading) error {
	for {
		before := l.part.Head().Seq
		err := s.read(ctx, func(c *conn) error { return l.readPage(ctx, c) })
		if err != nil || l.part.Head().Seq < before+page {
			return err
		}
	}
}

func (l *loading) readPage(ctx context.Context, c *conn) error {
	after := l.part.Head().Seq
	return c.query(ctx, func(r row) error { return l.add(r) }, selectChecked, l.row.N, after+1, after+page)
}

const selectChecked = `SELECT seq, bytes, hash, kind FROM records WHERE run = ? AND seq BETWEEN ? AND ? ORDER BY seq`

// add takes the next record, if it is sound.
func (l *loading) add(r row) error {
	rec, err := addTo(&l.part, l.row.ID, r)
	if err != nil {
		return err
	}
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

// addTo checks a row of selectChecked.
func addTo(p *journal.Part, run string, r row) (flow.Record, error) {
	var hash journal.Hash
	copy(hash[:], r.bytes(2))
	rec, err := p.Add(r.bytes(1), r.text(3), hash)
	switch {
	case err == journal.ErrUnmet:
		return flow.Record{}, err
	case err != nil:
		return flow.Record{}, unsound(run, r.int(0), err)
	}
	return recordOf(rec), nil
}

// readDraft reads what the first record of a run publishes, as far as it is an
// intent.draft.
func (s *Store) readDraft(ctx context.Context, run flow.Row) (d draftBody, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(r row) error {
			rec, err := journal.Parse(r.bytes(0))
			if err == nil && tipstaff.Kind(rec.Kind) == tipstaff.KindIntentDraft {
				err = json.Unmarshal(rec.Body, &d)
			}
			if err != nil {
				return unsound(run.ID, 1, err)
			}
			return nil
		}, `SELECT bytes FROM records WHERE run = ? AND seq = 1`, run.N)
	})
	return d, err
}

// signers are the keys that may sign in a run: those that it publishes, which must
// be known here; where it publishes none, this store's.
func (s *Store) signers(ctx context.Context, run string, d draftBody) (Keys, error) {
	own := s.Keys()
	if d.Keys == (Keys{}) || d.Keys == own {
		return own, nil
	}
	known, err := s.PublicKeys(ctx)
	if err == nil && !(slices.Contains(known, d.Keys.User) && slices.Contains(known, d.Keys.Executor)) {
		err = unsound(run, 1, fmt.Errorf("%w: it publishes keys that were never this store's", journal.ErrUnknownKey))
	}
	return d.Keys, err
}

// partOf checks the records of a run from first on.
func (s *Store) partOf(ctx context.Context, run flow.Row, keys Keys, first int64, known journal.Head) (journal.Part, error) {
	after := journal.Head{Seq: first - 1}
	err := s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(r row) error { copy(after.Hash[:], r.bytes(0)); return nil },
			`SELECT hash FROM records WHERE run = ? AND seq = ?`, run.N, first-1)
	})
	return journal.NewPart(run.ID, after, known, keys.User, keys.Executor), err
}

// checked reads the records first to last of a run.
func (s *Store) checked(ctx context.Context, run flow.Row, keys Keys, first, last int64, known journal.Head) (*part, error) {
	p := &part{}
	var err error
	if p.Part, err = s.partOf(ctx, run, keys, first, known); err != nil {
		return nil, err
	}
	for at := first; at <= last; at += page {
		err := s.read(ctx, func(c *conn) error {
			return c.query(ctx, func(r row) error {
				rec, err := addTo(&p.Part, run.ID, r)
				p.records = append(p.records, rec)
				return err
			}, selectChecked, run.N, at, min(at+page-1, last))
		})
		if err != nil {
			return nil, err
		}
	}
	if got := p.Head().Seq; got < last {
		return nil, lostTail(run.ID, got, last)
	}
	return p, nil
}

// part is a piece of a journal that was checked.
type part struct {
	journal.Part
	records []flow.Record
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

func (h *heads) set(run string, seq int64, hash journal.Hash) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known) >= cachedStates {
		h.known = map[string]journal.Head{}
	}
	h.known[run] = journal.Head{Seq: seq, Hash: hash}
}

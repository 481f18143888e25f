package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func readSessions(ctx context.Context, q Querier, where string, args ...any) (all []tipstaff.WorkerSession, err error) {
	err = q.Query(ctx, func(r Row) error {
		var w tipstaff.WorkerSession
		if err := json.Unmarshal(r.Bytes(1), &w); err != nil {
			return fmt.Errorf("%w: the stored session %s: %w", ErrDamaged, r.Text(0), err)
		}
		all = append(all, w)
		return nil
	}, `SELECT id, doc FROM worker_sessions WHERE `+where, args...)
	return all, err
}

func readSession(ctx context.Context, q Querier, id string) (tipstaff.WorkerSession, error) {
	all, err := readSessions(ctx, q, `id = ?`, id)
	if err == nil && len(all) == 0 {
		err = tipstaff.Errorf(tipstaff.SessionUnknown, "there is no session %s of a worker", tipstaff.Printable(id)).
			WithCommand("`tipstaff sessions --kind worker` shows those there are")
	}
	if err != nil {
		return tipstaff.WorkerSession{}, err
	}
	return all[0], nil
}

// Session is one of a worker; session_unknown.
func (s *Store) Session(ctx context.Context, id string) (tipstaff.WorkerSession, error) {
	return readSession(ctx, s.db, id)
}

// FindSession is that of a run's path, which has the session's number; session_unknown.
func (s *Store) FindSession(ctx context.Context, run, path string) (tipstaff.WorkerSession, error) {
	all, err := readSessions(ctx, s.db, `run = ? AND path = ?`, run, path)
	if err == nil && len(all) == 0 {
		err = tipstaff.Errorf(tipstaff.SessionUnknown, "run %s has no session at %s", run, tipstaff.Printable(path))
	}
	if err != nil {
		return tipstaff.WorkerSession{}, err
	}
	return all[0], nil
}

// PutSession stores a session that is not there yet: one at a path of a run.
func (s *Store) PutSession(ctx context.Context, w tipstaff.WorkerSession) error {
	if _, err := tipstaff.ParseID(w.ID); err != nil {
		return err
	}
	return s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error {
		if err := t.alone("worker session " + w.Run + " " + w.Path); err != nil {
			return err
		}
		n, err := t.number(`SELECT count(*) FROM worker_sessions WHERE run = ? AND path = ?`, w.Run, w.Path)
		if err == nil && n == 0 {
			n, err = t.number(`SELECT count(*) FROM worker_sessions WHERE id = ?`, w.ID)
		}
		if err != nil {
			return err
		}
		if n > 0 {
			return tipstaff.Errorf(tipstaff.SessionConflict, "run %s has a session at %s already", w.Run, tipstaff.Printable(w.Path))
		}
		own := w
		own.CreatedAt, own.UpdatedAt = t.now, t.now
		return t.exec(`INSERT INTO worker_sessions (id, run, path, task, "user", state, updated, doc) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			own.ID, own.Run, own.Path, own.Task, own.User, string(own.State), t.now.UnixNano(), string(flow.JSON(own)))
	}})
}

// UpdateSession changes a session by f, which may be called again, in one transaction:
// whoever takes the lease in f is the only one. An error of f is returned as it is, and
// nothing is stored.
func (s *Store) UpdateSession(ctx context.Context, id string, f func(*tipstaff.WorkerSession) error) error {
	return s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error {
		if err := t.alone("worker session " + id); err != nil {
			return err
		}
		w, err := readSession(ctx, t.c, id)
		if err == nil {
			err = f(&w)
		}
		if err != nil {
			return err
		}
		return t.saveSession(w)
	}})
}

// saveSession stores what became of a session. Where it belongs does not change.
func (t *Tx) saveSession(w tipstaff.WorkerSession) error {
	w.UpdatedAt = t.now
	return t.exec(`UPDATE worker_sessions SET state = ?, updated = ?, doc = ? WHERE id = ?`, string(w.State), t.now.UnixNano(), string(flow.JSON(w)), w.ID)
}

// closeSessions closes those that can be gone on with.
func (t *Tx) closeSessions(where string, args ...any) error {
	open, err := readSessions(context.Background(), t.c, where+` AND state <> 'closed'`, args...)
	for _, w := range open {
		if w.State = tipstaff.SessionClosed; err == nil {
			err = t.saveSession(w)
		}
	}
	return err
}

// WorkerSessions are the newest first. user: only theirs; "": everybody's.
func (s *Store) WorkerSessions(ctx context.Context, q tipstaff.SessionQuery, user string) ([]tipstaff.WorkerSession, error) {
	where, args := "true", []any{}
	add := func(is bool, condition string, values ...any) {
		if is {
			where, args = where+" AND "+condition, append(args, values...)
		}
	}
	add(user != "", `"user" = ?`, user)
	add(q.Run != "", "run = ?", q.Run)
	add(q.Prefix != "", "id >= ? AND id < ?", q.Prefix, q.Prefix+"\x7f")
	add(!q.All, "state <> 'closed' AND state <> 'lost'")
	return readSessions(ctx, s.db, where+" ORDER BY updated DESC, id DESC", args...)
}

package store

import (
	"context"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Several servers may drive the runs of one store. Those that wait for their turn stand in
// the rows of runs; a server that has room takes one, and acquires it like any other.

// claimValid is how long a run that a server has taken from the queue is left to it: it
// acquires it at once, or has died.
const claimValid = 20 * time.Second

// maxStrays is how many runs are found at a time that nobody drives and somebody should.
const maxStrays = 200

// Lines are the users with runs that wait for a server on this machine, or on any: those of
// whom the fewest are driven first.
func (s *Store) Lines(ctx context.Context, host string) (users []string, err error) {
	err = s.db.Query(ctx, func(r Row) error { users = append(users, r.Text(0)); return nil },
		`SELECT line."user" FROM (SELECT "user", min(n) AS first FROM runs WHERE queued = 1 AND claimed < ? AND host IN ('', ?) GROUP BY "user") AS line
		LEFT JOIN (SELECT "user", count(*) AS driven FROM runs WHERE holder IS NOT NULL GROUP BY "user") AS busy ON busy."user" = line."user"
		ORDER BY coalesce(driven, 0), first`, s.unclaimed(s.opts.Now()), host)
	return users, err
}

// lineAtOnce is how many runs of a line are listed at a time.
const lineAtOnce = 1000

// Line are runs of a user's line that a server on this machine may drive, the oldest first,
// after one; nothing but N and ID is known of them. Fewer than there are may be given: then
// more come after the last.
func (s *Store) Line(ctx context.Context, host, user string, after int64) (line []flow.Row, err error) {
	err = s.db.Query(ctx, func(r Row) error { line = append(line, flow.Row{N: r.Int(0), ID: r.Text(1)}); return nil },
		`SELECT n, id FROM runs WHERE queued = 1 AND "user" = ? AND n > ? AND claimed < ? AND host IN ('', ?) ORDER BY n LIMIT ?`,
		user, after, s.unclaimed(s.opts.Now()), host, int64(lineAtOnce))
	return line, err
}

// Claim takes the oldest run of a user's line that a server on this machine may drive, from one
// on; "": others have taken them all. Until it is acquired the claim is known by its time.
func (s *Store) Claim(ctx context.Context, host, user string, from int64) (run string, claim int64, err error) {
	next := `SELECT n, id FROM runs WHERE queued = 1 AND "user" = ? AND n >= ? AND claimed < ? AND host IN ('', ?) ORDER BY n LIMIT 1`
	if s.opts.Shared { // a row that another server is taking is passed over
		next += ` FOR UPDATE SKIP LOCKED`
	}
	err = s.db.Do(ctx, &Op{Apply: func(t *Tx) error {
		var n int64
		run, claim = "", t.now.UnixNano()
		err := t.query(func(r Row) error { n, run = r.Int(0), r.Text(1); return nil }, next, user, from, s.unclaimed(t.now), host)
		if err != nil || run == "" {
			return err
		}
		return t.exec(`UPDATE runs SET claimed = ? WHERE n = ?`, claim, n)
	}})
	return run, claim, err
}

// Unclaim leaves a run to others that was taken by a claim, unless that was too long ago and
// somebody else has taken it.
func (s *Store) Unclaim(ctx context.Context, run string, claim int64) error {
	return s.db.Do(ctx, &Op{Apply: func(t *Tx) error {
		return t.exec(`UPDATE runs SET claimed = 0 WHERE id = ? AND queued = 1 AND claimed = ?`, run, claim)
	}})
}

// unclaimed is when a run was last taken, at most, that may be taken now.
func (s *Store) unclaimed(now time.Time) int64 { return now.Add(-claimValid).UnixNano() }

// Holds are all leases, without what is known of their runs.
func (s *Store) Holds(ctx context.Context) (holds []flow.Hold, err error) {
	err = s.db.Query(ctx, func(r Row) error {
		owner, err := ReadOwner(r.Bytes(2))
		if err == nil {
			holds = append(holds, flow.Hold{Run: r.Text(0), Holder: r.Text(1), Owner: *owner, Heartbeat: r.Time(3)})
		}
		return err
	}, `SELECT id, holder, owner, heartbeat FROM runs WHERE holder IS NOT NULL`)
	return holds, err
}

// Due implements [flow.Reader].
func (s *Store) Due(ctx context.Context, kind string) (runs []string, err error) {
	err = s.db.Query(ctx, func(r Row) error { runs = append(runs, r.Text(0)); return nil },
		`SELECT id FROM runs WHERE wake_at <= ? AND holder IS NULL AND queued = 0 AND owned = 'run.parked' AND driver = ?
		AND state NOT IN ('completed', 'failed', 'cancelled') ORDER BY wake_at LIMIT ?`, s.opts.Now().UnixNano(), kind, int64(maxStrays))
	return runs, err
}

// Strays are runs that were made by a server of this kind which died before it had them driven.
func (s *Store) Strays(ctx context.Context, kind string) (runs []string, err error) {
	err = s.db.Query(ctx, func(r Row) error { runs = append(runs, r.Text(0)); return nil },
		`SELECT id FROM runs WHERE owned = '' AND holder IS NULL AND state NOT IN ('completed', 'failed', 'cancelled')
		AND state <> 'drafting' AND queued = 0 AND origin = ? AND base = '' AND launch IS NULL AND created < ? ORDER BY n LIMIT ?`,
		kind, s.unclaimed(s.opts.Now()), int64(maxStrays))
	return runs, err
}

// Unwoken are runs at rest of which a child has ended since: a version before this one, which
// did not note that with the child's end, has left them behind.
func (s *Store) Unwoken(ctx context.Context, kind string) (runs []string, err error) {
	err = s.db.Query(ctx, func(r Row) error { runs = append(runs, r.Text(0)); return nil },
		`SELECT DISTINCT p.id FROM runs c JOIN runs p ON p.id = c.parent WHERE c.ended IS NOT NULL AND c.parent <> '' AND c.base = ''
		AND p.owned = 'run.parked' AND p.holder IS NULL AND p.queued = 0 AND p.driver = ? AND p.updated < c.ended AND p.wake_at IS NULL
		AND p.state NOT IN ('completed', 'failed', 'cancelled') LIMIT ?`, kind, int64(maxStrays))
	return runs, err
}

// Waiting is how many runs wait in the queue, and since when the first of them does; zero:
// none does.
func (s *Store) Waiting(ctx context.Context) (n int, since time.Time, err error) {
	err = s.db.Query(ctx, func(r Row) error {
		n = int(r.Int(0))
		if n > 0 {
			since = r.Time(1)
		}
		return nil
	}, `SELECT count(*), coalesce(min(updated), 0) FROM runs WHERE queued = 1`)
	return n, since, err
}

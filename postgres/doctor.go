package postgres

import (
	"context"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// restore is what to do about what a database has lost.
const restore = "restore the database from a backup of it"

// Examine says what is wrong with the store at an address. It writes nothing; a database
// that cannot be read is something it finds, not an error. Of runs that should be driven,
// unscheduled says which ones the engine does not know; nil: servers have them driven.
func Examine(ctx context.Context, address string, o *Options, unscheduled func(context.Context, []string) ([]string, error)) ([]tipstaff.Diagnostic, error) {
	opts := *o
	opts.ReadOnly = true
	s, err := Open(ctx, address, &opts)
	x := &store.Examination{Place: "the store", Restore: restore, Damaged: func(error) bool { return false }}
	if err != nil {
		x.Error("unreadable", x.Place, "see that the server runs, and that the address and the rights of its user are right", "%v", err)
		return x.End(), ctx.Err()
	}
	x.Place, x.Alive, x.Now = s.Name(), s.db.opts.Alive, s.Now()
	if skew := time.Duration(s.db.skew.Load()); skew != 0 {
		x.Warn("clock", "this machine", "set its clock; until then times are those of the database", "its clock differs from that of the database by %v", skew.Round(time.Millisecond))
	}
	err = s.db.Read(ctx, func(q store.Querier) error {
		x.References(ctx, q)
		runs, _ := x.Runs(ctx, q)
		x.Journals(ctx, q, runs, s.db.keys)
		examineWaiting(ctx, x, q, unscheduled)
		examineBlobs(ctx, x, q)
		files.ExamineKeys(ctx, x, q, filepath.Join(opts.Folder, "keys"))
		x.Migrations(ctx, q, `SELECT count(*) FROM pg_class WHERE oid = to_regclass('migrated')`, "")
		return nil
	})
	x.Query(err)
	x.Failed(x.Place, s.Close())
	return x.End(), ctx.Err()
}

// examineBlobs compares what blobs hold with what is said of them. Data without a row is no
// fault: whoever stored it may be about to name it. Objects in a bucket are not read.
func examineBlobs(ctx context.Context, x *store.Examination, q store.Querier) {
	x.Query(q.Query(ctx, func(r store.Row) error {
		if r.Int(1) == 0 {
			x.Error("blob_missing", "blob "+r.Text(0), restore, "the content of this blob is gone: runs that name it can be neither verified nor resumed")
		} else {
			x.Error("blob_damaged", "blob "+r.Text(0), restore, "its content has changed since it was stored")
		}
		return nil
	}, `SELECT b.digest, d.digest IS NOT NULL FROM blobs b LEFT JOIN blob_data d ON d.digest = decode(substr(b.digest, 8), 'hex')
		WHERE NOT EXISTS (SELECT 1 FROM blob_objects o WHERE o.digest = b.digest AND o.state = 'there') AND (d.digest IS NULL OR length(d.data) <> b.size OR sha256(d.data) <> d.digest) ORDER BY b.digest`))
}

// waitsFor is how long a run may wait for a server that is there.
const waitsFor = time.Minute

// examineWaiting looks for runs that nobody is going to drive: those that wait in the queue,
// and those whose timer has come, for long; and those that an engine has left.
func examineWaiting(ctx context.Context, x *store.Examination, q store.Querier, unscheduled func(context.Context, []string) ([]string, error)) {
	hosts, runs := map[string]string{}, []string{}
	before := x.Now.Add(-waitsFor).UnixNano()
	waits := `queued = 1 AND updated < ? OR owned = 'run.parked' AND wake_at < ? AND driver IN ('daemon', 'engine')`
	if unscheduled != nil {
		waits += ` OR owned = 'run.interrupted' AND driver = 'engine'`
	}
	x.Query(q.Query(ctx, func(r store.Row) error {
		runs = append(runs, r.Text(0))
		hosts[r.Text(0)] = r.Text(1)
		return nil
	}, `SELECT id, host FROM runs WHERE holder IS NULL AND state NOT IN ('completed', 'failed', 'cancelled') AND (`+waits+`) ORDER BY n`, before, before))
	x.Query(q.Query(ctx, func(r store.Row) error {
		x.Warn("run_left", "run "+r.Text(0), "tipstaff show "+r.Text(0)+" says why; tipstaff resume "+r.Text(0)+" has it go on", "a server left it interrupted more than a minute ago, and no server has taken it up")
		return nil
	}, `SELECT id FROM runs WHERE holder IS NULL AND queued = 0 AND owned = 'run.interrupted' AND driver = 'daemon' AND updated < ?
		AND state NOT IN ('completed', 'failed', 'cancelled') ORDER BY n`, before))
	why, remedy := "it has waited for a server for more than a minute", "see that servers run, and have places: tipstaff serve"
	if unscheduled != nil && len(runs) > 0 {
		lost, err := unscheduled(ctx, runs)
		x.Failed("the engine", err)
		runs, why = lost, "the engine is not going to have it driven"
	}
	for _, id := range runs {
		on := ""
		if hosts[id] != "" {
			on = " on " + hosts[id] + ", to which it is tied"
		}
		x.Warn("run_waits", "run "+id, remedy+on+"; or tipstaff resume "+id, "%s", why)
	}
}

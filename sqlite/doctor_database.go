package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// database looks into the database, and compares it with what lies beside it.
func (x *examination) database(ctx context.Context) {
	name := x.dir.database()
	files, err := os.ReadDir(x.dir.journal()) // before the runs: their folders follow them
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.failed(x.dir.journal(), err)
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if len(files) > 0 {
			x.error("database_missing", name, restore, "it is gone, and %s tells of runs that it held", x.dir.journal())
		}
		return
	}
	c, err := x.connect()
	if err != nil {
		x.failed(name, err)
		return
	}
	x.pages(ctx, c)
	x.references(ctx, c)
	x.runs(ctx, c, files)
	x.blobs(ctx, c)
	x.keys(ctx, c)
	x.failed(name, c.close())
}

// connect opens the database for reading. Where nobody has it open and the file
// holds everything, it is read alone: not even a lock is left behind.
func (x *examination) connect() (*conn, error) {
	list, err := loadSchema(embedded)
	if err != nil {
		return nil, err
	}
	mode := readOnly
	if _, err := os.Stat(x.dir.database() + "-shm"); errors.Is(err, fs.ErrNotExist) && noLog(x.dir) {
		mode = frozen
	}
	c, err := connect(x.dir.database(), mode)
	if err != nil {
		return nil, err
	}
	switch have, err := checkFormat(c, x.dir, list); {
	case errors.Is(err, errNewer):
		x.warn("format_newer", x.dir.database(), "use the newer program", "it has format %d, this program knows %d: it can be read, not written", have, len(list))
	case err != nil:
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// pages has SQLite check the structure of the file. What it finds is told once.
func (x *examination) pages(ctx context.Context, c *conn) {
	var faults []string
	err := c.Query(ctx, func(r store.Row) error {
		if text := r.Text(0); text != "ok" {
			faults = append(faults, strings.Join(strings.Fields(text), " "))
		}
		return nil
	}, `PRAGMA integrity_check(5)`)
	if len(faults) > 0 {
		x.error("database_damaged", x.dir.database(), restore, "SQLite finds: %s", strings.Join(faults, "; "))
		return
	}
	x.failed(x.dir.database(), err)
}

// references are the rows that name others which must be there.
func (x *examination) references(ctx context.Context, c *conn) {
	for _, check := range []struct{ query, what string }{
		{`SELECT DISTINCT run FROM records WHERE run NOT IN (SELECT n FROM runs)`, "records of run number %s are there, and the run is not"},
		{`SELECT id FROM runs WHERE head > 0 AND NOT EXISTS (SELECT 1 FROM records WHERE run = n AND seq = head)`, "the last record that run %s remembers is missing"},
		{`SELECT id FROM runs WHERE base <> '' AND base NOT IN (SELECT id FROM runs)`, "the run that %s was forked from is missing"},
		{`SELECT id FROM gates g WHERE NOT EXISTS (SELECT 1 FROM records WHERE run = g.run AND seq = g.opened)`, "the record that opened gate %s is missing"},
		{`SELECT DISTINCT digest FROM blob_refs r WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE digest = r.digest)`, "a run keeps the blob %s, which is not stored"},
	} {
		err := c.Query(ctx, func(r store.Row) error {
			x.error("reference", x.dir.database(), "tipstaff verify RUN says what it means for a run; "+restore, check.what, fmt.Sprint(r[0]))
			return nil
		}, check.query)
		x.query(err)
	}
}

// query tells of one that failed, unless the damage is known by now.
func (x *examination) query(err error) {
	if faultOf(err) != damaged || x.count["database_damaged"] == 0 {
		x.failed(x.dir.database(), err)
	}
}

// examined is what is looked at of a run.
type examined struct {
	n         int64
	id, state string
	owner     *flow.Owner // nil: nobody drives it
	alive     bool
}

// runs looks at owners, times, keys and envelope files. folders are those under
// journal/.
func (x *examination) runs(ctx context.Context, c *conn, folders []fs.DirEntry) {
	known := map[string]bool{}
	var runs []examined
	err := c.Query(ctx, func(r store.Row) error {
		run := examined{n: r.Int(0), id: r.Text(1), state: r.Text(2)}
		if process := r.Bytes(3); len(process) > 0 {
			run.owner, _ = store.ReadOwner(process) // one that cannot be read counts as dead
			run.alive = run.owner != nil && x.opts.Alive(*run.owner, r.Time(4))
			x.clock("run "+run.id, "had a sign of life", r.Time(4))
			if !run.alive {
				x.warn("owner_gone", "run "+run.id, "tipstaff resume "+run.id, "the process that drove it has gone, and nobody has noticed")
			}
		}
		x.clock("run "+run.id, "was changed", r.Time(5))
		known[run.id] = true
		runs = append(runs, run)
		return nil
	}, `SELECT n, id, state, owner, heartbeat, updated FROM runs ORDER BY n`)
	x.query(err)
	for _, run := range runs {
		if !run.alive { // else its files are being written
			x.envelopes(ctx, c, run)
		}
	}
	for _, d := range folders {
		if err == nil && d.IsDir() && !known[d.Name()] {
			x.error("run_unknown", filepath.Join(x.dir.journal(), d.Name()), "if another database was here, "+restore+"; else move the folder away",
				"it holds envelopes of a run that the database does not know")
		}
	}
}

// envelopes compares the files of a run's envelopes with its records. What differs
// is looked at once more after a moment: somebody may have been writing.
func (x *examination) envelopes(ctx context.Context, c *conn, run examined) {
	dir := filepath.Join(x.dir.journal(), run.id)
	stored, missing, faults, err := compareFiles(ctx, c, run.n, dir)
	if (missing > 0 || len(faults) > 0) && !x.paused {
		x.paused = true
		time.Sleep(time.Second)
		stored, missing, faults, err = compareFiles(ctx, c, run.n, dir)
	}
	if err != nil {
		x.query(err)
		return
	}
	if missing > 0 {
		x.warn("projection_missing", dir, anyCommand, "%d of %d envelope files are missing", missing, len(stored))
	}
	for _, f := range faults {
		x.error("projection_differs", filepath.Join(dir, f.File), "tipstaff verify "+run.id+" says whether the store is sound; if so, remove the file, and "+anyCommand, "%s", f.Message)
	}
	if len(stored) > 0 && !tipstaff.State(run.state).Terminal() {
		x.signers(run, stored[0])
	}
}

// compareFiles compares the envelopes of a run with the files in a folder.
func compareFiles(ctx context.Context, c *conn, run int64, dir string) (stored [][]byte, missing int, faults []journal.Fault, err error) {
	err = c.Query(ctx, func(r store.Row) error {
		if journal.IsEnvelope(r.Text(0)) {
			stored = append(stored, r.Bytes(1))
		}
		return nil
	}, `SELECT kind, bytes FROM records WHERE run = ? ORDER BY seq`, run)
	if err != nil {
		return nil, 0, nil, err
	}
	faults, err = journal.VerifyFiles(dir, func(yield func([]byte, error) bool) {
		for _, envelope := range stored {
			if name, _, err := journal.EnvelopeFile(envelope); err == nil {
				if _, err := os.Lstat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
					missing++
				}
			}
			if !yield(envelope, nil) {
				return
			}
		}
	})
	return stored, missing, faults, err
}

// signers looks whether an unfinished run can still be signed for.
func (x *examination) signers(run examined, first []byte) {
	rec, err := journal.Parse(first)
	var draft struct {
		Keys store.Keys `json:"keys"`
	}
	if err != nil || json.Unmarshal(rec.Body, &draft) != nil {
		return // for verify to tell
	}
	now := loadPublic(x.dir.keys()).Public
	if now[journal.Executor] != draft.Keys.Executor || now[journal.User] != draft.Keys.User {
		x.warn("key_changed", "run "+run.id, "restore the keys from a copy made by tipstaff backup, or tipstaff fork "+run.id, "it was begun with other keys than those in %s: it can only be forked", x.dir.keys())
	}
}

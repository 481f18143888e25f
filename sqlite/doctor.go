package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// examination gathers what is wrong with a store.
type examination struct {
	dir    folder
	opts   Options
	now    time.Time
	found  []tipstaff.Diagnostic
	count  map[string]int // by code
	paused bool           // whoever was writing has had the time to end
}

// mostAlike is how many findings of one code are listed.
const mostAlike = 20

// Remedies that several findings share.
const (
	restore    = "move the folder .tipstaff away and put that of a copy made by tipstaff backup in its place"
	anyCommand = "tipstaff ls writes it again"
)

// Examine says what is wrong with the store in dir. It writes nothing; a database
// that cannot be read is something it finds, not an error.
func Examine(ctx context.Context, dir string, o *Options) ([]tipstaff.Diagnostic, error) {
	x := &examination{dir: folder(dir), opts: o.withDefaults(), count: map[string]int{}}
	x.now = x.opts.Now()
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // nothing was run yet
	case err != nil:
		x.failed(dir, err)
		return x.found, nil
	case !info.IsDir():
		x.error("not_a_folder", dir, "move it away", "it is where the store should be, and is no folder")
		return x.found, nil
	}
	x.permissions()
	x.place()
	x.leftovers()
	x.database(ctx)
	for _, code := range slices.Sorted(maps.Keys(x.count)) {
		if n := x.count[code]; n > mostAlike {
			x.found = append(x.found, tipstaff.Diagnostic{Severity: tipstaff.SeverityWarning, Code: code, Where: dir,
				Message: fmt.Sprintf("%d more of this kind are not listed", n-mostAlike), Remedy: "deal with those that are, then look again"})
		}
	}
	return x.found, ctx.Err()
}

func (x *examination) add(severity, code, where, remedy, format string, args ...any) {
	if x.count[code]++; x.count[code] <= mostAlike {
		x.found = append(x.found, tipstaff.Diagnostic{Severity: severity, Code: code, Where: where, Message: fmt.Sprintf(format, args...), Remedy: remedy})
	}
}

func (x *examination) error(code, where, remedy, format string, args ...any) {
	x.add(tipstaff.SeverityError, code, where, remedy, format, args...)
}

func (x *examination) warn(code, where, remedy, format string, args ...any) {
	x.add(tipstaff.SeverityWarning, code, where, remedy, format, args...)
}

// failed tells of a check that could not be made.
func (x *examination) failed(where string, err error) {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
	case faultOf(err) == damaged:
		x.error("database_damaged", where, restore, "it is not what was written: %v", err)
	default:
		x.error("unreadable", where, "give this user the right to read it, check the disk, or end the process that holds it", "it cannot be examined: %v", err)
	}
}

// permissions looks for what others on this machine may read or change.
func (x *examination) permissions() {
	check := func(report func(code, where, remedy, format string, args ...any), name string, most fs.FileMode, why string) {
		if have, err := files.ModeBeyond(name, most); err == nil && have != 0 {
			report("permissions", name, fmt.Sprintf("chmod %o %s", most, name), "its permissions are %04o: %s", have, why)
		}
	}
	check(x.warn, string(x.dir), 0o700, "others can see what runs did")
	if open, _ := files.ModeBeyond(string(x.dir), 0o766); open != 0 { // they may enter: then those of files count
		for _, suffix := range []string{"", "-wal", "-shm"} {
			check(x.warn, x.dir.database()+suffix, 0o600, "others can read every run")
		}
	}
	check(x.error, x.dir.keys(), 0o700, "others may have read the keys, which are refused")
	for _, name := range []string{journal.User, journal.Executor} {
		check(x.error, filepath.Join(x.dir.keys(), name+".key"), 0o600, "others may have read the key, which is refused; move it away to get a new one")
	}
}

// lowSpace is how much of the disk should be free: a few thousand steps.
const lowSpace = 64 << 20

// clockSlack is how far clocks may differ that agree.
const clockSlack = time.Minute

// place looks at the file system, and at its times.
func (x *examination) place() {
	if err := refuseNetwork(string(x.dir)); err != nil {
		x.error("network", string(x.dir), "use a workspace on a local disk", "%v", err)
	}
	if free, err := freeSpace(string(x.dir)); err == nil && free < lowSpace {
		x.warn("disk_space", string(x.dir), "make space: a run that finds none is interrupted", "%.1f MiB are left on its disk", float64(free)/(1<<20))
	}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(x.dir.database() + suffix); err == nil {
			x.clock(x.dir.database()+suffix, "was written", info.ModTime())
		}
	}
}

// clock looks for a time that has not come yet.
func (x *examination) clock(where, what string, at time.Time) {
	if ahead := at.Sub(x.now); ahead > clockSlack {
		x.warn("clock", where, "set the clock: expiries and leases go by it", "it %s at %s, which is %s ahead of the clock", what,
			at.UTC().Format(time.RFC3339), ahead.Round(time.Second))
	}
}

// leftovers looks for files that somebody began to write long ago.
func (x *examination) leftovers() {
	err := filepath.WalkDir(string(x.dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), ".tmp-") {
			return nil // what cannot be listed is told by who needs it
		}
		if info, err := d.Info(); err == nil && x.now.Sub(info.ModTime()) > store.BlobAge {
			x.warn("leftover", name, "rm "+name, "whoever began to write it was ended")
		}
		return nil
	})
	x.failed(string(x.dir), err)
}

// blobs compares the files of blobs with what the database says of them.
func (x *examination) blobs(ctx context.Context, c *conn) {
	lying := map[string]time.Time{} // when each was written; listed before the rows are, which follow the files
	err := filepath.WalkDir(x.dir.blobs(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name()[0] == '.' {
			return err
		}
		if info, err := d.Info(); err == nil {
			lying[name] = info.ModTime()
		}
		return nil
	})
	if !errors.Is(err, fs.ErrNotExist) {
		x.failed(x.dir.blobs(), err)
	}
	err = c.Query(ctx, func(r store.Row) error {
		h, err := journal.ParseHash(r.Text(0))
		if err != nil {
			x.error("blob_damaged", x.dir.database(), restore, "it names a blob %q: %v", r.Text(0), err)
			return ctx.Err()
		}
		delete(lying, x.dir.blob(h))
		x.blob(x.dir.blob(h), h, r.Int(1))
		return ctx.Err()
	}, `SELECT digest, size FROM blobs ORDER BY digest`)
	x.query(err)
	for _, name := range slices.Sorted(maps.Keys(lying)) {
		if err == nil && x.now.Sub(lying[name]) > store.BlobAge {
			x.warn("blob_orphan", name, "rm "+name, "no record names it, and the database does not know it")
		}
	}
}

// blob checks one file.
func (x *examination) blob(name string, want journal.Hash, size int64) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		x.error("blob_missing", name, restore, "its file is gone: runs that name it can neither be verified nor resumed")
		return
	}
	if err != nil {
		x.failed(name, err)
		return
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	switch {
	case err != nil:
		x.failed(name, err)
	case n != size || journal.Hash(sum.Sum(nil)) != want:
		x.error("blob_damaged", name, restore, "its content is not what was stored")
	}
}

// keys compares the files of keys with each other and with the keys that the
// database knows: those that ever signed here.
func (x *examination) keys(ctx context.Context, c *conn) {
	known := map[journal.PublicKey]bool{}
	made := map[string]bool{}
	err := c.Query(ctx, func(r store.Row) error {
		made[r.Text(0)] = true
		if b := r.Bytes(1); len(b) == len(journal.PublicKey{}) {
			known[journal.PublicKey(b)] = true
		}
		return nil
	}, `SELECT name, public FROM keys`)
	if err != nil {
		x.query(err)
		return
	}
	for _, name := range []string{journal.User, journal.Executor} {
		if made[name] {
			x.key(filepath.Join(x.dir.keys(), name), known)
		}
	}
}

// key looks at one pair.
func (x *examination) key(base string, known map[journal.PublicKey]bool) {
	private, err := files.ReadPrivate(base + ".key")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.error("key_missing", base+".key", "restore it from a copy made by tipstaff backup; else the next command makes a new one, and unfinished runs can only be forked", "the private key is gone")
		return
	case err != nil:
		x.error("key_unusable", base+".key", "restore it from a copy made by tipstaff backup", "%v", err)
		return
	case !known[private.Public()]:
		x.error("key_foreign", base+".key", "restore the key from a copy made by tipstaff backup; the next command would trust this one", "it is not a key that was made here")
	}
	again := "rm -f " + base + ".pub: the next command makes it again"
	switch public, err := files.ReadPublic(base + ".pub"); {
	case errors.Is(err, fs.ErrNotExist):
		x.warn("key_missing", base+".pub", anyCommand, "the public key is gone")
	case err != nil:
		x.error("key_unusable", base+".pub", again, "%v", err)
	case public != private.Public():
		x.error("key_mismatch", base+".pub", again, "it does not belong to the private key beside it")
	}
}

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
	var draft tipstaff.IntentDraft
	if err != nil || json.Unmarshal(rec.Body, &draft) != nil {
		return // for verify to tell
	}
	now := files.LoadPublic(x.dir.keys()).Public
	if now[journal.Executor] != draft.Keys.Executor || now[journal.User] != draft.Keys.User {
		x.warn("key_changed", "run "+run.id, "restore the keys from a copy made by tipstaff backup, or tipstaff fork "+run.id, "it was begun with other keys than those in %s: it can only be forked", x.dir.keys())
	}
}

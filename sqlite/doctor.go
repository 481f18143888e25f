package sqlite

import (
	"context"
	"crypto/sha256"
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
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// examination gathers what is wrong with a folder.
type examination struct {
	store.Examination
	dir    folder
	opts   Options
	paused bool // whoever was writing has had the time to end
}

// Remedies that several findings share.
const (
	restore    = "move the folder .tipstaff away and put that of a copy made by tipstaff backup in its place"
	anyCommand = "tipstaff ls writes it again"
)

// Examine says what is wrong with the store in dir. It writes nothing; a database
// that cannot be read is something it finds, not an error.
func Examine(ctx context.Context, dir string, o *Options) ([]tipstaff.Diagnostic, error) {
	x := &examination{dir: folder(dir), opts: o.withDefaults()}
	x.Examination = store.Examination{Place: x.dir.database(), Restore: restore, Alive: x.opts.Alive, Now: x.opts.Now(), Damaged: func(err error) bool { return faultOf(err) == damaged }}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // nothing was run yet
	case err != nil:
		x.Failed(dir, err)
		return x.Found, nil
	case !info.IsDir():
		x.Error("not_a_folder", dir, "move the file away", "a file is where the folder of the store should be")
		return x.Found, nil
	}
	x.permissions()
	x.place()
	x.leftovers()
	x.database(ctx)
	return x.End(), ctx.Err()
}

// permissions looks for what others on this machine may read or change.
func (x *examination) permissions() {
	check := func(report func(code, where, remedy, format string, args ...any), name string, most fs.FileMode, why string) {
		if have, err := files.ModeBeyond(name, most); err == nil && have != 0 {
			report("permissions", name, fmt.Sprintf("chmod %o %s", most, name), "its permissions are %04o: %s", have, why)
		}
	}
	check(x.Warn, string(x.dir), 0o700, "others can see what runs did")
	if open, _ := files.ModeBeyond(string(x.dir), 0o766); open != 0 { // they may enter: then those of files count
		for _, suffix := range []string{"", "-wal", "-shm"} {
			check(x.Warn, x.dir.database()+suffix, 0o600, "others can read every run")
		}
	}
	check(x.Error, x.dir.keys(), 0o700, "others may have read the keys, which are refused")
	for _, name := range []string{journal.User, journal.Executor} {
		check(x.Error, filepath.Join(x.dir.keys(), name+".key"), 0o600, "others may have read the key, which is refused; move it away to get a new one")
	}
}

// lowSpace is how much of the disk should be free: a few thousand steps.
const lowSpace = 64 << 20

// place looks at the file system, and at its times.
func (x *examination) place() {
	if err := refuseNetwork(string(x.dir)); err != nil {
		x.Error("network", string(x.dir), "use a workspace on a local disk", "%v", err)
	}
	if free, err := freeSpace(string(x.dir)); err == nil && free < lowSpace {
		x.Warn("disk_space", string(x.dir), "free some space: a run that finds none is interrupted", "only %.1f MiB are free on its disk", float64(free)/(1<<20))
	}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(x.dir.database() + suffix); err == nil {
			x.Clock(x.dir.database()+suffix, "was written", info.ModTime())
		}
	}
}

// leftovers looks for files that somebody began to write long ago.
func (x *examination) leftovers() {
	err := filepath.WalkDir(string(x.dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), ".tmp-") {
			return nil // what cannot be listed is told by who needs it
		}
		if info, err := d.Info(); err == nil && x.Now.Sub(info.ModTime()) > store.BlobAge {
			x.Warn("leftover", name, "rm "+name, "the process that was writing it ended before it was complete; nothing uses the file")
		}
		return nil
	})
	x.Failed(string(x.dir), err)
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
		x.Failed(x.dir.blobs(), err)
	}
	err = c.Query(ctx, func(r store.Row) error {
		h, err := journal.ParseHash(r.Text(0))
		if err != nil {
			x.Error("blob_damaged", x.dir.database(), restore, "its list of blobs has %q, which is not a digest: %v", r.Text(0), err)
			return ctx.Err()
		}
		delete(lying, x.dir.blob(h))
		x.blob(x.dir.blob(h), h, r.Int(1))
		return ctx.Err()
	}, `SELECT digest, size FROM blobs ORDER BY digest`)
	x.Query(err)
	for _, name := range slices.Sorted(maps.Keys(lying)) {
		if err == nil && x.Now.Sub(lying[name]) > store.BlobAge {
			x.Warn("blob_orphan", name, "rm "+name, "nothing in the database names this file")
		}
	}
}

// blob checks one file.
func (x *examination) blob(name string, want journal.Hash, size int64) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		x.Error("blob_missing", name, restore, "the file of this blob is gone: runs that name it can be neither verified nor resumed")
		return
	}
	if err != nil {
		x.Failed(name, err)
		return
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	switch {
	case err != nil:
		x.Failed(name, err)
	case n != size || journal.Hash(sum.Sum(nil)) != want:
		x.Error("blob_damaged", name, restore, "its content has changed since it was stored")
	}
}

// database looks into the database, and compares it with what lies beside it.
func (x *examination) database(ctx context.Context) {
	name := x.dir.database()
	folders, err := os.ReadDir(x.dir.journal()) // before the runs: their folders follow them
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.Failed(x.dir.journal(), err)
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if len(folders) > 0 {
			x.Error("database_missing", name, restore, "the database is gone, but %s has files of runs that were in it", x.dir.journal())
		}
		return
	}
	c, err := x.connect()
	if err != nil {
		x.Failed(name, err)
		return
	}
	x.pages(ctx, c)
	x.References(ctx, c)
	x.runs(ctx, c, folders)
	x.blobs(ctx, c)
	files.ExamineKeys(ctx, &x.Examination, c, x.dir.keys())
	x.Migrations(ctx, c, `SELECT count(*) FROM sqlite_master WHERE name = 'migrated'`, x.dir.backups())
	x.Failed(name, c.close())
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
	case errors.Is(err, store.ErrNewer):
		x.Warn("format_newer", x.dir.database(), "use that version of tipstaff", "a newer version has written it (format %d, this one knows %d): it can be read here, and not written", have, len(list))
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
		x.Error("database_damaged", x.dir.database(), restore, "SQLite finds: %s", strings.Join(faults, "; "))
		return
	}
	x.Failed(x.dir.database(), err)
}

// runs looks at owners, times, keys and envelope files. folders are those under
// journal/.
func (x *examination) runs(ctx context.Context, c *conn, folders []fs.DirEntry) {
	runs, all := x.Runs(ctx, c)
	known := map[string]bool{}
	for _, run := range runs {
		known[run.ID] = true
		if !run.Alive { // else its files are being written
			x.envelopes(ctx, c, run)
		}
	}
	for _, d := range folders {
		if all && d.IsDir() && !known[d.Name()] {
			x.Error("run_unknown", filepath.Join(x.dir.journal(), d.Name()), "if another database belongs here, "+restore+"; if not, move this folder away",
				"it has envelope files of a run that is not in the database")
		}
	}
}

// envelopes compares the files of a run's envelopes with its records. What differs
// is looked at once more after a moment: somebody may have been writing.
func (x *examination) envelopes(ctx context.Context, c *conn, run store.Examined) {
	dir := filepath.Join(x.dir.journal(), run.ID)
	found, err := compareFiles(ctx, c, run.N, dir)
	if (found.missing > 0 || len(found.faults) > 0) && !x.paused {
		x.paused = true
		time.Sleep(time.Second)
		found, err = compareFiles(ctx, c, run.N, dir)
	}
	if err != nil {
		x.Query(err)
		return
	}
	if found.missing > 0 {
		x.Warn("projection_missing", dir, anyCommand, "%d of %d envelope files are missing", found.missing, len(found.stored))
	}
	for _, f := range found.faults {
		name := filepath.Join(dir, f.File)
		if seq, _ := journal.ParseEnvelopeName(f.File); seq > found.last {
			x.Error("run_set_back", name, restore, "run %s ends at record %d: the database was set back, or its disk has lost what it had acknowledged", run.ID, found.last)
			continue
		}
		x.Error("projection_differs", name, "tipstaff verify "+run.ID+" says whether the store is sound; if so, remove the file, and "+anyCommand, "%s", f.Message)
	}
	if len(found.stored) > 0 {
		x.Signers(run, found.stored[0], files.LoadPublic(x.dir.keys()))
	}
}

// compared is what a run has of envelopes, and their files of them.
type compared struct {
	stored  [][]byte
	last    int64 // record of the run
	missing int   // files
	faults  []journal.Fault
}

// compareFiles compares the envelopes of a run with the files in a folder.
func compareFiles(ctx context.Context, c *conn, run int64, dir string) (found compared, err error) {
	err = c.Query(ctx, func(r store.Row) error {
		if found.last = r.Int(2); journal.IsEnvelope(r.Text(0)) {
			found.stored = append(found.stored, r.Bytes(1))
		}
		return nil
	}, `SELECT kind, bytes, seq FROM records WHERE run = ? ORDER BY seq`, run)
	if err != nil {
		return found, err
	}
	found.faults, err = journal.VerifyFiles(dir, func(yield func([]byte, error) bool) {
		for _, envelope := range found.stored {
			if name, _, err := journal.EnvelopeFile(envelope); err == nil {
				if _, err := os.Lstat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
					found.missing++
				}
			}
			if !yield(envelope, nil) {
				return
			}
		}
	})
	return found, err
}

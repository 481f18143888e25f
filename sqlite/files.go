package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// filer writes the files of envelopes and tasks after the commits that made them true. No step
// waits for it; programs call Flush before they exit.
type filer struct {
	db        *database
	queue     *store.Mailbox[fileJob]
	ended     chan struct{}
	errs      error            // since the last flush
	anchoring error            // why anchors are yet to be written; nil: none is
	retry     <-chan time.Time // when they are tried again
}

// fileJob is what is to be written after a commit, or somebody who waits for all that
// was queued before.
type fileJob struct {
	files    []store.Envelope
	tasks    []string
	launches []string
	anchors  bool
	flushed  chan error
}

func (f *filer) run() {
	defer close(f.ended)
	f.fail(f.db.restoreAll(context.Background()))
	f.fail(f.db.restoreTasks(context.Background()))
	f.fail(f.db.restoreLaunches(context.Background()))
	f.anchor(true)
	for {
		jobs, open := f.queue.Take(func(fileJob) bool { return true })
		f.writeTasks(jobs)
		for _, job := range jobs {
			f.perform(job)
		}
		if len(jobs) > 0 {
			continue
		}
		if !open {
			return
		}
		select {
		case <-f.queue.Wake:
		case <-f.retry:
			f.anchor(true)
		}
	}
}

// writeTasks writes the files of each task once, however often it has changed.
func (f *filer) writeTasks(jobs []fileJob) {
	written := map[string]bool{}
	for _, job := range jobs {
		for _, id := range job.tasks {
			if !written[id] {
				written[id] = true
				f.fail(f.db.writeTask(context.Background(), id))
			}
		}
	}
}

func (f *filer) perform(job fileJob) {
	folders := map[string]bool{}
	for _, file := range job.files {
		dir, err := f.db.dir.writeEnvelope(file)
		f.fail(err)
		folders[dir] = true
	}
	for dir := range folders {
		f.fail(files.SyncDir(dir))
	}
	for _, run := range job.launches {
		f.fail(f.db.writeLaunch(context.Background(), run))
	}
	if job.anchors {
		f.anchor(f.anchoring != nil)
	}
	if job.flushed != nil {
		job.flushed <- errors.Join(f.errs, f.anchoring)
		f.errs = nil
	}
}

func (f *filer) fail(err error) { f.errs = errors.Join(f.errs, explain(string(f.db.dir), err)) }

func (f *filer) close() error {
	f.queue.Close()
	<-f.ended
	return errors.Join(f.errs, f.anchoring)
}

// writeEnvelope links the file of an envelope into place, whose folder is yet to
// be synced. One that is there stays as it is: if it differs, that is for verify
// to report.
func (f folder) writeEnvelope(e store.Envelope) (dir string, err error) {
	dir = f.envelopes(e.Run)
	name, content, err := journal.EnvelopeFile(e.Bytes)
	if err != nil {
		return dir, fmt.Errorf("%w: envelope %d of run %s: %w", store.ErrDamaged, e.Seq, e.Run, err)
	}
	// One level at a time: a workspace that was moved away is not made again where
	// it was.
	for _, name := range []string{f.journal(), dir} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return dir, fmt.Errorf("%w: it is made again when the store is next opened", err)
		}
	}
	if err := files.Link(filepath.Join(dir, name), content, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return dir, fmt.Errorf("%w: it is written again when the store is next opened", err)
	}
	return dir, nil
}

// Flush returns when the files of all envelopes committed so far are written.
func (s *Store) Flush(ctx context.Context) error {
	if s.db.files == nil {
		return nil
	}
	flushed := make(chan error, 1)
	if !s.db.files.queue.Put(fileJob{flushed: flushed}) {
		return fmt.Errorf("%s: %w", s.db.dir, store.ErrClosed)
	}
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// envelopes is the folder with the files of a run's envelopes.
func (f folder) envelopes(run string) string { return filepath.Join(f.journal(), run) }

// restoreAll writes the files that are missing. It compares counts, so that a
// store of many runs opens quickly.
func (db *database) restoreAll(ctx context.Context) error {
	envelopes := map[string]int64{}
	err := db.Query(ctx, func(r store.Row) error { envelopes[r.Text(0)] = r.Int(1); return nil }, `SELECT id, envs FROM runs`)
	var errs []error
	for run, want := range envelopes {
		entries, err := os.ReadDir(db.dir.envelopes(run))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		if files, _ := envelopeFiles(entries); files < want {
			errs = append(errs, db.restore(ctx, run))
		}
	}
	return errors.Join(append(errs, err)...)
}

// envelopeFiles counts the files of envelopes in a run's folder. What somebody was about to
// write, and was killed, is none.
func envelopeFiles(entries []fs.DirEntry) (n int64, last store.KeptFile) {
	for _, e := range entries {
		if seq, kind := journal.ParseEnvelopeName(e.Name()); seq > 0 {
			n++
			if seq > last.Seq {
				last = store.KeptFile{Seq: seq, Kind: kind, Name: e.Name()}
			}
		}
	}
	return n, last
}

// lastFile is the last envelope of a run that has a file.
func (f folder) lastFile(run string) store.KeptFile {
	entries, _ := os.ReadDir(f.envelopes(run)) // what cannot be listed tells nothing
	_, last := envelopeFiles(entries)
	last.Name = filepath.Join(f.envelopes(run), last.Name)
	return last
}

// restore writes those files of a run's envelopes that are missing.
func (db *database) restore(ctx context.Context, run string) error {
	const page = 1000
	var errs []error
	for after, more := int64(0), true; more; {
		records, err := db.rules.Records(ctx, run, after, page)
		if err != nil {
			return err
		}
		for _, r := range records {
			after = r.Seq
			if journal.IsEnvelope(r.Kind) {
				_, err := db.dir.writeEnvelope(store.Envelope{Run: run, Seq: r.Seq, Bytes: r.Bytes})
				errs = append(errs, err)
			}
		}
		more = len(records) == page
	}
	if len(errs) > 0 {
		errs = append(errs, files.SyncDir(db.dir.envelopes(run)))
	}
	return errors.Join(errs...)
}

// anchorRetry is the time between two tries to write anchors.
const anchorRetry = 10 * time.Second

// anchor writes what is due, and has itself called again if it cannot. Lines that an
// earlier try may have written are looked for first.
func (f *filer) anchor(again bool) {
	f.anchoring, f.retry = f.anchors().Write(context.Background(), again), nil
	if f.anchoring != nil {
		f.retry = time.After(anchorRetry)
		f.anchoring = fmt.Errorf("%w: it is tried again, also by whoever next opens the store", f.anchoring)
	}
}

func (f *filer) anchors() files.Anchors {
	return files.Anchors{Rules: f.db.rules, File: f.db.opts.Anchor, Lock: f.db.dir.at("outbox.lock")}
}

func (f folder) blob(digest journal.Hash) string {
	name := digest.Hex()
	return f.at("blobs", name[:2], name[2:])
}

// PutBlob implements [store.DB]. It has the patience for a full disk that the writer
// has.
func (db *database) PutBlob(_ store.Conn, digest journal.Hash, data []byte) error {
	if db.writer == nil {
		return db.refusal
	}
	for start := time.Now(); ; time.Sleep(db.opts.FullPause) {
		err := db.dir.writeBlob(digest, data)
		switch fault := faultOf(err); {
		case fault == full && time.Since(start) < db.opts.FullLimit:
		case fault == ordinary:
			return fmt.Errorf("%w: %s: check the disk, and that nobody has moved the folder (%w)", flow.ErrStoreDown, db.dir, err)
		default:
			return explain(string(db.dir), err)
		}
	}
}

// writeBlob makes the file of a blob durable. Equal data has an equal name, so
// an existing file is the same.
func (f folder) writeBlob(digest journal.Hash, data []byte) error {
	name := f.blob(digest)
	if info, err := os.Stat(name); err == nil && info.Size() == int64(len(data)) {
		return nil
	}
	if err := os.Mkdir(filepath.Dir(name), 0o700); err == nil {
		if err := files.SyncDir(f.blobs()); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return files.Write(name, data, 0o600)
}

// GetBlob implements [store.DB].
func (db *database) GetBlob(digest journal.Hash) ([]byte, error) {
	data, err := os.ReadFile(db.dir.blob(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", flow.ErrNoBlob, digest)
	}
	return data, err
}

// RemoveBlob implements [store.DB]. If the transaction is rolled back, the row names a blob
// that is gone, and nobody else does; putting it makes it anew.
func (db *database) RemoveBlob(_ store.Conn, digest journal.Hash) error {
	if err := os.Remove(db.dir.blob(digest)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

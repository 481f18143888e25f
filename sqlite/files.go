package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff/journal"
)

// envelopeFile is an envelope that is also kept as a file, for people to read.
// Nothing is ever read back from one.
type envelopeFile struct {
	run   string
	seq   int64
	kind  string
	bytes []byte
}

// filer writes envelope files after the commits that made them true. No step
// waits for it; programs call Flush before they exit.
type filer struct {
	s         *Store
	queue     *mailbox[fileJob]
	ended     chan struct{}
	errs      error            // since the last flush
	anchoring error            // why anchors are yet to be written; nil: none is
	retry     <-chan time.Time // when they are tried again
}

// fileJob is a file to be written, anchors to be, or somebody who waits for those
// before.
type fileJob struct {
	file    envelopeFile
	anchors bool
	flushed chan error
}

func newFiler(s *Store) *filer {
	return &filer{s: s, queue: newMailbox[fileJob](), ended: make(chan struct{})}
}

func (f *filer) write(files []envelopeFile, anchors bool) {
	jobs := make([]fileJob, 0, len(files)+1)
	for _, file := range files {
		jobs = append(jobs, fileJob{file: file})
	}
	if anchors {
		jobs = append(jobs, fileJob{anchors: true})
	}
	if len(jobs) > 0 {
		f.queue.put(jobs...)
	}
}

func (f *filer) run() {
	defer close(f.ended)
	f.fail(f.s.restoreAll(context.Background()))
	f.anchor(true)
	for {
		jobs, open := f.queue.take(func(fileJob) bool { return true })
		f.perform(jobs)
		if len(jobs) > 0 {
			continue
		}
		if !open {
			return
		}
		select {
		case <-f.queue.wake:
		case <-f.retry:
			f.anchor(true)
		}
	}
}

// perform writes what is queued and syncs each folder once.
func (f *filer) perform(jobs []fileJob) {
	folders := map[string]bool{}
	sync := func() {
		for dir := range folders {
			f.fail(syncDir(dir))
		}
		clear(folders)
	}
	for _, job := range jobs {
		if job.flushed != nil {
			sync()
			job.flushed <- errors.Join(f.errs, f.anchoring)
			f.errs = nil
			continue
		}
		if job.anchors {
			f.anchor(f.anchoring != nil)
			continue
		}
		dir, err := f.s.writeEnvelope(job.file)
		f.fail(err)
		folders[dir] = true
	}
	sync()
}

func (f *filer) fail(err error) { f.errs = errors.Join(f.errs, explain(string(f.s.dir), err)) }

func (f *filer) close() error {
	f.queue.close()
	<-f.ended
	return errors.Join(f.errs, f.anchoring)
}

// writeEnvelope links the file of an envelope into place, whose folder is yet to
// be synced. One that is there stays as it is: if it differs, that is for verify
// to report.
func (s *Store) writeEnvelope(e envelopeFile) (dir string, err error) {
	dir = s.EnvelopeDir(e.run)
	name, content, err := journal.EnvelopeFile(e.bytes)
	if err != nil {
		return dir, fmt.Errorf("%w: envelope %d of run %s: %w", ErrDamaged, e.seq, e.run, err)
	}
	// One level at a time: a workspace that was moved away is not made again where
	// it was.
	for _, name := range []string{s.dir.journal(), dir} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return dir, fmt.Errorf("%w: it is made again when the store is next opened", err)
		}
	}
	if err := linkFile(filepath.Join(dir, name), content, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return dir, fmt.Errorf("%w: it is written again when the store is next opened", err)
	}
	return dir, nil
}

// Flush returns when the files of all envelopes committed so far are written.
func (s *Store) Flush(ctx context.Context) error {
	if s.files == nil {
		return nil
	}
	flushed := make(chan error, 1)
	if !s.files.queue.put(fileJob{flushed: flushed}) {
		return fmt.Errorf("%s: %w", s.dir, errClosed)
	}
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// EnvelopeDir is the folder with the files of a run's envelopes.
func (s *Store) EnvelopeDir(run string) string { return filepath.Join(s.dir.journal(), run) }

// restoreAll writes the files that are missing. It compares counts, so that a
// store of many runs opens quickly.
func (s *Store) restoreAll(ctx context.Context) error {
	envelopes := map[string]int64{}
	err := s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(r row) error { envelopes[r.text(0)] = r.int(1); return nil }, `SELECT id, envs FROM runs`)
	})
	var errs []error
	for run, want := range envelopes {
		entries, err := os.ReadDir(s.EnvelopeDir(run))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		if int64(len(entries)) < want {
			errs = append(errs, s.RestoreFiles(ctx, run))
		}
	}
	return errors.Join(append(errs, err)...)
}

// RestoreFiles writes those files of a run's envelopes that are missing.
func (s *Store) RestoreFiles(ctx context.Context, run string) error {
	var files []envelopeFile
	err := s.eachRecord(ctx, selectRecords, run, 0, 0, func(r row) error {
		if record, kind := stored(r), r.text(3); journal.IsEnvelope(kind) {
			files = append(files, envelopeFile{run, record.Seq, kind, record.Bytes})
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		return err
	}
	if err := os.MkdirAll(s.EnvelopeDir(run), 0o700); err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		_, err := s.writeEnvelope(file)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, syncDir(s.EnvelopeDir(run)))...)
}

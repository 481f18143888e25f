package journal

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
)

// Names in an export.
const (
	recordsFile = "records.ndjson"
	headFile    = "head.json"
	baseDir     = "base"
	blobsDir    = "blobs"
	keysDir     = "keys"
	userPub     = "user.pub"
	executorPub = "executor.pub"
)

// Source is where an export is read from.
type Source struct {
	// Run is the run to export.
	Run string
	// Records yields the bytes of a run's records in order: all of them, or with
	// upTo > 0 those up to that seq. It is also asked for the bases of forks.
	Records func(run string, upTo int64) iter.Seq2[[]byte, error]
	// Blob gives the bytes of a digest.
	Blob func(Hash) ([]byte, error)
}

// Export writes a run, the bases it was forked from, every blob that their
// records name, the keys that it publishes and its head to dir, which must not
// exist. The same journal gives the same bytes each time. It is written beside dir,
// to a folder whose name begins with a dot, and given its name when everything is
// on disk: whoever sees dir sees all of it, also if the process is killed. It is for its
// owner alone: payloads are whatever tools and models have said.
//
// Records are written as they are, also damaged ones: what is wrong with them is
// for [VerifyExport] to say. A blob that is missing, or is not what its digest
// says, fails the export.
func Export(dir string, src Source) error {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s exists: an export is written to a new folder only", dir)
	}
	partial := filepath.Join(filepath.Dir(dir), ".tipstaff-export-"+rand.Text())
	if err := os.Mkdir(partial, 0o700); err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err // the name was ours for a moment
		}
		return fmt.Errorf("%s cannot be made: %w", dir, err)
	}
	x := exporter{dir: partial, src: src, blobs: newBlobUses()}
	err := x.write()
	if err == nil {
		err = os.Rename(partial, dir) // fails if somebody has put something there meanwhile
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	return syncDir(filepath.Dir(dir))
}

type exporter struct {
	dir   string
	src   Source
	blobs *blobUses
}

func (x *exporter) write() error {
	log, err := x.writeLog(recordsFile, x.src.Run, 0)
	if err != nil {
		return err
	}
	if err := x.writeBases(log.draft.fork); err != nil {
		return err
	}
	if err := x.writeBlobs(); err != nil {
		return err
	}
	if err := x.writeKeys(log.draft); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(x.dir, headFile), log.headJSON()); err != nil {
		return err
	}
	return syncDir(x.dir)
}

// writeBases follows the forks down: a base may be a fork itself.
func (x *exporter) writeBases(fork *Fork) error {
	seen := map[string]bool{x.src.Run: true}
	for fork != nil && !seen[fork.Run] {
		seen[fork.Run] = true
		if err := os.MkdirAll(filepath.Join(x.dir, baseDir), 0o700); err != nil {
			return err
		}
		log, err := x.writeLog(baseFile(fork.Run), fork.Run, fork.Seq)
		if err != nil {
			return err
		}
		fork = log.draft.fork
	}
	if len(seen) == 1 {
		return nil
	}
	return syncDir(filepath.Join(x.dir, baseDir))
}

// baseFile is where a base's records stand. Names are with slashes, as faults
// show them on every system.
func baseFile(run string) string { return baseDir + "/" + run + ".ndjson" }

// writeLog writes one run's records and gathers what they name.
func (x *exporter) writeLog(name, run string, upTo int64) (*summary, error) {
	f, err := os.OpenFile(filepath.Join(x.dir, filepath.FromSlash(name)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, 1<<18)
	log := summary{run: run}
	err = x.copyRecords(w, &log, upTo)
	return &log, errors.Join(err, w.Flush(), f.Sync(), f.Close())
}

func (x *exporter) copyRecords(w *bufio.Writer, log *summary, upTo int64) error {
	for b, err := range x.src.Records(log.run, upTo) {
		if err != nil {
			return err
		}
		if bytes.IndexByte(b, '\n') >= 0 {
			return fmt.Errorf("%w: record %d of %s holds a line feed and cannot stand in a line", ErrMalformed, log.head.Seq+1, log.run)
		}
		x.blobs.add(log.add(b), "")
		w.Write(b) // a failed write shows at Flush
		w.WriteByte('\n')
	}
	return nil
}

func (x *exporter) writeBlobs() error {
	if len(x.blobs.uses) == 0 {
		return nil
	}
	dir := filepath.Join(x.dir, blobsDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	written := map[Hash]bool{}
	for _, use := range x.blobs.uses {
		blob, err := use.fetch(x.src.Blob)
		if err != nil {
			return fmt.Errorf("record %d: %w", use.seq, err)
		}
		if written[use.digest] {
			continue // named again, with or without its size
		}
		written[use.digest] = true
		if err := writeFile(filepath.Join(dir, use.digest.Hex()), blob); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

func (x *exporter) writeKeys(d draft) error {
	dir := filepath.Join(x.dir, keysDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, k := range d.keyFiles() {
		if err := writeFile(filepath.Join(dir, k.name), k.key.File()); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

type keyFile struct {
	name string
	key  PublicKey
}

// keyFiles are those that an export of the run has: none for a key that its
// draft does not publish.
func (d draft) keyFiles() []keyFile {
	files := []keyFile{{userPub, d.user}, {executorPub, d.executor}}
	return slices.DeleteFunc(files, func(f keyFile) bool { return f.key.IsZero() })
}

// summary is what an export says about a run's records beside them.
type summary struct {
	run       string
	head      Head
	envelopes int
	drafted   bool
	draft     draft
}

// add follows one record and returns it; one that cannot be parsed is empty.
func (s *summary) add(b []byte) Record {
	s.head.Hash = s.head.Hash.Next(b)
	s.head.Seq++
	r, err := Parse(b)
	if r.Seq != 0 {
		s.head.Seq = r.Seq
	}
	if err != nil {
		return Record{}
	}
	if IsEnvelope(r.Kind) {
		s.envelopes++
	}
	if r.Kind == draftKind && !s.drafted {
		s.drafted, s.draft = true, readDraft(r.Body)
	}
	return r
}

func (s *summary) headJSON() []byte { return headJSON(s.run, s.head, s.envelopes) }

// headJSON is the content of head.json: RFC 8785, no line feed.
func headJSON(run string, head Head, envelopes int) []byte {
	b := appendInt(nil, `{"envelopes":`, int64(envelopes))
	b = appendText(b, `,"hash":`, head.Hash.String())
	b = appendText(b, `,"run":`, run)
	b = appendInt(b, `,"seq":`, head.Seq)
	return append(b, '}')
}

func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

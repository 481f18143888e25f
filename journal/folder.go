package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Bounds on what is read of an export, whatever the sizes of its files.
const (
	MaxRecord = 64 << 20 // bytes of a line
	maxHead   = 4 << 10  // of head.json
)

// Folder is an export on disk. Opening one proves nothing about it; that is what
// [VerifyExport] is for.
type Folder struct {
	Dir       string
	Run       string
	Head      Head // as head.json says
	Envelopes int
	// User and Executor are the keys in the folder. They are not to be trusted:
	// trusted keys come from elsewhere.
	User, Executor PublicKey
}

// OpenExport reads an export's head.json and keys.
func OpenExport(dir string) (*Folder, error) {
	f := &Folder{Dir: dir}
	if err := f.readHead(); err != nil {
		return nil, err
	}
	for name, key := range map[string]*PublicKey{userPub: &f.User, executorPub: &f.Executor} {
		b, err := readRegular(dir, keysDir+"/"+name, len(key.File()))
		if err != nil {
			return nil, fmt.Errorf("not a whole export: %s/%s: %w", keysDir, name, err)
		}
		if *key, err = ParsePublicKey(strings.TrimSuffix(string(b), "\n")); err != nil { // which tells what stands there
			return nil, fmt.Errorf("not a whole export: %s/%s is not a public key", keysDir, name)
		}
	}
	return f, nil
}

func (f *Folder) readHead() error {
	b, err := readRegular(f.Dir, headFile, maxHead)
	if err != nil {
		return fmt.Errorf("not a whole export: %w", err)
	}
	var head struct {
		Envelopes int
		Hash      Hash
		Run       string
		Seq       int64
	}
	if json.Unmarshal(b, &head) != nil { // why would tell what stands there
		return fmt.Errorf("not a whole export: %s does not say where the records end", headFile)
	}
	f.Run, f.Envelopes = head.Run, head.Envelopes
	f.Head = Head{Seq: head.Seq, Hash: head.Hash, Of: headFile}
	return nil
}

// Records yields the bytes of the run's records, in order. They are valid until
// the next one is asked for.
func (f *Folder) Records() iter.Seq2[[]byte, error] {
	return lines(f.Dir, recordsFile)
}

// Base yields the records of a run that this one, or one of its bases, was
// forked from. Without such a base there are none.
func (f *Folder) Base(run string) iter.Seq2[[]byte, error] {
	if !isName(run) {
		return func(func([]byte, error) bool) {}
	}
	return lines(f.Dir, baseFile(run))
}

// Blob gives the bytes kept under a digest, if they are those of the digest.
func (f *Folder) Blob(digest Hash) ([]byte, error) {
	return reference{digest, anySize}.fetch(func(h Hash) ([]byte, error) { return readBlob(f.Dir, h) })
}

// Source makes the folder something to export from again.
func (f *Folder) Source() Source {
	return Source{Run: f.Run, Blob: f.Blob, Records: func(run string, upTo int64) iter.Seq2[[]byte, error] {
		if run == f.Run {
			return f.Records()
		}
		return f.Base(run)
	}}
}

// errNoLineFeed is yielded beside a last line that was cut off.
var errNoLineFeed = malformed("the last line has no line feed: it was cut off")

// errLongLine is yielded in place of a line over MaxRecord, and of all that follow.
var errLongLine = malformed("the line has more than %d bytes: neither it nor what follows was read", MaxRecord)

// lines yields the lines of a file of an export without their line feeds; a file
// that is missing has none. A last line without one comes with errNoLineFeed.
func lines(dir, name string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := openRegular(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		r := bufio.NewReaderSize(f, 1<<18)
		for {
			line, err := readLine(r)
			switch {
			case err == nil:
				if !yield(line, nil) {
					return
				}
			case err == io.EOF && len(line) == 0:
				return
			case err == io.EOF:
				yield(line, errNoLineFeed)
				return
			default:
				yield(nil, err)
				return
			}
		}
	}
}

// readLine reads a line of up to MaxRecord bytes, in place where it fits the buffer.
// One that is too long is never put together.
func readLine(r *bufio.Reader) ([]byte, error) {
	var parts [][]byte
	size := 0
	line, err := r.ReadSlice('\n')
	for ; err == bufio.ErrBufferFull && size <= MaxRecord; line, err = r.ReadSlice('\n') {
		parts = append(parts, bytes.Clone(line))
		size += len(line)
	}
	if err == nil {
		line = line[:len(line)-1]
	}
	if size+len(line) > MaxRecord {
		return nil, errLongLine
	}
	if parts != nil {
		line = slices.Concat(append(parts, line)...)
	}
	return line, err
}

// notRegular says why something of an export counts as a missing file.
type notRegular string

func (e notRegular) Error() string        { return string(e) }
func (e notRegular) Is(target error) bool { return target == fs.ErrNotExist }

// openRegular opens a file of the export in dir by its name with slashes. No link
// below dir is followed, and nothing but a regular file is opened: a pipe would
// block, a link may lead anywhere. Anything else counts as missing.
//
// Somebody may put other things there meanwhile: nothing outside of dir is opened even
// then, and a pipe does not block.
func openRegular(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var info fs.FileInfo
	for at := 0; at < len(name); at++ {
		next := strings.IndexByte(name[at:], '/')
		if next < 0 {
			next = len(name) - at
		}
		at += next
		switch info, err = root.Lstat(name[:at]); {
		case err != nil:
			return nil, err
		case at < len(name) && !info.IsDir():
			return nil, notRegular(filepath.Join(dir, name[:at]) + " is no folder: it is not followed")
		}
	}
	path := filepath.Join(dir, name)
	if !info.Mode().IsRegular() {
		return nil, notRegular(path + " is no regular file: it is not opened")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(fmt.Errorf("%s was replaced while it was opened", path), err, f.Close())
	}
	return f, nil
}

// readRegular reads at most one byte more than limit: enough to see that a file is
// longer than it can be.
func readRegular(dir, name string, limit int) ([]byte, error) {
	f, err := openRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit)+1))
}

func readBlob(dir string, digest Hash) ([]byte, error) {
	b, err := readRegular(dir, blobsDir+"/"+digest.Hex(), MaxPayload)
	if len(b) > MaxPayload {
		return nil, fmt.Errorf("%w: %s has more than %d bytes, as no blob has", ErrBlobMismatch, digest, MaxPayload)
	}
	return b, err
}

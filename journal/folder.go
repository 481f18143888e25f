package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
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
		keys, err := ReadPublicKeys(filepath.Join(dir, keysDir, name))
		if err != nil {
			return nil, fmt.Errorf("not a whole export: %w", err)
		}
		*key = keys[0]
	}
	return f, nil
}

func (f *Folder) readHead() error {
	b, err := os.ReadFile(filepath.Join(f.Dir, headFile))
	if err != nil {
		return fmt.Errorf("not a whole export: %w", err)
	}
	var head struct {
		Envelopes int
		Hash      Hash
		Run       string
		Seq       int64
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(f.Dir, headFile), err)
	}
	f.Run, f.Envelopes = head.Run, head.Envelopes
	f.Head = Head{Seq: head.Seq, Hash: head.Hash, Of: headFile}
	return nil
}

// Records yields the bytes of the run's records, in order. They are valid until
// the next one is asked for.
func (f *Folder) Records() iter.Seq2[[]byte, error] {
	return lines(filepath.Join(f.Dir, recordsFile))
}

// Base yields the records of a run that this one, or one of its bases, was
// forked from. Without such a base there are none.
func (f *Folder) Base(run string) iter.Seq2[[]byte, error] {
	if !isName(run) {
		return func(func([]byte, error) bool) {}
	}
	return lines(filepath.Join(f.Dir, filepath.FromSlash(baseFile(run))))
}

// Blob gives the bytes kept under a digest, if they are those of the digest.
func (f *Folder) Blob(digest Hash) ([]byte, error) {
	return reference{digest, anySize}.fetch(f.readBlob)
}

func (f *Folder) readBlob(digest Hash) ([]byte, error) {
	return os.ReadFile(filepath.Join(f.Dir, blobsDir, digest.Hex()))
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

// lines yields a file's lines without their line feeds; a file that is missing
// has none. A last line without one comes with errNoLineFeed.
func lines(path string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := os.Open(path)
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

// readLine reads a line of any length, in place where it fits the buffer.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		long := append([]byte(nil), line...)
		line, err = r.ReadBytes('\n')
		line = append(long, line...)
	}
	if err == nil {
		line = line[:len(line)-1]
	}
	return line, err
}

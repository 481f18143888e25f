package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff/filestamp"
	"github.com/tipstaff/tipstaff/flow"
)

// digests are those of files, which are read again only if size, times or inode of a file are
// others than they were. They are kept in the folder of what is kept for the user, where no
// tool writes.
type digests struct {
	file string // "": they are kept for this process alone

	mu    sync.Mutex
	known map[string]digested // by absolute path; nil: not read yet
}

// digested is a digest, and the file that it was made of.
type digested struct {
	filestamp.Stamp
	digest string
}

// newDigests are the digests of files of a workspace.
func newDigests(state, workspace string) *digests {
	if state == "" {
		return &digests{}
	}
	if real, err := filepath.EvalSymlinks(workspace); err == nil {
		workspace = real
	}
	sum := sha256.Sum256([]byte(workspace))
	return &digests{file: filepath.Join(state, "digests", hex.EncodeToString(sum[:16]))}
}

// mostDigests are kept in one file.
const mostDigests = 50_000

// of are the digests of files below dir, by their path there. That of a link is of the text
// of where it leads.
func (d *digests) of(dir string, files map[string]filestamp.Stamp) (map[string]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = readDigests(d.file)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	all, fresh := make(map[string]string, len(files)), false
	for path, file := range files {
		at := dir + "/" + path
		if was, known := d.known[at]; known && was.Stamp == file {
			all[path] = was.digest
			continue
		}
		settled := file.Settled()
		digest, err := digestOf(at, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all[path] = digest
		if settled && !strings.ContainsAny(at, "\n\r") {
			d.known[at], fresh = digested{file, digest}, true
		}
	}
	if fresh && d.file != "" {
		d.write()
	}
	return all, nil
}

func digestOf(path string, file filestamp.Stamp) (string, error) {
	if file.Mode.IsRegular() {
		digest, err := filestamp.Digest(context.Background(), path, file.Size)
		return fmt.Sprintf("sha256:%x", digest), err
	}
	target, err := os.Readlink(path)
	return flow.Digest([]byte("link\x00" + target)), err
}

const digestsHead = "tipstaff digests 2\n"

// readDigests reads what write has written. What cannot be read is made anew.
func readDigests(file string) map[string]digested {
	known := map[string]digested{}
	if file == "" {
		return known
	}
	data, err := os.ReadFile(file)
	rest, ok := bytes.CutPrefix(data, []byte(digestsHead))
	if err != nil || !ok {
		return known
	}
	for line := range strings.SplitSeq(string(rest), "\n") {
		f, mode, good := digested{}, int64(0), true
		for _, into := range []*int64{&mode, &f.Size, &f.Modified, &f.Changed, &f.Device, &f.Inode} {
			text, more, _ := strings.Cut(line, " ")
			n, err := strconv.ParseInt(text, 10, 64)
			*into, line, good = n, more, good && err == nil
		}
		digest, path, ok := strings.Cut(line, " ")
		if f.digest, f.Mode = digest, fs.FileMode(mode); ok && good {
			known[path] = f
		}
	}
	return known
}

// write keeps the digests for other processes. Where it fails they are made again.
func (d *digests) write() {
	if len(d.known) > mostDigests {
		clear(d.known)
	}
	text := []byte(digestsHead)
	for path, f := range d.known {
		for _, n := range []int64{int64(f.Mode), f.Size, f.Modified, f.Changed, f.Device, f.Inode} {
			text = append(strconv.AppendInt(text, n, 10), ' ')
		}
		text = append(append(append(append(text, f.digest...), ' '), path...), '\n')
	}
	dir := filepath.Dir(d.file)
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	t, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return
	}
	_, err = t.Write(text)
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), d.file)
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
}

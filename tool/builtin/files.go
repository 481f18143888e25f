package builtin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/flow"
)

const defaultMaxBytes = 1 << 20

// reason is an error without the path, which messages give as the caller wrote
// it.
func reason(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

// isText tells text from binary data: valid UTF-8 without NUL.
func isText(data []byte) bool {
	return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0
}

// openRegular opens a file to read it, without waiting, so that a pipe or device
// cannot hold the call. open is that of a root, or of the system.
func openRegular(open func(string, int, os.FileMode) (*os.File, error), name string) (*os.File, fs.FileInfo, error) {
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, reason(err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = reason(err)
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	default:
		return f, info, nil
	}
	f.Close()
	return nil, nil, err
}

// readAll reads a file of at most limit bytes.
func readAll(root *os.Root, name string, limit int64) ([]byte, error) {
	f, info, err := openRegular(root.OpenFile, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, reason(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it has %d bytes: max_bytes is %d", max(info.Size(), limit+1), limit)
	}
	return data, nil
}

var readFileTool = definition{
	name:        "read_file",
	title:       "Read a text file",
	description: "Returns the text of a UTF-8 file under one of the declared roots. Binary and larger files are an error.",
	input: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string","minLength":1,"description":"relative to the first root, or absolute inside one of the roots"},
		"max_bytes":{"type":"integer","minimum":1,"maximum":8388608,"default":1048576,"description":"a larger file is an error"}}}`,
	output: `{"type":"object","additionalProperties":false,"required":["path","text","size","sha256"],"properties":{
		"path":{"type":"string"},"text":{"type":"string"},"size":{"type":"integer"},"sha256":{"type":"string"}}}`,
	hints: annotations{ReadOnly: true},
}

type readFileArgs struct {
	Path     string `json:"path"`
	MaxBytes int64  `json:"max_bytes"`
}

type textFile struct {
	Path   string `json:"path"`
	Text   string `json:"text"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

func (s *Server) readFile(c call, in readFileArgs) (answer, error) {
	root, name, err := s.root(c, in.Path)
	if err != nil {
		return answer{}, err
	}
	if in.MaxBytes == 0 {
		in.MaxBytes = defaultMaxBytes
	}
	if err := s.readable(root, name); err != nil {
		return answer{}, fmt.Errorf("%s cannot be read: %w", in.Path, err)
	}
	data, err := readAll(root.Root, name, in.MaxBytes)
	if err != nil {
		return answer{}, fmt.Errorf("%s cannot be read: %w", in.Path, err)
	}
	if !isText(data) {
		return answer{}, fmt.Errorf("%s cannot be read: it is not UTF-8 text", in.Path)
	}
	text := string(data)
	return answer{value: textFile{in.Path, text, len(data), flow.Digest(data)}, text: text}, nil
}

// WriteFile is the name of the tool that writes files.
const WriteFile = "write_file"

var writeFileTool = definition{
	name:        WriteFile,
	title:       "Write a text file",
	description: "Writes a whole file under one of the declared roots, making its parent folders. The file is replaced at once or not at all.",
	input: `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
		"path":{"type":"string","minLength":1,"description":"relative to the first root, or absolute inside one of the roots"},
		"content":{"type":"string"},
		"if_sha256":{"type":"string","pattern":"^sha256:[0-9a-f]{64}$","description":"write only if the file now has this digest"}}}`,
	output: `{"type":"object","additionalProperties":false,"required":["path","size","sha256"],"properties":{
		"path":{"type":"string"},"size":{"type":"integer"},"sha256":{"type":"string"}}}`,
	hints: annotations{Idempotent: true, Destructive: true},
}

type writeFileArgs struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	IfSHA256 string `json:"if_sha256"`
}

type writtenFile struct {
	Path   string `json:"path"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

func (s *Server) writeFile(c call, in writeFileArgs) (answer, error) {
	root, name, err := s.root(c, in.Path)
	if err != nil {
		return answer{}, err
	}
	if err := s.writable(root, name); err != nil {
		return answer{}, fmt.Errorf("%s was not written: %w", in.Path, err)
	}
	content := []byte(in.Content)
	done := writtenFile{in.Path, len(content), flow.Digest(content)}
	write := true
	if in.IfSHA256 != "" {
		if write, err = changed(c.ctx, root.Root, name, in.IfSHA256, done.SHA256); err != nil {
			return answer{}, fmt.Errorf("%s was not written: %w", in.Path, err)
		}
	}
	if write {
		if err := replace(root.Root, name, content); err != nil {
			return answer{}, fmt.Errorf("%s cannot be written: %w", in.Path, reason(err))
		}
	}
	return answer{value: done, text: fmt.Sprintf("wrote %d bytes to %s", done.Size, done.Path)}, nil
}

// maxCompared is the largest file that if_sha256 is compared with.
const maxCompared = 64 << 20

// changed compares the file with what the caller expects. One that already has
// the new content needs no writing: the call may be the repetition of one whose
// answer was lost.
func changed(ctx context.Context, root *os.Root, name, expected, now string) (bool, error) {
	found, err := digestFile(ctx, root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("it does not exist, and if_sha256 is %s", expected)
	case err != nil:
		return false, err
	case found == now:
		return false, nil
	case found == expected:
		return true, nil
	}
	return false, fmt.Errorf("it has %s, and if_sha256 is %s", found, expected)
}

// digestFile reads a file in pieces, until ctx ends.
func digestFile(ctx context.Context, root *os.Root, name string) (string, error) {
	f, info, err := openRegular(root.OpenFile, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info.Size() > maxCompared {
		return "", fmt.Errorf("it has %d bytes, and if_sha256 is compared with files of at most %d MiB: leave it out", info.Size(), maxCompared>>20)
	}
	h := sha256.New()
	for left := int64(maxCompared); ; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := io.CopyN(h, f, min(left, 1<<20))
		switch left -= n; {
		case errors.Is(err, io.EOF):
			return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", reason(err)
		case left == 0:
			return "", errors.New("it grows while it is read")
		}
	}
}

// replace writes a temporary file beside name and renames it over it.
func replace(root *os.Root, name string, content []byte) error {
	dir := filepath.Dir(name)
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	switch info, err := root.Lstat(name); {
	case err == nil && info.IsDir():
		return errors.New("it is a folder")
	case err == nil && info.Mode().IsRegular():
		mode = info.Mode().Perm()
	}
	temporary := filepath.Join(dir, ".tipstaff-"+rand.Text())
	if err := CreateFile(root, temporary, content, mode); err != nil {
		_ = root.Remove(temporary)
		return err
	}
	if err := root.Rename(temporary, name); err != nil {
		_ = root.Remove(temporary)
		return err
	}
	return nil
}

// CreateFile makes a new file, durably: one that is there already, of whatever kind, is
// an error.
func CreateFile(root *os.Root, name string, content []byte, mode os.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

const maxEntries = 10_000

var listDirTool = definition{
	name:        "list_dir",
	title:       "List a folder",
	description: "Lists what lies in a folder under one of the declared roots, sorted, at most 10,000 entries. Symbolic links are listed, not followed.",
	input: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string","minLength":1,"description":"relative to the first root, or absolute inside one of the roots"},
		"depth":{"type":"integer","minimum":1,"maximum":32,"default":1,"description":"1 lists the folder alone"}}}`,
	output: `{"type":"object","additionalProperties":false,"required":["path","entries","truncated"],"properties":{
		"path":{"type":"string"},
		"truncated":{"type":"boolean","description":"there are more entries than are listed"},
		"entries":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["path","type"],"properties":{
			"path":{"type":"string","description":"relative to the folder"},
			"type":{"enum":["file","dir","symlink","other"]},
			"size":{"type":"integer","description":"of a file, in bytes"}}}}}}`,
	hints: annotations{ReadOnly: true},
}

type listDirArgs struct {
	Path  string `json:"path"`
	Depth int    `json:"depth"`
}

type listing struct {
	Path      string  `json:"path"`
	Entries   []entry `json:"entries"`
	Truncated bool    `json:"truncated"`
}

type entry struct {
	Path string `json:"path"`
	Type string `json:"type"`
	Size *int64 `json:"size,omitempty"`
}

func (s *Server) listDir(c call, in listDirArgs) (answer, error) {
	root, name, err := s.root(c, in.Path)
	if err != nil {
		return answer{}, err
	}
	if err := s.readable(root, name); err != nil {
		return answer{}, fmt.Errorf("%s cannot be listed: %w", in.Path, err)
	}
	l := &listing{Path: in.Path, Entries: []entry{}}
	if err := l.walk(c, root.Root, name, "", max(in.Depth, 1)); err != nil {
		return answer{}, fmt.Errorf("%s cannot be listed: %w", in.Path, reason(err))
	}
	var text strings.Builder
	for _, e := range l.Entries {
		text.WriteString(e.Path)
		if e.Type == "dir" {
			text.WriteByte('/')
		}
		text.WriteByte('\n')
	}
	return answer{value: l, text: text.String()}, nil
}

// walk lists a folder, each of its folders right after its own entry. name is
// within the root, prefix what entries are called by.
func (l *listing) walk(c call, root *os.Root, name, prefix string, depth int) error {
	items, err := readDir(root, name)
	if err != nil {
		return err
	}
	for _, item := range items {
		if strings.EqualFold(item.Name(), ownFolder) {
			continue
		}
		if len(l.Entries) == maxEntries {
			l.Truncated = true
			return nil
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		e := describe(item, path.Join(prefix, item.Name()))
		l.Entries = append(l.Entries, e)
		if e.Type != "dir" || depth == 1 {
			continue
		}
		err := l.walk(c, root, path.Join(name, item.Name()), e.Path, depth-1)
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// readDir opens nothing but a folder: a pipe would be waited for.
func readDir(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	items, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(items, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return items, nil
}

func describe(item fs.DirEntry, name string) entry {
	e := entry{Path: strings.ToValidUTF8(name, "\uFFFD")}
	switch mode := item.Type(); {
	case mode.IsDir():
		e.Type = "dir"
	case mode&fs.ModeSymlink != 0:
		e.Type = "symlink"
	case mode.IsRegular():
		e.Type = "file"
		if info, err := item.Info(); err == nil {
			size := info.Size()
			e.Size = &size
		}
	default:
		e.Type = "other"
	}
	return e
}

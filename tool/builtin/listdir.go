package builtin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

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
	if err := s.protect(root, name, false); err != nil {
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

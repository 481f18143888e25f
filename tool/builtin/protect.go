package builtin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Names that decide about runs wherever they stand. A run that could read the keys
// in .tipstaff could sign in its user's name; one that could write a manifest or a
// lock could allow itself anything; and git runs what .git/config and hooks say.
const (
	ownFolder = ".tipstaff"
	gitFolder = ".git"
)

var boundBy = []string{"tipstaff.yaml", "tipstaff.lock"}

var (
	errOwnFolder = errors.New("it belongs to Tipstaff itself")
	errBoundBy   = errors.New("it says what runs may do, so no run writes it")
	errGitFolder = errors.New("it belongs to a git repository, which may run what stands there: no tool but a program writes it")
)

// protect refuses a path within a root that leads, by whatever links, to what
// decides about runs: in the workspace, in any workspace above or below it, or by
// another name of the same file.
func (s *Server) protect(f *folder, name string, writing bool) error {
	path := f.follow(name)
	if writing { // a link is replaced, not followed
		path = filepath.Join(f.follow(filepath.Dir(name)), filepath.Base(name))
	}
	parts := strings.Split(below(f.workspace, path), string(filepath.Separator))
	named := func(name string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.EqualFold(part, name) })
	}
	switch {
	case named(ownFolder), s.kept(path, writing):
		return errOwnFolder
	case !writing:
		return f.linked(path)
	case slices.ContainsFunc(boundBy, named):
		return errBoundBy
	case named(gitFolder), inRepository(path):
		return errGitFolder
	}
	return s.obeyed(f, path)
}

// WorktreesFolder is where, in the folder of what is kept for a user, runs have their worktrees.
const WorktreesFolder = "worktrees"

// kept reports whether a path lies in the folder of what is kept for the user, and in none of
// the worktrees there, or would take its place.
func (s *Server) kept(path string, writing bool) bool {
	if s.options.State == "" {
		return false
	}
	state := resolved(s.options.State)
	return writing && covers(path, state) || covers(state, path) && !covers(filepath.Join(state, WorktreesFolder), path)
}

// below is a path as it is seen from a folder, if it lies in it.
func below(folder, path string) string {
	if rel, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// linked refuses a file that is one of the workspace's .tipstaff under another name.
func (f *folder) linked(path string) error {
	info, err := os.Lstat(path)
	if err != nil || links(info) < 2 || !info.Mode().IsRegular() {
		return nil
	}
	if sameIn(filepath.Join(f.workspace, ownFolder), info) {
		return errOwnFolder
	}
	return nil
}

// obeyed refuses to write what the manifest of the workspace, or of one that the
// path lies in, names as something that it runs or obeys.
func (s *Server) obeyed(f *folder, path string) error {
	var protected []string
	if s.options.Protected != nil {
		protected = within(f.workspace, s.options.Protected())
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if s.options.Nested != nil && dir != f.workspace && isWorkspace(dir) {
			protected = append(protected, within(dir, s.options.Nested(dir))...)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	info, err := os.Lstat(path)
	linked := err == nil && info.Mode().IsRegular() && links(info) > 1
	for _, p := range protected {
		for _, at := range []string{filepath.Join(resolved(filepath.Dir(p)), filepath.Base(p)), resolved(p)} {
			if covers(at, path) || covers(path, at) || linked && sameIn(at, info) {
				return fmt.Errorf("the manifest runs or obeys %s, so no run writes it", below(f.workspace, p))
			}
			if beside, _ := filepath.Match(at, path); beside {
				return fmt.Errorf("something that the manifest runs lies beside it and may load it (%s), so no run writes it: give that a folder of its own", below(f.workspace, p))
			}
		}
	}
	return nil
}

// within is paths as they stand in a folder.
func within(folder string, paths []string) []string {
	var list []string
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(folder, p)
		}
		list = append(list, filepath.Clean(p))
	}
	return list
}

func isWorkspace(dir string) bool {
	return slices.ContainsFunc([]string{ownFolder, boundBy[0]}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

// covers reports whether path is dir or lies in it. Some file systems tell no case.
func covers(dir, path string) bool {
	sep := string(filepath.Separator)
	dir, path = strings.ToLower(strings.TrimSuffix(dir, sep)), strings.ToLower(path)
	return path == dir || strings.HasPrefix(path, dir+sep)
}

// sameIn reports whether a path is a file, or a folder that holds it.
func sameIn(path string, file fs.FileInfo) bool {
	found := false
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error { // what cannot be read is passed over
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil && os.SameFile(info, file) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// links is how many names a file has.
func links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}

// inRepository reports whether a file lies in a repository that is no .git folder,
// or would make one of a folder. git finds such a folder by what it holds.
func inRepository(path string) bool {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		has := func(name string) bool {
			at := filepath.Join(dir, name)
			if covers(at, path) {
				return true
			}
			_, err := os.Lstat(at)
			return err == nil
		}
		if has("HEAD") && (has("objects") && has("refs") || has("commondir")) {
			return true
		}
	}
	return false
}

// follow is where a path within the folder leads. Where no part of it is a link,
// that is a matter of text.
func (f *folder) follow(name string) string {
	for part := name; part != "."; part = filepath.Dir(part) {
		if info, err := f.Lstat(part); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return resolved(filepath.Join(f.real, name))
		}
	}
	return filepath.Join(f.real, name)
}

// resolved is a path with the links in it followed, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	return filepath.Join(resolved(dir), filepath.Base(path))
}

package builtin

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// What Tipstaff itself keeps in a workspace. A run that could read its keys could
// sign in its user's name, and one that could write its manifest or lock could
// allow itself anything.
const ownFolder = ".tipstaff"

var boundBy = []string{"tipstaff.yaml", "tipstaff.lock"}

var (
	errOwnFolder = errors.New("it belongs to Tipstaff itself")
	errBoundBy   = errors.New("it says what runs may do, so no run writes it")
)

// own refuses a path within the folder that leads, by whatever links, to what
// Tipstaff keeps for itself.
func (f *folder) own(name string, writing bool) error {
	path := ""
	if writing { // a link is replaced, not followed
		path = filepath.Join(f.follow(filepath.Dir(name)), filepath.Base(name))
	} else {
		path = f.follow(name)
	}
	rel, err := filepath.Rel(f.workspace, path)
	if err != nil {
		return nil // it is on another volume
	}
	first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	switch same := func(name string) bool { return strings.EqualFold(rel, name) }; {
	case strings.EqualFold(first, ownFolder):
		return errOwnFolder
	case writing && slices.ContainsFunc(boundBy, same):
		return errBoundBy
	}
	return nil
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

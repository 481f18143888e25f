package builtin

import (
	"errors"
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

// own refuses a path within a root that leads, by whatever links, to what
// Tipstaff keeps for itself.
func (s *Server) own(root, name string, writing bool) error {
	workspace, err := filepath.EvalSymlinks(s.options.Workspace)
	if err != nil {
		return reason(err)
	}
	path := filepath.Join(resolved(root), name)
	if writing { // a link is replaced, not followed
		path = filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))
	} else {
		path = resolved(path)
	}
	rel, err := filepath.Rel(workspace, path)
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

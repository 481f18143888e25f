package builtin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// folder is a declared root. It stays open between calls: opening it and resolving its
// links takes longer than reading a small file. It is used through os.Root, which
// neither .. nor a symbolic link can leave.
type folder struct {
	*os.Root
	info fs.FileInfo
	real string // its path, with all links followed
}

// root is the declared folder that a path lies in, and the path within it.
func (s *Server) root(c call, path string) (*folder, string, error) {
	if len(s.options.Roots) == 0 {
		return nil, "", errors.New("no folder may be used: the manifest lists no roots")
	}
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, "", fmt.Errorf("%q is not a path", path)
	}
	if !filepath.IsAbs(path) {
		return s.open(s.options.Roots[0], path)
	}
	if c.CleanPaths {
		if err := s.elsewhere(path); err != nil {
			return nil, "", err
		}
	}
	for _, r := range s.options.Roots {
		folder, err := s.absolute(r)
		if err != nil {
			return nil, "", err
		}
		if rel, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(rel) {
			return s.open(r, rel)
		}
	}
	return nil, "", fmt.Errorf("%q lies in none of the roots", path)
}

// elsewhere refuses an absolute path that leads into the first root: rules are
// written for the relative one.
func (s *Server) elsewhere(path string) error {
	first, err := s.folder(s.options.Roots[0])
	if err != nil {
		return fmt.Errorf("the root %q cannot be opened: %w", s.options.Roots[0], reason(err))
	}
	for _, p := range []string{path, followed(path)} {
		if rel, err := filepath.Rel(first.real, p); err == nil && filepath.IsLocal(rel) {
			return refused(CodeUncleanPath, "%q lies in the first root: write %q", path, rel)
		}
	}
	return nil
}

func (s *Server) open(root, rel string) (*folder, string, error) {
	f, err := s.folder(root)
	if err != nil {
		return nil, "", fmt.Errorf("the root %q cannot be opened: %w", root, reason(err))
	}
	return f, filepath.Clean(rel), nil
}

// folder opens a root, unless the one that is open is still where its path leads.
// What is open keeps its identity to itself, so another folder is never taken for
// it. One that is replaced is left to the collector: a call may be using it.
func (s *Server) folder(root string) (*folder, error) {
	path, err := s.absolute(root)
	if err != nil {
		return nil, err
	}
	now, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.folders[path]; f != nil && os.SameFile(f.info, now) {
		return f, nil
	}
	f, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	s.folders[path] = f
	return f, nil
}

// openFolder opens a folder and finds out where it really is.
func openFolder(path string) (f *folder, err error) {
	f = new(folder)
	if f.Root, err = os.OpenRoot(path); err != nil {
		return nil, err
	}
	if f.info, err = f.Stat("."); err == nil {
		f.real, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		if there, gone := os.Lstat(f.real); gone != nil || !os.SameFile(f.info, there) {
			err = errors.New("it is being moved")
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *Server) absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	return filepath.Abs(filepath.Join(s.options.Workspace, path))
}

// followed is a path with the links in it followed, as far as it exists.
func followed(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	return filepath.Join(followed(dir), filepath.Base(path))
}

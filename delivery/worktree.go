package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tipstaff/tipstaff"
)

// ErrWorktreeMissing is a worktree that is no longer where it was made.
var ErrWorktreeMissing = errors.New("the worktree is gone")

// Worktree is one that was made for a run.
type Worktree struct {
	Path   string `json:"path"`
	Branch string `json:"branch"` // its full name, refs/heads/…
	Base   string `json:"base"`   // the commit it began with

	Placed []string              `json:"placed,omitempty"` // paths in it that are no part of what is delivered
	Linked []tipstaff.LinkedFile `json:"linked,omitempty"` // of these, links to the checkout
	Ports  []int                 `json:"ports,omitempty"`  // that programs in it may use
	LFS    bool                  `json:"lfs,omitempty"`    // files in it have the contents that git LFS keeps of them
}

// Present reports whether the worktree is there.
func (w Worktree) Present() bool {
	info, err := os.Lstat(w.Path)
	return err == nil && info.IsDir()
}

// index is our own index of the worktree, beside it: what git knows of the files there.
// The worktree's own is the agent's, who may have told git to overlook changes. It is
// written last, so a worktree without it is not finished.
func (w Worktree) index() string { return w.Path + ".index" }

// keepIndex makes a file our index of the worktree.
func (r *Repo) keepIndex(ctx context.Context, w Worktree, from string) error {
	digest, err := digestOf(ctx, from)
	if err != nil {
		return err
	}
	r.git.indexes.Store(w.index(), digest)
	return os.Rename(from, w.index())
}

// forget has our index of a worktree be made anew. It reports whether it was trusted.
func (g *Git) forget(w Worktree) bool {
	_, known := g.indexes.LoadAndDelete(w.index())
	return known
}

// linkIndex gives our index of the worktree another name, if it is as this process has
// written it. Any other may be an agent's, who can have a check run on files that are not
// those of the tree: then all files are read again.
func (r *Repo) linkIndex(ctx context.Context, w Worktree, to string) (ours bool, err error) {
	if err := os.Link(w.index(), to); err != nil {
		return false, ignoreMissing(err)
	}
	digest, err := digestOf(ctx, to)
	if known, _ := r.git.indexes.Load(w.index()); err == nil && known == digest {
		return true, nil
	}
	return false, errors.Join(err, os.Remove(to))
}

// admin is where git keeps what it knows of the worktree.
func (r *Repo) admin(w Worktree) string {
	if r.Own != nil {
		return w.gitDir()
	}
	return filepath.Join(r.Common, "worktrees", filepath.Base(w.Path))
}

// agentsFile is the index of the worktree that the agent writes.
func (r *Repo) agentsFile(w Worktree) string { return filepath.Join(r.admin(w), "index") }

// AddWorktree makes a worktree at path, whose last segment is the id of the run, with
// the files of a commit and a repository of its own. A worktree that was made before is
// left as it is; one that was begun is made anew.
func (r *Repo) AddWorktree(ctx context.Context, path, commit string) (Worktree, error) {
	w := Worktree{Path: path, Branch: RunBranches + filepath.Base(path), Base: commit}
	if _, err := os.Stat(w.index()); err == nil && w.Present() {
		return w, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return w, err
	}
	if err := r.clear(w); err != nil {
		return w, err
	}
	link := r.admin(w)
	var err error
	if r.Own != nil {
		err = r.makeOwn(ctx, w)
	} else {
		err = r.register(ctx, w)
	}
	if err != nil {
		return w, fmt.Errorf("no repository can be made for the worktree at %s: %w", path, err)
	}
	if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, ".git"), []byte("gitdir: "+link+"\n"), 0o600)); err != nil {
		return w, err
	}
	return w, r.With(w).fillWorktree(ctx, w)
}

// register makes a worktree known to the user's repository, as `git worktree add` does, and
// gives it a branch there: those of runs were so that were made before they had repositories
// of their own.
func (r *Repo) register(ctx context.Context, w Worktree) error {
	if err := r.replaceRef(ctx, w.Branch, w.Base); err != nil {
		return err
	}
	admin := r.admin(w)
	if err := os.MkdirAll(admin, 0o700); err != nil {
		return err
	}
	for name, content := range map[string]string{"HEAD": "ref: " + w.Branch, "commondir": "../..", "gitdir": filepath.Join(w.Path, ".git")} {
		if err := os.WriteFile(filepath.Join(admin, name), []byte(content+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// fillWorktree writes the files of the base.
func (r *Repo) fillWorktree(ctx context.Context, w Worktree) error {
	temp := w.Path + ".index.new"
	s, err := r.scratch(w.Path, temp)
	if err != nil {
		return err
	}
	defer s.close()
	defer os.Remove(temp)
	if _, err := s.run(ctx, w.Path, nil, "read-tree", "--reset", "-u", "--no-recurse-submodules", w.Base); err != nil {
		return fmt.Errorf("the files of %s cannot be written to %s: %w", w.Base, w.Path, err)
	}
	if err := copyIndex(temp, r.agentsFile(w)); err != nil {
		return err
	}
	return r.keepIndex(ctx, w, temp)
}

// copyIndex keeps the time of the file: git compares it with those of the files that the
// index names, to know which may have changed since.
func copyIndex(from, to string) error {
	f, err := openRegular(from)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	temp := to + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	if err := os.Chtimes(temp, info.ModTime(), info.ModTime()); err != nil {
		return err
	}
	return os.Rename(temp, to)
}

// RemoveWorktree removes a worktree with its repository, what was recorded of it and what an
// apply of it has left that was broken off, and then the ref that has kept its base. Of one without a repository of its own the branch goes
// too, unless the agent has committed there. What is gone already is no error.
func (r *Repo) RemoveWorktree(ctx context.Context, w Worktree) error {
	if err := errors.Join(r.clear(w), r.forgetPlacings(w)); err != nil {
		return err
	}
	ref := w.Branch
	if r.Own != nil {
		ref = w.baseRef()
	}
	if err := r.setRef(ctx, ref, "", w.Base); err != nil && !errors.Is(err, errRefHeld) {
		return err
	}
	return nil
}

// clear removes the files of a worktree and what git keeps of it, its index first: one
// without it is being removed. git itself would look into the worktree, or prune those of
// others too.
func (r *Repo) clear(w Worktree) error {
	beside, err := filepath.Glob(escapeGlob(w.Path) + ".*") // with what those who were killed have left, of whichever run
	if err != nil {
		return err
	}
	for _, path := range slices.Concat([]string{w.index(), w.Path, r.admin(w)}, beside) {
		r.git.indexes.Delete(path)
		r.git.cleans.Delete(path)
		if err := removeAll(path); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a tree even if its directories may not be written, as those of
// package caches are. It follows no links.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
			if err != nil { // it could not be read before
				return removeAll(p)
			}
		}
		return nil
	})
	return os.RemoveAll(path)
}

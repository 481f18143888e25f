package delivery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// writeSubmodules writes the files of a tree's submodules, and of theirs, into a directory
// that holds the files of the tree. The objects are those that the checkout has: nothing is
// fetched.
func (r *Repo) writeSubmodules(ctx context.Context, dir, tree string) error {
	entries, err := r.entries(ctx, tree)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if commit := entries[name]; isSubmodule(commit) {
			if err := r.writeSubmodule(ctx, dir, name, commit); err != nil {
				return fmt.Errorf("submodule %s: %w", named(name), err)
			}
		}
	}
	return nil
}

// What is in the place of a commit in the entries of a tree.
const (
	isFile   = ""
	isFolder = "/"
)

func isSubmodule(entry string) bool { return entry != isFile && entry != isFolder }

// entries are the names in a tree: with the commit of each submodule, and else [isFile]
// or [isFolder].
func (r *Repo) entries(ctx context.Context, tree string) (map[string]string, error) {
	s, err := r.scratch("", "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	out, err := s.run(ctx, "", nil, "ls-tree", "-r", "-t", "-z", tree)
	entries := map[string]string{}
	for _, entry := range split(out) {
		info, name, _ := strings.Cut(entry, "\t")
		switch fields := strings.Fields(info); { // mode, type, object
		case len(fields) == 3 && fields[0] == gitlink:
			entries[name] = fields[2]
		case len(fields) == 3 && fields[1] == "tree":
			entries[name] = isFolder
		default:
			entries[name] = isFile
		}
	}
	return entries, err
}

// submodule is the repository of a submodule of the checkout.
func (r *Repo) submodule(name string) (sub *Repo, err error) {
	sub = &Repo{git: r.git, passive: r.passive, name: r.name, email: r.email, Place: Place{Checkout: filepath.Join(r.Checkout, filepath.FromSlash(name)), Format: r.Format}}
	sub.GitDir, err = r.submoduleDir(sub.Checkout)
	sub.Common = sub.GitDir
	return sub, err
}

func (r *Repo) writeSubmodule(ctx context.Context, dir, name, commit string) error {
	sub, err := r.submodule(name)
	if err != nil {
		return err
	}
	to := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(removeAll(to), os.Mkdir(to, 0o755)); err != nil {
		return err
	}
	s, err := sub.scratch(to, "")
	if err != nil {
		return err
	}
	defer s.close()
	s.env = append(s.env, "GIT_INDEX_FILE="+filepath.Join(s.dir, "index"))
	if _, err := s.run(ctx, to, nil, "read-tree", "--reset", "-u", "--no-recurse-submodules", commit); err != nil {
		return fmt.Errorf("its commit %s cannot be written; `git submodule update --init --recursive` in the checkout brings it: %w", short(commit), err)
	}
	return sub.writeSubmodules(ctx, to, commit)
}

// changedBelow are the files in the place of a submodule, and of those in it, that its commit
// does not have so. Where the checkout does not have the submodule these are all of them: the
// worktree was not given them either.
func (r *Repo) changedBelow(ctx context.Context, dir, name, commit string) (changed []string, err error) {
	dir = filepath.Join(dir, filepath.FromSlash(name))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		return nil, ignoreMissing(err)
	}
	sub, missing := r.submodule(name)
	if missing != nil {
		sub = r
	}
	at := *sub
	if at.objects, err = os.MkdirTemp(r.git.Temp, "tipstaff-git-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(at.objects)
	s, err := at.scratch(dir, filepath.Join(at.objects, "index"))
	if err != nil {
		return nil, err
	}
	defer s.close()
	if missing == nil {
		_, missing = s.run(ctx, dir, nil, "read-tree", commit) // it may not have the commit
	}
	if missing != nil {
		all, repos, err := s.untracked(ctx, dir)
		for _, repo := range repos {
			all = append(all, repo+"/")
		}
		return all, err
	}
	if err := s.stage(ctx, Worktree{Path: dir}, filepath.Join(at.objects, "none")); err != nil {
		return nil, err
	}
	out, err := s.run(ctx, dir, nil, "diff-index", "--cached", "--name-only", "-z", "--no-renames", commit)
	if err != nil {
		return nil, err
	}
	changed = split(out)
	entries, err := at.entries(ctx, commit)
	for name, commit := range entries {
		if !isSubmodule(commit) || err != nil {
			continue
		}
		var deeper []string
		deeper, err = sub.changedBelow(ctx, dir, name, commit)
		for _, below := range deeper {
			changed = append(changed, path.Join(name, below))
		}
	}
	return changed, err
}

// submoduleDir is where git keeps a submodule of the checkout. It lies in the checkout, or
// with the repository around it.
func (r *Repo) submoduleDir(checkout string) (string, error) {
	missing := errors.New("the checkout does not have it: `git submodule update --init --recursive` there brings it")
	if info, err := os.Lstat(filepath.Join(checkout, ".git")); err != nil || info.Mode().Type() == fs.ModeSymlink {
		return "", missing
	}
	to, err := gitDirOf(checkout)
	if err != nil {
		return "", missing
	}
	if to == filepath.Join(checkout, ".git") {
		return to, nil
	}
	if to, err = filepath.EvalSymlinks(to); err != nil {
		return "", missing
	}
	common, err := filepath.EvalSymlinks(r.Common)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(common, to); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("its repository lies at %s, outside that of the checkout", to)
	}
	return to, nil
}

package delivery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// writeTree makes a tree of all that lies in a worktree, what git ignores left out. It
// changes nothing there, but that pipes go that git would wait for.
func (r *Repo) writeTree(ctx context.Context, w Worktree) (string, error) {
	if !w.Present() {
		return "", ErrWorktreeMissing
	}
	r = r.With(w)
	if err := r.keepObjects(w); err != nil {
		return "", err
	}
	tree, err := r.writeFiles(ctx, w)
	var exit *ExitError
	if errors.As(err, &exit) && r.git.forget(w) { // it may name what is not there any more
		return r.writeFiles(ctx, w)
	}
	var pipe *PipeError
	if !errors.As(err, &pipe) {
		return tree, err
	}
	for {
		path := findPipe(ctx, nil, w.Path)
		if path == "" {
			break
		}
		if err := os.Remove(path); err != nil {
			return "", err
		}
		name, _ := filepath.Rel(w.Path, path)
		r.meddling = append(r.meddling, Difference{Name: named(name) + ", a pipe that was removed"})
	}
	return r.writeFiles(ctx, w)
}

// keepObjects makes sure that there is a place for what is recorded.
func (r *Repo) keepObjects(w Worktree) error {
	if info, err := os.Lstat(w.objects()); r.Own == nil || err == nil && info.IsDir() {
		return nil
	}
	return errors.Join(os.RemoveAll(w.objects()), os.Mkdir(w.objects(), 0o700))
}

// writeFiles makes one attempt.
func (r *Repo) writeFiles(ctx context.Context, w Worktree) (string, error) {
	dir, err := os.MkdirTemp(filepath.Dir(w.Path), filepath.Base(w.index())+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	index := filepath.Join(dir, "index")
	s, err := r.scratch(w.Path, index)
	if err != nil {
		return "", err
	}
	defer s.close()
	// A link, not a copy: git replaces the file, and the time of the old one counts.
	ours, err := r.linkIndex(ctx, w, index)
	if err == nil && !ours {
		_, err = s.run(ctx, w.Path, nil, "read-tree", w.Base)
	}
	if err != nil {
		return "", err
	}
	if err := s.stage(ctx, w, r.agentsFile(w)); err != nil {
		return "", fmt.Errorf("the changes in %s cannot be recorded: %w", w.Path, err)
	}
	tree, err := s.run(ctx, w.Path, nil, "write-tree")
	if err != nil {
		return "", fmt.Errorf("the changes in %s cannot be recorded: %w", w.Path, err)
	}
	// The next snapshot need not read again what this one has read.
	if err := r.keepIndex(ctx, w, index); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(tree)), nil
}

// stage brings the index to what lies in the directory. `git add -A` would do so too, but
// asks submodules for their status, which starts what their configuration names, and
// takes any repository that was begun in the directory for a submodule.
func (s *scratch) stage(ctx context.Context, w Worktree, agents string) error {
	dir := w.Path
	var gone, there, replaced, found, repos []string
	err := together(func() (err error) {
		gone, there, replaced, err = s.changed(ctx, dir)
		return err
	}, func() (err error) {
		found, repos, err = s.untracked(ctx, dir)
		return err
	})
	if err != nil {
		return err
	}
	if nested := append(replaced, repos...); len(nested) > 0 {
		inside, err := s.nested(ctx, dir, agents, nested)
		if err != nil {
			return err
		}
		found = append(found, inside...)
	}
	found = w.withoutPlaced(found)
	if gone = append(gone, replaced...); len(gone) > 0 {
		if _, err := s.run(ctx, dir, joined(gone), "update-index", "-z", "--force-remove", "--stdin"); err != nil {
			return err
		}
	}
	there = append(there, found...)
	if w.LFS {
		if there, err = s.stageContents(ctx, w, there); err != nil {
			return err
		}
	}
	return s.add(ctx, dir, there)
}

// add puts files into the index as they lie in the directory.
func (s *scratch) add(ctx context.Context, dir string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := s.run(ctx, dir, joined(names), "update-index", "-z", "--add", "--remove", "--replace", "--stdin")
	return err
}

// withoutPlaced leaves out what was put into the worktree: it is no part of what is
// delivered, whatever becomes of the ignore files.
func (w Worktree) withoutPlaced(names []string) []string {
	if len(w.Placed) == 0 {
		return names
	}
	placed := map[string]bool{}
	for _, name := range w.Placed {
		placed[name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool {
		for ; name != "."; name = path.Dir(name) {
			if placed[name] {
				return true
			}
		}
		return false
	})
}

// changed are the files of the index that are gone, that may differ, and that gave way to
// a repository.
func (s *scratch) changed(ctx context.Context, dir string) (gone, there, replaced []string, err error) {
	out, err := s.run(ctx, dir, nil, "diff-files", "-z", "--no-renames", "--ignore-submodules=dirty")
	if err != nil {
		return nil, nil, nil, err
	}
	fields := split(out)
	for i := 0; i+1 < len(fields); i += 2 {
		info, name := strings.Fields(fields[i]), fields[i+1]
		switch {
		case info[4] == "D":
			gone = append(gone, name)
		case info[0] == ":"+gitlink:
			there = append(there, name)
		default:
			switch info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); {
			case err == nil && info.IsDir():
				replaced = append(replaced, name)
			case err == nil && !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink: // a pipe, a device
				gone = append(gone, name)
			default:
				there = append(there, name)
			}
		}
	}
	return gone, there, replaced, nil
}

// untracked are the files below a directory that the index does not have, and the
// repositories there.
func (s *scratch) untracked(ctx context.Context, dir string) (files, repos []string, err error) {
	out, err := s.run(ctx, dir, nil, "ls-files", "-z", "--others", "--exclude-standard")
	for _, name := range split(out) {
		if sub, ok := strings.CutSuffix(name, "/"); ok {
			repos = append(repos, sub)
		} else {
			files = append(files, name)
		}
	}
	return files, repos, err
}

// nested are the files of repositories that lie in the worktree. One that the agent has
// made a submodule is one; any other is a directory like the others: its files would be
// missing from what is delivered, with nobody told.
func (s *scratch) nested(ctx context.Context, dir, agents string, repos []string) (files []string, err error) {
	modes := s.repo.agentsIndex(ctx, dir, agents)
	var inside []string
	for len(repos) > 0 {
		repo := repos[0]
		repos = repos[1:]
		if modes[repo] == gitlink {
			files = append(files, repo)
			continue
		}
		found, deeper, err := s.within(ctx, filepath.Join(dir, filepath.FromSlash(repo)))
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			inside = append(inside, path.Join(repo, name))
		}
		for _, name := range deeper {
			repos = append(repos, path.Join(repo, name))
		}
	}
	kept, err := s.notIgnored(ctx, dir, inside)
	return append(files, kept...), err
}

// within are the files of a nested repository: what lies there, seen as if the worktree
// began there.
func (s *scratch) within(ctx context.Context, dir string) (files, repos []string, err error) {
	inner, err := s.repo.scratch(dir, filepath.Join(s.dir, "none"))
	if err != nil {
		return nil, nil, err
	}
	defer inner.close()
	return inner.untracked(ctx, dir)
}

// notIgnored leaves out what the ignore files around it name.
func (s *scratch) notIgnored(ctx context.Context, dir string, files []string) (kept []string, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	asked := make([]string, len(files))
	for i, name := range files {
		asked[i] = "./" + name // else a name may be taken for more than one
	}
	out, err := s.run(ctx, dir, joined(asked), "--no-literal-pathspecs", "check-ignore", "-z", "--stdin", "--no-index")
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == 1 { // none is
		out, err = nil, nil
	}
	ignored := map[string]bool{}
	for _, name := range split(out) {
		ignored[strings.TrimPrefix(name, "./")] = true
	}
	for _, name := range files {
		if !ignored[name] {
			kept = append(kept, name)
		}
	}
	return kept, err
}

// agentsIndex is what the worktree's own index holds: the mode of each file. The agent may
// have made anything of it: what cannot be read holds nothing.
func (r *Repo) agentsIndex(ctx context.Context, dir, index string) map[string]string {
	if info, err := os.Lstat(index); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	s, err := r.scratch(dir, index)
	if err != nil {
		return nil
	}
	defer s.close()
	out, err := s.run(ctx, dir, nil, "ls-files", "-z", "--stage")
	if err != nil {
		return nil
	}
	modes := map[string]string{}
	for _, entry := range split(out) {
		if info, name, ok := strings.Cut(entry, "\t"); ok {
			modes[name], _, _ = strings.Cut(info, " ")
		}
	}
	return modes
}

// split are the parts of what git prints with -z.
func split(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func joined(names []string) []byte { return []byte(strings.Join(names, "\x00") + "\x00") }

// together does all at once and returns the first error in order.
func together(all ...func() error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, f := range all {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

package delivery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Modes of files in a tree, as git prints them.
const (
	modeLink       = "120000"
	modeExecutable = "100755"
)

// Protection says, for a change after which these files are there, of an absolute path that runs
// may not change what is there; false: it is a file like others. Several files together may be
// what none of them is.
type Protection func(there []string) func(path string) (Protected, bool)

// Protected is a file that runs may not change.
type Protected struct {
	Reason string
	Kind   string // [tipstaff.ObeyedDecides] or [tipstaff.ObeyedElsewhere]
	Apply  string // what `apply` does with a change of it, as of a [tipstaff.ObeyedFile]
}

// looking finds what a gate has to name first.
type looking struct {
	Diff
	repo     *Repo
	w        Worktree
	protects func(name string) (Protected, bool)
	entries  map[string]string // of the tree
	found    []tipstaff.ObeyedFile
}

// obeyed are the changed files that programs obey, that lead elsewhere or can be started,
// and what lies in the worktree and is not delivered as it lies there.
func (r *Repo) obeyed(ctx context.Context, w Worktree, d Diff) (_ []tipstaff.ObeyedFile, err error) {
	l := &looking{Diff: d, repo: r, w: w}
	if err := l.changed(ctx); err != nil {
		return nil, err
	}
	for _, look := range []func(context.Context) error{l.added, l.committed, l.submodules, l.filtered} {
		if err := look(ctx); err != nil {
			return nil, err
		}
	}
	return ranked(l.found), nil
}

// obeyedNow is what obeyed finds by the names, modes and links of a recorded change alone: what
// the manifest says of them may be something else by now.
func (r *Repo) obeyedNow(ctx context.Context, base, tree string) ([]tipstaff.ObeyedFile, error) {
	d, err := r.Diff(ctx, base, tree)
	l := &looking{Diff: d, repo: r}
	if err == nil {
		err = l.changed(ctx)
	}
	return l.found, err
}

// sinceThen are the files that a gate names first, with what was found of them now.
func sinceThen(before, now []tipstaff.ObeyedFile) []tipstaff.ObeyedFile {
	kept := slices.DeleteFunc(slices.Clone(before), func(f tipstaff.ObeyedFile) bool {
		return f.Kind != tipstaff.ObeyedLeftOut && f.Kind != tipstaff.ObeyedRaw // of which obeyedNow finds none
	})
	return ranked(append(kept, now...))
}

// changed looks at the changed files as they are recorded.
func (l *looking) changed(ctx context.Context) (err error) {
	if l.entries, err = l.repo.entries(ctx, l.Tree); err != nil {
		return err
	}
	l.protects = l.repo.protecting(slices.Collect(maps.Keys(l.entries)))
	for _, c := range l.changes {
		l.file(c)
	}
	return l.links(ctx)
}

// ranked are the files in the order in which a gate names them.
func ranked(files []tipstaff.ObeyedFile) []tipstaff.ObeyedFile {
	slices.SortStableFunc(files, func(a, b tipstaff.ObeyedFile) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Path, b.Path))
	})
	return files
}

var kinds = []string{tipstaff.ObeyedDecides, tipstaff.ObeyedLeaves, tipstaff.ObeyedElsewhere, tipstaff.ObeyedStarted, tipstaff.ObeyedRepository, tipstaff.ObeyedLeftOut, tipstaff.ObeyedRaw}

// rank is the place of a file's kind; what is never applied comes first.
func rank(f tipstaff.ObeyedFile) int {
	if f.Apply == tipstaff.ApplyNever {
		return -1
	}
	return slices.Index(kinds, f.Kind)
}

func (l *looking) add(path, kind, apply, format string, args ...any) {
	l.found = append(l.found, tipstaff.ObeyedFile{Path: named(path), Kind: kind, Apply: apply, Reason: fmt.Sprintf(format, args...)})
}

// file looks at what a changed file is by its name and mode.
func (l *looking) file(c change) {
	for _, name := range slices.Compact([]string{cmp.Or(c.old, c.path), c.path}) {
		status := c.Status
		if c.old != "" && name == c.old {
			status = "moved away"
		}
		if p, ok := l.protects(name); ok {
			l.add(name, p.Kind, p.Apply, "%s: %s", status, p.Reason)
		}
	}
	switch {
	case c.Submodule:
		l.add(c.path, tipstaff.ObeyedRepository, "", "%s: a commit of another repository", c.Status)
	case c.mode == modeExecutable && c.modeBefore != modeExecutable:
		l.add(c.path, tipstaff.ObeyedStarted, "", "%s: it can be started, and could not before", c.Status)
	}
}

// links looks where those lead that are new or changed.
func (l *looking) links(ctx context.Context) error {
	var links []change
	var ids []string
	for _, c := range l.changes {
		if c.mode == modeLink {
			links, ids = append(links, c), append(ids, c.now)
		}
	}
	s, err := l.repo.scratch("", "")
	if err != nil {
		return err
	}
	defer s.close()
	targets, err := s.contents(ctx, ids)
	if err != nil {
		return err
	}
	for i, c := range links {
		target := string(targets[i])
		to := path.Join(path.Dir(c.path), target)
		switch {
		case path.IsAbs(target), to == "..", strings.HasPrefix(to, "../"), filepath.IsAbs(filepath.FromSlash(target)):
			l.add(c.path, tipstaff.ObeyedLeaves, "", "%s: a link to %s, outside of the tree", c.Status, strconv.Quote(target))
		case turnsBack(target):
			l.add(c.path, tipstaff.ObeyedLeaves, "", "%s: a link to %s, which leads out of the tree if a name before its .. is a link", c.Status, strconv.Quote(target))
		default:
			if p, ok := l.protects(to); ok {
				l.add(c.path, tipstaff.ObeyedLeaves, "", "%s: a link to %s: %s", c.Status, strconv.Quote(target), p.Reason)
			}
		}
	}
	return nil
}

// turnsBack reports whether a path has a .. after a name. Where that name is a link, the .. is
// not the folder that the name stands in.
func turnsBack(target string) bool {
	entered := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if entered {
				return true
			}
		default:
			entered = true
		}
	}
	return false
}

// added finds what the agent has added to git, or committed, and an ignore file keeps out of
// what is delivered.
func (l *looking) added(context.Context) error {
	for _, name := range l.w.withoutPlaced(slices.Collect(maps.Keys(l.agents))) {
		if l.delivered(name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(l.w.Path, filepath.FromSlash(name))); err == nil {
			l.add(name, tipstaff.ObeyedLeftOut, "", "it was added to git, and is not delivered: an ignore file names it")
		}
	}
	return nil
}

func (l *looking) delivered(name string) bool {
	kind, there := l.entries[name]
	return there && kind != isFolder
}

// committed finds files of the worker's commits that are not in what is delivered. A file of the
// base that is gone is among the changes. The worker may have made anything of the repository that
// they are in: where it cannot be read, that is what is told.
func (l *looking) committed(ctx context.Context) error {
	names, err := l.repo.committed(ctx, l.w)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		l.add("…", tipstaff.ObeyedLeftOut, "", "the worker's commits cannot be read, so that nobody can tell what of them is not delivered: %s", oneLine(err.Error()))
		return nil
	}
	said := map[string]bool{}
	for _, c := range l.changes {
		said[c.path], said[c.old] = true, true
	}
	for _, f := range l.found {
		said[f.Path] = true
	}
	names = slices.DeleteFunc(l.w.withoutPlaced(names), func(name string) bool { return l.delivered(name) || said[name] || said[named(name)] })
	for i, name := range names {
		if i == maxCommitted {
			l.add("…", tipstaff.ObeyedLeftOut, "", "%s more were committed by the worker, and are not delivered", tipstaff.Plural(len(names)-i, "file"))
			break
		}
		l.add(name, tipstaff.ObeyedLeftOut, "", "it was committed by the worker, and is not delivered: only what lies in the worktree is")
	}
	return nil
}

// maxCommitted is how many files are named that a worker has committed, and that are not
// delivered.
const maxCommitted = 50

// submodules finds files that lie where another repository has its place.
func (l *looking) submodules(ctx context.Context) error {
	for name, commit := range l.entries {
		if !isSubmodule(commit) {
			continue
		}
		changed, err := l.repo.changedBelow(ctx, l.w.Path, name, commit)
		if err != nil {
			return err
		}
		for _, below := range changed {
			l.add(path.Join(name, below), tipstaff.ObeyedLeftOut, "", "it is not delivered: it lies below the submodule %s", named(name))
		}
	}
	return nil
}

// filtered finds changed files that git would pass through a filter, as for large files: no
// filter is started, so they are delivered as they lie there.
func (l *looking) filtered(ctx context.Context) error {
	var files []change
	var names []string
	for _, c := range l.changes {
		if c.Status != tipstaff.FileDeleted && !c.Submodule && c.mode != modeLink {
			files, names = append(files, c), append(names, c.path)
		}
	}
	if len(files) == 0 {
		return nil
	}
	s, err := l.repo.scratch("", "")
	if err != nil {
		return err
	}
	defer s.close()
	s.env = append(s.env, "GIT_INDEX_FILE="+filepath.Join(s.dir, "index"))
	if _, err := s.run(ctx, "", nil, "read-tree", l.Tree); err != nil {
		return err
	}
	filters, err := s.filters(ctx, names)
	if err != nil {
		return err
	}
	var ids []string
	for i, c := range files {
		if filters[i] != "" {
			ids = append(ids, c.now)
		}
	}
	pointers, err := s.pointers(ctx, ids)
	if err != nil {
		return err
	}
	for i, c := range files {
		if _, stored := pointers[c.now]; stored || filters[i] == "" {
			continue
		}
		l.add(c.path, tipstaff.ObeyedRaw, "", "%s: it is delivered as it lies there: its filter %s is not started", c.Status, strconv.Quote(filters[i]))
	}
	return nil
}

// filters are those that git would pass files through, "" for none, by the attributes in the
// index: in a worktree an attributes file may be a pipe.
func (s *scratch) filters(ctx context.Context, names []string) ([]string, error) {
	out, err := s.run(ctx, "", joined(names), "check-attr", "--cached", "-z", "--stdin", "filter")
	if err != nil {
		return nil, err
	}
	fields, filters := split(out), make([]string, len(names))
	for i, name := range names {
		if 3*i+2 >= len(fields) || fields[3*i] != name {
			return nil, fmt.Errorf("git check-attr printed %q", cut(out, 200))
		}
		if f := fields[3*i+2]; f != "unspecified" && f != "unset" {
			filters[i] = f
		}
	}
	return filters, nil
}

// How many folders say where the files are that a gate does not list, and how deep they lie.
const (
	maxFolders = 20
	maxDepth   = 6
)

// folders are the changes of files by folder, as deep as so many folders can tell.
func folders(files []tipstaff.FileChange) (all []tipstaff.FolderChange) {
	for depth := 1; depth <= maxDepth; depth++ {
		deeper := foldersAt(files, depth)
		if all != nil && len(deeper) > maxFolders {
			break
		}
		all = deeper
	}
	slices.SortStableFunc(all, func(a, b tipstaff.FolderChange) int { return b.Files - a.Files })
	if len(all) > maxFolders {
		rest := all[maxFolders-1:]
		all = all[:maxFolders-1]
		others := tipstaff.FolderChange{Path: "…"}
		for _, f := range rest {
			others.Files, others.Added, others.Removed = others.Files+f.Files, others.Added+f.Added, others.Removed+f.Removed
		}
		all = append(all, others)
	}
	return all
}

// foldersAt are the changes below folders of so many segments, in the order of the files.
func foldersAt(files []tipstaff.FileChange, depth int) (all []tipstaff.FolderChange) {
	at := map[string]int{}
	for _, f := range files {
		segments := strings.Split(f.Path, "/")
		folder := strings.Join(segments[:min(depth, len(segments)-1)], "/")
		i, ok := at[folder]
		if !ok {
			i = len(all)
			at[folder], all = i, append(all, tipstaff.FolderChange{Path: folder})
		}
		all[i].Files, all[i].Added, all[i].Removed = all[i].Files+1, all[i].Added+f.Added, all[i].Removed+f.Removed
	}
	return all
}

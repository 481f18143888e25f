package delivery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// A worktree has a repository of its own: refs, index, hooks and configuration that
// concern nobody else. It reads the objects of the user's and writes its own. What a worker
// tells git there reaches neither the user's repository nor our commands, which put what is
// recorded into a directory of objects that no git of the worker's writes or cleans up.

// gitDir is the repository of the worktree, which its file .git names.
func (w Worktree) gitDir() string { return w.Path + ".git" }

// objects is where what is recorded of the worktree is kept.
func (w Worktree) objects() string { return w.Path + ".objects" }

// taken is where a directory is put that took the place of the worktree's file .git.
func (w Worktree) taken() string { return w.Path + ".taken" }

// ownExclude is the file that says what the worktree's own repository ignores; "": it has none.
func (r *Repo) ownExclude() string {
	if r.Own == nil || r.worktree == "" {
		return ""
	}
	return filepath.Join(Worktree{Path: r.worktree}.gitDir(), "info", "exclude")
}

// baseRef keeps the base in the user's repository for as long as the worktree is there.
func (w Worktree) baseRef() string { return hidden + "base/" + filepath.Base(w.Path) }

// makeOwn makes the repository of a worktree, without an index.
func (r *Repo) makeOwn(ctx context.Context, w Worktree) error {
	if err := r.replaceRef(ctx, w.baseRef(), w.Base); err != nil {
		return err
	}
	packed, symbolic, err := r.copiedRefs(ctx, w)
	if err != nil {
		return err
	}
	files := map[string][]byte{"HEAD": []byte("ref: " + w.Branch + "\n"), "packed-refs": packed}
	for name, to := range symbolic {
		files[name] = []byte("ref: " + to + "\n")
	}
	for name, content := range r.settled(w) {
		files[name] = content
	}
	for name, from := range map[string]string{"shallow": "shallow", "info/exclude": filepath.Join("info", "exclude")} {
		if files[name], err = readSmall(filepath.Join(r.Common, from)); err != nil {
			return err
		}
		if len(files[name]) == 0 {
			delete(files, name)
		}
	}
	if err := errors.Join(removeAll(w.gitDir()), os.MkdirAll(filepath.Join(w.gitDir(), "refs", "heads"), 0o700), os.MkdirAll(w.objects(), 0o700)); err != nil {
		return err
	}
	own, err := os.OpenRoot(w.gitDir())
	if err != nil {
		return err
	}
	defer own.Close()
	for name, content := range files {
		if err := put(own, name, content); err != nil {
			return err
		}
	}
	return nil
}

// put writes a file in a place where an agent may have put anything. It follows no link out.
func put(root *os.Root, name string, content []byte) error {
	dir := filepath.Dir(name)
	if info, err := root.Lstat(dir); err == nil && !info.IsDir() {
		if err := root.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := errors.Join(root.RemoveAll(name), root.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	return root.WriteFile(name, content, 0o600)
}

// copiedRefs are the tags and the branches of remotes, which builds ask for, and the branch
// of the worktree: as a file of packed refs, and those that name another.
func (r *Repo) copiedRefs(ctx context.Context, w Worktree) (packed []byte, symbolic map[string]string, err error) {
	out, err := r.onRefs(ctx, nil, "for-each-ref", "--format=%(refname) %(objectname) %(symref)", "refs/remotes", "refs/tags")
	if err != nil {
		return nil, nil, err
	}
	symbolic = map[string]string{}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\n", w.Base, w.Branch)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n"), "\n") {
		switch fields := strings.Split(line, " "); {
		case len(fields) < 3:
		case fields[2] != "":
			symbolic[fields[0]] = fields[2]
		default:
			fmt.Fprintf(&b, "%s %s\n", fields[1], fields[0])
		}
	}
	return b.Bytes(), symbolic, nil
}

// settings are the configuration of the repository of a worktree.
func (r *Repo) settings() []setting {
	settings := []setting{{"core.bare", "false"}, {"core.logallrefupdates", "true"}, {"gc.auto", "0"}, {"maintenance.auto", "false"}, {"user.name", r.name}, {"user.email", r.email}}
	for _, s := range r.Own.Settings {
		settings = append(settings, setting{s.Key, s.Value})
	}
	return settings
}

// settled are the files that say how git behaves in the repository of a worktree. They are
// ours, and always these.
func (r *Repo) settled(w Worktree) map[string][]byte {
	return map[string][]byte{"config": r.config(r.settings()), "objects/info/alternates": []byte(r.With(w).alternates())}
}

// alternates are where a repository beside the worktree finds what it does not have itself:
// what is recorded of the worktree, and the objects of the user's repository.
func (r *Repo) alternates() (lines string) {
	if r.objects != "" {
		lines = alternateLine(r.objects)
	}
	return lines + alternateLine(filepath.Join(r.Common, "objects"))
}

func alternateLine(path string) string {
	if strings.HasPrefix(path, "#") || strings.HasPrefix(path, `"`) || strings.Contains(path, "\n") {
		path = alternate(path)
	}
	return path + "\n"
}

// unsettling are other names of the repository that say how git behaves there. It has none
// of them.
var unsettling = []string{"config.worktree", "commondir", "gitdir", "info/attributes", "info/grafts", "objects/info/http-alternates", "hooks"}

// RunRepositoryChanged is the code of the notice that a worker has told git something in the
// repository of the run.
const RunRepositoryChanged = "run_repository_changed"

// Meddling tells what somebody has changed in the worktree's own repository, as far as it
// was found since [Repo.With].
func (r *Repo) Meddling() []tipstaff.Notice {
	if len(r.meddling) == 0 {
		return nil
	}
	return []tipstaff.Notice{noticed(RunRepositoryChanged, "configuration or hooks of the run's own repository were changed, and are as before: ", r.meddling)}
}

// Restore makes the configuration of the worktree's own repository what it was made as. A
// worktree that git itself has added has none.
func (r *Repo) Restore(ctx context.Context, w Worktree) error {
	if r.Own == nil {
		return nil
	}
	shut, err := w.reopen()
	r.meddling = append(r.meddling, shut...)
	if err != nil || !w.Present() {
		return err
	}
	if err := r.keepObjects(w); err != nil {
		return err
	}
	changed, err := r.restoreOwn(ctx, w)
	if err != nil {
		return fmt.Errorf("the repository of the worktree %s cannot be restored: %w", w.Path, err)
	}
	for _, name := range []string{"info/alternates", "info/http-alternates"} { // of the objects that are recorded
		if path := filepath.Join(w.objects(), name); exists(path) {
			changed = append(changed, Difference{Name: "objects/" + name})
			if err := removeAll(path); err != nil {
				return err
			}
		}
	}
	link, err := r.restoreLink(w)
	r.meddling = slices.Concat(r.meddling, changed, link)
	return err
}

// reopen gives their owner back the rights to what lies beside a worktree, and to its folder,
// that a worker may have taken: whatever its modes, it can be looked at and put back.
func (w Worktree) reopen() (shut []Difference, err error) {
	beside, err := os.OpenRoot(filepath.Dir(w.Path)) // follows no link out of it
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer beside.Close()
	for _, top := range []struct{ path, name, within string }{
		{w.Path, "the worktree itself", ""}, {w.gitDir(), "the repository itself", "."}, {w.objects(), "the recorded objects", "the recorded objects"},
	} {
		err := filepath.WalkDir(top.path, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return ignoreMissing(err)
			}
			info, err := d.Info()
			if err != nil {
				return ignoreMissing(err)
			}
			needed := fs.FileMode(0o600)
			switch {
			case d.IsDir():
				needed = 0o700
			case !d.Type().IsRegular():
				return nil
			case strings.Contains(path[len(w.Path):], "objects/"): // which git itself lets nobody write
				needed = 0o400
			}
			if mode := info.Mode(); mode&needed != needed {
				name := top.name
				if path != top.path {
					name = named(filepath.ToSlash(filepath.Join(top.within, path[len(top.path)+1:])))
				}
				shut = append(shut, Difference{Name: name + ", whose mode was " + mode.String()})
				within, err := filepath.Rel(beside.Name(), path)
				if err := errors.Join(err, beside.Chmod(within, mode&^fs.ModeType|needed)); err != nil {
					return err
				}
			}
			if top.within == "" {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			return shut, err
		}
	}
	return shut, nil
}

func (r *Repo) restoreOwn(ctx context.Context, w Worktree) (changed []Difference, err error) {
	info, err := os.Lstat(w.gitDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err != nil || !info.IsDir() || !regular(filepath.Join(w.gitDir(), "HEAD")) {
		if err := r.makeOwn(ctx, w); err != nil {
			return nil, err
		}
		changed = []Difference{{Name: "the repository itself"}}
		if err := r.exclude(ctx, w.Path, w.gitDir(), w.Placed); err != nil {
			return nil, err
		}
		if !regular(w.index()) {
			return changed, nil
		}
		return changed, copyIndex(w.index(), filepath.Join(w.gitDir(), "index"))
	}
	own, err := os.OpenRoot(w.gitDir())
	if err != nil {
		return nil, err
	}
	defer own.Close()
	for name, content := range r.settled(w) {
		path := filepath.Join(w.gitDir(), name)
		if data, err := readSmall(path); err == nil && bytes.Equal(data, content) && regular(path) {
			continue
		}
		items := []Difference{{Name: name}}
		if name == "config" {
			items = r.settingsChanged(ctx, path)
		}
		changed = append(changed, items...)
		if err := put(own, name, content); err != nil {
			return nil, err
		}
	}
	// What a worker has ignored there counts, if it can be read: else nothing could be recorded.
	if _, err := readSmall(r.ownExclude()); err != nil || exists(r.ownExclude()) && !regular(r.ownExclude()) {
		changed = append(changed, Difference{Name: "info/exclude"})
		users, err := readSmall(filepath.Join(r.Common, "info", "exclude"))
		if err := errors.Join(err, put(own, "info/exclude", users)); err != nil {
			return nil, err
		}
		if err := r.exclude(ctx, w.Path, w.gitDir(), w.Placed); err != nil {
			return nil, err
		}
	}
	for _, name := range unsettling {
		there := []string{name}
		if name == "hooks" {
			there = entries(filepath.Join(w.gitDir(), name), name)
		} else if _, err := own.Lstat(name); err != nil {
			continue
		}
		for _, name := range there {
			changed = append(changed, Difference{Name: named(name)})
		}
		if len(there) > 0 {
			if err := own.RemoveAll(name); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(changed, func(a, b Difference) int { return cmp.Compare(a.Name, b.Name) })
	return changed, nil
}

// entries are the names in a directory, or the name of what is in its place.
func entries(dir, name string) (names []string) {
	if !exists(dir) {
		return nil
	}
	found, err := os.ReadDir(dir)
	if err != nil || len(found) == 0 {
		return []string{name}
	}
	for _, e := range found {
		names = append(names, name+"/"+e.Name())
	}
	return names
}

// settingsChanged names the settings in which a configuration differs from ours.
func (r *Repo) settingsChanged(ctx context.Context, path string) []Difference {
	ours := r.settings()
	now, err := r.git.settingsIn(ctx, path)
	found := differing(valuesOf(append(r.format(ours), ours...)), valuesOf(now), false)
	if err != nil || len(found) == 0 {
		return []Difference{{Name: "config"}}
	}
	return found
}

// valuesOf are all values of each key, as git names it.
func valuesOf(all []setting) map[string]string {
	values := map[string]string{}
	for _, s := range all {
		values[s.key] += s.value + "\n"
	}
	return values
}

// restoreLink makes the file .git of the worktree name its repository again. What took its
// place is put aside: it may be somebody's work.
func (r *Repo) restoreLink(w Worktree) ([]Difference, error) {
	link, content := filepath.Join(w.Path, ".git"), []byte("gitdir: "+w.gitDir()+"\n")
	if data, err := readSmall(link); err == nil && bytes.Equal(data, content) && regular(link) {
		return nil, nil
	}
	told := Difference{Name: ".git"}
	if info, err := os.Lstat(link); err == nil && info.IsDir() {
		if err := errors.Join(removeAll(w.taken()), os.Rename(link, w.taken())); err != nil {
			return nil, err
		}
		told.New = "a repository, now at " + w.taken()
	} else if err == nil {
		if err := os.Remove(link); err != nil {
			return nil, err
		}
	}
	return []Difference{told}, os.WriteFile(link, content, 0o600)
}

func regular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

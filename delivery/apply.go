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

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/filestamp"
)

// Fit is what applying a change to the checkout would do, or has done.
type Fit string

const (
	Fits      Fit = "fits"      // it was not applied, and can be
	Present   Fit = "present"   // the checkout has it
	Refused   Fit = "refused"   // it changes what is never changed
	Dirty     Fit = "dirty"     // a file that it touches has changes of its own
	Conflict  Fit = "conflict"  // the files are not as it expects them
	Unfetched Fit = "unfetched" // nobody has contents that git LFS keeps of it
	Unclear   Fit = "unclear"   // nobody can look at them
)

// Fit looks whether the change from base to commit is in the checkout, or could be put
// there. names are the files that have changes of their own, or that are never changed.
func (r *Repo) Fit(ctx context.Context, base, commit string) (fit Fit, names []string, err error) {
	s, err := r.scratch(r.Checkout, "")
	if err != nil {
		return "", nil, err
	}
	defer s.close()
	fit, names, _, err = s.fit(ctx, base, commit)
	return fit, names, err
}

// Apply puts the change from base to commit into the checkout, uncommitted. If it is
// not [Fits], or somebody has meddled with the repository, it has changed nothing. Nor has it
// if it fails, unless the error is an [*UnsettledError].
func (r *Repo) Apply(ctx context.Context, base, commit string) (Fit, error) {
	s, err := r.scratch(r.Checkout, "")
	if err != nil {
		return "", err
	}
	defer s.close()
	fit, _, changes, err := s.fit(ctx, base, commit)
	if err != nil || fit != Fits {
		return fit, err
	}
	err = r.write(ctx, func() error {
		if err := s.bringLarge(ctx, changes); err != nil {
			return err
		}
		return s.place(ctx, commit, changes)
	})
	if errors.Is(err, errInTheWay) {
		return Conflict, nil
	}
	return fit, err
}

// fit is what Fit returns, with the changes as the checkout would get them. Nothing of it reads
// a file into memory that is not small: files that are as the base has them, or as they would
// be, are told by their names, and only of others a patch is made.
func (s *scratch) fit(ctx context.Context, base, commit string) (fit Fit, names []string, changes []change, err error) {
	out, err := s.run(ctx, "", nil, "diff-tree", "-r", "-z", "--raw", "--no-renames", base, commit)
	if err != nil {
		return "", nil, nil, err
	}
	if changes, _, err = parseRaw(out); err != nil || len(changes) == 0 {
		return Present, nil, nil, err
	}
	if err := s.apart(); err != nil {
		return "", nil, nil, err
	}
	if err := s.findLarge(ctx, base, commit, changes); err != nil {
		return "", nil, nil, err
	}
	before, after, moved, err := s.standing(ctx, changes)
	if err != nil {
		return "", nil, nil, err
	}
	// Where the checkout has none of the files otherwise, lines have to fit, in all that moved on.
	mergeable := map[string]bool{}
	for _, name := range moved {
		mergeable[name] = true
	}
	all := func(so map[string]bool) bool {
		return !slices.ContainsFunc(changes, func(c change) bool { return !so[c.path] && !mergeable[c.path] })
	}
	if all(after) {
		if there, err := s.merge(ctx, base, commit, moved, "--reverse"); err != nil || there {
			return Present, nil, nil, err
		}
	}
	touched := map[string]bool{}
	for _, c := range changes {
		touched[c.path] = true
	}
	if names, err = s.protected(ctx, commit, slices.Sorted(maps.Keys(touched)), tipstaff.ApplyNever); err != nil || len(names) > 0 {
		return Refused, names, nil, err
	}
	status, err := s.repo.status(ctx)
	if err == nil {
		err = s.withoutLarge(ctx, status, changes)
	}
	if err != nil {
		return "", nil, nil, err
	}
	for name := range status {
		if touched[name] {
			names = append(names, named(name))
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		return Dirty, names, nil, nil
	}
	if !all(before) {
		return Conflict, nil, nil, nil
	}
	if fits, err := s.merge(ctx, base, commit, moved); err != nil || !fits {
		return Conflict, nil, nil, err
	}
	if names = s.unfetched(changes); len(names) > 0 {
		return Unfetched, names, nil, nil
	}
	return Fits, nil, changes, s.takeMerged(ctx, changes)
}

// Modes of entries, beside those of files.
const (
	modeNone = "000000" // there is none
	gitlink  = "160000" // a submodule
)

// standing tells which files the checkout has as they were before some changes, and as they
// would be after them. The moved are those that it has in another form, lines of which may be
// changed all the same. What is nowhere stands in the way.
func (s *scratch) standing(ctx context.Context, changes []change) (before, after map[string]bool, moved []string, err error) {
	own, ids := map[string]bool{}, []string{}
	s.stood = map[string]filestamp.Stamp{}
	for _, c := range changes {
		own[c.path] = true
		if info, err := os.Lstat(s.repo.inCheckout(c.path)); err == nil {
			s.stood[c.path] = filestamp.Of(info)
		}
	}
	changes = slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return s.repo.behindLink(c.path, own) })
	if before, err = s.has(ctx, changes, func(c change) (string, string, *lfsPointer) { return c.modeBefore, c.before, c.largeBefore }); err != nil {
		return nil, nil, nil, err
	}
	changes = slices.DeleteFunc(changes, func(c change) bool { return before[c.path] && c.mode != gitlink })
	if after, err = s.has(ctx, changes, func(c change) (string, string, *lfsPointer) { return c.mode, c.now, c.large }); err != nil {
		return nil, nil, nil, err
	}
	changes = slices.DeleteFunc(changes, func(c change) bool {
		info, err := os.Lstat(s.repo.inCheckout(c.path))
		return before[c.path] || after[c.path] || c.modeBefore == modeNone || c.mode == modeNone || c.Submodule || c.largeBefore != nil || c.large != nil ||
			err != nil || !info.Mode().IsRegular() || info.Size() > bigFile
	})
	for _, c := range changes {
		ids = append(ids, c.before, c.now)
	}
	sizes, err := s.sizes(ctx, ids)
	for _, c := range changes {
		if max(sizes[c.before], sizes[c.now]) <= bigFile {
			moved = append(moved, c.path)
		}
	}
	return before, after, moved, err
}

// has tells of one side of some changes which files the checkout has so. Of submodules it looks
// whether there is a folder, as git does.
func (s *scratch) has(ctx context.Context, changes []change, side func(change) (mode, id string, large *lfsPointer)) (map[string]bool, error) {
	so, entries := map[string]bool{}, []string{}
	for _, c := range changes {
		info, err := os.Lstat(s.repo.inCheckout(c.path))
		mode, id, large := side(c)
		held := err == nil && large != nil && info.Mode().IsRegular() && s.holdsLarge(ctx, c.path, info, mode, *large)
		switch {
		case mode == modeNone: // a folder has gone, or goes, with what is in it
			so[c.path] = err != nil || info.IsDir()
		case mode == gitlink:
			so[c.path] = err == nil && info.IsDir()
		case held, err == nil && large != nil && info.Size() > maxPointer: // which is no pointer
			so[c.path] = held
		case err == nil && (info.Mode().IsRegular() || info.Mode().Type() == fs.ModeSymlink):
			entries = append(entries, mode+" "+id+"\t"+c.path)
		}
	}
	if len(entries) == 0 {
		return so, nil
	}
	if err := s.enter(ctx, entries); err != nil {
		return nil, err
	}
	if _, err := s.run(ctx, s.files, nil, "update-index", "-q", "--refresh"); err != nil {
		return nil, err
	}
	out, err := s.run(ctx, s.files, nil, "ls-files", "-z") // git takes not every name
	if err != nil {
		return nil, err
	}
	for _, name := range split(out) {
		so[name] = true
	}
	out, err = s.run(ctx, s.files, nil, "diff-files", "-z", "--name-only")
	for _, name := range split(out) {
		so[name] = false
	}
	return so, err
}

// enter makes the index have these entries alone.
func (s *scratch) enter(ctx context.Context, entries []string) error {
	if err := removeAll(filepath.Join(s.dir, "index")); err != nil || len(entries) == 0 {
		return err
	}
	_, err := s.run(ctx, s.files, joined(entries), "update-index", "-z", "--index-info")
	return err
}

// behindLink reports whether a link lies on the way to a file of the checkout, or something else
// that is no folder. One that is itself changed may give way.
func (r *Repo) behindLink(name string, own map[string]bool) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := os.Lstat(r.inCheckout(dir)); err == nil && !info.IsDir() && !own[dir] {
			return true
		}
	}
	return false
}

func (r *Repo) inCheckout(name string) string {
	return filepath.Join(r.Checkout, filepath.FromSlash(name))
}

// mergedAtOnce is of how many files there is one patch: git has all of it in memory.
const mergedAtOnce = 50

// merge makes the index have some files of the checkout as they are with the change, or
// reports false: their lines do not fit.
func (s *scratch) merge(ctx context.Context, base, commit string, moved []string, args ...string) (bool, error) {
	if err := s.enter(ctx, nil); err != nil || len(moved) == 0 {
		return err == nil, err
	}
	if err := s.add(ctx, s.files, moved); err != nil {
		return false, err
	}
	for names := range slices.Chunk(moved, mergedAtOnce) {
		patch, err := s.run(ctx, "", nil, append([]string{"diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv",
			"--src-prefix=a/", "--dst-prefix=b/", base, commit, "--"}, names...)...)
		if err != nil {
			return false, err
		}
		_, err = s.run(ctx, s.files, patch, append([]string{"apply", "--cached", "--whitespace=nowarn"}, args...)...)
		var exit *ExitError
		if errors.As(err, &exit) && exit.Code == 1 && !noRoom(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("the change cannot be compared with %s: %w", s.files, err)
		}
	}
	return true, nil
}

// takeMerged makes changes of files that have moved on those that the index has of them.
func (s *scratch) takeMerged(ctx context.Context, changes []change) error {
	out, err := s.run(ctx, s.files, nil, "ls-files", "-z", "--stage")
	merged := map[string][]string{}
	for _, entry := range split(out) {
		info, name, _ := strings.Cut(entry, "\t")
		merged[name] = strings.Fields(info) // mode, object, stage
	}
	for i := range changes {
		if info := merged[changes[i].path]; len(info) == 3 {
			changes[i].mode, changes[i].now = info[0], info[1]
		}
	}
	return err
}

// protected are those of the files that a commit changes with whose changes `apply` does this.
func (s *scratch) protected(ctx context.Context, commit string, files []string, apply string) (names []string, err error) {
	if s.repo.Protection == nil {
		return nil, nil
	}
	there, err := s.run(ctx, "", nil, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	protects := s.repo.protecting(split(there))
	for _, name := range files {
		if p, ok := protects(name); ok && p.Apply == apply {
			names = append(names, named(name))
		}
	}
	return names, nil
}

// protecting says why runs may not change a file of the checkout so that these are there.
func (r *Repo) protecting(there []string) func(name string) (Protected, bool) {
	if r.Protection == nil {
		return func(string) (Protected, bool) { return Protected{}, false }
	}
	paths := make([]string, len(there))
	for i, name := range there {
		paths[i] = r.inCheckout(name)
	}
	protects := r.Protection(paths)
	return func(name string) (Protected, bool) { return protects(r.inCheckout(name)) }
}

// names are the files that differ between two commits.
func (s *scratch) names(ctx context.Context, base, commit string) ([]string, error) {
	out, err := s.run(ctx, "", nil, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, commit)
	return split(out), err
}

// Dirty are the files of the checkout that have changes that no commit has, sorted.
func (r *Repo) Dirty(ctx context.Context) ([]string, error) {
	status, err := r.status(ctx)
	var names []string
	for name := range status {
		names = append(names, named(name))
	}
	slices.Sort(names)
	return names, err
}

// status is how the files of the checkout differ from its index, and that from HEAD.
func (r *Repo) status(ctx context.Context) (map[string]string, error) {
	head, err := r.onRefs(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD")
	var exit *ExitError
	if err != nil && !(errors.As(err, &exit) && exit.Code == 1) { // it is 1 on a branch without a commit
		return nil, fmt.Errorf("it cannot be told which commit is checked out at %s: %w", r.Checkout, err)
	}
	return r.statusAt(ctx, strings.TrimSpace(string(head)))
}

func (r *Repo) statusAt(ctx context.Context, head string) (map[string]string, error) {
	s, err := r.checkout(head)
	if err != nil {
		return nil, err
	}
	defer s.close()
	out, err := s.run(ctx, r.Checkout, nil, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames")
	if err != nil {
		return nil, fmt.Errorf("the state of the checkout %s cannot be told: %w", r.Checkout, err)
	}
	status := map[string]string{}
	fields := map[byte]int{'1': 9, 'u': 11, '?': 2}
	for _, line := range split(out) {
		parts := strings.SplitN(line, " ", fields[line[0]])
		if len(parts) < 2 {
			return nil, fmt.Errorf("git status printed %q", line)
		}
		status[parts[len(parts)-1]] = strings.Join(parts[:len(parts)-1], " ")
	}
	return status, nil
}

// checkout is a scratch directory for looking at the checkout through its own index.
func (r *Repo) checkout(head string) (*scratch, error) {
	s, err := r.scratch(r.Checkout, filepath.Join(r.GitDir, "index"))
	if err != nil {
		return nil, err
	}
	shared, _ := filepath.Glob(filepath.Join(r.GitDir, "sharedindex.*")) // of an index in two parts
	for _, path := range shared {
		if err := os.Symlink(path, filepath.Join(s.dir, filepath.Base(path))); err != nil {
			s.close()
			return nil, err
		}
	}
	if head != "" {
		err = s.setHead(head)
	}
	return s, err
}

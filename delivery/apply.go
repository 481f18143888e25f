package delivery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Fit is what applying a change to the checkout would do, or has done.
type Fit string

const (
	Fits     Fit = "fits"     // it was not applied, and can be
	Present  Fit = "present"  // the checkout has it
	Refused  Fit = "refused"  // it changes what is never changed
	Dirty    Fit = "dirty"    // a file that it touches has changes of its own
	Conflict Fit = "conflict" // the files are not as it expects them
	Unclear  Fit = "unclear"  // nobody can look at them
)

// Fit looks whether the change from base to commit is in the checkout, or could be put
// there. names are the files that have changes of their own, or that are never changed.
func (r *Repo) Fit(ctx context.Context, base, commit string) (fit Fit, names []string, err error) {
	fit, names, _, err = r.fit(ctx, base, commit)
	return fit, names, err
}

// Apply puts the change from base to commit into the checkout, uncommitted. If it is
// not [Fits], or somebody has meddled with the repository, it has changed nothing.
func (r *Repo) Apply(ctx context.Context, base, commit string) (Fit, error) {
	fit, _, patch, err := r.fit(ctx, base, commit)
	if err != nil || fit != Fits {
		return fit, err
	}
	return Fits, r.write(ctx, func() error { return r.patchCheckout(ctx, patch) })
}

func (r *Repo) fit(ctx context.Context, base, commit string) (fit Fit, names []string, patch []byte, err error) {
	s, err := r.scratch("", "")
	if err != nil {
		return "", nil, nil, err
	}
	defer s.close()
	if patch, err = s.run(ctx, "", nil, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv",
		"--src-prefix=a/", "--dst-prefix=b/", base, commit); err != nil {
		return "", nil, nil, err
	}
	if len(patch) == 0 {
		return Present, nil, nil, nil
	}
	changed, err := s.names(ctx, base, commit)
	if err != nil {
		return "", nil, nil, err
	}
	touched := map[string]bool{}
	for _, name := range changed {
		touched[name] = true
	}
	names = r.protected(changed, tipstaff.ApplyNever)
	switch there, err := r.tryPatch(ctx, patch, "--reverse"); {
	case there:
		return Present, nil, patch, nil
	case len(names) > 0: // git itself refuses some of them
		return Refused, names, patch, nil
	case err != nil:
		return "", nil, nil, err
	}
	status, err := r.status(ctx)
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
		return Dirty, names, patch, nil
	}
	fits, err := r.tryPatch(ctx, patch)
	if fits {
		return Fits, nil, patch, err
	}
	return Conflict, nil, patch, err
}

// protected are those of some files with whose changes `apply` does this.
func (r *Repo) protected(files []string, apply string) (names []string) {
	for _, name := range files {
		if p, ok := r.protects(name); ok && p.Apply == apply {
			names = append(names, named(name))
		}
	}
	return names
}

// protects says why runs may not change a file of the checkout.
func (r *Repo) protects(name string) (Protected, bool) {
	if r.Protection == nil {
		return Protected{}, false
	}
	return r.Protection(filepath.Join(r.Checkout, filepath.FromSlash(name)))
}

// names are the files that differ between two commits.
func (s *scratch) names(ctx context.Context, base, commit string) ([]string, error) {
	out, err := s.run(ctx, "", nil, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, commit)
	return split(out), err
}

func (r *Repo) tryPatch(ctx context.Context, patch []byte, args ...string) (bool, error) {
	err := r.patchCheckout(ctx, patch, append(args, "--check")...)
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == 1 {
		return false, nil
	}
	return err == nil, err
}

func (r *Repo) patchCheckout(ctx context.Context, patch []byte, args ...string) error {
	s, err := r.scratch(r.Checkout, "")
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.run(ctx, r.Checkout, patch, append([]string{"apply", "--whitespace=nowarn"}, args...)...); err != nil {
		return fmt.Errorf("the change cannot be applied to %s: %w", r.Checkout, err)
	}
	return nil
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

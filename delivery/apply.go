package delivery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Fit is what applying a change to the checkout would do, or has done.
type Fit string

const (
	Fits     Fit = "fits"     // it was not applied, and can be
	Present  Fit = "present"  // the checkout has it
	Dirty    Fit = "dirty"    // a file that it touches has changes of its own
	Conflict Fit = "conflict" // the files are not as it expects them
)

// Fit looks whether the change from base to commit is in the checkout, or could be put
// there. names are the files that have changes of their own.
func (r *Repo) Fit(ctx context.Context, base, commit string) (fit Fit, names []string, err error) {
	fit, names, _, err = r.fit(ctx, base, commit)
	return fit, names, err
}

// Apply puts the change from base to commit into the checkout, uncommitted. If it is
// not [Fits] it has changed nothing.
func (r *Repo) Apply(ctx context.Context, base, commit string) (Fit, error) {
	fit, _, patch, err := r.fit(ctx, base, commit)
	if err != nil || fit != Fits {
		return fit, err
	}
	return Fits, r.patchCheckout(ctx, patch)
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
	out, err := s.run(ctx, "", nil, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, commit)
	if err != nil {
		return "", nil, nil, err
	}
	touched := map[string]bool{}
	for _, name := range split(out) {
		touched[name] = true
	}
	there, err := r.tryPatch(ctx, patch, "--reverse")
	if err != nil {
		return "", nil, nil, err
	}
	if there {
		return Present, nil, patch, nil
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
	head, err := r.own(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD")
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
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

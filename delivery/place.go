package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tipstaff/tipstaff/filestamp"
)

// A change is put into the checkout in two steps. First git writes all that is new beside it,
// on the same disk: what can fail for want of room fails there. Then files are renamed, one
// after the other; if one cannot be, those before it go back to where they were.

// UnsettledError is a change of which the checkout has a part, which could not be taken back.
type UnsettledError struct{ Err error }

func (e *UnsettledError) Error() string {
	return "the checkout has a part of the change, which could not be taken back: " + e.Err.Error()
}

func (e *UnsettledError) Unwrap() error { return e.Err }

// errInTheWay is something in the checkout that has no place in the change: it has come
// meanwhile, or git ignores it.
var errInTheWay = errors.New("something is in the way")

// placing is a change on its way into the checkout.
type placing struct {
	repo  *Repo
	stood map[string]filestamp.Stamp
	fresh string // what git has written
	old   string // what it takes the place of
	undo  []func() error
}

// place puts changes into the checkout.
func (s *scratch) place(ctx context.Context, commit string, changes []change) (err error) {
	beside, err := s.repo.beside(commit)
	if err != nil {
		return err
	}
	p := &placing{repo: s.repo, stood: s.stood, fresh: filepath.Join(beside, "new"), old: oldIn(beside)}
	if err := removeAll(beside); err != nil { // of an attempt that was broken off
		return err
	}
	err = s.writeBeside(ctx, p, changes)
	if err == nil {
		if err = p.all(changes); err != nil {
			err = p.takeBack(err)
		}
	}
	var unsettled *UnsettledError
	if !errors.As(err, &unsettled) { // which is to be put right from what lies there
		err = errors.Join(err, removeAll(beside))
	}
	if err != nil && !errors.Is(err, errInTheWay) {
		err = fmt.Errorf("the change cannot be applied to %s: %w", s.repo.Checkout, err)
	}
	return err
}

// beside is where the files of a commit are written first: in the repository, where nobody
// looks, or else in the checkout, which is on the disk to which they belong.
func (r *Repo) beside(commit string) (string, error) {
	var of [2]syscall.Stat_t
	for i, dir := range []string{r.GitDir, r.Checkout} {
		if err := syscall.Stat(dir, &of[i]); err != nil {
			return "", &fs.PathError{Op: "stat", Path: dir, Err: err}
		}
	}
	if of[0].Dev == of[1].Dev {
		return filepath.Join(r.GitDir, besideOf(r.worktree)+short(commit)), nil
	}
	return filepath.Join(r.Checkout, "."+besideOf(r.worktree)+short(commit)), nil
}

// besideOf begins the names of what is written beside the checkout of the commits of a worktree;
// "": of a run without one of its own.
func besideOf(worktree string) string {
	if worktree == "" {
		return "tipstaff-apply-"
	}
	return "tipstaff-apply-" + filepath.Base(worktree) + "-"
}

// forgetPlacings removes what attempts have left beside that were broken off, of all commits of a
// worktree. Files that they have replaced were as git has them.
func (r *Repo) forgetPlacings(w Worktree) error {
	var errs []error
	for _, begin := range []string{filepath.Join(r.GitDir, besideOf(w.Path)), filepath.Join(r.Checkout, "."+besideOf(w.Path))} {
		left, err := filepath.Glob(escapeGlob(begin) + "*")
		errs = append(errs, err)
		for _, path := range left {
			errs = append(errs, removeAll(path))
		}
	}
	return errors.Join(errs...)
}

func oldIn(beside string) string { return filepath.Join(beside, "old") }

// forgetPlacing removes what an attempt has left beside that was broken off when all was done.
func (r *Repo) forgetPlacing(commit string) {
	if beside, err := r.beside(commit); err == nil {
		_ = removeAll(beside) // it harms nobody
	}
}

func (s *scratch) writeBeside(ctx context.Context, p *placing, changes []change) error {
	var entries, ids []string
	for _, c := range changes {
		if c.mode != modeNone && c.mode != gitlink {
			entries, ids = append(entries, c.mode+" "+c.now+"\t"+c.path), append(ids, c.now)
		}
	}
	sizes, err := s.sizes(ctx, ids)
	if err != nil {
		return err
	}
	need := int64(0)
	for _, id := range ids {
		need += sizes[id]
	}
	for _, c := range changes {
		if c.large != nil {
			need += c.large.size
		}
	}
	if at, free := fullest(s.files); at != "" && need > free {
		return &FullError{Path: at, Need: need, Free: free}
	}
	for _, dir := range []string{p.fresh, p.old} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := s.enter(ctx, entries); err != nil || len(entries) == 0 {
		return err
	}
	_, err = s.run(ctx, s.files, nil, "checkout-index", "--quiet", "--all", "--prefix="+p.fresh+"/")
	var none *FullError
	if errors.As(err, &none) {
		none.Need = need
	}
	if err != nil {
		return err
	}
	return s.writeLarge(ctx, p.fresh, changes)
}

// renameFile has a file take a place; tests let it fail.
var renameFile = os.Rename

// all puts all files in their places: first those go that give way to others.
func (p *placing) all(changes []change) error {
	for _, c := range changes {
		if c.mode == modeNone {
			if err := p.remove(c); err != nil {
				return err
			}
		}
	}
	for _, c := range changes {
		if c.mode != modeNone {
			if err := p.put(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove takes a file away, and the folders that are empty without it.
func (p *placing) remove(c change) error {
	at := p.repo.inCheckout(c.path)
	if c.modeBefore == gitlink {
		p.removeDir(at) // of one that is not empty the files stay, as git has it
		return nil
	}
	if err := p.setAside(c); err != nil {
		return err
	}
	for dir := path.Dir(c.path); dir != "." && p.removeDir(p.repo.inCheckout(dir)); dir = path.Dir(dir) {
	}
	return nil
}

func (p *placing) put(c change) error {
	at := p.repo.inCheckout(c.path)
	if err := p.makeDirs(path.Dir(c.path)); err != nil {
		return err
	}
	info, err := os.Lstat(at)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && info.IsDir():
		if c.mode == gitlink {
			return nil
		}
		if !p.removeDir(at) {
			return fmt.Errorf("%w: %s is a folder that is not empty", errInTheWay, at)
		}
	case err == nil && c.modeBefore == modeNone:
		return fmt.Errorf("%w: %s has come meanwhile", errInTheWay, at)
	case err == nil:
		if err := p.setAside(c); err != nil {
			return err
		}
	}
	if c.mode == gitlink {
		return p.makeDir(at)
	}
	if err := move(filepath.Join(p.fresh, filepath.FromSlash(c.path)), at); err != nil {
		return err
	}
	p.undo = append(p.undo, func() error { return os.Remove(at) })
	return nil
}

// setAside keeps a file until all are in their places, if it is still the one that was looked at.
func (p *placing) setAside(c change) error {
	at := p.repo.inCheckout(c.path)
	if info, err := os.Lstat(at); err != nil {
		return err
	} else if filestamp.Of(info) != p.stood[c.path] {
		return fmt.Errorf("%w: %s has changed meanwhile", errInTheWay, at)
	}
	kept := filepath.Join(p.old, filepath.FromSlash(c.path))
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	if err := move(at, kept); err != nil {
		return err
	}
	p.undo = append(p.undo, func() error { return move(kept, at) })
	return nil
}

// removeDir removes a folder if it is empty.
func (p *placing) removeDir(at string) bool {
	info, err := os.Lstat(at)
	if err != nil || !info.IsDir() || syscall.Rmdir(at) != nil {
		return false
	}
	p.undo = append(p.undo, func() error { return errors.Join(os.Mkdir(at, 0o700), os.Chmod(at, info.Mode())) })
	return true
}

// makeDirs makes a folder of the checkout. It goes through no link.
func (p *placing) makeDirs(dir string) error {
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		full := p.repo.inCheckout(at)
		switch info, err := os.Lstat(full); {
		case errors.Is(err, fs.ErrNotExist):
			if err := p.makeDir(full); err != nil {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%w: %s is no folder", errInTheWay, full)
		}
	}
	return nil
}

func (p *placing) makeDir(at string) error {
	if err := os.Mkdir(at, 0o777); err != nil {
		return err
	}
	p.undo = append(p.undo, func() error { return os.Remove(at) })
	return nil
}

// takeBack makes the checkout what it was.
func (p *placing) takeBack(why error) error {
	var errs []error
	for i := len(p.undo) - 1; i >= 0; i-- {
		errs = append(errs, p.undo[i]())
	}
	if err := errors.Join(errs...); err != nil {
		return &UnsettledError{errors.Join(why, err)}
	}
	return why
}

// move renames a file. In a checkout of several disks it copies what is of another.
func move(from, to string) error {
	err := renameFile(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := os.Readlink(from)
		if err == nil {
			err = os.Symlink(target, to)
		}
		if err != nil {
			return err
		}
		return os.Remove(from)
	}
	in, err := openRegular(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return os.Remove(from)
}

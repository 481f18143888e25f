package delivery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What a worker commits is not what is delivered: that is what lies in the worktree at the end.
// So whoever decides is told what of the commits is not in it.

// committedTime is how long commits are looked through. A worker may have made any number.
const committedTime = 20 * time.Second

// committed are the files that commits of the worktree's own repository add or change, by its
// branches and its HEAD, as far as no ref of the user's reaches them.
func (r *Repo) committed(ctx context.Context, w Worktree) ([]string, error) {
	if r.Own == nil {
		return nil, nil // its commits are in the user's repository
	}
	ctx, cancel := context.WithTimeoutCause(ctx, committedTime, fmt.Errorf("it took longer than %s", committedTime))
	defer cancel()
	known, err := r.onRefs(ctx, nil, "for-each-ref", "--format=%(objectname)")
	if err != nil {
		return nil, err
	}
	s, err := r.bareScratch("", nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.shared = append(s.shared, filepath.Join(w.gitDir(), "objects"))
	s.reads = []string{w.gitDir()}
	for _, name := range []string{"refs", "packed-refs"} {
		if to := filepath.Join(w.gitDir(), name); exists(to) {
			err = errors.Join(err, os.Symlink(to, filepath.Join(s.dir, name)))
		}
	}
	if err = errors.Join(err, s.take(filepath.Join(w.gitDir(), "HEAD"), "HEAD")); err != nil {
		return nil, err
	}
	refs, err := s.run(ctx, "", nil, "for-each-ref", "--format=%(objectname)", "refs/heads")
	if err != nil {
		return nil, err
	}
	tips := strings.Fields(string(refs))
	head, err := s.run(ctx, "", nil, "rev-parse", "--verify", "--quiet", "HEAD")
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) { // a branch without a commit has none
		return nil, err
	}
	if id := strings.TrimSpace(string(head)); err == nil && r.isID(id) {
		tips = append(tips, id)
	}
	if len(tips) == 0 {
		return nil, nil
	}
	asked := append(tips, "^"+w.Base)
	for _, id := range strings.Fields(string(known)) {
		if r.isID(id) {
			asked = append(asked, "^"+id)
		}
	}
	out, err := s.run(ctx, "", []byte(strings.Join(asked, "\n")+"\n"), "log", "--stdin", "--ignore-missing", "-c", "-z", "--format=", "--name-only", "--no-renames", "--diff-filter=d", "--root")
	names := slices.DeleteFunc(split(out), func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names), err
}

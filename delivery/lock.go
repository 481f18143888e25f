package delivery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// BusyError is a lock that another process does not let go of.
type BusyError struct {
	Path  string
	Limit time.Duration // for how long it was waited for
	Hint  string        // how another limit is set
}

func (e *BusyError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("another process has held %s for more than %s: wait until it has ended, or end it, and try again; %s", e.Path, e.Limit, e.Hint), "; ")
}

// lock holds a lock among those of the worktrees until unlock is called. It waits for others no
// longer than one call of git may take.
func (e Env) lock(ctx context.Context, name string) (unlock func() error, err error) {
	if err := os.MkdirAll(e.Worktrees, 0o700); err != nil {
		return nil, err
	}
	path, limit := filepath.Join(e.Worktrees, name), cmp.Or(e.Git.Limit, DefaultLimit)
	limited, cancel := context.WithTimeoutCause(ctx, limit, &BusyError{Path: path, Limit: limit, Hint: e.Git.LimitHint})
	defer cancel()
	return e.Lock(limited, path)
}

// applyLock names the lock of those who apply something to a checkout of a repository. Others
// do not wait for them.
func applyLock(r *Repo) string {
	name := sha256.Sum256([]byte(r.Common))
	return fmt.Sprintf("apply-%x.lock", name[:8])
}

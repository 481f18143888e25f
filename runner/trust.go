package runner

import (
	"context"
	"time"

	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// A workspace that its user does not trust has nothing started and no credential sent. That is
// asked before a run is made or driven on, and again whenever a drive begins, by the manifest
// and the lock as they are then. A server has its runs wait until the workspace is trusted.

// RequireTrust refuses a workspace that its user does not trust.
func (r *Runner) RequireTrust() error {
	if r.Trust == nil {
		return nil
	}
	m, err := workspace.Read(r.Workspace)
	if err != nil || m == nil {
		return err
	}
	lock, err := r.lock()
	if err != nil {
		return err
	}
	return r.trusts(m, lock)
}

// trusts refuses a manifest and a lock that the user of the workspace does not trust.
func (r *Runner) trusts(m *workspace.Manifest, lock *tool.Lock) error {
	if r.Trust == nil {
		return nil
	}
	return r.Trust(r.Workspace, m.Starts(r.Workspace, lock.Names()))
}

// Untrusted is why nothing of the workspace is started or sent here; "": its user trusts it.
func (r *Runner) Untrusted() string {
	if r.Trust == nil {
		return ""
	}
	return r.here().untrusted
}

// mayBegin refuses a run that is to be driven, in a workspace that is not trusted or where the
// queue has no room for it.
func (r *Runner) mayBegin(ctx context.Context, user string, detach bool) error {
	if err := r.RequireTrust(); err != nil {
		return err
	}
	return r.roomFor(ctx, user, detach)
}

// untrustedEvery is how often a server looks whether its workspace is trusted by now.
const untrustedEvery = time.Second

// awaitTrust returns when a run of a server may be driven, or not before ctx ends. Meanwhile it
// counts as queued. Elsewhere nobody waits: the drive is refused.
func (r *Runner) awaitTrust(ctx context.Context, run string, p program) bool {
	noted := false
	for r.Serves && r.Untrusted() != "" && !r.cancelAsked(run) {
		if user := p.shared().draft.User; !noted {
			r.noteQueued(run, user, r.queue.held(user))
			noted = true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(untrustedEvery):
		}
	}
	return true
}

// cancelAsked reports whether somebody has asked for the end of a run: to have it end starts
// nothing.
func (r *Runner) cancelAsked(run string) bool {
	row, err := r.Store.Run(context.WithoutCancel(r.Stop), run)
	return err == nil && row.Cancel
}

package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// Serving is what the workspace's manifest says of the daemon.
func (r *Runner) Serving() (workspace.Serve, error) {
	m, err := r.manifest()
	return m.Serving(), err
}

// unfinished are the states in which a run can be driven on by itself. A draft waits
// for whoever made it.
var unfinished = []string{string(tipstaff.Proposed), string(tipstaff.Clarifying), string(tipstaff.Accepted), string(tipstaff.Executing)}

// TakeUp drives on what an earlier owner of this kind left: the runs that it was
// driving when it ended, and those that it had not come to, in the order in which they
// were made. What others were driving waits for somebody to resume it. It tells how
// many there were.
func (r *Runner) TakeUp(ctx context.Context, kind string) (int, error) {
	rows, err := r.Store.Runs(ctx, flow.Query{States: unfinished})
	if err != nil {
		return 0, explain(err, tipstaff.ID{})
	}
	taken := 0
	for _, row := range slices.Backward(rows) {
		left, err := r.leftBy(ctx, row, kind)
		if err != nil {
			return taken, explain(err, idOf(row.ID))
		}
		if !left {
			continue
		}
		_, err = r.Resume(localUser(ctx), tipstaff.ResumeRequest{Run: idOf(row.ID)})
		switch {
		case err == nil:
			taken++
		case !errors.Is(err, &tipstaff.Error{Code: tipstaff.Busy}) && !errors.Is(err, &tipstaff.Error{Code: tipstaff.RunEnded}):
			return taken, err
		}
	}
	return taken, nil
}

// leftBy reports whether an owner of this kind was the last that a run had, and left it
// without parking it; or made it, and never came to drive it.
func (r *Runner) leftBy(ctx context.Context, row flow.Row, kind string) (bool, error) {
	switch tipstaff.Kind(row.Owned) {
	case "":
		return row.Origin == kind && row.Base == "", nil // a fork waits for whoever made it
	case tipstaff.KindRunInterrupted:
		last, err := lastOwner(ctx, r.Store, row)
		return last == kind, err
	}
	return false, nil
}

// lastOwner is the kind of the owner that a run had last.
func lastOwner(ctx context.Context, src source, row flow.Row) (string, error) {
	for end := row.Head; end > 0; end -= pageSize {
		page, err := src.Records(ctx, row.ID, max(0, end-pageSize), pageSize)
		if err != nil {
			return "", err
		}
		for _, s := range slices.Backward(page) {
			if s.Seq > end || s.Kind != string(tipstaff.KindRunStarted) && s.Kind != string(tipstaff.KindRunResumed) {
				continue
			}
			e, err := tipstaff.ParseEvent(s.Bytes)
			if err != nil {
				return "", err
			}
			return tipstaff.BodyOf[tipstaff.RunStarted](&e).Kind, nil
		}
	}
	return "", nil
}

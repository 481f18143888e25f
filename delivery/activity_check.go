package delivery

import (
	"context"
	"errors"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// check runs a command, and binds what comes of it to the tree that it ran on. Whatever becomes
// of it, what was found changed is told.
func (e Env) check(ctx context.Context, a flow.Attempt, in checkInput) (got checked, keep []string, err error) {
	got.Receipt = tipstaff.Receipt{Name: in.Check.Name, Argv: in.Check.Run, Required: in.Check.Required, Tree: in.Tree, In: in.Check.In}
	if in.Tree != "" {
		got.Receipt.In = tipstaff.InClean
	}
	r, before, err := e.beforeCheck(ctx, in, &got.Receipt)
	if err != nil {
		return got, nil, got.unlooked(ctx, err)
	}
	linked, err := e.Git.LinkedChanged(ctx, in.Worktree)
	if err != nil {
		return got, nil, err
	}
	if len(linked) > 0 {
		got.Receipt.Code, got.Receipt.Message = tipstaff.LinkedChanged, "it was not run: what a link of the worktree leads to has changed"
	} else if keep, err = e.runCheck(ctx, a, r, in, &got); err != nil {
		return got, nil, err
	}
	var after *Fingerprint
	if err = r.Restore(ctx, in.Worktree); err == nil { // first: it makes way for whoever looks
		after, err = r.Fingerprint(ctx)
	}
	got.Notices = append(linked, r.Meddling()...)
	if err != nil {
		return got, keep, got.unlooked(ctx, err)
	}
	got.Notices = slices.Concat(linked, Compare(before, after), r.Meddling())
	return got, keep, nil
}

func (e Env) beforeCheck(ctx context.Context, in checkInput, receipt *tipstaff.Receipt) (r *Repo, before *Fingerprint, err error) {
	if r, err = e.at(ctx, in.Place, in.Worktree); err != nil {
		return nil, nil, err
	}
	if before, err = r.Fingerprint(ctx); err == nil && in.Tree == "" {
		receipt.Tree, err = r.writeTree(ctx, in.Worktree)
	}
	return r, before, err
}

// unlooked makes a check, beside which nobody could look at the repository, one that has failed:
// the gate says so, and the run goes on to it.
func (got *checked) unlooked(ctx context.Context, err error) error {
	if ctx.Err() != nil || noRoom(err) {
		return err
	}
	got.Receipt.Code, got.Receipt.Message = CannotLook, err.Error()
	if errors.Is(err, ErrWorktreeMissing) {
		got.Receipt.Code = tipstaff.BlockWorktree
	}
	return nil
}

// runCheck runs the command of a check, once there is a place for it.
func (e Env) runCheck(ctx context.Context, a flow.Attempt, r *Repo, in checkInput, got *checked) (keep []string, err error) {
	command := Command{Argv: in.Check.Run, Dir: placeWithin(in.Place, in.Worktree.Path), Timeout: in.Check.Timeout, Env: in.Worktree.Environ()}
	if in.Tree != "" {
		var clean *cleanCheckout
		clean, keep, err = e.cleanFor(ctx, a, r, in, got)
		var failed *flow.Error
		switch {
		case errors.As(err, &failed) && failed.Code == CodeSetup:
		case err != nil:
			return nil, err
		default:
			failed = clean.failed()
		}
		if failed != nil {
			got.Receipt.Code, got.Receipt.Message = failed.Code, failed.Message
			return keep, nil
		}
		command.Dir, command.Env = placeWithin(in.Place, clean.dir), portsEnv(clean.ports)
	}
	ran, _, kept, err := e.run(ctx, a, command)
	of := got.Receipt
	ran.Name, ran.Required, ran.Tree, ran.In = of.Name, of.Required, of.Tree, of.In
	got.Receipt = ran
	return append(keep, kept...), err
}

package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Env is what the activities need of the world.
type Env struct {
	Git       *Git
	Worktrees string // the folder of all of them; see [Worktrees]
	// Check runs a command in a directory, if it may: it passes the capability gate as any
	// call of builtin/exec with these arguments. An error that is no [*flow.Error] says
	// that it could not be run.
	Check func(ctx context.Context, a flow.Attempt, c Command) (exit int, output []byte, err error)
	// Lock holds a lock on a file until unlock is called or the process ends. It waits no
	// longer than until ctx ends, and returns the cause then.
	Lock func(ctx context.Context, name string) (unlock func() error, err error)
	// Put stores a document or payload by its digest.
	Put func(context.Context, []byte) (digest string, err error)
	// Redact takes out of a text the credentials that the run knows; nil: it knows none.
	Redact func([]byte) []byte
	// Protection is what runs may not change; nil: anything may be changed.
	Protection Protection
}

// Inputs and results of the activities. They are recorded.
type (
	worktreeInput struct {
		Run   string    `json:"run"`
		Place Place     `json:"place"`
		Base  string    `json:"base"`
		Takes *Worktree `json:"takes,omitempty"` // over from its parent
		// Give: it is given what Prepare names, and what the checkout says.
		Give    bool                 `json:"give,omitempty"`
		Prepare document.Preparation `json:"prepare,omitzero"`
	}
	worktreeMade struct {
		Worktree
		Dirty   int                    `json:"dirty,omitempty"`  // files of the checkout whose changes are not in it
		Copied  int                    `json:"copied,omitempty"` // files of the checkout that git ignores
		Bytes   int64                  `json:"bytes,omitempty"`
		LeftOut []tipstaff.FileLeftOut `json:"left_out,omitempty"`
	}
	checkInput struct {
		Place    Place                 `json:"place"`
		Worktree Worktree              `json:"worktree"`
		Check    document.DeliverCheck `json:"check"`
		// Tree is what it runs on, in a clean checkout; "": it runs in the worktree.
		Tree    string               `json:"tree,omitempty"`
		Prepare document.Preparation `json:"prepare,omitzero"` // of that checkout
	}
	checked struct {
		Receipt tipstaff.Receipt   `json:"receipt"`
		Setup   []tipstaff.Receipt `json:"setup,omitempty"` // of the commands that have made the checkout ready before it
		Notices []tipstaff.Notice  `json:"notices,omitempty"`
		// Teardown is of the commands that have run before a checkout was made anew.
		Teardown []tipstaff.Receipt `json:"teardown,omitempty"`
	}
	diffInput struct {
		Place    Place    `json:"place"`
		Worktree Worktree `json:"worktree"`
		Stage    string   `json:"stage,omitempty"`
		Obeyed   bool     `json:"obeyed,omitempty"` // what is obeyed is looked for, and credentials
	}
	diffed struct {
		tipstaff.DiffRecorded
		First    []tipstaff.FileChange   `json:"first"` // of the files
		Names    []string                `json:"names"` // of all of them, old ones included
		Obeyed   []tipstaff.ObeyedFile   `json:"obeyed,omitempty"`
		Folders  []tipstaff.FolderChange `json:"folders,omitempty"`  // of the files that are not among the first
		Secret   []string                `json:"secret,omitempty"`   // files that hold a credential
		Meddling []tipstaff.Notice       `json:"meddling,omitempty"` // with the worktree's own repository
	}
	commitInput struct {
		Place    Place              `json:"place"`
		Worktree Worktree           `json:"worktree"`
		Run      string             `json:"run"`
		N        int                `json:"n"`
		Tree     string             `json:"tree"`
		Title    string             `json:"title"`
		Program  string             `json:"program"`
		At       int64              `json:"at"`
		Branch   string             `json:"branch"`
		Teardown []document.Command `json:"teardown,omitempty"`
		Withheld bool               `json:"withheld,omitempty"` // there is a credential in it: nothing may name it
	}
	committed struct {
		N       int      `json:"n"`
		Commit  string   `json:"commit"`
		Taken   bool     `json:"taken,omitempty"` // the branch
		Fit     Fit      `json:"fit"`
		Dirty   []string `json:"dirty,omitempty"`
		Missing bool     `json:"missing,omitempty"` // the worktree
		Secret  []string `json:"secret,omitempty"`  // files with a credential that was not known when the difference was recorded
		// Lost: what was recorded of the worktree. Unreadable: why nobody could look at more.
		Lost       bool               `json:"lost,omitempty"`
		Unreadable string             `json:"unreadable,omitempty"`
		Meddled    []string           `json:"meddled,omitempty"`  // settings of the repository
		Teardown   []tipstaff.Receipt `json:"teardown,omitempty"` // of the clean checkout
		Notices    []tipstaff.Notice  `json:"notices,omitempty"`
		// Obeyed is what is obeyed among the changed files, of a gate that opens again; nil: nobody
		// has looked. Names: an acceptance is of the files that the gate names.
		Obeyed *[]tipstaff.ObeyedFile `json:"obeyed,omitempty"`
		Names  bool                   `json:"names,omitempty"`
	}
	publishInput struct {
		Place    Place              `json:"place"`
		Worktree Worktree           `json:"worktree"`
		Branch   string             `json:"branch"`
		Commit   string             `json:"commit"`
		Tree     string             `json:"tree"`
		Teardown []document.Command `json:"teardown,omitempty"`
	}
	applyInput struct {
		Place    Place     `json:"place"`
		Worktree *Worktree `json:"worktree,omitempty"` // beside which the commit is kept
		Base     string    `json:"base"`
		Commit   string    `json:"commit"`
		// What decides may be changed if the gate has named it and that was accepted. Accepted is of
		// gates that did not record what an acceptance is of.
		Asks     bool     `json:"asks,omitempty"`
		Accepted bool     `json:"accepted,omitempty"`
		Named    []string `json:"named,omitempty"`
	}
	delivered struct {
		Blocked  string             `json:"blocked,omitempty"` // by what; nothing was done
		Files    []string           `json:"files,omitempty"`   // that block it
		Why      string             `json:"why,omitempty"`     // where that does not say it
		none     bool               // the checkout was looked at, and has none of the changes
		Already  bool               `json:"already,omitempty"` // it had been done before
		Kept     bool               `json:"kept,omitempty"`    // the worktree, for it has changed since
		Teardown []tipstaff.Receipt `json:"teardown,omitempty"`
	}
)

// by says what blocks it.
func (d delivered) by() string {
	switch {
	case d.Why != "":
		return d.Blocked + ": " + d.Why
	case len(d.Files) > 0:
		return d.Blocked + " (" + some(d.Files) + ")"
	}
	return d.Blocked
}

// CodeWorktreeEdited is the notice that a worktree has changed since its commit was made.
const CodeWorktreeEdited = "worktree_edited"

// maxOutput is how much of what a check prints is kept: the end of it.
const maxOutput = 1 << 20

// Activities are what [Run] asks for.
func Activities(env Env) map[string]flow.Activity {
	return map[string]flow.Activity{
		ActWorktree: {Run: perform(env.worktree)},
		ActSetup:    {Run: perform(env.setup)},
		ActCheck:    {Run: perform(env.check)},
		ActDiff:     {Run: perform(env.diff)},
		ActCommit:   {Run: perform(env.commit)},
		ActPublish:  {Run: perform(env.publish)},
		ActApply:    {Run: perform(env.apply), Recall: perform(env.recallApply), Stops: func(flow.Attempt) bool { return true }},
	}
}

// perform is an activity of a function over what is recorded of it. Of errors, those
// that are recorded have a code.
func perform[In, Out any](f func(context.Context, flow.Attempt, In) (Out, []string, error)) func(context.Context, flow.Attempt) (flow.Done, error) {
	return func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		in, err := decoded[In](a.Input)
		if err != nil {
			return flow.Done{}, err
		}
		out, keep, err := f(ctx, a, in)
		if err != nil {
			return flow.Done{}, coded(err)
		}
		return flow.Done{Value: flow.JSON(out), Keep: keep}, nil
	}
}

// coded is an error as a call's failure. What is no failure of ours stays as it is.
func coded(err error) error {
	var known *flow.Error
	var said *tipstaff.Error
	var unsettled *UnsettledError
	switch {
	case errors.As(err, &known), errors.Is(err, flow.ErrParked), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, ErrWorktreeMissing):
		return &flow.Error{Code: tipstaff.BlockWorktree, Message: err.Error(), Answered: true}
	case errors.As(err, &unsettled): // which is in doubt, whatever the reason
	case noRoom(err):
		return &flow.Error{Code: tipstaff.BlockDisk, Message: fullText(err), Answered: true}
	case errors.As(err, &said):
		return &flow.Error{Code: string(said.Code), Message: said.Message, Answered: true}
	}
	return &flow.Error{Code: "git_failed", Message: err.Error()}
}

// at is the repository as a run sees it, whose own is as it should be.
func (e Env) at(ctx context.Context, p Place, w Worktree) (*Repo, error) {
	r, err := At(ctx, e.Git, p)
	if err != nil {
		return nil, err
	}
	r = r.With(w)
	return r, r.Restore(ctx, w)
}

// obstacle is what came in the way of something that has changed nothing, as what blocks the
// actions of a gate: a person may clear it, or decide otherwise. What ends the attempt stays an
// error. r may be nil.
func (e Env) obstacle(ctx context.Context, r *Repo, base, tree string, err error) (delivered, error) {
	var known *flow.Error
	var meddled *MeddledError
	switch {
	case ctx.Err() != nil, errors.As(err, &known), errors.Is(err, flow.ErrParked):
		return delivered{}, err
	case errors.Is(err, ErrBranchExists):
		return delivered{Blocked: tipstaff.BlockBranch}, nil
	case errors.As(err, &meddled):
		return delivered{Blocked: tipstaff.BlockRepository}, nil
	case noRoom(err):
		return delivered{Blocked: tipstaff.BlockDisk, Why: fullText(err)}, nil
	}
	if r != nil {
		if lost, _ := r.Lost(ctx, base, tree); lost { // where that cannot be told, err says why
			return delivered{Blocked: tipstaff.BlockWorktree}, nil
		}
	}
	return delivered{Blocked: tipstaff.BlockUnreadable, Why: err.Error()}, nil
}

// secretIn are the files of a recorded change into which a credential came, by what is known
// now: it may be more than when the change was recorded.
func (e Env) secretIn(ctx context.Context, r *Repo, base, tree string) ([]string, error) {
	if e.Redact == nil {
		return nil, nil
	}
	d, err := r.Diff(ctx, base, tree)
	if err != nil {
		return nil, err
	}
	return d.conceal(ctx, r, e.Redact)
}

func (e Env) worktree(ctx context.Context, a flow.Attempt, in worktreeInput) (made worktreeMade, _ []string, err error) {
	if in.Takes != nil {
		if made.Worktree = *in.Takes; !made.Present() {
			return made, nil, ErrWorktreeMissing
		}
		return made, nil, nil
	}
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return made, nil, err
	}
	if made.Worktree, err = r.AddWorktree(ctx, filepath.Join(e.Worktrees, in.Run), in.Base); err != nil {
		return made, nil, err
	}
	dirty, err := r.Dirty(ctx)
	if made.Dirty = len(dirty); err != nil || !in.Give {
		return made, nil, err
	}
	g, err := e.give(ctx, r, made.Path, in.Base, in.Prepare)
	if err != nil {
		return made, nil, notReady(ctx, err)
	}
	for i := range g.Linked {
		l := &g.Linked[i]
		if l.Digest, err = e.Git.digests.tree(ctx, l.Source); err != nil {
			return made, nil, notReady(ctx, fmt.Errorf("%s cannot be linked: %w", named(l.Path), err))
		}
	}
	made.Placed, made.Linked, made.Ports, made.LFS = g.Placed, g.Linked, g.Ports, in.Prepare.LFS
	made.Copied, made.Bytes, made.LeftOut = g.Copied, g.Bytes, g.LeftOut
	if err := r.With(made.Worktree).exclude(ctx, made.Path, r.admin(made.Worktree), made.Placed); err != nil {
		return made, nil, notReady(ctx, err)
	}
	return made, nil, nil
}

func decoded[T any](raw []byte) (v T, err error) {
	if err = json.Unmarshal(raw, &v); err != nil {
		err = &flow.Error{Code: flow.CodeInternal, Message: "the input is not what was expected: " + err.Error(), NotSent: true}
	}
	return v, err
}

package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

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
	Check func(ctx context.Context, a flow.Attempt, argv []string, dir string, timeout time.Duration) (exit int, output []byte, err error)
	// Put stores a document or payload by its digest.
	Put func(context.Context, []byte) (digest string, err error)
}

// Inputs and results of the activities. They are recorded.
type (
	worktreeInput struct {
		Run   string    `json:"run"`
		Place Place     `json:"place"`
		Base  string    `json:"base"`
		Takes *Worktree `json:"takes,omitempty"` // over from its parent
	}
	worktreeMade struct {
		Worktree
		Dirty int `json:"dirty,omitempty"` // files of the checkout whose changes are not in it
	}
	checkInput struct {
		Place    Place                 `json:"place"`
		Worktree Worktree              `json:"worktree"`
		Check    document.DeliverCheck `json:"check"`
	}
	checked struct {
		Receipt tipstaff.Receipt  `json:"receipt"`
		Notices []tipstaff.Notice `json:"notices,omitempty"`
	}
	diffInput struct {
		Place    Place    `json:"place"`
		Worktree Worktree `json:"worktree"`
		Stage    string   `json:"stage,omitempty"`
	}
	diffed struct {
		tipstaff.DiffRecorded
		First []tipstaff.FileChange `json:"first"` // of the files
		Names []string              `json:"names"` // of all of them, old ones included
	}
	commitInput struct {
		Place    Place    `json:"place"`
		Worktree Worktree `json:"worktree"`
		Run      string   `json:"run"`
		N        int      `json:"n"`
		Tree     string   `json:"tree"`
		Title    string   `json:"title"`
		Program  string   `json:"program"`
		At       int64    `json:"at"`
		Branch   string   `json:"branch"`
	}
	committed struct {
		N       int               `json:"n"`
		Commit  string            `json:"commit"`
		Taken   bool              `json:"taken,omitempty"` // the branch
		Fit     Fit               `json:"fit"`
		Dirty   []string          `json:"dirty,omitempty"`
		Missing bool              `json:"missing,omitempty"` // the worktree
		Notices []tipstaff.Notice `json:"notices,omitempty"`
	}
	publishInput struct {
		Place    Place    `json:"place"`
		Worktree Worktree `json:"worktree"`
		Branch   string   `json:"branch"`
		Commit   string   `json:"commit"`
		Tree     string   `json:"tree"`
	}
	applyInput struct {
		Place  Place  `json:"place"`
		Base   string `json:"base"`
		Commit string `json:"commit"`
	}
	delivered struct {
		Blocked string `json:"blocked,omitempty"` // by what; nothing was done
		Already bool   `json:"already,omitempty"` // it had been done before
		Kept    bool   `json:"kept,omitempty"`    // the worktree, for it has changed since
	}
)

// CodeWorktreeEdited is the notice that a worktree has changed since its commit was made.
const CodeWorktreeEdited = "worktree_edited"

// maxOutput is how much of what a check prints is kept: the end of it.
const maxOutput = 1 << 20

// Activities are what [Run] asks for.
func Activities(env Env) map[string]flow.Activity {
	return map[string]flow.Activity{
		ActWorktree: {Run: perform(env.worktree)},
		ActCheck:    {Run: perform(env.check)},
		ActDiff:     {Run: perform(env.diff)},
		ActCommit:   {Run: perform(env.commit)},
		ActPublish:  {Run: perform(env.publish)},
		ActApply:    {Run: perform(env.apply), Recall: perform(env.recallApply)},
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
	switch {
	case errors.As(err, &known), errors.Is(err, flow.ErrParked), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, ErrWorktreeMissing):
		return &flow.Error{Code: tipstaff.BlockWorktree, Message: err.Error(), Answered: true}
	case errors.As(err, &said):
		return &flow.Error{Code: string(said.Code), Message: said.Message, Answered: true}
	}
	return &flow.Error{Code: "git_failed", Message: err.Error()}
}

func (e Env) worktree(ctx context.Context, _ flow.Attempt, in worktreeInput) (made worktreeMade, _ []string, err error) {
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
	made.Dirty = len(dirty)
	return made, nil, err
}

// check runs a command, and binds what comes of it to the tree that it ran on.
func (e Env) check(ctx context.Context, a flow.Attempt, in checkInput) (got checked, keep []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return got, nil, err
	}
	tree, err := r.writeTree(ctx, in.Worktree)
	if err != nil {
		return got, nil, err
	}
	before, err := r.Fingerprint(ctx)
	if err != nil {
		return got, nil, err
	}
	c := in.Check
	started := time.Now()
	exit, output, err := e.Check(ctx, a, c.Run, filepath.Join(in.Worktree.Path, filepath.FromSlash(in.Place.Prefix)), c.Timeout)
	got.Receipt = tipstaff.Receipt{Name: c.Name, Argv: c.Run, Required: c.Required, Tree: tree, ExitCode: exit, Ms: time.Since(started).Milliseconds()}
	if err != nil {
		var known *flow.Error
		switch {
		case errors.Is(err, flow.ErrParked), ctx.Err() != nil:
			return got, nil, err
		case errors.As(err, &known):
			got.Receipt.Code, got.Receipt.Message = known.Code, known.Message
		default:
			got.Receipt.Code, got.Receipt.Message = "not_run", err.Error()
		}
	}
	if len(output) > 0 {
		if got.Receipt.Output, err = e.Put(ctx, output[max(0, len(output)-maxOutput):]); err != nil {
			return got, nil, err
		}
		keep = append(keep, got.Receipt.Output)
	}
	after, err := r.Fingerprint(ctx)
	if err != nil {
		return got, nil, err
	}
	got.Notices = Compare(before, after)
	return got, keep, nil
}

func (e Env) diff(ctx context.Context, _ flow.Attempt, in diffInput) (got diffed, keep []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return got, nil, err
	}
	var files []tipstaff.FileChange
	if got.DiffRecorded, files, keep, err = record(ctx, r, in.Worktree, in.Stage, e.Put); err != nil {
		return got, nil, err
	}
	got.First, got.Names = files[:min(maxListed, len(files))], []string{}
	for _, f := range files {
		if got.Names = append(got.Names, f.Path); f.Old != "" {
			got.Names = append(got.Names, f.Old)
		}
	}
	return got, keep, nil
}

// Recorded is what has changed in a worktree when a step or stage has ended, with the
// digests of the documents that it names.
func Recorded(ctx context.Context, r *Repo, w Worktree, stage string, put func(context.Context, []byte) (string, error)) (tipstaff.DiffRecorded, []string, error) {
	d, _, keep, err := record(ctx, r, w, stage, put)
	return d, keep, err
}

func record(ctx context.Context, r *Repo, w Worktree, stage string, put func(context.Context, []byte) (string, error)) (got tipstaff.DiffRecorded, files []tipstaff.FileChange, keep []string, err error) {
	d, err := r.Snapshot(ctx, w)
	if err != nil {
		return got, nil, nil, err
	}
	if files = d.Files; files == nil {
		files = []tipstaff.FileChange{}
	}
	got = tipstaff.DiffRecorded{Stage: stage, Base: w.Base, Tree: d.Tree, Files: len(files), Added: d.Added, Removed: d.Removed, Truncated: d.Truncated}
	if got.Patch, err = put(ctx, d.Patch); err != nil {
		return got, nil, nil, err
	}
	if got.List, err = put(ctx, flow.JSON(files)); err != nil {
		return got, nil, nil, err
	}
	return got, files, []string{got.Patch, got.List}, nil
}

// commit builds what would be delivered, and looks at what stands in its way.
func (e Env) commit(ctx context.Context, _ flow.Attempt, in commitInput) (made committed, _ []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return made, nil, err
	}
	made.N = in.N
	if made.Commit, err = r.Commit(ctx, Commit{Base: in.Worktree.Base, Tree: in.Tree, Title: in.Title, At: time.Unix(in.At, 0),
		Trailers: []Trailer{{"Tipstaff-Run", in.Run}, {"Tipstaff-Program", in.Program}}}); err != nil {
		return made, nil, err
	}
	if _, err := r.Keep(ctx, in.Run, in.N, made.Commit); err != nil {
		return made, nil, err
	}
	if made.Taken, err = r.BranchTaken(ctx, in.Branch, made.Commit); err != nil {
		return made, nil, err
	}
	if made.Fit, made.Dirty, err = r.Fit(ctx, in.Worktree.Base, made.Commit); err != nil {
		return made, nil, err
	}
	made.Dirty = made.Dirty[:min(len(made.Dirty), maxListed)]
	edited, err := r.edited(ctx, in.Worktree, in.Tree)
	if made.Missing = errors.Is(err, ErrWorktreeMissing); err != nil && !made.Missing {
		return made, nil, err
	}
	if edited {
		made.Notices = append(made.Notices, tipstaff.Notice{Code: CodeWorktreeEdited, Message: "the worktree has changed since; what is shown, and would be delivered, is as it was before"})
	}
	return made, nil, nil
}

// edited reports whether a worktree is another than a tree.
func (r *Repo) edited(ctx context.Context, w Worktree, tree string) (bool, error) {
	now, err := r.writeTree(ctx, w)
	return err == nil && now != tree, err
}

// publish makes the branch, and removes the worktree that nobody needs any more.
func (e Env) publish(ctx context.Context, _ flow.Attempt, in publishInput) (got delivered, _ []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return got, nil, err
	}
	switch err := r.Publish(ctx, in.Branch, in.Commit); {
	case errors.Is(err, ErrBranchExists):
		return delivered{Blocked: tipstaff.BlockBranch}, nil, nil
	case err != nil:
		return got, nil, err
	}
	// The index goes first: without it, an attempt that was broken off has begun to remove
	// the worktree.
	if _, err := os.Stat(in.Worktree.index()); err == nil {
		edited, err := r.edited(ctx, in.Worktree, in.Tree)
		if got.Kept = edited || err != nil && !errors.Is(err, ErrWorktreeMissing); got.Kept { // somebody's work may be there
			return got, nil, nil
		}
	}
	got.Kept = r.RemoveWorktree(ctx, in.Worktree) != nil // it is removed later
	return got, nil, nil
}

func (e Env) apply(ctx context.Context, _ flow.Attempt, in applyInput) (got delivered, _ []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return got, nil, notSent(err)
	}
	switch fit, err := r.Apply(ctx, in.Base, in.Commit); {
	case fit == Fits:
		return got, nil, err
	case err != nil:
		return got, nil, notSent(err)
	case fit == Present:
		return delivered{Already: true}, nil, nil
	case fit == Dirty:
		return delivered{Blocked: tipstaff.BlockDirty}, nil, nil
	}
	return delivered{Blocked: tipstaff.BlockConflict}, nil, nil
}

// notSent is the error of an attempt that has changed nothing.
func notSent(err error) error {
	var known *flow.Error
	if err = coded(err); errors.As(err, &known) {
		known.NotSent = true
	}
	return err
}

// recallApply looks what became of an attempt that was broken off: all of it is there, or
// nothing; else a person has to look.
func (e Env) recallApply(ctx context.Context, a flow.Attempt, in applyInput) (delivered, []string, error) {
	got, keep, err := e.apply(ctx, a, in)
	if err == nil && got.Blocked != "" {
		err = &flow.Error{Code: got.Blocked, Message: "the checkout has neither all of the changes nor none of them"}
	}
	if got.Already {
		got.Already = false // by that attempt
	}
	return got, keep, err
}

func decoded[T any](raw []byte) (v T, err error) {
	if err = json.Unmarshal(raw, &v); err != nil {
		err = &flow.Error{Code: flow.CodeInternal, Message: "the input is not what was expected: " + err.Error(), NotSent: true}
	}
	return v, err
}

package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

func (e Env) diff(ctx context.Context, _ flow.Attempt, in diffInput) (got diffed, keep []string, err error) {
	r, err := e.at(ctx, in.Place, in.Worktree)
	if err != nil {
		return got, nil, err
	}
	at := recorder{repo: r, put: e.Put, redact: e.Redact}
	d, holding, err := at.snapshot(ctx, in.Worktree)
	if err != nil {
		return got, nil, err
	}
	if got.DiffRecorded, keep, err = at.record(ctx, in.Worktree, in.Stage, d); err != nil {
		return got, nil, err
	}
	got.Meddling = r.Meddling()
	first := min(maxListed, len(d.Files))
	got.First, got.Names = append([]tipstaff.FileChange{}, d.Files[:first]...), []string{}
	for _, f := range d.Files {
		if got.Names = append(got.Names, f.Path); f.Old != "" {
			got.Names = append(got.Names, f.Old)
		}
	}
	if !in.Obeyed {
		return got, keep, nil
	}
	got.Secret, got.Folders = holding, folders(d.Files[first:])
	r.Protection = e.Protection
	if got.Obeyed, err = r.obeyed(ctx, in.Worktree, d); err != nil {
		return got, nil, err
	}
	at.obeyed(got.Obeyed)
	return got, keep, nil
}

// Recorded is what has changed in a worktree when a step or stage has ended, with the
// digests of the documents that it names. redact takes credentials out; nil: nothing does.
func Recorded(ctx context.Context, r *Repo, w Worktree, stage string, put func(context.Context, []byte) (string, error), redact func([]byte) []byte) (tipstaff.DiffRecorded, []string, error) {
	at := recorder{repo: r, put: put, redact: redact}
	d, _, err := at.snapshot(ctx, w)
	if err != nil {
		return tipstaff.DiffRecorded{}, nil, err
	}
	return at.record(ctx, w, stage, d)
}

// recorder records what has changed in a worktree.
type recorder struct {
	repo   *Repo
	put    func(context.Context, []byte) (string, error)
	redact func([]byte) []byte // nil: there is nothing to be taken out
}

func (t recorder) text(s string) string {
	if t.redact == nil {
		return s
	}
	return string(t.redact([]byte(s)))
}

// obeyed takes credentials out of files that are named first.
func (t recorder) obeyed(files []tipstaff.ObeyedFile) []tipstaff.ObeyedFile {
	for i := range files {
		files[i].Path, files[i].Reason = t.text(files[i].Path), t.text(files[i].Reason)
	}
	return files
}

// snapshot is what has changed, without credentials, and the files that hold one.
func (t recorder) snapshot(ctx context.Context, w Worktree) (d Diff, holding []string, err error) {
	if d, err = t.repo.Snapshot(ctx, w); err == nil && t.redact != nil {
		holding, err = d.conceal(ctx, t.repo.With(w), t.redact)
	}
	return d, holding, err
}

func (t recorder) record(ctx context.Context, w Worktree, stage string, d Diff) (got tipstaff.DiffRecorded, keep []string, err error) {
	got = tipstaff.DiffRecorded{Stage: stage, Base: w.Base, Tree: d.Tree, Files: len(d.Files), Added: d.Added, Removed: d.Removed, Truncated: d.Truncated}
	if got.Patch, err = t.put(ctx, d.Patch); err != nil {
		return got, nil, err
	}
	if got.List, err = t.put(ctx, flow.JSON(append([]tipstaff.FileChange{}, d.Files...))); err != nil {
		return got, nil, err
	}
	return got, []string{got.Patch, got.List}, nil
}

// commit builds what would be delivered, and looks at what stands in its way.
func (e Env) commit(ctx context.Context, a flow.Attempt, in commitInput) (made committed, keep []string, err error) {
	made.N, made.Fit, made.Missing, made.Names = in.N, Fits, !in.Worktree.Present(), true
	r, err := e.at(ctx, in.Place, in.Worktree)
	if err == nil {
		r.Protection = e.Protection
		err = e.build(ctx, r, in, &made)
		made.Notices = append(r.Meddling(), made.Notices...)
	}
	if err != nil && noRoom(err) { // which is asked about by itself
		return made, nil, err
	}
	if err != nil {
		made.Notices = append(made.Notices, Unlooked(err)) // also where something else blocks first
		by, err := e.obstacle(ctx, r, in.Worktree.Base, in.Tree, err)
		if err != nil {
			return made, nil, err
		}
		made.Lost, made.Unreadable = by.Blocked == tipstaff.BlockWorktree, by.Why
	}
	made.Teardown, keep, err = e.dropClean(ctx, a, in.Place, in.Worktree, in.Teardown)
	return made, keep, err
}

func (e Env) build(ctx context.Context, r *Repo, in commitInput, made *committed) (err error) {
	if in.Withheld {
		return nil
	}
	// First: what was recorded and is gone is recorded again, if the worktree still has it.
	switch edited, err := r.edited(ctx, in.Worktree, in.Tree); {
	case made.Missing:
	case noRoom(err):
		return err
	case err != nil: // nobody needs the worktree any more
		made.Notices = append(made.Notices, Unlooked(err))
	case edited:
		made.Notices = append(made.Notices, tipstaff.Notice{Code: CodeWorktreeEdited, Message: "the worktree has changed since; what is shown, and would be delivered, is as it was before"})
	}
	if in.N > 1 { // the first gate opens with the difference
		obeyed, err := r.obeyedNow(ctx, in.Worktree.Base, in.Tree)
		if err != nil {
			return err
		}
		obeyed = recorder{redact: e.Redact}.obeyed(append([]tipstaff.ObeyedFile{}, obeyed...))
		made.Obeyed = &obeyed
		if made.Secret, err = e.secretIn(ctx, r, in.Worktree.Base, in.Tree); err != nil || len(made.Secret) > 0 {
			return err
		}
	}
	if made.Commit, err = r.Commit(ctx, Commit{Base: in.Worktree.Base, Tree: in.Tree, Title: in.Title, At: time.Unix(in.At, 0),
		Trailers: []Trailer{{"Tipstaff-Run", in.Run}, {"Tipstaff-Program", in.Program}}}); err != nil {
		return err
	}
	if err := r.Keep(ctx, in.Run, in.N, made.Commit); err != nil {
		return err
	}
	f, err := r.facts(ctx, in.Worktree.Base, made.Commit, in.Branch)
	made.Lost, made.Taken, made.Meddled, made.Fit, made.Dirty = f.Lost, f.BranchTaken, f.Meddled, f.Fit, f.Dirty[:min(len(f.Dirty), maxListed)]
	return err
}

// edited reports whether a worktree is another than a tree.
func (r *Repo) edited(ctx context.Context, w Worktree, tree string) (bool, error) {
	now, err := r.writeTree(ctx, w)
	return err == nil && now != tree, err
}

// publish makes the branch, and removes the worktree that nobody needs any more.
func (e Env) publish(ctx context.Context, a flow.Attempt, in publishInput) (got delivered, keep []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err == nil {
		r = r.With(in.Worktree)
		got.Files, err = e.secretIn(ctx, r, in.Worktree.Base, in.Tree)
	}
	if len(got.Files) > 0 {
		return blockedBy(tipstaff.BlockSecret, got.Files), nil, nil
	}
	if err == nil {
		err = r.Publish(ctx, in.Branch, in.Commit)
	}
	if err != nil {
		got, err = e.obstacle(ctx, r, in.Worktree.Base, in.Tree, err)
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
	if got.Teardown, keep, err = e.tearDown(ctx, a, placeWithin(in.Place, in.Worktree.Path), in.Worktree.Ports, in.Teardown); err != nil {
		return got, nil, err
	}
	got.Kept = r.RemoveWorktree(ctx, in.Worktree) != nil // it is removed later
	return got, keep, nil
}

// apply puts the changes into the checkout. One at a time does: of two with the same changes
// the second finds them there, and none finds those of the other half done.
func (e Env) apply(ctx context.Context, _ flow.Attempt, in applyInput) (got delivered, _ []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err == nil {
		if in.Worktree != nil {
			r = r.With(*in.Worktree)
		}
		r.Protection = e.Protection
		var begun bool
		if got, begun, err = e.applyAt(ctx, r, in); begun {
			return got, nil, err
		}
	}
	if err != nil && ctx.Err() != nil {
		return got, nil, brokenOff(ctx)
	}
	if err != nil {
		got, err = e.obstacle(ctx, r, in.Base, in.Commit, err)
	}
	return got, nil, notSent(err)
}

// applyAt does so in a repository. begun: the checkout may have been changed.
func (e Env) applyAt(ctx context.Context, r *Repo, in applyInput) (got delivered, begun bool, err error) {
	unlock, err := e.lock(ctx, applyLock(r))
	var busy *BusyError
	switch {
	case errors.As(err, &busy):
		return delivered{Blocked: tipstaff.BlockBusy, Why: err.Error()}, false, nil
	case err != nil:
		return got, false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if secret, err := e.secretIn(ctx, r, in.Base, in.Commit); err != nil || len(secret) > 0 {
		return blockedBy(tipstaff.BlockSecret, secret), false, err
	}
	if in.Asks && !in.Accepted {
		asks, err := r.asks(ctx, in.Base, in.Commit)
		named := map[string]bool{}
		for _, name := range in.Named {
			named[name] = true
		}
		asks = slices.DeleteFunc(asks, func(name string) bool { return named[name] })
		if err != nil || len(asks) > 0 {
			return blockedBy(tipstaff.BlockObeyed, asks), false, err
		}
	}
	var meddled *MeddledError
	var unsettled *UnsettledError
	switch fit, err := r.Apply(ctx, in.Base, in.Commit); {
	case errors.As(err, &unsettled), fit == Fits && err == nil:
		return got, true, err
	case err != nil && ctx.Err() != nil:
		return got, false, err
	case fit == Fits && noRoom(err):
		return delivered{Blocked: tipstaff.BlockDisk, Why: fullText(err), none: true}, false, nil
	case fit == Fits && !errors.As(err, &meddled):
		return delivered{Blocked: tipstaff.BlockUnwritable, Why: err.Error(), none: true}, false, nil
	case err != nil:
		return got, false, err
	case fit == Present:
		r.forgetPlacing(in.Commit)
		return delivered{Already: true}, false, nil
	case fit == Unfetched: // and the checkout has none of the changes
		return delivered{Blocked: tipstaff.BlockContents, none: true}, false, nil
	case fit == Refused:
		return delivered{Blocked: tipstaff.BlockProtected}, false, nil
	case fit == Dirty:
		return delivered{Blocked: tipstaff.BlockDirty}, false, nil
	}
	return delivered{Blocked: tipstaff.BlockConflict}, false, nil
}

// blockedBy is something that files stand in the way of.
func blockedBy(code string, files []string) delivered {
	return delivered{Blocked: code, Files: files[:min(len(files), maxListed)]}
}

// asks are the changed files, as the checkout is now, about which whoever decides has to be
// asked.
func (r *Repo) asks(ctx context.Context, base, commit string) ([]string, error) {
	s, err := r.scratch("", "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	names, err := s.names(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	return s.protected(ctx, commit, names, tipstaff.ApplyAsks)
}

// brokenOff is the error of an attempt that has changed nothing, because ctx ended: it is not
// made any more if the run was cancelled, and later if only this process ends.
func brokenOff(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), flow.ErrCancelled) {
		return &flow.Error{Code: "cancelled", Message: "the run was cancelled before the checkout was changed", NotSent: true}
	}
	return ctx.Err()
}

// notSent is the error of an attempt that has changed nothing.
func notSent(err error) error {
	var known *flow.Error
	if err == nil {
		return nil
	}
	if err = coded(err); errors.As(err, &known) {
		known.NotSent = true
	}
	return err
}

// recallApply looks what became of an attempt that was broken off: all of it is there, or
// nothing; else a person has to look.
func (e Env) recallApply(ctx context.Context, a flow.Attempt, in applyInput) (delivered, []string, error) {
	got, keep, err := e.apply(ctx, a, in)
	if err == nil && got.Blocked == tipstaff.BlockBusy {
		got = e.unlocked(ctx, in, got)
	}
	switch {
	case err != nil, got.Blocked == "", got.none:
	case got.Blocked == tipstaff.BlockDirty, got.Blocked == tipstaff.BlockConflict:
		err = &flow.Error{Code: got.Blocked, Message: "the checkout has neither all of the changes nor none of them" + replacedBy(in)}
	default:
		err = &flow.Error{Code: got.Blocked, Message: "it cannot be told whether the checkout has the changes: " + got.by()}
	}
	if got.Already {
		got.Already = false // by that attempt
	}
	return got, keep, err
}

// unlocked is what became of it as far as that can be seen while another process holds the lock.
func (e Env) unlocked(ctx context.Context, in applyInput, busy delivered) delivered {
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return busy
	}
	if in.Worktree != nil {
		r = r.With(*in.Worktree)
	}
	switch fit, _, err := r.Fit(ctx, in.Base, in.Commit); {
	case err == nil && fit == Present:
		return delivered{Already: true}
	case err == nil && fit == Fits:
		busy.none = true
	}
	return busy
}

// replacedBy says where an attempt that was broken off has left the files that it had replaced.
func replacedBy(in applyInput) string {
	r := &Repo{Place: in.Place}
	if in.Worktree != nil {
		r = r.With(*in.Worktree)
	}
	if beside, err := r.beside(in.Commit); err == nil && exists(oldIn(beside)) {
		return "; files that were there before lie in " + oldIn(beside)
	}
	return ""
}

func decoded[T any](raw []byte) (v T, err error) {
	if err = json.Unmarshal(raw, &v); err != nil {
		err = &flow.Error{Code: flow.CodeInternal, Message: "the input is not what was expected: " + err.Error(), NotSent: true}
	}
	return v, err
}

package delivery

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

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

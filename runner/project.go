package runner

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// Folders keep the files of runs that follow from the store. They are for people and their
// programs: no answer is ever read from one.
type Folders interface {
	// ProjectRun writes files of a run, by their names in its folder.
	ProjectRun(run string, files map[string][]byte) error
	// Unprojected are the runs at rest whose files are missing.
	Unprojected(context.Context) ([]string, error)
}

// projector writes files of runs that have come to rest, one after the other and behind
// those who wait for the runs.
type projector struct {
	mu   sync.Mutex
	due  map[string]bool // by run
	idle chan struct{}   // closed when nothing is due; nil: nothing is being written
	errs error
}

// project has the files of a run written.
func (r *Runner) project(run string) {
	if r.Folders == nil {
		return
	}
	p := &r.projector
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due == nil {
		p.due = map[string]bool{}
	}
	p.due[run] = true
	if p.idle == nil {
		p.idle = make(chan struct{})
		go r.projectDue()
	}
}

func (r *Runner) projectDue() {
	p := &r.projector
	for {
		p.mu.Lock()
		var run string
		for run = range p.due {
			break
		}
		delete(p.due, run)
		if run == "" {
			close(p.idle)
			p.idle = nil
		}
		p.mu.Unlock()
		if run == "" {
			return
		}
		if err := r.projectRun(localUser(context.Background()), run); err != nil {
			p.mu.Lock()
			p.errs = errors.Join(p.errs, explain(err, idOf(run)))
			p.mu.Unlock()
		}
	}
}

// Flush returns when the files of runs are written that came to rest before, and tells
// what could not be: it is written when the store is opened next.
func (r *Runner) Flush() error {
	p := &r.projector
	for {
		p.mu.Lock()
		idle := p.idle
		if idle == nil {
			err := p.errs
			p.errs = nil
			p.mu.Unlock()
			return err
		}
		p.mu.Unlock()
		<-idle
	}
}

// Repair has the files written that are missing.
func (r *Runner) Repair(ctx context.Context) error {
	if r.Folders == nil {
		return nil
	}
	missing, err := r.Folders.Unprojected(ctx)
	for _, run := range missing {
		if ctx.Err() != nil {
			break
		}
		err = errors.Join(err, explain(r.projectRun(localUser(ctx), run), idOf(run)))
	}
	return err
}

// projectRun writes what follows from the records of a run: its evidence, its decisions, its
// changes and what it has brought forth.
func (r *Runner) projectRun(ctx context.Context, run string) error {
	bundle, err := tipstaff.EvidenceBundle(ctx, r, idOf(run))
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	if files[tipstaff.EvidenceName], err = canon.Form(flow.JSON(bundle)); err != nil {
		return err
	}
	gates, err := r.Store.Gates(ctx, flow.GateQuery{Run: run})
	if err != nil {
		return err
	}
	for _, g := range gates {
		if g.Decision.Gate == "" || !g.Decision.Decision() { // nobody decided it
			continue
		}
		_, raw, err := r.decisionOf(ctx, run, g)
		if err != nil {
			return err
		}
		files["decisions/"+g.ID+".json"] = raw
	}
	for _, f := range bundle.Artifacts.Items {
		if name := "artifacts/" + f.Name; f.Digest != "" && filepath.IsLocal(f.Name) {
			if data, err := r.Store.Blob(ctx, f.Digest); err == nil { // else it is kept elsewhere
				files[name] = data
			}
		}
	}
	if bundle.Delivery.Worktree != nil {
		if err := r.projectDiffs(ctx, run, files); err != nil {
			return err
		}
	}
	return r.Folders.ProjectRun(run, files)
}

// projectDiffs adds the patches of a run and of its stages, the last of each.
func (r *Runner) projectDiffs(ctx context.Context, run string, files map[string][]byte) error {
	return eachEvent(ctx, r.Store, run, 0, func(e *tipstaff.Event) error {
		if e.Kind != tipstaff.KindDiffRecorded {
			return nil
		}
		b := tipstaff.BodyOf[tipstaff.DiffRecorded](e)
		name := "diff.patch"
		if b.Stage != "" {
			name = "stages/" + b.Stage + "/diff.patch"
		}
		if b.Patch == "" || !filepath.IsLocal(name) {
			return nil
		}
		patch, err := r.Store.Blob(ctx, b.Patch)
		files[name] = patch
		return err
	})
}

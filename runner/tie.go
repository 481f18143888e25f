package runner

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/workspace"
)

// What works with something of one machine is tied to it, and driven there alone.

// tied reports whether what a program works with is on one machine: files, the sessions of
// a worker, or a server of which the manifest says so.
func (p *prepared) tied() bool {
	if p.files != nil {
		return true
	}
	for _, a := range p.agents.settled {
		if a.Way == pipeline.WayWorker {
			return true
		}
	}
	return local(p.manifest)
}

// tie is the machine that a new run is tied to: this one, or that of the run from which it
// takes over what is there; "": none.
func (r *Runner) tie(ctx context.Context, body *draftBody) (string, error) {
	if r.Pool == nil {
		return "", nil
	}
	source := ""
	switch {
	case body.ForkOf != nil:
		source = body.ForkOf.Run
	case body.Followup != nil:
		source = body.Followup.ParentRunID
	case body.tied:
		return r.Self("", "").Host, nil
	default:
		return "", nil
	}
	row, err := r.Store.Run(ctx, source)
	return row.Host, err
}

func local(m *workspace.Manifest) bool {
	if m == nil {
		return false
	}
	for _, s := range m.Servers {
		if s.Local {
			return true
		}
	}
	return false
}

// elsewhere says of a run that is tied to another machine, or that needs what this one lacks,
// why it is not driven here.
func (r *Runner) elsewhere(row flow.Row, p program) error {
	switch {
	case r.Pool == nil:
		return nil
	case row.Host == "" || row.Host == r.Self("", "").Host:
		if why := r.lacks(p.shared()); why != "" {
			return tipstaff.Errorf(tipstaff.WrongState, "run %s cannot be driven on this machine as it was made: %s", row.ID, why).
				WithCommand("resume it on a machine that has what it needs, or have a server there do so: tipstaff serve")
		}
		return nil
	}
	return tipstaff.Errorf(tipstaff.WrongState, "run %s works with files of machine %s, and is driven there alone", row.ID, row.Host).
		WithCommand("resume it there, or have a server there do so: tipstaff serve")
}

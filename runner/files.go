package runner

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Directory is where the agents of the run work. writes: one that may change files, for
// which the run needs a place.
func (e *Environment) Directory(writes bool) (string, error) {
	if !writes {
		return e.r.Workspace, nil
	}
	return "", tipstaff.Errorf(tipstaff.WorkerDirectory, "the program has no place where files may be changed").
		WithHint("say files: worktree in the program")
}

// Watch looks at the user's repository before an agent works beside it.
func (e *Environment) Watch(context.Context, string) (func(func(flow.Event)), error) {
	return func(func(flow.Event)) {}, nil
}

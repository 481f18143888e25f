package runner

import (
	"context"

	"github.com/tipstaff/tipstaff"
)

// Sessions are those with workers of the runner's workspace.
func (r *Runner) Sessions() tipstaff.Sessions { return workerSessions{r} }

type workerSessions struct{ *Runner }

// WorkerSessions implements [tipstaff.Sessions]. Whoever sees the runs of all still has
// only their own conversations.
func (s workerSessions) WorkerSessions(ctx context.Context, q tipstaff.SessionQuery) ([]tipstaff.WorkerSession, error) {
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return nil, err
	}
	list, err := s.Workers.WorkerSessions(ctx, q, userOf(ctx))
	return list, explain(err, tipstaff.ID{})
}

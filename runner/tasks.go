package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/worker"
)

// Workers is what a store keeps of workers: their tasks and their sessions. Errors have
// codes: task_not_found, task_conflict, session_unknown. A user is whose tasks or sessions
// are listed; "": everybody's.
type Workers interface {
	NewTask(context.Context, tipstaff.Task) (tipstaff.Task, error)
	Task(ctx context.Context, id string) (tipstaff.Task, error)
	Tasks(ctx context.Context, q tipstaff.TaskQuery, user string) ([]tipstaff.Task, error)
	TaskLog(ctx context.Context, id string) ([]tipstaff.TaskLogLine, error)
	UpdateTask(ctx context.Context, id string, revision int64, f func(*tipstaff.Task) error) (tipstaff.Task, error)
	// OpenTask makes, or finds, the task of a run's step or stage, in progress.
	OpenTask(ctx context.Context, run, path string, t tipstaff.Task) (tipstaff.Task, error)
	// RunTask is the task that the records of a run name so: in a fork, its own copy.
	RunTask(ctx context.Context, run, name string) (tipstaff.Task, error)

	PutSession(context.Context, tipstaff.WorkerSession) error
	Session(ctx context.Context, id string) (tipstaff.WorkerSession, error)
	FindSession(ctx context.Context, run, path string) (tipstaff.WorkerSession, error)
	UpdateSession(ctx context.Context, id string, f func(*tipstaff.WorkerSession) error) error
	WorkerSessions(ctx context.Context, q tipstaff.SessionQuery, user string) ([]tipstaff.WorkerSession, error)
}

// Tasks are those of the runner's workspace.
func (r *Runner) Tasks() tipstaff.Tasks { return tasks{r} }

type tasks struct{ *Runner }

// New implements [tipstaff.Tasks].
func (k tasks) New(ctx context.Context, t tipstaff.Task) (tipstaff.Task, error) {
	if err := may(ctx, basic(tipstaff.ScopeRun)); err != nil {
		return tipstaff.Task{}, err
	}
	t.User, t.Implicit, t.Path = userOf(ctx), false, ""
	t.Role, t.Review = cmp.Or(t.Role, tipstaff.TaskRole), cmp.Or(t.Review, tipstaff.ReviewPerson)
	t.MaxIterations = cmp.Or(t.MaxIterations, tipstaff.TaskIterations)
	made, err := k.Workers.NewTask(ctx, t)
	return made, explain(err, tipstaff.ID{})
}

// Get implements [tipstaff.Tasks].
func (k tasks) Get(ctx context.Context, id string) (tipstaff.Task, error) {
	return k.openTask(ctx, id, tipstaff.ScopeRead)
}

// List implements [tipstaff.Tasks].
func (k tasks) List(ctx context.Context, q tipstaff.TaskQuery) ([]tipstaff.Task, error) {
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return nil, err
	}
	if q.Status != "" && !slices.Contains(tipstaff.TaskStatuses(), q.Status) {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not a status of a task", tipstaff.Printable(string(q.Status))).
			WithHint("a task is pending, in_progress, paused, needs_review, completed or abandoned")
	}
	list, err := k.Workers.Tasks(ctx, q, visibleTo(ctx))
	return list, explain(err, tipstaff.ID{})
}

// Log implements [tipstaff.Tasks].
func (k tasks) Log(ctx context.Context, id string) ([]tipstaff.TaskLogLine, error) {
	if _, err := k.openTask(ctx, id, tipstaff.ScopeRead); err != nil {
		return nil, err
	}
	lines, err := k.Workers.TaskLog(ctx, id)
	return lines, explain(err, tipstaff.ID{})
}

// openTask reads a task for a caller who may access it.
func (r *Runner) openTask(ctx context.Context, id, scope string) (tipstaff.Task, error) {
	if err := may(ctx, basic(scope)); err != nil {
		return tipstaff.Task{}, err
	}
	t, err := r.Workers.Task(ctx, id)
	if c := tipstaff.CallerFrom(ctx); err == nil && !c.SeesAll() && t.User != c.User {
		return tipstaff.Task{}, tipstaff.Errorf(tipstaff.Forbidden, "task %s belongs to another user", id)
	}
	return t, explain(err, tipstaff.ID{})
}

// openTaskToChange also refuses a process of the run that does the task.
func (r *Runner) openTaskToChange(ctx context.Context, id, scope string) (tipstaff.Task, error) {
	t, err := r.openTask(ctx, id, scope)
	if err == nil && t.RunID != "" {
		var row flow.Row
		if row, err = r.Store.Run(ctx, t.RunID); err == nil {
			err = r.refuseOwn(ctx, row)
		}
	}
	return t, err
}

// Set implements [tipstaff.Tasks].
func (k tasks) Set(ctx context.Context, c tipstaff.TaskChange) (tipstaff.Task, error) {
	if (c.To == "") == (c.Document == nil) {
		return tipstaff.Task{}, tipstaff.Errorf(tipstaff.InvalidArgument, "give a status, or an edited document: one of the two")
	}
	t, err := k.openTaskToChange(ctx, c.ID, tipstaff.ScopeRun)
	if err != nil {
		return t, err
	}
	if c.Document != nil {
		return k.edit(ctx, t, c)
	}
	if !slices.Contains(tipstaff.TaskStatuses(), c.To) {
		return t, tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not a status of a task", tipstaff.Printable(string(c.To)))
	}
	if err := t.CheckMove(c.To, tipstaff.ByPerson); err != nil {
		return t, err
	}
	switch c.To {
	case tipstaff.TaskAbandoned:
		err = k.abandon(ctx, t, c.Why)
	case tipstaff.TaskCompleted:
		err = k.decideTask(ctx, t, tipstaff.WaitsReview, tipstaff.DecideRequest{Action: "continue", Note: c.Why})
	default: // needs_review, of a task that waits because nobody knows how an invocation ended
		report := flow.JSON(map[string]string{"status": string(c.To), "text": c.Why})
		err = k.decideTask(ctx, t, tipstaff.WaitsDoubt, tipstaff.DecideRequest{Action: actionUseResult, Answer: report})
	}
	if err != nil {
		return t, err
	}
	return k.Get(ctx, c.ID)
}

// abandon ends a task: its run is cancelled, or there is none.
func (k tasks) abandon(ctx context.Context, t tipstaff.Task, why string) error {
	switch {
	case t.Implicit:
		return tipstaff.Errorf(tipstaff.TaskTransition, "task %s stands for %s of run %s, and ends with it", t.ID, t.Path, t.RunID).
			WithCommand("`tipstaff cancel %s` ends the run", t.RunID)
	case t.RunID != "":
		c, err := k.Cancel(ctx, tipstaff.CancelRequest{Run: idOf(t.RunID), Reason: cmp.Or(why, "task "+t.ID+" was abandoned")})
		if err == nil && c.How == tipstaff.CancelDone {
			err = explain(flow.ErrEnded, idOf(t.RunID))
		}
		return err
	}
	_, err := k.Workers.UpdateTask(ctx, t.ID, 0, func(now *tipstaff.Task) error {
		return now.Apply("", k.Now().UTC(), tipstaff.TaskMoved{Task: t.ID, From: now.Status, To: tipstaff.TaskAbandoned, By: actor(ctx), Why: why, Iteration: now.Iteration})
	})
	return explain(err, tipstaff.ID{})
}

// Feedback implements [tipstaff.Tasks].
func (k tasks) Feedback(ctx context.Context, v tipstaff.TaskReview) (tipstaff.Task, error) {
	req := tipstaff.DecideRequest{Action: tipstaff.ActionContinue, Note: v.Text}
	switch {
	case v.Verdict == tipstaff.VerdictRejected && strings.TrimSpace(v.Text) == "":
		return tipstaff.Task{}, tipstaff.Errorf(tipstaff.FeedbackRequired, "a rejection says what is wrong").WithCommand("give it with -m TEXT or --file FILE")
	case v.Verdict == tipstaff.VerdictRejected:
		req = tipstaff.DecideRequest{Action: tipstaff.ActionRetry, Feedback: v.Text}
	case v.Verdict != tipstaff.VerdictApproved:
		return tipstaff.Task{}, tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not a verdict: it is approved or rejected", tipstaff.Printable(v.Verdict))
	}
	t, err := k.openTaskToChange(ctx, v.ID, tipstaff.ScopeDecide)
	if err == nil {
		err = k.decideTask(ctx, t, tipstaff.WaitsReview, req)
	}
	if err != nil {
		return t, err
	}
	return k.Get(ctx, v.ID)
}

// decideTask decides the gate that a task waits at, if it waits for that.
func (k tasks) decideTask(ctx context.Context, t tipstaff.Task, what string, req tipstaff.DecideRequest) error {
	if err := may(ctx, need{true, tipstaff.ScopeDecide, "answer gates"}); err != nil {
		return err
	}
	g, waits, err := k.waitsAt(ctx, t)
	switch {
	case err != nil:
		return err
	case waits == "":
		return tipstaff.Errorf(tipstaff.WrongState, "task %s is %s and waits for nothing that you could decide", t.ID, t.Status).
			WithCommand("`tipstaff task show %s` tells what is going on", t.ID)
	case waits != what:
		return tipstaff.Errorf(tipstaff.WrongState, "task %s waits for a decision of %s, not of %s", t.ID, waits, what).
			WithCommand("`tipstaff show %s` shows the question, and `tipstaff decide` answers it", t.RunID)
	}
	req.Run, req.Gate = idOf(t.RunID), g.ID.String()
	_, err = k.Decide(ctx, req)
	return err
}

// waitsAt is the gate that a task waits at, and what for; "": it waits at none.
func (k tasks) waitsAt(ctx context.Context, t tipstaff.Task) (g tipstaff.Gate, what string, err error) {
	if t.RunID == "" {
		return g, "", nil
	}
	rows, err := k.Store.Gates(ctx, flow.GateQuery{Run: t.RunID, Open: true})
	if err != nil {
		return g, "", explain(err, idOf(t.RunID))
	}
	var open []tipstaff.Gate
	for _, row := range rows {
		open = append(open, gateOf(row))
	}
	g, what, _ = t.WaitsAt(open)
	return g, what, nil
}

// edit takes over an edited export.
func (k tasks) edit(ctx context.Context, t tipstaff.Task, c tipstaff.TaskChange) (tipstaff.Task, error) {
	file := cmp.Or(c.File, "task.yaml")
	edited, problems := worker.ParseTask(file, c.Document)
	if len(problems) > 0 {
		return t, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("%s is not a valid task", file), Problems: problems}
	}
	if edited.ID != t.ID {
		return t, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is task %s, not %s", file, edited.ID, t.ID)
	}
	if t.Implicit {
		return t, tipstaff.Errorf(tipstaff.TaskBusy, "task %s stands for %s of run %s, which alone changes it", t.ID, t.Path, t.RunID)
	}
	_, waits, err := k.waitsAt(ctx, t)
	if err != nil {
		return t, err
	}
	if waits != "" {
		return t, tipstaff.Errorf(tipstaff.TaskBusy, "task %s waits for a decision of %s: nothing else changes it", t.ID, waits).
			WithCommand("`tipstaff show %s` shows the question, and `tipstaff decide` answers it", t.RunID)
	}
	now, err := k.Workers.UpdateTask(ctx, t.ID, edited.Revision, func(now *tipstaff.Task) error {
		if names := fixedFields(*now, edited); len(names) > 0 {
			e := tipstaff.Errorf(tipstaff.InvalidArgument, "%s changes %s, which an edit of a task that is %s cannot", file, strings.Join(names, ", "), now.Status)
			return e.WithHint("name and metadata can change at any time; description, role, worker, review, max_iterations and inputs while it is pending")
		}
		now.Name, now.Metadata = edited.Name, edited.Metadata
		now.Description, now.Role, now.Worker, now.Review = edited.Description, edited.Role, edited.Worker, edited.Review
		now.MaxIterations, now.Inputs = edited.MaxIterations, edited.Inputs
		return nil
	})
	return now, explain(err, tipstaff.ID{})
}

// fixedFields are those in which an edit differs where it may not. The run of a task has
// frozen what it was asked for.
func fixedFields(now, edited tipstaff.Task) (names []string) {
	was, is := members(now), members(edited)
	free := []string{"name", "metadata"}
	if now.Status == tipstaff.TaskPending {
		free = append(free, "description", "role", "worker", "review", "max_iterations", "inputs")
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if string(was[name]) != string(is[name]) && !slices.Contains(free, name) {
			names = append(names, name)
		}
	}
	return names
}

func members(t tipstaff.Task) (m map[string]json.RawMessage) {
	_ = json.Unmarshal(flow.JSON(t), &m) // its own encoding
	return m
}

// noWorkers are those of a workspace in which nothing was ever done. What is made there
// needs a store first.
type noWorkers struct{ Workers }

func (noWorkers) NewTask(_ context.Context, t tipstaff.Task) (tipstaff.Task, error) {
	return t, flow.ErrReadOnly
}

func (noWorkers) Task(_ context.Context, id string) (tipstaff.Task, error) {
	return tipstaff.Task{}, cmp.Or(tipstaff.CheckTaskID(id), error(tipstaff.Errorf(tipstaff.TaskNotFound, "there is no task %s", id)))
}

func (noWorkers) Tasks(context.Context, tipstaff.TaskQuery, string) ([]tipstaff.Task, error) {
	return nil, nil
}

func (noWorkers) WorkerSessions(context.Context, tipstaff.SessionQuery, string) ([]tipstaff.WorkerSession, error) {
	return nil, nil
}

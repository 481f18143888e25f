package runner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// waits is a plan that waits, so that its run and the run's task have not ended.
const waits = "root: {id: ok, kind: gate, question: 'go on?'}"

func forTask(id string) func(*tipstaff.StartRequest) {
	return func(r *tipstaff.StartRequest) { r.Task = &tipstaff.TaskStart{ID: id} }
}

func (b *bed) newTask() tipstaff.Task {
	b.t.Helper()
	task, err := b.Tasks().New(cli(), tipstaff.Task{Name: "parser"})
	b.check(err)
	return task
}

// waitingTask is a task of a run that waits. A gate of a worker stands beside the run's
// own; nobody here drives workers.
func (b *bed) waitingTask(status tipstaff.TaskStatus, kind tipstaff.GateKind, key string, actions ...string) (tipstaff.Task, tipstaff.ID) {
	b.t.Helper()
	task := b.newTask()
	run, _ := b.run(waits, forTask(task.ID))
	b.forged[run.String()] = true
	moved := tipstaff.TaskMoved{Task: task.ID, From: tipstaff.TaskInProgress, To: status, By: "worker", Iteration: 1}
	if status == tipstaff.TaskPaused {
		moved.Pause = &tipstaff.TaskPause{Reason: "question"}
	}
	gate := flow.GateOpened{Gate: tipstaff.NewID(time.Now()).String(), Kind: string(kind), Question: "?", Subject: []byte(`{"feedback_required_for":["retry_feedback"]}`), Actions: actions, Deny: actions[len(actions)-1],
		Digest: "sha256:" + strings.Repeat("0", 64)}
	b.check(b.store.Write(cli(), run.String(), func(flow.Tx) ([]flow.Draft, error) {
		return []flow.Draft{{Kind: string(tipstaff.KindTaskStatus), Note: true, Body: flow.JSON(moved)},
			{Kind: flow.KindGateOpened, From: journal.Executor, Path: key, Body: flow.JSON(gate)}}, nil
	}))
	return task, run
}

// decisions are the actions that gates of a run were decided with.
func (b *bed) decisions(run tipstaff.ID) (list []string) {
	b.t.Helper()
	rows, err := b.store.Gates(cli(), flow.GateQuery{Run: run.String()})
	b.check(err)
	for _, g := range rows {
		if g.Decided > 0 {
			list = append(list, strings.Trim(g.Key+" "+g.Decision.Action+" "+g.Decision.Feedback, " "))
		}
	}
	return list
}

func TestFeedbackDecidesTheReview(t *testing.T) {
	b := newBed(t)
	for want, v := range map[string]tipstaff.TaskReview{
		"root/review#1 continue":                {Verdict: "approved"},
		"root/review#1 retry_feedback no tests": {Verdict: "rejected", Text: "no tests"},
	} {
		task, run := b.waitingTask(tipstaff.TaskNeedsReview, tipstaff.Handoff, "root/review#1", "continue", "retry_feedback", "halt")
		v.ID = task.ID
		_, err := b.Tasks().Feedback(cli(), v)
		b.check(err)
		if got := b.decisions(run); len(got) != 1 || got[0] != want {
			t.Errorf("%s decided %q, want %q", v.Verdict, got, want)
		}
	}
	task, run := b.waitingTask(tipstaff.TaskNeedsReview, tipstaff.Handoff, "root/review#1", "continue", "retry_feedback", "halt")
	_, err := b.Tasks().Set(cli(), tipstaff.TaskChange{ID: task.ID, To: tipstaff.TaskCompleted, Why: "fine"})
	b.check(err)
	if got := b.decisions(run); len(got) != 1 || got[0] != "root/review#1 continue" {
		t.Errorf("completed decided %q", got)
	}
}

func TestWhatATaskDoesNotWaitForIsNotDecided(t *testing.T) {
	b := newBed(t)
	task, run := b.waitingTask(tipstaff.TaskPaused, tipstaff.Question, "root/worker#1/question", "answer", "deny")
	_, err := b.Tasks().Feedback(cli(), tipstaff.TaskReview{ID: task.ID, Verdict: "approved"})
	wantCode(t, err, tipstaff.WrongState)
	_, err = b.Tasks().Set(cli(), tipstaff.TaskChange{ID: task.ID, To: tipstaff.TaskCompleted})
	wantCode(t, err, tipstaff.TaskTransition)
	got, err := b.Tasks().Get(cli(), task.ID)
	b.check(err)
	got.Name = "renamed"
	_, err = b.Tasks().Set(cli(), tipstaff.TaskChange{ID: task.ID, Document: got.YAML()})
	wantCode(t, err, tipstaff.TaskBusy)
	if list := b.decisions(run); len(list) > 0 {
		t.Errorf("decided %q", list)
	}
	now, err := b.Tasks().Get(cli(), task.ID)
	if b.check(err); now.Revision != got.Revision {
		t.Errorf("revision %d became %d", got.Revision, now.Revision)
	}
}

func TestATaskIsStartedOnceAndAbandonedWithItsRun(t *testing.T) {
	b := newBed(t)
	task := b.newTask()
	run, d := b.run(waits, forTask(task.ID))
	if !d.Waits() {
		t.Fatalf("%+v", d)
	}
	_, err := b.Start(cli(), tipstaff.StartRequest{Name: "p", Program: []byte("kind: plan\nversion: 1\n" + waits), Task: &tipstaff.TaskStart{ID: task.ID}})
	wantCode(t, err, tipstaff.TaskBusy)
	b.verified(run)

	own := processOf(run.String())
	for name, do := range map[string]func() error{
		"set": func() error {
			_, err := b.Tasks().Set(own, tipstaff.TaskChange{ID: task.ID, To: tipstaff.TaskAbandoned})
			return err
		},
		"feedback": func() error {
			_, err := b.Tasks().Feedback(own, tipstaff.TaskReview{ID: task.ID, Verdict: "approved"})
			return err
		},
	} {
		if err := do(); tipstaff.CodeOf(err) != tipstaff.OwnRun {
			t.Errorf("%s by a process of the run: %v", name, err)
		}
	}

	now, err := b.Tasks().Set(cli(), tipstaff.TaskChange{ID: task.ID, To: tipstaff.TaskAbandoned, Why: "not needed"})
	b.check(err)
	if now.Status != tipstaff.TaskAbandoned || b.get(run).State != tipstaff.Cancelled {
		t.Errorf("the task is %s, its run %s", now.Status, b.get(run).State)
	}
	_, err = b.Start(cli(), tipstaff.StartRequest{Name: "p", Program: []byte("kind: plan\nversion: 1\n" + waits), Task: &tipstaff.TaskStart{ID: task.ID}})
	wantCode(t, err, tipstaff.TaskTransition)
}

// A fork has a copy, which its records move.
func TestAForkOfATaskRun(t *testing.T) {
	b := newBed(t)
	task := b.newTask()
	run, _ := b.run(waits, forTask(task.ID))
	fork, err := b.Fork(cli(), forking{Run: run})
	b.check(err)
	list, err := b.Tasks().List(cli(), tipstaff.TaskQuery{Run: fork.ID.String()})
	b.check(err)
	if len(list) != 1 || list[0].ID == task.ID || list[0].Status != tipstaff.TaskInProgress {
		t.Fatalf("the fork's tasks are %+v", list)
	}
	_, err = b.Cancel(cli(), tipstaff.CancelRequest{Run: fork.ID})
	b.check(err)
	own, err := b.Tasks().Get(cli(), list[0].ID)
	b.check(err)
	source, err := b.Tasks().Get(cli(), task.ID)
	b.check(err)
	if own.Status != tipstaff.TaskAbandoned || source.Status != tipstaff.TaskInProgress {
		t.Errorf("the copy is %s, the original %s", own.Status, source.Status)
	}
}

func TestTasksHaveOwnersAndScopes(t *testing.T) {
	b := newBed(t)
	as := func(user string, scopes ...string) context.Context {
		return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: user, Principal: "token:" + user, Scopes: scopes})
	}
	task, _ := b.waitingTask(tipstaff.TaskNeedsReview, tipstaff.Handoff, "root/review#1", "continue", "retry_feedback", "halt")
	all := tipstaff.DefaultScopes()
	tasks := b.Tasks()
	calls := map[string]struct {
		scope string
		do    func(context.Context) error
	}{
		"New":  {tipstaff.ScopeRun, func(ctx context.Context) error { _, err := tasks.New(ctx, tipstaff.Task{Name: "x"}); return err }},
		"Get":  {tipstaff.ScopeRead, func(ctx context.Context) error { _, err := tasks.Get(ctx, task.ID); return err }},
		"Log":  {tipstaff.ScopeRead, func(ctx context.Context) error { _, err := tasks.Log(ctx, task.ID); return err }},
		"List": {tipstaff.ScopeRead, func(ctx context.Context) error { _, err := tasks.List(ctx, tipstaff.TaskQuery{}); return err }},
		"Set": {tipstaff.ScopeRun, func(ctx context.Context) error {
			_, err := tasks.Set(ctx, tipstaff.TaskChange{ID: task.ID, To: tipstaff.TaskAbandoned})
			return err
		}},
		"Feedback": {tipstaff.ScopeDecide, func(ctx context.Context) error {
			_, err := tasks.Feedback(ctx, tipstaff.TaskReview{ID: task.ID, Verdict: "approved"})
			return err
		}},
	}
	for name, c := range calls {
		var without []string
		for _, s := range append(all, tipstaff.ScopeDecide) {
			if s != c.scope {
				without = append(without, s)
			}
		}
		if err := c.do(as("local", without...)); tipstaff.CodeOf(err) != tipstaff.Forbidden {
			t.Errorf("%s without %s: %v", name, c.scope, err)
		}
		err := c.do(as("ann", append(all, tipstaff.ScopeDecide)...))
		if known := name == "New" || name == "List"; known && err != nil || !known && tipstaff.CodeOf(err) != tipstaff.Forbidden {
			t.Errorf("%s by another user: %v", name, err)
		}
	}
	// What has the effect of a decision needs the right to decide.
	_, err := tasks.Set(as("local", tipstaff.ScopeRead, tipstaff.ScopeRun), tipstaff.TaskChange{ID: task.ID, To: tipstaff.TaskCompleted})
	wantCode(t, err, tipstaff.Forbidden)
	list, err := tasks.List(as("ann", tipstaff.ScopeRead), tipstaff.TaskQuery{})
	if b.check(err); fmt.Sprint(len(list)) != "1" || list[0].User != "ann" {
		t.Errorf("another user's list: %+v", list)
	}
}

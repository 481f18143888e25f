package cli

import (
	"context"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// fakeTasks has one task, and remembers what it was asked for.
type fakeTasks struct {
	tipstaff.Tasks
	task   tipstaff.Task
	made   []tipstaff.Task
	set    []tipstaff.TaskChange
	review []tipstaff.TaskReview
}

func (f *fakeTasks) New(_ context.Context, t tipstaff.Task) (tipstaff.Task, error) {
	f.made = append(f.made, t)
	t.ID = "010"
	return t, nil
}

func (f *fakeTasks) Get(_ context.Context, id string) (tipstaff.Task, error) {
	if id != f.task.ID {
		return tipstaff.Task{}, tipstaff.Errorf(tipstaff.TaskNotFound, "there is no task %s", id)
	}
	return f.task, nil
}

func (f *fakeTasks) Set(_ context.Context, c tipstaff.TaskChange) (tipstaff.Task, error) {
	f.set = append(f.set, c)
	return f.task, nil
}

func (f *fakeTasks) Feedback(_ context.Context, v tipstaff.TaskReview) (tipstaff.Task, error) {
	f.review = append(f.review, v)
	return f.task, nil
}

// waitingTask is a bench with a task whose run waits at a gate.
func waitingTask(t *testing.T, status tipstaff.TaskStatus, kind tipstaff.GateKind, key string, actions ...string) (*bench, *[]tipstaff.DecideRequest) {
	b := newBench(t)
	b.tasks = &fakeTasks{task: tipstaff.Task{ID: "010", Name: "parser", Status: status, RunID: runA.String(), Iteration: 1, MaxIterations: 5}}
	run := waitingRun()
	run.OpenGates = []tipstaff.Gate{{ID: gateA, Kind: kind, Key: key, Path: key, Question: "Which one?", Actions: actions}}
	b.svc.runs = []tipstaff.Run{run}
	decided := new([]tipstaff.DecideRequest)
	b.svc.decide = func(r tipstaff.DecideRequest) (tipstaff.Decided, error) {
		*decided = append(*decided, r)
		return tipstaff.Decided{}, nil
	}
	b.svc.resume = func(context.Context, tipstaff.ResumeRequest) (tipstaff.Started, error) {
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.Busy, "resumed")
	}
	return b, decided
}

func TestTaskResumeAnswersTheQuestion(t *testing.T) {
	b, decided := waitingTask(t, tipstaff.TaskPaused, tipstaff.Question, "root/worker#2/question", "answer", "deny")
	b.run(t, 3, "task", "resume", "010", "the second")
	contains(t, "stderr", b.err.String(), "resumed")
	if got := *decided; len(got) != 1 || got[0].Action != "answer" || string(got[0].Answer) != `"the second"` || got[0].Gate != gateA.String() || got[0].Run != runA {
		t.Errorf("decided %+v", got)
	}
	b, decided = waitingTask(t, tipstaff.TaskPaused, tipstaff.Question, "root/worker#2/question", "answer", "deny")
	b.run(t, 2, "task", "resume", "010")
	contains(t, "stderr", b.err.String(), "task 010 asks: Which one?")
	if len(*decided) > 0 {
		t.Errorf("decided %+v", *decided)
	}
}

func TestTaskResumeTriesAgainAfterAFailure(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"task", "resume", "010"}, ""},
		{[]string{"task", "resume", "010", "look again", "--fresh"}, `{"fresh":true,"text":"look again"}`},
		{[]string{"task", "spawn", "010", "--fresh"}, `{"fresh":true}`},
	} {
		b, decided := waitingTask(t, tipstaff.TaskPaused, tipstaff.Question, "root/worker#1/failure", "retry", "fail")
		b.run(t, 3, c.args...)
		contains(t, "stderr", b.err.String(), "resumed")
		if got := *decided; len(got) != 1 || got[0].Action != "retry" || string(got[0].Answer) != c.want {
			t.Errorf("%v decided %+v", c.args, got)
		}
	}
}

func TestATaskThatWaitsIsNotSpawned(t *testing.T) {
	for key, waits := range map[string]string{"root/worker#1/question": "question", "root/review#1": "review", "root/worker#1/approval#2": "approval", "root/worker#3/in_doubt#2": "in_doubt", "root/limit#1": "limit"} {
		b, decided := waitingTask(t, tipstaff.TaskPaused, tipstaff.Question, key, "answer")
		b.run(t, 3, "task", "spawn", "010")
		contains(t, "stderr", b.err.String(), "task 010 waits for a decision ("+waits+"): Which one?", "tipstaff decide")
		if len(*decided) > 0 {
			t.Errorf("%s: decided %+v", key, *decided)
		}
	}
}

func TestTaskResumeOfAReviewIsRefused(t *testing.T) {
	b, decided := waitingTask(t, tipstaff.TaskNeedsReview, tipstaff.Handoff, "root/review#1", "continue", "retry_feedback", "halt")
	b.run(t, 3, "task", "resume", "010", "fine")
	contains(t, "stderr", b.err.String(), "waits for a decision (review)")
	if len(*decided) > 0 {
		t.Errorf("decided %+v", *decided)
	}
}

func TestTaskSpawnHandsOverAPlanOfTheTask(t *testing.T) {
	b := newBench(t)
	b.tasks = &fakeTasks{task: tipstaff.Task{ID: "010", Name: "parser", Role: "reviewer", Description: "Cost ${input.x}", Status: tipstaff.TaskPending,
		Inputs: []tipstaff.TaskInput{{Path: "a.md"}, {Text: "b"}}}}
	var got tipstaff.StartRequest
	b.svc.start = func(_ context.Context, r tipstaff.StartRequest) (tipstaff.Started, error) {
		got = r
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.TaskBusy, "somebody was faster")
	}
	b.run(t, 3, "task", "spawn", "010", "--worker", "careful")
	equal(t, "program", string(got.Program), "") // it is made of the task
	if got.Task == nil || *got.Task != (tipstaff.TaskStart{ID: "010", Worker: "careful"}) || got.Title != "parser" {
		t.Errorf("%+v", got)
	}
}

func TestTaskCommandsNeedTheirArguments(t *testing.T) {
	for _, args := range [][]string{
		{"task", "new"}, {"task", "show"}, {"task", "show", "010", "--yaml", "--log"}, {"task", "spawn"}, {"task", "resume"}, {"task", "resume", "010", "a", "b"},
		{"task", "set", "010"}, {"task", "set", "010", "abandoned", "--file", "x"}, {"task", "feedback", "010"}, {"task", "feedback", "010", "rejected", "-m", "x", "--file", "y"}, {"task", "frobnicate"},
	} {
		b := newBench(t)
		b.tasks = &fakeTasks{}
		b.run(t, 2, args...)
	}
}

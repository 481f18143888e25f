package tipstaff_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	taskRun  = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"
	otherRun = "01JCQ8R4T5V6W7X8Y9Z0A1B2C4"
)

var taskTime = time.Date(2026, 11, 15, 2, 30, 0, 0, time.UTC)

// taskIn is a valid task that has a status.
func taskIn(status tipstaff.TaskStatus) tipstaff.Task {
	t := tipstaff.Task{ID: "010", Name: "parser", Role: "implementer", Review: "person", Status: status, Iteration: 1, MaxIterations: 5,
		Inputs: []tipstaff.TaskInput{}, Outputs: []tipstaff.TaskOutput{}, Feedback: []tipstaff.TaskFeedback{}, CreatedAt: taskTime, UpdatedAt: taskTime,
		Revision: 7, Metadata: map[string]string{}}
	if status == tipstaff.TaskPending {
		return t
	}
	t.RunID, t.StartedAt, t.SessionID = taskRun, taskTime, "s-1"
	if status == tipstaff.TaskPaused {
		t.Pause = &tipstaff.TaskPause{Reason: "question"}
	}
	if status.Ended() {
		t.CompletedAt, t.SessionID = taskTime, ""
	}
	return t
}

// The specification's table, word by word: who can move a task from where to where.
const movesTable = `
pending      in_progress   system
paused       in_progress   system
in_progress  paused        system worker
in_progress  needs_review  worker
paused       needs_review  person
needs_review in_progress   system
needs_review completed     system person
pending      abandoned     system person
in_progress  abandoned     system person
paused       abandoned     system person
needs_review abandoned     system person
`

func TestEveryPairOfStatesAndEveryActor(t *testing.T) {
	allowed := map[[3]string]bool{}
	for line := range strings.Lines(strings.TrimSpace(movesTable)) {
		words := strings.Fields(line)
		for _, by := range words[2:] {
			allowed[[3]string{words[0], words[1], by}] = true
		}
	}
	made := 0
	for _, from := range tipstaff.TaskStatuses() {
		for _, to := range tipstaff.TaskStatuses() {
			for _, by := range []string{"system", "worker", "person"} {
				task := taskIn(from)
				m := tipstaff.TaskMoved{Task: task.ID, From: from, To: to, By: by, Iteration: 1}
				if by == "person" {
					m.By = "local:cli"
				}
				if to == tipstaff.TaskPaused {
					m.Pause = &tipstaff.TaskPause{Reason: "question"}
				}
				err := task.Apply(taskRun, taskTime.Add(time.Minute), m)
				if allowed[[3]string{string(from), string(to), by}] {
					made++
					if err != nil || task.Status != to || task.Revision != 8 {
						t.Errorf("%s → %s by %s: %v, status %s, revision %d", from, to, by, err, task.Status, task.Revision)
					}
					if ps := tipstaff.ValidateTask(task); len(ps) > 0 {
						t.Errorf("%s → %s by %s leads to a task that is not valid: %v", from, to, by, ps)
					}
					continue
				}
				if tipstaff.CodeOf(err) != tipstaff.TaskTransition {
					t.Errorf("%s → %s by %s: %v, want task_transition", from, to, by, err)
				}
				if want := taskIn(from); task.Revision != 7 || task.Status != from || !task.UpdatedAt.Equal(want.UpdatedAt) {
					t.Errorf("%s → %s by %s was refused and changed the task", from, to, by)
				}
			}
		}
	}
	if made != len(allowed) {
		t.Errorf("%d moves were made, %d are allowed", made, len(allowed))
	}
}

func TestARefusedMoveListsTheAllowedOnes(t *testing.T) {
	task := taskIn(tipstaff.TaskInProgress)
	err := task.CheckMove(tipstaff.TaskCompleted, tipstaff.ByWorker)
	var e *tipstaff.Error
	if e, _ = err.(*tipstaff.Error); e == nil || e.Hint != "worker can set it to paused, needs_review" {
		t.Errorf("%v, hint %q", err, e.Hint)
	}
}

func TestATaskIsTheFoldOfItsRecords(t *testing.T) {
	task := taskIn(tipstaff.TaskPending)
	clock := taskTime
	apply := func(body any) {
		t.Helper()
		clock = clock.Add(time.Second)
		if err := task.Apply(taskRun, clock, body); err != nil {
			t.Fatal(err)
		}
		if ps := tipstaff.ValidateTask(task); len(ps) > 0 {
			t.Fatalf("not valid any more: %v", ps)
		}
	}
	move := func(from, to tipstaff.TaskStatus, by string, more func(*tipstaff.TaskMoved)) {
		t.Helper()
		m := tipstaff.TaskMoved{Task: task.ID, From: from, To: to, By: by, Iteration: task.Iteration}
		if more != nil {
			more(&m)
		}
		apply(m)
	}
	move(tipstaff.TaskPending, tipstaff.TaskInProgress, "system", nil)
	if task.RunID != taskRun || !task.StartedAt.Equal(clock) {
		t.Errorf("it has run %q, started at %v", task.RunID, task.StartedAt)
	}
	move(tipstaff.TaskInProgress, tipstaff.TaskInProgress, "system", func(m *tipstaff.TaskMoved) { m.SessionID = "s-9" })
	move(tipstaff.TaskInProgress, tipstaff.TaskPaused, "worker", func(m *tipstaff.TaskMoved) {
		m.Pause = &tipstaff.TaskPause{Reason: "question", Question: "which one?"}
	})
	if task.SessionID != "s-9" || task.Pause.Question != "which one?" {
		t.Errorf("paused: session %q, pause %+v", task.SessionID, task.Pause)
	}
	move(tipstaff.TaskPaused, tipstaff.TaskPaused, "system", func(m *tipstaff.TaskMoved) { m.Outcome = "paused" })
	if task.LastOutcome != "paused" || task.Pause == nil {
		t.Errorf("what became known changed more, or less: %+v", task)
	}
	move(tipstaff.TaskPaused, tipstaff.TaskInProgress, "system", nil)
	if task.Pause != nil {
		t.Error("it goes on and has a pause")
	}
	apply(tipstaff.TaskBrought{Task: task.ID, Output: tipstaff.TaskOutput{Kind: "file", Path: "a.go"}})
	before := task.Revision
	apply(tipstaff.TaskLogged{Task: task.ID, Level: "info", Text: "done"})
	if task.Revision != before {
		t.Error("a line of the log has changed the document")
	}
	move(tipstaff.TaskInProgress, tipstaff.TaskNeedsReview, "worker", func(m *tipstaff.TaskMoved) { m.Outcome = "reported" })
	move(tipstaff.TaskNeedsReview, tipstaff.TaskInProgress, "system", func(m *tipstaff.TaskMoved) {
		m.Iteration = 2
		m.Feedback = &tipstaff.TaskFeedback{Verdict: tipstaff.VerdictRejected, Text: "no tests", By: "local:cli"}
	})
	if task.Iteration != 2 || task.SessionID != "s-9" || task.Feedback[0].Iteration != 1 {
		t.Errorf("rejected: iteration %d, session %q, feedback %+v", task.Iteration, task.SessionID, task.Feedback)
	}
	move(tipstaff.TaskInProgress, tipstaff.TaskNeedsReview, "worker", nil)
	move(tipstaff.TaskNeedsReview, tipstaff.TaskCompleted, "local:cli", func(m *tipstaff.TaskMoved) {
		m.Feedback = &tipstaff.TaskFeedback{Verdict: tipstaff.VerdictApproved, By: "local:cli"}
	})
	if task.SessionID != "" || !task.CompletedAt.Equal(clock) || task.RunID != taskRun || len(task.Outputs) != 1 || task.Outputs[0].Iteration != 1 {
		t.Errorf("completed: %+v", task)
	}
	if err := task.Apply(taskRun, clock, tipstaff.TaskLogged{Task: task.ID, Text: "late"}); tipstaff.CodeOf(err) != tipstaff.TaskTransition {
		t.Errorf("a late line of the log: %v", err)
	}
}

func TestRecordsThatDoNotFitChangeNothing(t *testing.T) {
	rejected := &tipstaff.TaskFeedback{Verdict: tipstaff.VerdictRejected, Text: "no", By: "local:cli"}
	for name, c := range map[string]struct {
		in   tipstaff.TaskStatus
		run  string
		m    tipstaff.TaskMoved
		code tipstaff.Code
	}{
		"another run":               {tipstaff.TaskInProgress, otherRun, tipstaff.TaskMoved{From: "in_progress", To: "needs_review", By: "worker", Iteration: 1}, tipstaff.TaskBusy},
		"another status":            {tipstaff.TaskPaused, taskRun, tipstaff.TaskMoved{From: "in_progress", To: "needs_review", By: "worker", Iteration: 1}, tipstaff.TaskTransition},
		"another iteration":         {tipstaff.TaskInProgress, taskRun, tipstaff.TaskMoved{From: "in_progress", To: "needs_review", By: "worker", Iteration: 2}, tipstaff.TaskTransition},
		"no reason to pause":        {tipstaff.TaskInProgress, taskRun, tipstaff.TaskMoved{From: "in_progress", To: "paused", By: "worker", Iteration: 1}, tipstaff.TaskTransition},
		"a reason and no pause":     {tipstaff.TaskInProgress, taskRun, tipstaff.TaskMoved{From: "in_progress", To: "needs_review", By: "worker", Iteration: 1, Pause: &tipstaff.TaskPause{Reason: "question"}}, tipstaff.TaskTransition},
		"rejected, same iteration":  {tipstaff.TaskNeedsReview, taskRun, tipstaff.TaskMoved{From: "needs_review", To: "in_progress", By: "system", Iteration: 1, Feedback: rejected}, tipstaff.TaskTransition},
		"rejected and completed":    {tipstaff.TaskNeedsReview, taskRun, tipstaff.TaskMoved{From: "needs_review", To: "completed", By: "system", Iteration: 1, Feedback: rejected}, tipstaff.TaskTransition},
		"feedback without a review": {tipstaff.TaskPaused, taskRun, tipstaff.TaskMoved{From: "paused", To: "in_progress", By: "system", Iteration: 1, Feedback: rejected}, tipstaff.TaskTransition},
		"stays and says nothing":    {tipstaff.TaskInProgress, taskRun, tipstaff.TaskMoved{From: "in_progress", To: "in_progress", By: "system", Iteration: 1}, tipstaff.TaskTransition},
		"in progress without a run": {tipstaff.TaskPending, "", tipstaff.TaskMoved{From: "pending", To: "in_progress", By: "system", Iteration: 1}, tipstaff.TaskTransition},
	} {
		task := taskIn(c.in)
		if err := task.Apply(c.run, taskTime.Add(time.Hour), c.m); tipstaff.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if string(task.YAML()) != string(taskIn(c.in).YAML()) {
			t.Errorf("%s: it was refused and changed the task", name)
		}
	}
}

func TestOutputsOfCopiesAreApart(t *testing.T) {
	task := taskIn(tipstaff.TaskInProgress)
	task.Outputs = make([]tipstaff.TaskOutput, 0, 8)
	other := task
	if err := task.Apply(taskRun, taskTime, tipstaff.TaskBrought{Output: tipstaff.TaskOutput{Kind: "data"}}); err != nil {
		t.Fatal(err)
	}
	if err := other.Apply(taskRun, taskTime, tipstaff.TaskBrought{Output: tipstaff.TaskOutput{Kind: "verdict"}}); err != nil {
		t.Fatal(err)
	}
	if got := slices.Concat(task.Outputs, other.Outputs); got[0].Kind != "data" || got[1].Kind != "verdict" {
		t.Errorf("they share memory: %v", got)
	}
}

func TestThePlanOfATask(t *testing.T) {
	task := tipstaff.Task{Name: "parser", Role: "reviewer", Description: "Cost ${input.x}", Inputs: []tipstaff.TaskInput{{Path: "a.md"}, {Text: "b"}}}
	const step = `"root":{"agent":"reviewer","id":"work","inputs":{"paths":["a.md"],"texts":["b"]},"kind":"step","prompt":"Cost $${input.x}"},"version":1}`
	if got, want := string(task.Plan(false)), `{"kind":"plan","name":"parser",`+step; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got, want := string(task.Plan(true)), `{"deliver":{},"kind":"plan","name":"parser",`+step; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

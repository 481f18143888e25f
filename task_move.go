package tipstaff

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// TaskActor is who moves a task.
type TaskActor string

const (
	BySystem TaskActor = "system" // Tipstaff itself
	ByWorker TaskActor = "worker" // through its channel
	ByPerson TaskActor = "person" // as records say it, the name of one
)

// taskMoves are all that there are. What is not in the table is refused.
var taskMoves = []struct {
	from, to TaskStatus
	by       []TaskActor
}{
	{TaskPending, TaskInProgress, []TaskActor{BySystem}}, // a run is made of it
	{TaskPaused, TaskInProgress, []TaskActor{BySystem}},  // a resumed invocation
	{TaskInProgress, TaskPaused, []TaskActor{BySystem, ByWorker}},
	{TaskInProgress, TaskNeedsReview, []TaskActor{ByWorker}},
	{TaskPaused, TaskNeedsReview, []TaskActor{ByPerson}},     // who says what a lost invocation has reported
	{TaskNeedsReview, TaskInProgress, []TaskActor{BySystem}}, // rejected or visited again: another iteration; else resumed
	{TaskNeedsReview, TaskCompleted, []TaskActor{BySystem, ByPerson}},
	{TaskPending, TaskAbandoned, []TaskActor{BySystem, ByPerson}},
	{TaskInProgress, TaskAbandoned, []TaskActor{BySystem, ByPerson}},
	{TaskPaused, TaskAbandoned, []TaskActor{BySystem, ByPerson}},
	{TaskNeedsReview, TaskAbandoned, []TaskActor{BySystem, ByPerson}},
}

// Moves are the statuses that an actor can give a task which has this one.
func (s TaskStatus) Moves(by TaskActor) (to []TaskStatus) {
	for _, m := range taskMoves {
		if m.from == s && slices.Contains(m.by, by) {
			to = append(to, m.to)
		}
	}
	return to
}

// Actor is who made a move, which names persons.
func (m *TaskMoved) Actor() TaskActor {
	switch by := TaskActor(m.By); by {
	case BySystem, ByWorker:
		return by
	}
	return ByPerson
}

// CheckMove is task_transition, and lists the moves there are, unless the actor can give
// the task that status.
func (t *Task) CheckMove(to TaskStatus, by TaskActor) error {
	allowed := t.Status.Moves(by)
	if slices.Contains(allowed, to) {
		return nil
	}
	e := Errorf(TaskTransition, "task %s is %s: %s cannot set it to %s", t.ID, t.Status, by, Printable(string(to)))
	if len(allowed) == 0 {
		return e.WithHint("%s cannot set it to anything else now", by)
	}
	return e.WithHint("%s can set it to %s", by, joined(allowed))
}

func joined(statuses []TaskStatus) string {
	words := make([]string, len(statuses))
	for i, s := range statuses {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// Apply adds a record of a run to its task: body is a [TaskMoved], a [TaskLogged] or a
// [TaskBrought]. A record that does not fit is refused and changes nothing. So a task is
// what it was when its run began with it, and the records since.
func (t *Task) Apply(run string, at time.Time, body any) error {
	if moved, ok := body.(TaskMoved); ok {
		return t.move(run, at, moved)
	}
	if err := t.checkRun(run); err != nil {
		return err
	}
	if t.Status == TaskPending || t.Status.Ended() {
		return Errorf(TaskTransition, "task %s is %s: nothing can be added to it", t.ID, t.Status)
	}
	switch b := body.(type) {
	case TaskLogged: // it stands in the log, which is no part of the document
		return nil
	case TaskBrought:
		out := b.Output
		if out.Iteration == 0 {
			out.Iteration = t.Iteration
		}
		if out.At.IsZero() {
			out.At = at
		}
		t.Outputs = append(slices.Clip(t.Outputs), out)
		t.changed(at)
		return nil
	}
	return fmt.Errorf("%T is not a record of a task", body)
}

func (t *Task) checkRun(run string) error {
	if t.RunID != run {
		return Errorf(TaskBusy, "task %s belongs to run %s, not to %s", t.ID, t.RunID, run)
	}
	return nil
}

func (t *Task) changed(at time.Time) {
	t.UpdatedAt = at
	t.Revision++
}

// move checks everything before it changes anything.
func (t *Task) move(run string, at time.Time, m TaskMoved) error {
	began := t.Status == TaskPending && run != "" // no run has it yet
	if !began {
		if err := t.checkRun(run); err != nil {
			return err
		}
	}
	if m.From != t.Status && (m.Actor() == BySystem || m.From == TaskPaused && m.To == TaskNeedsReview && t.Status == m.To) {
		m.From = t.Status // what the run believed: a worker may have reported before its end was lost
		if m.From == m.To && !t.Status.Ended() && t.Status != TaskPending && m.Feedback == nil && m.Iteration == t.Iteration {
			return nil
		}
	}
	if m.From != t.Status {
		return Errorf(TaskTransition, "task %s is %s, not %s, from where it was to become %s", t.ID, t.Status, m.From, m.To)
	}
	next, err := t.iterationAfter(m)
	if err != nil {
		return err
	}
	told := m.From == m.To // it stays where it is: something became known
	if told {
		if t.Status == TaskPending || t.Status.Ended() || m.Outcome == "" && m.SessionID == "" {
			return t.CheckMove(m.To, m.Actor())
		}
	} else if err := t.CheckMove(m.To, m.Actor()); err != nil {
		return err
	}
	if !told && (m.To == TaskPaused) != (m.Pause != nil) || told && m.Pause != nil && m.To != TaskPaused {
		return Errorf(TaskTransition, "task %s: the reason of a pause belongs to a move to paused, and to no other", t.ID)
	}
	if m.To == TaskInProgress && run == "" {
		return Errorf(TaskTransition, "task %s cannot be in progress without a run", t.ID)
	}

	if m.Feedback != nil {
		said := *m.Feedback
		if said.Iteration == 0 {
			said.Iteration = t.Iteration
		}
		if said.At.IsZero() {
			said.At = at
		}
		t.Feedback = append(slices.Clip(t.Feedback), said)
	}
	t.Status, t.Iteration = m.To, next
	if !told || m.Pause != nil {
		t.Pause = m.Pause
	}
	if m.Outcome != "" {
		t.LastOutcome = m.Outcome
	}
	if m.SessionID != "" {
		t.SessionID = m.SessionID
	}
	switch {
	case t.Status.Ended():
		t.CompletedAt, t.SessionID = at, ""
	case began:
		t.RunID, t.StartedAt = run, at
	}
	t.changed(at)
	return nil
}

// iterationAfter is the iteration that a move leads to. Work that was rejected, or that a
// pipeline comes back to, begins another; nothing else does.
func (t *Task) iterationAfter(m TaskMoved) (int, error) {
	again := m.From == TaskNeedsReview && m.To == TaskInProgress
	rejected := m.Feedback != nil && m.Feedback.Verdict == VerdictRejected
	switch {
	case m.Feedback != nil && m.Feedback.Verdict != VerdictApproved && !rejected:
		return 0, Errorf(TaskTransition, "task %s: %q is not a verdict: it is %s or %s", t.ID, Printable(m.Feedback.Verdict), VerdictApproved, VerdictRejected)
	case m.Feedback != nil && rejected != (m.To == TaskInProgress), m.Feedback != nil && m.From != TaskNeedsReview:
		return 0, Errorf(TaskTransition, "task %s: feedback %s does not belong to a move from %s to %s", t.ID, m.Feedback.Verdict, m.From, m.To)
	case m.Iteration == t.Iteration && !rejected, m.Iteration == t.Iteration+1 && again:
		return m.Iteration, nil
	}
	return 0, Errorf(TaskTransition, "task %s is in iteration %d: a move from %s to %s does not lead to iteration %d", t.ID, t.Iteration, m.From, m.To, m.Iteration)
}

package tipstaff

import (
	"context"
	"time"
)

// Task is a piece of work for a worker. It outlives invocations and reviews; a run
// carries it out.
type Task struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	Role          string            `json:"role"`
	Worker        string            `json:"worker,omitempty"` // "": chosen when it is spawned
	Review        string            `json:"review"`           // none, person or a role
	Status        TaskStatus        `json:"status"`
	Iteration     int               `json:"iteration"`
	MaxIterations int               `json:"max_iterations"`
	SessionID     string            `json:"session_id,omitempty"` // that one can give the CLI
	RunID         string            `json:"run_id,omitempty"`
	Parent        string            `json:"parent,omitempty"` // the task under review
	Pause         *TaskPause        `json:"pause,omitempty"`
	LastOutcome   string            `json:"last_outcome,omitempty"`
	Inputs        []TaskInput       `json:"inputs"`
	Outputs       []TaskOutput      `json:"outputs"`
	Feedback      []TaskFeedback    `json:"feedback"`
	CreatedAt     time.Time         `json:"created_at"`
	UpdatedAt     time.Time         `json:"updated_at"`
	StartedAt     time.Time         `json:"started_at,omitzero"`
	CompletedAt   time.Time         `json:"completed_at,omitzero"`
	Revision      int64             `json:"revision"` // grows with every change
	Metadata      map[string]string `json:"metadata"`

	User     string `json:"-"` // whose it is
	Implicit bool   `json:"-"` // it stands for a step or stage, and is changed through its run alone
	Path     string `json:"-"` // of that step or stage
}

// TaskStatus is one of six.
type TaskStatus string

const (
	TaskPending     TaskStatus = "pending"
	TaskInProgress  TaskStatus = "in_progress"
	TaskPaused      TaskStatus = "paused"
	TaskNeedsReview TaskStatus = "needs_review"
	TaskCompleted   TaskStatus = "completed"
	TaskAbandoned   TaskStatus = "abandoned"
)

// Ended reports whether nothing follows.
func (s TaskStatus) Ended() bool { return s == TaskCompleted || s == TaskAbandoned }

// TaskPause is why a task waits.
type TaskPause struct {
	Reason   string   `json:"reason"` // question, approval, in_doubt, or the outcome of an invocation
	Question string   `json:"question,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// TaskInput is a file to read, or a text: one of the two.
type TaskInput struct {
	Path string `json:"path,omitempty"`
	Text string `json:"text,omitempty"`
}

// TaskOutput is something that a task has brought forth.
type TaskOutput struct {
	Kind      string    `json:"kind"` // file, data, verdict
	Path      string    `json:"path,omitempty"`
	SHA256    string    `json:"sha256,omitempty"`
	Note      string    `json:"note,omitempty"`
	Iteration int       `json:"iteration"`
	At        time.Time `json:"at"`
}

// Verdicts of a review.
const (
	VerdictApproved = "approved"
	VerdictRejected = "rejected"
)

// TaskFeedback is what a review said.
type TaskFeedback struct {
	Iteration int       `json:"iteration"`
	Verdict   string    `json:"verdict"`
	Text      string    `json:"text"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// Tasks is what surfaces do with tasks beside runs. A task is started by
// [Service.Start], goes on by Resume, and is answered by Decide.
type Tasks interface {
	// New makes a pending task. Without an id it is given the next one.
	New(context.Context, Task) (Task, error)
	Get(ctx context.Context, id string) (Task, error)
	// List is in the order of ids.
	List(context.Context, TaskQuery) ([]Task, error)
	// Set changes a task as a person does: another status, or an edited document. On a
	// task with an open gate it is a decision of that gate.
	Set(context.Context, TaskChange) (Task, error)
	// Feedback decides the review that a task waits for.
	Feedback(context.Context, TaskReview) (Task, error)
	// Log is what was written on a task, oldest first.
	Log(ctx context.Context, id string) ([]TaskLogLine, error)
}

// TaskQuery selects tasks.
type TaskQuery struct {
	Status   TaskStatus `json:"status,omitempty"` // "": all
	Run      string     `json:"run,omitempty"`    // "": of all, and without one
	Implicit bool       `json:"implicit,omitempty"`
}

// TaskChange is a person's: one of the two.
type TaskChange struct {
	ID string     `json:"id"`
	To TaskStatus `json:"to,omitempty"`
	// Document is an edited export; its revision must be the task's.
	Document *Task  `json:"document,omitempty"`
	Why      string `json:"why,omitempty"`
}

// TaskReview is a person's verdict.
type TaskReview struct {
	ID      string `json:"id"`
	Verdict string `json:"verdict"`
	Text    string `json:"text,omitempty"` // needed to reject
}

// TaskLogLine is one entry of a task's log.
type TaskLogLine struct {
	At    time.Time `json:"at"`
	Level string    `json:"level"`
	Text  string    `json:"text"`
}

package tipstaff

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Task is a piece of work for a worker. It outlives invocations and reviews; a run
// carries it out.
//
// As a document it is YAML or JSON; schema/task.cue is the published schema, and
// [ValidateTask] says the same. A task with a run is changed by the records of its run:
// see [Task.Apply].
type Task struct {
	ID            string            `json:"id" doc:",required"`
	Name          string            `json:"name" doc:",required"`
	Description   string            `json:"description" doc:",required"`
	Role          string            `json:"role" doc:",required"`
	Worker        string            `json:"worker,omitempty" doc:""` // "": chosen when it is spawned
	Review        string            `json:"review" doc:",required"`  // none, person or a role
	Status        TaskStatus        `json:"status" doc:",required"`
	Iteration     int               `json:"iteration" doc:",required"`
	MaxIterations int               `json:"max_iterations" doc:",required"`
	SessionID     string            `json:"session_id,omitempty" doc:""` // that one can give the CLI
	RunID         string            `json:"run_id,omitempty" doc:""`
	Parent        string            `json:"parent,omitempty" doc:""` // the task under review
	Pause         *TaskPause        `json:"pause,omitempty" doc:""`
	LastOutcome   string            `json:"last_outcome,omitempty" doc:""`
	Inputs        []TaskInput       `json:"inputs" doc:",required"`
	Outputs       []TaskOutput      `json:"outputs" doc:",required"`
	Feedback      []TaskFeedback    `json:"feedback" doc:",required"`
	CreatedAt     time.Time         `json:"created_at" doc:",required"`
	UpdatedAt     time.Time         `json:"updated_at" doc:",required"`
	StartedAt     time.Time         `json:"started_at,omitzero" doc:""`
	CompletedAt   time.Time         `json:"completed_at,omitzero" doc:""`
	Revision      int64             `json:"revision" doc:",required"` // grows with every change
	Metadata      map[string]string `json:"metadata" doc:",required"`

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

// TaskStatuses are all, in the order in which a task comes to them.
func TaskStatuses() []TaskStatus {
	return []TaskStatus{TaskPending, TaskInProgress, TaskPaused, TaskNeedsReview, TaskCompleted, TaskAbandoned}
}

// Ended reports whether nothing follows.
func (s TaskStatus) Ended() bool { return s == TaskCompleted || s == TaskAbandoned }

// TaskPause is why a task waits.
type TaskPause struct {
	Reason   string   `json:"reason" doc:",required"` // question, approval, in_doubt, or the outcome of an invocation
	Question string   `json:"question,omitempty" doc:""`
	Options  []string `json:"options,omitempty" doc:""`
}

// TaskInput is a file to read, or a text: one of the two.
type TaskInput struct {
	Path string `json:"path,omitempty" doc:""`
	Text string `json:"text,omitempty" doc:""`
}

// TaskOutput is something that a task has brought forth.
type TaskOutput struct {
	Kind      string    `json:"kind" doc:",required"` // file, data, verdict
	Path      string    `json:"path,omitempty" doc:""`
	SHA256    string    `json:"sha256,omitempty" doc:""` // as digests are written: sha256:<hex>
	Note      string    `json:"note,omitempty" doc:""`
	Iteration int       `json:"iteration" doc:",required"`
	At        time.Time `json:"at" doc:",required"`
}

// Verdicts of a review.
const (
	VerdictApproved = "approved"
	VerdictRejected = "rejected"
)

// TaskFeedback is what a review said.
type TaskFeedback struct {
	Iteration int       `json:"iteration" doc:",required"`
	Verdict   string    `json:"verdict" doc:",required"`
	Text      string    `json:"text" doc:",required"`
	By        string    `json:"by" doc:",required"`
	At        time.Time `json:"at" doc:",required"`
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
	// Document is an edited export, YAML or JSON; its revision must be the task's.
	Document []byte `json:"document,omitempty"`
	File     string `json:"file,omitempty"` // that it came from, for messages
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

// Plan is the plan of one step that does the task, and delivers what was changed. What
// looks like a reference in its texts is none.
func (t Task) Plan(delivers bool) []byte {
	literal := strings.NewReplacer("${", "$${").Replace
	inputs := map[string][]string{}
	for _, in := range t.Inputs {
		if in.Path != "" {
			inputs["paths"] = append(inputs["paths"], literal(in.Path))
		} else {
			inputs["texts"] = append(inputs["texts"], literal(in.Text))
		}
	}
	step := map[string]any{"kind": "step", "id": "work", "agent": t.Role, "prompt": literal(cmp.Or(t.Description, t.Name))}
	if len(inputs) > 0 {
		step["inputs"] = inputs
	}
	plan := map[string]any{"kind": "plan", "version": 1, "name": t.Name, "root": step}
	if delivers {
		plan["deliver"] = map[string]any{}
	}
	return flow.JSON(plan)
}

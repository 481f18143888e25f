package worker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// taskChannel takes the calls of a channel for the task of an invocation. Each is a note
// of the call's record, from which the task's row follows in the same transaction.
type taskChannel struct {
	x      *turn
	limits Limits

	mu        sync.Mutex
	task      tipstaff.Task
	iteration int
}

// Status implements [Channel].
func (c *taskChannel) Status(context.Context) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.task
	said := taskStatus{Task: t.ID, Name: t.Name, Status: t.Status, Iteration: c.iteration, MaxIterations: t.MaxIterations, Description: t.Description,
		Inputs: t.Inputs, Feedback: t.Feedback, Outputs: t.Outputs, Limits: c.limits}
	return flow.JSON(said), nil
}

// taskStatus is what task_status answers.
type taskStatus struct {
	Task          string                  `json:"task"`
	Name          string                  `json:"name"`
	Status        tipstaff.TaskStatus     `json:"status"`
	Iteration     int                     `json:"iteration"`
	MaxIterations int                     `json:"max_iterations"`
	Description   string                  `json:"description"`
	Inputs        []tipstaff.TaskInput    `json:"inputs"`
	Feedback      []tipstaff.TaskFeedback `json:"feedback"`
	Outputs       []tipstaff.TaskOutput   `json:"outputs"`
	Limits        Limits                  `json:"limits"`
}

// SetStatus implements [Channel].
func (c *taskChannel) SetStatus(_ context.Context, to tipstaff.TaskStatus, reason string) error {
	return c.report(tipstaff.TaskMoved{To: to, Why: reason})
}

// Ask implements [Channel].
func (c *taskChannel) Ask(_ context.Context, question string, options []string) error {
	return c.report(tipstaff.TaskMoved{To: tipstaff.TaskPaused, Why: "it asks", Pause: &tipstaff.TaskPause{Reason: "question", Question: question, Options: options}})
}

// report moves the task as a worker may.
func (c *taskChannel) report(m tipstaff.TaskMoved) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.task.CheckMove(m.To, tipstaff.ByWorker); err != nil {
		return err
	}
	if m.To == tipstaff.TaskPaused && m.Pause == nil {
		m.Pause = &tipstaff.TaskPause{Reason: string(Paused)}
	}
	m.By = string(tipstaff.ByWorker)
	c.moved(m)
	return c.x.attempt.Sync()
}

// move is one of Tipstaff's own.
func (c *taskChannel) move(m tipstaff.TaskMoved) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved(m)
}

// session tells the task the id that the CLI has given its session.
func (c *taskChannel) session(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.task.SessionID != id {
		c.moved(tipstaff.TaskMoved{By: bySystem, SessionID: id})
	}
}

// moved records a move; without a status to move to, the task stays where it is.
func (c *taskChannel) moved(m tipstaff.TaskMoved) {
	m.To = cmp.Or(m.To, c.task.Status)
	m.Task, m.From, m.Iteration = c.task.ID, c.task.Status, c.iteration
	c.task.Status = m.To
	if m.SessionID != "" {
		c.task.SessionID = m.SessionID
	}
	c.x.note(tipstaff.KindTaskStatus, m)
}

// Log implements [Channel].
func (c *taskChannel) Log(_ context.Context, level, text string) error {
	c.x.note(tipstaff.KindTaskLog, tipstaff.TaskLogged{Task: c.task.ID, Invocation: c.x.id, Level: level, Text: text})
	return c.x.attempt.Sync()
}

// Output implements [Channel].
func (c *taskChannel) Output(_ context.Context, h Handed) (tipstaff.TaskOutput, error) {
	b := tipstaff.TaskBrought{Task: c.task.ID, Invocation: c.x.id, Value: h.Value,
		Output: tipstaff.TaskOutput{Kind: h.Kind, Note: h.Note, Iteration: c.iteration, At: c.x.host.Now().UTC()}}
	var err error
	switch h.Kind {
	case "file":
		b.Output.Path, b.Output.SHA256, err = handedFile(c.x.dir, h.Path)
	case "data":
		err = checkData(c.x.local.Schema, h.Value)
	case "verdict":
		if !c.x.local.verdict {
			err = fmt.Errorf("this task is no review: it gives no verdict")
		}
	}
	if err != nil {
		return b.Output, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.task.Outputs = append(c.task.Outputs, b.Output)
	c.x.note(tipstaff.KindTaskOutput, b)
	return b.Output, c.x.attempt.Sync()
}

// checkData holds a value against the schema of an output, if there is one.
func checkData(schema, value json.RawMessage) error {
	if schema == nil {
		return nil
	}
	s, err := document.CompileSchema(schema)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	return s.Validate(v)
}

// mostFile is the size of a file that is handed over: its digest is taken while the worker
// waits, and a file with holes has any size.
const mostFile = 1 << 30

// handedFile is a file as its task keeps it: its path within the directory, and what it
// holds.
func handedFile(dir, name string) (path, digest string, err error) {
	real, err := inside(dir, name)
	if err != nil {
		return "", "", err
	}
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would have us wait for a writer
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", "", fmt.Errorf("%s is no file", name)
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, mostFile+1))
	if err != nil {
		return "", "", err
	}
	if n > mostFile {
		return "", "", fmt.Errorf("%s has more than %d bytes: say in a log entry where it is", name, mostFile)
	}
	if filepath.IsAbs(name) {
		if name, err = filepath.Rel(dir, name); err != nil {
			return "", "", err
		}
	}
	return filepath.ToSlash(filepath.Clean(name)), journal.Hash(h.Sum(nil)).String(), nil
}

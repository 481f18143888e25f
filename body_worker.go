package tipstaff

import "encoding/json"

// Bodies of the records of workers and their tasks.

// WorkerStarted is the body of worker.started: the process of an invocation runs.
type WorkerStarted struct {
	Invocation  string          `json:"invocation"` // a ULID: one process, from spawn or resume to its end
	Session     string          `json:"session"`    // of Tipstaff
	SessionID   string          `json:"session_id"` // of the CLI; "": it has not told yet
	Worker      string          `json:"worker"`
	Type        string          `json:"type"`
	Family      string          `json:"family"`
	CLIVersion  string          `json:"cli_version"`
	Model       string          `json:"model,omitempty"` // "": the CLI's own choice
	Posture     string          `json:"posture"`
	Sandbox     string          `json:"sandbox,omitempty"` // what the operator says it is, of posture bypass
	Settings    string          `json:"settings"`
	Unenforced  []string        `json:"unenforced"` // rules of the policy that do not hold inside the CLI
	Containment string          `json:"containment"`
	Dir         string          `json:"dir"`
	Task        string          `json:"task"`
	Iteration   int             `json:"iteration"`
	Resumed     bool            `json:"resumed"`
	Identity    ProcessIdentity `json:"identity"`
}

// ProcessIdentity tells a process from every other, also from one that comes to have its
// pid. With the marker and the cgroup, what it has started is found after its own end.
type ProcessIdentity struct {
	Pid    int    `json:"pid"`
	Start  int64  `json:"start_time"` // in the kernel's own unit
	Boot   string `json:"boot_id"`
	PidNS  string `json:"pid_ns,omitempty"`
	Spawn  string `json:"spawn,omitempty"`  // that everything it starts carries in its environment
	Cgroup string `json:"cgroup,omitempty"` // that is its own; "": it has none
}

// Kinds of what a CLI prints beside the events of an agent.
const (
	WorkerInit     = "init"
	WorkerRetry    = "retry"
	WorkerWarning  = "warning"
	WorkerThinking = "thinking"
	WorkerDenied   = "denied"
	WorkerText     = "text" // no JSON
	WorkerUnknown  = "unknown"
)

// WorkerEvent is the body of worker.event: a line of a CLI that no event of an agent
// stands for.
type WorkerEvent struct {
	Invocation string `json:"invocation"`
	What       string `json:"kind"`
	Raw        string `json:"raw"`              // its first 4 KiB
	Bytes      int64  `json:"bytes,omitempty"`  // of the whole line, if it was cut
	Digest     string `json:"digest,omitempty"` // likewise
}

// WorkerEnded is the body of worker.ended: how an invocation ended. Texts of the worker
// are in the result of the call.
type WorkerEnded struct {
	Invocation  string          `json:"invocation"`
	SessionID   string          `json:"session_id"`
	Outcome     string          `json:"outcome"`
	Which       string          `json:"which,omitempty"` // the limit, of outcome limit
	Exit        WorkerExit      `json:"exit"`
	Usage       ModelUsage      `json:"usage"`
	UsageKnown  bool            `json:"usage_known"`
	Steps       int             `json:"steps"`
	ToolCalls   int             `json:"tool_calls"`
	Denials     int             `json:"denials"`
	Pending     int             `json:"pending"`
	Leftover    []LeftProcess   `json:"leftover"`
	DurationMS  int64           `json:"duration_ms"`
	Report      json.RawMessage `json:"report,omitempty"` // what it reported through the channel
	Containment string          `json:"containment"`
}

// WorkerExit is how a process ended: by itself, or by a signal.
type WorkerExit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
}

// LeftProcess is one that a program left behind, and that was ended.
type LeftProcess struct {
	Pid  int    `json:"pid"`
	Comm string `json:"comm"`
}

// Tiers: what Tipstaff can say of a call that a worker made.
const (
	TierMediated = "mediated" // it came through the channel, or passed the approval hook
	TierReported = "reported" // the CLI told of it
)

// Inside is what the events of an agent have besides if a worker tells them.
type Inside struct {
	Worker     string `json:"worker,omitempty"`
	Invocation string `json:"invocation,omitempty"`
	Parent     string `json:"parent,omitempty"` // call id of the sub-agent that it comes from
	Tier       string `json:"tier,omitempty"`   // of calls
}

// TaskMoved is the body of task.status: a task has another status. Where from and to are
// the same it has stayed, and its session or how an invocation ended became known.
//
// By is a person only where a person moves it: approves, abandons, or says what a lost
// invocation reported. Work that a person rejected or answered goes on by the system.
type TaskMoved struct {
	Task      string        `json:"task"`
	From      TaskStatus    `json:"from"`
	To        TaskStatus    `json:"to"`
	By        string        `json:"by"` // system, worker or who has decided
	Why       string        `json:"why,omitempty"`
	Iteration int           `json:"iteration"`            // after the move
	Pause     *TaskPause    `json:"pause,omitempty"`      // of a move to paused
	Outcome   string        `json:"outcome,omitempty"`    // of the invocation that led to it
	SessionID string        `json:"session_id,omitempty"` // of the CLI, if it became known
	Feedback  *TaskFeedback `json:"feedback,omitempty"`   // that a review gave
}

// TaskLogged is the body of task.log: a worker's note on its task.
type TaskLogged struct {
	Task       string `json:"task"`
	Invocation string `json:"invocation"`
	Level      string `json:"level"` // info, warning, error
	Text       string `json:"text"`
}

// TaskBrought is the body of task.output: what a task has brought forth.
type TaskBrought struct {
	Task       string          `json:"task"`
	Invocation string          `json:"invocation"`
	Output     TaskOutput      `json:"output"`
	Value      json.RawMessage `json:"value,omitempty"` // of kinds data and verdict
}

// Kind is what makes it one of the bodies that an invocation tells.
func (*WorkerEvent) Kind() Kind { return KindWorkerEvent }

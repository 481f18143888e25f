package worker

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Worker is a configured CLI.
type Worker interface {
	Name() string
	// Available looks for the CLI and its version. Nothing is started but the CLI with
	// --version.
	Available(context.Context) (Info, error)
	SupportsResumption() bool
	// Spawn begins a session, Resume goes on with one. Both return when every process of
	// the invocation is gone. An error means that nothing ran; once a process was started
	// it is nil, and the outcome of the Result says how it ended.
	Spawn(context.Context, Options) (Result, error)
	Resume(context.Context, Options) (Result, error)
}

// Info is what is known of an installed CLI.
type Info struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	Family  string `json:"family"` // the row of the table of command lines that fits
}

// Posture is what a CLI may do by itself.
type Posture string

const (
	Auto     Posture = "auto"      // as the policy says
	ReadOnly Posture = "read_only" // it changes no file
	Write    Posture = "write"     // it may change files
	Bypass   Posture = "bypass"    // everything; for a sandbox
)

// Limits bound one invocation. Zero: none.
type Limits struct {
	Wall        time.Duration
	Idle        time.Duration // without a byte of output; notices of retries do not count
	Grace       time.Duration
	Output      int64 // bytes of stdout and stderr
	Tokens      int64
	CostUSD     tipstaff.USD
	Containment string // the least level that is accepted; "": any
}

// limitsJSON is how limits are written down.
type limitsJSON struct {
	Wall        document.Duration `json:"wall"`
	Idle        document.Duration `json:"idle"`
	Grace       document.Duration `json:"grace"`
	Output      int64             `json:"output"`
	Tokens      int64             `json:"tokens,omitempty"`
	CostUSD     tipstaff.USD      `json:"cost_usd"`
	Containment string            `json:"containment,omitempty"`
}

// MarshalJSON writes durations as people do.
func (l Limits) MarshalJSON() ([]byte, error) {
	return flow.JSON(limitsJSON{document.Duration(l.Wall), document.Duration(l.Idle), document.Duration(l.Grace), l.Output, l.Tokens, l.CostUSD, l.Containment}), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Limits) UnmarshalJSON(data []byte) error {
	var w limitsJSON
	err := json.Unmarshal(data, &w)
	*l = Limits{time.Duration(w.Wall), time.Duration(w.Idle), time.Duration(w.Grace), w.Output, w.Tokens, w.CostUSD, w.Containment}
	return err
}

// Options are what an invocation is given.
type Options struct {
	Run, Path  string // of the call
	Invocation string // a ULID
	Session    Conversation
	Prompt     string   // goes to its standard input
	Dir        string   // where it works
	Env        []string // all of its environment, the markers of the run included
	Model      string   // "": the CLI's own choice
	Posture    Posture
	Limits     Limits
	Folder     string // private: configuration of the CLI, its home; exists, 0700
	Logs       string // where <invocation>.jsonl, .stderr and .log are written; exists

	Channel Channel // where calls of its channel arrive
	Policy  Policy  // what the CLI may do
	Price   Price   // nil: no price is known
	Sink    Sink    // hears of everything, in order, from one goroutine, never after the call has returned
	Starter Starter // starts processes
	Redact  func([]byte) []byte
	// Begin is called when nothing else can refuse the invocation, before anything is
	// stored or started for it; it may still change the limits. Nil: nothing is to do.
	Begin func(*Options) error
	// Spent is told what the invocation has used so far, as far as its stream shows that.
	Spent func(tokens int64, cost tipstaff.USD, costKnown bool)
}

// Conversation is the CLI's own session, as far as an invocation needs to know it.
type Conversation struct {
	ID     string                 // the CLI's; the one to create where Tipstaff makes the id; "": the CLI will tell
	ForkOf string                 // a session of which this one is to be a copy; "": none
	Totals tipstaff.SessionTotals // as counted when it last ended
}

// Outcome is how an invocation ended.
type Outcome string

const (
	StartFailed     Outcome = "start_failed"     // the CLI could not be executed
	ChannelFailed   Outcome = "channel"          // it did not connect to the channel
	Orphan          Outcome = "orphan"           // a process survived
	Cancelled       Outcome = "cancelled"        // the run is being cancelled
	Limit           Outcome = "limit"            // stopped at a limit before it reported or asked
	Approval        Outcome = "approval"         // requests wait for a person
	Paused          Outcome = "paused"           // it asked, or set its task to paused
	SessionConflict Outcome = "session_conflict" // the CLI says that the id is in use
	SessionLost     Outcome = "session_lost"     // the CLI does not know the id
	Empty           Outcome = "empty"            // no event at all, whatever the exit
	Failed          Outcome = "error"            // the end of its stream says so
	Exited          Outcome = "exit"             // not zero, or a signal that is not ours
	Truncated       Outcome = "truncated"        // exit 0 without an end of the stream
	Denied          Outcome = "denied"           // ended well without a report: something was denied
	NoReport        Outcome = "no_report"        // ended well without a report
	Reported        Outcome = "reported"         // ended well, or was stopped, after it reported
)

// Result is what an invocation came to. It is recorded: the flow decides on it alone.
type Result struct {
	Outcome      Outcome                `json:"outcome"`
	Which        string                 `json:"which,omitempty"` // of a limit: wall, idle, output, tokens, cost_usd
	Bound        string                 `json:"bound,omitempty"` // of the run, if that was the smaller limit
	Held         bool                   `json:"held,omitempty"`  // of that bound, part was held for attempts that were lost
	SessionID    string                 `json:"session_id"`
	Exit         tipstaff.WorkerExit    `json:"exit"`
	IsError      bool                   `json:"is_error"`
	Error        string                 `json:"error,omitempty"` // what the CLI says went wrong, cut
	Text         string                 `json:"text"`            // last of the assistant
	Usage        tipstaff.ModelUsage    `json:"usage"`           // of this invocation
	UsageKnown   bool                   `json:"usage_known"`
	CostUSD      tipstaff.USD           `json:"cost_usd"`
	CostKnown    bool                   `json:"cost_known"`
	Totals       tipstaff.SessionTotals `json:"totals"` // of the session, as the CLI counts
	Denials      []Denial               `json:"denials"`
	DenialsKnown bool                   `json:"denials_known"`
	Pending      []Request              `json:"pending"` // that a person must decide
	Report       Report                 `json:"report"`
	Steps        int                    `json:"steps"`
	ToolCalls    int                    `json:"tool_calls"`
	StderrTail   string                 `json:"stderr_tail"` // 4 KiB
	Leftover     []tipstaff.LeftProcess `json:"leftover"`
	Containment  string                 `json:"containment"`
	CLIVersion   string                 `json:"cli_version"`
	Dir          string                 `json:"dir"`
	DurationMS   int64                  `json:"duration_ms"`
	Logs         Logs                   `json:"logs"`
	Notices      []tipstaff.Notice      `json:"notices,omitempty"` // of what was changed beside its directory
}

// Logs are the files of an invocation.
type Logs struct {
	Raw      string `json:"raw"`
	Readable string `json:"readable"`
}

// Denial is a call that the CLI did not make because it was not allowed.
type Denial struct {
	Tool       string `json:"tool"`
	CallID     string `json:"call_id"`
	ArgsDigest string `json:"args_digest"`
	Reason     string `json:"reason"`
}

// Report is what a worker said through its channel.
type Report struct {
	Status   tipstaff.TaskStatus   `json:"status,omitempty"` // needs_review or paused; "": nothing
	Reason   string                `json:"reason,omitempty"`
	Question string                `json:"question,omitempty"`
	Options  []string              `json:"options,omitempty"`
	Outputs  []tipstaff.TaskOutput `json:"outputs"`
	Data     json.RawMessage       `json:"data,omitempty"` // the last
	Verdict  *Verdict              `json:"verdict,omitempty"`
}

// Verdict is what a reviewer says of a change. It is what a pipeline calls a review.
type Verdict struct {
	Verdict    string          `json:"verdict"` // approved or rejected
	Summary    string          `json:"summary"`
	Findings   json.RawMessage `json:"findings"`   // a list
	Incomplete json.RawMessage `json:"incomplete"` // a list
}

// Channel takes the calls of a worker's channel. Each is durable when it returns; an error
// is what the worker is told, and nothing has changed.
type Channel interface {
	// Status is what task_status answers.
	Status(context.Context) (json.RawMessage, error)
	SetStatus(ctx context.Context, to tipstaff.TaskStatus, reason string) error
	Log(ctx context.Context, level, text string) error
	Ask(ctx context.Context, question string, options []string) error
	// Output checks and keeps what the worker hands over: of kind file a path inside its
	// directory, else a value. It returns what was stored.
	Output(context.Context, Handed) (tipstaff.TaskOutput, error)
}

// Handed is the argument of task_output.
type Handed struct {
	Kind  string          `json:"kind"`
	Path  string          `json:"path,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	Note  string          `json:"note,omitempty"`
}

// Request is a call that a CLI asks leave for.
type Request struct {
	Tool       string          `json:"tool"` // worker-<type>/<native name>
	CallID     string          `json:"call_id"`
	Args       json.RawMessage `json:"args"`
	ArgsDigest string          `json:"args_digest"`
	Class      string          `json:"class"`
	Rule       string          `json:"rule"`
	Facts      json.RawMessage `json:"facts,omitempty"`
	Guards     []string        `json:"guards,omitempty"` // classes that the guards of the policy gave it
	Claim      string          `json:"claim,omitempty"`  // what the CLI says of it
}

// Effects of policies.
const (
	Allow   = "allow"
	Ask     = "ask"
	Deny    = "deny"
	Depends = "depends" // on arguments, facts or the run
)

// Ruling is what a policy says of a request.
type Ruling struct {
	Effect string   `json:"effect"`
	Rules  []string `json:"rules"` // that decided
	Why    string   `json:"why"`
	Facts  json.RawMessage
	Class  string   // of the request, which guards may have raised
	Guards []string // their own classes of it
	Digest string   // of the policy
}

// Policy is the stricter of the run's frozen policy and the one in force, with the guards
// and the grants of the invocation.
type Policy interface {
	// Static is the ruling on a native tool whatever it is called with.
	Static(server, tool, class string) Ruling
	// Decide is the ruling on one request, asked once for each.
	Decide(ctx context.Context, r Request) Ruling
}

// Price is the cost of an amount of tokens; false: it is not known.
type Price func(model string, u tipstaff.ModelUsage) (tipstaff.USD, bool)

// Sink hears what an invocation tells.
type Sink interface {
	// Started is called before output is read.
	Started(tipstaff.WorkerStarted) error
	// Session is called when the CLI tells its session, before the next line is read.
	Session(id string) error
	// Event is given pointers to the bodies of agents' events (agent.text_delta is told,
	// not recorded) and of worker.event.
	Event(body Body)
}

// Body is a body of a record.
type Body interface{ Kind() tipstaff.Kind }

// Starter starts processes; package supervisor is one.
type Starter interface {
	Start(Program) (Process, error)
	// Containment is the level that processes are kept at: cgroup, subreaper or group.
	Containment() string
}

// Program is a process to be started, with a reaper between it and us where there can be
// one.
type Program struct {
	Path  string
	Args  []string // the first is the program's own name
	Dir   string
	Env   []string
	Input []byte // all of its standard input; closed after it
}

// Process is one that was started. Its output must be read.
type Process interface {
	Identity() tipstaff.ProcessIdentity
	Stdout() io.Reader
	Stderr() io.Reader
	// Exited is closed when the program itself has ended.
	Exited() <-chan struct{}
	// Stop asks the program to end, and after grace ends it with everything it started.
	Stop(grace time.Duration)
	// Wait ends what the program left behind, and returns when none is left. What was
	// written can still be read then; who has read it closes the streams.
	Wait() Ended
}

// Ended is how a process ended, and what it left.
type Ended struct {
	Exit      tipstaff.WorkerExit
	Leftover  []tipstaff.LeftProcess
	Survivors []tipstaff.LeftProcess // that could not be ended
}

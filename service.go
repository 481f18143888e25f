package tipstaff

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Service is everything a surface can do with runs: the roles below, each method one
// operation over plain values. The runner implements it in process, a client of a
// server elsewhere by calls; adapters translate to and from it and hold no logic of
// their own.
//
// Errors are [*Error] with one of the closed codes. Ids are checked before any
// look-up: a malformed one is invalid_argument, an unknown one run_not_found.
type Service interface {
	Starter
	Reader
	Decider
	Driver
	Brancher
	Verifier
	Envelopes
}

// Starter makes runs.
type Starter interface {
	// Start validates a program and creates a run of it, whose drive begins before
	// Start returns. By handing it over the caller accepts it.
	Start(context.Context, StartRequest) (Started, error)
	// Draft creates a run that begins with prose: a model drafts the plan, and a person
	// accepts it.
	Draft(context.Context, DraftRequest) (Started, error)
	// Validate says what Start, Draft or Correct would say of a request. It makes no run and
	// changes none.
	Validate(context.Context, ValidateRequest) (Validated, error)
}

// Reader looks at runs, and changes nothing.
type Reader interface {
	// Get is one run with its gates and bounds.
	Get(context.Context, ID) (Run, error)
	// List is a page of runs, newest first.
	List(context.Context, ListRequest) (RunPage, error)
	// Events yields records after a cursor. With Follow it goes on until the run
	// has ended or nobody drives it, and also yields what calls tell and nobody
	// records, as events without a seq: some may be missed, they count for no cursor
	// and no limit, and none comes after the record that ends its call.
	Events(context.Context, EventsRequest) iter.Seq2[Event, error]
	// Wait returns when nobody drives the run, and says how its last drive ended.
	Wait(context.Context, ID) (Driven, error)
	// Checkpoints are those of a pipeline run, oldest first, the inherited included.
	Checkpoints(context.Context, ID) ([]Checkpoint, error)
	// Artifact is a stored document or payload by its digest.
	Artifact(ctx context.Context, run ID, digest string) ([]byte, error)
	// Gate is one gate of a run, open or closed, by its id or its key: of several with
	// one key the open one, else the newest. What it asks about is all of it.
	Gate(ctx context.Context, run ID, gate string) (Gate, error)
	// Inbox is a page of undecided gates, oldest first.
	Inbox(context.Context, InboxRequest) (InboxPage, error)
	// Threads is a page of the caller's threads, the one with the newest run first.
	Threads(context.Context, ThreadsRequest) (ThreadPage, error)
}

// Decider answers gates.
type Decider interface {
	// Decide closes a gate. The same decision again returns the stored one, byte
	// for byte; another is decision_conflict. It starts nothing.
	Decide(context.Context, DecideRequest) (Decided, error)
	// Defer says that nobody is going to answer a gate now. A drive that waits for an
	// answer parks once all of its gates are deferred. Nothing is recorded.
	Defer(ctx context.Context, run ID, gate ID) error
}

// Driver has runs go on, or end.
type Driver interface {
	// Resume drives a waiting or interrupted run on. One that waits for decisions that
	// nobody has made, and that nobody is there to make, stays as it is.
	Resume(context.Context, ResumeRequest) (Started, error)
	// Correct hands a revised program to a run, whoever drives it. It drives nothing.
	Correct(context.Context, CorrectRequest) (Corrected, error)
	// Cancel asks a living owner to cancel and ends what does not, or settles a run that
	// has none.
	Cancel(context.Context, CancelRequest) (Cancellation, error)
}

// Brancher makes runs of the beginnings of others. Nothing is driven in this process.
type Brancher interface {
	// Fork makes a new run that inherits the journal of another up to a record, beside
	// that one. With Detach a process of its own drives it.
	Fork(context.Context, ForkRequest) (Forked, error)
	// Rollback makes a new run from a boundary of a pipeline run, which takes its
	// place: it keeps the identity of the Envelope and the thread, and the old one ends.
	Rollback(context.Context, RollbackRequest) (Run, error)
	// Label gives a checkpoint a name.
	Label(context.Context, LabelRequest) (Checkpoint, error)
}

// Verifier proves what was done.
type Verifier interface {
	// Verify checks the integrity and conformance of a run, or of an export.
	Verify(context.Context, VerifyRequest) (Report, error)
}

// Envelopes is the state of pipeline runs, which can be made and changed as a draft
// before it is executed.
type Envelopes interface {
	// CreateEnvelope makes a draft. The same request id again gives the same draft.
	CreateEnvelope(context.Context, EnvelopeRequest) (Started, error)
	// UpdateEnvelope changes a draft: all that is asked for, or nothing.
	UpdateEnvelope(context.Context, EnvelopeUpdate) error
	// ExecuteEnvelope starts a draft, or drives an unfinished run on that waits for
	// nothing.
	ExecuteEnvelope(context.Context, ExecuteRequest) (Started, error)
	// ExecuteAgent runs one agent of a draft, alone, in a run of its own. When that ends
	// its output and use become the draft's.
	ExecuteAgent(context.Context, AgentRequest) (Started, error)
	// Envelope is the state of a run in JSON: as it is now or, if one is named, as it was
	// at a checkpoint.
	Envelope(ctx context.Context, run ID, checkpoint string) ([]byte, error)
	// Graph draws a run, as mermaid or dot, with how often each edge was taken. As json it
	// is the shape of the pipeline alone, a [Graph] for a [GraphFold].
	Graph(ctx context.Context, run ID, format string) ([]byte, error)
}

// StartRequest hands over a program.
type StartRequest struct {
	Program []byte `json:"program"` // YAML or JSON: a plan, a pipeline or a turn
	Name    string `json:"name"`    // of the file, for messages
	// File names a document of the workspace in place of Program: it must lie inside of it,
	// or of a folder that the server allows, links resolved. One in a folder that the operator
	// serves (serve.programs, --pipelines) is the operator's word, and needs no scope but
	// run; any other is the caller's, as Program is. "": Program holds it.
	File string `json:"file,omitempty"`
	Hosting
	// Inputs of a plan are its own; a pipeline's are raw_input, metadata, goals,
	// thread_id, session_id, request_id and stage_order.
	Inputs map[string]json.RawMessage `json:"inputs,omitempty"`
	Title  string                     `json:"title,omitempty"`
	Via    string                     `json:"via,omitempty"` // recorded in intent.accept; "" is command
	Presence
	// AllowSubDispatch lets the plan start child runs where the manifest does not.
	AllowSubDispatch bool   `json:"allow_sub_dispatch,omitempty"`
	Bounds           Bounds `json:"bounds,omitempty"` // tighten those of program and manifest; nil: they hold
	// NoFiles: the program may name no files, because it came from elsewhere. Whether it is
	// accepted by being handed over does not depend on it.
	NoFiles bool `json:"no_files,omitempty"`
	// Task is a pending task, which the run takes in the transaction that makes it: of two
	// starts one is task_busy. Without a Program it is one that does the task. nil: none.
	Task *TaskStart `json:"task,omitempty"`
}

// TaskStart names a task that is to be started.
type TaskStart struct {
	ID     string `json:"id"`
	Worker string `json:"worker,omitempty"` // who is to do it; "": the task's own, or whoever its role is bound to
}

// Hosting is where and as what a run is driven that is about to be started.
type Hosting struct {
	// Detach has a process of its own drive the run, which goes on when this one ends.
	Detach bool `json:"detach,omitempty"`
	// Key names the request: the same again finds the run that it has made, and with
	// other content it is request_conflict. Keys are a user's own. "": each request makes a run.
	Key string `json:"idempotency_key,omitempty"`
	// Project is a folder inside of the workspace, or of one that the server allows, that
	// the run is about; "": the workspace.
	Project string            `json:"project_dir,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Message is for one of which a user has one at a time: while its run is driven, or waits
	// for its turn, the next is busy.
	Message bool `json:"message,omitempty"`
}

// Presence says who answers the gates of a run while it is driven. The zero value is
// nobody: a run that asks parks.
type Presence struct {
	// Yes approves a plan's own gates, and accepts what is drafted, in advance. It is
	// recorded as --yes.
	Yes bool `json:"yes,omitempty"`
	// Accept accepts what is drafted in advance, and answers nothing else. To callers from
	// elsewhere it takes a policy with auto_accept. It is recorded as accept: auto.
	Accept bool `json:"accept,omitempty"`
	// Attended: somebody answers by Decide or Defer. A run that asks goes on waiting for
	// some minutes before it parks.
	Attended bool `json:"attended,omitempty"`
}

// DraftRequest is what a model drafts a plan for.
type DraftRequest struct {
	Prose  string                     `json:"prose"`           // what is wanted
	Skill  string                     `json:"skill,omitempty"` // URI; "": the manifest's default_skill
	Agent  string                     `json:"agent,omitempty"` // who drafts; "": default
	Inputs map[string]json.RawMessage `json:"inputs,omitempty"`
	Title  string                     `json:"title,omitempty"`
	Via    string                     `json:"via,omitempty"` // recorded in intent.accept; "" is command
	Hosting
	Presence
	Only             bool   `json:"only,omitempty"` // the run waits when the plan is drafted, whoever is there
	AllowSubDispatch bool   `json:"allow_sub_dispatch,omitempty"`
	Bounds           Bounds `json:"bounds,omitempty"`
}

// Started is a run whose drive has begun, or a draft that was made.
type Started struct {
	Run ID `json:"run_id"`
	Validated
	Existed bool `json:"existed,omitempty"` // it was made before, by the same request
	// Launched is the process that was started for it; nil: it is driven in this one.
	Launched *Launched `json:"launched,omitempty"`
}

// Launched is a process that was started to drive a run.
type Launched struct {
	Dir  string    `json:"run_dir"` // of the run's files
	Pid  int       `json:"pid"`
	Argv []string  `json:"argv"`
	At   time.Time `json:"started_at"`
}

// Driven is how a drive ended.
type Driven struct {
	State   State     `json:"state"`
	Outcome string    `json:"outcome"`          // completed: success or partial; else parked, interrupted, cut or the state
	Reason  string    `json:"reason,omitempty"` // failure reason, or why it was interrupted
	Code    string    `json:"code,omitempty"`   // the particular error
	Bound   string    `json:"bound,omitempty"`  // of bound_exceeded
	Message string    `json:"message,omitempty"`
	Gates   []string  `json:"gates,omitempty"`
	WakeAt  time.Time `json:"wake_at,omitzero"`
	Err     *Error    `json:"error,omitempty"` // set when the drive could not be carried out: lease_lost, store_full …
}

// Waits reports whether the drive left the run to wait for a decision, a time or a resume.
func (d Driven) Waits() bool { return d.Outcome == "parked" || d.Outcome == "cut" }

// EnvelopeRequest makes a draft of a pipeline. Its fields are those of a
// [StartRequest]; the program may be missing.
type EnvelopeRequest struct {
	Program []byte                     `json:"program,omitempty"`
	Name    string                     `json:"name,omitempty"`
	File    string                     `json:"file,omitempty"`
	Inputs  map[string]json.RawMessage `json:"inputs,omitempty"`
	Title   string                     `json:"title,omitempty"`
	Bounds  Bounds                     `json:"bounds,omitempty"`
	NoFiles bool                       `json:"no_files,omitempty"`
}

// EnvelopeUpdate changes a draft.
type EnvelopeUpdate struct {
	Run      ID                         `json:"run_id"`
	Version  int64                      `json:"version,omitempty"`  // that the caller has seen; 0: whatever it is
	Outputs  map[string]json.RawMessage `json:"outputs,omitempty"`  // by output key
	Remove   []string                   `json:"remove,omitempty"`   // output keys
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"` // merged
	Usage    *Usage                     `json:"usage,omitempty"`    // what the caller says was used
}

// Usage is what was used, as agents report it.
type Usage struct {
	LLMCalls  int64 `json:"llm_calls,omitempty"`
	ToolCalls int64 `json:"tool_calls,omitempty"`
	TokensIn  int64 `json:"tokens_in,omitempty"`
	TokensOut int64 `json:"tokens_out,omitempty"`
	CostUSD   int64 `json:"cost_usd,omitempty"` // in 10⁻⁹ USD
}

// ExecuteRequest starts a draft, or drives the unfinished head of a thread on.
type ExecuteRequest struct {
	Run     ID     `json:"run_id"`
	Program []byte `json:"program,omitempty"` // takes the place of the draft's; nil: that
	Name    string `json:"name,omitempty"`
	File    string `json:"file,omitempty"` // likewise
	NoFiles bool   `json:"no_files,omitempty"`
	Thread  string `json:"thread_id,omitempty"` // that the draft joins; "": its own
	Bounds  Bounds `json:"bounds,omitempty"`    // can only lower the draft's
	Via     string `json:"via,omitempty"`       // recorded in intent.accept; "" is command
}

// AgentRequest names an agent of a draft's pipeline, or brings one.
type AgentRequest struct {
	Run      ID              `json:"run_id"`
	Name     string          `json:"name"`
	Document json.RawMessage `json:"document,omitempty"` // as it would stand in `agents`; nil: the pipeline's own
	Via      string          `json:"via,omitempty"`
}

// Outline is the shape of a program for people: a tree of nodes with the paths
// under which their records will stand.
type Outline struct {
	Path     string     `json:"path"`
	ID       string     `json:"id,omitempty"`
	Kind     string     `json:"kind"`
	Label    string     `json:"label,omitempty"`  // tool, question, skill
	Class    string     `json:"class,omitempty"`  // of a tool call
	Hosted   bool       `json:"hosted,omitempty"` // a stage that a host of agents does
	Children []*Outline `json:"children,omitempty"`
	// Given is what else the document says of the node: arguments, prompt, inputs, and
	// how patient it is.
	Given json.RawMessage `json:"given,omitempty"`
}

// EventsRequest selects records of one run.
type EventsRequest struct {
	Run    ID    `json:"run_id"`
	After  int64 `json:"after,omitempty"`
	Limit  int   `json:"limit,omitempty"` // 0: all
	Follow bool  `json:"follow,omitempty"`
	// Stay goes on with following while nobody drives the run, until it has ended.
	Stay bool `json:"stay,omitempty"`
}

// DecideRequest is one answer to one gate.
type DecideRequest struct {
	Run           ID              `json:"run_id"`
	Gate          string          `json:"gate"`           // its id, or its key: the open gate of that key, else the one decided last
	Kind          GateKind        `json:"kind,omitempty"` // that the gate is to be of (wrong_gate_kind); "": any
	Action        string          `json:"action"`
	Answer        json.RawMessage `json:"answer,omitempty"`
	Feedback      string          `json:"feedback,omitempty"`
	Note          string          `json:"note,omitempty"`
	DecidedBy     string          `json:"decided_by,omitempty"` // claimed; the principal is known from the Caller
	SubjectDigest string          `json:"subject_digest,omitempty"`
	Via           string          `json:"via,omitempty"` // "" is command
}

// Decided is a stored decision.
type Decided struct {
	Decision Decision        `json:"decision"`
	Raw      json.RawMessage `json:"raw"` // canonical: equal for equal decisions
	Replayed bool            `json:"replayed,omitempty"`
	Run      Run             `json:"run"`
}

// ResumeRequest drives a run on.
type ResumeRequest struct {
	Run    ID   `json:"run_id"`
	Detach bool `json:"detach,omitempty"` // in a process of its own
	Presence
}

// CorrectRequest hands a revised program to a run that is executing.
type CorrectRequest struct {
	Run     ID     `json:"run_id"`
	Program []byte `json:"program"` // YAML or JSON
	Name    string `json:"name"`    // of the file, for messages
	Reason  string `json:"reason"`  // why, for the record; required
}

// Corrected is a correction that was handed in. One that is material takes effect
// when somebody has accepted it, another at once.
type Corrected struct {
	Run      ID       `json:"run_id"`
	Program  Program  `json:"program"`
	Revision int      `json:"revision"`          // its number; the program that a run starts with is 1
	Outline  *Outline `json:"outline,omitempty"` // of the revised program
	Changes  []Change `json:"changes,omitempty"` // node by node; nil: the run is of rules that record none
	Classification
}

// CancelRequest ends a run without settling what it decided.
type CancelRequest struct {
	Run    ID     `json:"run_id"`
	Reason string `json:"reason,omitempty"`
	Hard   bool   `json:"hard,omitempty"` // its processes are killed at once
	// Grace is how long a living owner may take before it is killed; 0 is 10 s. Wait is
	// how long Cancel waits for the end; 0 is 15 s.
	Grace time.Duration `json:"grace,omitempty"`
	Wait  time.Duration `json:"wait,omitempty"`
}

// What became of a [CancelRequest].
const (
	CancelStopped = "stopped"      // its owner has ended, and nothing is left of it
	CancelSent    = "signal_sent"  // it will end without another call
	CancelDead    = "already_dead" // nobody drove it: it was settled at once
	CancelDone    = "already_done" // it had ended before
)

// Cancellation is what became of a request to cancel, and the run after it.
type Cancellation struct {
	Run
	How    string `json:"how"`
	Forced bool   `json:"forced,omitempty"` // its owner was killed
	Swept  int    `json:"swept,omitempty"`  // processes that were ended besides
}

// ForkRequest names the source of a fork.
type ForkRequest struct {
	Run ID `json:"run_id"`
	Place
	Thread string `json:"thread_id,omitempty"` // of a pipeline run that is forked; "": none
	Changes
	Title   string `json:"title,omitempty"` // "": that of its source
	Hosting        // its Project is that of its source; Labels join those of its source
}

// Forked is a fork.
type Forked struct {
	Run
	Existed  bool      `json:"existed,omitempty"`  // it was made before, by the same request
	Launched *Launched `json:"launched,omitempty"` // the process that was started for it; nil: none
}

// RollbackRequest names the run that another takes the place of.
type RollbackRequest struct {
	Run ID `json:"run_id"`
	Place
	Changes
}

// LabelRequest names a checkpoint.
type LabelRequest struct {
	Run        ID     `json:"run_id"`
	Checkpoint string `json:"checkpoint,omitempty"` // "": the newest boundary
	Label      string `json:"label"`
}

// Place is where a run is forked: at one of these or, where none is given, before the
// effect that made it fail, else at its head.
type Place struct {
	At int64 `json:"at,omitempty"` // a record; of a pipeline, the last boundary before it
	// Of pipelines:
	Checkpoint string `json:"checkpoint,omitempty"`
	Stage      string `json:"stage,omitempty"` // the newest boundary that was made at this stage
}

// Changes are what a new run has instead. Outputs and Metadata are those of pipelines.
type Changes struct {
	Outputs  map[string]json.RawMessage `json:"outputs,omitempty"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	// Raise sets bounds anew, by the names that documents give them
	// (max_iterations …), within the manifest's or else the document's own. Counters stay.
	Raise map[string]int64 `json:"raise,omitempty"`
}

// VerifyRequest names what is verified, and by which keys.
type VerifyRequest struct {
	Run  ID       `json:"run_id,omitzero"` // of this store, or
	Dir  string   `json:"dir,omitempty"`   // an exported folder
	Open bool     `json:"open,omitempty"`  // a run without a terminal record is no fault
	Keys []string `json:"keys,omitempty"`
	// Admins are the users whose tokens could act in the runs of others, which the
	// journal does not say. nil: those of this workspace.
	Admins []string `json:"admins,omitempty"`
	// Anchor is a file of anchors that the journal must agree with; "": none.
	Anchor string `json:"anchor,omitempty"`
	Replay bool   `json:"replay,omitempty"` // also report the records that the replayed program asked for
}

// Report is what a verification found.
type Report struct {
	Run         ID      `json:"run_id"`
	Seq         int64   `json:"head_seq"`
	Head        string  `json:"head_hash"`
	Envelopes   int     `json:"envelopes"`
	State       State   `json:"state"`
	Lifecycle   string  `json:"lifecycle"`
	Integrity   Finding `json:"integrity"`
	Conformance Finding `json:"conformance"`
	Outcome     string  `json:"outcome"` // of the replayed program
	// Replayed are, in journal order, the records that it asked for; nil: nobody wanted
	// to know.
	Replayed []Event `json:"replayed,omitempty"`
}

// Finding is one side of a report.
type Finding struct {
	OK       bool      `json:"ok"`
	Problems []Problem `json:"problems"` // at most 50
	Total    int       `json:"total"`
}

// Problem is one fault, or one error in a document.
type Problem struct {
	Code    string `json:"code"`
	Path    string `json:"path,omitempty"`
	Seq     int64  `json:"seq,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// String is the problem where editors can jump to: file:line:column: code: message. One of a
// journal has a record's number in place of a position.
func (p Problem) String() string {
	at := p.File
	for _, n := range []int{p.Line, p.Column} {
		if at == "" || n == 0 {
			break
		}
		at = fmt.Sprintf("%s:%d", at, n)
	}
	if p.Seq > 0 {
		at = Joined(": ", at, fmt.Sprintf("seq %d", p.Seq))
	}
	text := Joined(": ", at, p.Code+": "+p.Message)
	if p.Path != "" {
		text += " (" + p.Path + ")"
	}
	return text
}

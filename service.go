package tipstaff

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Service is everything a surface can do with runs. The runner implements it in
// process; adapters translate to and from it and hold no logic of their own.
//
// Errors are [*Error] with one of the closed codes. Ids are checked before any
// look-up: a malformed one is invalid_argument, an unknown one run_not_found.
type Service interface {
	// Start validates a program and creates a run of it, whose drive begins in
	// this process before Start returns. A dry run creates nothing. With Hold it
	// makes or changes a draft, and nothing is driven.
	Start(context.Context, StartRequest) (Started, error)
	// Get is one run with its gates and bounds.
	Get(context.Context, ID) (Run, error)
	// List is a page of runs, newest first.
	List(context.Context, ListRequest) (RunPage, error)
	// Events yields records after a cursor. With Follow it goes on until the run
	// has ended or nobody drives it, and also yields what calls tell and nobody
	// records, as events without a seq: some may be missed, they count for no cursor
	// and no limit, and none comes after the record that ends its call.
	Events(context.Context, EventsRequest) iter.Seq2[Event, error]
	// Decide closes a gate. The same decision again returns the stored one, byte
	// for byte; another is decision_conflict. It starts nothing.
	Decide(context.Context, DecideRequest) (Decided, error)
	// Resume drives a waiting or interrupted run on. With a correction it hands a
	// revised program to the run first, also to one that others drive: then nothing
	// is driven here, and Started has no Done.
	Resume(context.Context, ResumeRequest) (Started, error)
	// Cancel asks a living owner to cancel, or settles a run that has none.
	Cancel(context.Context, CancelRequest) (Run, error)
	// Fork makes a new run that inherits the journal of another up to a record.
	// Nothing is driven. With Label it makes no run, but names a checkpoint of this
	// one.
	Fork(context.Context, ForkRequest) (Run, error)
	// Artifact is a stored document or payload by its digest; of a pipeline also
	// its state, by the names that EnvelopeArtifact and EnvelopeAt give.
	Artifact(ctx context.Context, run ID, name string) ([]byte, error)
	// Verify checks the integrity and conformance of a run, or of an export.
	Verify(context.Context, VerifyRequest) (Report, error)
}

// StartRequest hands over a program, or what a model is to draft one for.
type StartRequest struct {
	Program   []byte // YAML or JSON: a plan, a pipeline or a turn
	Name      string // of the file, for messages
	Inputs    map[string]json.RawMessage
	Title     string
	AcceptVia string // recorded in intent.accept; "" is command
	Yes       bool   // approve a plan's own gate nodes, recorded via --yes
	DryRun    bool
	Ask       Ask // nil: unattended
	// AllowSubDispatch lets the plan start child runs where the manifest does not.
	AllowSubDispatch bool
	// Draft asks a model for the program, which a person then accepts. nil: Program
	// is given.
	Draft  *DraftRequest
	Bounds Bounds // tighten those of program and manifest; nil: they hold

	// Of pipelines, whose Inputs are raw_input, metadata, goals, thread_id,
	// session_id, request_id and stage_order:

	// Hold makes a draft, or changes one. nil: the program is started.
	Hold *Hold
	// Run is a draft that is started, or the unfinished head of a thread that is
	// driven on; Program is then empty, or takes the place of the draft's. Zero: the
	// run is made.
	Run ID
	// Agent runs one agent of the draft, alone, in a run of its own; when that ends
	// its output and use become the draft's. nil: the whole pipeline is run.
	Agent *SingleAgent
	// NoFiles: the program may name no files, because it came from elsewhere.
	NoFiles bool
	// Show asks a dry run for a drawing: mermaid or dot; or for the JSON Schema of
	// pipelines: schema. "": for none.
	Show string
}

// Hold is a pipeline run that stays a draft.
type Hold struct {
	Run     ID    // zero: a new one
	Version int64 // that the caller has seen; 0: whatever it is
	// Of a draft that is changed:
	Outputs  map[string]json.RawMessage // by output key
	Remove   []string                   // output keys
	Metadata map[string]json.RawMessage // merged
	Usage    *Usage                     // what the caller says was used
}

// Usage is what was used, as agents report it.
type Usage struct {
	LLMCalls  int64 `json:"llm_calls,omitempty"`
	ToolCalls int64 `json:"tool_calls,omitempty"`
	TokensIn  int64 `json:"tokens_in,omitempty"`
	TokensOut int64 `json:"tokens_out,omitempty"`
	CostUSD   int64 `json:"cost_usd,omitempty"` // in 10⁻⁹ USD
}

// SingleAgent names an agent of a draft's pipeline, or brings one.
type SingleAgent struct {
	Name     string
	Document json.RawMessage // as it would stand in `agents`; nil: the pipeline's own
}

// DraftRequest is what a model drafts a plan for. Yes of the request accepts the
// plan in advance, which the record says.
type DraftRequest struct {
	Prose string // what is wanted
	Skill string // URI; "": the manifest's default_skill
	Agent string // who drafts; "": default
	Only  bool   // the run waits when the plan is drafted, whoever is there
}

// Ask is given each open gate in turn while an attended run lingers. It returns
// false when it has no answer: then the run parks. ctx ends when the gate was
// closed by someone else or the run has stopped.
type Ask func(ctx context.Context, g Gate) (Choice, bool)

// Choice is a person's answer at a terminal.
type Choice struct {
	Via      string // "": terminal
	Action   string
	Answer   json.RawMessage
	Feedback string
	Note     string
}

// Started is a run whose drive has begun, or the findings of a dry run.
type Started struct {
	Run     ID
	Program Program       // kind, name and digest
	Outline *Outline      // the program as a tree, for views
	Done    <-chan Driven // receives once, when the drive in this process has ended; nil after a dry run
	// Corrected is the correction that was handed in; nil: there was none.
	Corrected *Corrected
	Shown     []byte    // what Show asked for
	Warnings  []Problem // of a program that can be run all the same
	// Existed: the run was made before, by the same request.
	Existed bool
}

// Driven is how a drive in this process ended.
type Driven struct {
	State   State
	Outcome string // completed: success or partial; else parked, interrupted, cut or the state
	Reason  string // failure reason, or why it was interrupted
	Code    string // the particular error
	Bound   string // of bound_exceeded
	Message string
	Gates   []string
	WakeAt  time.Time
	Err     error // set when the drive could not be carried out: lease_lost, store_full …
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

// ListRequest selects runs.
type ListRequest struct {
	Limit  int // 0 is 50
	Before ID  // runs older than this one
	Status []string
	Prefix string // of the id
	// Envelope and Thread find the head of a pipeline's line of runs, Request the
	// draft that a request made; of the caller's own. "": all.
	Envelope, Thread, Request string
}

// RunPage is one page of a list.
type RunPage struct {
	Runs []Run
	Next ID // zero: no more
	// Strays is how many runs have left signed files beside a store that holds no run at
	// all: its database was removed or replaced.
	Strays int
}

// EventsRequest selects records of one run.
type EventsRequest struct {
	Run    ID
	After  int64
	Limit  int // 0: all
	Follow bool
}

// DecideRequest is one answer to one gate.
type DecideRequest struct {
	Run           ID
	Gate          string // its id, or its key: the open gate of that key, else the one decided last
	Action        string
	Answer        json.RawMessage
	Feedback      string
	Note          string
	DecidedBy     string // claimed; the principal is known from the Caller
	SubjectDigest string
	Via           string // "" is command
}

// Decided is a stored decision.
type Decided struct {
	Decision Decision
	Raw      json.RawMessage // canonical: equal for equal decisions
	Replayed bool
	Run      Run
}

// ResumeRequest drives a run on.
type ResumeRequest struct {
	Run        ID
	Yes        bool
	Ask        Ask
	Correction *Correction // nil: the program stays as it is
}

// CancelRequest ends a run without settling what it decided.
type CancelRequest struct {
	Run    ID
	Reason string
	Wait   time.Duration // for a living owner to settle; 0 is 15 s
}

// ForkRequest names the source of a fork.
type ForkRequest struct {
	Run ID
	At  int64 // 0: before the effect that made the source fail, else its head

	// Of pipelines:

	Checkpoint string // at this one, or
	Stage      string // at the newest that was made at this stage
	// Rollback lets the new run take the place of this one: it keeps the identity of
	// the Envelope and the thread, and this one ends. Else it is another line of work.
	Rollback bool
	Thread   string // of a fork; "": none
	Outputs  map[string]json.RawMessage
	Metadata map[string]json.RawMessage
	// Raise sets bounds anew, by the names that documents give them
	// (max_iterations …), within the manifest's or else the document's own. Counters stay.
	Raise map[string]int64
	// Label names the newest boundary, or Checkpoint; then nothing is forked.
	Label string
}

// VerifyRequest names what is verified, and by which keys.
type VerifyRequest struct {
	Run  ID     // of this store, or
	Dir  string // an exported folder
	Open bool   // a run without a terminal record is no fault
	Keys []string
	// Admins are the users whose tokens could act in the runs of others, which the
	// journal does not say. nil: those of this workspace.
	Admins []string
	// Anchor is a file of anchors that the journal must agree with; "": none.
	Anchor string
	// Each is called, in journal order, with every record that the replayed
	// program asked for. nil: nobody looks.
	Each func(Event)
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

package tipstaff

import (
	"context"
	"encoding/json"
	"time"
)

// Control is the control plane over runs: one method for each thing that somebody
// elsewhere can ask for, over plain values. The tools of the MCP server and the routes of
// the HTTP server are these methods and nothing more, so that all of them answer alike.
//
// Four capabilities are kept apart: to act drives a process; to observe reads moving state; to
// decide writes one decision and starts nothing; to inspect shows what is recorded.
type Control struct {
	Runs Service
	Now  func() time.Time
	// Present tells whether a directory is there. nil: nobody can tell.
	Present func(path string) bool
	// Guard refuses a caller that may not drive a run with a tool, before anything else is
	// looked at. nil: Runs refuses it when it is asked to.
	Guard func(ctx context.Context, run ID, tool string) error
	// Follow signals, coalesced, whenever a run has come, or stands elsewhere than before,
	// until stop. nil: nobody can tell.
	Follow func() (changed <-chan struct{}, stop func())
	// Elicits tells whether the answer of the person at an MCP client, as that reports it,
	// closes a gate of a kind. nil: it closes none.
	Elicits func(GateKind) bool
	// Workspace is the folder that commands for a person at this machine name; "": none.
	Workspace string
	// Page is the address of the web page of a daemon over the same runs, "" where there is
	// none. nil: nobody knows of one.
	Page func() string
}

// RunRequest names a run.
type RunRequest struct {
	Run ID `json:"run_id"`
}

// RunStart asks for a run: of exactly one of Program, ProgramFile, Prose, Message and ForkOf.
type RunStart struct {
	Program     string `json:"program,omitempty"`      // the text of a document
	ProgramFile string `json:"program_file,omitempty"` // a document of the workspace
	Prose       string `json:"prose,omitempty"`        // what a plan is drafted for
	Skill       string `json:"skill,omitempty"`        // that it is drafted with
	Message     string `json:"message,omitempty"`      // a turn
	Agent       string `json:"agent,omitempty"`        // who drafts, or answers
	Session     string `json:"session,omitempty"`      // that the turn goes on with
	ForkOf      ID     `json:"fork_of,omitzero"`
	ForkAt      int64  `json:"fork_at_seq,omitempty"`

	Inputs  map[string]json.RawMessage `json:"inputs,omitempty"`
	Project string                     `json:"project_dir,omitempty"`
	// Bounds by the names that documents give them. They can only be lowered; with ForkOf
	// they take the place of those that the run had.
	Bounds map[string]json.RawMessage `json:"bounds,omitempty"`
	Title  string                     `json:"title,omitempty"`
	Labels map[string]string          `json:"labels,omitempty"`
	Key    string                     `json:"idempotency_key,omitempty"`
}

// StartedRun is a run that goes on by itself.
type StartedRun struct {
	Run      ID         `json:"run_id"`
	Launched            // the process that drives it
	Program  string     `json:"program_digest"`
	Replayed bool       `json:"replayed"` // the same request has made it before
	Warnings []Problem  `json:"warnings"`
	Next     []NextCall `json:"next"`
}

// Outcomes of [Control.Resume].
const (
	ResumeLaunched   = "launched"
	ResumeSuperseded = "superseded"       // a follow-up goes on with it
	ResumeTerminal   = "terminal"         // it has ended
	ResumeDraft      = "not_accepted"     // it is a draft
	ResumeRunning    = "already_running"  // somebody drives it
	ResumeUndecided  = "pending_decision" // nothing was decided since it parked
	ResumeBlocked    = "blocked"          // Code says by what
)

// ResumedRun is what became of a request to resume. Only one that was launched has a process.
type ResumedRun struct {
	Run         ID     `json:"run_id"`
	Outcome     string `json:"outcome"`
	Status      string `json:"status"`
	Reason      string `json:"reason"`
	Code        string `json:"code,omitempty"`
	Recommended ID     `json:"recommended_run_id,omitzero"` // the run to deal with instead
	Gates       []Gate `json:"gates,omitempty"`             // that wait
	*Launched
	Next []NextCall `json:"next"`
}

// RunCancel asks for the end of a run.
type RunCancel struct {
	Run    ID     `json:"run_id"`
	Mode   string `json:"mode,omitempty"`    // graceful or hard; "": graceful
	GraceS *int   `json:"grace_s,omitempty"` // from 0 to 300; nil: 10
	WaitS  *int   `json:"wait_s,omitempty"`  // from 0 to 60; nil: 15
	Reason string `json:"reason,omitempty"`
}

// CancelledRun is what became of it.
type CancelledRun struct {
	Run    ID         `json:"run_id"`
	Status string     `json:"status"` // stopped, signal_sent, already_dead or already_done
	Forced bool       `json:"forced"`
	State  State      `json:"state"`
	Swept  int        `json:"swept"`
	Next   []NextCall `json:"next"`
}

// StatusRequest asks for the status of a run.
type StatusRequest struct {
	Run ID `json:"run_id"`
	// Include says what is to be told in full: program, inputs, gates, errors, all.
	Include []string `json:"include,omitempty"`
}

// RunStatus is a run, and what can be done with it next.
type RunStatus struct {
	Run
	// What was asked for besides: the program, and all that went wrong.
	Document json.RawMessage              `json:"document,omitempty"`
	Errors   *EvidenceList[EvidenceError] `json:"errors,omitempty"`
	Next     []NextCall                   `json:"next"`
}

// TailRequest asks for records after a cursor.
type TailRequest struct {
	Run    ID       `json:"run_id"`
	After  int64    `json:"after_seq,omitempty"`
	Limit  int      `json:"limit,omitempty"`  // from 1 to 1000; 0: 25
	Kinds  []string `json:"kinds,omitempty"`  // nil: all
	Detail string   `json:"detail,omitempty"` // summary, which cuts long texts, or full; "": summary
}

// Tail is a page of records. Last is the cursor of the next one.
type Tail struct {
	Events []TailEvent `json:"events"`
	Last   int64       `json:"last_seq"` // the last record that was looked at
	Head   int64       `json:"head_seq"`
	EOF    bool        `json:"eof"` // Last is Head
}

// TailEvent is one record as surfaces show it.
type TailEvent struct {
	Seq  int64           `json:"seq"`
	At   time.Time       `json:"at"`
	Kind Kind            `json:"kind"`
	Path string          `json:"path,omitempty"`
	Body json.RawMessage `json:"body"`
}

// HistoryRequest asks for runs, newest first.
type HistoryRequest struct {
	Limit   int      `json:"limit,omitempty"` // from 1 to 200; 0: 10
	Before  ID       `json:"before,omitzero"`
	Project string   `json:"project_dir,omitempty"`
	Status  []string `json:"status,omitempty"`
	Thread  string   `json:"thread_id,omitempty"`
	Session string   `json:"session,omitempty"`
}

// RunHistory is a page of runs.
type RunHistory struct {
	Runs      []HistoryRun `json:"runs"`
	Total     int          `json:"total"`
	Truncated bool         `json:"truncated"`
	Next      ID           `json:"next_before,omitzero"`
}

// HistoryRun is a run in a list.
type HistoryRun struct {
	Run     ID        `json:"run_id"`
	Title   string    `json:"title"`
	Status  string    `json:"status"`
	Control string    `json:"control"`
	Created time.Time `json:"created_at"`
	Ended   time.Time `json:"ended_at,omitzero"`
	Tokens  int64     `json:"tokens"`
	CostUSD USD       `json:"cost_usd"`
	Parent  ID        `json:"parent_run_id,omitzero"`
	Thread  string    `json:"thread_id,omitempty"`
	Session string    `json:"session,omitempty"`
}

// Modes of a [WatchRequest].
const (
	UntilEvent     = "next_event"
	UntilStage     = "stage_change"
	UntilStep      = "step_change"
	UntilGateOrEnd = "gate_or_end"
	UntilEnd       = "end"
	UntilDecision  = "decision" // one of the gates that were undecided at the cursor is no more; without a cursor, when the watch began
)

// WatchRequest waits for something to happen in a run.
type WatchRequest struct {
	Run      ID     `json:"run_id"`
	After    int64  `json:"after_seq,omitempty"`
	Until    string `json:"until,omitempty"`     // "": gate_or_end
	TimeoutS int    `json:"timeout_s,omitempty"` // from 1 to 3600; 0: 45
	Summary  *bool  `json:"summary,omitempty"`   // nil: true
}

// Watched is what has happened, or that nothing has in time.
type Watched struct {
	Run       ID            `json:"run_id"`
	Triggered bool          `json:"triggered"`
	Trigger   WatchTrigger  `json:"trigger"`
	Status    string        `json:"status"`
	Last      int64         `json:"last_seq"` // the cursor of the next watch
	Summary   *WatchSummary `json:"summary,omitempty"`
	Gates     []Gate        `json:"gates,omitempty"`
	Next      []NextCall    `json:"next"`
	Asked     []AskedGate   `json:"-"` // the gates whole, with the runs that ask
}

// WatchTrigger is what a watch has returned for.
type WatchTrigger struct {
	Kind   string `json:"kind"` // end, gate, interrupted, resume_needed, next_event, stage_change, step_change, decision or timeout
	Seq    int64  `json:"seq,omitempty"`
	Reason string `json:"reason"`
}

// WatchSummary is what has happened since the cursor.
type WatchSummary struct {
	Status    string         `json:"status"`
	Stage     string         `json:"stage,omitempty"`
	Step      string         `json:"step,omitempty"`
	ByKind    map[string]int `json:"by_kind"`
	Last      []WatchedEvent `json:"last"`       // at most 5
	OpenGates []Gate         `json:"open_gates"` // at most 20
	Bounds    BoundsStatus   `json:"bounds"`
}

// WatchedEvent is a record in a few words.
type WatchedEvent struct {
	Seq  int64  `json:"seq"`
	Kind Kind   `json:"kind"`
	Path string `json:"path,omitempty"`
	Text string `json:"text,omitempty"` // at most 256 characters
}

// GateDecision is one answer to one gate.
type GateDecision struct {
	Run           ID              `json:"run_id"`
	Gate          ID              `json:"gate_id"`
	Action        string          `json:"action"`
	Answer        json.RawMessage `json:"answer,omitempty"`
	Feedback      string          `json:"feedback,omitempty"`
	Note          string          `json:"note,omitempty"`
	DecidedBy     string          `json:"decided_by,omitempty"`
	SubjectDigest string          `json:"subject_digest,omitempty"`
}

// GateDecided is a stored decision, and what to do next.
type GateDecided struct {
	Run      ID              `json:"run_id"`
	Decision json.RawMessage `json:"decision"` // the same bytes for the same decision
	Replayed bool            `json:"replayed"`
	Status   string          `json:"status"`
	Next     []NextCall      `json:"next"`
}

// VerifiedRun is what a verification found, up to the head at that moment.
type VerifiedRun struct {
	Run         ID      `json:"run_id"`
	HeadSeq     int64   `json:"head_seq"`
	HeadHash    string  `json:"head_hash"`
	KeyID       string  `json:"key_id,omitempty"`
	Integrity   Finding `json:"integrity"`
	Conformance Finding `json:"conformance"`
}

// DeliveryOf is where the delivery of a run stands, and what can be done next.
type DeliveryOf struct {
	Run ID `json:"run_id"`
	DeliveryState
	Next []NextCall `json:"next"`
}

// PendingRequest asks for undecided gates.
type PendingRequest struct {
	Limit int        `json:"limit,omitempty"` // from 1 to 200; 0: 50
	Kinds []GateKind `json:"kinds,omitempty"`
	After ID         `json:"after,omitzero"`
}

// PendingDecisions is a page of them, oldest first.
type PendingDecisions struct {
	Decisions   []PendingDecision `json:"decisions"`
	Total       int               `json:"total"`
	Truncated   bool              `json:"truncated"`
	Next        ID                `json:"next_after,omitzero"`
	ByKind      map[GateKind]int  `json:"by_kind"`
	InspectOnly int               `json:"inspect_only"` // of this page, whose runs may not be driven from elsewhere
}

// PendingDecision is an undecided gate with the calls that decide it.
type PendingDecision struct {
	InboxGate
	Next []NextCall `json:"next"`
}

// PlanValidate asks what a start would say of a document: one of the two.
type PlanValidate struct {
	Program     string `json:"program,omitempty"`
	ProgramFile string `json:"program_file,omitempty"`
}

// PlanValidated is what is known of a document. One that cannot be run is no error.
type PlanValidated struct {
	OK       bool           `json:"ok"`
	Kind     string         `json:"kind,omitempty"`
	Name     string         `json:"name,omitempty"`
	Digest   string         `json:"digest,omitempty"`
	Summary  string         `json:"summary,omitempty"`
	Nodes    []EvidenceNode `json:"nodes,omitempty"`
	Stages   []string       `json:"stages,omitempty"`
	Tools    []string       `json:"tools,omitempty"`
	Gates    []string       `json:"gates,omitempty"`
	Bounds   Bounds         `json:"bounds,omitempty"`
	Errors   []Problem      `json:"errors"`
	Warnings []Problem      `json:"warnings"`
}

// Metrics is what a run has used.
func (c Control) Metrics(ctx context.Context, req RunRequest) (RunMetrics, error) {
	return Metrics(ctx, c.Runs, req.Run, c.Now())
}

// Evidence is what is recorded of a run.
func (c Control) Evidence(ctx context.Context, req EvidenceRequest) (RunEvidence, error) {
	return Evidence(ctx, c.Runs, req, c.Now(), c.Present)
}

// Diagnose says what is the matter with a run.
func (c Control) Diagnose(ctx context.Context, req RunRequest) (Diagnosis, error) {
	got, err := Diagnose(ctx, c.Runs, req.Run, c.Now(), c.Present)
	c.direct(ctx, got.Next)
	return got, err
}

// Diff is what a run has changed.
func (c Control) Diff(ctx context.Context, req DiffRequest) (DiffOf, error) {
	return Diff(ctx, c.Runs, req)
}

// Package flow runs deterministic programs over journaled effects.
//
// A program (a [Func]) asks a [Context] for every effect, every wait, every
// branch and every reading of the clock. The engine answers from the records of
// a [Log] where it can, and performs and records where it cannot. So a program
// that is run again takes the same way, and goes live at the first thing that
// was never recorded: that is resume, replay, verify and fork.
//
// A drive that finds records first lets the program ask for all of them. If some are left
// when only something new could be done next, that is [NonDeterminism], and nothing is done.
//
// What a call, a branch, a gate, a bound or a crash means is written once, here.
// Logs keep records; they decide nothing. The package imports nothing of ours.
//
// Start reading at [Context], then engine.go, do.go (with admit.go, attempt.go,
// reserve.go and settle.go: before, during and after an attempt), wait.go, group.go
// and mismatch.go.
package flow

import (
	"context"
	"encoding/json"
	"time"
)

// Context is the only source of effects, time, waiting and concurrency in
// deterministic code. It never is or contains a context.Context. It belongs to the
// goroutine that it was given to: another one that uses it meanwhile is [Misuse].
//
// Every error a method returns must be handed up: see [ErrParked],
// [ErrCancelled], [Error], [NonDeterminism] and [Misuse].
type Context interface {
	// Path is the place in the program where this Context stands.
	Path() string
	// At is the same branch with a longer path; it records nothing.
	At(segment string) Context
	// Do performs an activity, or returns its recorded outcome.
	Do(Call) (Result, error)
	// Wait opens a gate, or returns its decision. It blocks while other branches
	// run; when all of them wait, the run parks and Wait returns ErrParked.
	Wait(Gate) (Decision, error)
	// Go runs branches and returns when all have ended: the error of the first
	// branch in order that failed, else ErrParked or ErrCancelled if one was.
	Go(Group, ...Branch) error
	// Now is the recorded time. It never falls within a run.
	Now() time.Time
	// Sleep returns at the recorded time, whatever happened since.
	Sleep(time.Duration) error
	// Emit appends an event. A failure shows at the next Do, Wait, Go or Sleep.
	Emit(Event)
}

// Func is a deterministic program: Input, or the state of a Continue, in;
// outputs out. Only the root Func may return [Continue].
type Func func(Context, json.RawMessage) (json.RawMessage, error)

// Class is what may be done about a call whose outcome is unknown.
type Class string

const (
	Read       Class = "read"       // call again
	Idempotent Class = "idempotent" // call again with the same key
	Once       Class = "once"       // never again without a decision: see the in_doubt gate
)

// Call asks for one activity.
type Call struct {
	Key     string          // last path segment; "": the Context's own path
	Name    string          // the activity
	Class   Class           // "" is once
	Input   json.RawMessage // made by [JSON]
	Timeout time.Duration   // per attempt; 0: wall time and deadline alone
	Retry   Retry           // not for once
	Reserve Use             // reserved before the effect, settled after it
	Prepaid Use             // of that, what the first attempt need not reserve: it was charged before
	Ask     bool            // a refused reservation opens a bound gate instead of failing
	// Local goes to the activity as it is, and into no record. A replay that does not
	// perform the call has no use for it.
	Local any

	misuse *Misuse // asks for nothing but the end of the drive, for this
}

// Retry says how often and when a failed attempt is followed by another. The
// zero value never retries.
type Retry struct {
	Max        int           // further attempts: Max+1 in all
	Backoff    time.Duration // before the second attempt
	Factor     float64       // of the next delay; 0 is 2
	MaxBackoff time.Duration // 0: no cap
	Jitter     bool          // a uniform part of the delay
	On         []string      // codes that are retried; nil: errors with Retry set
}

// Use is an amount per bound. The names are those of documents; cost_usd is in
// 10⁻⁹ USD and wall_time in milliseconds.
type Use map[string]int64

// Bounds that the engine knows by name.
const (
	WallTime = "wall_time" // measured, never reserved
	CostUSD  = "cost_usd"
	Tokens   = "tokens"
)

// Result is a call's recorded outcome, given also beside an error.
type Result struct {
	Value   json.RawMessage
	Attempt int
	Ms      int64  // of the last attempt
	Use     Use    // as reported; nil: the reservation was charged
	Cost    int64  // that was charged for all attempts, in 10⁻⁹ USD
	Lost    int64  // of that, what was reserved for attempts that reported none
	By      string // who gave the value, of a use_result
}

// Group says how branches run together.
type Group struct {
	Limit     int  // branches at once; 0: all
	KeepGoing bool // a failure does not close the group
}

// Branch is one of a group. Its path is the calling Context's and its name.
type Branch struct {
	Name string // "": its index
	Run  func(Context) error
}

// Gate is a question the run waits on.
type Gate struct {
	Key      string // last path segment; "": the Context's own path
	Kind     string
	Question string
	Subject  json.RawMessage // exactly what is decided
	Actions  []string
	Deny     string        // the action that expiry takes
	Expires  time.Duration // 0: never

	Clarify bool // made by Clarifying, which see
}

// Decision is the answer to a gate, as recorded.
type Decision struct {
	Gate, Action                        string
	Answer                              json.RawMessage
	Feedback, Note, FailReason, By, Via string
}

// Event is something a program says about itself. Body is encoded by [JSON].
// From makes it a signed envelope and names the signer; "": a plain event.
type Event struct {
	Kind string
	Body any
	From string
}

// Activity touches the world for a call. It must not keep its Attempt.
type Activity struct {
	// Check may refuse an attempt before anything is reserved or intended. Its
	// error is the call's outcome. The call's timeout begins after it. Optional.
	Check func(context.Context, Attempt) error
	// Run performs the attempt. Of class once, a value or an *Error with Answered
	// is a definite answer and an *Error with NotSent means surely not done;
	// everything else leaves the call in doubt. Unless once, it may return
	// ErrParked: the call is suspended and entered again by a later drive.
	Run func(context.Context, Attempt) (Done, error)
	// Stops tells of a once attempt that ends itself in good order: its context
	// ends too when its scope closes (cause ErrCancelled) or the process is told to
	// stop (a *Stop). What it then knows it returns as a value or Answered; what a
	// stop made it break off it leaves in doubt. Optional.
	Stops func(Attempt) bool
	// Recall is asked for the outcome of a once attempt that an earlier drive has left
	// without one, before anybody is asked about it. A value or an *Error with Answered
	// is the outcome; everything else leaves the call in doubt. Optional.
	Recall func(context.Context, Attempt) (Done, error)
	// Awaited tells of an attempt that Stops: it is not told to when its group closes,
	// like any other once attempt, but when the run is cancelled or the process is told
	// to stop. Optional.
	Awaited func(Attempt) bool
	// Wants is what an attempt is to reserve beside what its call says, given what the run
	// has left of a bound (false: it has no limit). It is asked whenever an attempt is to
	// begin, and must not block. Optional.
	Wants func(a Attempt, left func(bound string) (int64, bool)) Use
	// Prompt promises that Run, for this attempt, returns as soon as its context
	// ends. It is then run on the goroutine of its branch; a drive that no longer
	// waits for it ends its context. Optional.
	Prompt func(Attempt) bool
}

// Attempt is one try of a call.
type Attempt struct {
	Run, Path, Name string
	N               int // from 1
	Class           Class
	Input           json.RawMessage
	Key             string // the idempotency key: equal in all attempts and drives
	Local           any    // that of the call
	// Note appends a record that replay skips. It is not waited for.
	Note func(Event)
	// Tell hands an event to whoever looks at this moment. It is not recorded, and
	// may be lost.
	Tell func(Event)
	// Reserved is what it holds from its beginning. It is not to be changed.
	Reserved Use
	// Reserve holds more for this attempt, all of it or none. A bound that does not
	// permit it is an *Error with code bound_exceeded, and an attempt that is over
	// holds nothing more. What it reports at its end is charged, else all that it
	// holds. The grant is recorded but not waited for: a process that spends it
	// before Sync has returned may die and not be charged. A Check reserves nothing.
	Reserve func(Use) error
	// Left is what the run may still use of a bound, beside what is held; false: it has
	// none. Another branch may take it at any moment.
	Left func(bound string) (int64, bool)
	// Held is what the run holds of a bound for attempts that were lost.
	Held func(bound string) int64
	// Spent tells what this attempt has used of money so far, in all. If it is lost, so
	// much is charged, and the rest of what it reserved is held.
	Spent func(soFar Use)
	// Sync returns when the notes and grants so far are durable.
	Sync func() error
}

// Done is what an activity brings back.
type Done struct {
	Value json.RawMessage
	Use   Use      // nil: the reservation is charged
	Held  Use      // what is held elsewhere for what was lost there
	Keep  []string // digests of blobs that the value, or the error, names
}

// Owner identifies the process that drives a run.
type Owner struct {
	Kind   string // foreground, daemon, supervisor, engine
	Host   string
	Boot   string
	PidNS  string
	Pid    int
	Start  int64  // start time of the process, in the kernel's ticks
	Launch string // the token its processes carry
}

// Lease is the right to append as a run's owner, until a later epoch.
type Lease struct {
	Run   string
	Epoch int64
}

// Draft is a record to be written. From makes it a signed envelope and names
// the signer, "user" or "executor".
type Draft struct {
	Kind, Path string
	N          int  // ≥ 1: emitted by the program
	Note       bool // skipped by replay
	Body       json.RawMessage
	From       string
	ID         string // of an envelope; "": the store makes one
	Memo       *Memo  // what the store's memory keeps beside it; no part of the record. nil: nothing
	// Beside is what is written to another run in the transaction of this record; no
	// part of it. nil: nothing. Only a [Store] can do so.
	Beside *Beside
	// Launch is stored in the row of the run with its run.launched; no part of that. nil:
	// nothing. Only a [Store] can do so.
	Launch *Launch
	// Outputs is what the outputs_digest of an end is of, and is stored with it; no part of
	// it. nil: whoever ends the run has stored it.
	Outputs *json.RawMessage
	// Keep are digests of blobs that the run keeps from this record on, though no member of
	// it is of the kind that names blobs; no part of it.
	Keep []string
}

// Beside is a foreign write that comes with a record: both are stored, or neither.
type Beside struct {
	Run string
	// Write looks at the other run and gives its records, as that of [Writer] does. They
	// follow the record that brings them. Its error, or that the other run has ended,
	// fails the whole append.
	Write func(Tx) ([]Draft, error)
}

// Record is a draft that was stored.
type Record struct {
	Seq, Epoch int64 // Epoch 0: written by another than the owner
	At         time.Time
	Draft
}

// Parking is what a park transaction records.
type Parking struct {
	Gates  []string // ids of the gates waited for
	WakeAt time.Time
	Wall   time.Duration // of the run so far
	Runs   []string      // that calls wait for, by what a [Log] around the store says
}

// History is what Load gives: the records since the last run.continued (that
// record first, then a run.cancel_requested from before it, which still holds),
// and of a fork the base's before them.
type History struct {
	Segment int // how many run.continued came before or open this segment
	Base    []Record
	Records []Record
	Ended   Status // completed, failed or cancelled; "" while the run is open
	Holds   bool   // as in [Job]
	// Lacks are the kinds of records without which the run cannot complete, and which only
	// the Next of a job can bring. nil: it can, or the log knows no such rule.
	Lacks []string
	// Blob returns a payload that a record names by digest. nil: there are none.
	Blob func(digest string) ([]byte, error)
}

// Log keeps the records of runs. All methods are safe for concurrent use.
type Log interface {
	// Acquire makes owner the run's owner under the next epoch and appends
	// run.started (the first time) or run.resumed. A living owner is ErrBusy, an
	// ended run ErrEnded.
	Acquire(ctx context.Context, run string, owner Owner) (Lease, error)
	// Load gives the current segment.
	Load(ctx context.Context, run string) (History, error)
	// Append stores drafts in order, all or none, and calls done exactly once:
	// with nil when they are durable, with ErrLeaseLost if another epoch owns the
	// run. Appends of one lease are stored in the order of the calls. A
	// policy.gate.resolve whose via is expiry, superseded or run_ended is left out
	// if the gate has been decided. run.interrupted and terminal envelopes release
	// the lease. done may be called before Append returns; it must not block, nor
	// call the log.
	Append(l Lease, drafts []Draft, done func(error))
	// Park appends run.parked and releases the lease, unless a gate of p is
	// decided or a cancel or correction is stored: then it does nothing and
	// returns false, and Watch delivers (or has delivered) what it found. A run
	// that waits for another is due at once if that has ended, and when it ends.
	Park(l Lease, p Parking) (parked bool, err error)
	// Watch calls f, in seq order and at least once, with every record that the
	// owner did not write and every policy.gate.resolve, from now on until stop.
	// After stop has returned f is not called again.
	Watch(run string, f func(Record)) (stop func())
}

// Engine drives runs.
type Engine interface {
	// Drive runs the job's flow until it ends, parks, is cut or is stopped. Its
	// error is non-nil only if the run could not be driven at all; what became of
	// a drive is the Outcome. ctx ending is a stop: see [Stop].
	Drive(ctx context.Context, job Job) (Outcome, error)
}

// Job is one drive of a run.
type Job struct {
	Run, Root string
	Owner     Owner
	Flow      Func
	Input     json.RawMessage
	Acts      map[string]Activity
	Limits    Use
	// Holds: the money that an attempt had reserved which was lost is held, and not charged,
	// and whoever needs it is asked for an extension.
	Holds    bool
	Deadline time.Time           // zero: none
	Linger   time.Duration       // delays the park transaction; <0: until an answer
	Redact   func([]byte) []byte // every byte that leaves an activity passes it; nil: none
	// Keep stores what is too long for a record, durably, and returns its digest. nil: the
	// text of such an error is cut and the whole of it lost.
	Keep func([]byte) (string, error)
	// BoundName is what a bound is called where people are told of it; nil: by its name.
	BoundName func(string) string
	// Finish gives the terminal envelope, and what precedes it. If it cannot, the
	// drive ends interrupted and the run can be resumed. nil: one without an account.
	Finish func(Outcome) ([]Draft, error)
	// Tell takes what activities tell without recording it: kind, path and body. It
	// is called under the engine's lock: it must neither block nor ask anything of
	// the engine. nil: nobody looks.
	Tell func(Draft)
	// Appended is told every draft that this drive hands to its log, in their order,
	// and none that it finds there. It must neither block nor call the engine. nil:
	// nobody asks.
	Appended func(Draft)
	// Next says how the run goes on after a segment: after one whose flow returned
	// Continue, with whose state it is called, or after one that a correction cut
	// (cut, and no state). What came before is in the log by then. An error ends
	// the drive interrupted. nil: a Continue goes on with its own state, and a cut
	// drive ends with status cut.
	Next func(state json.RawMessage, cut bool) (Segment, error)
	// Hopeless is asked while the run lingers with these gates open; true means
	// that nobody is going to answer, so it parks now. A run that lingers until an
	// answer asks once, each time it comes to rest. nil: it lingers to the end. It is
	// called under the engine's lock, and must not block.
	Hopeless func(gates []string) bool
	// Abandon, when closed, ends the grace of a stop: once calls in flight are no
	// longer awaited. nil: only the grace ends it.
	Abandon <-chan struct{}
}

// Segment is a part of a run between two run.continued.
type Segment struct {
	Before []Draft         // precede the run.continued, in its transaction
	State  json.RawMessage // the flow's input
	Keep   []string        // digests of blobs that the state names
	// What the job holds from here on. A later drive of the segment must be given
	// the same.
	Root     string
	Limits   Use
	Deadline time.Time
}

// Status is how a drive ended.
type Status string

const (
	Completed   Status = "completed"
	Failed      Status = "failed"
	Cancelled   Status = "cancelled"
	ParkedRun   Status = "parked"
	Cut         Status = "cut"
	Interrupted Status = "interrupted"
)

// Terminal reports whether a run that ended so is over.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Tally is where the bounds of a run stand.
type Tally struct {
	Used  Use
	Held  Use // for attempts that were lost: nobody knows what they used
	Limit Use
}

// Outcome is what became of a drive.
type Outcome struct {
	Status
	Value    json.RawMessage
	Err      error    // of failed and interrupted
	Reason   string   // of interrupted: signal:TERM, replay_mismatch, misuse, panic, …
	Gates    []string // ids of the gates that were open
	InDoubt  []string // paths of once calls that were never settled
	WakeAt   time.Time
	Tally        // of a run that has ended, with what was cut off then
	Replayed int // calls, waits and sleeps served from records
	Live     int // and those performed
}

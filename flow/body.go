package flow

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/canon"
)

// Kinds of records that the engine writes, or that others write for it.
const (
	KindEffectIntended  = "effect.intended"
	KindEffectFailed    = "effect.failed"
	KindEffectSuspended = "effect.suspended"
	KindEffectFinished  = "effect.finished"
	KindEffectLost      = "effect.lost"
	KindEffectGiven     = "effect.given"

	KindGateOpened    = "policy.gate"
	KindGateResolved  = "policy.gate.resolve"
	KindGateTaken     = "gate.taken"
	KindGroupClosed   = "group.closed"
	KindTimerSet      = "timer.set"
	KindTimerFired    = "timer.fired"
	KindClockRead     = "clock.read"
	KindBoundWarned   = "bound.warned"
	KindBoundRefused  = "bound.refused"
	KindBoundExtended = "bound.extended"
	KindBoundReserved = "bound.reserved"
	KindBoundUsed     = "bound.used"

	KindRunStarted             = "run.started"
	KindRunResumed             = "run.resumed"
	KindRunParked              = "run.parked"
	KindRunInterrupted         = "run.interrupted"
	KindRunContinued           = "run.continued"
	KindRunForked              = "run.forked"
	KindRunCancelRequested     = "run.cancel_requested"
	KindRunCorrectionRequested = "run.correction_requested"
	KindDraftUpdated           = "draft.updated"

	// Before a program is accepted, these open and close gates.
	KindIntentClarify = "intent.clarify"
	KindIntentAnswer  = "intent.answer"
	KindIntentAccept  = "intent.accept"

	// Each of these ends a run.
	KindIntentAttest = "intent.attest"
	KindIntentFail   = "intent.fail"
	KindIntentCancel = "intent.cancel"
)

// Opens reports whether records of this kind open a gate.
func Opens(kind string) bool { return kind == KindGateOpened || kind == KindIntentClarify }

// Closes reports whether records of this kind close the gate they name. Before a
// program is accepted, the acceptance itself closes the gate that asked for it, and
// so do the answers to questions about it.
func Closes(kind string) bool {
	return kind == KindGateResolved || kind == KindIntentAccept || kind == KindIntentAnswer
}

// The order of members is that in which they are written.

// Effect is the body of effect.intended, effect.failed, effect.suspended and
// effect.finished. Each has the members that apply to it.
type Effect struct {
	Name    string          `json:"name,omitempty"`
	Class   Class           `json:"class,omitempty"` // of an intent
	Attempt int             `json:"attempt"`
	Digest  string          `json:"digest,omitempty"` // of name and input
	Input   json.RawMessage `json:"input,omitempty"`  // in the first record of a call
	Reserve Use             `json:"reserve,omitempty"`
	Error   *Error          `json:"error,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Ms      *int64          `json:"ms,omitempty"` // of an outcome
	Use     Use             `json:"use,omitempty"`
	Held    Use             `json:"held,omitempty"`    // elsewhere, for what was lost there
	Wanted  Use             `json:"wanted,omitempty"`  // of a refused reservation
	By      string          `json:"by,omitempty"`      // who decided the outcome
	RetryAt Time            `json:"retry_at,omitzero"` // of a failed attempt
	Keep    []string        `json:"keep,omitempty"`    // digests of blobs that an outcome names
}

// Took is how long the last attempt took.
func (b *Effect) Took() time.Duration {
	if b.Ms == nil {
		return 0
	}
	return ms(*b.Ms)
}

// encode is JSON(b), ten times as fast: steps write little else. Input and Value must
// be compact.
func (b *Effect) encode() json.RawMessage {
	o := make(object, 0, 200+len(b.Input)+len(b.Value))
	o.text("name", b.Name)
	o.text("class", string(b.Class))
	o.number("attempt", int64(b.Attempt))
	o.text("digest", b.Digest)
	o.raw("input", b.Input)
	o.use("reserve", b.Reserve)
	if b.Error != nil {
		o.raw("error", JSON(b.Error))
	}
	o.raw("value", b.Value)
	if b.Ms != nil {
		o.number("ms", *b.Ms)
	}
	o.use("use", b.Use)
	o.use("held", b.Held)
	o.use("wanted", b.Wanted)
	o.text("by", b.By)
	if !b.RetryAt.IsZero() {
		o.raw("retry_at", JSON(b.RetryAt))
	}
	if len(b.Keep) > 0 {
		o.raw("keep", JSON(b.Keep))
	}
	return json.RawMessage(append(o, '}'))
}

// object is a JSON object that is being written. Members that are empty are left out.
type object []byte

func (o *object) name(name string) {
	sep := byte(',')
	if len(*o) == 0 {
		sep = '{'
	}
	*o = append(canon.AppendText(append(*o, sep), name), ':')
}

func (o *object) text(name, s string) {
	if s != "" {
		o.name(name)
		*o = canon.AppendText(*o, s)
	}
}

func (o *object) number(name string, n int64) {
	o.name(name)
	*o = strconv.AppendInt(*o, n, 10)
}

func (o *object) raw(name string, value json.RawMessage) {
	if len(value) > 0 {
		o.name(name)
		*o = append(*o, value...)
	}
}

func (o *object) use(name string, u Use) {
	if len(u) == 0 {
		return
	}
	var inner object
	var room [8]string
	for _, bound := range u.appendNames(room[:0]) {
		inner.number(bound, u[bound])
	}
	o.raw(name, json.RawMessage(append(inner, '}')))
}

// EffectLost is the body of effect.lost.
type EffectLost struct {
	Attempt int      `json:"attempt"`
	Sent    Time     `json:"sent"`            // when it was made
	Known   *Error   `json:"known,omitempty"` // the error with which it ended; nil: its process ended first
	Keep    []string `json:"keep,omitempty"`  // digests of blobs that it names
}

// EffectGiven is the body of effect.given: the outcome of an attempt, brought by
// whoever had made it, when nobody waited for it any more. It settles the call if
// nobody has been asked about it yet, or if whoever is asked says so.
type EffectGiven struct {
	Attempt int             `json:"attempt"`
	From    string          `json:"from"`
	Value   json.RawMessage `json:"value,omitempty"`
	Error   *Error          `json:"error,omitempty"` // that the attempt failed with; nil: it did not
	Use     Use             `json:"use,omitempty"`
	Keep    []string        `json:"keep,omitempty"` // digests of blobs that it names
}

// GateOpened is the body of policy.gate.
type GateOpened struct {
	Gate      string          `json:"gate"`
	Kind      string          `json:"gate_kind"`
	Question  string          `json:"question"`
	Subject   json.RawMessage `json:"subject"`
	Actions   []string        `json:"actions"`
	Deny      string          `json:"deny"`
	Digest    string          `json:"digest"`
	ExpiresAt Time            `json:"expires_at,omitzero"`
}

// GateResolved is the body of policy.gate.resolve.
type GateResolved struct {
	Gate          string          `json:"gate"`
	Action        string          `json:"action"`
	Answer        json.RawMessage `json:"answer,omitempty"`
	Feedback      string          `json:"feedback,omitempty"`
	Note          string          `json:"note,omitempty"`
	DecidedBy     string          `json:"decided_by,omitempty"`
	SubjectDigest string          `json:"subject_digest"`
	FailReason    string          `json:"fail_reason,omitempty"`
	Via           string          `json:"via"`
	Client        string          `json:"client,omitempty"` // what was used to decide
	OnBehalfOf    string          `json:"on_behalf_of,omitempty"`
}

// Decision reports whether somebody, or the clock, answered. A gate that its
// program or its run left behind was closed, not decided.
func (b GateResolved) Decision() bool { return b.Via != ViaSuperseded && b.Via != ViaRunEnded }

// How the executor itself closes a gate.
const (
	ViaExpiry     = "expiry" // the denying decision
	ViaSuperseded = "superseded"
	ViaRunEnded   = "run_ended"
)

// ReadResolved reads a record that closes a gate as if it were a policy.gate.resolve.
func ReadResolved(kind string, body json.RawMessage) (GateResolved, error) {
	b, err := readAs[GateResolved](body)
	switch kind {
	case KindIntentAccept:
		b.Action = "accept"
	case KindIntentAnswer:
		var said IntentAnswer
		err = json.Unmarshal(body, &said)
		b.Action, b.Answer = "answer", said.Answers
	}
	return b, err
}

// ReadOpened reads a record that opens a gate as if it were a policy.gate.
func ReadOpened(kind string, body json.RawMessage) (GateOpened, error) {
	if kind != KindIntentClarify {
		return readAs[GateOpened](body)
	}
	var b GateOpened
	var asked IntentClarify
	if err := json.Unmarshal(body, &asked); err != nil {
		return b, err
	}
	q := Clarifying(asked.Round, JSON(asked.Questions))
	return GateOpened{Gate: asked.Gate, Kind: q.Kind, Question: q.Question, Subject: q.Subject, Actions: q.Actions, Deny: q.Deny, Digest: GateDigest(q)}, nil
}

// IntentClarify is the body of intent.clarify: questions before there is a program.
type IntentClarify struct {
	Gate      string            `json:"gate"`
	Round     int               `json:"round"`
	Questions []json.RawMessage `json:"questions"`
}

// IntentAnswer is the body of intent.answer.
type IntentAnswer struct {
	Gate       string          `json:"gate"`
	Answers    json.RawMessage `json:"answers"`
	Via        string          `json:"via"`
	Client     string          `json:"client,omitempty"`
	Note       string          `json:"note,omitempty"`
	DecidedBy  string          `json:"decided_by,omitempty"`
	OnBehalfOf string          `json:"on_behalf_of,omitempty"`
}

// GateTaken is the body of gate.taken: the program took the decision of a record.
type GateTaken struct {
	Gate string `json:"gate"`
	Seq  int64  `json:"seq"`
}

// GroupClosed is the body of group.closed: the branches that were not started.
type GroupClosed struct {
	Skipped []string `json:"skipped"`
}

// TimerSet is the body of timer.set.
type TimerSet struct {
	Until Time `json:"until"`
}

// TimerFired is the body of timer.fired and of clock.read.
type TimerFired struct {
	T Time `json:"t"`
}

// BoundWarned is the body of bound.warned.
type BoundWarned struct {
	Bound string `json:"bound"`
	Limit int64  `json:"limit"`
	Used  int64  `json:"used"`
}

// BoundRefused is the body of bound.refused.
type BoundRefused struct {
	Bound   string `json:"bound"`
	Limit   int64  `json:"limit"`
	Used    int64  `json:"used"`
	Refused string `json:"refused"` // what was not done
}

// BoundExtended is the body of bound.extended.
type BoundExtended struct {
	Bound string `json:"bound"`
	By    int64  `json:"by"`
	Gate  string `json:"gate"`
}

// BoundReserved is the body of bound.reserved: what an attempt was granted while it
// ran.
type BoundReserved struct {
	By Use `json:"by"`
}

// BoundUsed is the body of bound.used: what an attempt under way is known to have used,
// in all.
type BoundUsed struct {
	SoFar Use `json:"so_far"`
}

// RunStarted is the body of run.started and run.resumed.
type RunStarted struct {
	Epoch int64  `json:"epoch"`
	Kind  string `json:"kind"` // of the owner
	Pid   int    `json:"pid"`
}

// RunParked is the body of run.parked.
type RunParked struct {
	Gates  []string  `json:"gates"`
	WakeAt time.Time `json:"wake_at,omitzero"`
	WallMs *int64    `json:"wall_ms,omitempty"`
}

// Body is the run.parked of p.
func (p Parking) Body() json.RawMessage {
	wall := p.Wall.Milliseconds()
	return JSON(RunParked{Gates: orEmpty(p.Gates), WakeAt: p.WakeAt.UTC(), WallMs: &wall})
}

// orEmpty makes JSON write an empty list as one.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// RunInterrupted is the body of run.interrupted.
type RunInterrupted struct {
	Reason        string `json:"reason"`
	Pid           int    `json:"pid"`
	LastHeartbeat string `json:"last_heartbeat,omitempty"` // of an owner that was found dead
	FoundBy       string `json:"found_by,omitempty"`
}

// RunContinued is the body of run.continued: the totals so far, and the state from
// which the history starts afresh.
type RunContinued struct {
	State  json.RawMessage `json:"state"`
	Used   Use             `json:"used"`
	Held   Use             `json:"held,omitempty"`
	Limit  Use             `json:"limit"`
	WallMs *int64          `json:"wall_ms,omitempty"`
	T      Time            `json:"t,omitzero"`     // of the clock; zero: nothing was driven before
	Keep   []string        `json:"keep,omitempty"` // digests of blobs that the state names
}

// RunForked is the body of run.forked.
type RunForked struct {
	FromRun    string           `json:"from_run"`
	Seq        int64            `json:"seq"`
	Checkpoint string           `json:"checkpoint,omitempty"` // of a pipeline
	Counters   Use              `json:"counters"`
	Held       Use              `json:"held,omitempty"`
	Limit      Use              `json:"limit,omitempty"`
	WallMs     *int64           `json:"wall_ms,omitempty"`
	Value      json.RawMessage  `json:"value,omitempty"` // what was edited in going back; it may be large
	Raised     map[string]int64 `json:"raised,omitempty"`
	Ceiling    Use              `json:"ceiling,omitempty"` // for what is raised: of the manifest by then, where that is another
	By         string           `json:"by"`
}

// CancelHard is the mode of a cancel that leaves no grace, also not that of an earlier one.
const CancelHard = "hard"

// RunCancelRequested is the body of run.cancel_requested.
type RunCancelRequested struct {
	Actor    string    `json:"actor"`
	Mode     string    `json:"mode"`
	Reason   string    `json:"reason"`
	Deadline time.Time `json:"deadline"`
}

// DraftUsed is the part of a draft.updated that the engine reads.
type DraftUsed struct {
	Used Use `json:"used,omitempty"` // of the ledger, so far; nil: as before
}

// Time is a moment as records have it: RFC 3339 in UTC, always with nine digits.
type Time struct{ time.Time }

// MarshalJSON writes the nine digits.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000000000Z07:00"`), nil
}

package tipstaff

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// GateKind says who asks and why. The list is closed.
type GateKind string

const (
	Question      GateKind = "question"
	Approval      GateKind = "approval"
	Handoff       GateKind = "handoff"
	Clarification GateKind = "clarification"
	Confirmation  GateKind = "confirmation"
	InDoubt       GateKind = "in_doubt"
	Bound         GateKind = "bound"
	Delivery      GateKind = "delivery"
)

// KnownGateKind reports whether k is on the list.
func KnownGateKind(k GateKind) bool {
	switch k {
	case Question, Approval, Handoff, Clarification, Confirmation, InDoubt, Bound, Delivery:
		return true
	}
	return false
}

// RuleBrought is the rule named where a person is asked whatever the policy allows, and
// WhyBrought what they are told of it.
const (
	RuleBrought = "builtin/brought"
	WhyBrought  = "the caller who brought this plan may not decide"
)

// Gate is a question a run waits on. It never changes once open; only what is given may
// come later, and what stands in the way of an action is looked for again.
type Gate struct {
	ID        ID              `json:"gate_id"`
	Kind      GateKind        `json:"kind"`
	Key       string          `json:"key"`  // its own path
	Path      string          `json:"path"` // who asked
	Question  string          `json:"question"`
	Subject   json.RawMessage `json:"subject,omitempty"`
	Digest    string          `json:"digest"`
	Actions   []string        `json:"actions"`
	Deny      string          `json:"deny,omitempty"`
	OpenedAt  time.Time       `json:"opened_at"`
	OpenedSeq int64           `json:"opened_seq"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
	Given     *GivenResult    `json:"given,omitempty"`   // of a call in doubt: what use_result without an answer takes
	Heard     *LastHeard      `json:"heard,omitempty"`   // of a worker in doubt
	Now       *DeliveryNow    `json:"now,omitempty"`     // of an open delivery, where somebody has looked again
	Changed   *RecordedChange `json:"changed,omitempty"` // of a review or a failure: what the run has changed until now
	Shown     *Shown          `json:"shown,omitempty"`   // [Subject] of it, where a gate is for people
}

// Place is where a gate stands for people: with who asked, of a delivery by its key, for
// the run itself asks.
func (g Gate) Place() string { return cmp.Or(g.Path, g.Key) }

// RecordedChange is what has changed in the worktree of a run, as it is recorded.
type RecordedChange struct {
	Stage   string       `json:"stage,omitempty"` // that has left it
	Files   int          `json:"files"`
	Added   int64        `json:"added"`
	Removed int64        `json:"removed"`
	List    string       `json:"list_digest"` // of a list of [FileChange]
	First   []FileChange `json:"first,omitempty"`
}

// AboutChanges reports whether whoever decides the gate would look at what has changed: it
// asks for a review, or about a failure.
func (g Gate) AboutChanges() bool {
	return g.Kind == Handoff || g.Kind == Question && AskerPath(g.Kind, g.Key) != g.Key
}

// GateCall is the call that a gate is about.
type GateCall struct {
	Tool  string // server/tool, or as a worker calls it; "": it is about none
	Class string // of its effect, if the gate says so
}

// Call is the call that a gate asks to allow, or of which nobody knows the end.
func (g Gate) Call() (c GateCall) {
	var b struct {
		URI, Worker, Tool, Class string
		Input                    struct{ URI string }
	}
	if g.Kind != Approval && g.Kind != InDoubt || json.Unmarshal(g.Subject, &b) != nil {
		return c
	}
	c.Class = b.Class
	if b.Worker != "" {
		c.Tool = b.Tool
	}
	if u, err := ParseToolURI(cmp.Or(b.URI, b.Input.URI)); err == nil {
		c.Tool = u.Server + "/" + u.Tool
	}
	return c
}

// LastHeard is what was last heard of a worker whose end nobody saw.
type LastHeard struct {
	Text    string          `json:"text,omitempty"`
	Tool    string          `json:"tool,omitempty"`    // that it called last
	Args    json.RawMessage `json:"args,omitempty"`    // of that call
	Changed []string        `json:"changed,omitempty"` // files, the first of them
}

// Hear takes in a record of the worker's invocation.
func (h *LastHeard) Hear(e *Event) {
	switch e.Kind {
	case KindAgentMessage:
		if text := BodyOf[AgentMessage](e).Text; text != "" {
			h.Text = text
		}
	case KindAgentToolCallRequest:
		b := BodyOf[AgentToolCallRequest](e)
		h.Tool, h.Args = b.Server+"/"+b.Tool, b.Arguments
	}
}

// GivenResult is what an agent host has brought for a call when nobody waited for it any
// more.
type GivenResult struct {
	Host    string          `json:"host_id"`
	Output  json.RawMessage `json:"output,omitempty"`
	Control json.RawMessage `json:"control,omitempty"`
	Error   *HostError      `json:"error,omitempty"` // that the agent failed with; nil: it did not
}

// OpenedGate is the gate that a record opens.
func OpenedGate(kind Kind, key string, seq int64, at time.Time, body json.RawMessage) (Gate, error) {
	b, err := flow.ReadOpened(string(kind), body)
	if err != nil {
		return Gate{}, err
	}
	id, err := ParseID(b.Gate)
	of := GateKind(b.Kind)
	return Gate{ID: id, Kind: of, Key: key, Path: AskerPath(of, key), Question: b.Question, Subject: b.Subject, Digest: b.Digest,
		Actions: b.Actions, Deny: b.Deny, OpenedAt: at, OpenedSeq: seq, ExpiresAt: b.ExpiresAt.Time}, err
}

// ownSegments are the last segments of keys of gates that do not stand at the
// path of whoever asks.
var ownSegments = map[GateKind]string{InDoubt: "in_doubt", Bound: "bound", Approval: "approval", Question: "failure"}

// AskerPath is the path of the call, node or stage that opened the gate of a kind
// with this key.
func AskerPath(kind GateKind, key string) string {
	i := strings.LastIndexByte(key, '/')
	if kind == Delivery { // which the program as a whole asks about
		return key[:max(i, 0)]
	}
	if i < 0 {
		return key
	}
	if last, _, _ := strings.Cut(key[i+1:], "#"); last == ownSegments[kind] {
		return key[:i]
	}
	return key
}

// Expired reports whether nobody decided the gate in time.
func (g Gate) Expired(now time.Time) bool {
	return !g.ExpiresAt.IsZero() && !now.Before(g.ExpiresAt)
}

// ViaExpiry is how a gate was decided that nobody decided in time.
const ViaExpiry = flow.ViaExpiry

// Decision is the answer to a gate: who, what, why, when. Its canonical JSON is
// what is returned to every caller who sends it again.
type Decision struct {
	Action        string          `json:"action"`
	Actor         Actor           `json:"actor"`
	Answer        json.RawMessage `json:"answer"` // null where there is none
	DecidedAt     time.Time       `json:"decided_at"`
	Feedback      string          `json:"feedback"`
	FollowupRunID ID              `json:"followup_run_id"` // "" unless the decision made one
	GateID        ID              `json:"gate_id"`
	Kind          GateKind        `json:"kind"`
	Note          string          `json:"note"`
	Path          string          `json:"path"`
	RunID         ID              `json:"run_id"`
	Schema        int             `json:"schema"` // 1
	SubjectDigest string          `json:"subject_digest"`
}

// Actor is who decided. DecidedBy is claimed, Principal is known.
type Actor struct {
	Principal string `json:"principal"`
	Via       string `json:"via"`
	Client    string `json:"client"`
	DecidedBy string `json:"decided_by"`
}

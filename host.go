package tipstaff

import (
	"context"
	"encoding/json"
	"time"
)

// Hosts takes in processes that serve agents of pipelines. Calls go to the hosts of
// the user whose run makes them, or of whoever made that run on the user's behalf.
type Hosts interface {
	// Register takes a host in. A host with another effect class for an agent than
	// those that serve it already is host_conflict. The caller's user owns it.
	Register(context.Context, HostRegistration) (Host, error)
}

// Host is one that is attached. Its methods are safe for concurrent use.
type Host interface {
	// Next is the next thing the host is asked for. It blocks until there is one, ctx
	// ends, or the host was left.
	Next(context.Context) (HostOrder, error)
	// Complete brings the result of a call and returns when it is durable. The same
	// again is taken as done. One that comes when nobody waits for it any more settles a
	// call that has no outcome, or is offered to whoever is asked about it; another is
	// recorded and not used.
	Complete(context.Context, HostResult) error
	// Reserve asks whether a call may use so much. bound is the one that refuses; ""
	// means it is granted.
	Reserve(ctx context.Context, call string, use Usage) (bound string, err error)
	// Drain takes no further calls; those it has go on.
	Drain()
	// Leave ends the attachment. Calls it still has are lost with it: those that may
	// be repeated go elsewhere, a call of class once waits for this host to return.
	Leave()
}

// HostRegistration is how a host presents itself.
type HostRegistration struct {
	HostID  string
	Version string
	Agents  []HostedAgent
}

// HostedAgent is one that a host serves.
type HostedAgent struct {
	Name        string
	Effect      string // read, idempotent or once; "" is once
	Concurrency int    // calls at once; 0 is 1
}

// HostOrder is a call, or that one is no longer wanted.
type HostOrder struct {
	Call   *HostCall
	Cancel string // id of the call
	Reason string
}

// HostCall is one attempt of a stage.
type HostCall struct {
	ID             string // equal in all deliveries of the attempt
	Run            ID
	Path           string
	Agent          string
	Visit, Attempt int
	Input          json.RawMessage
	View           json.RawMessage // the Envelope
	Deadline       time.Time
	Budget         map[string]int64 // what is left, by the names of bounds
	IdempotencyKey string
	Redelivery     bool
}

// HostResult is what a host brings back.
type HostResult struct {
	Call    string
	Output  json.RawMessage // an object; nil beside an Error
	Control json.RawMessage // nil: none
	Usage   Usage
	Error   *HostError
}

// HostError is why an agent failed.
type HostError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable,omitempty"`
}

package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// MaxMessageWait is how long a message may be waited for.
const MaxMessageWait = 600 * time.Second

// defaultMessageWait is how long it is, where nobody says.
const defaultMessageWait = 60 * time.Second

// Message asks for something in prose: a plan is drafted, accepted and run.
type Message struct {
	Prose  string                     `json:"prose"`
	Skill  string                     `json:"skill,omitempty"` // "": the manifest's
	Inputs map[string]json.RawMessage `json:"inputs,omitempty"`
	Bounds Bounds                     `json:"bounds,omitempty"`
	Accept string                     `json:"accept,omitempty"` // ask or auto; "": ask
	WaitS  *int                       `json:"wait,omitempty"`   // seconds until the answer, from 0 to 600; nil: 60
	Key    string                     `json:"-"`                // names the request: the same again finds its run
}

// MessageReply is what a message has come to. A run that has not ended waits, or goes on.
type MessageReply struct {
	Run       ID        `json:"run"`
	State     State     `json:"state"`
	Condition Condition `json:"condition,omitempty"`
	Gates     []Gate    `json:"gates,omitempty"`
	// Of a run that has ended:
	Outcome    string          `json:"outcome,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Outputs    json.RawMessage `json:"outputs,omitempty"`
	Lifecycle  string          `json:"lifecycle,omitempty"`
	DurationMS int64           `json:"duration_ms,omitempty"`
	Head       string          `json:"head,omitempty"`
}

// TakeMessage takes a message, of each user one at a time: while the run of one is driven or waits for
// its turn, on whichever server, the next is busy. It makes a run and waits for it. That the
// caller goes away does not end the run; what the wait was too short for is told as it stands.
func (c Control) TakeMessage(ctx context.Context, msg Message) (MessageReply, error) {
	wait := defaultMessageWait
	if msg.WaitS != nil {
		wait = time.Duration(*msg.WaitS) * time.Second
	}
	if wait < 0 || wait > MaxMessageWait {
		return MessageReply{}, Errorf(InvalidArgument, "wait is %d: it is from 0 to %d seconds", *msg.WaitS, int(MaxMessageWait.Seconds()))
	}
	present, err := acceptance(msg.Accept)
	if err != nil {
		return MessageReply{}, err
	}
	// Whoever goes away now leaves a whole run, which is found by its key.
	started, err := c.Runs.Draft(context.WithoutCancel(ctx), DraftRequest{Prose: msg.Prose, Skill: msg.Skill, Inputs: msg.Inputs, Bounds: msg.Bounds,
		Via: CallerFrom(ctx).Surface, Hosting: Hosting{Key: msg.Key, Message: true}, Presence: present})
	if err != nil {
		return MessageReply{}, err
	}
	if wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if _, err := c.Runs.Wait(waiting, started.Run); err != nil && waiting.Err() == nil {
			return MessageReply{}, err
		}
	}
	return reply(ctx, c, started.Run)
}

// reply tells where the run of a message stands.
func reply(ctx context.Context, c Control, id ID) (MessageReply, error) {
	run, err := c.Runs.Get(ctx, id)
	if err != nil {
		return MessageReply{}, err
	}
	r := MessageReply{Run: id, State: run.State}
	if !run.State.Terminal() {
		r.Condition, r.Gates = run.Condition, run.OpenGates
		return r, nil
	}
	r.Outcome, r.Outputs, r.Lifecycle, r.Head = cmp.Or(run.Outcome, string(run.State)), run.Outputs, run.Lifecycle, run.Head
	r.DurationMS = run.EndedAt.Sub(run.CreatedAt).Milliseconds()
	if run.Error != nil {
		r.Reason = run.Error.Reason
	}
	return r, nil
}

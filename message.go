package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
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

// Messages takes messages, of each user one at a time: while the run of one is being driven
// or waits for its turn, the next is busy. Its zero value has taken none.
type Messages struct {
	mu      sync.Mutex
	flights map[string]*flight // by user
}

// flight is the message of a user that was taken last.
type flight struct {
	key  string
	made chan struct{} // closed when there is a run, or none could be made
	run  ID            // read when made is closed; zero: there is none
}

// Take makes a run of a message and waits for it. That the caller goes away does not end the
// run; what the wait was too short for is told as it stands.
func (m *Messages) Take(ctx context.Context, c Control, msg Message) (MessageReply, error) {
	wait := defaultMessageWait
	if msg.WaitS != nil {
		wait = time.Duration(*msg.WaitS) * time.Second
	}
	if wait < 0 || wait > MaxMessageWait {
		return MessageReply{}, Errorf(InvalidArgument, "wait is %d: it is from 0 to %d seconds", *msg.WaitS, int(MaxMessageWait.Seconds()))
	}
	run, err := m.start(ctx, c, msg)
	if err != nil {
		return MessageReply{}, err
	}
	if wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if _, err := c.Runs.Wait(waiting, run); err != nil && waiting.Err() == nil {
			return MessageReply{}, err
		}
	}
	return reply(ctx, c, run)
}

// start makes the run of a message, unless the one before is under way.
func (m *Messages) start(ctx context.Context, c Control, msg Message) (ID, error) {
	present, err := acceptance(msg.Accept)
	if err != nil {
		return ID{}, err
	}
	f := &flight{key: msg.Key, made: make(chan struct{})}
	if err := m.board(ctx, c, f); err != nil {
		return ID{}, err
	}
	defer close(f.made)
	// Whoever goes away now leaves a whole run, which is found by its key.
	started, err := c.Runs.Draft(context.WithoutCancel(ctx), DraftRequest{Prose: msg.Prose, Skill: msg.Skill, Inputs: msg.Inputs, Bounds: msg.Bounds,
		Via: CallerFrom(ctx).Surface, Hosting: Hosting{Key: msg.Key}, Presence: present})
	f.run = started.Run
	return started.Run, err
}

// board puts a message in the place of the one before, which must not be under way. The
// same message again, by its key, is let through: it finds its run.
func (m *Messages) board(ctx context.Context, c Control, f *flight) error {
	user := CallerFrom(ctx).User
	for {
		m.mu.Lock()
		before := m.flights[user]
		if before == nil {
			if m.flights == nil {
				m.flights = map[string]*flight{}
			}
			m.flights[user] = f
			m.mu.Unlock()
			return nil
		}
		m.mu.Unlock()
		select {
		case <-before.made:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !before.run.IsZero() {
			if f.key != "" && f.key == before.key {
				return nil // the one before stays what it is
			}
			run, err := c.Runs.Get(ctx, before.run)
			if err != nil {
				return err
			}
			if run.Condition == Running || run.Status == StatusQueued {
				e := Errorf(Busy, "the message before has not ended: run %s is %s", run.ID, run.Status).WithHint("wait for it, or cancel it")
				e.Run = run.ID
				return e
			}
		}
		m.mu.Lock()
		if m.flights[user] == before {
			delete(m.flights, user)
		}
		m.mu.Unlock()
	}
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

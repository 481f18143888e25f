package reply

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// Assembly puts an answer together from the events of a stream.
type Assembly interface {
	// take reads the data of one event. whole: the answer is complete.
	take(data []byte) (whole bool, err error)
	// ended is asked when the stream has ended in good order before take said
	// whole; nil: the answer is complete all the same.
	ended() error
	// answer is the finished answer.
	answer() (agent.Response, error)
	// partial is what was said so far.
	partial() agent.Response
}

// Follow reads a stream to the end of its answer. events are those of [Events].
func (w *Wire) Follow(ctx context.Context, events iter.Seq2[[]byte, error], a Assembly) (agent.Response, error) {
	for data, err := range events {
		if err != nil {
			return a.partial(), w.brokenOff(ctx, err)
		}
		whole, err := a.take(data)
		if err != nil {
			return a.partial(), err
		}
		if whole {
			return finish(a)
		}
	}
	if ctx.Err() != nil {
		return a.partial(), context.Cause(ctx)
	}
	if err := a.ended(); err != nil {
		return a.partial(), err
	}
	return finish(a)
}

// brokenOff is what an error in mid-stream means.
func (w *Wire) brokenOff(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errIdle):
		return w.unreachable(err)
	case errors.Is(err, errTooLong):
		return w.protocol("%v", err)
	}
	return w.Truncated("%v", err)
}

func finish(a Assembly) (agent.Response, error) {
	r, err := a.answer()
	if err != nil {
		return a.partial(), err
	}
	return r, nil
}

// Sent is the error of a request that brought no stream: what Do returned, or a
// reason why there is nothing to send.
func (w *Wire) Sent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var known *flow.Error
	if errors.As(err, &known) {
		return known
	}
	return &flow.Error{Code: CodeRejected, Message: w.clean("the request cannot be sent: " + err.Error())}
}

// speech is what a model says: it is emitted as it comes and kept.
type speech struct {
	channel string
	emit    func(agent.Delta)
	text    strings.Builder
}

func (s *speech) say(text string) {
	if text != "" {
		s.text.WriteString(text)
		s.emit(agent.Delta{Channel: s.channel, Text: text})
	}
}

// EmptyArguments are those of a call that has none.
const EmptyArguments = "{}"

// settle is the reason of a whole answer. Calls count, whatever the reason: servers
// say stop with them too.
func (w *Wire) settle(reason agent.Reason, calls []agent.Call) (agent.Reason, error) {
	switch {
	case reason == agent.ReasonStop && len(calls) > 0:
		reason = agent.ReasonToolCalls
	case reason == agent.ReasonToolCalls && len(calls) == 0:
		return "", w.protocol("the answer ended for tool calls and has none")
	}
	if reason == agent.ReasonToolCalls {
		for i, c := range calls {
			if c.Name == "" {
				return "", w.protocol("call %d names no tool", i+1)
			}
		}
	}
	return reason, nil
}

// Priced completes what a vendor counted.
func Priced(u *agent.Usage, price *agent.Price) *agent.Usage {
	if u == nil {
		return nil
	}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	if price != nil {
		cost := price.Cost(*u)
		u.CostUSD = &cost
	}
	return u
}

// Opaque is what of an answer must go back as it came: signed reasoning, and where
// it stood. Reasoning is bound to the model that thought it.
type Opaque struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Parts    []Part `json:"parts"`
}

// Part is one block of an answer, in their order.
type Part struct {
	Block json.RawMessage `json:"block,omitempty"` // as it came
	Text  int             `json:"text,omitempty"`  // so many bytes of the message's text
	Call  bool            `json:"call,omitempty"`  // the message's next call
}

package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// assembly puts an answer together from the events of a stream.
type assembly interface {
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

// follow reads a stream to the end of its answer. events are those of serverSentEvents.
func (w *wire) follow(ctx context.Context, events iter.Seq2[[]byte, error], a assembly) (agent.Response, error) {
	if err := w.read(ctx, events, a); err != nil {
		return a.partial(), err
	}
	r, err := a.answer()
	if err != nil {
		return a.partial(), err
	}
	return r, nil
}

func (w *wire) read(ctx context.Context, events iter.Seq2[[]byte, error], a assembly) error {
	for data, err := range events {
		if err != nil {
			return w.brokenOff(ctx, err)
		}
		if whole, err := a.take(data); whole || err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return a.ended()
}

// brokenOff is what an error in mid-stream means.
func (w *wire) brokenOff(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errIdle):
		return w.unreachable(err)
	case errors.Is(err, errTooLong):
		return w.protocol("%v", err)
	}
	return w.truncated("%v", err)
}

// unsent is the error of a request that brought no stream: what do returned, or a
// reason why there is nothing to send.
func (w *wire) unsent(ctx context.Context, err error) error {
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

// emptyArguments are those of a call that has none.
const emptyArguments = "{}"

func orEmpty(arguments string) string {
	if strings.TrimSpace(arguments) == "" {
		return emptyArguments
	}
	return arguments
}

// common is what answers of all formats are made of.
type common struct {
	wire      *wire
	said      speech
	reasoning speech
	model     string // as the vendor says
}

func newCommon(w *wire, emit func(agent.Delta)) common {
	return common{wire: w, said: speech{channel: agent.ChannelAnswer, emit: emit},
		reasoning: speech{channel: agent.ChannelReasoning, emit: emit}}
}

func (c *common) partial() agent.Response {
	return agent.Response{Text: c.said.text.String(), Model: c.model}
}

// failed is the failure that an error object within a stream stands for.
func (c *common) failed(object json.RawMessage) error {
	f := parseErrorObject(object)
	f.Status = cmp.Or(f.Status, statusOf(f.Kind))
	return c.wire.failure(f)
}

// settled is a whole answer. Calls count, whatever the reason: servers say stop with
// them too.
func (c *common) settled(reason agent.Reason, calls []agent.Call, used *agent.Usage) (agent.Response, error) {
	r := c.partial()
	r.Reason, r.Calls, r.Usage = reason, calls, summed(used)
	switch {
	case reason == agent.ReasonStop && len(calls) > 0:
		r.Reason = agent.ReasonToolCalls
	case reason == agent.ReasonToolCalls && len(calls) == 0:
		return r, c.wire.protocol("the answer ended for tool calls and has none")
	}
	for i, call := range calls {
		if r.Reason == agent.ReasonToolCalls && call.Name == "" {
			return r, c.wire.protocol("call %d names no tool", i+1)
		}
	}
	return r, nil
}

// summed completes what a vendor counted.
func summed(u *agent.Usage) *agent.Usage {
	if u != nil {
		u.TotalTokens = u.InputTokens + u.OutputTokens
	}
	return u
}

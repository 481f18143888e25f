package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

// dispatcher makes the tool calls of the library form: through the middleware and,
// on the bytes that are sent, the gate.
type dispatcher struct {
	tools      Tools
	middleware []Middleware
	principal  string
	gate       func() *tool.Gate
}

// call is tool.call: what the loop has decided about is made, or refused.
func (d *dispatcher) call(ctx context.Context, a flow.Attempt) (flow.Done, error) {
	var in tool.Input
	if err := json.Unmarshal(a.Input, &in); err != nil {
		return flow.Done{}, fmt.Errorf("agent: the input of %s: %w", a.Name, err)
	}
	at := policy.Run{Path: a.Path, Principal: d.principal}
	v := d.gate().Admit(in, at)
	if v.Err != nil {
		return flow.Done{}, v.Err
	}
	id := ""
	if l, ok := a.Local.(*Local); ok {
		id = l.CallID
	}
	call := ToolCall{URI: in.URI, Server: v.Definition.Server, Tool: v.Definition.Tool, Arguments: v.Args,
		ID: id, Key: a.Key, Path: a.Path, Attempt: a.N}
	c := &delivery{dispatcher: d, approved: call, input: in, at: at, once: a.Class == flow.Once}
	// What the middleware gets is its own: the approved bytes stay what they are.
	call.Arguments = bytes.Clone(call.Arguments)
	got, err := c.through(ctx, call)
	if err != nil {
		return flow.Done{}, c.failure(ctx, err)
	}
	return got.done(v.Definition)
}

// delivery is one call on its way.
type delivery struct {
	*dispatcher
	approved ToolCall
	input    tool.Input
	at       policy.Run
	once     bool
	sent     bool
}

// through passes the middleware, the first outermost. A panic there, or in the
// tool, is the call's failure and nobody else's.
func (c *delivery) through(ctx context.Context, call ToolCall) (r ToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &flow.Error{Code: ClassPanic, Message: fmt.Sprintf("%s/%s panicked: %v", c.approved.Server, c.approved.Tool, p),
				Detail: flow.JSON(map[string]string{"stack": string(debug.Stack())}), Answered: true}
		}
	}()
	next := Dispatch(c.send)
	for _, m := range slices.Backward(c.middleware) {
		next = m(next)
	}
	return next(ctx, call)
}

// send makes the call, if it is still the one that was approved.
func (c *delivery) send(ctx context.Context, call ToolCall) (ToolResult, error) {
	if !call.equals(c.approved) {
		return ToolResult{}, &flow.Error{Code: tool.CodeGuardRefused, NotSent: true,
			Message: fmt.Sprintf("middleware has changed the call of %s/%s after it was approved", c.approved.Server, c.approved.Tool)}
	}
	if c.sent && c.once {
		return ToolResult{}, &flow.Error{Code: tool.CodeGuardRefused, Answered: true,
			Message: fmt.Sprintf("middleware makes the call of %s/%s twice, which may be made once", c.approved.Server, c.approved.Tool)}
	}
	in := c.input
	in.Args = call.Arguments
	if v := c.gate().Admit(in, c.at); v.Err != nil {
		return ToolResult{}, v.Err
	}
	c.sent = true
	r, err := c.tools.Call(ctx, call)
	if err != nil {
		return r, c.unmade(ctx, err)
	}
	return r, nil
}

func (c ToolCall) equals(d ToolCall) bool {
	return bytes.Equal(c.Arguments, d.Arguments) && c.URI == d.URI && c.Server == d.Server && c.Tool == d.Tool &&
		c.ID == d.ID && c.Key == d.Key && c.Path == d.Path && c.Attempt == d.Attempt
}

// unmade is why a tool could not be called. When the time is up nobody knows what
// the tool has done; else it has said that it could not be.
func (c *delivery) unmade(ctx context.Context, err error) error {
	var failed *flow.Error
	switch {
	case errors.As(err, &failed):
		return failed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &flow.Error{Code: tool.CodeUnavailable, Retry: true, NotSent: true,
		Message: fmt.Sprintf("%s/%s cannot be called: %v", c.approved.Server, c.approved.Tool, err)}
}

// failure is the error of the call. What is not of the tool itself, or of the time
// that was up, is of the middleware: it refuses.
func (c *delivery) failure(ctx context.Context, err error) error {
	var failed *flow.Error
	switch {
	case errors.As(err, &failed):
		return failed
	case ctx.Err() == nil:
		return &flow.Error{Code: tool.CodeGuardRefused, NotSent: !c.sent, Answered: c.sent,
			Message: fmt.Sprintf("the call of %s/%s was refused: %v", c.approved.Server, c.approved.Tool, err)}
	case c.sent:
		return err
	}
	return unsent(ctx)
}

// unsent is the end of a call whose time was up before it was made.
func unsent(ctx context.Context) *flow.Error {
	e := flow.Error{Code: ClassCancelled, Message: "the turn was cancelled before this call was made"}
	var limit *flow.Error
	if errors.As(context.Cause(ctx), &limit) {
		e = *limit
	}
	e.NotSent = true
	return &e
}

// done is the result as the loop reads it.
func (r ToolResult) done(d *tool.Definition) (flow.Done, error) {
	if len(r.Structured) > 0 && !json.Valid(r.Structured) {
		return flow.Done{}, &flow.Error{Code: tool.CodeOutputInvalid, Answered: true,
			Message: fmt.Sprintf("the structured result of %s/%s is not JSON", d.Server, d.Tool)}
	}
	reply := tool.Reply{Content: make([]tool.Content, len(r.Content)), Structured: r.Structured}
	for i, c := range r.Content {
		reply.Content[i] = tool.Content{Type: c.Type, Text: c.Text, MimeType: c.MimeType, Data: c.Data}
		if c.Type != ContentText && c.Type != ContentImage { // nobody is shown it
			reply.Content[i] = tool.Content{Type: c.Type, MimeType: c.MimeType, Digest: flow.Digest(c.Data), Size: len(c.Data)}
		}
	}
	value := flow.JSON(reply)
	switch {
	case int64(len(value)) > d.MaxResult:
		return flow.Done{}, &flow.Error{Code: flow.CodeResultTooLarge, Answered: true,
			Message: fmt.Sprintf("the result of %s/%s has %d bytes: max_result is %d", d.Server, d.Tool, len(value), d.MaxResult)}
	case r.IsError:
		return flow.Done{}, &flow.Error{Code: tool.CodeToolError, Message: fmt.Sprintf("%s/%s reports an error", d.Server, d.Tool), Detail: value, Answered: true}
	}
	return flow.Done{Value: value}, nil
}

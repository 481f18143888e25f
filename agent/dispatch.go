package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

// catalog lists the tools of the library form by server and name, each with a URI: a
// tool that has none gets that of its definition.
func (c Config) catalog(ctx context.Context) (*Catalog, error) {
	listed, err := c.Tools.Catalog(ctx)
	var failed *flow.Error
	switch {
	case errors.As(err, &failed):
		return nil, failed
	case err != nil:
		return nil, &flow.Error{Code: tool.CodeUnavailable, Message: fmt.Sprintf("the catalog cannot be read: %v", err), Retry: true}
	}
	all := &Catalog{Tools: []Tool{}}
	if listed != nil {
		all.Tools = append(all.Tools, listed.Tools...)
	}
	slices.SortStableFunc(all.Tools, func(a, b Tool) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Name, b.Name))
	})
	for i := range all.Tools {
		t := &all.Tools[i]
		if raw, err := canon.Form(t.Raw); t.URI == "" && err == nil { // else the gate says what is wrong with it
			t.URI = tipstaff.ToolURI{Server: t.Server, Tool: t.Name, Pin: flow.Digest(raw)}.String()
		}
	}
	return all, nil
}

// call is tool.call of the library form: what the loop has decided about passes the
// middleware and then, as it is about to be sent, the gate.
func (c Config) call(ctx context.Context, a flow.Attempt) (flow.Done, error) {
	d := &delivery{Config: c, attempt: a, gate: a.Local.(*Local).Gate}
	if err := json.Unmarshal(a.Input, &d.input); err != nil {
		return flow.Done{}, fmt.Errorf("agent: the input of %s: %w", a.Name, err)
	}
	u, err := tipstaff.ParseToolURI(d.input.URI)
	if err != nil {
		return flow.Done{}, fmt.Errorf("agent: the input of %s: %w", a.Name, err)
	}
	d.approved = ToolCall{URI: d.input.URI, Server: u.Server, Tool: u.Tool,
		Arguments: d.input.Args, ID: a.Local.(*Local).CallID, Key: a.Key, Path: a.Path, Attempt: a.N}
	got, err := d.through(ctx)
	if err != nil {
		return flow.Done{}, d.failure(ctx, err)
	}
	return d.done(got)
}

// delivery is one call on its way.
type delivery struct {
	Config
	attempt  flow.Attempt
	gate     *tool.Gate
	input    tool.Input // that the loop has decided about
	approved ToolCall   // the same, as middleware sees it
	sent     bool
}

// through passes the middleware, the first outermost. A panic there, or in the
// tool, is the call's failure and nobody else's.
func (c *delivery) through(ctx context.Context) (r ToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &flow.Error{Code: ClassPanic, Message: fmt.Sprintf("%s/%s panicked: %v", c.approved.Server, c.approved.Tool, p),
				Detail: flow.JSON(map[string]string{"stack": string(debug.Stack())}), Answered: true}
		}
	}()
	next := Dispatch(c.send)
	for _, m := range slices.Backward(c.Middleware) {
		next = m(next)
	}
	call := c.approved
	call.Arguments = bytes.Clone(call.Arguments) // the middleware's own: the approved bytes stay what they are
	return next(ctx, call)
}

// send makes the call, if it is still the one that was approved and the gate admits
// it. When the time is up nobody knows what the tool has done; else an error says that
// it could not be called.
func (c *delivery) send(ctx context.Context, call ToolCall) (ToolResult, error) {
	if c.sent && c.attempt.Class == flow.Once {
		return ToolResult{}, &flow.Error{Code: tool.CodeGuardRefused, Answered: true,
			Message: fmt.Sprintf("middleware makes the call of %s/%s twice, which may be made once", c.approved.Server, c.approved.Tool)}
	}
	call.Arguments = bytes.Clone(call.Arguments) // what is compared now is what is sent
	if !reflect.DeepEqual(call, c.approved) {
		return ToolResult{}, &flow.Error{Code: tool.CodeGuardRefused, NotSent: true,
			Message: fmt.Sprintf("middleware has changed the call of %s/%s after it was approved", c.approved.Server, c.approved.Tool)}
	}
	in := c.input
	in.URI, in.Args = call.URI, call.Arguments
	if v := c.gate.Admit(in, policy.Run{Path: c.attempt.Path, Principal: c.Principal}); v.Err != nil {
		return ToolResult{}, v.Err
	}
	c.sent = true
	r, err := c.Tools.Call(ctx, call)
	var failed *flow.Error
	switch {
	case err == nil:
		return r, nil
	case errors.As(err, &failed):
		return r, failed
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	}
	return r, &flow.Error{Code: tool.CodeUnavailable, Retry: true, NotSent: true,
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
func (c *delivery) done(r ToolResult) (flow.Done, error) {
	name := c.approved.Server + "/" + c.approved.Tool
	d, err := c.gate.Tools.Lookup(c.approved.URI)
	if err != nil {
		return flow.Done{}, err
	}
	if len(r.Structured) > 0 && !json.Valid(r.Structured) {
		return flow.Done{}, &flow.Error{Code: tool.CodeOutputInvalid, Answered: true,
			Message: fmt.Sprintf("the structured result of %s is not JSON", name)}
	}
	reply := tool.Reply{Content: append([]Content{}, r.Content...), Structured: r.Structured}
	for i, c := range reply.Content {
		if c.Type != ContentText && c.Type != ContentImage { // nobody is shown it
			reply.Content[i] = Content{Type: c.Type, MimeType: c.MimeType, Digest: flow.Digest(c.Data), Size: len(c.Data)}
		}
	}
	value := flow.JSON(reply)
	switch {
	case int64(len(value)) > d.MaxResult:
		return flow.Done{}, &flow.Error{Code: flow.CodeResultTooLarge, Answered: true,
			Message: fmt.Sprintf("the result of %s has %d bytes: max_result is %d", name, len(value), d.MaxResult)}
	case r.IsError:
		return flow.Done{}, &flow.Error{Code: tool.CodeToolError, Message: name + " reports an error", Detail: value, Answered: true}
	}
	return flow.Done{Value: value}, nil
}

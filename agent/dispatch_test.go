package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// passing is middleware that only looks.
func passing(look func(agent.ToolCall)) agent.Middleware {
	return func(next agent.Dispatch) agent.Dispatch {
		return func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
			look(c)
			return next(ctx, c)
		}
	}
}

// middle is middleware that does this in the place of the call.
func middle(do func(ctx context.Context, c agent.ToolCall, next agent.Dispatch) (agent.ToolResult, error)) agent.Middleware {
	return func(next agent.Dispatch) agent.Dispatch {
		return func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) { return do(ctx, c, next) }
	}
}

func TestMiddlewareSeesTheApprovedBytesInItsOrder(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "once")}}
	cfg := configured(box, call("ops__a", ` { "n" : 7 } `), say("Done."))
	var approved json.RawMessage
	cfg.Policy, cfg.Approver = nil, approve(func(_ context.Context, r agent.ToolCallRequest) (agent.Decision, error) {
		approved = r.Arguments
		return agent.Allow, nil
	})
	var seen []string
	look := func(name string) agent.Middleware {
		return passing(func(c agent.ToolCall) { seen = append(seen, name+" "+string(c.Arguments)) })
	}
	cfg.Middleware = []agent.Middleware{look("first"), look("second")}
	events := run(t, cfg, nil)
	if want := []string{"first " + string(approved), "second " + string(approved)}; !slices.Equal(seen, want) || string(approved) != `{"n":7}` {
		t.Errorf("seen was %q, approved %s", seen, approved)
	}
	if !slices.Equal(classesOf(events), []string{""}) || !bytes.Equal(box.calls[0].Arguments, approved) {
		t.Errorf("called with %s%s", box.calls[0].Arguments, listed(events))
	}
}

func TestMiddleware(t *testing.T) {
	type next = agent.Dispatch
	for _, c := range []struct {
		name    string
		do      func(context.Context, agent.ToolCall, next) (agent.ToolResult, error)
		class   string
		content string // that the model is told, in part
		called  int
	}{
		{"refuses", func(context.Context, agent.ToolCall, next) (agent.ToolResult, error) {
			return agent.ToolResult{}, errors.New("not on a Sunday")
		}, tool.CodeGuardRefused, "not on a Sunday", 0},
		{"refuses with a code", func(context.Context, agent.ToolCall, next) (agent.ToolResult, error) {
			return agent.ToolResult{}, &flow.Error{Code: "too_busy", Message: "come back later", NotSent: true}
		}, "too_busy", "come back later", 0},
		{"refuses the result", func(ctx context.Context, c agent.ToolCall, n next) (agent.ToolResult, error) {
			n(ctx, c)
			return agent.ToolResult{}, errors.New("that was a secret")
		}, tool.CodeGuardRefused, "that was a secret", 1},
		{"shortens the result", func(ctx context.Context, c agent.ToolCall, n next) (agent.ToolResult, error) {
			r, err := n(ctx, c)
			r.Content[0].Text = r.Content[0].Text[:1]
			return r, err
		}, "", "o", 1},
		{"changes the arguments", func(ctx context.Context, c agent.ToolCall, n next) (agent.ToolResult, error) {
			c.Arguments = json.RawMessage(`{"n":8}`)
			return n(ctx, c)
		}, tool.CodeGuardRefused, "changed", 0},
		{"changes the arguments in their place", func(ctx context.Context, c agent.ToolCall, n next) (agent.ToolResult, error) {
			c.Arguments[bytes.IndexByte(c.Arguments, '7')] = '8'
			return n(ctx, c)
		}, tool.CodeGuardRefused, "changed", 0},
		{"changes the tool", func(ctx context.Context, c agent.ToolCall, n next) (agent.ToolResult, error) {
			c.Tool = "b"
			return n(ctx, c)
		}, tool.CodeGuardRefused, "changed", 0},
		{"makes the call twice", func(ctx context.Context, c agent.ToolCall, n next) (agent.ToolResult, error) {
			n(ctx, c)
			return n(ctx, c)
		}, tool.CodeGuardRefused, "twice", 1},
		{"waits too long", func(ctx context.Context, c agent.ToolCall, n next) (agent.ToolResult, error) {
			<-ctx.Done()
			return agent.ToolResult{}, ctx.Err()
		}, flow.CodeTimeout, "took longer", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := &toolbox{tools: []agent.Tool{aTool("ops/a", "once"), aTool("ops/b", "once")}}
				cfg := configured(box, call("ops__a", `{"n":7}`), say("Done."))
				cfg.Middleware = []agent.Middleware{middle(c.do)}
				events := run(t, cfg, nil)
				result := bodies[*agent.ToolCallResult](events)[0]
				if result.Class != c.class || !strings.Contains(result.Content, c.content) || len(box.calls) != c.called || endOf(events) != "" {
					t.Errorf("called %d times%s", len(box.calls), listed(events))
				}
			})
		})
	}
}

// The gate decides about the call as it leaves the middleware.
func TestTheGateComesAfterMiddleware(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "once")}}
	cfg := configured(box, call("ops__a", `{"n":7}`), say("Done."))
	gate, err := tool.NewGateFor(box.tools, rules("ops/a allow"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Gate = gate
	cfg.Middleware = []agent.Middleware{passing(func(agent.ToolCall) { gate.Policy = rules("ops/a deny") })}
	if events := run(t, cfg, nil); !slices.Equal(classesOf(events), []string{tool.CodePolicyDenied}) || len(box.calls) > 0 {
		t.Errorf("called %d times%s", len(box.calls), listed(events))
	}
}

// Bytes that middleware has kept are not those that are sent.
func TestMiddlewareCannotChangeACallThatWasCompared(t *testing.T) {
	var kept json.RawMessage
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "once")},
		acts: map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){
			"a": func(_ context.Context, c agent.ToolCall) (agent.ToolResult, error) {
				kept[bytes.IndexByte(kept, '7')] = '8'
				return said(string(c.Arguments)), nil
			},
		}}
	cfg := configured(box, call("ops__a", `{"n":7}`), say("Done."))
	cfg.Middleware = []agent.Middleware{passing(func(c agent.ToolCall) { kept = c.Arguments })}
	if result := bodies[*agent.ToolCallResult](run(t, cfg, nil))[0]; result.Class != "" || result.Content != `{"n":7}` {
		t.Errorf("%+v", result)
	}
}

// A read may be made again by middleware: that is what its class says.
func TestMiddlewareMayRepeatARead(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "read")}}
	cfg := configured(box, call("ops__a", `{}`), say("Done."))
	cfg.Middleware = []agent.Middleware{middle(func(ctx context.Context, c agent.ToolCall, next agent.Dispatch) (agent.ToolResult, error) {
		next(ctx, c)
		return next(ctx, c)
	})}
	if events := run(t, cfg, nil); !slices.Equal(classesOf(events), []string{""}) || len(box.calls) != 2 {
		t.Errorf("%s", listed(events))
	}
}

func TestWhatToolsAnswer(t *testing.T) {
	big := strings.Repeat("x", 8<<20)
	for _, c := range []struct {
		name    string
		effect  string
		result  agent.ToolResult
		err     error
		class   string
		content string // that the model is told, in part
		calls   int
	}{
		{"a text", "read", said("fine"), nil, "", "fine", 1},
		{"structured alone", "read", agent.ToolResult{Structured: json.RawMessage(`{"ok":true}`)}, nil, "", `{"ok":true}`, 1},
		{"what is no JSON", "once", agent.ToolResult{Structured: json.RawMessage(`{"ok"`)}, nil, tool.CodeOutputInvalid, "not JSON", 1},
		{"a sound", "read", agent.ToolResult{Content: []agent.Content{{Type: "audio", MimeType: "audio/wav", Data: []byte("la la")}}}, nil,
			"", "[audio/wav, 5 bytes, " + flow.Digest([]byte("la la")) + "]", 1},
		{"an error", "once", agent.ToolResult{Content: said("disk full").Content, IsError: true}, nil, tool.CodeToolError, "disk full", 1},
		{"too much", "read", said(big), nil, flow.CodeResultTooLarge, "max_result is 8388608", 1},
		{"that it cannot be called", "once", agent.ToolResult{}, errors.New("no route to host"), tool.CodeUnavailable, "no route to host", 1},
		{"that it cannot be called, for a read", "read", agent.ToolResult{}, errors.New("no route to host"), tool.CodeUnavailable, "no route to host", 3},
		{"a code of its own", "once", agent.ToolResult{}, &flow.Error{Code: "quota", Message: "come back tomorrow", Answered: true}, "quota", "tomorrow", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := &toolbox{tools: []agent.Tool{aTool("ops/a", c.effect)},
					acts: map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){
						"a": func(context.Context, agent.ToolCall) (agent.ToolResult, error) { return c.result, c.err },
					}}
				events := run(t, configured(box, call("ops__a", `{}`), say("Done.")), nil)
				result := bodies[*agent.ToolCallResult](events)[0]
				if result.Class != c.class || !strings.Contains(result.Content, c.content) || len(box.calls) != c.calls || endOf(events) != "" {
					t.Errorf("called %d times%s", len(box.calls), listed(events))
				}
				for i, made := range box.calls {
					if made.Attempt != i+1 || made.Key != box.calls[0].Key {
						t.Errorf("attempt %d was %+v", i+1, made)
					}
				}
			})
		})
	}
}

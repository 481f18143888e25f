package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/agent/agenttest"
)

// busy is a turn with a bit of everything: calls that are made together, one that is
// asked about, one that is made once and takes its time.
func busy() (agent.Config, *toolbox) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "read"), aTool("ops/b", "read"), aTool("ops/write", "once")}}
	box.acts = map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){
		"write": func(ctx context.Context, _ agent.ToolCall) (agent.ToolResult, error) {
			select {
			case <-time.After(time.Second):
				return said("written"), nil
			case <-ctx.Done():
				return agent.ToolResult{}, ctx.Err()
			}
		},
	}
	cfg := configured(box, call("ops__a", `{}`, "ops__b", `{}`), call("ops__write", `{"n":1}`, "ops__a", `{}`), say("All of it is done."))
	cfg.Policy = rules("ops/a allow")
	cfg.Approver = approve(func(ctx context.Context, r agent.ToolCallRequest) (agent.Decision, error) {
		select {
		case <-time.After(time.Minute):
			return agent.Allow, nil
		case <-ctx.Done():
			return agent.Deny, ctx.Err()
		}
	})
	return cfg, box
}

func TestCancelAtEveryEvent(t *testing.T) {
	var whole []agent.Event
	synctest.Test(t, func(t *testing.T) {
		cfg, _ := busy()
		whole = run(t, cfg, nil)
	})
	for n := range len(whole) + 1 {
		for _, reads := range []bool{true, false} {
			t.Run(fmt.Sprintf("after %d events, and the reader stays: %v", n, reads), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // it does not end before every goroutine has
					cfg, box := busy()
					sess := &agent.Session{}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					ch, err := agent.Run(ctx, cfg, sess, "Do it.")
					if err != nil {
						t.Fatal(err)
					}
					var events []agent.Event
					for range n {
						events = append(events, <-ch)
					}
					synctest.Wait() // whatever can be under way is
					cancel()
					left := time.Now()
					if reads {
						for e := range ch {
							events = append(events, e)
						}
						if err := agenttest.Order(events, true); err != nil {
							t.Errorf("%v%s", err, listed(events))
						}
						if end := endOf(events); n < len(whole) && end != agent.CodeCancelled && end != "" {
							t.Errorf("ended with %q", end)
						}
					} else {
						time.Sleep(10 * time.Second)
						if e, ok := <-ch; ok {
							t.Errorf("nobody wanted it, and %s was still sent", e.Type())
						}
					}
					if took := time.Since(left); reads && took > 300*time.Millisecond {
						t.Errorf("it took %s", took)
					}
					if err := sess.Valid(); err != nil || len(sess.Messages) == 0 {
						t.Errorf("the session: %v, %d messages", err, len(sess.Messages))
					}
					for i, m := range sess.Messages { // one that was sent and did not come back is in doubt, and was not made again
						if m.CallID == "" || !strings.HasPrefix(sess.Messages[i].Content[0].Text, agent.ClassInDoubt) {
							continue
						}
						if !slices.Contains(box.called(), "write") {
							t.Error("a call is in doubt that was never made")
						}
					}
				})
			})
		}
	}
}

func TestACancelledCallIsInDoubtIfItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &toolbox{tools: []agent.Tool{aTool("ops/write", "once")}}
		ctx, cancel := context.WithCancel(t.Context())
		box.acts = map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){
			"write": func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
				cancel()
				return lost(ctx, c)
			},
		}
		sess := &agent.Session{}
		ch, err := agent.Run(ctx, configured(box, call("ops__write", `{}`, "ops__write", `{}`), say("Not reached.")), sess, "Do it.")
		if err != nil {
			t.Fatal(err)
		}
		var events []agent.Event
		for e := range ch {
			events = append(events, e)
		}
		if want := []string{agent.ClassInDoubt, agent.ClassCancelled}; !slices.Equal(classesOf(events), want) || endOf(events) != agent.CodeCancelled {
			t.Errorf("%s", listed(events))
		}
		if len(box.called()) != 1 || sess.Valid() != nil {
			t.Errorf("called %v, session %v", box.called(), sess.Valid())
		}
	})
}

// A tool that does not heed its context is not waited for beyond its grace.
func TestADeafToolDoesNotHoldACancelUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		box := &toolbox{tools: []agent.Tool{aTool("ops/write", "once")}}
		ctx, cancel := context.WithCancel(t.Context())
		box.acts = map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){
			"write": func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
				cancel()
				<-over
				return said("too late"), nil
			},
		}
		ch, err := agent.Run(ctx, configured(box, call("ops__write", `{}`), say("Not reached.")), nil, "Do it.")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var events []agent.Event
		for e := range ch {
			events = append(events, e)
		}
		if !slices.Equal(classesOf(events), []string{agent.ClassInDoubt}) || time.Since(began) > 3*time.Second {
			t.Errorf("after %s:%s", time.Since(began), listed(events))
		}
	})
}

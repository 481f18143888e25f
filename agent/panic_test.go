package agent_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/agent"
)

func TestAPanicOfToolOrMiddlewareEndsTheTurnAlone(t *testing.T) {
	broken := func(agent.Dispatch) agent.Dispatch {
		return func(context.Context, agent.ToolCall) (agent.ToolResult, error) { panic("boom") }
	}
	for name, c := range map[string]struct {
		class      string
		middleware []agent.Middleware
	}{"a read": {"read", nil}, "a call that is made once": {"once", nil}, "middleware": {"once", []agent.Middleware{broken}}} {
		t.Run(name, func(t *testing.T) {
			box := &toolbox{tools: []agent.Tool{aTool("ops/bad", c.class), aTool("ops/next", "once")},
				acts: map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){
					"bad": func(context.Context, agent.ToolCall) (agent.ToolResult, error) { panic("boom") },
				}}
			cfg := configured(box, call("ops__bad", `{}`, "ops__next", `{}`), say("Not reached."))
			cfg.Middleware = c.middleware
			sess := &agent.Session{}
			events := run(t, cfg, sess)
			if want := []string{agent.ClassPanic, agent.ClassNotExecuted}; !slices.Equal(classesOf(events), want) || endOf(events) != agent.CodeToolPanic {
				t.Errorf("%s", listed(events))
			}
			if text := bodies[*agent.ToolCallResult](events)[0].Content; !strings.Contains(text, "boom") || slices.Contains(box.called(), "next") {
				t.Errorf("the model is told %q, and called was %v", text, box.called())
			}
		})
	}
}

// panicking is everything that may panic, in the place that is asked for.
type panicking struct{ where string }

func (p panicking) at(where string) {
	if p.where == where {
		panic("this is the panic of the " + where)
	}
}

func (p panicking) Name() string     { return "m" }
func (p panicking) Caps() agent.Caps { return agent.Caps{} }

func (p panicking) Stream(_ context.Context, r agent.Request, _ func(agent.Delta)) (agent.Response, error) {
	p.at("provider")
	return steps(call("ops__a", `{}`), say("Alive."))(r)
}

func (p panicking) Catalog(context.Context) (*agent.Catalog, error) {
	p.at("catalog")
	return &agent.Catalog{Tools: []agent.Tool{aTool("ops/a", "read")}}, nil
}

func (p panicking) Call(context.Context, agent.ToolCall) (agent.ToolResult, error) {
	return said("ok"), nil
}

func (p panicking) Approve(context.Context, agent.ToolCallRequest) (agent.Decision, error) {
	p.at("approver")
	return agent.Allow, nil
}

func (p panicking) Narrow(_ context.Context, _ string, c *agent.Catalog) (agent.Selection, error) {
	p.at("router")
	return agent.PassThrough{}.Narrow(context.Background(), "", c)
}

const panicPlace = "TIPSTAFF_TEST_PANIC"

// A panic that is nobody's to recover ends the process, with the stack on which it
// happened.
func TestOtherPanicsEndTheProcess(t *testing.T) {
	if where := os.Getenv(panicPlace); where != "" {
		p := panicking{where}
		run(t, agent.Config{Model: p, Tools: p, Approver: p, Router: p}, nil)
		if where != "nothing" { // the turn was heard to end before the process does
			time.Sleep(10 * time.Second)
		}
		return
	}
	for _, where := range []string{"provider", "catalog", "approver", "router", "nothing"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestOtherPanicsEndTheProcess$")
			cmd.Env = append(os.Environ(), panicPlace+"="+where)
			out, err := cmd.CombinedOutput()
			crashed := strings.Contains(string(out), "this is the panic of the "+where) && strings.Contains(string(out), "agent_test.panicking.at(")
			if crashed != (err != nil) || crashed == (where == "nothing") {
				t.Errorf("ended with %v:\n%s", err, out)
			}
		})
	}
}

package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/simtest"
	"github.com/tipstaff/tipstaff/tool"
)

// Whole turns under every schedule: the loop itself, over a model, a catalog and
// tools that the simulator performs.
func TestSimulated(t *testing.T) { simtest.Simulate(t, simtest.Memory, simulated, 2*time.Second) }

var simulatedTools = []agent.Tool{aTool("f/read", "read"), aTool("f/ask", "read"), aTool("f/put", "idempotent"), aTool("f/post", "once"), aTool("g/deny", "read")}

// simulatedGate is made once: most of the time would go into it.
var simulatedGate = sync.OnceValue(func() *tool.Gate {
	g, err := tool.NewGateFor(simulatedTools, rules("f/read allow", "f/ask ask", "f/put ask args.n==1", "f/post ask args.n==1", "f/* allow", "g/* deny"))
	if err != nil {
		panic(err)
	}
	return g
})

// simulated makes a case of a random turn: a model that follows a script, tools that
// may fail, and rules that allow, ask and deny.
func simulated(pick *simtest.Choices) *simtest.Case {
	settled := pick.Of(2) == 1
	answers := make([]agent.Response, 1+pick.Of(3))
	for i := range answers {
		answers[i] = scripted(pick)
	}
	cfg := agent.Config{Gate: simulatedGate()}
	cfg.ModelName, cfg.Caps = "m", agent.Caps{ContextWindow: 100_000, Price: &agent.Price{}}
	cfg.MaxSteps, cfg.OnLimit, cfg.ToolParallelism = 1+pick.Of(3), agent.OnLimitAsk, 1+pick.Of(2)
	if settled { // else what is decided depends on how long it took
		cfg.CallTimeout, cfg.ToolTimeout = 10_000*time.Hour, 10_000*time.Hour
	}
	ends := map[string]simtest.Behaviour{}
	for _, place := range []string{"catalog", "model#1", "model#2", "model#3", "tool#1.1", "tool#1.2", "tool#2.1", "tool#2.2", "tool#3.1"} {
		ends[place] = ending(pick, settled, strings.HasPrefix(place, "tool"))
	}
	last := func(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
	c := &simtest.Case{
		Text: fmt.Sprintf("%s\n%v", flow.JSON(answers), ends), Root: "turn", Input: json.RawMessage("null"), Settled: settled,
		Acts: []string{agent.CatalogActivity, agent.ModelActivity, tool.ActivityName},
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			out, err := agent.Turn(fc, cfg, agent.Input{Message: "Do it."})
			var failed *flow.Error
			if err == nil || errors.Is(err, flow.ErrCancelled) || errors.As(err, &failed) {
				if bad := agent.Valid(out.Messages); bad != nil {
					panic(bad)
				}
			}
			if err != nil {
				return nil, err
			}
			return flow.JSON(out.Messages), nil
		},
		Behave: func(path string) simtest.Behaviour { return ends[last(path)] },
		Value: func(path string) json.RawMessage {
			var step int
			switch place := last(path); {
			case place == "catalog":
				return flow.JSON(&agent.Catalog{Tools: simulatedTools})
			case strings.HasPrefix(place, "tool#"):
				return flow.JSON(text("did " + place))
			default:
				fmt.Sscanf(place, "model#%d", &step)
			}
			said := say("Done.")
			if step <= len(answers) {
				said = answers[step-1]
			}
			return flow.JSON(map[string]any{"text": said.Text, "calls": said.Calls, "reason": said.Reason, "usage": said.Usage, "model": "m"})
		},
		Answer: func(kind, action string) json.RawMessage {
			if kind == "bound" && action == "extend" {
				return json.RawMessage(`{"steps":1,"tool_calls":1,"model_calls":1}`)
			}
			return nil
		},
	}
	if !settled {
		c.Cancels = pick.One(3)
		if pick.One(3) {
			c.Limits = flow.Use{"tool_calls": int64(pick.Of(4)), "model_calls": int64(1 + pick.Of(3))}
		}
	}
	return c
}

// scripted is what the model says in one step.
func scripted(pick *simtest.Choices) agent.Response {
	var calls []string
	for range pick.Of(3) {
		calls = append(calls, []string{"f__read", "f__ask", "f__put", "f__post", "g__deny", "f__nothing"}[pick.Of(6)],
			[]string{`{"n":2}`, `{"n":1}`, `{`}[pick.Of(3)])
	}
	r := call(calls...)
	if pick.One(8) {
		r.Reason = agent.ReasonLength
	}
	return r
}

// ending is how a call of a turn comes out. Whether a tool is once is the model's to
// choose, so that any may be lost.
func ending(pick *simtest.Choices, settled, isTool bool) simtest.Behaviour {
	b := simtest.Behaviour{Prompt: pick.One(3), Fails: pick.Of(4) / 3}
	if isTool {
		b.Fails, b.Stops = 0, pick.One(3)
	}
	switch {
	case settled:
	case pick.One(6):
		b.End = simtest.Bad
	case isTool && pick.One(6):
		b.End = simtest.Lost
	}
	return b
}

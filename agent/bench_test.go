package agent_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// BenchmarkTurn is what the loop itself takes for a step: one question to a model
// and one call of a tool, both of which answer at once, on the log in memory. Turns
// have at most 1,000 steps; longer conversations are sessions of several. The cost
// of a step must not grow with them.
func BenchmarkTurn(b *testing.B) {
	for _, steps := range []int{100, 1000, 3000} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchSession(b, steps)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*steps), "µs/step")
		})
	}
}

func benchSession(b *testing.B, steps int) {
	var history []agent.Message
	for steps > 0 {
		n := min(steps, 1000)
		history = benchTurn(b, history, n)
		steps -= n
	}
}

func benchTurn(b *testing.B, history []agent.Message, steps int) []agent.Message {
	asked := 0
	bed := newBed(func(agent.Request) (agent.Response, error) {
		if asked++; asked == steps {
			return say("Done."), nil
		}
		return call("f__a", `{"n":1}`), nil
	}, aTool("f/a", "read"))
	bed.model.forget = true
	bed.in.History = history
	bed.cfg.MaxSteps, bed.cfg.Caps.ContextWindow = steps, 10_000_000
	reply := flow.JSON(text("ok"))
	bed.jobs = func(j *flow.Job) {
		j.Acts[tool.ActivityName] = flow.Activity{Prompt: func(flow.Attempt) bool { return true }, Run: func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{Value: reply}, nil }}
		j.Tell = nil
	}
	if out := bed.drive(b); out.Status != flow.Completed {
		b.Fatal(out.Err)
	}
	return bed.out.Messages
}

package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/agent/agenttest"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// script is a turn of which chance decides everything: what the model says, how
// tools behave, and what people answer.
type script struct {
	answers []agent.Response
	acts    []string // of the tools' calls, in turn
	people  []string // of the gates, in turn
	cancel  int      // before which drive; 0: never
	limits  flow.Use
}

func genScript(t *rapid.T) script {
	name := rapid.SampledFrom([]string{"f__read", "f__read", "f__ask", "f__write", "f__deny", "f__nothing"})
	args := rapid.SampledFrom([]string{`{"n":1}`, `{"n":2}`, `{}`, ``, `{"n":"x"}`, `[]`, `{`})
	reason := rapid.SampledFrom([]agent.Reason{agent.ReasonStop, agent.ReasonToolCalls, agent.ReasonToolCalls, agent.ReasonLength, agent.ReasonContentFilter})
	answer := rapid.Custom(func(t *rapid.T) agent.Response {
		r := agent.Response{Text: rapid.SampledFrom([]string{"", "Hm.", "Déjà vu."}).Draw(t, "text"), Reason: agent.ReasonStop}
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			r.Calls = append(r.Calls, agent.Call{ID: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "id"), Name: name.Draw(t, "name"), Arguments: args.Draw(t, "args")})
			r.Reason = reason.Draw(t, "reason")
		}
		return r
	})
	return script{
		answers: rapid.SliceOfN(answer, 1, 5).Draw(t, "answers"),
		acts:    rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "ok", "ok", "error", "unavailable", "lost", "panic"}), 1, 6).Draw(t, "acts"),
		people:  rapid.SliceOfN(rapid.SampledFrom([]string{"first", "first", "second", "third", "gone"}), 1, 6).Draw(t, "people"),
		cancel:  rapid.IntRange(0, 4).Draw(t, "cancel"),
		limits:  flow.Use{"tool_calls": rapid.Int64Range(0, 6).Draw(t, "tool_calls")},
	}
}

func (s script) bed() *bed {
	b := newBed(steps(s.answers...), aTool("f/read", "read"), aTool("f/ask", "read"), aTool("f/write", "once"), aTool("f/deny", "idempotent"))
	b.cfg.Policy = rules("f/read allow", "f/ask ask", "f/write ask args.n==1", "f/write allow", "f/deny deny")
	b.cfg.MaxSteps, b.cfg.OnLimit, b.cfg.ToolParallelism = 3, agent.OnLimitAsk, 2
	b.jobs = func(j *flow.Job) { j.Limits = s.limits }
	for _, name := range []string{"f/read", "f/ask", "f/write"} {
		b.world.acts[name] = func(_ context.Context, in tool.Input, n int) (tool.Reply, error) {
			switch s.acts[(len(name)+n)%len(s.acts)] {
			case "error":
				return tool.Reply{}, &flow.Error{Code: tool.CodeToolError, Message: "it failed", Answered: true}
			case "unavailable":
				return tool.Reply{}, &flow.Error{Code: tool.CodeUnavailable, NotSent: true}
			case "lost":
				return tool.Reply{}, &flow.Error{Code: flow.CodeTimeout}
			case "panic":
				return tool.Reply{}, &flow.Error{Code: agent.ClassPanic, Answered: true}
			}
			return text("ok " + string(in.Args)), nil
		}
	}
	return b
}

// decide answers the open gates.
func (s script) decide(t *rapid.T, b *bed, asked int) {
	for i, g := range openGates(b.log.Records(theRun)) {
		d := flow.Decision{Action: g.Actions[0], Answer: json.RawMessage(`{"steps":1}`)}
		switch s.people[(asked+i)%len(s.people)] {
		case "second":
			d.Action, d.Answer = g.Actions[1], flow.JSON(text("looked up"))
		case "third":
			d.Action = g.Actions[len(g.Actions)-1]
		case "gone":
			if g.Kind == "approval" {
				d.Action, d.FailReason = "deny", agent.CodeApproverFailed
			}
		}
		if err := b.log.Decide(theRun, g.Gate, d); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever happens in a turn, its events are in order, its conversation is valid,
// and its records tell the same again.
func TestRandomTurns(t *testing.T) {
	ends := map[string]int{}
	turn := func(r *rapid.T) {
		s := genScript(r)
		b := s.bed()
		for drive := 1; ; drive++ {
			if drive == s.cancel {
				if err := b.log.Write(theRun, flow.Draft{Kind: "run.cancel_requested", Body: json.RawMessage(`{"mode":"graceful"}`)}); err != nil {
					r.Fatal(err)
				}
			}
			out := b.drive(t)
			if out.Status == flow.Interrupted || drive > 30 {
				r.Fatalf("%s in drive %d: %v", out.Status, drive, out.Err)
			}
			if err := agenttest.Order(b.events(), out.Status.Terminal()); err != nil {
				r.Fatalf("%v%s", err, b.transcript())
			}
			if out.Status.Terminal() {
				if err := agent.Valid(b.out.Messages); err != nil {
					r.Fatalf("%v%s", err, b.transcript())
				}
				if fault := b.differs(t, out); fault != "" {
					r.Fatalf("%s%s", fault, b.transcript())
				}
				ends[fmt.Sprint(out.Status, " ", codeOf(b.err))]++
				return
			}
			s.decide(r, b, drive)
		}
	}
	wanted := []string{"completed ", "failed bound_exceeded", "cancelled cancelled"}
	unseen := func(end string) bool { return ends[end] == 0 }
	for round := 0; round < 10 && slices.ContainsFunc(wanted, unseen); round++ { // chance may leave one out
		rapid.Check(t, turn)
	}
	for _, end := range wanted {
		if unseen(end) {
			t.Errorf("no turn ended %q: %v", end, ends)
		}
	}
}

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/agent/agenttest"
	"github.com/tipstaff/tipstaff/flow"
)

// journey is a turn in which a bit of everything happens.
func journey() *bed {
	b := newBed(steps(
		call("f__read", `{"n":1}`, "f__ask", `{"n":2}`),
		call("f__write", `{"n":3}`, "f__nothing", `{}`),
		call("f__send", `{"n":5}`),
		call("f__send", `{"n":6}`),
		say("All done."),
	), aTool("f/read", "read"), aTool("f/ask", "read"), aTool("f/write", "once"), aTool("f/send", "once"))
	b.cfg.Policy = rules("f/read allow", "f/write allow", "f/ask ask", "f/send ask")
	b.cfg.MaxSteps, b.cfg.OnLimit = 4, agent.OnLimitAsk
	b.in.History = []agent.Message{{Role: agent.User, Text: "Hello."}, {Role: agent.Assistant, Text: "Hi."}}
	return b
}

// finish drives a turn to its end, and answers its gates as the same person would.
func finish(t *testing.T, b *bed) flow.Outcome {
	t.Helper()
	for range 10 {
		out := b.drive(t)
		if out.Status.Terminal() {
			b.check(t, out)
			return out
		}
		for _, g := range openGates(b.log.Records(theRun)) {
			d := flow.Decision{Action: g.Actions[0]}
			switch g.Kind {
			case "bound":
				d.Answer = json.RawMessage(`{"steps":3}`)
			case "in_doubt": // who goes and looks finds that it was done
				d.Action, d.Answer = "use_result", flow.JSON(text("ok"))
			case "approval":
				if strings.Contains(g.path, "tool#3.1") {
					d.Action = "allow_all"
				}
			}
			if err := b.log.Decide(theRun, g.Gate, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("it does not end")
	return flow.Outcome{}
}

type openGate struct {
	Gate    string
	Kind    string `json:"gate_kind"`
	Actions []string
	path    string
}

func openGates(records []flow.Record) (open []openGate) {
	for _, r := range records {
		var g openGate
		if err := json.Unmarshal(r.Body, &g); err != nil {
			continue
		}
		switch r.Kind {
		case "policy.gate":
			g.path = r.Path
			open = append(open, g)
		case "policy.gate.resolve":
			open = slices.DeleteFunc(open, func(o openGate) bool { return o.Gate == g.Gate })
		}
	}
	return open
}

// restore makes a log of the first records of another.
func restore(t *testing.T, records []flow.Record) *flow.Mem {
	t.Helper()
	log := flow.NewMem()
	var lease flow.Lease
	for _, r := range records {
		var err error
		switch {
		case r.Kind == "run.started" || r.Kind == "run.resumed":
			lease, err = log.Acquire(context.Background(), theRun, flow.Owner{})
		case r.Kind == "run.parked":
			_, err = log.Park(lease, flow.Parking{})
		case r.Epoch != 0:
			log.Append(lease, []flow.Draft{r.Draft}, func(e error) { err = e })
		default:
			err = log.Write(theRun, r.Draft)
		}
		if err != nil {
			t.Fatalf("restoring %s: %v", r.Kind, err)
		}
	}
	return log
}

// told is the events of a turn without what no two runs have in common.
func told(b *bed) []agent.Event {
	events := b.events()
	for i := range events {
		events[i].Seq = 0
		switch e := events[i].Body.(type) {
		case *agent.ApprovalRequested:
			e.Gate, e.ExpiresAt = "", time.Time{}
		case *agent.ApprovalDecided:
			e.Gate = ""
		case *agent.ToolCallResult:
			e.DurationMS = 0
		case *agent.MessageDone:
			e.Attempts = 0 // one that a crash cut off is counted
		}
	}
	return events
}

// at are the paths at which records of a kind stand.
func at(records []flow.Record, kind string) (paths []string) {
	for _, r := range records {
		if r.Kind == kind {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

func TestKilledAfterEveryRecord(t *testing.T) {
	whole := journey()
	if out := finish(t, whole); out.Status != flow.Completed {
		t.Fatalf("%v%s", out.Err, whole.transcript())
	}
	records := whole.log.Records(theRun)
	if len(records) < 50 {
		t.Fatalf("the journey has %d records only", len(records))
	}
	for n := 1; n < len(records); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := journey()
			b.log = restore(t, records[:n])
			finish(t, b)
			if diff := cmp.Diff(whole.out.Messages, b.out.Messages); diff != "" {
				t.Errorf("another conversation (-whole +resumed):\n%s", diff)
			}
			// Which of the two reads is decided and done first is nobody's promise.
			byPath := func(a, b agent.Event) int { return strings.Compare(a.Path, b.Path) }
			want, got := told(whole), told(b)
			slices.SortStableFunc(want, byPath)
			slices.SortStableFunc(got, byPath)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("other events (-whole +resumed):\n%s", diff)
			}
			finished, intended := at(records[:n], "effect.finished"), at(records[:n], "effect.intended")
			for _, r := range b.model.requests {
				if slices.Contains(finished, r.Path) {
					t.Errorf("%s was recorded, and asked again", r.Path)
				}
			}
			for path, name := range map[string]string{"turn/tool#2.1": `f/write {"n":3}`, "turn/tool#3.1": `f/send {"n":5}`, "turn/tool#4.1": `f/send {"n":6}`} {
				if slices.Contains(intended, path) && slices.Contains(b.world.done(), name) {
					t.Errorf("%s was intended, and made again", path)
				}
			}
		})
	}
}

func TestCancelledAfterEveryRecord(t *testing.T) {
	whole := journey()
	finish(t, whole)
	records := whole.log.Records(theRun)
	for n := 1; n < len(records); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := journey()
			b.log = restore(t, records[:n])
			if err := b.log.Write(theRun, flow.Draft{Kind: "run.cancel_requested", Body: json.RawMessage(`{"mode":"graceful"}`)}); err != nil {
				t.Fatal(err)
			}
			out := b.take(t)
			// After the last answer there is nothing left to cancel.
			if ended := slices.Contains(at(records[:n], "effect.finished"), "turn/model#5"); ended != (out.Status == flow.Completed) {
				t.Fatalf("ended %s: %v", out.Status, out.Err)
			}
			if len(b.model.requests)+len(b.world.done()) > 0 {
				t.Errorf("after the cancel it asked %d times and called %v", len(b.model.requests), b.world.done())
			}
			if out.Status == flow.Completed {
				return
			}
			if f := of[*agent.Failed](b); len(f) != 1 || f[0].Code != agent.CodeCancelled || !errors.Is(b.err, flow.ErrCancelled) {
				t.Errorf("%+v %v", f, b.err)
			}
			doubtful := func(class string) bool { return class == agent.ClassInDoubt }
			finished := at(records[:n], "effect.finished")
			for _, path := range []string{"turn/tool#2.1", "turn/tool#3.1", "turn/tool#4.1"} {
				sent := slices.Contains(at(records[:n], "effect.intended"), path) && !slices.Contains(finished, path)
				if sent && !slices.ContainsFunc(b.classes(), doubtful) {
					t.Errorf("%s was sent and its result is one of %q", path, b.classes())
				}
			}
		})
	}
}

// Calls that are in flight when the turn is cancelled are cut, or awaited as long as
// the cancel says.
func TestCancelledInTheMiddleOfACall(t *testing.T) {
	for _, c := range []struct {
		class string
		want  []string
	}{{"read", []string{"cancelled", "cancelled"}}, {"once", []string{"in_doubt", "cancelled"}}} {
		b := newBed(steps(call("f__a", `{"n":1}`, "f__a", `{"n":2}`)), aTool("f/a", c.class))
		b.cfg.ToolParallelism = 1
		over := make(chan struct{})
		b.world.acts["f/a"] = cancels(b, over)
		b.take(t)
		close(over)
		if !errors.Is(b.err, flow.ErrCancelled) || !slices.Equal(b.classes(), c.want) {
			t.Errorf("%s: %v, results %q, want %q", c.class, b.err, b.classes(), c.want)
		}
	}
}

func TestOrderFindsFaults(t *testing.T) {
	b := journey()
	finish(t, b)
	events := b.events()
	if err := agenttest.Order(events, true); err != nil {
		t.Fatal(err)
	}
	for i := range events {
		without := slices.Delete(slices.Clone(events), i, i+1)
		if agenttest.Order(without, true) == nil {
			if a, ok := events[i].Body.(*agent.ApprovalDecided); !ok || a.By != agent.ByPolicy && a.By != agent.ByGrant {
				if events[i].Type() != agent.TypeApprovalRequested { // a decision without a question may be the policy's
					t.Errorf("nothing is found without event %d, %s", i+1, events[i].Type())
				}
			}
		}
		twice := slices.Insert(slices.Clone(events), i, events[i])
		if agenttest.Order(twice, true) == nil {
			t.Errorf("nothing is found with event %d, %s, twice", i+1, events[i].Type())
		}
	}
	if agenttest.Order(events, false) == nil || agenttest.Order(events[:3], true) == nil {
		t.Error("ended and waiting are not told apart")
	}
}

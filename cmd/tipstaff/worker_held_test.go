package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

func init() {
	parts["tells what it used, then works"] = func(f *fake) {
		f.begin()
		f.say(`{"type":"assistant","message":{"id":"m","model":"m","content":[{"type":"text","text":"and"}],"usage":{"input_tokens":100,"output_tokens":23}},"session_id":%q}`, f.id)
		f.note("works")
		time.Sleep(forever)
	}
	parts["costs three dollars"] = func(f *fake) {
		f.begin()
		f.say(`{"type":"result","subtype":"error_max_budget_usd","is_error":true,"errors":["Reached maximum budget ($2)"],"session_id":%q,"total_cost_usd":3,"usage":{"input_tokens":100,"output_tokens":23}}`, f.id)
	}
}

// becomes gives the fake CLIs another part.
func (w *workspace) becomes(part string) {
	w.Helper()
	w.Check(os.Remove(w.Path("bin/claude")))
	w.fakes(part)
}

// bound is where a run stands with a bound.
func (w *workspace) bound(run, name string) (b struct{ Used, Held, Reserved, Limit string }) {
	w.Helper()
	var s struct {
		Bounds map[string]struct{ Used, Held, Reserved, Limit string }
	}
	w.Check(json.Unmarshal([]byte(w.Must(0, "show", run, "--json").Out), &s))
	return s.Bounds[name]
}

// killsInvocation kills the process of a run while its worker works, for the n-th time.
func (w *workspace) killsInvocation(n int, args ...string) {
	w.Helper()
	p := w.Start(args...)
	w.Until("the worker", func() bool { return strings.Count(w.Read("bin/notes"), "works") == n || !p.Running() })
	if n == 1 {
		w.Until("what it used is recorded", func() bool {
			return strings.Contains(w.Run("events", "@", "--json").Out, "bound.used") || !p.Running()
		})
	}
	p.Kill()
}

// Kills cost nobody his budget: what a worker was to use at most when its run died is held,
// but for what it had told, and when nothing is left somebody is asked.
func TestKillsDoNotEatTheBudget(t *testing.T) {
	t.Parallel()
	w := newFake(t, "tells what it used, then works")
	w.configure("grace: 1s", "grace: 1s, tokens: 1000")
	w.killsInvocation(1, "run", "plan.yaml", "--unattended")
	for n := 2; n <= 3; n++ {
		w.Must(4, "resume", "@", "--unattended")
		w.Must(0, "decide", "@", w.show("@").OpenGates[0].ID, "retry")
		w.killsInvocation(n, "resume", "@", "--unattended")
	}
	w.Must(4, "resume", "@", "--unattended")
	w.Must(0, "decide", "@", w.show("@").OpenGates[0].ID, "retry")
	w.Must(4, "resume", "@", "--unattended")
	asks := w.show("@").OpenGates
	if len(asks) != 1 || asks[0].Kind != "bound" {
		t.Fatalf("the gates are %+v", asks)
	}
	w.Must(0, "show", "@", "--gate", asks[0].ID).Says(t, "$5.00 are held")
	if b := w.bound("@", "cost_usd"); b.Used != "0.00" || b.Held != "5.00" || b.Limit != "5.00" || b.Reserved != "0.00" {
		t.Errorf("of the cost: %+v", b)
	}
	if b := w.bound("@", "tokens"); b.Used == "0" || b.Held == "" {
		t.Errorf("of the tokens, which it told once at least: %+v", b)
	}
	for _, how := range [][]string{{"show", "@"}, {"show", "@", "--evidence"}, {"show", "@", "--metrics"}} {
		if out := w.Run(how...).Out; !strings.Contains(out, "5.00") {
			t.Errorf("%v says nothing of what is held:\n%s", how, out)
		}
	}
	w.Must(0, "verify", "@", "--open")

	w.becomes("honest")
	w.Must(0, "decide", "@", asks[0].ID, "extend", "--answer", "2.00")
	w.Must(0, "resume", "@", "--unattended")
	if b := w.bound("@", "cost_usd"); b.Held != "5.00" || b.Limit != "7.00" {
		t.Errorf("at the end, of the cost: %+v", b)
	}
	run := w.runs()[0]
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
	w.nothingRuns()
}

// A fork of a run that was stopped there goes on, and may have as much as the manifest
// permits by then.
func TestAForkOfAStoppedRunGoesOn(t *testing.T) {
	t.Parallel()
	w := newFake(t, "tells what it used, then works")
	w.configure("workers:", "bounds: {cost_usd: \"2.00\"}\nworkers:")
	w.killsInvocation(1, "run", "plan.yaml", "--unattended")
	w.Must(4, "resume", "@", "--unattended")
	w.Must(0, "decide", "@", w.show("@").OpenGates[0].ID, "retry")
	w.Must(4, "resume", "@", "--unattended")
	ask := w.show("@").OpenGates[0].ID
	w.Must(2, "decide", "@", ask, "extend", "--answer", "1.00").Says(t, "permits 2.00")
	w.Must(0, "decide", "@", ask, "stop")
	w.Must(5, "resume", "@", "--unattended").Says(t, "cost_usd")
	source := w.runs()[0]
	w.becomes("honest")
	w.Must(0, "fork", source, "--resume", "--unattended")
	w.Must(0, "verify", "@")
	w.Must(2, "fork", source, "--raise", "max_cost_usd=3.00").Says(t, "2.00 is the most")
	w.configure("bounds: {cost_usd: \"2.00\"}", "bounds: {cost_usd: \"9.00\"}")
	w.Must(0, "fork", source, "--raise", "max_cost_usd=4.50", "--resume", "--unattended")
	if b := w.bound("@", "cost_usd"); b.Limit != "4.50" {
		t.Errorf("of the raised fork: %+v", b)
	}
	w.configure("bounds: {cost_usd: \"9.00\"}", "bounds: {cost_usd: \"1.00\"}") // which it was not by then
	w.Must(0, "verify", "@")
	w.Must(0, "verify", source)
	w.nothingRuns()
}

// A worker that reaches its own limit has failed by that limit, and where failures are
// asked about, somebody is asked; its task is not abandoned.
func TestAWorkersOwnLimitIsNotThatOfTheRun(t *testing.T) {
	t.Parallel()
	w := newFake(t, "costs three dollars")
	id := w.newTask()
	w.Must(4, "task", "spawn", id)
	run := w.show(w.taskJSON(id).RunID)
	if len(run.OpenGates) != 1 || run.OpenGates[0].Kind != "question" || w.taskJSON(id).Status != "paused" {
		t.Fatalf("the gates are %+v, the task %+v", run.OpenGates, w.taskJSON(id))
	}
	w.becomes("honest")
	w.Must(0, "decide", "@", run.OpenGates[0].ID, "retry")
	w.Must(4, "task", "resume", id)
	w.Must(0, "task", "feedback", id, "approved")
	w.Must(0, "task", "resume", id)
	w.Must(0, "verify", "@")

	w.becomes("costs three dollars")
	r := w.Must(1, "run", "plan.yaml", "--unattended").Says(t, "worker_limit")
	if strings.Contains(r.Out+r.Err, "bound_exceeded") {
		t.Errorf("it is said that a bound was exceeded: %v", r)
	}
	w.nothingRuns()
}

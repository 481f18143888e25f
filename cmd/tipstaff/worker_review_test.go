package main

import (
	"strings"
	"testing"
)

func init() {
	parts["reviews without a verdict"] = (*fake).honest
	parts["rejects"] = func(f *fake) {
		f.begin()
		if strings.Contains(f.prompt, "Judge the work") {
			f.call("task_output", `{"kind":"verdict","value":{"verdict":"rejected","summary":"There are no tests."}}`)
		}
		f.text("done")
		f.report()
		f.end()
	}
}

// A reviewer who reports and gives no verdict has decided nothing: a person is asked.
func TestReviewerWithoutAVerdict(t *testing.T) {
	t.Parallel()
	w := newFake(t, "reviews without a verdict")
	w.configure("workers:", "bindings: {reviewer: second}\nworkers:")
	id := strings.TrimSpace(w.Must(0, "task", "new", "--name", "Write it", "--worker", "hand", "--review", "reviewer").Out)
	if r := w.Run("task", "spawn", id); r.Code != 4 {
		t.Fatal(r)
	}
	run := w.taskJSON(id).RunID
	if gates := w.show(run).OpenGates; len(gates) != 1 || gates[0].Kind != "handoff" || w.starts() != 2 {
		t.Fatalf("%+v after %d starts", gates, w.starts())
	}
	w.Must(0, "task", "feedback", id, "approved")
	w.Must(0, "resume", run, "--unattended")
	if got := w.taskJSON(id); got.Status != "completed" {
		t.Errorf("%+v", got)
	}
	w.Must(0, "verify", run)
	w.nothingRuns()
}

// Work that a reviewer rejects is done again as often as its agent may, or as somebody
// allows at a gate.
func TestIterationsOfAReviewEnd(t *testing.T) {
	t.Parallel()
	for onBound, rounds := range map[string]int{"fail": 1, "ask": 2} {
		t.Run(onBound, func(t *testing.T) {
			t.Parallel()
			w := newFake(t, "rejects")
			w.configure("workers:", "bindings: {reviewer: second}\nagents: {builder: {worker: hand, review: reviewer, max_iterations: 1, on_bound: "+onBound+"}}\nworkers:")
			w.Write("plan.yaml", strings.Replace(w.Read("plan.yaml"), "agent: hand", "agent: builder", 1))
			r := w.Run("run", "plan.yaml", "--unattended")
			for _, how := range [][]string{{"extend", "--answer", "1"}, {"stop"}} {
				if onBound == "fail" {
					break
				}
				gates := w.show("@").OpenGates
				if r.Code != 4 || len(gates) != 1 || gates[0].Kind != "bound" {
					t.Fatalf("%+v\n%v", gates, r)
				}
				w.Must(0, append([]string{"decide", "@", gates[0].ID}, how...)...)
				r = w.Run("resume", "@", "--unattended")
			}
			if r.Code != 5 || !strings.Contains(r.Out, "task.iterations") || w.starts() != 2*rounds {
				t.Errorf("%d starts\n%v", w.starts(), r)
			}
			if starts := w.startNotes(); rounds == 2 && (!strings.Contains(starts[2], "resumed=true") || !strings.Contains(starts[2], "There are no tests.") ||
				!strings.Contains(starts[3], "> Iteration 2.")) {
				t.Errorf("they were started so:\n%s", w.Read("bin/notes"))
			}
			w.Must(0, "verify", "@")
			w.nothingRuns()
		})
	}
}

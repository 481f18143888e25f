package main

import (
	"strings"
	"testing"
)

func init() {
	parts["reviews without a verdict"] = (*fake).honest
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

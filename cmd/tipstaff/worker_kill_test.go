package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// takeTask brings a task to its end: a person rejects what is reported first, approves
// what is reported then, and has the worker try again where nobody saw its end. It returns
// how often that was.
func (w *workspace) takeTask(id string) (doubts int) {
	w.Helper()
	for range 20 {
		task := w.taskJSON(id)
		if task.Status == "pending" {
			w.Must(4, "task", "spawn", id)
			continue
		}
		run := w.show(task.RunID)
		switch {
		case run.State == "completed":
			return doubts
		case len(run.OpenGates) == 0:
			if r := w.Run("resume", task.RunID, "--unattended"); r.Code != 0 && r.Code != 4 {
				w.Fatal(r)
			}
		case run.OpenGates[0].Kind == "in_doubt":
			doubts++
			w.Must(0, "decide", task.RunID, run.OpenGates[0].ID, "retry")
		case task.Iteration == 1:
			w.Must(0, "task", "feedback", id, "rejected", "-m", "Better, please.")
		default:
			w.Must(0, "task", "feedback", id, "approved")
		}
	}
	w.Fatalf("task %s has not ended: %+v", id, w.taskJSON(id))
	return 0
}

// TestKillTaskAtEveryCommit takes up a task that is rejected once and then approved where
// its process died right behind its n-th commit: it comes to the same end, and no
// invocation is repeated unless somebody decides so.
func TestKillTaskAtEveryCommit(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	tp := newTape(t, strings.ReplaceAll(fakeManifest, "BIN/claude", "claude"))
	tp.fakes("reviewed")
	id := tp.newTask()
	ended := func(w *workspace, starts int) {
		w.Helper()
		task := w.taskJSON(id)
		if task.Status != "completed" || task.Iteration != 2 || len(task.Feedback) != 2 || task.Feedback[0].Verdict != "rejected" || task.Feedback[1].Verdict != "approved" {
			w.Errorf("it has come to %+v", task)
		}
		w.Must(0, "verify", task.RunID)
		w.Must(0, "replay", task.RunID)
		if n := w.starts(); n != starts {
			w.Errorf("the worker was started %d times, not %d:\n%s", n, starts, w.Read("bin/notes"))
		}
		w.doubtsAreExact(w.journal(task.RunID))
		w.nothingRuns()
	}
	tp.record(func() string { // with few commands: each waits a while for the reader that holds the log
		tp.Must(4, "task", "spawn", id)
		tp.Must(0, "task", "feedback", id, "rejected", "-m", "Better, please.")
		tp.Must(4, "task", "resume", id)
		tp.Must(0, "task", "feedback", id, "approved")
		return runID(t, tp.Must(0, "task", "resume", id, "--json"))
	})
	ended(tp.workspace, 2)
	first, step := places(t, 14)
	for i := first; i < len(tp.cuts); i += step {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			t.Parallel()
			w := tp.cut(t, tp.log[:tp.cuts[i]])
			w.fakes("reviewed")
			begun, done := 0, 0 // invocations when the process died
			for _, run := range w.runs() {
				for _, r := range w.journal(run) {
					switch {
					case !strings.Contains(r.Path, "/worker#"):
					case r.Kind == "effect.intended":
						begun++
					case r.Kind == "effect.finished":
						done++
					}
				}
			}
			if doubts := w.takeTask(id); doubts != begun-done {
				t.Errorf("%d times somebody was asked; %d invocations had begun, %d ended", doubts, begun, done)
			}
			ended(w, 2-done)
		})
	}
}

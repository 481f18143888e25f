package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func init() {
	parts["reviewed"] = func(f *fake) { // one that is told what to do better
		f.begin()
		f.text(fmt.Sprintf("attempt %d", f.n))
		f.report()
		f.end()
	}
}

// taskJSON is a task as the command shows it.
func (w *workspace) taskJSON(id string) (t struct {
	Status, RunID, SessionID string
	Iteration                int
	Feedback                 []struct{ Verdict, Text string }
}) {
	w.Helper()
	var raw map[string]json.RawMessage
	out := w.Must(0, "task", "show", id, "--json").Out
	w.Check(json.Unmarshal([]byte(out), &raw))
	for name, to := range map[string]any{"status": &t.Status, "run_id": &t.RunID, "session_id": &t.SessionID, "iteration": &t.Iteration, "feedback": &t.Feedback} {
		if raw[name] != nil {
			w.Check(json.Unmarshal(raw[name], to))
		}
	}
	return t
}

// newTask makes a task for the fake.
func (w *workspace) newTask(flags ...string) string {
	w.Helper()
	return strings.TrimSpace(w.Must(0, append([]string{"task", "new", "--name", "Write it", "--worker", "hand", "--review", "person"}, flags...)...).Out)
}

// A task that is rejected is worked on once more, and the worker is told the very words.
func TestTaskIsRejectedAndThenApproved(t *testing.T) {
	t.Parallel()
	w := newFake(t, "reviewed")
	id := w.newTask()
	w.Must(4, "task", "spawn", id)
	w.Must(0, "task", "feedback", id, "rejected", "-m", "Not this way,\nbut that way.")
	if r := w.Run("task", "resume", id); r.Code != 4 {
		t.Fatal(r)
	}
	if got := w.taskJSON(id); got.Status != "needs_review" || got.Iteration != 2 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(w.Read("bin/notes"), `Not this way,\nbut that way.`) {
		t.Errorf("the worker was told\n%s", w.Read("bin/notes"))
	}
	if got := w.Read(".tipstaff/tasks/" + id + "/feedback/001.md"); !strings.Contains(got, "Not this way,\nbut that way.") {
		t.Errorf("the file of the feedback has %q", got)
	}
	w.Must(0, "task", "feedback", id, "approved")
	if r := w.Run("task", "resume", id); r.Code != 0 {
		t.Log(r)
	}
	run := w.runs()[0]
	if s := w.show(run); s.State != "completed" {
		w.Must(0, "resume", run)
	}
	if got := w.taskJSON(id); got.Status != "completed" || got.SessionID != "" || len(got.Feedback) != 2 {
		t.Errorf("%+v", got)
	}
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
	if n := w.starts(); n != 2 {
		t.Errorf("%d starts", n)
	}
	w.nothingRuns()
}

// TestKillTaskAtRecords kills the process that drives a task when the run has so many
// records, for every number of them: the task, rejected once and then approved, comes to
// the same end, and no invocation is repeated unless somebody decides so.
func TestKillTaskAtRecords(t *testing.T) {
	t.Parallel()
	const records = 44 // of an undisturbed run
	first, step := places(t, 9)
	for n := first + 1; n <= records; n += step {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newFake(t, "reviewed")
			id := w.newTask()
			killed, doubts := false, 0
			risk := func(args ...string) {
				p := w.Start(args...)
				if !killed {
					w.Until("records", func() bool { return !p.Running() || w.count(`SELECT count(*) FROM records`) >= n })
					killed = p.Kill()
				}
				if r := p.Wait(); r.Code != 4 && r.Code != 0 && r.Code != -1 {
					t.Fatal(r)
				}
			}
			for range 20 {
				task := w.taskJSON(id)
				if task.Status == "completed" && w.show(task.RunID).State == "completed" {
					break
				}
				if task.Status == "pending" {
					risk("task", "spawn", id)
					continue
				}
				gates := w.show(task.RunID).OpenGates
				switch {
				case len(gates) == 0:
					risk("resume", task.RunID, "--unattended")
				case gates[0].Kind == "in_doubt":
					doubts++
					risk("decide", task.RunID, gates[0].ID, "retry")
				case task.Iteration == 1:
					risk("task", "feedback", id, "rejected", "-m", "Better, please.")
				default:
					risk("task", "feedback", id, "approved")
				}
			}
			task := w.taskJSON(id)
			if task.Status != "completed" || task.Iteration != 2 || len(task.Feedback) != 2 || task.Feedback[0].Verdict != "rejected" || task.Feedback[1].Verdict != "approved" {
				t.Fatalf("it has come to %+v, %+v", task, w.show(task.RunID))
			}
			if starts := w.starts(); starts > 2+doubts {
				t.Errorf("the worker was started %d times, %d times after a decision", starts, doubts)
			}
			w.doubtsAreExact(w.journal(task.RunID))
			w.Must(0, "verify", task.RunID)
			w.Must(0, "replay", task.RunID)
			if starts := w.starts(); starts > 2+doubts {
				t.Errorf("a replay has started a worker")
			}
			w.nothingRuns()
		})
	}
}

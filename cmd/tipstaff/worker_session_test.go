package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

func init() {
	parts["asks, fails, then reports"] = func(f *fake) {
		f.begin()
		f.note("args=%q mark=%s", os.Args, os.Getenv("MARK"))
		f.text("I was given " + os.Getenv("LOGIN"))
		switch f.n {
		case 1:
			f.call("task_ask", `{"question":"Which?"}`)
		case 2:
			os.Exit(3)
		default:
			f.report()
		}
		f.end()
	}
	parts["asks, then reports, slowly"] = func(f *fake) {
		f.begin()
		for !fileExists(filepath.Join(f.dir, "go."+strconv.Itoa(f.n))) {
			time.Sleep(5 * time.Millisecond)
		}
		if f.text("hello"); f.resumed {
			f.report()
		} else {
			f.call("task_ask", `{"question":"Which?"}`)
		}
		f.end()
	}
	parts["is forgotten"] = func(f *fake) {
		if f.resumed {
			_, err := os.Stderr.WriteString("No conversation found with session ID: " + f.id + "\n")
			f.check(err)
			os.Exit(1)
		}
		f.honest()
	}
}

// workerSession is a session as the command lists it.
type workerSession struct {
	Session   string
	ID        string `json:"session_id"`
	Run       string `json:"run_id"`
	State     string
	Command   string
	UpdatedAt string `json:"updated_at"`
	Count     int    `json:"invocations"`
}

// workerSessions are all of them, newest first.
func (w *workspace) workerSessions() (all []workerSession) {
	w.Helper()
	for line := range strings.Lines(w.Must(0, "sessions", "--kind", "worker", "--all", "--json").Out) {
		var s workerSession
		w.Check(json.Unmarshal([]byte(line), &s))
		all = append(all, s)
	}
	return all
}

// startNotes are the notes of the fakes, one of each start.
func (w *workspace) startNotes() (lines []string) {
	for line := range strings.Lines(w.Read("bin/notes")) {
		if strings.Contains(line, " resumed=") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Who does the work of a run, and how, is settled when the run is made. What the manifest
// and the environment say later changes nothing, and what they said then stays secret.
func TestWhatWasSettledStays(t *testing.T) {
	t.Parallel()
	const secret = "team-0123456789-abcdef"
	w := newFake(t, "asks, fails, then reports", "-- role.md --\nThe role as it was.\n-- other.md --\nAnother role.\n")
	w.configure("workers:", "roles: {implementer: {prompt: role.md}}\nbindings: {implementer: careful}\nworkers:\n  careful: {type: claude, command: "+w.Path("bin/claude")+
		", posture: read_only, model: opus, env: {MARK: before, LOGIN: \"$env:TEAM_KEY\"}}")
	w.Env = append(w.Env, "TEAM_KEY="+secret)
	id := strings.TrimSpace(w.Must(0, "task", "new", "--name", "Write it", "--review", "none").Out)
	w.Must(4, "task", "spawn", id)
	if got := w.taskJSON(id); got.Status != "paused" || !strings.HasPrefix(w.Read("bin/notes"), "1 "+got.SessionID+" ") {
		t.Errorf("a task that waits has lost its session: %+v", got)
	}

	text, _, _ := strings.Cut(w.Read("tipstaff.yaml"), "roles:")
	_, others, _ := strings.Cut(w.Read("tipstaff.yaml"), "$env:TEAM_KEY\"}}")
	w.Write("tipstaff.yaml", text+"roles: {implementer: {prompt: other.md, posture: write}}\nbindings: {implementer: second}\nworkers:"+others)
	w.Write("role.md", "The role as it is now.")
	w.Env = append(w.Env, "TIPSTAFF_WORKER_IMPLEMENTER=second")
	w.Must(4, "task", "resume", id, "this one")
	w.Must(0, "task", "resume", id, "--fresh")

	notes := w.Read("bin/notes")
	if starts := w.startNotes(); len(starts) != 3 || !strings.Contains(starts[1], "resumed=true") || !strings.Contains(starts[2], "resumed=false") || !strings.Contains(starts[2], "The role as it was.") {
		t.Errorf("it was started so:\n%s", notes)
	}
	if strings.Count(notes, "mark=before") != 3 || strings.Count(notes, `"--model" "opus"`) != 3 || strings.Count(notes, `"--disallowedTools"`) != 3 {
		t.Errorf("another configuration:\n%s", notes)
	}
	run := w.taskJSON(id).RunID
	if all := w.Must(0, "events", run, "--json").Out; strings.Contains(all, secret) || strings.Count(all, "I was given $env:TEAM_KEY") < 3 {
		t.Error("the secret is told")
	}
	for _, body := range w.bodies(run, "worker.started") {
		if who := (record{Body: json.RawMessage(body)}).field("worker"); who != "careful" {
			t.Errorf("%s did it", who)
		}
	}
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
}

// Of two that spawn a task, or resume it, at once one does; the other is told that the
// worker is busy.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := newFake(t, "asks, then reports, slowly")
	id := w.newTask()
	for n, args := range [][]string{{"task", "spawn", id, "--json"}, {"task", "resume", id, "the first", "--json"}} {
		does, other := w.Start(args...), w.Start(args...)
		w.Until("one of them is refused", func() bool { return !does.Running() || !other.Running() })
		if !does.Running() {
			does, other = other, does
		}
		if r := other.Wait(); r.Code != 3 {
			t.Errorf("%v", r)
		}
		w.Until("the worker", func() bool { return w.starts() == n+1 })
		w.Must(3, "task", "resume", id, "something else", "--json").Says(t, `"session_busy"`)
		w.Must(3, "task", "resume", id, "--json").Says(t, `"session_busy"`)
		w.Write("bin/go."+strconv.Itoa(n+1), "")
		does.Must(4)
		if w.starts() != n+1 || len(w.runs()) != 1 {
			t.Errorf("%d starts, %d runs\n%s", w.starts(), len(w.runs()), w.Read("bin/notes"))
		}
	}
	if got := w.taskJSON(id); got.Status != "needs_review" {
		t.Errorf("%+v", got)
	}
	w.nothingRuns()
}

// A session that the CLI does not know any more is begun anew when somebody wants that, and
// the command that the list shows does it.
func TestALostSession(t *testing.T) {
	t.Parallel()
	w := newFake(t, "is forgotten")
	id := w.newTask()
	w.Must(4, "task", "spawn", id)
	w.Must(0, "task", "feedback", id, "rejected", "-m", "Not so.")
	w.Must(4, "task", "resume", id) // it is lost
	w.Must(4, "task", "resume", id) // and cannot be gone on with
	if n := w.starts(); n != 2 {
		t.Errorf("%d starts:\n%s", n, w.Read("bin/notes"))
	}
	run := w.taskJSON(id).RunID
	if failed := strings.Join(w.bodies(run, "policy.gate"), "\n"); !strings.Contains(failed, "worker_session_lost") || !strings.Contains(failed, "session_closed") {
		t.Errorf("nobody is told why: %s", failed)
	}
	lost := w.workerSessions()
	if len(lost) != 1 || lost[0].State != "lost" {
		t.Fatalf("%+v", lost)
	}
	w.Must(4, strings.Fields(lost[0].Command)[1:]...)
	starts, now := w.startNotes(), w.workerSessions()
	if len(starts) != 3 || !strings.Contains(starts[2], "resumed=false") || !strings.Contains(starts[2], "Not so.") {
		t.Errorf("it was started so:\n%s", w.Read("bin/notes"))
	}
	if len(now) != 2 || now[0].State != "live" || now[0].ID == lost[0].ID || !reflect.DeepEqual(now[1], lost[0]) {
		t.Errorf("the sessions were %+v, and are %+v", lost, now)
	}
	w.Must(0, "task", "feedback", id, "approved")
	w.Must(0, "resume", run, "--unattended")
	w.Must(0, "verify", run)
	w.nothingRuns()
}

// A fork is given the results of its source's invocations, and goes on in a session of its
// own.
func TestAForkSharesNoSession(t *testing.T) {
	t.Parallel()
	w := newFake(t, "reviewed")
	id := w.newTask()
	w.Must(4, "task", "spawn", id)
	w.Must(0, "task", "feedback", id, "rejected", "-m", "Not so.")
	w.Must(4, "task", "resume", id)
	run, source := w.taskJSON(id).RunID, w.workerSessions()
	fork := runID(t, w.Must(0, "fork", run, "--json"))
	w.Must(4, "resume", fork, "--unattended")
	if n := w.starts(); n != 2 || len(w.workerSessions()) != 1 {
		t.Errorf("what was recorded is done again: %d starts\n%s", n, w.Read("bin/notes"))
	}
	gate := w.show(fork).OpenGates[0]
	w.Must(0, "decide", fork, gate.ID, "retry_feedback", "--feedback", "Once more.")
	w.Must(4, "resume", fork, "--unattended")
	starts, now := w.startNotes(), w.workerSessions()
	if len(starts) != 3 || !strings.Contains(starts[2], "Once more.") {
		t.Errorf("it was started so:\n%s", w.Read("bin/notes"))
	}
	if len(now) != 2 || now[0].Run != fork || now[0].ID == source[0].ID || !strings.Contains(starts[2], "3 "+now[0].ID+" resumed=false copied=\""+source[0].ID+"\"") {
		t.Errorf("the fork's session is %+v", now)
	}
	if !reflect.DeepEqual(now[1:], source) {
		t.Errorf("the source's session was %+v, and is %+v", source, now[1:])
	}
	for _, run := range []string{run, fork} {
		w.Must(0, "verify", run, "--open")
		w.Must(0, "cancel", run)
	}
	w.nothingRuns()
}

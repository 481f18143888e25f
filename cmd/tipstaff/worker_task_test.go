package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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
	Status, RunID, SessionID, CompletedAt string
	Iteration                             int
	Feedback                              []struct{ Verdict, Text string }
}) {
	w.Helper()
	var raw map[string]json.RawMessage
	out := w.Must(0, "task", "show", id, "--json").Out
	w.Check(json.Unmarshal([]byte(out), &raw))
	for name, to := range map[string]any{"status": &t.Status, "run_id": &t.RunID, "session_id": &t.SessionID, "completed_at": &t.CompletedAt, "iteration": &t.Iteration, "feedback": &t.Feedback} {
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
	if got := w.taskJSON(id); got.Status != "needs_review" || got.Iteration != 2 || got.CompletedAt != "" || !strings.HasPrefix(w.Read("bin/notes"), "1 "+got.SessionID+" ") {
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
	if got := w.taskJSON(id); got.Status != "completed" || got.SessionID != "" || got.CompletedAt == "" || len(got.Feedback) != 2 {
		t.Errorf("%+v", got)
	}
	if hops := w.used(run, "agent_hops"); hops != "1" {
		t.Errorf("going on with a session has cost hops: %s", hops)
	}
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
	if n := w.starts(); n != 2 {
		t.Errorf("%d starts", n)
	}
	w.nothingRuns()
}

func init() {
	parts["reports and hangs"] = func(f *fake) {
		f.begin()
		f.report()
		f.note("reported")
		time.Sleep(forever)
	}
	parts["tells secrets"] = func(f *fake) {
		secret, token := os.Getenv("ANTHROPIC_API_KEY"), f.token()
		f.begin()
		f.note("token %s", token)
		half := len(secret) / 2
		fmt.Fprintf(f.out, `{"type":"noise","x":"%s`, secret[:half])
		f.check(f.out.Flush())
		time.Sleep(100 * time.Millisecond)
		f.say(`%s"}`, secret[half:])
		fmt.Fprintln(os.Stderr, secret, token)
		f.text(secret + " " + token)
		for _, s := range []string{secret, token} {
			f.call("task_log", map[string]string{"text": s})
			f.call("task_output", map[string]any{"kind": "data", "value": map[string]string{"s": s}, "note": s})
			f.approve("Edit", map[string]string{"file_path": "/etc/" + s, "old_string": "", "new_string": s})
			f.approve("Bash", map[string]string{"command": "echo " + s, "description": s})
		}
		f.check(os.WriteFile("config.ini", []byte("key = "+secret+"\n"), 0o600))
		f.call("task_ask", map[string]any{"question": "Is it " + secret + "?", "options": []string{token, "no"}})
		f.end()
	}
	parts["hands over traps"] = func(f *fake) {
		f.begin()
		f.check(syscall.Mkfifo("pipe", 0o600))
		f.check(os.Symlink("/etc/passwd", "link"))
		f.check(os.Symlink("..", "up"))
		file, err := os.Create("huge")
		f.check(err)
		f.check(file.Truncate(1 << 40))
		f.check(file.Close())
		for _, path := range []string{"pipe", "link", "up/x", "huge", "/dev/zero", "../../etc/passwd", ".", "no\nfile"} {
			text, refused := f.call("task_output", map[string]string{"kind": "file", "path": path})
			f.note("%q refused=%t %q", path, refused, text)
		}
		f.report()
		f.end()
	}
}

// A worker that reported and whose end nobody saw: what a person says of it counts, also
// that it had reported.
func TestReportThatOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	w := newFake(t, "reports and hangs")
	id := w.newTask()
	p := w.Start("task", "spawn", id)
	w.Until("the report", func() bool { return strings.Contains(w.Read("bin/notes"), "reported") })
	p.Kill()
	run := w.taskJSON(id).RunID
	w.Run("resume", run, "--unattended")
	gates := w.show(run).OpenGates
	if len(gates) != 1 || gates[0].Kind != "in_doubt" {
		t.Fatalf("%+v", w.show(run))
	}
	w.Must(0, "decide", run, gates[0].ID, "use_result", "--answer", `{"text":"it was done"}`)
	w.Must(4, "resume", run, "--unattended")
	if got := w.taskJSON(id); got.Status != "needs_review" {
		t.Errorf("%+v", got)
	}
	w.Must(0, "task", "feedback", id, "approved")
	w.Must(0, "resume", run, "--unattended")
	if got := w.taskJSON(id); got.Status != "completed" || w.starts() != 1 {
		t.Errorf("%+v after %d starts", got, w.starts())
	}
	w.Must(0, "verify", run)
	w.nothingRuns()
}

// Credentials and the token of the channel are in no log, record, file or answer, whatever
// a worker does with them.
func TestSecretsOfAWorkerStayOut(t *testing.T) {
	t.Parallel()
	w := newFake(t, "tells secrets")
	const secret = "sk-ant-0123456789-abcdefghij"
	w.Env = append(w.Env, "ANTHROPIC_API_KEY="+secret)
	w.configure("command: "+w.Path("bin")+"/claude, posture: read_only", "command: "+w.Path("bin")+"/claude")
	w.git()
	w.Write("plan.yaml", strings.Replace(w.Read("plan.yaml"), "agent: hand", "agent: writer", 1))
	r := w.Must(4, "run", "plan.yaml", "--unattended")
	run := w.runs()[0]
	if got := strings.Join(w.outcomes(run), " "); got != "approval" {
		t.Errorf("the outcomes are %q", got)
	}
	all := r.Out + r.Err + w.Must(0, "events", run, "--json").Out + w.Must(0, "show", run, "--json").Out + w.Must(0, "show", run).Out + w.Must(0, "sessions", "--all", "--json").Out
	diff := w.Must(0, "show", run, "--diff").Out
	if !strings.Contains(diff, "config.ini") || !strings.Contains(diff, "left out") {
		t.Errorf("what it has changed is recorded as %s", diff)
	}
	all += diff
	w.Check(filepath.WalkDir(w.Path(".tipstaff"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, _ := os.ReadFile(name)
			all += string(b)
		}
		return err
	}))
	_, token, _ := strings.Cut(w.Read("bin/notes"), "token ")
	token = strings.TrimSpace(token)
	if strings.Contains(all, secret) || strings.Contains(all, token) || len(token) != 64 {
		t.Error("a secret is told")
	}
	if !strings.Contains(all, "$env:ANTHROPIC_API_KEY") || !strings.Contains(all, "$env:TIPSTAFF_MCP_TOKEN") {
		t.Error("nothing was replaced")
	}
	w.nothingRuns()
}

// What a worker hands over is a file in its directory, and of a size that can be read.
func TestTrapsThatAreHandedOver(t *testing.T) {
	t.Parallel()
	w := newFake(t, "hands over traps")
	w.Must(0, "run", "plan.yaml", "--unattended")
	if notes := w.Read("bin/notes"); strings.Count(notes, "refused=true") != 8 {
		t.Error(notes)
	}
	w.nothingRuns()
}

func init() {
	parts["decides for itself"] = func(f *fake) {
		f.begin()
		f.check(os.WriteFile(filepath.Join(f.dir, "up.new"), []byte(os.Getenv("TIPSTAFF_RUN_ID")), 0o600))
		f.check(os.Rename(filepath.Join(f.dir, "up.new"), filepath.Join(f.dir, "up")))
		script := filepath.Join(f.dir, "decide.sh")
		for !fileExists(script) {
			time.Sleep(10 * time.Millisecond)
		}
		out, err := exec.Command("sh", script).CombinedOutput()
		f.check(err)
		f.note("%s", out)
		f.report()
		f.end()
	}
	parts["works until it is stopped"] = func(f *fake) {
		f.begin()
		f.note("works")
		time.Sleep(forever)
	}
}

// No worker decides for its own run and task, whatever it does to its environment and
// session.
func TestNoWorkerDecidesForItself(t *testing.T) {
	t.Parallel()
	w := newFake(t, "decides for itself")
	id := w.newTask()
	p := w.Start("task", "spawn", id)
	w.Until("the worker", func() bool { return fileExists(w.Path("bin/up")) || !p.Running() })
	run := w.Read("bin/up")
	script := ""
	for _, how := range []string{"env", "env -u TIPSTAFF_RUN_ID", "env -i HOME=" + w.Dir, "setsid -w env -i HOME=" + w.Dir} {
		for _, command := range []string{"decide " + run + " root/x approve", "task set " + id + " abandoned --why x", "task feedback " + id + " approved", "task resume " + id, "resume " + run, "cancel " + run} {
			script += how + " " + w.Prepare().Cmd.Path + " " + command + " --json --workspace " + w.Dir + " 2>&1 >/dev/null | grep -o own_run | sort -u\n"
		}
	}
	w.Write("bin/decide.new", script+"true\n")
	w.Check(os.Rename(w.Path("bin/decide.new"), w.Path("bin/decide.sh")))
	if r := p.Wait(); r.Code != 4 {
		t.Fatal(r)
	}
	if n := strings.Count(w.Read("bin/notes"), "own_run"); n != 24 {
		t.Errorf("%d of 24 were refused:\n%s", n, w.Read("bin/notes"))
	}
	if got := w.taskJSON(id); got.Status != "needs_review" {
		t.Errorf("%+v", got)
	}
	w.nothingRuns()
}

// A run that is cancelled in the middle of an invocation leaves no process, no task and no
// session.
func TestCancelInTheMiddleOfAnInvocation(t *testing.T) {
	t.Parallel()
	w := newFake(t, "works until it is stopped")
	id := w.newTask()
	p := w.Start("task", "spawn", id)
	w.Until("the worker", func() bool { return strings.Contains(w.Read("bin/notes"), "works") || !p.Running() })
	run := w.taskJSON(id).RunID
	if r := w.Run("task", "spawn", id); r.Code != 3 || !strings.Contains(r.Err, "is being driven by another process") {
		t.Errorf("a second spawn: %v", r)
	}
	w.Run("cancel", run)
	p.Wait()
	if got := w.taskJSON(id); got.Status != "abandoned" || got.SessionID != "" || got.CompletedAt == "" {
		t.Errorf("%+v", got)
	}
	if got := strings.Join(w.outcomes(run), " "); got != "cancelled" {
		t.Errorf("the outcomes are %q", got)
	}
	if moves := w.bodies(run, "task.status"); !strings.Contains(moves[len(moves)-1], `"to":"abandoned"`) {
		t.Errorf("the task was moved so: %q", moves)
	}
	if s := w.show(run); s.State != "cancelled" {
		t.Errorf("the run is %s", s.State)
	}
	if got := w.Must(0, "sessions", "--all", "--json").Out; !strings.Contains(got, `"closed"`) {
		t.Errorf("the session is %s", got)
	}
	if got := w.Must(0, "sessions").Err; !strings.Contains(got, "--all lists those that are over") {
		t.Errorf("of a closed session is said %q", got)
	}
	if len(w.runs()) != 1 || w.starts() != 1 {
		t.Errorf("%d runs, %d starts", len(w.runs()), w.starts())
	}
	w.Must(0, "verify", run)
	w.nothingRuns()
}

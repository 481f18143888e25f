//go:build linux

package clis

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/clis/api"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// finish is what a worker says that is done.
var finish = []api.Turn{{Calls: []api.Call{report("needs_review", "it is done")}}, {Text: "over"}}

func script(turns ...api.Turn) []api.Turn { return append(turns, finish...) }

// allowAll is a rule by which the policy lets a worker's own tools run.
func allowAll(c cli) string { return rule(c, "allow", "*") }

func rule(c cli, do string, tools ...string) string {
	var rules []string
	for n, tool := range tools {
		rules = append(rules, fmt.Sprintf(`{id: %s-%d, tool: "worker-%s/%s", do: %s}`, do, n, c.name(), tool, do))
	}
	return strings.Join(rules, ", ")
}

// endless is a tool call that tells when it began, and does not end by itself.
var endless = api.Turn{Calls: []api.Call{api.Run("echo x > begun.txt; sleep 600")}}

// cases of the life of a worker, each with every CLI.
var cases = []struct {
	name string
	run  func(t *testing.T, c cli)
}{
	{"spawn", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: readOnly}, script(
			api.Turn{Text: "I begin.", Calls: []api.Call{note("I began")}},
			api.Turn{Calls: []api.Call{{Tool: "task_status", Args: map[string]any{}}}},
			api.Turn{Calls: []api.Call{{Tool: "task_output", Args: map[string]any{"kind": "file", "path": "README"}}}})...)
		w.ends("task", "spawn", w.task)
		if asked := w.api.Requests()[0]; !asked.Said("user", description) {
			t.Errorf("the prompt lacks the description: %+v", asked.Messages)
		}
		if asked := w.lastRequest(); !asked.Said("tool", description) {
			t.Errorf("the channel did not tell the description: %+v", asked.Messages)
		}
		for _, kind := range []string{"worker.started", "agent.message", "agent.tool_call_request", "agent.tool_call_result", "task.log", "task.output", "worker.ended"} {
			if len(w.records(kind)) == 0 {
				t.Errorf("the journal has no %s", kind)
			}
		}
		if n := len(w.records("agent.finish")) + len(w.records("agent.error")); n != 1 {
			t.Errorf("the journal has %d terminal events", n)
		}
		w.completed()
	}},
	{"stream", func(t *testing.T, c cli) {
		var big strings.Builder
		for n := range 30000 {
			fmt.Fprintf(&big, "line %d\n", n)
		}
		w := newWorkspace(t, c, worker{posture: readOnly}, script(api.Turn{Text: big.String(), Calls: []api.Call{note("long")}})...)
		w.ends("task", "spawn", w.task)
		if raw := w.logs(".jsonl"); !strings.Contains(raw, "line 29999") {
			t.Errorf("the raw log has %d bytes", len(raw))
		}
		if readable := w.logs(".log"); !strings.Contains(readable, "line 1\n") || len(readable) > 20000 {
			t.Errorf("the readable log has %d bytes", len(readable))
		}
		w.completed()
	}},
	{"write", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: write}, script(api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "by the model")}})...)
		w.ends("task", "spawn", w.task)
		if got := w.worktree("made.txt"); strings.TrimSpace(got) != "by the model" {
			t.Errorf("the worktree has %q", got)
		}
		if got := w.Read("repo/made.txt"); got != "" {
			t.Errorf("the checkout has %q", got)
		}
		w.completed()
	}},
	{"denied tool", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: readOnly},
			api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "x")}}, api.Turn{Calls: []api.Call{api.Run("echo x > ran.txt")}},
			api.Turn{Text: "I could not.", Times: 2}) // Codex does not tell of denials: it is nudged
		w.must(4, "task", "spawn", w.task)
		outcome := "denied"
		if c.name() == "codex" {
			outcome = "no_report"
		}
		w.is("paused", outcome)
		w.goOn(api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "x")}}) // what is resumed may do no more
		if got := w.Read("repo/made.txt") + w.Read("repo/ran.txt"); got != "" {
			t.Errorf("%q was written", got)
		}
	}},
	{"approval", func(t *testing.T, c cli) {
		if c.name() != "claude" {
			compiledPolicy(t, c)
			return
		}
		once := api.Turn{Calls: []api.Call{api.Run("echo once >> ran.txt")}}
		w := newWorkspace(t, c, worker{posture: auto, rules: rule(c, "deny", "Write")}, script(api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "x")}}, once, once)...)
		for _, settings := range []string{".claude/settings.json", "repo/.claude/settings.json"} { // what its user or the project allows does not count
			w.Write(settings, `{"permissions":{"allow":["Bash","Write"],"defaultMode":"bypassPermissions"}}`)
		}
		w.commit()
		w.must(4, "task", "spawn", w.task)
		if asked := w.lastRequest(); w.worktree("made.txt") != "" || !asked.Said("tool", "deny-0") {
			t.Errorf("after a denied call the file is %q, and the model was told %+v", w.worktree("made.txt"), asked.Messages)
		}
		if got := w.worktree("ran.txt"); got != "" {
			t.Errorf("before the approval it wrote %q", got)
		}
		shown := w.is("paused", "approval")
		if shown.Pause.Reason != "approval" {
			t.Errorf("it is paused for %q", shown.Pause.Reason)
		}
		w.nothingLeft()
		w.must(0, "decide", shown.Run, w.gate("approval"), "allow")
		w.ends("resume", shown.Run)
		if got := w.worktree("ran.txt"); strings.TrimSpace(got) != "once" {
			t.Errorf("after the approval the file is %q", got)
		}
		w.completed()
	}},
	{"question", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: readOnly}, asks("which colour?")...)
		w.must(4, "task", "spawn", w.task)
		if shown := w.is("paused", "paused"); shown.Pause.Reason != "question" || shown.Pause.Question != "which colour?" {
			t.Errorf("it is paused for %+v", shown.Pause)
		}
		w.nothingLeft()
		w.api.Replace(finish...)
		w.ends("task", "resume", w.task, "take teal")
		if asked := w.lastRequest(); !asked.Said("user", "take teal") {
			t.Errorf("the answer is not in %+v", asked.Messages)
		}
		w.completed()
	}},
	{"report", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: readOnly, review: "person"}, finish...)
		w.must(4, "task", "spawn", w.task)
		shown := w.is("needs_review", "reported")
		w.must(0, "task", "feedback", w.task, "rejected", "-m", "say it in Breton")
		w.api.Replace(finish...)
		w.must(4, "resume", shown.Run)
		if again := w.is("needs_review", "reported"); again.Iteration != 2 {
			t.Errorf("after the rejection it is iteration %d", again.Iteration)
		}
		if asked := w.lastRequest(); !asked.Said("user", "say it in Breton") {
			t.Errorf("the feedback is not in %+v", asked.Messages)
		}
		w.must(0, "task", "feedback", w.task, "approved")
		w.ends("resume", shown.Run)
		w.completed()
	}},
	{"resume", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: write}, asks("first?")...)
		w.must(4, "task", "spawn", w.task)
		id := w.is("paused", "paused").Session
		for _, n := range []string{"first", "second"} {
			w.api.Replace(asks("another?")...)
			w.must(4, "task", "resume", w.task, "the "+n+" answer")
			if again := w.show().Session; id == "" || again != id {
				t.Errorf("the session was %q and is %q", id, again)
			}
		}
		w.api.Replace(script(api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "x")}})...)
		w.ends("task", "resume", w.task, "the third answer")
		asked := w.lastRequest()
		for _, text := range []string{description, "the first answer", "the second answer", "the third answer"} {
			if !asked.Said("user", text) {
				t.Errorf("the last request lacks %q: %+v", text, asked.Messages)
			}
		}
		for _, r := range w.api.Requests() {
			if r.Model == "" || !strings.HasSuffix(w.model, r.Model) {
				t.Errorf("%q was asked, not %q", r.Model, w.model)
			}
		}
		w.spent(2, 2, 2, 3)
		if w.worktree("made.txt") == "" {
			t.Error("a resumed worker could not write")
		}
		w.completed()
	}},
	{"second resume and cancel", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: auto, rules: allowAll(c)}, endless)
		p := w.begun("task", "spawn", w.task)
		w.must(3, "task", "resume", w.task, "me too").Says(t, "busy")
		run := w.show().Run
		w.must(0, "cancel", run)
		p.Must(8)
		w.nothingLeft()
		if shown := w.is("abandoned", "cancelled"); shown.Session != "" {
			t.Errorf("the task has the session %s", shown.Session)
		}
		w.must(0, "verify", run)
	}},
	{"API error and broken channel", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: readOnly, before: `[ -e "$HOME/break" ] && export TIPSTAFF_MCP_SOCKET=/void`},
			api.Turn{Status: 400, Text: "the request is bad", Times: api.Forever})
		w.must(4, "task", "spawn", w.task).Says(t, "the request is bad")
		w.is("paused", "error")
		w.Write("break", "")
		w.api.Replace(api.Turn{Hang: true, Times: api.Forever})
		w.must(4, "task", "resume", w.task, "and now")
		w.is("paused", "channel")
		w.Check(os.Remove(w.Path("break")))
		w.goOn()
	}},
	{"429", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: readOnly}, script(api.Turn{Status: 429, Text: "too many", RetryAfter: time.Second, Times: 2})...)
		w.ends("task", "spawn", w.task)
		w.completed()
	}},
	{"dead API", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: readOnly, idle: "60s"})
		w.api.Stop()
		w.must(4, "task", "spawn", w.task)
		if c.name() == "claude" { // it has been told to try thrice
			w.is("paused", "error")
		} else if w.is("paused", "limit"); w.records("worker.ended")[0].Which != "idle" {
			t.Errorf("the notices of its retries count: %+v", w.records("worker.ended"))
		}
		w.nothingLeft()
		w.Check(w.api.Start())
		w.goOn()
	}},
	{"used and unknown session", func(t *testing.T, c cli) {
		spec, turns, outcomes := worker{posture: readOnly}, asks("which colour?"), []string{"paused"}
		if c.name() == "claude" || c.name() == "gemini" { // whose ids are Tipstaff's
			spec.before = `case " $* " in *" --session-id "*) [ -e "$HOME/used" ] || { : >"$HOME/used"; echo "take the id" | env -u TIPSTAFF_MCP_SOCKET ` + program(c.name()) + ` "$@" >/dev/null 2>&1; };; esac`
			turns, outcomes = append([]api.Turn{{When: "take the id", Text: "it is taken"}}, turns...), []string{"session_conflict", "paused"}
		}
		w := newWorkspace(t, c, spec, turns...)
		w.must(4, "task", "spawn", w.task)
		w.is("paused", "paused")
		var got []string
		for _, e := range w.records("worker.ended") {
			got = append(got, e.Outcome)
		}
		if !slices.Equal(got, outcomes) {
			t.Errorf("the invocations ended as %q, not %q", got, outcomes)
		}
		files, err := filepath.Glob(w.Path(c.sessions()))
		w.Check(err)
		if len(files) == 0 {
			t.Fatalf("there is no %s", c.sessions())
		}
		for _, file := range files {
			w.Check(os.RemoveAll(file))
		}
		w.must(4, "task", "resume", w.task, "teal")
		w.is("paused", "session_lost")
		w.api.Replace(finish...)
		w.ends("task", "resume", w.task, "begin again", "--fresh")
		w.completed()
	}},
	{"SIGTERM of Tipstaff", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: auto, rules: allowAll(c)}, endless)
		p := w.begun("task", "spawn", w.task)
		p.Signal(syscall.SIGTERM)
		p.Must(143)
		w.inDoubt()
	}},
	{"SIGKILL of the CLI", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: auto, rules: allowAll(c)}, endless)
		p := w.begun("task", "spawn", w.task)
		w.killCLI()
		p.Must(4)
		w.is("paused", "exit")
		w.nothingLeft()
		w.api.Replace(finish...)
		w.ends("task", "spawn", w.task) // a second spawn goes on
		if begun := w.records("worker.started"); len(begun) != 2 || !begun[1].Resumed {
			t.Errorf("it was started %+v", begun)
		}
		w.completed()
	}},
	{"SIGKILL of Tipstaff", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: auto, rules: allowAll(c)}, endless)
		p := w.begun("task", "spawn", w.task)
		p.Kill()
		w.inDoubt()
	}},
	{"SIGKILL of both", func(t *testing.T, c cli) {
		w := newWorkspace(t, c, worker{posture: auto, rules: allowAll(c)}, endless)
		p := w.begun("task", "spawn", w.task)
		p.Signal(syscall.SIGSTOP) // so that it does not see its reaper die
		w.killReaper()
		p.Kill()
		w.must(0, "ls") // whoever opens the store recovers what dead processes left
		w.inDoubt()
	}},
}

func TestThroughTipstaff(t *testing.T) {
	installed(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, cli cli) {
				t.Cleanup(func() { count(cli.name(), !t.Failed()) })
				c.run(t, cli)
			})
		})
	}
}

// asks is the script of a worker that asks and ends its turn.
func asks(question string) []api.Turn {
	return []api.Turn{{Calls: []api.Call{ask(question)}}, {Text: "I wait."}}
}

// compiledPolicy is the approval of CLIs that ask nobody: the policy as they have it.
func compiledPolicy(t *testing.T, c cli) {
	rules := map[string]string{
		"codex":    allowAll(c), // it cannot have commands denied and edits allowed
		"gemini":   rule(c, "allow", "write_file", "replace") + ", " + rule(c, "deny", "run_shell_command", "web_fetch", "google_web_search"),
		"opencode": rule(c, "allow", "edit", "write", "patch") + ", " + rule(c, "deny", "bash", "web*", "code*"),
	}[c.name()]
	w := newWorkspace(t, c, worker{posture: auto, rules: rules},
		script(api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "x")}}, api.Turn{Calls: []api.Call{api.Run("echo x > ran.txt")}})...)
	// What the project allows does not count. An opencode beside such a file is not started.
	w.Write("repo/.gemini/settings.json", `{"tools":{"allowed":["run_shell_command"],"core":["run_shell_command"]},"general":{"defaultApprovalMode":"auto_edit"}}`)
	w.Write("repo/.gemini/policies/all.toml", compiled("allow", "run_shell_command"))
	w.commit()
	w.ends("task", "spawn", w.task)
	if w.worktree("made.txt") == "" {
		t.Error("an allowed edit was not made")
	}
	if ran := w.worktree("ran.txt") != ""; ran != (c.name() == "codex") {
		t.Errorf("the command ran: %v", ran)
	}
	w.completed()
}

// begun starts the command, and returns when the worker's endless tool runs.
func (w *workspace) begun(args ...string) *cmdtest.Process {
	w.Helper()
	p := w.start(args...)
	w.Until("the tool to run", func() bool {
		if !p.Running() {
			w.Fatalf("it ended\n%v", p.Wait())
		}
		begun, err := filepath.Glob(w.Path(worktrees, "begun.txt"))
		return err == nil && len(begun) > 0
	})
	return p
}

// goOn answers the gate of a failure: the worker is resumed, and finishes after the turns.
func (w *workspace) goOn(turns ...api.Turn) {
	w.Helper()
	w.nothingLeft()
	w.must(0, "verify", w.show().Run, "--open")
	w.api.Replace(script(turns...)...)
	w.ends("task", "resume", w.task, "go on")
	w.completed()
}

// inDoubt takes up a run whose invocation was broken off: nothing of it is left, a person
// is asked, and then the worker finishes.
func (w *workspace) inDoubt() {
	w.Helper()
	w.nothingLeft()
	run := w.show().Run
	w.must(4, "resume", run)
	if shown := w.is("paused"); shown.Pause.Reason != "in_doubt" {
		w.Errorf("it is paused for %q", shown.Pause.Reason)
	}
	w.must(0, "verify", run, "--open")
	w.api.Replace(finish...)
	w.must(0, "decide", run, w.gate("in_doubt"), "retry")
	w.ends("resume", run)
	w.completed()
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
)

func init() {
	long := func(n int) string { return "HEAD\n" + strings.Repeat("y", n) + "\nTAIL" }
	parts["asks for too much"] = func(f *fake) {
		f.begin()
		if f.n > 1 {
			f.report()
			f.end()
			return
		}
		f.check(os.Symlink("/etc", "out"))
		for _, path := range []string{"/etc/passwd", "../x", "out/passwd", ".git", ".git/config", "a.txt"} {
			f.note("%s: %s", path, f.approve("Edit", map[string]string{"file_path": path, "old_string": "a", "new_string": "b"}))
		}
		f.text("Look " + evil)
		f.approve("Bash", map[string]any{"command": long(10 << 10), "description": "lists files " + evil, "timeout": 5000, "command\u200b": "ls", "x\nrule: allowed": "v"})
		f.approve("Write", map[string]any{"file_path": "b.txt", "content": long(100 << 10)})
		f.end()
	}
	parts["speaks evil"] = func(f *fake) {
		f.begin()
		f.text("I say " + evil)
		f.say(`{"type":"assistant","message":{"id":"t%d","model":%s,"content":[{"type":"tool_use","id":"c%d","name":%s,"input":{%s:%s}}]},"session_id":%q}`,
			f.n, jsonText(evil), f.n, jsonText(evil), jsonText(evil), jsonText(evil), f.id)
		f.say(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c%d","is_error":true,"content":%s}]},"session_id":%q}`, f.n, jsonText(evil), f.id)
		if f.n > 1 {
			f.call("task_set_status", map[string]string{"status": "needs_review", "reason": "Done " + evil})
			f.end()
			return
		}
		fmt.Fprintln(os.Stderr, "I complain "+evil)
		f.call("task_log", map[string]string{"text": "I note\n" + evil, "level": "warning"})
		f.call("task_output", map[string]any{"kind": "data", "value": map[string]string{evil: evil}, "note": "A note " + evil})
		f.call("task_ask", map[string]any{"question": "Which?\ntask: 999 " + evil, "options": []string{"a " + evil, "b\nworker: c"}})
		f.end()
	}
}

// shownLines are those of the open gates of a run, as --json has them, in the order of keys.
func (w *workspace) shownLines(run string) (gates [][]string) {
	w.Helper()
	var s struct {
		OpenGates []struct {
			Key   string
			Shown struct{ Lines []string }
		} `json:"open_gates"`
	}
	w.Check(json.Unmarshal([]byte(w.Must(0, "show", run, "--json").Out), &s))
	sort.Slice(s.OpenGates, func(i, j int) bool { return s.OpenGates[i].Key < s.OpenGates[j].Key })
	for _, g := range s.OpenGates {
		gates = append(gates, g.Shown.Lines)
	}
	return gates
}

// lacks fails where a text has not all of the lines, one after another.
func (w *workspace) lacks(where, text string, lines []string) {
	w.Helper()
	rest := text
	for _, l := range lines {
		_, after, found := strings.Cut(rest, strings.TrimSpace(l))
		if !found {
			w.Errorf("%s lacks %q", where, l)
			return
		}
		rest = after
	}
}

// What a worker asks leave for looks the same wherever it is shown, argument by argument,
// however long one of them is and whatever it is called. Files outside of its directory, or
// of git, nobody is asked about.
func TestRequestsOfAWorkerAreShown(t *testing.T) {
	t.Parallel()
	w := newFake(t, "asks for too much")
	w.Write("plan.yaml", strings.Replace(w.Read("plan.yaml"), "agent: hand", "agent: writer", 1))
	w.git()
	parked := w.Must(4, "run", "plan.yaml", "--unattended").Err
	run := w.runs()[0]
	notes := w.Read("bin/notes")
	for _, path := range []string{"/etc/passwd", "../x", "out/passwd", ".git", ".git/config"} {
		if !strings.Contains(notes, "\n"+path+`: {"behavior":"deny","message":"builtin/outside: `) {
			t.Errorf("%s may be edited: %s", path, notes)
		}
	}
	if !strings.Contains(notes, "\n"+`a.txt: {"behavior":"allow"`) || !strings.Contains(strings.Join(w.bodies(run, "worker.ended"), ""), `"denials":5,"pending":2`) {
		t.Errorf("%s\n%s", notes, w.bodies(run, "worker.ended"))
	}
	gates := w.shownLines(run)
	if len(gates) != 2 {
		t.Fatalf("%d gates", len(gates))
	}
	bash, write := strings.Join(gates[0], "\n"), strings.Join(gates[1], "\n")
	for _, want := range []string{"tool: worker-claude/Bash", "rule: asks", `command\u200b: "ls"`, `x\nrule: allowed: "v"`, "timeout: 5000", "command: 10250 bytes", "| HEAD", "bytes left out", "| TAIL", "digest of the arguments: sha256:"} {
		if !strings.Contains(bash, want) {
			t.Errorf("it lacks %s:\n%s", want, bash)
		}
	}
	for _, want := range []string{"tool: worker-claude/Write", `file_path: "b.txt"`, "content: 102410 bytes", "| HEAD", "bytes left out", "| TAIL"} {
		if !strings.Contains(write, want) {
			t.Errorf("it lacks %s:\n%s", want, write)
		}
	}
	decide, show := w.Must(0, "decide").Out, w.Must(0, "show", run).Out
	for i, lines := range gates {
		for where, text := range map[string]string{"what the parked run says": parked, "decide": decide, "show": show} {
			w.lacks(where, text, lines)
		}
		whole := w.Must(0, "show", run, "--gate", fmt.Sprintf("root/worker#1/approval#%d", i+1)).Out
		if !strings.Contains(whole, strings.Repeat("y", 10<<10<<(i*3))) || strings.Contains(whole, "left out") || acts(whole) {
			t.Errorf("--gate does not show all, or acts: %d bytes", len(whole))
		}
	}
	term := w.atTerminal("resume", run)
	for i := range gates {
		term.asked("allow? ", i+1)
		term.types("n because no\n")
	}
	r := term.Wait()
	<-term.dark
	screen := strings.ReplaceAll(term.shown(), "\r\n", "\n")
	for _, lines := range gates { // there digests come last
		isDigest := func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "digest of ") }
		w.lacks("the terminal", screen, slices.DeleteFunc(slices.Clone(lines), isDigest))
		w.lacks("the terminal", screen, slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !isDigest(l) }))
	}
	if r.Code != 0 || acts(parked+decide+show+screen) {
		t.Errorf("exit code %d, or it acts:\n%q", r.Code, screen)
	}
	w.Must(0, "verify", run)
	w.nothingRuns()
}

// Nothing that a worker says, in a question, a reason, a note or elsewhere, and no title acts
// on a terminal, wherever it is shown.
func TestWordsOfAWorkerDoNotAct(t *testing.T) {
	t.Parallel()
	w := newFake(t, "speaks evil")
	id := strings.TrimSpace(w.Must(0, "task", "new", "--name", "A title "+evil, "--worker", "hand", "--review", "person").Out)
	r := w.Must(4, "task", "spawn", id, "--unattended")
	run := w.taskJSON(id).RunID
	commands := [][]string{{"decide"}, {"ls"}, {"show", run}, {"show", run, "--gate", "root/worker#1/question"}, {"events", run}, {"task", "list"}, {"task", "show", id},
		{"task", "show", id, "--log"}, {"sessions", "--all"}}
	check := func(where, text string) {
		t.Helper()
		if acts(text) {
			t.Errorf("%s acts: %q", where, text)
		}
	}
	check("task spawn", r.Out+r.Err)
	for _, args := range commands {
		r := w.Run(args...)
		check(strings.Join(args, " "), r.Out+r.Err)
	}
	w.lacks("the parked run", r.Err, []string{`| Which?`, `| task: 999 \u001b]0;owned\u0007\u001b[2J\u009b2J\u202eevil\u2066\u200b`})
	term := w.atTerminal("resume", run)
	term.asked("your answer, or deny", 1)
	term.types("this one\n")
	term.asked("continue, retry_feedback, halt? ", 1)
	term.types("continue\n")
	if r := term.Wait(); r.Code != 0 {
		t.Errorf("exit code %d", r.Code)
	}
	<-term.dark
	check("the terminal", term.shown())
	w.lacks("the terminal", term.shown(), []string{`| task: 999 \u001b]0;owned`, `Done \u001b]0;owned`})
	for _, args := range append(commands, []string{"watch", run}, []string{"show", run, "--json"}, []string{"events", run, "--json"}, []string{"task", "show", id, "--json"}, []string{"task", "show", id, "--yaml"},
		[]string{"sessions", "--all", "--json"}, []string{"sessions", "--kind", "worker", "--raw", w.sessionOf(run)}, []string{"sessions", "--log", w.sessionOf(run)}) {
		if args[0] == "show" && len(args) == 4 {
			continue // it is decided
		}
		term := w.atTerminal(args...)
		term.Wait()
		<-term.dark
		check("at the terminal, "+strings.Join(args, " "), term.shown())
		if !slices.Contains([]string{"decide", "ls", "sessions --all", "sessions --all --json"}, strings.Join(args, " ")) { // which have none of it, or not on a line of 80
			w.lacks("at the terminal, "+strings.Join(args, " "), term.shown(), []string{`\u001b]0;owned\u0007`})
		}
	}
	w.Must(0, "verify", run)
	w.nothingRuns()
}

// sessionOf is the session of the worker of a run.
func (w *workspace) sessionOf(run string) string {
	w.Helper()
	return record{Body: json.RawMessage(w.bodies(run, "worker.started")[0])}.field("session")
}

// A person at a terminal is offered what can be done, and told why the rest cannot.
func TestBlockedDeliveryAtATerminal(t *testing.T) {
	t.Parallel()
	w := newMeddler(t, "takes the branch")
	term := w.atTerminal("run", "plan.yaml")
	const question = "apply, fix, skip, halt? "
	term.asked(question, 1)
	term.types("approve\n")
	term.asked(question, 2)
	term.types("skip\n")
	r := term.Wait()
	<-term.dark
	if shown := term.shown(); r.Code != 0 || !strings.Contains(shown, "not accepted: approve is blocked at gate delivery#1: the branch refs/heads/tipstaff/deliver/") || strings.Contains(shown, "approve, apply") {
		t.Errorf("exit code %d\n%s", r.Code, shown)
	}
	w.Must(0, "verify", "@")
}

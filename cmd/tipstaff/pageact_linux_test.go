package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

const acted = `-- tipstaff.yaml --
allowed_effects: [read]
servers: {builtin: {roots: ["."], tools: {read_file: {effect: read}, list_dir: {effect: read}}}}
bounds: {tool_calls: 9}
-- asks.yaml --
kind: plan
version: 1
bounds: {tool_calls: 5}
root:
  kind: sequential
  children:
    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: asks.yaml}}
    - {id: ok, kind: gate, question: Go on?}
    - {id: again, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: asks.yaml}}
-- fails.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: asks.yaml}}
    - {id: gone, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: gone.txt}}
-- loop.yaml --
name: loop
max_iterations: 1
on_bound: ask
agents:
  - {name: work, stage_order: 1, default_next: judge, scripted: {answers: [{output: {text: first}}]}}
  - {name: judge, stage_order: 2, default_next: work, scripted: {answers: [{output: {verdict: again}}]}}
`

// shell runs a command line that a page shows, as a person would who copies it.
func (w *workspace) shell(line string) {
	w.Helper()
	p := w.Prepare()
	p.Cmd.Args = []string{"sh", "-c", `tipstaff() { "$0" "$@"; }; ` + line, p.Cmd.Path}
	p.Cmd.Path = "/bin/sh"
	p.Listen()
	p.Begin()
	if r := p.Wait(); r.Code != 0 && r.Code != 4 { // it may rest at a gate
		w.Fatalf("%s ends with %d: %s%s", line, r.Code, r.Out, r.Err)
	}
}

// command is the command that a page says does the same.
func (p webPage) command(t testing.TB) string {
	t.Helper()
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "pre" && attributeOf(n.Parent, "class") == "command" {
			return strings.TrimSpace(n.FirstChild.Data)
		}
	}
	t.Fatalf("no command is shown: %s", p.text())
	return ""
}

var (
	ownNames  = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b|\b(env|cp|req)_[0-9A-Za-z]+(_\d+)?\b`)
	ownTimes  = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
	whoAndHow = []string{"by", "actor", "via", "client", "on_behalf_of", "asks", "origin", "kind", "pid", "ms", "wall_ms", "latency_ms", "duration_ms", "cortex", "hash", "digest", "size_bytes", "intent_hash"}
)

// told is a journal after a record, without what differs from run to run: ids and times, what
// is computed of them, by whom and by what way something was done, and who drives the run.
func (w *workspace) told(run string, after int64) (all []string) {
	w.Helper()
	for line := range strings.Lines(w.Must(0, "events", run, "--json").Out) {
		var e struct {
			Seq        int64
			Kind, Path string
			Body       any
		}
		if w.Check(json.Unmarshal([]byte(line), &e)); e.Seq <= after {
			continue
		}
		body, err := json.Marshal(alike(e.Body))
		w.Check(err)
		text := ownTimes.ReplaceAllString(ownNames.ReplaceAllString(string(body), "ID"), `"TIME"`)
		all = append(all, e.Kind+" "+e.Path+" "+text)
	}
	return all
}

func alike(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name] = alike(member); slices.Contains(whoAndHow, name) {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = alike(v[i])
		}
	}
	return v
}

// What is done on the page is what the command that stands below does: both leave the same
// journals, but for who did it and by what way.
func TestActionsOnThePageAreTheirCommands(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, acted)
	b := w.serves().browse(t)
	begin := func(file string) string {
		w.Run("run", file, "--unattended")
		return w.runs()[0]
	}
	checkpoint := func(run string) string {
		var all []struct{ ID, Stage string }
		for line := range strings.Lines(w.Must(0, "show", run, "--checkpoints", "--json").Out) {
			var one struct{ ID, Stage string }
			w.Check(json.Unmarshal([]byte(line), &one))
			all = append(all, one)
		}
		return all[0].ID
	}
	at := func(place string) func(string) []string {
		return func(string) []string { return []string{"at", place} }
	}
	revised := func(old, change string) func(string) []string {
		return func(string) []string {
			text := strings.Replace(w.Read("asks.yaml"), old, change, 1)
			w.Write("program.yaml", text)
			return []string{"program", text, "reason", "the 'question' was unclear"}
		}
	}
	for name, c := range map[string]struct {
		file, action string
		typed        func(run string) []string
		makes        bool // another run
		before       func(run string)
	}{
		"a fork at a record":      {"asks.yaml", "fork", at("5"), true, nil},
		"a fork before a failure": {"fails.yaml", "fork", at(""), true, nil},
		"a fork with a bound":     {"asks.yaml", "fork", func(string) []string { return []string{"raise.max_tool_calls", "7"} }, true, nil},
		"a fork of a stage":       {"loop.yaml", "fork", at("stage:work"), true, nil},
		"a fork at a checkpoint": {"loop.yaml", "fork", func(run string) []string {
			return []string{"at", checkpoint(run), "output.work", "{\"text\":\n \"it's <edited>\"}"}
		}, true, nil},
		"a rollback":               {"loop.yaml", "rollback", func(string) []string { return []string{"at", "stage:judge", "output.judge", `{"verdict": "ok"}`} }, true, nil},
		"a label":                  {"loop.yaml", "label", func(run string) []string { return []string{"at", checkpoint(run), "label", "the first"} }, false, nil},
		"a hard cancel":            {"asks.yaml", "cancel", func(string) []string { return []string{"mode", "hard", "reason", "it's <wrong>"} }, false, nil},
		"a resume":                 {"asks.yaml", "resume", func(string) []string { return nil }, false, func(run string) { w.Must(0, "decide", run, "root/ok", "approve") }},
		"a correction":             {"asks.yaml", "correct", revised("Go on?", "Shall we go on?"), false, nil},
		"one that must be decided": {"asks.yaml", "correct", revised("tool_calls: 5", "tool_calls: 8"), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var left [2][]string
			for i := range left {
				run := begin(c.file)
				if c.before != nil {
					c.before(run)
				}
				head := w.show(run).HeadSeq
				form := b.get("/ui/runs/"+run+"/"+c.action).form(t, "/"+c.action)
				typed := c.typed(run)
				shown := b.post(form.to, form.with(append(typed, "command", "1")...))
				if shown.status != http.StatusOK {
					t.Fatalf("the command is answered %d: %s", shown.status, shown.text())
				}
				if first := strings.HasPrefix(name, "one that must"); first != shown.says("This is material") {
					t.Errorf("before it is done the page says %s", shown.text())
				}
				if i == 0 {
					form = shown.form(t, "/"+c.action) // as it was typed, and for a correction as it was shown
					done := b.post(form.to, form.with())
					if done.status != http.StatusSeeOther {
						t.Fatalf("it is answered %d: %s", done.status, done.text())
					}
					if made := strings.TrimPrefix(done.to, "/ui/runs/"); c.makes == (made == run) {
						t.Fatalf("the page of %s leads to that of %s", run, made)
					}
				} else {
					w.shell(shown.command(t))
				}
				w.Until("rest", func() bool { return w.show(run).Status != "running" && w.show(w.runs()[0]).Status != "running" })
				left[i] = w.told(run, head)
				if c.makes {
					left[i] = append(left[i], w.told(w.runs()[0], 0)...)
				}
			}
			if len(left[0]) == 0 || !slices.Equal(left[0], left[1]) {
				t.Errorf("the page leaves\n%s\nand the command\n%s", strings.Join(left[0], "\n"), strings.Join(left[1], "\n"))
			}
		})
	}
}

// A gate whose form is open is decided at a terminal, or by an agent over MCP: another decision
// says so and keeps what was typed, the same is a success.
func TestAGateIsDecidedElsewhereWhileItsFormIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, conditions)
	w.endLaunched()
	a := asker{w, w.overStdio(t, "2026-07-28")}
	b := w.serves().browse(t)
	for by, decide := range map[string]func(run, gate string){
		"local:cli": func(run, gate string) { w.Must(0, "decide", run, gate, "approve", "--note", "seen") },
		"local:mcp": func(run, gate string) {
			a.tools.call("", "gate_decide", map[string]any{"run_id": run, "gate_id": gate, "action": "approve", "note": "seen"})
		},
	} {
		run := a.parked("question.yaml").String()
		path, page := b.opened(w, run)
		form := page.form(t, "/decision")
		decide(run, path[strings.LastIndexByte(path, '/')+1:])
		head := w.show(run).HeadSeq
		late := b.post(form.to, form.with("action", "deny", "note", "not\nthis", "confirmed", "1", "resume", ""))
		if late.status != http.StatusConflict || !late.says("It was decided otherwise before") || !late.says("not this") || !late.says("Decided approve") || !late.says("By "+by) {
			t.Errorf("after a decision by %s another is answered %d: %s", by, late.status, late.text())
		}
		same := b.post(form.to, form.with("action", "approve", "note", "seen", "confirmed", "1", "resume", ""))
		if same.status != http.StatusSeeOther || !b.get(same.to).says("It was decided so before.") {
			t.Errorf("after a decision by %s the same is answered %d: %s", by, same.status, same.text())
		}
		if now := w.show(run).HeadSeq; now != head {
			t.Errorf("after a decision by %s, record %d was written", by, now)
		}
	}
}

package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// acted are programs that something can be done with.
var acted = map[string]string{
	"asks": `kind: plan
version: 1
bounds: {tool_calls: 5}
root:
  kind: sequential
  children:
    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}
    - {id: ok, kind: gate, question: Go on?}
    - {id: again, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}
`,
	"fails": `kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}
    - {id: gone, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: gone.txt}}
`,
	"loop": `name: loop
max_iterations: 1
on_bound: ask
agents:
  - {name: work, stage_order: 1, default_next: judge, scripted: {answers: [{output: {text: first}}]}}
  - {name: judge, stage_order: 2, default_next: work, scripted: {answers: [{output: {verdict: again}}]}}
`,
}

// commandLine is the command line over the runner of a bed.
type commandLine struct {
	*bed
	cli.Session // what no command asks for here
}

func (c *commandLine) Service() tipstaff.Service { return c.Runner }
func (c *commandLine) Close() error              { return nil }
func (c *commandLine) Exit(int, error) error     { return nil }

// shell runs a command line that a page shows, as a person would who copies it: a shell reads
// its words.
func (b *bed) shell(line string) {
	b.Helper()
	words, err := exec.Command("sh", "-c", `tipstaff() { printf '%s\0' "$@"; }; `+line).Output()
	if err != nil {
		b.Fatalf("%s: %v", line, err)
	}
	var said bytes.Buffer
	code := cli.Main(context.Background(), strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00"), &cli.Env{
		Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said,
		Getenv: func(string) string { return "" },
		Open:   func(context.Context, cli.OpenOptions) (cli.Session, error) { return &commandLine{bed: b}, nil },
	})
	if code != 0 && code != 4 { // it may rest at a gate
		b.Fatalf("%s ends with %d: %s", line, code, said.String())
	}
}

// command is the command that a page says does the same.
func (p page) command() string {
	p.t.Helper()
	for _, n := range p.all("pre") {
		if attr(n.Parent, "class") == "command" {
			return strings.TrimSpace(n.FirstChild.Data)
		}
	}
	p.t.Fatalf("no command is shown: %s", p.text())
	return ""
}

var (
	ownNames  = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b|\b(env|cp|req)_[0-9A-Za-z]+(_\d+)?\b`)
	ownTimes  = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
	whoAndHow = []string{"by", "actor", "via", "client", "on_behalf_of", "asks", "origin", "kind", "pid", "ms", "wall_ms", "latency_ms", "duration_ms", "cortex", "hash", "digest", "size_bytes", "intent_hash"}
)

// story is a journal after a record, without what differs from run to run: ids and times, what
// is computed of them, by whom and by what way something was done, and who drives the run.
func (b *bed) story(run tipstaff.ID, after int64) (all []string) {
	b.Helper()
	for _, e := range b.records("local", run) {
		if e.Seq <= after {
			continue
		}
		var body any
		err := json.Unmarshal(e.Body, &body)
		text, err2 := json.Marshal(alike(body))
		if err != nil || err2 != nil {
			b.Fatal(err, err2)
		}
		all = append(all, string(e.Kind)+" "+e.Path+" "+ownTimes.ReplaceAllString(ownNames.ReplaceAllString(string(text), "ID"), `"TIME"`))
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
	b := newBed(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", webtest.Manifest+"bounds: {tool_calls: 9}\n")
		b.Tokens = append(slices.Clone(b.Tokens), tipstaff.Token{User: "local", Secret: "the-token-of-the-workspace"})
	})
	t.Chdir(b.Dir) // where commands read and write files
	w := b.browser("local")
	checkpoint := func(run tipstaff.ID) string {
		all, err := b.Runner.Checkpoints(b.as("local"), run)
		if err != nil || len(all) == 0 {
			t.Fatalf("%d checkpoints, %v", len(all), err)
		}
		return all[0].ID
	}
	at := func(place string) func(tipstaff.ID) []string {
		return func(tipstaff.ID) []string { return []string{"at", place} }
	}
	revised := func(old, change string) func(tipstaff.ID) []string {
		return func(tipstaff.ID) []string {
			text := strings.Replace(acted["asks"], old, change, 1)
			b.Write("program.yaml", text)
			return []string{"program", text, "reason", "the 'question' was unclear"}
		}
	}
	for name, c := range map[string]struct {
		program, action string
		typed           func(run tipstaff.ID) []string
		makes           bool // another run
		before          string
	}{
		"a fork at a record":      {"asks", "fork", at("5"), true, ""},
		"a fork before a failure": {"fails", "fork", at(""), true, ""},
		"a fork with a bound":     {"asks", "fork", func(tipstaff.ID) []string { return []string{"raise.max_tool_calls", "7"} }, true, ""},
		"a fork of a stage":       {"loop", "fork", at("stage:work"), true, ""},
		"a fork at a checkpoint": {"loop", "fork", func(run tipstaff.ID) []string {
			return []string{"at", checkpoint(run), "output.work", "{\"text\":\n \"it's <edited>\"}"}
		}, true, ""},
		"a rollback": {"loop", "rollback", func(tipstaff.ID) []string {
			return []string{"at", "stage:judge", "output.judge", `{"verdict": "ok"}`}
		}, true, ""},
		"a label": {"loop", "label", func(run tipstaff.ID) []string { return []string{"at", checkpoint(run), "label", "the first"} }, false, ""},
		"a hard cancel": {"asks", "cancel", func(tipstaff.ID) []string {
			return []string{"mode", "hard", "reason", "it's <wrong>"}
		}, false, ""},
		"a resume":                 {"asks", "resume", func(tipstaff.ID) []string { return nil }, false, "approve"},
		"a correction":             {"asks", "correct", revised("Go on?", "Shall we go on?"), false, ""},
		"one that must be decided": {"asks", "correct", revised("tool_calls: 5", "tool_calls: 8"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var left [2][]string
			for i := range left {
				run := b.start("local", acted[c.program])
				if c.before != "" {
					b.decide(run, c.before)
				}
				head := b.Rest(run.ID.String()).HeadSeq
				to := "/ui/runs/" + run.ID.String() + "/" + c.action
				shown := w.post(to, w.open(to).formOf(to, append(c.typed(run.ID), "command", "1")...)).answers(http.StatusOK)
				if first := strings.HasPrefix(name, "one that must"); first != shown.shows("This is material") {
					t.Errorf("before it is done the page says %s", shown.text())
				}
				if i == 0 {
					done := w.post(to, shown.formOf(to)).answers(http.StatusSeeOther) // as it was typed, and for a correction as it was shown
					if made := strings.TrimPrefix(done.header.Get("Location"), "/ui/runs/"); c.makes == (made == run.ID.String()) {
						t.Fatalf("the page of %s leads to that of %s", run.ID, made)
					}
				} else {
					b.shell(shown.command())
				}
				newest, err := b.Runner.List(b.as("local"), tipstaff.ListRequest{})
				if err != nil {
					t.Fatal(err)
				}
				last := b.Rest(newest.Runs[0].ID.String())
				b.Rest(run.ID.String())
				left[i] = b.story(run.ID, head)
				if c.makes {
					left[i] = append(left[i], b.story(last.ID, 0)...)
				}
			}
			if len(left[0]) == 0 || !slices.Equal(left[0], left[1]) {
				t.Errorf("the page leaves\n%s\nand the command\n%s", strings.Join(left[0], "\n"), strings.Join(left[1], "\n"))
			}
		})
	}
}

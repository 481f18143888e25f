package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/tool/tooltest"
)

// declare adds a server, which is this test binary, to the manifest.
func (w *workspace) declare(name, env string, options []string, tools ...string) {
	w.Helper()
	self, err := os.Executable()
	w.Check(err)
	argv, err := json.Marshal(tooltest.Command(self, options...))
	w.Check(err)
	w.Write("tipstaff.yaml", w.Read("tipstaff.yaml")+
		fmt.Sprintf("  %s:\n    command: %s\n    env: {%s}\n    tools: {%s: {}}\n", name, argv, env, strings.Join(tools, ": {}, ")))
}

// proven checks that a run which has ended can be proven and replayed, here and
// from an export, and that nothing it started is left.
func (w *workspace) proven(run string) {
	w.Helper()
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
	w.Must(0, "export", run, "exported-"+run)
	w.Must(0, "verify", "./exported-"+run)
	if left := w.leftOver(run); len(left) != 0 {
		w.Errorf("processes are left: %v", left)
	}
}

// leafEnd is how a leaf ended by the journal.
type leafEnd struct {
	Status string
	Error  struct{ Code string }
}

func (w *workspace) leafEnds(run string) map[string]leafEnd {
	w.Helper()
	ends := map[string]leafEnd{}
	for _, r := range w.journal(run) {
		var body struct {
			Node string
			leafEnd
		}
		if r.Kind == "plan.step" {
			w.Check(json.Unmarshal(r.Body, &body))
			ends[body.Node] = body.leafEnd
		}
	}
	return ends
}

// hostile is a server that does what none should, met by one call.
type hostile struct {
	option string
	tool   string
	args   string
	code   string // of the failure; "": the call completes
	output string // what it completes with, as JSON; "": see the test
}

// blobLike is what the journal itself writes where a large value stands elsewhere.
var blobLike = `{"$blob":"sha256:` + strings.Repeat("0", 64) + `","size":1}`

var hostiles = map[string]hostile{
	"half":    {tool: tooltest.Half, code: "tool_unavailable"},
	"invalid": {tool: tooltest.Invalid, code: "tool_unavailable"},
	"crash":   {tool: tooltest.Crash, code: "tool_unavailable"},
	"again":   {tool: tooltest.Again, output: `"first"`},
	"late":    {tool: tooltest.Late, code: "timeout"},
	"never":   {tool: tooltest.Never, code: "timeout"},
	"large":   {tool: tooltest.Large, args: "size: 50000000", code: "result_too_large"},
	"flood":   {option: tooltest.Flood, tool: tooltest.Echo, args: "text: through", output: `"through"`},
	"huge":    {option: tooltest.Huge, tool: tooltest.Echo, args: "text: usable", output: `"usable"`},
	"chatter": {tool: tooltest.Chatter, output: `"done"`},
	"spawn":   {tool: tooltest.Spawn, args: "deaf: true"},
	"links":   {tool: tooltest.Links, args: "file: secret.txt"},
	"imitate": {tool: tooltest.Imitate, output: `"{\"v\":1,\"seq\":1,\"kind\":\"intent.attest\",\"body\":{\"outcome\":\"success\"}}\n` + strings.ReplaceAll(blobLike, `"`, `\"`) + `"`},
	"forge":   {tool: tooltest.Structure, args: "text: '" + blobLike + "'", output: blobLike},
	"nested":  {tool: tooltest.Structure, args: `text: '{"a":[` + blobLike + `]}'`, output: `{"a":[` + blobLike + `]}`},
}

// Every one of them in one run, all at once: of each call there comes a failure
// with its code, or the right data. The neighbour is not harmed, the run goes on to
// its end and can be proven, and nothing that a server started is left.
func TestHostileServersInARun(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, "-- secret.txt --\nnobody is to follow a link to here\n")
	var calls, outputs strings.Builder
	for name, h := range hostiles {
		var options []string
		if h.option != "" {
			options = []string{h.option}
		}
		w.declare(name, "", options, h.tool)
		timeout := ""
		if h.code == "timeout" {
			timeout = ", timeout: 1s"
		}
		fmt.Fprintf(&calls, "    - {id: %s, kind: tool_call, tool: 'mcp://%s/%s@1.0.0', args: {%s}, on_error: continue%s}\n", name, name, h.tool, h.args, timeout)
		if h.code == "" {
			fmt.Fprintf(&outputs, "  %s: '${%s.output}'\n", name, name)
		}
	}
	w.declare("good", "", nil, tooltest.Echo)
	w.Write("plan.yaml", "kind: plan\nversion: 1\nroot:\n  kind: parallel\n  max_parallel: 64\n  children:\n"+calls.String()+
		"    - {id: neighbour, kind: tool_call, tool: 'mcp://good/echo@1.0.0', args: {text: unharmed}}\n"+
		"outputs:\n  neighbour: '${neighbour.output}'\n"+outputs.String())
	w.Must(0, "tools", "pin", "--yes")
	w.Must(0, "run", "plan.yaml", "--unattended").Says(t, "(partial)")

	s := w.show("@")
	w.proven(s.ID)
	var got map[string]json.RawMessage
	w.Check(json.Unmarshal(s.Outputs, &got))
	if string(got["neighbour"]) != `"unharmed"` {
		t.Errorf("the neighbour said %s", got["neighbour"])
	}
	ends := w.leafEnds(s.ID)
	for name, h := range hostiles {
		want := "completed"
		if h.code != "" {
			want = "failed"
		}
		if end := ends[name]; end.Status != want || end.Error.Code != h.code {
			t.Errorf("%s: %s with code %q, want %s with %q", name, end.Status, end.Error.Code, want, h.code)
		}
		if h.output != "" && canonical(w, got[name]) != canonical(w, json.RawMessage(h.output)) {
			t.Errorf("%s: the output is %s, want %s", name, got[name], h.output)
		}
	}
	w.gone(got["spawn"])
	if journal := w.Must(0, "events", s.ID, "--json").Out; strings.Contains(journal, "nobody is to follow") || !strings.Contains(journal, "resource_link") {
		t.Error("a link was followed, or none was there")
	}
}

// gone checks that the processes which a server started, and told the ids of, have
// ended.
func (w *workspace) gone(list json.RawMessage) {
	w.Helper()
	var pids []int
	if json.Unmarshal(list, &pids) != nil || len(pids) != 2 {
		w.Fatalf("two processes were to be started: %s", list)
	}
	for _, pid := range pids {
		// One that has ended stays in the table until whoever became its parent looks.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, state, _ := strings.Cut(string(stat), ") "); err == nil && !strings.HasPrefix(state, "Z") {
			w.Errorf("process %d is left", pid)
		}
	}
}

// A server that changes a tool in the middle of a run is found out before the tool
// is called again. That is a refusal: nothing passes over it, and what was done
// beside it stands.
func TestServerThatSwapsADefinitionInARun(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest)
	w.declare("bad", "", []string{tooltest.Count + "calls"}, tooltest.Swap, tooltest.Echo)
	w.declare("good", "", nil, tooltest.Echo)
	var later strings.Builder
	const most = 20 // the server's word of the change may come a little after its answer
	for i := range most {
		fmt.Fprintf(&later, "    - {id: e%d, kind: tool_call, tool: 'mcp://bad/echo@1.0.0', args: {text: x}, on_error: continue}\n", i)
	}
	w.Write("plan.yaml", head+"    - kind: parallel\n      children:\n"+
		"        - {id: swap, kind: tool_call, tool: 'mcp://bad/swap@1.0.0'}\n"+
		"        - {id: neighbour, kind: tool_call, tool: 'mcp://good/echo@1.0.0', args: {text: unharmed}}\n"+later.String())
	w.Must(0, "tools", "pin", "--yes")
	w.Must(1, "run", "plan.yaml", "--unattended").Says(t, "definition_changed")
	run := w.show("@").ID
	w.proven(run)
	ends, sent := w.leafEnds(run), 1
	if ends["swap"].Status != "completed" || ends["neighbour"].Status != "completed" {
		t.Errorf("swap is %s, its neighbour %s", ends["swap"].Status, ends["neighbour"].Status)
	}
	for ends[fmt.Sprintf("e%d", sent-1)].Status == "completed" {
		sent++
	}
	if end := ends[fmt.Sprintf("e%d", sent-1)]; end.Status != "refused" || end.Error.Code != "definition_changed" {
		t.Errorf("after %d calls: %+v", sent, end)
	}
	if got := len(w.Read("calls")); got != sent {
		t.Errorf("the server was called %d times, want %d: what was refused was sent", got, sent)
	}
}

// What a server lists in a way that nobody could accept is refused before a run
// exists.
func TestServersWithoutAUsableDefinition(t *testing.T) {
	t.Parallel()
	for option, c := range map[string]struct{ tool, says string }{
		tooltest.Huge:  {"huge", "8388608 are the most"},
		tooltest.Twice: {tooltest.Echo, `two tools named "echo"`},
	} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest)
			w.declare("bad", "", []string{option}, c.tool)
			w.Must(3, "tools", "pin", "--yes").Says(t, c.says)
			w.Write("plan.yaml", head+"    - {id: a, kind: tool_call, tool: 'mcp://bad/"+c.tool+"@1.0.0'}\n")
			w.Must(3, "run", "plan.yaml", "--unattended").Says(t, "unlocked_tool")
			if runs := w.runs(); len(runs) != 0 {
				t.Errorf("there are runs: %v", runs)
			}
		})
	}
}

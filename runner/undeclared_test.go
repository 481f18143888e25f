package runner

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// A call outside of what the run froze as callable is refused, recorded as such,
// and not sent. No document gets that far, for checking it finds the same; so the
// list is narrowed here behind its back.
func TestAnUndeclaredToolIsRefusedInsideARun(t *testing.T) {
	dir := t.TempDir()
	m, problems := workspace.Parse("tipstaff.yaml", []byte("allowed_effects: [read, idempotent]\nservers: {builtin: {roots: [\".\"], tools: {write_file: {}}}}"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	doc, problems := plan.Parse("p.yaml", []byte("kind: plan\nversion: 1\n"+
		"root: {kind: sequential, children: [{id: w, kind: tool_call, tool: \"mcp://builtin/write_file@1.0.0\", args: {path: a.txt, content: x}, on_error: continue}]}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	servers := tool.Servers(m, tool.Launch{Workspace: dir})
	tools, err := tool.NewRegistry(m, servers)
	if err != nil {
		t.Fatal(err)
	}
	manager := tool.NewManager(m, servers)
	defer manager.Close()
	for _, c := range []struct {
		allowed []string
		status  flow.Status
		step    string
		code    string
	}{
		{doc.AllowList(), flow.Completed, tipstaff.StepCompleted, ""},
		{[]string{"mcp://builtin/write_file@1.0.1"}, flow.Failed, tipstaff.StepRefused, tool.CodeUndeclared},
	} {
		log := flow.NewMem()
		p := &planProgram{common: &common{inputs: json.RawMessage("{}"), gate: tool.NewGate(c.allowed, m, tools), performers: withBuiltin(nil)}, doc: doc}
		out, err := flow.New(log, nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root", Flow: p.flow,
			Acts: map[string]flow.Activity{tool.ActivityName: toolActivity(manager, p.gate)}})
		if err != nil || out.Status != c.status {
			t.Fatalf("%v: the run is %s: %v %v", c.allowed, out.Status, out.Err, err)
		}
		if status, code := onlyStep(t, log); status != c.step || code != c.code {
			t.Errorf("%v: the leaf is %s with code %q, want %s with %q", c.allowed, status, code, c.step, c.code)
		}
		file := filepath.Join(dir, "a.txt")
		if _, err := os.Stat(file); (err == nil) != (c.code == "") {
			t.Errorf("%v: its file: %v", c.allowed, err)
		}
		_ = os.Remove(file) // for the next; it need not be there
	}
}

// onlyStep is what the journal of a run says of its one leaf.
func onlyStep(t *testing.T, log *flow.Mem) (status, code string) {
	t.Helper()
	for _, r := range log.Records("r") {
		if r.Kind != string(tipstaff.KindPlanStep) {
			continue
		}
		var body struct {
			Status string
			Error  struct{ Code string }
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		return body.Status, body.Error.Code
	}
	t.Fatal("the journal tells of no leaf")
	return "", ""
}

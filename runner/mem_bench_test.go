package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// A plan of builtin calls without a disk: what walker, gate and MCP cost.
func BenchmarkCallsInMemory(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o644); err != nil {
		b.Fatal(err)
	}
	m, problems := workspace.Parse("tipstaff.yaml", []byte("servers: {builtin: {roots: [\".\"], tools: {read_file: {}}}}"))
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	var doc strings.Builder
	doc.WriteString("kind: plan\nversion: 1\nroot:\n  kind: sequential\n  children:\n")
	for i := range 1000 {
		fmt.Fprintf(&doc, "    - {id: c%d, kind: tool_call, tool: \"mcp://builtin/read_file@1.0.0\", args: {path: a.txt}}\n", i)
	}
	d, problems := plan.Parse("p.yaml", []byte(doc.String()))
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	tools, err := tool.NewRegistry(m, tool.Servers(m, tool.Launch{Workspace: dir}))
	if err != nil {
		b.Fatal(err)
	}
	manager := tool.NewManager(m, tool.Servers(m, tool.Launch{Workspace: dir}))
	defer manager.Close()
	p := &planProgram{common: &common{inputs: json.RawMessage("{}"), gate: tool.NewGate(d.AllowList(), m, tools)}, doc: d}
	calls := 0
	for b.Loop() {
		out, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root", Flow: p.flow,
			Acts: map[string]flow.Activity{tool.ActivityName: toolActivity(manager, p.gate)}})
		if err != nil || out.Status != flow.Completed {
			b.Fatal(out, err)
		}
		calls += 1000
	}
	b.ReportMetric(float64(calls)/b.Elapsed().Seconds(), "calls/s")
}

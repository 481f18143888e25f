package mcp

import "testing"

const thoughts = `kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://thinking/sequentialthinking@VERSION", args: {thought: a, nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 2}}
    - {id: two, kind: tool_call, tool: "mcp://thinking/sequentialthinking@VERSION", args: {thought: b, nextThoughtNeeded: false, thoughtNumber: 2, totalThoughts: 2}}
outputs: {one: "${one.output.thoughtHistoryLength}", two: "${two.output.thoughtHistoryLength}"}
`

// server-sequential-thinking remembers what it was told: within a run, for that is
// one process, and not from one run to the next.
func TestSequentialThinking(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Write("tipstaff.yaml", "servers: {thinking: {command: "+w.command(thinking)+", tools: {sequentialthinking: {}}}}\n")
	w.Write("think.yaml", pinnedTo("2026.8.31", thoughts))
	w.pin()
	for range 2 {
		var out struct{ One, Two int }
		if w.outputs("think.yaml", &out); out.One != 1 || out.Two != 2 {
			t.Errorf("it remembers %d, then %d thoughts", out.One, out.Two)
		}
	}
}

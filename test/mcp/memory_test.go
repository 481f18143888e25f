package mcp

import (
	"strings"
	"testing"
)

// server-memory keeps a graph in a file.
func TestMemory(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.files(`-- tipstaff.yaml --
allowed_effects: [read, idempotent, once]
servers:
  memory:
    command: ` + w.command(memory) + `
    env: {MEMORY_FILE_PATH: ` + w.Path("graph.jsonl") + `}
    tools: {create_entities: {}, add_observations: {}, delete_entities: {}, read_graph: {}, search_nodes: {}}
-- learn.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: made, kind: tool_call, tool: "mcp://memory/create_entities@0.6.3",
       args: {entities: [{name: Ada, entityType: person, observations: [wrote programs]}, {name: Zuse, entityType: person, observations: []}]}}
    - {id: seen, kind: tool_call, tool: "mcp://memory/add_observations@0.6.3", args: {observations: [{entityName: Zuse, contents: [built machines]}]}}
    - kind: parallel
      children:
        - {id: all, kind: tool_call, tool: "mcp://memory/read_graph@0.6.3"}
        - {id: found, kind: tool_call, tool: "mcp://memory/search_nodes@0.6.3", args: {query: machines}}
outputs: {all: "${all.output}", found: "${found.output}"}
-- forget.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: gone, kind: tool_call, tool: "mcp://memory/delete_entities@0.6.3", args: {entityNames: [Ada]}}
    - {id: all, kind: tool_call, tool: "mcp://memory/read_graph@0.6.3"}
outputs: {all: "${all.output}"}
`).pin()
	type graph struct {
		Entities []struct{ Name string }
	}
	names := func(g graph) string {
		var all []string
		for _, e := range g.Entities {
			all = append(all, e.Name)
		}
		return strings.Join(all, " ")
	}
	var learned struct{ All, Found graph }
	w.outputs("learn.yaml", &learned)
	if all, found := names(learned.All), names(learned.Found); all != "Ada Zuse" || found != "Zuse" {
		t.Errorf("learned %q, found %q", all, found)
	}
	if file := w.Read("graph.jsonl"); !strings.Contains(file, "built machines") {
		t.Errorf("its file has\n%s", file)
	}
	var left struct{ All graph }
	if w.outputs("forget.yaml", &left); names(left.All) != "Zuse" {
		t.Errorf("left: %q", names(left.All))
	}
}

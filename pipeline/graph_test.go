package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const drawn = `name: a "drawn" one
max_iterations: 3
edge_limits: [{from: critic, to: intent, max_count: 2}, {from: intent, to: work, max_count: 9}]
agents:
  - {name: intent, default_next: work, remote: {}}
  - {name: work, default_next: critic, error_next: end, denied_next: intent, remote: {}}
  - name: critic
    remote: {}
    routing_rules:
      - {condition: verdict, value: "say \"no\" & <go>", target: intent}
      - {when: "has(output.risk) && output.risk > 3", target: confirmation, then: end}
`

const drawnWithDependencies = `name: diamond
agents:
  - {name: a, remote: {}}
  - {name: b, remote: {}, requires: [a]}
  - {name: c, remote: {}, requires: [a], default_next: c}
  - {name: d, remote: {}, requires: [b, c], join: any, after: [a]}
`

// The files in testdata/graph were read line by line before they were put there.
func TestGraphs(t *testing.T) {
	for _, test := range []struct {
		name, src string
		counts    map[Edge]int64
	}{
		{"loop", drawn, nil},
		{"loop-taken", drawn, map[Edge]int64{{"critic", "intent"}: 1, {"intent", "work"}: 2}},
		{"diamond", drawnWithDependencies, nil},
	} {
		p := mustCheck(t, test.src)
		for _, format := range []string{GraphMermaid, GraphDOT} {
			got, err := p.Graph(format, test.counts)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("testdata", "graph", test.name+"."+format))
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s.%s:\n%s", test.name, format, got)
			}
			frozen, err := Load(p.Canonical())
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := frozen.Graph(format, test.counts); again != got {
				t.Errorf("%s.%s: drawn again it is another", test.name, format)
			}
		}
	}
}

func TestUnknownGraphsAreRefused(t *testing.T) {
	if _, err := mustCheck(t, loop).Graph("svg", nil); err == nil || !strings.Contains(err.Error(), "mermaid, dot and json") {
		t.Error(err)
	}
}

func TestAnEmptyPipelineGoesFromStartToEnd(t *testing.T) {
	got, err := mustCheck(t, "name: p\nagents: []\n").Graph(GraphMermaid, nil)
	if want := "flowchart TD\n  to_start([\"start\"])\n  to_end([\"end\"])\n  to_start --> to_end\n"; err != nil || got != want {
		t.Errorf("%s %v", got, err)
	}
}

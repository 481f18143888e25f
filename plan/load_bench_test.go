package plan

import (
	"fmt"
	"strings"
	"testing"
)

// A frozen plan of as many nodes as there may be is read.
func BenchmarkLoad(b *testing.B) {
	var src strings.Builder
	src.WriteString("kind: plan\nversion: 1\nroot:\n  kind: sequential\n  children:\n")
	for i := range MaxNodes - 1 {
		fmt.Fprintf(&src, "    - {id: n%d, kind: tool_call, tool: 'mcp://t/read@1.0.0', args: {path: a}, timeout: 10s, retry: {max: 2}}\n", i)
	}
	canonical := mustCheck(b, src.String()).Canonical()
	for b.Loop() {
		if _, err := Load(canonical); err != nil {
			b.Fatal(err)
		}
	}
}

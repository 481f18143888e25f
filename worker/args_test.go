package worker

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Every spelling that some parser takes is found, at its place, and nothing else is.
func TestFaultsOfArguments(t *testing.T) {
	for _, c := range []struct {
		typ, args string // separated by blanks
		want      []int
	}{
		{"claude", "--permission-mode acceptEdits --allowed_tools=Bash --ALLOWED-TOOLS Bash", []int{0, 2, 3}},
		{"claude", "--effort high --append-system-prompt x --fallback-model y", nil},
		{"claude", "--agent x -n y --init -- hello", []int{0, 2, 4, 5, 6}},
		{"codex", "-c sandbox_mode=x -c=mcp_servers.a.command=b --config=approval_policy=x --config features.x=1", []int{1, 2, 3, 5}},
		{"codex", `-c "sandbox_mode"=x -c`, []int{1, 2}},
		{"codex", "-c model_providers.x.name=y -cmodel_provider=x -i p.png", nil},
		{"gemini", "--approvalMode yolo --no-sandbox --skip_trust -y --sandbox.x=1 --debug", []int{0, 2, 3, 4, 5}},
		{"cursor", "--api-key k -Hx --endpoint http://localhost:1", []int{0, 2}},
		{"scripted", "--script x --verbose", []int{0}},
	} {
		got := slices.Sorted(maps.Keys(ArgFaults(c.typ, strings.Fields(c.args))))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s: faults at %v, want %v", c.typ, c.args, got, c.want)
		}
	}
}

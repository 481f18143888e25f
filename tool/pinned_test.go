package tool_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestDefinitionsOfBuiltinDoNotMove: plans pin the tools of builtin by version or
// by digest, so the definitions of a version are a promise. A change of any of
// them, also one that comes with the MCP library, needs a new version.
func TestDefinitionsOfBuiltinDoNotMove(t *testing.T) {
	const file = "testdata/builtin-1.0.0.json"
	frozen, err := newBench(t, everything).gate.Tools.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, frozen, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got.Bytes()) {
		t.Errorf("the tools are now\n%s", got.Bytes())
	}
}

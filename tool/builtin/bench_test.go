package builtin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkBareCall is what a tool itself costs: one call of read_file, nothing checked
// and nothing recorded.
func BenchmarkBareCall(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o644); err != nil {
		b.Fatal(err)
	}
	s := New(Options{Workspace: dir, Roots: []string{"."}, Protection: ownAlone{}})
	c := Call{Tool: "read_file", Args: json.RawMessage(`{"path":"a.txt"}`)}
	for b.Loop() {
		if r, err := s.Call(b.Context(), c); err != nil || r.Failed {
			b.Fatal(r, err)
		}
	}
}

package builtin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkBareCall is what the SDK itself costs: one call of read_file, nothing
// checked and nothing recorded.
func BenchmarkBareCall(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o644); err != nil {
		b.Fatal(err)
	}
	s := New(Options{Workspace: dir, Roots: []string{"."}})
	t, err := s.Transport(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(b.Context(), t,
		&mcp.ClientSessionOptions{ProtocolVersion: s.ProtocolVersion()})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for b.Loop() {
		r, err := client.CallTool(b.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}})
		if err != nil || r.IsError {
			b.Fatal(r, err)
		}
	}
}

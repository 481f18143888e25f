package workspace_test

import (
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff/workspace"
)

// BenchmarkProtected is one question about a file that may be written.
func BenchmarkProtected(b *testing.B) {
	dir, m, around := guardedPlace(b)
	p := workspace.Protect(m, around)
	path := filepath.Join(dir, "docs/deep/file.txt")
	for b.Loop() {
		if why, protected := p.Protected(path); protected {
			b.Fatal(why)
		}
	}
}

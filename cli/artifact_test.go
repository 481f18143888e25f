package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An artifact is written as it is. A terminal gets none that would act on it.
func TestShowArtifact(t *testing.T) {
	const run = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"
	digest := "sha256:" + strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		data     string
		terminal bool
		code     int
	}{
		"text":                 {"words\n", true, 0},
		"an image":             {"\x89PNG\r\n\x1a\n\xff", true, 2},
		"an image into a pipe": {"\x89PNG\r\n\x1a\n\xff", false, 0},
		"text that would act":  {"\x1b[2J", true, 2},
	} {
		b := newBench(t)
		b.svc.artifacts = map[string]string{digest: c.data}
		if c.terminal {
			b.terminal()
		}
		b.run(t, c.code, "show", run, "--artifact", strings.TrimPrefix(digest, "sha256:"))
		if c.code == 0 {
			equal(t, name, b.out.String(), c.data)
			continue
		}
		equal(t, name, b.out.String(), "")
		contains(t, name, b.err.String(), "not text", "-o FILE")
		file := filepath.Join(t.TempDir(), "image")
		b.run(t, 0, "show", run, "--artifact", digest, "-o", file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, name, string(data), c.data)
	}
	b := newBench(t)
	b.run(t, 2, "show", run, "-o", "file")
	b.run(t, 2, "show", run, "--artifact", digest, "--transitions")
	b.run(t, 3, "show", run, "--artifact", digest)
}

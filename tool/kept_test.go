package tool

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/redact"
)

func TestTailKeepsTheLastWithoutCredentials(t *testing.T) {
	last := new(tail)
	var b strings.Builder
	for range 20_000 {
		b.WriteString("a line with s3cret-token in it\n")
	}
	b.WriteString("the end s3cret")
	if _, err := io.Copy(last, pieces{strings.NewReader(b.String()), 1000}); err != nil {
		t.Fatal(err)
	}
	if len(last.kept) > 2*keptErrors {
		t.Errorf("%d bytes are kept", len(last.kept))
	}
	said := last.last(redact.New(map[string]string{"TOK": "s3cret-token"}))
	if len(said) > toldErrors+3 || strings.Contains(said, "s3cret-token") || !strings.HasSuffix(said, "with $env:TOK in it\nthe end s3cret") || !strings.HasPrefix(said, "…a line") {
		t.Errorf("it says %q", said)
	}
}

// The digest of a folder is the one that is written down: sorted lines of path,
// x or -, and the file's own digest.
func TestPackageDigest(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	digest := func(path string) string {
		d, err := PackageDigest(path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	write("b.js", "hello", 0o644)
	write("a/run", "world", 0o755)
	// printf 'a/run\0x\0%s\nb.js\0-\0%s\n' "$(printf world | sha256sum | cut -c-64)" "$(printf hello | sha256sum | cut -c-64)" | sha256sum
	const want = "sha256:a85bca8453ebd39c373d787e683140f3e802f89b56bb394b8f1a37298284ea08"
	if got := digest(dir); got != want {
		t.Errorf("the folder has %s, want %s", got, want)
	}
	// printf hello | sha256sum
	if got := digest(filepath.Join(dir, "b.js")); got != "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" {
		t.Errorf("the file has %s", got)
	}
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"mode", func() { _ = os.Chmod(filepath.Join(dir, "b.js"), 0o755) }},
		{"new", func() { write("c", "", 0o644) }},
		{"byte", func() { write("a/run", "World", 0o755) }},
		{"rename", func() { _ = os.Rename(filepath.Join(dir, "c"), filepath.Join(dir, "d")) }},
	} {
		before := digest(dir)
		c.change()
		if digest(dir) == before {
			t.Errorf("%s: the digest is the same", c.name)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := PackageDigest(dir); err == nil || !strings.Contains(err.Error(), "link is a link") {
		t.Errorf("a link is %v", err)
	}
}

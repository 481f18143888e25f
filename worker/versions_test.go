package worker

import (
	"os"
	"path/filepath"
	"testing"
)

// TestVersionIsAskedOfAChangedFileAlone, also by another process.
func TestVersionIsAskedOfAChangedFileAlone(t *testing.T) {
	dir := t.TempDir()
	cli, file := filepath.Join(dir, "cli"), filepath.Join(dir, "state", "versions")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(cli, "one")
	v := &Versions{File: file}
	if got := v.get(cli); got != "" {
		t.Errorf("nobody has asked, and it says %q", got)
	}
	v.put(cli, stampOf(cli), "1.0.0")
	for name, known := range map[string]*Versions{"the same": v, "another process": {File: file}} {
		if got := known.get(cli); got != "1.0.0" {
			t.Errorf("%s knows %q", name, got)
		}
	}
	before := stampOf(cli)
	write(cli, "three")
	if got := v.get(cli); got != "" {
		t.Errorf("of a changed file it says %q", got)
	}
	v.put(cli, before, "1.0.0") // it was replaced while it answered
	if got := v.get(cli); got != "" {
		t.Errorf("the answer of the one before counts: %q", got)
	}
	write(file, "{")
	if got := (&Versions{File: file}).get(cli); got != "" {
		t.Errorf("of a damaged file it reads %q", got)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	alone := &Versions{}
	alone.put(cli, stampOf(cli), "3.0.0")
	if got := alone.get(cli); got != "3.0.0" {
		t.Errorf("without a file it knows %q", got)
	}
}

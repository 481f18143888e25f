package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// A backup that is made while several processes drive runs is a workspace in which
// every run verifies, and can be gone on with.
func TestBackupWhileRunsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, work, small)
	w.Must(0, "run", "small.yaml")
	var driven []*cmdtest.Process
	for range 4 {
		driven = append(driven, w.Start("run", "work.yaml", "--unattended"))
	}
	w.Until("all runs to be there", func() bool { return len(w.runs()) == 5 })
	var copies []string
	for n := 0; len(copies) < 3; n++ {
		name := w.Path("copies", string(rune('a'+n)))
		w.Must(0, "backup", name).Says(t, "5 runs", "tipstaff.yaml", "private keys")
		copies = append(copies, name)
	}
	for _, p := range driven {
		if r := p.Wait(); r.Code != 4 {
			t.Errorf("a run was disturbed\n%v", r)
		}
	}
	w.Must(2, "backup", copies[0]).Says(t, "is there already")
	if left, err := os.ReadDir(w.Path("copies")); err != nil || len(left) != len(copies) {
		t.Errorf("beside the copies there are %v (%v)", left, err)
	}
	for _, name := range copies {
		c := emptyWorkspace(t)
		c.Dir = name
		for _, run := range c.runs() {
			s := c.show(run)
			if s.Status == "running" {
				t.Errorf("run %s of the copy is driven by nobody, and %s", run, s.Status)
			}
			if s.State == "completed" {
				c.Must(0, "verify", run)
				continue
			}
			c.Must(0, "verify", run, "--open")
		}
	}
	// Resumed in the copy, a run goes on as if it had been killed at that moment.
	c := emptyWorkspace(t)
	c.Dir = copies[0]
	c.Write("note.txt", "left\n") // a backup is of the store: what runs wrote in the workspace is not in it
	r := c.Run("resume", "@", "--unattended", "--yes")
	if r.Code != 0 && r.Code != 4 {
		t.Errorf("%v", r)
	}
	c.Must(0, "verify", "@", "--open")
}

// A backup of what is not there, or cannot be copied, says so and leaves nothing.
func TestBackupThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, small)
	w.Must(3, "backup", "copy").Says(t, "nothing was run")
	w.Must(0, "run", "small.yaml")
	w.Must(2, "backup", "copy", "--workspace", "nowhere").Says(t, "not a folder")
	t.Run("no space", func(t *testing.T) {
		mountSmall(t, w.Path("disk"))
		fill(t, w.Path("disk", "ballast"))
		w.Must(3, "backup", "disk/copy").Says(t, "not enough space for a copy")
	})
	w.damage()
	w.Must(3, "backup", "copy").Says(t, "tipstaff.db", "tipstaff doctor")
	left, err := filepath.Glob(w.Path("*copy*"))
	w.Check(err)
	hidden, err := filepath.Glob(w.Path(".*copy*"))
	w.Check(err)
	if len(left)+len(hidden) > 0 {
		t.Errorf("it has left %v", append(left, hidden...))
	}
}

// damage overwrites the pages of the database but for the first few.
func (w *workspace) damage() {
	w.Helper()
	w.sql(`PRAGMA wal_checkpoint(TRUNCATE)`)
	name := w.Path(".tipstaff", "tipstaff.db")
	data, err := os.ReadFile(name)
	w.Check(err)
	for i := 3 * 4096; i < len(data); i++ {
		data[i] = byte(i*7 + 13)
	}
	w.Check(os.WriteFile(name, data, 0o600))
}

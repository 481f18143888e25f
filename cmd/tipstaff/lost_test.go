package main

import (
	"os"
	"strings"
	"testing"
)

// slow is a plan that leaves time to take its store away.
const slow = `-- slow.yaml --
kind: plan
version: 1
tools: ["mcp://builtin/exec@1.0.0"]
root:
  kind: sequential
  children:
    - {id: a, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo a >> done.txt; while [ ! -e go ]; do sleep 0.02; done"]}}
    - {id: b, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo b >> done.txt"]}}
`

// TestStoreTakenAway takes the store from under a running command: that says so, with
// exit code 3, and begins nothing more.
func TestStoreTakenAway(t *testing.T) {
	t.Parallel()
	const db = ".tipstaff/tipstaff.db"
	ways := map[string]struct {
		take func(w *workspace)
		back func(w *workspace) // nil: there is no way back
	}{
		"the file is removed": {take: func(w *workspace) { w.Check(os.Remove(w.Path(db))) }},
		"the file is moved": {
			take: func(w *workspace) { w.Check(os.Rename(w.Path(db), w.Path("away"))) },
			back: func(w *workspace) { w.Check(os.Rename(w.Path("away"), w.Path(db))) },
		},
		"another database is put in its place": {
			take: func(w *workspace) {
				other := newWorkspace(t, manifest, work)
				other.Must(0, "run", "work.yaml", "--yes", "--unattended")
				w.Check(os.Rename(w.Path(db), w.Path("away")))
				w.Write(db, other.Read(db))
			},
		},
		"the log is removed": {
			take: func(w *workspace) { w.Check(os.Remove(w.Path(db + "-wal"))) },
			back: func(w *workspace) {},
		},
		"the folder is moved": {
			take: func(w *workspace) { w.Check(os.Rename(w.Path(".tipstaff"), w.Path("away"))) },
			back: func(w *workspace) { w.Check(os.Rename(w.Path("away"), w.Path(".tipstaff"))) },
		},
		"the workspace is moved": {
			take: func(w *workspace) { w.Check(os.Rename(w.Dir, w.Dir+"-away")) },
			back: func(w *workspace) { w.Check(os.Rename(w.Dir+"-away", w.Dir)) },
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, slow)
			p := w.Start("run", "slow.yaml", "--unattended")
			w.Until("the first call runs", func() bool { _, err := os.Stat(w.Path("done.txt")); return err == nil })
			way.take(w)
			for _, dir := range []string{w.Dir, w.Dir + "-away"} {
				if _, err := os.Stat(dir); err == nil {
					w.Check(os.WriteFile(dir+"/go", nil, 0o600))
				}
			}
			r := p.Wait()
			if r.Code != 3 || !strings.Contains(r.Err, "the store is gone") || !strings.Contains(r.Err, "store_lost") {
				t.Errorf("want exit code 3 and the reason\n%v", r)
			}
			if way.back == nil {
				if done := w.Read("done.txt"); done != "a\n" {
					t.Errorf("done: %q", done)
				}
				return
			}
			way.back(w)
			w.Must(0, "resume", "@", "--unattended")
			w.Must(0, "verify", "@")
			if done := w.Read("done.txt"); done != "a\nb\n" {
				t.Errorf("done: %q", done)
			}
		})
	}
}

// TestLostStoreIsNotAnEmptyOne: where signed files of runs lie beside a store without
// any, somebody has lost it.
func TestLostStoreIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	w := fixture(t)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		w.Check(os.RemoveAll(w.Path(".tipstaff", "tipstaff.db"+suffix)))
	}
	r := w.Must(0, "ls")
	if !strings.Contains(r.Err, "signed envelopes of 1 run:") || !strings.Contains(r.Err, "backup") || strings.Contains(r.Err, "no runs yet") {
		t.Errorf("nothing is said of what was lost\n%v", r)
	}
	if r := emptyWorkspace(t).Must(0, "ls"); !strings.Contains(r.Err, "no runs yet") {
		t.Errorf("an empty store is one\n%v", r)
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// patience is how long any one command may take before it counts as hanging.
const patience = 5 * time.Minute

// workspace is a folder with a manifest and plans, and the command run in it.
type workspace struct {
	*cmdtest.Folder
	tag string // of several runs with effects: which of them is looked at; "": there is one
}

// manifest declares what the plans of these tests use.
const manifest = `-- tipstaff.yaml --
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh]
    tools:
      read_file: {effect: read}
      write_file: {effect: idempotent}
      list_dir: {effect: read}
      json_query: {effect: read}
      sleep: {effect: read}
      exec: {effect: once}
`

func emptyWorkspace(t testing.TB) *workspace {
	t.Helper()
	return &workspace{Folder: cmdtest.New(t, cmdtest.Released, patience)}
}

// newWorkspace writes the files of txtar archives to a new folder.
func newWorkspace(t testing.TB, archives ...string) *workspace {
	t.Helper()
	w := emptyWorkspace(t)
	for _, archive := range archives {
		w.Unpack(archive)
	}
	return w
}

// copyOf is a workspace with the same files.
func copyOf(t testing.TB, from *workspace) *workspace {
	t.Helper()
	w := emptyWorkspace(t)
	if err := os.CopyFS(w.Dir, os.DirFS(from.Dir)); err != nil {
		t.Fatal(err)
	}
	w.tighten()
	return w
}

// tighten gives the store's files the modes that a copy has lost: keys that
// others may read are refused.
func (w *workspace) tighten() {
	w.Helper()
	keys := w.Path(".tipstaff", "keys")
	w.Check(os.Chmod(keys, 0o700))
	names, err := filepath.Glob(filepath.Join(keys, "*.key"))
	w.Check(err)
	for _, name := range names {
		w.Check(os.Chmod(name, 0o600))
	}
}

// record is one line of a run's journal.
type record struct {
	Seq  int64           `json:"seq"`
	Kind string          `json:"kind"`
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

// field is a member of the body, as text without quotes.
func (r record) field(name string) string {
	var body map[string]json.RawMessage
	if json.Unmarshal(r.Body, &body) != nil {
		return ""
	}
	return strings.Trim(string(body[name]), `"`)
}

// journal is the records of a run, as the command prints them.
func (w *workspace) journal(run string) []record {
	w.Helper()
	return w.parseRecords(w.Must(0, "events", run, "--json").Out)
}

func (w *workspace) parseRecords(lines string) []record {
	w.Helper()
	var records []record
	for line := range strings.Lines(lines) {
		var r record
		w.Check(json.Unmarshal([]byte(line), &r))
		records = append(records, r)
	}
	return records
}

// gate is an open gate as the command shows it.
type gate struct {
	ID     string `json:"gate_id"`
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	Path   string `json:"path"`
	Digest string `json:"digest"`
}

// shown is what the tests read of show --json.
type shown struct {
	ID        string          `json:"run_id"`
	State     string          `json:"state"`
	Status    string          `json:"status"`
	Outcome   string          `json:"outcome"`
	HeadSeq   int64           `json:"head_seq"`
	Head      string          `json:"head"`
	OpenGates []gate          `json:"open_gates"`
	Outputs   json.RawMessage `json:"outputs"`
	Program   struct {
		Name string `json:"name"`
	} `json:"program"`
	Queued *struct {
		Place int `json:"place"`
	} `json:"queued"`
	Lineage struct {
		Children []string `json:"children"`
	} `json:"lineage"`
}

func (w *workspace) show(run string) shown {
	w.Helper()
	var s shown
	w.Check(json.Unmarshal([]byte(w.Must(0, "show", run, "--json").Out), &s))
	return s
}

// runs are the ids of all runs, newest first.
func (w *workspace) runs() []string {
	w.Helper()
	var ids []string
	for line := range strings.Lines(w.Must(0, "ls", "--json").Out) {
		var s shown
		w.Check(json.Unmarshal([]byte(line), &s))
		ids = append(ids, s.ID)
	}
	return ids
}

// runID is the run that the last line of run --json or resume --json names.
func runID(t testing.TB, r cmdtest.Result) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.Out), "\n")
	var s shown
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil || s.ID == "" {
		t.Fatalf("its last line names no run: %v\n%v", err, r)
	}
	return s.ID
}

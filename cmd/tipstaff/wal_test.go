package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The store's write-ahead log holds its commits one after another. Cut behind the
// n-th of them, it is exactly what a kill right after that commit leaves on disk.
// So one recorded run gives every state in which a run can be found dead.

// small makes a store: one run, and what every store has.
const small = `-- small.yaml --
kind: plan
version: 1
root: {id: one, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: 1, expr: value + 1.0}}
`

// tape is a workspace whose log holds every commit of one undisturbed run.
type tape struct {
	*workspace
	files []string // archives that it was made of
	run   string
	db    []byte // as it was before the run
	log   []byte
	cuts  []int // where commits end, those before the run left out
}

func newTape(t testing.TB, files ...string) *tape {
	t.Helper()
	return &tape{workspace: newWorkspace(t, files...), files: files}
}

// record has a run taken to its end while a reader holds on to the store as it was
// before, so that nothing of the log can be folded into the database.
func (tp *tape) record(take func() (run string)) {
	tp.Helper()
	store := tp.openReadOnly()
	defer store.Close()
	reader, err := store.BeginTx(context.Background(), nil)
	tp.Check(err)
	defer reader.Rollback()
	var n int
	tp.Check(reader.QueryRow(`SELECT count(*) FROM records`).Scan(&n))
	before := len(commits(tp.workspace.log()))
	tp.run = take()
	tp.log = tp.workspace.log()
	tp.db, err = os.ReadFile(tp.Path(".tipstaff", "tipstaff.db"))
	tp.Check(err)
	tp.cuts = commits(tp.log)[before:]
	if len(tp.cuts) < 20 {
		tp.Fatalf("the log has %d commits of the run: it was folded, or the run no longer says much", len(tp.cuts))
	}
}

// recordTape records a run of the plan.
func recordTape(t *testing.T) *tape {
	t.Helper()
	tp := newTape(t, manifest, work, small)
	tp.Must(0, "run", "small.yaml")
	tp.record(func() string { return runID(t, tp.Must(0, "run", "work.yaml", "--yes", "--unattended", "--json")) })
	tp.finished(tp.run)
	return tp
}

func (w *workspace) log() []byte {
	w.Helper()
	b, err := os.ReadFile(w.Path(".tipstaff", "tipstaff.db-wal"))
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	return b
}

// commits are the offsets in a write-ahead log at which commits end.
func commits(log []byte) []int {
	const header, frameHeader = 32, 24
	if len(log) < header {
		return nil
	}
	size := frameHeader + int(binary.BigEndian.Uint32(log[8:]))
	var ends []int
	for at := header; at+size <= len(log); at += size {
		frame := log[at : at+size]
		if !bytes.Equal(frame[8:16], log[16:24]) {
			break // of an older log, in the same file
		}
		if binary.BigEndian.Uint32(frame[4:]) != 0 {
			ends = append(ends, at+size)
		}
	}
	return ends
}

// cut is a workspace that was left with this much of the log. What was not in the
// store yet is not in its folder either.
func (tp *tape) cut(t *testing.T, log []byte) *workspace {
	t.Helper()
	w := newWorkspace(t, tp.files...)
	for _, name := range []string{"keys", "blobs"} {
		w.Check(os.CopyFS(w.Path(".tipstaff", name), os.DirFS(tp.Path(".tipstaff", name))))
	}
	w.Check(os.WriteFile(w.Path(".tipstaff", "tipstaff.db"), tp.db, 0o600))
	w.Check(os.WriteFile(w.Path(".tipstaff", "tipstaff.db-wal"), log, 0o600))
	w.tighten()
	return w
}

// world gives a workspace the traces that its journal implies: those of calls that
// have ended, and those of calls under way if happened says so. It returns how
// many calls are under way.
func (w *workspace) world(records []record, happened bool) (underWay int) {
	w.Helper()
	state := map[string]string{}
	for _, r := range records {
		switch r.Kind {
		case "effect.intended", "effect.finished":
			state[filepath.Base(r.Path)] = r.Kind
		}
	}
	effects := ""
	for _, node := range []string{"first", "left", "right", "last"} {
		open := state[node] == "effect.intended"
		if open {
			underWay++
		}
		if state[node] == "effect.finished" || open && happened {
			effects += node + "\n"
		}
	}
	w.Write("effects", effects)
	if state["note"] == "effect.finished" {
		w.Write("note.txt", "left\n")
	}
	return underWay
}

// TestKillAtEveryCommit takes up a run that died right behind its n-th commit, for
// every n, with calls under way that did and that did not have their effect.
func TestKillAtEveryCommit(t *testing.T) {
	t.Parallel()
	tp := recordTape(t)
	first, step := places(t, 6)
	for i := first; i < len(tp.cuts); i += step {
		for _, happened := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/happened=%t", i+1, happened), func(t *testing.T) {
				t.Parallel()
				w := tp.cut(t, tp.log[:tp.cuts[i]])
				w.takeUp(tp.run, happened)
			})
		}
	}
}

// takeUp brings a dead run to its end.
func (w *workspace) takeUp(run string, happened bool) {
	w.Helper()
	if len(w.runs()) < 2 { // the commit was of the blobs that a run is made of
		return
	}
	records := w.journal(run)
	underWay := w.world(records, happened)
	if happened && underWay == 0 {
		w.Skip("nothing was under way")
	}
	if s := w.show(run); s.State == "completed" {
		w.finished(run)
		return
	}
	if last := records[len(records)-1]; len(records) > 4 && last.Kind != "run.interrupted" {
		w.Errorf("the dead owner was not noticed: the last record is %s", last.Kind)
	}
	for range 10 {
		switch r := w.Run("resume", run, "--yes", "--unattended"); r.Code {
		case 0:
			w.finished(run)
			return
		case 4:
			w.settleDoubts(run, func(args ...string) { w.Must(0, args...) })
		default:
			w.Fatalf("%v", r)
		}
	}
	w.Fatal("ten times taken up, and it has not ended")
}

// TestTornLog cuts the log inside of a commit, or damages its last one. What was
// written before holds; the torn commit never happened.
func TestTornLog(t *testing.T) {
	t.Parallel()
	tp := recordTape(t)
	damage := map[string]func(log []byte, end int) []byte{
		"half a commit follows": func(log []byte, end int) []byte { return log[:end+1000] },
		"one byte is missing":   func(log []byte, end int) []byte { return log[:end-1] },
		"zeros follow":          func(log []byte, end int) []byte { return append(bytes.Clone(log[:end]), make([]byte, 8192)...) },
		"its last byte differs": func(log []byte, end int) []byte {
			torn := bytes.Clone(log[:end])
			torn[end-1] ^= 1
			return torn
		},
	}
	for name, tear := range damage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := tp.cuts[len(tp.cuts)/2]
			tp.cut(t, tear(tp.log, end)).takeUp(tp.run, true)
		})
	}
}

// TestLogWithoutItsEnd takes from the log what the disk had acknowledged: the last commits of a
// run that rests. Where an anchor or the file of an envelope tells of them, the run is not
// driven, and whoever looks is told.
func TestLogWithoutItsEnd(t *testing.T) {
	t.Parallel()
	w, _ := anchoring(t)
	w.Unpack(small)
	w.Must(0, "run", "small.yaml")
	store := w.openReadOnly()
	defer store.Close()
	reader, err := store.BeginTx(context.Background(), nil)
	w.Check(err)
	defer reader.Rollback()
	var n int
	w.Check(reader.QueryRow(`SELECT count(*) FROM records`).Scan(&n))
	w.Must(4, "run", "anchored.yaml", "--unattended")
	ofAnchor := w.show("@").ID
	w.Write("plain.yaml", strings.Replace(w.Read("anchored.yaml"), ", anchor: true", "", 1))
	w.Check(os.Remove(w.Path("done.txt")))
	w.Must(4, "run", "plain.yaml", "--unattended")
	plain := w.show("@").ID
	log := w.log()
	for name, c := range map[string]struct {
		run  string
		lost string // the log ends before this record
	}{
		"an anchor tells of it":                 {ofAnchor, "run.parked"},
		"the file of an envelope tells of it":   {plain, "policy.gate"},
		"several files of envelopes tell of it": {plain, "intent.accept"},
	} {
		t.Run(name, func(t *testing.T) {
			run, ends := c.run, commits(log)
			for len(ends) > 0 {
				ends = ends[:len(ends)-1]
				cut := copyOf(t, w)
				cut.Check(os.RemoveAll(cut.Path(".tipstaff", "tipstaff.db-shm")))
				cut.Check(os.WriteFile(cut.Path(".tipstaff", "tipstaff.db-wal"), log[:ends[len(ends)-1]], 0o600))
				if cut.has(run, c.lost) {
					continue
				}
				if !cut.has(run, "intent.draft") {
					cut.Must(1, "doctor").Says(t, "run_unknown")
					return
				}
				if run == plain {
					cut.Must(1, "doctor").Says(t, "run_set_back")
				}
				cut.Must(6, "resume", run, "--unattended").Says(t, run)
				if done := cut.Read("done.txt"); done != "a\n" {
					t.Errorf("done: %q", done)
				}
				return
			}
			t.Fatalf("no commit of the log is before %s", c.lost)
		})
	}
}

// has reports whether a run has a record of a kind.
func (w *workspace) has(run, kind string) bool {
	w.Helper()
	db := w.openReadOnly()
	defer db.Close()
	var n int
	w.Check(db.QueryRow(`SELECT count(*) FROM records WHERE kind = ? AND run = (SELECT n FROM runs WHERE id = ?)`, kind, run).Scan(&n))
	return n > 0
}

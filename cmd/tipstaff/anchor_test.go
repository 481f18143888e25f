package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/journal"
)

// anchored is a plan that rests between two calls that must not be repeated.
const anchored = `-- anchored.yaml --
kind: plan
version: 1
tools: ["mcp://builtin/exec@1.0.0"]
intent: {verb: build, anchor: true}
root:
  kind: sequential
  children:
    - {id: a, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo a >> done.txt"]}}
    - {id: first, kind: gate, question: "Go on?"}
    - {id: b, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo b >> done.txt"]}}
    - {id: second, kind: gate, question: "Still?"}
`

// anchoring is a workspace whose anchors are written to a folder of their own.
func anchoring(t *testing.T) (w *workspace, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "anchors.ndjson")
	return newWorkspace(t, manifest+"anchor: {file: "+file+"}\n", anchored), file
}

// answer decides a gate of the newest run and drives that on, to end with a code.
func (w *workspace) answer(gate, action string, code int) {
	w.Helper()
	w.Must(0, "decide", "@", gate, action)
	w.Must(code, "resume", "@", "--unattended")
}

func readAnchors(t *testing.T, file string) (list []journal.Anchor) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var a journal.Anchor
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// TestAnchor: wherever the run rests stands in the file, and the journal agrees.
func TestAnchor(t *testing.T) {
	t.Parallel()
	w, file := anchoring(t)
	w.Must(4, "run", "anchored.yaml", "--unattended")
	w.answer("root/first", "approve", 4)
	w.answer("root/second", "approve", 0)
	var rests []journal.Anchor
	var head journal.Hash
	for line := range strings.Lines(w.Must(0, "events", "@", "--json").Out) {
		raw := []byte(strings.TrimSuffix(line, "\n"))
		r, err := journal.Parse(raw)
		w.Check(err)
		head = head.Next(raw)
		if r.Kind == "run.parked" || r.Kind == "intent.attest" {
			rests = append(rests, journal.Anchor{Run: r.Run, Seq: r.Seq, Hash: head, At: r.At})
		}
	}
	got := readAnchors(t, file)
	if len(rests) != 3 || len(got) != 3 {
		t.Fatalf("%d lines for %d rests, want 3", len(got), len(rests))
	}
	for i, want := range rests {
		if got[i] != want {
			t.Errorf("line %d is %+v, want %+v", i+1, got[i], want)
		}
	}
	w.Must(0, "verify", "@", "--anchor", file)
	w.Must(0, "export", "@", "out")
	keys := w.Path(".tipstaff", "keys")
	w.Must(0, "verify", "out", "--key", keys, "--anchor", file)
	if r := w.Must(2, "verify", "@", "--anchor", "none"); !strings.Contains(r.Err, "none") {
		t.Errorf("the file is not named\n%v", r)
	}

	t.Run("the same line twice", func(t *testing.T) {
		text, err := os.ReadFile(file)
		w.Check(err)
		twice := filepath.Join(t.TempDir(), "twice")
		w.Check(os.WriteFile(twice, append(text, text...), 0o600))
		w.Must(0, "verify", "@", "--anchor", twice)
	})
	t.Run("a run that is not in it", func(t *testing.T) {
		empty := filepath.Join(t.TempDir(), "empty")
		w.Check(os.WriteFile(empty, nil, 0o600))
		if r := w.Must(6, "verify", "@", "--anchor", empty); !strings.Contains(r.Out, "unanchored") {
			t.Errorf("the fault is not named\n%v", r)
		}
	})
	t.Run("cut short and signed again with the real keys", func(t *testing.T) {
		b := w.openBook()
		b.state = "executing"
		b.remove(b.at("policy.gate", "root/second"), len(b.records))
		b.forge(w.keys())
		w.Must(0, "verify", "@", "--open")
		for _, what := range [][]string{{"@"}, {"out2", "--key", keys}} {
			if what[0] != "@" {
				w.Must(0, "export", "@", "out2")
			}
			if r := w.Must(6, append([]string{"verify", "--open", "--anchor", file}, what...)...); !strings.Contains(r.Out, "truncated") {
				t.Errorf("the fault is not named\n%v", r)
			}
		}
	})
}

// TestCutTailIsNotDrivenAgain: without any key the unsigned end of an open run can be
// cut off in the store. The anchor keeps its calls from being made again.
func TestCutTailIsNotDrivenAgain(t *testing.T) {
	t.Parallel()
	w, file := anchoring(t)
	w.Must(4, "run", "anchored.yaml", "--unattended")
	parked := w.count(`SELECT max(seq) FROM records`)
	w.answer("root/first", "approve", 4)
	if done := w.Read("done.txt"); done != "a\nb\n" {
		t.Fatalf("done: %q", done)
	}
	b := w.openBook()
	b.state = "executing"
	b.remove(parked+1, len(b.records)) // the decision stays: it is signed
	b.forge(w.keys())
	w.sql(`DELETE FROM gates WHERE opened > ?`, parked)
	w.sql(`UPDATE runs SET owned = 'run.parked', anchor = 0`)
	r := w.Must(6, "resume", "@", "--unattended")
	if !strings.Contains(r.Err, file) {
		t.Errorf("the anchor file is not named\n%v", r)
	}
	if done := w.Read("done.txt"); done != "a\nb\n" {
		t.Errorf("done: %q", done)
	}
	w.Write("tipstaff.yaml", strings.ReplaceAll(w.Read("tipstaff.yaml"), "anchor:", "#"))
	w.Must(4, "resume", "@", "--unattended") // nobody else notices
	if done := w.Read("done.txt"); done != "a\nb\nb\n" {
		t.Errorf("done without the anchor: %q", done)
	}
}

// TestAnchorIsWrittenLater: what cannot be written waits in the store, and whoever
// opens it next writes it, once.
func TestAnchorIsWrittenLater(t *testing.T) {
	t.Parallel()
	w, file := anchoring(t)
	w.Check(os.Mkdir(file, 0o700)) // there is no writing to a folder
	r := w.Run("run", "anchored.yaml", "--unattended")
	if r.Code != 4 || !strings.Contains(r.Err, file) {
		t.Fatalf("the run must park and the file be named\n%v", r)
	}
	w.Check(os.Remove(file))
	w.Check(os.WriteFile(file, []byte(`{"run":"half a li`), 0o600))
	w.Must(0, "ls")
	w.Must(0, "ls")
	text, err := os.ReadFile(file)
	w.Check(err)
	if n := strings.Count(string(text), `"seq":`); n != 1 || !strings.Contains(string(text), "half a li\n{") {
		t.Errorf("%d lines, want one on a line of its own:\n%s", n, text)
	}
	w.Must(0, "verify", "@", "--open", "--anchor", file)

	w.sql(`INSERT INTO outbox SELECT run, seq, hash, 0 FROM records WHERE kind = 'run.parked'`) // killed before it was crossed off
	w.Must(0, "ls")
	again, err := os.ReadFile(file)
	w.Check(err)
	if string(again) != string(text) {
		t.Errorf("written again:\n%s", again)
	}

	w.Check(os.WriteFile(file, nil, 0o600))
	if r := w.Must(6, "resume", "@", "--yes"); !strings.Contains(r.Err, "does not name it") {
		t.Errorf("the missing anchor is not told of\n%v", r)
	}
}

// TestAnchorFlip: a correction that drops the anchor must be accepted.
func TestAnchorFlip(t *testing.T) {
	t.Parallel()
	w, file := anchoring(t)
	w.Must(4, "run", "anchored.yaml", "--unattended")
	w.Write("plain.yaml", strings.Replace(w.Read("anchored.yaml"), ", anchor: true", "", 1))
	r := w.Must(4, "resume", "@", "--with", "plain.yaml", "--reason", "no need", "--unattended")
	if !strings.Contains(r.Out+r.Err, "anchor_flip") {
		t.Errorf("the rule is not named\n%v", r)
	}
	before := len(readAnchors(t, file))
	gate := w.show("@").OpenGates[0]
	w.answer(gate.ID, "accept", 4)
	if after := len(readAnchors(t, file)); after != before {
		t.Errorf("%d anchors were %d, though the plan in force asks for none", after, before)
	}
	w.Must(0, "verify", "@", "--open", "--anchor", file)
}

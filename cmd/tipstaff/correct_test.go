package main

import (
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// revised are a plan and two revisions of it: one within what was accepted, one
// beyond. Each exec leaves a line, so that what happened twice is seen.
const revised = `-- first.yaml --
kind: plan
version: 1
bounds: {tool_calls: 10}
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one | tee -a effects"]}}
    - {id: ask, kind: gate, question: Go on?}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two | tee -a effects"]}}
outputs: {one: "${one.output.stdout}"}
-- second.yaml --
kind: plan
version: 1
bounds: {tool_calls: 10}
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one | tee -a effects"]}}
    - {id: ask, kind: gate, question: Go on?, expires: 12h}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two | tee -a effects"]}}
outputs: {one: "${one.output.stdout}"}
-- third.yaml --
kind: plan
version: 1
bounds: {tool_calls: 100}
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one | tee -a effects"]}}
    - {id: ask, kind: gate, question: Go on?, expires: 12h}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two | tee -a effects"]}}
outputs: {one: "${one.output.stdout}"}
`

// TestForgedCorrections changes, with the real keys, a finished run that was
// corrected twice: once within what was accepted, once beyond. What a correction
// means follows from the records before it, so each change is found.
func TestForgedCorrections(t *testing.T) {
	t.Parallel()
	original := newWorkspace(t, manifest, revised)
	original.Must(4, "run", "first.yaml", "--unattended")
	original.Must(4, "resume", "@", "--with", "second.yaml", "--reason", "ask better", "--unattended")
	original.Must(0, "resume", "@", "--with", "third.yaml", "--reason", "more room", "--yes", "--unattended")
	original.Must(0, "verify", "@")
	if got := original.effects(); got != "one two" {
		t.Errorf("undisturbed it leaves %q", got)
	}
	second := func(b *book) int { return b.at("intent.correct") }
	third := func(b *book) int {
		return second(b) + 1 + b.since(second(b)+1).at("intent.correct")
	}
	attacks := map[string]func(b *book){
		"a material one is not": func(b *book) {
			b.edit(third(b), `"material":true`, `"material":false`)
		},
		"one that is not is material": func(b *book) { b.edit(second(b), `"material":false`, `"material":true`) },
		"other reasons":               func(b *book) { b.edit(third(b), `from 10 to 100`, `from 10 to 11`) },
		"another reason of the user":  func(b *book) { b.edit(second(b), `ask better`, `ask worse`) },
		"a result that was carried is another": func(b *book) {
			b.edit(b.at("run.continued"), `one\n`, `uno\n`)
		},
		"a result that was never there is carried": func(b *book) {
			b.edit(b.at("run.continued"), `"carried":{`, `"carried":{"two":{"path":"root/two","kind":"tool_call","by":"mcp://builtin/exec@1.0.0","input":"","digest":"","output":1},`)
		},
		"a carried step is not": func(b *book) { b.edit(b.at("plan.step", "root@2/one"), `"carried"`, `"completed"`) },
		"a larger bound":        func(b *book) { b.edit(b.at("run.continued"), `"limit":{`, `"limit":{"x":1,`) },
		"less was used":         func(b *book) { b.edit(b.at("run.continued"), `"used":{"tool_calls":1}`, `"used":{"tool_calls":0}`) },
		"never confirmed":       func(b *book) { b.edit(b.at("policy.gate.resolve", "confirm@3"), `"accept"`, `"keep"`) },
		"confirmed by nobody":   func(b *book) { b.remove(b.at("policy.gate", "confirm@3"), b.at("gate.taken", "confirm@3")+1) },
		"in force by itself": func(b *book) {
			i := b.last("plan.proposed")
			b.edit(i, b.field(i, "accepted_by"), b.field(b.at("plan.proposed"), "accepted_by"))
		},
		"never in force":        func(b *book) { i := b.last("plan.proposed"); b.remove(i, i+1); b.state = "accepted" },
		"in force twice":        func(b *book) { b.repeat(b.last("plan.proposed")) },
		"nobody corrected it":   func(b *book) { i := b.at("run.correction_requested"); b.remove(i, i+1) },
		"a correction left out": func(b *book) { b.remove(second(b), second(b)+1) },
		"evidence of another revision": func(b *book) {
			b.edit(b.at("intent.attest"), `"revision":3`, `"revision":2`)
		},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			b := w.openBook()
			attack(b)
			b.forge(w.keys())
			w.found(7, "correction_mismatch", "replay_mismatch", "engine_rule", "not_accepted", "invalid_transition", "evidence", "unreadable")
		})
	}
	t.Run("nothing changed", func(t *testing.T) {
		t.Parallel()
		w := copyOf(t, original)
		w.openBook().forge(w.keys())
		w.Must(0, "verify", "@")
	})
}

// since is the book from a record on, for looking only.
func (b *book) since(i int) *book { return &book{workspace: b.workspace, records: b.records[i:]} }

// last is the index of the last record of a kind.
func (b *book) last(kind string) int {
	b.Helper()
	for i := len(b.records) - 1; i >= 0; i-- {
		if b.records[i].Kind == kind {
			return i
		}
	}
	b.Fatalf("the run has no %s", kind)
	return 0
}

// field is a member of a record's body.
func (b *book) field(i int, name string) string {
	return record{Body: b.records[i].Body}.field(name)
}

// TestKillInACorrection kills the process that takes a material correction up,
// after each number of records. Resumed, the run comes to the same end, and nothing
// was done twice.
func TestKillInACorrection(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	parked := newWorkspace(t, manifest, revised)
	parked.Must(4, "run", "first.yaml", "--unattended")
	first, step := places(t, 5)
	for n := int64(1 + first); n <= 16; n += int64(step) {
		k := &killer{workspace: copyOf(t, parked)}
		run := k.runs()[0]
		p := k.Start("resume", run, "--with", "third.yaml", "--reason", "more room", "--yes", "--unattended")
		k.afterRecords(p, n)
		p.Kill()
		if !corrected(k.journal(run)) {
			k.Must(0, "resume", run, "--with", "third.yaml", "--reason", "more room", "--yes", "--unattended")
		}
		for k.show(run).State != "completed" {
			if r := k.Run("resume", run, "--yes", "--unattended"); r.Code == 4 {
				k.settleDoubts(run, func(args ...string) { k.Must(0, args...) })
			} else if r.Code != 0 {
				t.Fatalf("killed after %d records\n%v", n, r)
			}
		}
		if got := k.effects(); got != "one two" {
			t.Errorf("killed after %d records: effects %q", n, got)
		}
		if got := canonical(k.workspace, k.show(run).Outputs); got != `{"one":"one\n"}` {
			t.Errorf("killed after %d records: outputs %s", n, got)
		}
		k.Must(0, "verify", run)
		k.Must(0, "replay", run)
	}
}

func corrected(records []record) bool {
	for _, r := range records {
		if r.Kind == "run.correction_requested" {
			return true
		}
	}
	return false
}

package main

import (
	"encoding/json"
	"regexp"
	"testing"
)

const threeClasses = `-- classes.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: classes.yaml}}
    - {id: put, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: out.txt, content: hello}}
    - {id: go, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, echo went >> log]}}
`

// TestForgedClass changes what a journal says of the effect classes of its calls, with
// the real keys and with everything else in order: totals, counts, attempts. Only what
// the run has frozen tells that a call is once.
func TestForgedClass(t *testing.T) {
	t.Parallel()
	original := newWorkspace(t, manifest, threeClasses)
	original.Must(0, "run", "classes.yaml", "--unattended")
	for name, c := range map[string]struct {
		attack func(b *book)
		fault  string
	}{
		"once as read":             {func(b *book) { b.classed("root/go", "once", "read") }, "replay_mismatch"},
		"once as idempotent":       {func(b *book) { b.classed("root/go", "once", "idempotent") }, "replay_mismatch"},
		"idempotent as read":       {func(b *book) { b.classed("root/put", "idempotent", "read") }, "replay_mismatch"},
		"read as once":             {func(b *book) { b.classed("root/look", "read", "once") }, "replay_mismatch"},
		"once without an intent":   {(*book).unintended, "replay_mismatch"},
		"once twice, as read":      {func(b *book) { b.classed("root/go", "once", "read"); b.twice() }, "replay_mismatch"},
		"once twice, without gate": {(*book).twice, "engine_rule"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			b := w.openBook()
			c.attack(b)
			b.forge(w.keys())
			if got := w.conformance(7); len(got) != 1 || got[0] != c.fault {
				t.Errorf("found %v, want %s alone\n%v", got, c.fault, w.Run("verify", "@"))
			}
			w.Must(7, "replay", "@")
		})
	}
}

// conformance are the codes of the problems that verify finds besides broken integrity.
func (w *workspace) conformance(code int, flags ...string) (codes []string) {
	w.Helper()
	var report struct {
		Conformance struct{ Problems []struct{ Code string } }
	}
	r := w.Must(code, append([]string{"verify", "@", "--json"}, flags...)...)
	w.Check(json.Unmarshal([]byte(r.Out), &report))
	for _, p := range report.Conformance.Problems {
		codes = append(codes, p.Code)
	}
	return codes
}

// classed records the call at a path with another class.
func (b *book) classed(path, from, to string) {
	b.Helper()
	b.edit(b.at("effect.intended", path), `"class":"`+from+`"`, `"class":"`+to+`"`)
}

// twice has exec made a second time, and the totals say so.
func (b *book) twice() {
	b.Helper()
	i := b.at("effect.intended", "root/go")
	b.repeat(i)
	b.edit(i+1, `"attempt":1`, `"attempt":2`)
	b.edit(i+1, `"input":`+b.input(i)+`,`, ``)
	b.edit(b.at("effect.finished", "root/go"), `"attempt":1`, `"attempt":2`)
	end := b.at("intent.attest")
	b.edit(end, `"used":{"tool_calls":3}`, `"used":{"tool_calls":4}`)
	b.edit(end, `"tools":[{"calls":1,`, `"tools":[{"calls":2,`) // exec is the first of them
}

// unintended has exec made as a call is that may be made again: its outcome alone is
// recorded.
func (b *book) unintended() {
	b.Helper()
	i := b.at("effect.intended", "root/go")
	b.edit(b.at("effect.finished", "root/go"), `,"value":`, `,"input":`+b.input(i)+`,"use":{"tool_calls":1},"value":`)
	b.remove(i, i+1)
	end := b.at("intent.attest")
	b.edit(end, execEvidence.FindString(string(b.records[end].Body)), ``) // which counts intents
}

var execEvidence = regexp.MustCompile(`\{[^{}]*"uri":"mcp://builtin/exec@1\.0\.0"\},`)

// input is that of a call, as it is recorded.
func (b *book) input(i int) string {
	b.Helper()
	var body struct{ Input json.RawMessage }
	b.Check(json.Unmarshal(b.records[i].Body, &body))
	return string(body.Input)
}

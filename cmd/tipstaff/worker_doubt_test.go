package main

import (
	"strings"
	"testing"
)

// What somebody says that a worker has reported must fit the schema of its step, and with
// that alone the step is done.
func TestAResultThatIsGivenFitsTheSchema(t *testing.T) {
	t.Parallel()
	w := newFake(t, "works until it is stopped", `-- count.yaml --
kind: plan
version: 1
root: {kind: step, id: work, agent: hand, prompt: Count., output_schema: {type: object, required: [n], properties: {n: {type: integer}}}}
outputs: {n: "${work.output.n}"}
`)
	p := w.Start("run", "count.yaml", "--unattended")
	w.Until("the worker", func() bool { return strings.Contains(w.Read("bin/notes"), "works") || !p.Running() })
	p.Kill()
	w.Must(4, "resume", "@", "--unattended")
	gate := w.show("@").OpenGates[0].ID
	before := w.Must(0, "events", "@", "--json").Out
	for _, answer := range []string{`{"data":{"n":"three"}}`, `{"data":{}}`, `{"text":"three"}`, `{}`, `{"data":{"n":3},"more":1}`} {
		if r := w.Run("decide", "@", gate, "use_result", "--answer", answer); r.Code != 2 && r.Code != 3 {
			t.Errorf("%s: %v", answer, r)
		}
	}
	if after := w.Must(0, "events", "@", "--json").Out; after != before {
		t.Error("what was refused has left a record")
	}
	w.Must(0, "decide", "@", gate, "use_result", "--answer", `{"data":{"n":3}}`)
	w.Must(0, "resume", "@", "--unattended")
	if got := canonical(w, w.show("@").Outputs); got != `{"n":3}` || w.starts() != 1 {
		t.Errorf("outputs %s after %d starts", got, w.starts())
	}
	w.Must(0, "verify", "@")
	w.nothingRuns()
}

package main

import (
	"os"
	"strings"
	"testing"
)

func init() {
	parts["asks leave"] = func(f *fake) { // and does not wait for it
		f.begin()
		f.text("I run a command.")
		if f.n < 3 {
			f.note("asked: %s", f.approve("Bash", map[string]string{"command": "ls"}))
		}
		f.report()
		f.end()
	}
}

// A replay starts no worker, and finds what its owner has changed of what was decided, of
// what a worker was told, and of what came of it.
func TestForgedWork(t *testing.T) {
	t.Parallel()
	original := newFake(t, "asks leave")
	original.configure("workers:", "agents: {builder: {worker: writer, review: person}}\nworkers:")
	original.Write("plan.yaml", strings.Replace(original.Read("plan.yaml"), "agent: hand", "agent: builder", 1))
	original.git()
	original.Must(4, "run", "plan.yaml", "--unattended")
	run := original.runs()[0]
	for _, decision := range [][]string{{"allow"}, {"retry_feedback", "--feedback", "Mind the spaces."}, {"continue"}} {
		gates := original.show(run).OpenGates
		if len(gates) != 1 {
			t.Fatalf("%+v", original.show(run))
		}
		original.Must(0, append([]string{"decide", run, gates[0].ID}, decision...)...)
		original.Run("resume", run, "--unattended")
	}
	if got := strings.Join(original.outcomes(run), " "); got != "approval reported reported" || original.show(run).State != "completed" {
		t.Fatalf("the outcomes are %s, the run is %+v", got, original.show(run))
	}
	original.Must(0, "verify", run)
	original.Must(0, "replay", run)
	if n := original.starts(); n != 3 {
		t.Errorf("%d starts", n)
	}
	original.Check(os.Remove(original.Path("bin/claude")))
	for name, attack := range map[string]func(b *book){
		"another outcome": func(b *book) {
			b.edit(b.at("effect.finished", "root/worker#2"), `"outcome":"reported"`, `"outcome":"no_report"`)
		},
		"another grant": func(b *book) {
			b.edit(b.at("effect.intended", "root/worker#2"), `worker-claude/Bash`, `worker-claude/Edit`)
		},
		"nothing granted": func(b *book) { b.edit(b.at("policy.gate.resolve"), `"allow"`, `"deny"`) },
		"another request": func(b *book) { b.edit(b.at("effect.finished", "root/worker#1"), `"command":"ls"`, `"command":"rm"`) },
		"another feedback": func(b *book) {
			b.edit(b.at("policy.gate.resolve", "root/review#1"), `Mind the spaces.`, `Mind the commas.`)
		},
		"the task's words": func(b *book) { b.edit(b.feedback(), `Mind the spaces.`, `Mind the commas.`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			b := w.openBook()
			attack(b)
			b.forge(nil, nil)
			w.found(6, "signature_invalid")
			b.forge(w.keys())
			w.found(7, "replay_mismatch", "outcome", "evidence", "engine_rule")
			w.Must(7, "replay", "@")
		})
	}
}

// feedback is the record that tells the task what was wrong.
func (b *book) feedback() int {
	for i, r := range b.records {
		if r.Kind == "task.status" && strings.Contains(string(r.Body), `"rejected"`) {
			return i
		}
	}
	b.Fatal("the task was not told")
	return 0
}

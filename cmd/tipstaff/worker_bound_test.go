package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func init() {
	parts["drafts, then is content"] = func(f *fake) {
		f.begin()
		text, refused := f.call("task_output", `{"kind":"data","value":{"verdict":"ugly"}}`)
		f.note("ugly refused=%t %s", refused, text)
		f.call("task_output", map[string]any{"kind": "data", "value": map[string]string{"verdict": []string{"draft", "good"}[min(f.n, 2)-1]}})
		f.text("see the data")
		f.report()
		f.end()
	}
	parts["drafts, fails, then is content"] = func(f *fake) {
		f.begin()
		if f.n == 2 {
			os.Exit(3)
		}
		f.call("task_output", map[string]any{"kind": "data", "value": map[string]string{"verdict": []string{"draft", "", "good"}[f.n-1]}})
		f.report()
		f.end()
	}
	parts["talks much"] = func(f *fake) {
		f.begin()
		for i := range 30 {
			f.say(`{"type":"assistant","message":{"id":"m%d","model":"m","content":[{"type":"text","text":"and"}],"usage":{"input_tokens":10,"output_tokens":5}},"session_id":%q}`, i, f.id)
		}
		f.report()
		f.end()
	}
	parts["costs half a dollar"] = func(f *fake) {
		f.begin()
		for deadline := time.Now().Add(20 * time.Second); !fileExists(filepath.Join(f.dir, "start.4")) && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		f.text("expensive")
		f.report()
		f.cost(0.5)
	}
}

const drafts = `-- office.yaml --
name: office
agents:
  - name: work
    stage_order: 1
    worker: {name: hand, prompt: Write it., session: keep}
    output_schema: {type: object, required: [verdict], properties: {verdict: {enum: [draft, good]}}}
    routing_rules: [{condition: verdict, value: draft, target: critic}, {condition: verdict, value: good, target: end}]
  - {name: critic, stage_order: 2, scripted: {answers: [{output: {}, control: {feedback: Louder.}}]}, default_next: work}
`

// A stage that is visited again goes on in the session that it keeps. What it hands over
// fits its schema, and decides where the run goes.
func TestAStageKeepsItsSession(t *testing.T) {
	t.Parallel()
	for session, resumed := range map[string]string{"keep": "resumed=true", "fresh": "resumed=false"} {
		t.Run(session, func(t *testing.T) {
			t.Parallel()
			w := newFake(t, "drafts, then is content", strings.Replace(drafts, "keep", session, 1))
			w.Must(0, "run", "office.yaml", "--unattended")
			run, starts := w.runs()[0], w.startNotes()
			if len(starts) != 2 || !strings.Contains(starts[0], "resumed=false") || !strings.Contains(starts[1], resumed) || !strings.Contains(starts[1], "Louder.") {
				t.Errorf("it was started so:\n%s", w.Read("bin/notes"))
			}
			if n := strings.Count(w.Read("bin/notes"), "ugly refused=true"); n != 2 {
				t.Errorf("what does not fit the schema was refused %d times:\n%s", n, w.Read("bin/notes"))
			}
			ids := map[string]bool{}
			for _, s := range w.workerSessions() {
				ids[s.ID] = true
			}
			if want := map[string]int{"keep": 1, "fresh": 2}[session]; len(ids) != want {
				t.Errorf("%d sessions", len(ids))
			}
			if got := canonical(w, w.show(run).Outputs); !strings.Contains(got, `"work":{"verdict":"good"}`) {
				t.Errorf("outputs %s", got)
			}
			if hops := w.used(run, "agent_hops"); hops != "3" {
				t.Errorf("%s hops", hops)
			}
			w.Must(0, "verify", run)
			w.Must(0, "replay", run)
			if session == "keep" { // who goes back does so in a copy of it
				before := w.workerSessions()
				w.Must(0, "fork", run, "--at", "stage:critic", "--resume", "--unattended")
				if starts := w.startNotes(); len(starts) != 3 || !strings.Contains(starts[2], `copied="`+before[0].ID+`"`) {
					t.Errorf("the fork was started so:\n%s", w.Read("bin/notes"))
				}
				if now := w.workerSessions(); len(now) != 2 || now[1] != before[0] {
					t.Errorf("the sessions were %+v, and are %+v", before, now)
				}
				w.Must(0, "verify", "@")
			}
			w.nothingRuns()
		})
	}
	t.Run("a visit that failed", func(t *testing.T) { // has ended its task, and with it the session
		t.Parallel()
		w := newFake(t, "drafts, fails, then is content", strings.Replace(drafts, "    output_schema", "    error_next: critic\n    output_schema", 1))
		w.Must(0, "run", "office.yaml", "--unattended")
		starts := w.startNotes()
		if len(starts) != 3 || !strings.Contains(starts[1], "resumed=true") || !strings.Contains(starts[2], "resumed=false") {
			t.Errorf("it was started so:\n%s", w.Read("bin/notes"))
		}
		w.Must(0, "verify", "@")
	})
	t.Run("output_invalid", func(t *testing.T) {
		t.Parallel()
		w := newFake(t, "honest", drafts)
		w.Must(1, "run", "office.yaml", "--unattended").Says(t, "output_invalid")
		w.Must(0, "verify", "@")
	})
}

// used is what a run has used of a bound.
func (w *workspace) used(run, bound string) string {
	w.Helper()
	var s struct {
		Bounds map[string]struct{ Used string }
	}
	w.Check(json.Unmarshal([]byte(w.Must(0, "show", run, "--json").Out), &s))
	return s.Bounds[bound].Used
}

// Calls that a CLI makes inside itself count against a bound that somebody has set, and
// not against the one that every pipeline has.
func TestCallsInsideACLI(t *testing.T) {
	t.Parallel()
	const talks = `-- talks.yaml --
name: talks
agents:
  - {name: work, stage_order: 1, worker: {name: hand, prompt: Write it.}, default_next: sum}
  - {name: sum, stage_order: 2, HOW}
-- script.yaml --
version: 1
answers: [{text: Done.}]
`
	const again, byModel = "worker: {name: hand, prompt: Once more.}", "model: {name: first, prompt: Sum it up.}"
	for bound, c := range map[string]struct {
		second       string
		code, starts int
	}{
		"":                    {byModel, 0, 1},
		"max_llm_calls: 20\n": {byModel, 5, 1}, // 30 were made
		"max_llm_calls: 30\n": {again, 5, 1},   // nothing is left
		"max_llm_calls: 60\n": {again, 0, 2},
	} {
		t.Run(bound, func(t *testing.T) {
			t.Parallel()
			w := newFake(t, "talks much", strings.NewReplacer("agents:", bound+"agents:", "HOW", c.second).Replace(talks))
			w.configure("workers:", "models: {first: {provider: scripted, script: script.yaml}}\nworkers:")
			r := w.Must(c.code, "run", "talks.yaml", "--unattended")
			if c.code == 5 {
				r.Says(t, "max_llm_calls")
			}
			if w.starts() != c.starts {
				t.Errorf("%d starts\n%v", w.starts(), r)
			}
			w.Must(0, "verify", "@")
		})
	}
}

// Ten workers beside each other share what the run may cost: they overshoot it by what was
// in flight, and for whom nothing is left is not started.
func TestWorkersShareABound(t *testing.T) {
	t.Parallel()
	pipeline := "-- crowd.yaml --\nname: crowd\nmax_cost_usd: \"1.00\"\nmax_parallel: 10\nagents:\n"
	for i := range 10 {
		pipeline += fmt.Sprintf("  - {name: w%d, entry: true, worker: {name: hand, prompt: Do it.}}\n", i)
	}
	w := newFake(t, "costs half a dollar", pipeline)
	w.configure("grace: 1s", "grace: 1s, cost_usd: \"0.30\"")
	w.Must(5, "run", "crowd.yaml", "--unattended").Says(t, "max_cost_usd")
	run := w.runs()[0]
	if got := strings.Join(w.outcomes(run), " "); got != "reported reported reported reported" || w.starts() != 4 { // 0.30, 0.30, 0.30 and the 0.10 that are left
		t.Errorf("the outcomes are %q after %d starts", got, w.starts())
	}
	if used := w.used(run, "cost_usd"); used != "2.00" {
		t.Errorf("it has cost %s", used)
	}
	if all := w.workerSessions(); len(all) != 4 {
		t.Errorf("who was not started has a session: %+v", all)
	}
	w.Must(0, "verify", run)
	w.nothingRuns()
}

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// theSession stands for the session of the turn before.
const theSession = "SESSION"

// scene is something that agents do, with everything in it that a crash can fall
// into.
type scene struct {
	files   string
	begin   []string // the command that starts its run
	answer  func(user string, step int) said
	effects map[string]string   // what once calls leave in the file effects, by path
	decide  map[string][]string // how a person decides gates, by kind
	ended   func(w *workspace, run string)
	deaf    bool // its model is no mind: nobody counts how often it is asked
}

// minds declares the tools that agents use here, and their model.
const minds = `-- tipstaff.yaml --
allowed_effects: [read, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh]
    tools:
      read_file: {effect: read}
      exec: {effect: once}
models:
  mind: {provider: openai-chat, model: mind, base_url: "$env:MIND_URL", api_key: "$env:MIND_KEY"}
agents:
  default: {model: mind, tools: [mcp://builtin/read_file@1.0.0, mcp://builtin/exec@1.0.0]}
policy:
  rules:
    - {id: reads, tool: "builtin/*", effect: read, do: allow}
default_skill: skill://marks@1.0.0
-- skills/marks/skill.yaml --
id: marks
version: 1.0.0
verbs: [deliver]
tools: [mcp://builtin/exec@1.0.0]
sub_skills: none
-- skills/marks/SKILL.md --
---
name: marks
description: Leaves marks.
---
Leave a mark.
-- a.txt --
A
-- b.txt --
B
`

// marks is the arguments of a program that leaves a line in the file effects.
func marks(name string) string {
	return fmt.Sprintf(`{"argv":["sh","-c","echo %s | tee -a effects"]}`, name)
}

// aTurn has two reads at once, a call that is asked about, one that the answer
// covers as well, and a read after it.
var aTurn = scene{
	files: minds,
	begin: []string{"chat", "Leave two marks.", "--approve", "park", "--session", theSession},
	answer: func(_ string, step int) said {
		r := said{at: fmt.Sprintf("turn/model#%d", step)}
		switch step {
		case 1:
			r.text, r.calls = "I look at both notes first.", []string{"read_file", `{"path":"a.txt"}`, "read_file", `{"path":"b.txt"}`}
		case 2:
			r.text, r.calls = "Now the first.", []string{"exec", marks("first")}
		case 3:
			r.calls = []string{"exec", marks("second"), "read_file", `{"path":"a.txt"}`}
		default:
			r.text = "Both marks are left."
		}
		return r
	},
	effects: map[string]string{"turn/tool#2.1": "first", "turn/tool#3.1": "second"},
	decide:  map[string][]string{"approval": {"allow_all"}},
	ended: func(w *workspace, run string) {
		if got := w.show(run).Outputs; !strings.Contains(string(got), "Both marks are left.") {
			w.Errorf("outputs %s", got)
		}
	},
}

// aRehearsal is that turn with answers from a script, which keeps no count either.
var aRehearsal = func() scene {
	s := aTurn
	s.deaf = true
	s.files = strings.Replace(minds, `{provider: openai-chat, model: mind, base_url: "$env:MIND_URL", api_key: "$env:MIND_KEY"}`, "{provider: scripted, script: script.yaml}", 1) +
		"-- script.yaml --\nversion: 1\nanswers:\n  - {when: {user: Hello}, text: Good morning.}\n"
	for step := 1; step <= 4; step++ {
		r := s.answer("", step)
		s.files += fmt.Sprintf("  - {chunks: 3, text: %q, calls: [", r.text)
		for i := 0; i < len(r.calls); i += 2 {
			s.files += fmt.Sprintf("{tool: builtin/%s, args: %s},", r.calls[i], r.calls[i+1])
		}
		s.files += "]}\n"
	}
	return s
}()

// twoSteps are steps of a plan that agents do side by side.
var twoSteps = scene{
	files: minds + `-- steps.yaml --
kind: plan
version: 1
tools: [mcp://builtin/read_file@1.0.0, mcp://builtin/exec@1.0.0]
root:
  kind: parallel
  children:
    - {id: left, kind: step, prompt: Leave a mark to the left.}
    - {id: right, kind: step, prompt: Leave a mark to the right.}
outputs: {left: "${left.output}", right: "${right.output}"}
`,
	begin: []string{"run", "steps.yaml", "--unattended"},
	answer: func(user string, step int) said {
		side := "left"
		if strings.Contains(user, "right") {
			side = "right"
		}
		r := said{at: fmt.Sprintf("root/%s/model#%d", side, step)}
		switch step {
		case 1:
			r.text, r.calls = "I look first.", []string{"read_file", `{"path":"a.txt"}`}
		case 2:
			r.calls = []string{"exec", marks(side)}
		default:
			r.text = "To the " + side + "."
		}
		return r
	},
	effects: map[string]string{"root/left/tool#2.1": "left", "root/right/tool#2.1": "right"},
	decide:  map[string][]string{"approval": {"allow"}},
	ended: func(w *workspace, run string) {
		if got, want := canonical(w, w.show(run).Outputs), `{"left":"To the left.","right":"To the right."}`; got != want {
			w.Errorf("outputs %s, want %s", got, want)
		}
	},
}

// aDraft is a plan that a model writes after it has asked something.
var aDraft = scene{
	files: minds,
	begin: []string{"do", "Leave a mark", "--unattended"},
	answer: func(user string, _ int) said {
		if !strings.Contains(user, "Which one?") {
			return said{at: "draft/try#1/model#1", text: `{"questions": [{"id": "which", "prompt": "Which one?", "type": "text", "required": true}]}`}
		}
		return said{at: "draft@2/try#2/model#1", text: `{"kind": "plan", "version": 1, "skill": "skill://marks@1.0.0",
 "intent": {"verb": "deliver", "objects": [{"name": "mark", "value": "one"}]},
 "root": {"kind": "sequential", "children": [{"id": "leave", "kind": "tool_call", "tool": "mcp://builtin/exec@1.0.0", "args": ` + marks("drafted") + `}]},
 "outputs": {"left": "${leave.output.stdout}"}}`}
	},
	effects: map[string]string{"root/leave": "drafted"},
	decide:  map[string][]string{"clarification": {"answer", "--answer", `{"which":"the first"}`}, "confirmation": {"accept"}, "approval": {"allow"}},
	ended: func(w *workspace, run string) {
		if got, want := canonical(w, w.show(run).Outputs), `{"left":"drafted\n"}`; got != want {
			w.Errorf("outputs %s, want %s", got, want)
		}
	},
}

// take brings a run of the scene to its end, and answers what is asked as always
// the same person would.
func (s *scene) take(w *workspace, run string, results map[string]json.RawMessage) {
	w.Helper()
	for range 12 {
		r := w.Run("resume", run, "--unattended")
		switch {
		case r.Code == 0, r.Code == 3 && w.show(run).State == "completed":
			return
		case r.Code != 4:
			w.Fatalf("%v", r)
		}
		s.settle(w, run, results)
	}
	w.Fatal("twelve times taken up, and it has not ended")
}

// settle decides every open gate of a run. Who is asked about a call that nobody saw
// end looks whether it was made: results has what it gave then.
func (s *scene) settle(w *workspace, run string, results map[string]json.RawMessage) {
	w.Helper()
	for _, g := range w.show(run).OpenGates {
		how := s.decide[g.Kind]
		if g.Kind == "in_doubt" {
			path, _, _ := strings.Cut(g.Key, "/in_doubt")
			how = []string{"retry"}
			if w.happened(s.effects[path]) {
				how = []string{"use_result", "--answer", string(results[path])}
			}
		}
		if how == nil {
			w.Fatalf("nobody expects a gate of kind %s: %+v", g.Kind, g)
		}
		w.Must(0, append([]string{"decide", run, g.ID}, how...)...)
	}
}

// performance is what a run of a scene has left that any other run of it leaves, too.
type performance struct {
	Session string              // the head of the conversation
	Events  map[string][]string // of agents, by path
	Effects string
	Asked   []string // model calls with a recorded end, by path
	Drafted []string // digests of plans
}

// performed checks that a run has ended well, and says what it left.
func (s *scene) performed(w *workspace, run string, m *mind, key string) performance {
	w.Helper()
	if shown := w.show(run); shown.State != "completed" || shown.Outcome != "success" {
		w.Fatalf("the run is %s (%s)", shown.State, shown.Outcome)
	}
	s.ended(w, run)
	before := len(m.heard(key))
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
	if after := m.heard(key); len(after) != before {
		w.Errorf("verify and replay asked the model for %v", after[before:])
	}
	records := w.journal(run)
	w.doubtsAreExact(records)
	if left := w.leftOver(run); len(left) > 0 {
		w.Errorf("processes of the run are still there: %v", left)
	}
	p := performance{Events: map[string][]string{}, Effects: w.effects(), Asked: finishedModelCalls(records)}
	for _, r := range records {
		switch {
		case strings.HasPrefix(r.Kind, "agent."):
			p.Events[r.Path] = append(p.Events[r.Path], r.Kind+" "+withoutChance(w, r.Body))
		case r.Kind == "plan.drafted":
			p.Drafted = append(p.Drafted, r.field("program_digest"))
		}
	}
	var last struct {
		Evidence struct{ Session struct{ Head string } }
	}
	w.Check(json.Unmarshal(records[len(records)-1].Body, &last))
	p.Session = last.Evidence.Session.Head
	return p
}

// withoutChance is the body of an event but for what no two runs have in common: how
// long something took, how often it was broken off, and by which gate it was allowed.
// A result that a person gave is recorded in other bytes than the tool's own.
func withoutChance(w *workspace, body json.RawMessage) string {
	w.Helper()
	var fields map[string]any
	w.Check(json.Unmarshal(body, &fields))
	for _, name := range []string{"duration_ms", "attempts", "gate", "ref"} {
		delete(fields, name)
	}
	b, err := json.Marshal(fields) // of maps: sorted
	w.Check(err)
	return string(b)
}

// finishedModelCalls are the paths of model calls whose answer is recorded, sorted.
func finishedModelCalls(records []record) (paths []string) {
	for _, r := range records {
		if r.Kind == "effect.finished" && r.field("name") == "model.call" {
			paths = append(paths, r.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// stage is a recorded performance of a scene.
type stage struct {
	*scene
	*tape
	mind    *mind
	whole   performance
	results map[string]json.RawMessage // of once calls, by path
}

// play records an undisturbed run of the scene, behind another one in the same store.
func (s *scene) play(t *testing.T) *stage {
	t.Helper()
	st := &stage{scene: s, tape: newTape(t, s.files), mind: newMind(t, s.answer), results: map[string]json.RawMessage{}}
	begin := st.greet(st.workspace)
	key := st.mind.known(st.workspace, "undisturbed")
	st.record(func() string {
		st.Must(4, begin...)
		run := st.runs()[0]
		s.settle(st.workspace, run, nil)
		s.take(st.workspace, run, nil)
		return run
	})
	st.whole = s.performed(st.workspace, st.run, st.mind, key)
	asked := st.mind.heard(key)
	slices.Sort(asked)
	if diff := cmp.Diff(st.whole.Asked, asked); diff != "" && !s.deaf {
		t.Fatalf("undisturbed, the model is asked for something else than what is recorded (-recorded +asked):\n%s", diff)
	}
	if want := strings.Join(slices.Sorted(maps.Values(s.effects)), " "); st.whole.Effects != want {
		t.Fatalf("undisturbed it leaves %q, want %q", st.whole.Effects, want)
	}
	for _, r := range st.journal(st.run) {
		if r.Kind != "effect.finished" || s.effects[r.Path] == "" {
			continue
		}
		var body struct{ Value json.RawMessage }
		st.Check(json.Unmarshal(r.Body, &body))
		st.results[r.Path] = body.Value
	}
	return st
}

// greet makes the store with a turn before, and returns the command that begins the
// scene behind it.
func (st *stage) greet(w *workspace) (begin []string) {
	w.Helper()
	st.mind.known(w, "greeting")
	var greeted struct{ Session string }
	lines := strings.Split(strings.TrimSpace(w.Must(0, "chat", "Hello.", "--json").Out), "\n")
	w.Check(json.Unmarshal([]byte(lines[len(lines)-1]), &greeted))
	begin = slices.Clone(st.begin)
	if i := slices.Index(begin, theSession); i >= 0 {
		begin[i] = greeted.Session
	}
	return begin
}

// same checks that a run that was broken off has left what the undisturbed one did.
func (st *stage) same(w *workspace, got performance) {
	w.Helper()
	if diff := cmp.Diff(st.whole, got); diff != "" {
		w.Errorf("it came out otherwise (-undisturbed +broken off):\n%s", diff)
	}
}

// world is what the journal of a scene implies.
func (st *stage) world(w *workspace, records []record, happened bool) (underWay int) {
	w.Helper()
	return w.imply(records, happened, maps.All(st.effects))
}

// TestKillTurnAtEveryCommit takes up what agents do where it died right behind its
// n-th commit, with calls under way that did and that did not happen: the
// conversation and the events are those of the undisturbed run, and whatever answer
// was recorded is not asked for again.
func TestKillTurnAtEveryCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		*scene
		every int // so many commits, in short tests
	}{"turn": {&aTurn, 6}, "rehearsal": {&aRehearsal, 20}, "steps": {&twoSteps, 20}, "draft": {&aDraft, 20}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := c.play(t)
			first, step := places(t, c.every)
			for i := first; i < len(st.cuts); i += step {
				t.Run(fmt.Sprint(i+1), func(t *testing.T) {
					t.Parallel()
					if st.takeUp(t, st.cuts[i], false) {
						st.takeUp(t, st.cuts[i], true)
					}
				})
			}
		})
	}
}

// takeUp takes up a run that was left with this much of the log. It reports whether
// a once call was under way: if so, it has happened or not.
func (st *stage) takeUp(t *testing.T, end int, happened bool) (underWay bool) {
	t.Helper()
	w := st.cut(t, st.log[:end])
	key := st.mind.known(w, fmt.Sprintf("%s-%t", t.Name(), happened))
	if len(w.runs()) < 2 { // the commit was of the blobs that a run is made of
		return false
	}
	records := w.journal(st.run)
	underWay = st.world(w, records, happened) > 0
	st.take(w, st.run, st.results)
	asked, recorded := st.mind.heard(key), finishedModelCalls(records)
	slices.Sort(asked)
	if diff := cmp.Diff(st.whole.Asked, slices.Sorted(slices.Values(slices.Concat(recorded, asked)))); diff != "" && !st.deaf {
		t.Errorf("recorded are %v, and then the model was asked for %v:\n%s", recorded, asked, diff)
	}
	st.same(w, st.performed(w, st.run, st.mind, key))
	return underWay
}

// TestKillTurnAsItHappens kills the process that takes a turn at moments spread over
// all of it: while it reads an answer, while tools run, between commits.
func TestKillTurnAsItHappens(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	st := aTurn.play(t)
	records, n := len(st.journal(st.run)), max(4, kills(t)/6)
	for i := range n {
		t.Run(fmt.Sprint(1+i*records/n), func(t *testing.T) {
			t.Parallel()
			st.killAfter(t, int64(1+i*records/n))
		})
	}
}

// killAfter kills whoever drives the run when it has so many records.
func (st *stage) killAfter(t *testing.T, records int64) {
	t.Helper()
	w := newWorkspace(t, st.tape.files...)
	begin := st.greet(w)
	key := st.mind.known(w, t.Name())
	store := w.openReadOnly()
	defer store.Close()
	there := func() bool { return countRecords(store) >= records }
	records += countRecords(store)
	perish := func(args ...string) (killed bool) {
		p := w.Start(args...)
		w.Until("records", func() bool { return there() || !p.Running() })
		if there() {
			return p.Kill()
		}
		p.Wait()
		return false
	}
	killed := perish(begin...)
	run := w.runs()[0]
	for !killed && w.show(run).State != "completed" {
		st.settle(w, run, st.results)
		killed = perish("resume", run, "--unattended")
	}
	recorded, before := finishedModelCalls(w.journal(run)), len(st.mind.heard(key))
	st.take(w, run, st.results)
	for _, path := range st.mind.heard(key)[before:] {
		if slices.Contains(recorded, path) {
			t.Errorf("%s was recorded, and asked for again", path)
		}
	}
	st.same(w, st.performed(w, run, st.mind, key))
	w.Must(0, "chat", "Hello.", "--session", begin[len(begin)-1])
}

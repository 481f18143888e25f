package main

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// rounds is a pipeline that goes round twice, with two stages side by side that must
// happen only once in each round, and leave a line in the file effects; a last one
// asks whether to go on.
const rounds = `policy:
  rules: [{id: all, tool: "builtin/*", do: allow}]
-- rounds.yaml --
name: rounds
edge_limits: [{from: judge, to: split, max_count: 1}]
agents:
  - {name: split, scripted: {answers: [{output: {n: 1}}, {output: {n: 2}}]}}
  - name: left
    requires: [split]
    tool: {uri: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo left#${visits.left} | tee -a effects; sleep 0.03"]}}
  - name: right
    requires: [split]
    tool: {uri: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "sleep 0.03; echo right#${visits.right} | tee -a effects"]}}
  - name: judge
    requires: [left, right]
    scripted: {answers: [{output: {verdict: again}}, {output: {verdict: good}}]}
    routing_rules:
      - {condition: verdict, value: again, target: split}
      - {when: "true", target: confirmation, then: end}
`

// roundsDone is what an undisturbed run of it comes to.
var roundsDone = struct {
	outputs, effects string
	transitions      []string
}{
	`{"judge":{"verdict":"good"},"left":{"exit_code":0,"stderr":"","stdout":"left#2\n"},"right":{"exit_code":0,"stderr":"","stdout":"right#2\n"},"split":{"n":2}}`,
	"left#1 left#2 right#1 right#2",
	[]string{"start split start 0", "judge split reintent 1", "judge confirmation interrupt 1", "judge end resume 1"},
}

// throughRounds takes a run of it to its end, with a yes where it is asked for.
func (w *workspace) throughRounds(run string) {
	w.Helper()
	for range 12 {
		r := w.Run("resume", run, "--unattended")
		switch {
		case r.Code == 0, r.Code == 3 && w.show(run).State == "completed":
			return
		case r.Code != 4:
			w.Fatalf("%v", r)
		}
		w.settleDoubts(run, func(args ...string) { w.Must(0, args...) })
		for _, g := range w.show(run).OpenGates {
			if g.Kind == "confirmation" {
				w.Must(0, "decide", run, g.ID, "approve")
			}
		}
	}
	w.Fatal("twelve times taken up, and it has not ended")
}

// roundsFinished checks a run of it that has come to its end, however often it was
// broken off on the way.
func (w *workspace) roundsFinished(run string) {
	w.Helper()
	s := w.show(run)
	if s.State != "completed" || s.Outcome != "success" {
		w.Errorf("the run is %s (%s)", s.State, s.Outcome)
	}
	if got := canonical(w, s.Outputs); got != roundsDone.outputs {
		w.Errorf("outputs %s, undisturbed %s", got, roundsDone.outputs)
	}
	if got := w.effects(); got != roundsDone.effects {
		w.Errorf("effects %q, undisturbed %q", got, roundsDone.effects)
	}
	records := w.journal(run)
	var transitions []string
	finished := map[string]int{}
	for _, r := range records {
		switch r.Kind {
		case "transition":
			transitions = append(transitions, strings.Join([]string{r.field("from"), r.field("to"), r.field("reason"), r.field("iteration")}, " "))
		case "stage.finished":
			finished[r.Path]++
		}
	}
	if diff := cmp.Diff(roundsDone.transitions, transitions); diff != "" {
		w.Errorf("it went elsewhere (-undisturbed +broken off):\n%s", diff)
	}
	for _, stage := range []string{"split#1", "left#1", "right#1", "judge#1", "split#2", "left#2", "right#2", "judge#2"} {
		if finished[stage] != 1 {
			w.Errorf("%s finished %d times", stage, finished[stage])
		}
		delete(finished, stage)
	}
	if len(finished) > 0 {
		w.Errorf("more stages finished: %v", finished)
	}
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
	w.doubtsAreExact(records)
	if left := w.leftOver(run); len(left) > 0 {
		w.Errorf("processes of the run are still there: %v", left)
	}
}

// roundsWorld is what the journal of rounds implies.
func (w *workspace) roundsWorld(records []record, happened bool) (underWay int) {
	w.Helper()
	return w.imply(records, happened, func(yield func(string, string) bool) {
		for _, path := range strings.Fields(roundsDone.effects) {
			if !yield(path, path) {
				return
			}
		}
	})
}

// imply leaves in a workspace what its journal implies: the lines of calls, which lines
// has by path, that have ended, and of those under way if happened says so. It returns how
// many are.
func (w *workspace) imply(records []record, happened bool, lines iter.Seq2[string, string]) (underWay int) {
	w.Helper()
	state := map[string]string{}
	for _, r := range records {
		if r.Kind == "effect.intended" || r.Kind == "effect.finished" {
			state[r.Path] = r.Kind
		}
	}
	effects := ""
	for path, line := range lines {
		open := state[path] == "effect.intended"
		if open {
			underWay++
		}
		if state[path] == "effect.finished" || open && happened {
			effects += line + "\n"
		}
	}
	w.Write("effects", effects)
	return underWay
}

// TestKillPipelineAtEveryCommit takes up a pipeline that loops and has parallel
// stages where it died right behind its n-th commit: it ends like the undisturbed
// one, and no stage that had finished runs again.
func TestKillPipelineAtEveryCommit(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	tp := newTape(t, manifest+rounds, small)
	tp.Must(0, "run", "small.yaml")
	tp.record(func() string {
		tp.Must(4, "run", "rounds.yaml", "--unattended")
		run := tp.runs()[0]
		tp.Must(0, "decide", run, "judge#2/confirmation", "approve")
		tp.Must(0, "resume", run, "--unattended")
		return run
	})
	tp.roundsFinished(tp.run)
	first, step := places(t, 4)
	for i := first; i < len(tp.cuts); i += step {
		end := tp.cuts[i]
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			t.Parallel()
			for _, happened := range []bool{false, true} {
				w := tp.cut(t, tp.log[:end])
				if len(w.runs()) < 2 { // the commit was of the blobs that a run is made of
					return
				}
				underWay := w.roundsWorld(w.journal(tp.run), happened)
				w.throughRounds(tp.run)
				w.roundsFinished(tp.run)
				if underWay == 0 { // then it makes no difference
					return
				}
			}
		})
	}
}

// TestForgedPipeline changes a finished run with the real keys: its bytes are in
// order, but the pipeline would have gone elsewhere.
func TestForgedPipeline(t *testing.T) {
	t.Parallel()
	original := newWorkspace(t, manifest+rounds)
	original.Must(4, "run", "rounds.yaml", "--unattended")
	original.Must(0, "decide", "@", "judge#2/confirmation", "approve")
	original.Must(0, "resume", "@", "--unattended")
	original.roundsFinished(original.runs()[0])
	jump := func(b *book) int { return b.at("checkpoint.created") + 1 }
	attacks := map[string]func(b *book){
		"another route":      func(b *book) { b.edit(jump(b), `"to":"split"`, `"to":"left"`) },
		"another reason":     func(b *book) { b.edit(jump(b), `"reintent"`, `"routing"`) },
		"another rule":       func(b *book) { b.edit(jump(b), `"rule":1`, `"rule":2`) },
		"another iteration":  func(b *book) { b.edit(jump(b), `"iteration":1`, `"iteration":0`) },
		"another edge count": func(b *book) { b.edit(jump(b), `"edge_count":1`, `"edge_count":2`) },
		"a route left out":   func(b *book) { i := jump(b); b.remove(i, i+1) },
		"another visit":      func(b *book) { b.edit(b.at("stage.started", "left#2"), `"visit":2`, `"visit":3`) },
		"another verdict":    func(b *book) { b.edit(b.at("stage.finished", "judge#1"), `"again"`, `"good"`) },
		"another checkpoint": func(b *book) { b.edit(b.at("checkpoint.created"), `"turn":3`, `"turn":2`) },
		"a larger limit":     func(b *book) { b.edit(b.at("intent.draft"), `"iterations":3`, `"iterations":4`) },
		"no iteration taken": func(b *book) { b.edit(b.at("effect.intended", "split#2/begin"), `"iterations":1`, `"iterations":0`) },
		"a stage left out":   func(b *book) { i := b.at("stage.finished", "right#1"); b.remove(i, i+1) },
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			b := w.openBook()
			attack(b)
			b.forge(w.keys())
			w.found(7, "replay_mismatch", "outcome", "evidence", "engine_rule", "not_accepted", "invalid_transition")
		})
	}
}

// TestForgedBound says of a pipeline that a bound has ended that there was more.
func TestForgedBound(t *testing.T) {
	t.Parallel()
	endless := strings.NewReplacer("edge_limits: [{from: judge, to: split, max_count: 1}]\n", "", "{output: {verdict: again}}, {output: {verdict: good}}", "{output: {verdict: again}}")
	original := newWorkspace(t, manifest+endless.Replace(rounds))
	original.Must(5, "run", "rounds.yaml", "--unattended")
	attacks := map[string]func(b *book){
		"another bound":  func(b *book) { b.edit(b.at("bound.refused"), `"iterations"`, `"edge_limits"`) },
		"a higher limit": func(b *book) { b.edit(b.at("bound.refused"), `"limit":3`, `"limit":9`) },
		"a larger bound": func(b *book) { b.edit(b.at("intent.draft"), `"iterations":3`, `"iterations":4`) },
		"never refused":  func(b *book) { i := b.at("bound.refused"); b.remove(i, i+1) },
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			b := w.openBook()
			b.state = "failed"
			attack(b)
			b.forge(w.keys())
			w.found(7, "replay_mismatch", "outcome", "evidence", "engine_rule")
		})
	}
}

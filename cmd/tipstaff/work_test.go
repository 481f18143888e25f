package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// work is a plan with everything a crash can fall into: calls that must happen
// only once, one after another and side by side, a call that is made again when
// it fails, reads, a write, a gate. Each exec leaves a line in the file effects,
// so that an effect that happened twice is seen outside of Tipstaff. One does so
// at its beginning and one at its end, so that a kill finds either.
const work = `-- work.yaml --
kind: plan
version: 1
name: work
root:
  kind: sequential
  children:
    - {id: first, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo first | tee -a effects"]}}
    - kind: parallel
      children:
        - kind: sequential
          children:
            - {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 20ms}}
            - {id: left, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo left | tee -a effects; sleep 0.03"]}}
            - {id: note, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: note.txt, content: "${left.output.stdout}"}}
        - {id: right, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "sleep 0.03; echo right | tee -a effects"]}}
        - {id: flaky, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: missing.txt}, on_error: continue,
           retry: {max: 2, backoff: 10ms, on: [tool_error]}}
        - {id: ask, kind: gate, question: Go on?}
    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}
    - {id: last, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo last | tee -a effects"]}}
outputs: {first: "${first.output.stdout}", note: "${look.output.text}", right: "${right.output.stdout}", last: "${last.output.stdout}", asked: "${ask.output.action}"}
`

// workDone is what an undisturbed run of the plan comes to.
var workDone = struct {
	outcome, outputs, effects string
}{
	"partial", // flaky never succeeds
	`{"asked":"approve","first":"first\n","last":"last\n","note":"left\n","right":"right\n"}`,
	"first last left right",
}

// effects are the names that the plan's programs left, sorted. One that stands
// there twice happened twice.
func (w *workspace) effects() string {
	names := strings.Fields(w.Read("effects" + w.tag))
	sort.Strings(names)
	return strings.Join(names, " ")
}

// happened reports whether the effect of a node was seen.
func (w *workspace) happened(node string) bool {
	return strings.Contains(" "+w.effects()+" ", " "+node+" ")
}

// settleDoubts answers every gate about a call whose end nobody saw, as a careful
// person would: by looking at what is there.
func (w *workspace) settleDoubts(run string, decide func(args ...string)) {
	w.Helper()
	for _, g := range w.show(run).OpenGates {
		if g.Kind != "in_doubt" {
			continue
		}
		node := filepath.Base(g.Path)
		if !w.happened(node) {
			decide("decide", run, g.ID, "retry")
			continue
		}
		answer := fmt.Sprintf(`{"exit_code":0,"stderr":"","stdout":"%s\n"}`, node)
		decide("decide", run, g.ID, "use_result", "--answer", answer, "--note", "its line is in the file")
	}
}

// finished checks a run of the plan that has come to its end, however often it
// was broken off on the way.
func (w *workspace) finished(run string) {
	w.Helper()
	s := w.show(run)
	if s.State != "completed" || s.Outcome != workDone.outcome {
		w.Errorf("the run is %s (%s), undisturbed it is completed (%s)", s.State, s.Outcome, workDone.outcome)
	}
	if got := canonical(w, s.Outputs); got != workDone.outputs {
		w.Errorf("outputs %s, undisturbed %s", got, workDone.outputs)
	}
	if got := w.effects(); got != workDone.effects {
		w.Errorf("effects %q, undisturbed %q", got, workDone.effects)
	}
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
	w.doubtsAreExact(w.journal(run))
	if left := w.leftOver(run); len(left) > 0 {
		w.Errorf("processes of the run are still there: %v", left)
	}
}

func canonical(w *workspace, b json.RawMessage) string {
	w.Helper()
	var v any
	w.Check(json.Unmarshal(b, &v))
	c, err := json.Marshal(v) // of maps: sorted
	w.Check(err)
	return string(c)
}

// attempt is one of the attempts of a call.
type attempt struct{ path, number string }

// doubtsAreExact checks that a gate was opened for exactly those attempts of once
// calls that were announced in one drive and had no end when the next began.
func (w *workspace) doubtsAreExact(records []record) {
	w.Helper()
	underWay, lost, asked := map[string]attempt{}, map[attempt]bool{}, map[attempt]bool{}
	for _, r := range records {
		switch {
		case r.Kind == "effect.intended" && r.field("class") == "once":
			underWay[r.Path] = attempt{r.Path, r.field("attempt")}
		case r.Kind == "effect.finished":
			delete(underWay, r.Path)
		case r.Kind == "run.resumed":
			for _, a := range underWay {
				lost[a] = true
			}
		case r.Kind == "policy.gate" && r.field("gate_kind") == "in_doubt":
			a := underWay[filepath.Dir(r.Path)]
			if !lost[a] {
				w.Errorf("seq %d: %s is in doubt, but no attempt was broken off", r.Seq, r.Path)
			}
			if asked[a] {
				w.Errorf("seq %d: %s was asked about before", r.Seq, r.Path)
			}
			asked[a] = true
		}
	}
	for a := range lost {
		if !asked[a] {
			w.Errorf("attempt %s of %s was broken off and nobody was asked about it", a.number, a.path)
		}
	}
}

// leftOver are the processes that carry a run's marker and work in this workspace:
// copies of a store have runs of the same id. Where there is no /proc it finds none.
func (w *workspace) leftOver(run string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(env), "TIPSTAFF_RUN_ID="+run+"\x00") {
			continue
		}
		if cwd, err := os.Readlink(filepath.Join(filepath.Dir(name), "cwd")); err != nil || cwd != w.Dir {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func quoteJSON(w *workspace, text string) string {
	w.Helper()
	b, err := json.Marshal(text)
	w.Check(err)
	return string(b)
}

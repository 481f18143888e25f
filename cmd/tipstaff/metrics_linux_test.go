package main

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// thrice is a pipeline that uses something before, in and after a call that is killed.
const thrice = `-- thrice.yaml --
name: thrice
agents:
  - {name: first, stage_order: 1, default_next: slow, scripted: {answers: [{output: {}, usage: {llm_calls: 1, tokens_in: 10, tokens_out: 3}}]}}
  - name: slow
    stage_order: 2
    default_next: last
    tool: {uri: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo slow | tee -a effects; while ! test -e enough; do sleep 0.01; done"]}}
  - {name: last, stage_order: 3, scripted: {answers: [{output: {}, usage: {llm_calls: 2, tokens_in: 20, tokens_out: 4}}]}}
`

// answered is what a tool answers, by name.
func (a asker) answered(tool string, args map[string]any, into any) {
	a.Helper()
	answer, code, err := callTool(a.tools.Context(), a.tools.ClientSession, tool, args)
	if err != nil || code != "" {
		a.Fatalf("%s: %s, %v", tool, code, err)
	}
	a.Check(json.Unmarshal(answer, into))
}

// isToldAs checks the status of a run, which every list tells as the run itself does.
func (a asker) isToldAs(run tipstaff.ID, status string) {
	a.Helper()
	var told tipstaff.RunStatus
	a.answered("run_status", map[string]any{"run_id": run}, &told)
	var history tipstaff.RunHistory
	a.answered("run_history", map[string]any{"status": []string{status}}, &history)
	if told.Status != status || len(history.Runs) != 1 || history.Runs[0].Run != run || history.Runs[0].Status != status {
		a.Errorf("it is %s, want %s; the history has %+v", told.Status, status, history.Runs)
	}
}

// addsUp checks that the rows of a run's metrics are its totals, and returns these.
func (a asker) addsUp(run tipstaff.ID) map[string]any {
	a.Helper()
	var total map[string]any
	a.answered("run_metrics", map[string]any{"run_id": run}, &total)
	for _, by := range []string{"steps", "agents"} {
		sums, exact := map[string]float64{}, true
		for _, row := range total[by].([]any) {
			for name, v := range row.(map[string]any) {
				switch v := v.(type) {
				case float64:
					sums[name] += v
				case bool:
					exact = exact && v
				}
			}
		}
		if len(sums) == 0 || exact != total["exact"].(bool) {
			a.Errorf("%s have %d figures, exact %t", by, len(sums), exact)
		}
		for _, name := range slices.Sorted(maps.Keys(sums)) {
			if math.Abs(sums[name]-total[name].(float64)) > 1e-9 {
				a.Errorf("%s of all %s is %v, in total it is %v", name, by, sums[name], total[name])
			}
		}
	}
	if wall, parts := total["wall_s"].(float64), total["active_s"].(float64)+total["waiting_s"].(float64); math.Abs(wall-parts) > 0.01 {
		a.Errorf("it took %v seconds, %v of them driven or waiting", wall, parts)
	}
	return total
}

// What a run has used adds up over three launches, of which one was killed and one parked,
// and lists tell its status as the run does, wherever it stands.
func TestMetricsOfThreeLaunches(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, thrice)
	w.endLaunched()
	a := asker{w, w.overStdio(t, "2026-07-28", "--decide")}
	s := a.tools.call("", "run_start", map[string]any{"program_file": "thrice.yaml"})
	of := map[string]any{"run_id": s.Run}
	w.Until("the program's line", func() bool { return w.happened("slow") })
	a.isToldAs(s.Run, tipstaff.StatusRunning)
	a.addsUp(s.Run)
	killPid(s.Pid)
	a.rests(s.Run)
	a.isToldAs(s.Run, string(tipstaff.Interrupted))
	a.addsUp(s.Run)
	a.tools.call("", "run_resume", of)
	a.rests(s.Run)
	a.isToldAs(s.Run, tipstaff.StatusAwaitingDecision)
	a.addsUp(s.Run)
	a.decided(s.Run, "retry")
	a.isToldAs(s.Run, tipstaff.StatusAwaitingResume)
	w.Write("enough", "")
	a.tools.call("", "run_resume", of)
	a.rests(s.Run)
	a.isToldAs(s.Run, string(tipstaff.Completed))
	if n := w.records(s.Run.String(), "run.launched"); n != 3 {
		t.Errorf("it was launched %d times", n)
	}
	total := a.addsUp(s.Run)
	for name, want := range map[string]float64{"model_calls": 3, "tool_calls": 2, "tokens_in": 30, "tokens_out": 7, "gates": 1} {
		if total[name] != want {
			t.Errorf("%s is %v, want %v", name, total[name], want)
		}
	}
}

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// mutations are the tools that change something, with what each is told of a run that a person
// or a daemon drives. To decide is not to drive: those tools are refused for what they were
// given, and a fork is another run.
var mutations = map[string]struct {
	args map[string]any
	code tipstaff.Code
}{
	"run_start":            {map[string]any{"fork_at_seq": 1000}, tipstaff.CursorBeyondHead},
	"run_resume":           {nil, tipstaff.InspectOnly},
	"run_cancel":           {map[string]any{"mode": "hard", "wait_s": 1}, tipstaff.InspectOnly},
	"gate_decide":          {map[string]any{"action": "surprise"}, tipstaff.ActionNotOffered},
	"phase_handoff_decide": {map[string]any{"action": "continue"}, tipstaff.WrongGateKind},
	"delivery_decide":      {map[string]any{"action": "approve"}, tipstaff.WrongGateKind},
}

// mutate calls every tool that changes something for a run, which has a gate.
func (p *plane) mutate(t *testing.T, run, gate, reason string) {
	t.Helper()
	tools, err := p.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var tried int
	for _, tool := range tools.Tools {
		if tool.Annotations.ReadOnlyHint {
			continue
		}
		tried++
		m, ok := mutations[tool.Name]
		if !ok {
			t.Errorf("nobody has said what %s may do with the run of another", tool.Name)
			continue
		}
		args := map[string]any{}
		for name, v := range m.args {
			args[name] = v
		}
		switch {
		case tool.Name == "run_start":
			args["fork_of"] = run
		case strings.HasSuffix(tool.Name, "_decide"):
			args["gate_id"] = gate
			fallthrough
		default:
			args["run_id"] = run
		}
		answer, code, err := p.call(tool.Name, args)
		if err != nil || code != string(m.code) || m.code == tipstaff.InspectOnly && !strings.Contains(string(answer), `"control_reason":"`+reason+`"`) {
			t.Errorf("%s of a %s: %s, %v, %s", tool.Name, reason, code, err, answer)
		}
		if own := strings.Contains(kin, tool.Name); own == (tool.Name == "run_start") {
			t.Errorf("a process of a run tries %s: %t", tool.Name, own)
		}
	}
	if tried != len(mutations) {
		t.Errorf("%d tools change something, %d were expected to", tried, len(mutations))
	}
}

// No client drives what a person or a daemon does, with any tool, also when its server was
// started again: nothing changes, and everything can be looked at.
func TestRunsOfOthersAreOnlyInspected(t *testing.T) {
	t.Parallel()
	o := observe(t)
	const gated = `{kind: plan, version: 1, root: {id: ok, kind: gate, question: Go?}}`
	o.Write("gated.yaml", gated)
	o.Must(4, "run", "gated.yaml", "--unattended")
	reasons := map[string]string{o.show("@").ID: tipstaff.ForegroundRun, o.start(gated): tipstaff.DaemonRun}
	gates := map[string]string{}
	for run := range reasons {
		o.Until("its question", func() bool { return o.show(run).Status == tipstaff.StatusAwaitingDecision })
		gates[run] = o.show(run).OpenGates[0].ID
	}
	o.Until("the daemon to let go", func() bool { return o.count(`SELECT count(*) FROM runs WHERE owner IS NULL`) == 2 })
	o.Must(0, "ls") // whoever opens a store sees to its files
	before := o.dump()
	for range 2 {
		for run, reason := range reasons {
			o.plane.mutate(t, run, gates[run], reason)
			if n := o.lookByTools([]string{run}); n < 12 {
				t.Errorf("only %d tools look", n)
			}
		}
		if diff := cmp.Diff(before, o.dump()); diff != "" {
			t.Errorf("it has changed:\n%s", diff)
		}
		o.Check(o.plane.session.Close())
		var err error
		o.plane, err = o.workspace.plane(func(*cmdtest.Process) {})
		o.Check(err)
	}
	for run := range reasons { // a fork is the caller's own, and changes nothing of what it comes from
		kept := o.journal(run)
		if _, code, err := o.plane.call("run_start", map[string]any{"fork_of": run}); err != nil || code != "" {
			t.Errorf("forked: %s, %v", code, err)
		}
		if diff := cmp.Diff(kept, o.journal(run)); diff != "" {
			t.Errorf("a fork has changed what it was made from:\n%s", diff)
		}
	}
	o.Until("the forks to rest", func() bool { return len(o.executing()) == 0 })
}

// The process of a person goes on whatever is asked of the control plane.
func TestALivingForegroundRunIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	person := w.startLong()
	run := w.show("@").ID
	var before []record
	w.Until("all that it records before its end", func() bool { // what a program prints is recorded half a second later
		before = w.journal(run)
		return before[len(before)-1].Kind == "plan.output"
	})
	p, err := w.plane(func(*cmdtest.Process) {})
	w.Check(err)
	for _, tool := range []string{"run_resume", "run_cancel"} {
		if _, code, err := p.call(tool, map[string]any{"run_id": run}); err != nil || code != string(tipstaff.InspectOnly) {
			t.Errorf("%s: %s, %v", tool, code, err)
		}
	}
	if now := w.journal(run); !slices.EqualFunc(before, now, func(a, b record) bool { return a.Seq == b.Seq && a.Kind == b.Kind }) {
		t.Errorf("it has %d records, and had %d", len(now), len(before))
	}
	w.Write("enough", "")
	person.Must(0)
	w.Must(0, "verify", run)
}

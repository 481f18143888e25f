package runner_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
)

// held waits in a call until the file go is there.
const held = `
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "while [ ! -e go ]; do sleep 0.02; done; echo one >> effects"]}}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}
outputs: {}
`

func TestALivingOwnerTakesACorrectionUp(t *testing.T) {
	b := newBed(t)
	s := b.start(held)
	b.until(s.Run, tipstaff.KindEffectIntended)
	got, err := b.correct(s.Run, strings.Replace(held, "    - {id: two", "    - {id: ok, kind: gate, question: Go on?}\n    - {id: two", 1))
	if err != nil || got.Revision != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	// It has not been taken up yet: there is a call in flight.
	_, err = b.correct(s.Run, held)
	wantCode(t, err, tipstaff.Busy)
	b.write("go", "")
	if out := b.wait(s.Run); out.Outcome != "parked" || b.read("effects") != "one\n" {
		t.Fatalf("%+v, effects %q", out, b.read("effects"))
	}
	if steps := b.steps(s.Run); steps["root/one"] != "completed" || steps["root@2/one"] != "carried" || steps["root/two"] != "" {
		t.Errorf("steps %v", steps)
	}
	b.verified(s.Run)
}

func TestACorrectionThatIsNoPlanChangesNothing(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	head := b.get(run).Head
	for name, c := range map[string]struct {
		plan string
		code tipstaff.Code
	}{
		"two faults":       {strings.NewReplacer("kind: gate", "kind: gat", "${one.output", "${uno.output").Replace(corrected), tipstaff.CorrectionInvalid},
		"an input missing": {"inputs: {name: {type: string}}" + corrected, tipstaff.CorrectionInvalid},
		"an unknown tool":  {strings.Replace(corrected, "exec@1.0.0", "delete@1.0.0", 1), tipstaff.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.correct(run, c.plan)
			wantCode(t, err, c.code)
			if b.get(run).Head != head {
				t.Error("something was written")
			}
		})
	}
	t.Run("no reason", func(t *testing.T) {
		_, err := b.Correct(cli(), tipstaff.CorrectRequest{Run: run, Program: []byte(gentle), Reason: " "})
		wantCode(t, err, tipstaff.InvalidArgument)
	})
	t.Run("an ended run", func(t *testing.T) {
		ended, _ := b.run(`root: {id: s, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}`)
		_, err := b.correct(ended, gentle)
		wantCode(t, err, tipstaff.RunEnded)
	})
}

func TestAnUnconfirmedCorrectionTakesNoOther(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	b.corrected(run, harsh)
	head := b.get(run).Head
	_, err := b.correct(run, gentle)
	wantCode(t, err, tipstaff.Busy)
	_, err = b.Fork(cli(), forking{Run: run})
	wantCode(t, err, tipstaff.InvalidArgument)
	if b.get(run).Head != head {
		t.Error("something was written")
	}
}

// Small steps are measured from what was accepted, not from each other.
func TestSmallStepsDoNotAddUpUnseen(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	if done, _ := b.corrected(run, strings.Replace(corrected, "tool_calls: 10", "tool_calls: 11", 1)); done.Material {
		t.Fatalf("%+v", done)
	}
	if done, _ := b.corrected(run, strings.Replace(corrected, "tool_calls: 10", "tool_calls: 12", 1)); !done.Material {
		t.Fatalf("%+v", done)
	}
	// The revision that was in force, which nobody had to accept, can be kept.
	if _, err := b.decide(run, "confirm@3", "keep"); err != nil {
		t.Fatal(err)
	}
	b.resume(run)
	got := b.get(run)
	if got.State != tipstaff.Executing || got.Bounds["tool_calls"].Limit != 11 || got.OpenGates[0].Key != "root@2/ok" {
		t.Fatalf("%+v", got)
	}
	b.verified(run)
	// Accepted, twelve is what the next step is measured from.
	b.corrected(run, strings.Replace(corrected, "tool_calls: 10", "tool_calls: 12", 1))
	if _, err := b.decide(run, "confirm@4", "accept"); err != nil {
		t.Fatal(err)
	}
	b.resume(run)
	if done, _ := b.corrected(run, strings.Replace(corrected, "tool_calls: 10", "tool_calls: 13", 1)); done.Material || done.Revision != 5 {
		t.Fatalf("%+v", done)
	}
	if _, err := b.decide(run, "root@5/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Completed || b.read("effects") != "one\ntwo\n" {
		t.Fatalf("%+v", out)
	}
	b.verified(run)
	if ev := b.evidence(run); ev.Revision != 5 || ev.Bounds.Limit["tool_calls"] != 13 {
		t.Errorf("%+v", ev)
	}
}

func TestACancelledRunHonoursNoCorrection(t *testing.T) {
	b := newBed(t)
	s := b.start(held)
	b.until(s.Run, tipstaff.KindEffectIntended)
	if _, err := b.correct(s.Run, gentle); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: s.Run, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	if out := b.wait(s.Run); out.State != tipstaff.Cancelled || b.read("effects") != "" {
		t.Fatalf("%+v, effects %q", out, b.read("effects"))
	}
	b.verified(s.Run)
}

func TestARunThatWaitsToBeConfirmedCanBeCancelled(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	b.corrected(run, harsh)
	got, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Reason: "enough"})
	if err != nil || got.State != tipstaff.Cancelled {
		t.Fatalf("%+v %v", got, err)
	}
	b.verified(run)
	if ev := b.evidence(run); ev.Revision != 1 || ev.Counts["completed"] != 1 {
		t.Errorf("%+v", ev)
	}
}

// The revised plan gets the inputs of the run, as far as it knows them.
func TestARevisionHasTheInputsOfTheRun(t *testing.T) {
	b := newBed(t)
	plan := `
inputs: {who: {type: string}, old: {type: string}}
root: {id: ok, kind: gate, question: Go on?}
outputs: {who: "${input.who}"}
`
	run, _ := b.run(plan, func(r *tipstaff.StartRequest) {
		r.Inputs = map[string]json.RawMessage{"who": json.RawMessage(`"me"`), "old": json.RawMessage(`"x"`)}
	})
	b.corrected(run, `
inputs: {who: {type: string}, new: {type: string, default: fresh}}
root: {id: ok, kind: gate, question: Really?}
outputs: {who: "${input.who}", new: "${input.new}"}
`)
	if _, err := b.decide(run, "root@2", "approve"); err != nil {
		t.Fatal(err)
	}
	b.resume(run)
	if got := string(b.get(run).Outputs); got != `{"new":"fresh","who":"me"}` {
		t.Errorf("outputs %s", got)
	}
	b.verified(run)
}

// A fork stands where its source stood: under the same revision, with what that
// had carried over.
func TestAForkOfACorrectedRunGoesOnUnderItsRevision(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	b.corrected(run, gentle)
	fork, err := b.Fork(cli(), forking{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	if out := b.resume(fork.ID); out.Outcome != "parked" || b.get(fork.ID).OpenGates[0].Key != "root@2/ok" {
		t.Fatalf("%+v", out)
	}
	b.verified(fork.ID)
	if done, _ := b.corrected(fork.ID, strings.Replace(gentle, "Really go on?", "And now?", 1)); done.Revision != 3 || done.Material {
		t.Fatalf("%+v", done)
	}
	if _, err := b.decide(fork.ID, "root@3/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(fork.ID); out.State != tipstaff.Completed || b.read("effects") != "one\ntwo\n" {
		t.Fatalf("%+v, effects %q", out, b.read("effects"))
	}
	b.verified(fork.ID)
	dir := filepath.Join(t.TempDir(), "x")
	if err := runner.Export(cli(), b.Runner, fork.ID, dir); err != nil {
		t.Fatal(err)
	}
	if rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Dir: dir}); err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
		t.Fatalf("%+v %v", rep, err)
	}
	// Before the correction the first plan was in force.
	early, err := b.Fork(cli(), forking{Run: run, At: 11})
	if err != nil {
		t.Fatal(err)
	}
	if out := b.resume(early.ID); out.Outcome != "parked" || b.get(early.ID).OpenGates[0].Key != "root/ok" {
		t.Fatalf("%+v", out)
	}
	b.verified(early.ID)
}

// Nothing of a plan with branches that had begun is done again, although no branch
// runs while the correction is taken up.
func TestBranchesThatHadBegunAreCarriedOver(t *testing.T) {
	b := newBed(t)
	plan := `
root:
  kind: parallel
  max_parallel: 2
  children:
    - {id: a, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo a >> effects"]}}
    - kind: sequential
      children:
        - {id: b, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo b >> effects"]}}
        - kind: parallel
          children:
            - {id: c, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo c >> effects"]}}
            - {id: ok, kind: gate, question: Go on?}
`
	run, out := b.run(plan)
	if out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	effects := b.read("effects")
	b.reopened()
	b.corrected(run, strings.Replace(plan, "Go on?", "Really?", 1))
	if b.read("effects") != effects || strings.Count(effects, "\n") != 3 {
		t.Errorf("effects %q, then %q", effects, b.read("effects"))
	}
	b.verified(run)
}

// A stop while a correction waits loses nothing: the next drive takes it up.
func TestAStopLeavesACorrectionForTheNextDrive(t *testing.T) {
	b := newBed(t)
	s := b.start(held)
	b.until(s.Run, tipstaff.KindEffectIntended)
	if _, err := b.correct(s.Run, strings.Replace(held, "    - {id: one", "    - {id: ok, kind: gate, question: Go on?}\n    - {id: one", 1)); err != nil {
		t.Fatal(err)
	}
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	if out := b.wait(s.Run); out.Outcome != "interrupted" {
		t.Fatalf("%+v", out)
	}
	b.reopened()
	if out := b.resume(s.Run); out.Outcome != "parked" || b.get(s.Run).OpenGates[0].Key != "root@2/ok" {
		t.Fatalf("%+v %+v", out, b.get(s.Run).OpenGates)
	}
	b.verified(s.Run)
}

// What a child run may do was settled by its parent: it takes no plan of its own.
func TestAChildRunIsNotCorrectedByItself(t *testing.T) {
	b := newBed(t)
	b.skill("child", "tools: none\nsub_skills: none")
	b.write("skills/child/plan.yaml", "kind: plan\nversion: 1\nskill: skill://child@1.0.0\nroot: {id: ok, kind: gate, question: Go?}\n")
	run, _ := b.run("root: {id: sub, kind: sub_dispatch, skill: skill://child@1.0.0}", func(r *tipstaff.StartRequest) { r.AllowSubDispatch = true })
	lineage := b.get(run).Lineage
	if lineage == nil || len(lineage.Children) != 1 {
		t.Fatalf("lineage %+v", lineage)
	}
	_, err := b.correct(lineage.Children[0], corrected)
	wantCode(t, err, tipstaff.InvalidArgument)
}

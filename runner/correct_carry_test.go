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

// reopened is the same workspace in another process.
func (b *bed) reopened() {
	b.t.Helper()
	if err := b.store.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

// brokenOff runs a plan until its first once call has begun, and ends the process
// there: nobody knows what became of it.
func (b *bed) brokenOff(plan string) tipstaff.ID {
	b.t.Helper()
	s := b.start(plan)
	b.until(s.Run, tipstaff.KindEffectIntended)
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	if out := b.wait(s.Run); out.Outcome != "interrupted" {
		b.t.Fatalf("%+v", out)
	}
	b.reopened()
	return s.Run
}

const slow = `
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "sleep 60"]}}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}
outputs: {one: "${one.output.stdout}"}
`

// slower is slow with a gate before everything: the call that is in doubt is not
// reached at once.
var slower = strings.Replace(slow, "    - {id: one", "    - {id: ok, kind: gate, question: Go on?}\n    - {id: one", 1)

func TestACallInDoubtIsAskedAboutByTheNextRevision(t *testing.T) {
	for _, c := range []struct {
		action, answer string
		state          tipstaff.State
		outputs        string
	}{
		{"use_result", `{"exit_code":0,"stderr":"","stdout":"given"}`, tipstaff.Completed, `{"one":"given"}`},
		{"fail", "", tipstaff.Failed, ""},
	} {
		t.Run(c.action, func(t *testing.T) {
			b := newBed(t)
			run := b.brokenOff(slow)
			if done, out := b.corrected(run, slower); done.Material || out.Outcome != "parked" {
				t.Fatalf("%+v %+v", done, out)
			}
			// Nobody has come by the call: a further revision still knows of it.
			if done, _ := b.corrected(run, strings.Replace(slower, "Go on?", "Now?", 1)); done.Revision != 3 {
				t.Fatalf("%+v", done)
			}
			if _, err := b.decide(run, "root@3/ok", "approve"); err != nil {
				t.Fatal(err)
			}
			if out := b.resume(run); out.Outcome != "parked" {
				t.Fatalf("%+v", out)
			}
			g := b.get(run).OpenGates[0]
			var subject struct{ Path, Name string }
			if err := json.Unmarshal(g.Subject, &subject); err != nil || g.Kind != tipstaff.InDoubt || g.Path != "root@3/one" || subject.Path != "root/one" || subject.Name != "tool.call" {
				t.Fatalf("gate %+v, subject %+v", g, subject)
			}
			b.verified(run)
			with := []func(*tipstaff.DecideRequest){}
			if c.answer != "" {
				with = append(with, answer(c.answer))
			}
			if _, err := b.decide(run, g.ID.String(), c.action, with...); err != nil {
				t.Fatal(err)
			}
			if out := b.resume(run); out.State != c.state {
				t.Fatalf("%+v", out)
			}
			b.verified(run)
			if got := b.get(run); c.outputs != "" && string(got.Outputs) != c.outputs {
				t.Errorf("outputs %s", got.Outputs)
			}
			if ev := b.evidence(run); len(ev.InDoubt) > 0 {
				t.Errorf("what was decided is still in doubt: %v", ev.InDoubt)
			}
		})
	}
}

// The decision to try again makes one call, whose own end may be in doubt again.
func TestACallInDoubtIsTriedAgainWhenSomebodySaysSo(t *testing.T) {
	b := newBed(t)
	run := b.brokenOff(slow)
	b.corrected(run, slower)
	if _, err := b.decide(run, "root@2/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	b.resume(run)
	if _, err := b.decide(run, "root@2/one/in_doubt#0", "retry"); err != nil {
		t.Fatal(err)
	}
	s, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	b.untilAt(run, tipstaff.KindEffectIntended, "root@2/one")
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	b.wait(s.Run)
	b.reopened()
	if out := b.resume(run); out.Outcome != "parked" || b.get(run).OpenGates[0].Key != "root@2/one/in_doubt" {
		t.Fatalf("%+v %+v", out, b.get(run).OpenGates)
	}
	b.verified(run)
}

// untilAt waits for a record of a kind at a path.
func (b *bed) untilAt(run tipstaff.ID, kind tipstaff.Kind, path string) {
	b.t.Helper()
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: run, Follow: true}) {
		if err != nil {
			b.t.Fatal(err)
		}
		if e.Kind == kind && e.Path == path {
			return
		}
	}
	b.t.Fatalf("there was no %s at %s", kind, path)
}

// A revision that drops the node leaves the doubt where everybody sees it.
func TestACallInDoubtThatNobodyAsksAboutIsInTheEvidence(t *testing.T) {
	b := newBed(t)
	run := b.brokenOff(slow)
	_, out := b.corrected(run, `
root: {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}
outputs: {one: "none"}`)
	if out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	b.verified(run)
	if ev := b.evidence(run); len(ev.InDoubt) != 1 || ev.InDoubt[0] != "root/one" {
		t.Errorf("in doubt %v", ev.InDoubt)
	}
	if b.get(run).Bounds["tool_calls"].Used != 2 {
		t.Errorf("the lost call was not charged: %+v", b.get(run).Bounds["tool_calls"])
	}
}

const asking = `
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh]
    tools:
      read_file: {effect: read}
      exec: {effect: once}
      sleep: {effect: read}
policy: {rules: [{id: ask-exec, tool: "builtin/exec", do: ask}]}
`

const approved = `
root:
  kind: parallel
  children:
    - {id: run, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo run >> effects"]}}
    - {id: ok, kind: gate, question: Go on?}
`

// An approval that was given and whose call was not made holds for the same call,
// and for no other.
func TestAnApprovalHoldsForTheSameCallAlone(t *testing.T) {
	for name, c := range map[string]struct {
		then  string
		asked bool
	}{
		"the same call":   {strings.Replace(approved, "Go on?", "Really?", 1), false},
		"other arguments": {strings.Replace(approved, "echo run", "echo RUN", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.write("tipstaff.yaml", asking)
			run, out := b.run(approved)
			if out.Outcome != "parked" || len(out.Gates) != 2 {
				t.Fatalf("%+v", out)
			}
			if _, err := b.decide(run, "root/run/approval", "allow"); err != nil {
				t.Fatal(err)
			}
			// Stopped between the approval and the call.
			b.takeOnly(run)
			b.corrected(run, c.then)
			if b.get(run).State == tipstaff.Accepted {
				if _, err := b.decide(run, "confirm@2", "accept"); err != nil {
					t.Fatal(err)
				}
				b.resume(run)
			}
			asked := false
			for _, g := range b.get(run).OpenGates {
				asked = asked || g.Kind == tipstaff.Approval
			}
			if asked != c.asked || (b.read("effects") == "run\n") == c.asked {
				t.Errorf("asked again: %v, effects %q", asked, b.read("effects"))
			}
			b.verified(run)
		})
	}
}

// takeOnly writes the record by which the run takes the approval, as its owner
// does before it makes the call, and then dies.
func (b *bed) takeOnly(run tipstaff.ID) {
	b.t.Helper()
	var gate string
	var seq int64
	for _, e := range b.events(run) {
		var body struct{ Gate string }
		if e.Kind == tipstaff.KindPolicyGateResolve && e.Path == "root/run/approval" && json.Unmarshal(e.Body, &body) == nil {
			gate, seq = body.Gate, e.Seq
		}
	}
	ctx := b.t.Context()
	lease, err := b.store.Acquire(ctx, run.String(), b.Self("foreground", "dead"))
	if err != nil {
		b.t.Fatal(err)
	}
	written := make(chan error, 1)
	b.store.Append(lease, []flow.Draft{{Kind: "gate.taken", Path: "root/run/approval", Body: flow.JSON(map[string]any{"gate": gate, "seq": seq})}},
		func(err error) { written <- err })
	if err := <-written; err != nil {
		b.t.Fatal(err)
	}
	b.dead["dead"] = true
	if err := b.Recover(ctx, "test"); err != nil {
		b.t.Fatal(err)
	}
}

// Long results travel by digest: the state stays small, and an export has them.
func TestLongResultsAreCarriedByDigest(t *testing.T) {
	b := newBed(t)
	b.write("long.txt", strings.Repeat("a long line\n", 9000)) // over 64 KiB
	b.write("short.txt", strings.Repeat("a line\n", 900))
	plan := `
root:
  kind: sequential
  children:
    - {id: long, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: long.txt}}
    - {id: short, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: short.txt}}
    - {id: ok, kind: gate, question: Go on?}
outputs: {long: "${long.output.text}", short: "${short.output.text}"}
`
	run, _ := b.run(plan)
	b.write("long.txt", "other")
	b.write("short.txt", "other")
	b.corrected(run, strings.Replace(plan, "Go on?", "Really?", 1))
	for _, e := range b.events(run) {
		if e.Kind == tipstaff.KindRunContinued && len(e.Body) > 4<<10 {
			t.Errorf("the state has %d bytes", len(e.Body))
		}
	}
	if _, err := b.decide(run, "root@2/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	b.reopened()
	if out := b.resume(run); out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	var outputs struct{ Long, Short string }
	if err := json.Unmarshal(b.get(run).Outputs, &outputs); err != nil || !strings.HasPrefix(outputs.Long, "a long line\n") || !strings.HasPrefix(outputs.Short, "a line\n") {
		t.Errorf("outputs %.40q and %.40q, %v", outputs.Long, outputs.Short, err)
	}
	b.verified(run)
	dir := filepath.Join(t.TempDir(), "x")
	if err := runner.Export(cli(), b.Runner, run, dir); err != nil {
		t.Fatal(err)
	}
	rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Dir: dir})
	if err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
		t.Fatalf("%+v %v", rep, err)
	}
}

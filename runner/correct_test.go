package runner_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/runner"
)

// The plan that is corrected: two effects that are counted, with a gate between.
const corrected = `
bounds: {tool_calls: 10}
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one >> effects"]}}
    - {id: ok, kind: gate, question: "Go on?"}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}
outputs: {first: "${one.output.exit_code}"}
`

// gentle changes nothing that was agreed to: it only has another look.
var gentle = strings.Replace(corrected,
	"    - {id: two", `    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: effects}}
    - {id: two`, 1)

// harsh raises what the run may spend.
var harsh = strings.Replace(gentle, "tool_calls: 10", "tool_calls: 100", 1)

// correct hands a revised plan in, and drives the run if nobody does.
func (b *bed) correct(run tipstaff.ID, plan string) (tipstaff.Corrected, error) {
	return correct(b.Runner, run, plan, tipstaff.Presence{})
}

func correct(r *runner.Runner, run tipstaff.ID, plan string, who tipstaff.Presence) (tipstaff.Corrected, error) {
	c, err := r.Correct(cli(), tipstaff.CorrectRequest{Run: run, Name: "revised.yaml", Reason: "because", Program: []byte("kind: plan\nversion: 1\n" + plan)})
	if err != nil {
		return c, err
	}
	if _, err = r.Resume(cli(), tipstaff.ResumeRequest{Run: run, Presence: who}); tipstaff.CodeOf(err) == tipstaff.Busy {
		err = nil
	}
	return c, err
}

func (b *bed) corrected(run tipstaff.ID, plan string) (tipstaff.Corrected, tipstaff.Driven) {
	b.t.Helper()
	c, err := b.correct(run, plan)
	if err != nil {
		b.t.Fatalf("correct: %v %+v", err, err)
	}
	return c, b.wait(run)
}

// steps are the plan.step records by path: what became of each node in each
// revision.
func (b *bed) steps(run tipstaff.ID) map[string]string {
	b.t.Helper()
	steps := map[string]string{}
	for _, e := range b.events(run) {
		var body struct{ Status string }
		if e.Kind == tipstaff.KindPlanStep {
			if err := json.Unmarshal(e.Body, &body); err != nil {
				b.t.Fatal(err)
			}
			steps[e.Path] = body.Status
		}
	}
	return steps
}

func TestACorrectionThatIsNotMaterialGoesOnAtOnce(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	done, out := b.corrected(run, gentle)
	if done.Material || done.Revision != 2 || len(done.Reasons) != 0 {
		t.Errorf("handed in as %+v", done)
	}
	if out.Outcome != "parked" || out.State != tipstaff.Executing {
		t.Fatalf("%+v", out)
	}
	got := b.get(run)
	if len(got.OpenGates) != 1 || got.OpenGates[0].Path != "root@2/ok" || got.State != tipstaff.Executing {
		t.Fatalf("%+v", got)
	}
	if _, err := b.decide(run, "root@2/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	if b.read("effects") != "one\ntwo\n" {
		t.Errorf("effects %q", b.read("effects"))
	}
	want := map[string]string{"root/one": "completed", "root@2/one": "carried", "root@2/ok": "completed", "root@2/look": "completed", "root@2/two": "completed"}
	if got := b.steps(run); !mapsEqual(got, want) {
		t.Errorf("steps %v", got)
	}
	rep := b.verified(run)
	if !strings.Contains(rep.Lifecycle, "executing --[intent.correct]--> executing --[intent.attest]--> completed") {
		t.Errorf("lifecycle %s", rep.Lifecycle)
	}
	if ev := b.evidence(run); ev.Revision != 2 || ev.Counts["carried"] != 1 || ev.Counts["completed"] != 3 || ev.Bounds.Used["tool_calls"] != 3 {
		t.Errorf("evidence %+v", ev)
	}
}

func mapsEqual(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

type evidence struct {
	Revision int
	Program  string `json:"program_digest"`
	Counts   map[string]int
	Skipped  []string
	InDoubt  []string `json:"in_doubt"`
	Bounds   struct{ Used, Limit tipstaff.Bounds }
}

func (b *bed) evidence(run tipstaff.ID) evidence {
	b.t.Helper()
	events := b.events(run)
	var body struct{ Evidence evidence }
	if err := json.Unmarshal(events[len(events)-1].Body, &body); err != nil {
		b.t.Fatal(err)
	}
	return body.Evidence
}

func TestAMaterialCorrectionWaitsToBeAccepted(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	done, out := b.corrected(run, harsh)
	if !done.Material || len(done.Reasons) != 1 || done.Reasons[0].Rule != "budget_delta" {
		t.Errorf("handed in as %+v", done)
	}
	got := b.get(run)
	if out.Outcome != "parked" || out.State != tipstaff.Accepted || got.State != tipstaff.Accepted || len(got.OpenGates) != 1 || got.OpenGates[0].Kind != tipstaff.Confirmation {
		t.Fatalf("%+v\n%+v", out, got)
	}
	g := got.OpenGates[0]
	if g.Key != "confirm@2" || !slices.Equal(g.Actions, []string{"accept", "keep", "cancel"}) || !g.ExpiresAt.IsZero() {
		t.Errorf("gate %+v", g)
	}
	shown := strings.Join(g.Shown.Lines, "\n")
	for _, want := range []string{"look is added\n  args: {\"path\":\"effects\"}\n",
		"plan.bounds is changed\n  tool_calls was: 10\n  tool_calls is now: 100\n", "budget_delta: tool_calls rises from 10 to 100"} {
		if !strings.Contains(shown, want) {
			t.Errorf("it is not shown that %s:\n%s", want, shown)
		}
	}
	b.verified(run)
	if _, err := b.decide(run, "confirm@2", "accept"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.Outcome != "parked" || b.get(run).State != tipstaff.Executing {
		t.Fatalf("%+v", out)
	}
	if _, err := b.decide(run, "root@2/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Completed || b.read("effects") != "one\ntwo\n" {
		t.Fatalf("%+v, effects %q", out, b.read("effects"))
	}
	rep := b.verified(run)
	if !strings.Contains(rep.Lifecycle, "executing --[intent.correct]--> accepted --[plan.proposed]--> executing --[intent.attest]--> completed") {
		t.Errorf("lifecycle %s", rep.Lifecycle)
	}
	if ev := b.evidence(run); ev.Revision != 2 || ev.Bounds.Limit["tool_calls"] != 100 {
		t.Errorf("evidence %+v", ev)
	}
}

func TestAMaterialCorrectionCanBeLeftAside(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	program := b.get(run).Program.Digest
	b.corrected(run, harsh)
	if _, err := b.decide(run, "confirm@2", "keep"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.Outcome != "parked" || b.get(run).OpenGates[0].Key != "root/ok" {
		t.Fatalf("%+v, %+v", out, b.get(run).OpenGates)
	}
	if got := b.get(run); got.Program.Digest != program || got.Bounds["tool_calls"].Limit != 10 {
		t.Errorf("%+v", got)
	}
	// The next correction is another revision, also after one that never was.
	if done, _ := b.corrected(run, gentle); done.Revision != 3 || done.Material {
		t.Errorf("%+v", done)
	}
	if _, err := b.decide(run, "root@3/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Completed || b.read("effects") != "one\ntwo\n" {
		t.Fatalf("%+v, effects %q", out, b.read("effects"))
	}
	b.verified(run)
}

func TestAMaterialCorrectionCanEndTheRun(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(corrected)
	b.corrected(run, harsh)
	if _, err := b.decide(run, "confirm@2", "cancel", func(r *tipstaff.DecideRequest) { r.Note = "too much" }); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Cancelled || out.Outcome != "cancelled" {
		t.Fatalf("%+v", out)
	}
	got := b.get(run)
	if got.State != tipstaff.Cancelled || got.Error.Message != "too much" || b.read("effects") != "one\n" {
		t.Errorf("%+v", got)
	}
	b.verified(run)
	if ev := b.evidence(run); ev.Revision != 1 || ev.Counts["completed"] != 1 || !slices.Equal(ev.Skipped, []string{"ok", "two"}) {
		t.Errorf("evidence %+v", ev)
	}
}

// A correction may bring an agent to a plan that had none: the drive that takes it up
// can ask its model.
func TestACorrectionMayBringAnAgent(t *testing.T) {
	b := newBed(t)
	b.write("tipstaff.yaml", withModels)
	b.write("script.yaml", "version: 1\nanswers: [{text: unused}]\n")
	b.says = func(agent.Request) agent.Response { return agent.Response{Text: "Hello."} }
	run, _ := b.run(`root: {id: ok, kind: gate, question: "Go on?"}`)
	done, out := b.corrected(run, `root: {id: say, kind: step, prompt: Greet.}`)
	if done.Material || out.State != tipstaff.Completed { // the drive begins with the program that has no agent
		t.Errorf("%+v %+v", done, out)
	}
	b.verified(run)
}

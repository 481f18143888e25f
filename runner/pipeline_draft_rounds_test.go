package runner_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// rounds satisfies a goal with every visit of judge, and asks once before the first.
const rounds = `
name: rounds
max_stages: 4
max_iterations: 9
agents:
  - name: work
    stage_order: 1
    default_next: judge
    scripted: {answers: [{output: {}, control: {interrupt: {kind: question, question: Begin?}}}, {output: {}}]}
  - name: judge
    stage_order: 2
    default_next: work
    scripted:
      answers:
        - {output: {}, control: {satisfied_goals: [a]}}
        - {output: {}, control: {satisfied_goals: [b]}}
        - {output: {}, control: {satisfied_goals: [c]}}
        - {output: {}, control: {satisfied_goals: [d]}}
`

func ofRounds(r *tipstaff.StartRequest) {
	r.Name, r.Program = "rounds.yaml", []byte(rounds)
	r.Inputs["goals"] = json.RawMessage(`["a", "b", "c", "d", "e"]`)
}

func atMost(n int64) func(*tipstaff.StartRequest) {
	return func(r *tipstaff.StartRequest) { r.Bounds = tipstaff.Bounds{tipstaff.BoundStages: n} }
}

// wantRounds checks how many rounds a run may have, wherever it is told, and how many
// it has had.
func (b *bed) wantRounds(run tipstaff.ID, most, had int64) {
	b.t.Helper()
	got := b.get(run)
	if want := (tipstaff.BoundStatus{Limit: most, Limited: true, Used: had}); got.Bounds[tipstaff.BoundStages] != want {
		b.t.Errorf("its status has the rounds %+v, want %+v", got.Bounds[tipstaff.BoundStages], want)
	}
	if limit := got.Bounds[tipstaff.BoundIterations].Limit; limit != 9 {
		b.t.Errorf("its status has %d iterations at most, want 9", limit)
	}
	env := b.state(run)
	if round := fmt.Sprintf("%v of %v", env["current_stage_number"], env["max_stages"]); round != fmt.Sprintf("%d of %d", had, most) {
		b.t.Errorf("its Envelope is in round %s, want %d of %d", round, had, most)
	}
}

func (b *bed) wantRoundsExceeded(out tipstaff.Driven, run tipstaff.ID) {
	b.t.Helper()
	if reason := b.envelope(run).Reason; out.State != tipstaff.Failed || reason != "max_stages_exceeded" {
		b.t.Errorf("it ended %+v for %s", out, reason)
	}
	b.verified(run)
}

func TestRoundsOfADraftAreLoweredWhenItIsStarted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.held(ofRounds)
	b.wantRounds(run, 4, 1)
	_, err := b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: run, Bounds: tipstaff.Bounds{tipstaff.BoundStages: 5}})
	wantCode(t, err, tipstaff.InvalidArgument)
	if out := b.begin(run, atMost(2)); out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	b.wantRounds(run, 2, 1)

	b.Drain()
	b.reopened()
	if _, err := b.decide(run, b.get(run).OpenGates[0].Key, "answer", answer(`{}`)); err != nil {
		t.Fatal(err)
	}
	b.wantRoundsExceeded(b.resume(run), run)
	b.wantRounds(run, 2, 2)
	if left := tipstaff.AllowanceOf(b.get(run)).Left[tipstaff.BoundStages]; left != 0 {
		t.Errorf("%d rounds are left", left)
	}

	fork := b.fork(forking{Run: run, Stage: "judge"})
	b.wantRounds(fork.ID, 2, 2)
	b.wantRoundsExceeded(b.resume(fork.ID), fork.ID)
	back := b.fork(forking{Run: run, Stage: "judge", Rollback: true})
	b.wantRounds(back.ID, 2, 2)
	b.wantRoundsExceeded(b.resume(back.ID), back.ID)

	_, err = b.Fork(cli(), forking{Run: back.ID, Stage: "judge", Rollback: true, Raise: map[string]int64{"max_stages": 1}})
	wantCode(t, err, tipstaff.InvalidArgument)
	more := b.fork(forking{Run: back.ID, Stage: "judge", Rollback: true, Raise: map[string]int64{"max_stages": 3}})
	b.wantRounds(more.ID, 3, 2)
	b.wantRoundsExceeded(b.resume(more.ID), more.ID)
	b.wantRounds(more.ID, 3, 3)
}

// Without a draft they are lowered too, and never raised.
func TestRoundsAreLoweredByWhoeverStarts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for most, want := range map[int64]int64{2: 2, 9: 4} {
		run, _ := b.pipe(rounds, ofRounds, atMost(most))
		b.wantRounds(run, want, 1)
		b.verified(run)
	}
	_, err := b.Start(cli(), tipstaff.StartRequest{Name: "plan.yaml", Program: []byte(gated), Bounds: tipstaff.Bounds{tipstaff.BoundStages: 2}})
	wantCode(t, err, tipstaff.InvalidArgument)
}

// A draft that gets its program when it is started may have that one's rounds.
func TestRoundsOfAProgramThatComesLater(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.held(withoutProgram, input("goals", `["a", "b"]`))
	if got := b.get(run).Bounds[tipstaff.BoundStages].Limit; got != 5 {
		t.Errorf("without a program it has %d rounds", got)
	}
	given := func(r *tipstaff.StartRequest) { r.Name, r.Program = "rounds.yaml", []byte(rounds) }
	if out := b.begin(run, given, atMost(3)); out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	b.wantRounds(run, 3, 1)
	b.verified(run)
}

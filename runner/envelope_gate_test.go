package runner_test

import (
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// Of several questions at once, one that has been answered is shown so, although the
// run goes on only when all are.
func TestAnAnsweredQuestionIsClosedBeforeTheOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, _ := b.pipe(`
name: both
agents:
  - {name: a, stage_order: 1, after: [], scripted: {answers: [{output: {}, control: {interrupt: {kind: question, question: "Which way?"}}}, {output: {}}]}}
  - {name: b, stage_order: 2, scripted: {answers: [{output: {}, control: {interrupt: {kind: question, question: "How far?"}}}, {output: {}}]}}
  - {name: c, stage_order: 3, requires: [a, b], scripted: {answers: [{output: {}}]}}
`)
	type question struct {
		ID, Stage string
		Open      bool
	}
	asked := func() (list []question, pending bool) {
		raw, err := b.Envelope(cli(), run, "")
		var env struct {
			Interrupts       []question
			InterruptPending bool `json:"interrupt_pending"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &env)
		}
		if err != nil {
			t.Fatal(err)
		}
		return env.Interrupts, env.InterruptPending
	}
	before, pending := asked()
	if len(before) != 2 || !before[0].Open || !before[1].Open || before[0].ID == "" || before[1].ID == "" || !pending {
		t.Fatalf("asked are %+v, %v", before, pending)
	}
	if _, err := b.decide(run, before[0].ID, "answer", func(req *tipstaff.DecideRequest) { req.Feedback = "north" }); err != nil {
		t.Fatal(err)
	}
	after, pending := asked()
	want := []question{{before[0].ID, before[0].Stage, false}, before[1]}
	if len(after) != 2 || after[0] != want[0] || after[1] != want[1] || !pending {
		t.Errorf("asked are %+v, %v, want %+v", after, pending, want)
	}
	if _, err := b.decide(run, before[1].ID, "answer", func(req *tipstaff.DecideRequest) { req.Feedback = "a mile" }); err != nil {
		t.Fatal(err)
	}
	if _, pending := asked(); pending {
		t.Error("a question is still said to be open")
	}
	if driven := b.resume(run); driven.State != tipstaff.Completed {
		t.Errorf("it is %+v", driven)
	}
}

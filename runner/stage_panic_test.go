package runner_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

// Code that panics below a stage is no failure of the stage, which could route on as if
// it had been judged: nothing is recorded of it, its run alone is interrupted, and
// whoever resumes does the stage again, and none that had finished.
func TestAPanicBelowAStageInterruptsItsRunAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.withModel("")
	var calls, firsts atomic.Int64
	b.says = func(r agent.Request) agent.Response {
		last := r.Messages[len(r.Messages)-1].Text
		if strings.Contains(last, "first") {
			firsts.Add(1)
		}
		if strings.Contains(last, "fragile") && calls.Add(1) == 1 {
			panic("no such luck")
		}
		return agent.Response{Text: "{}"}
	}
	const doc = `
name: fragile
agents:
  - {name: before, stage_order: 1, default_next: ask, model: {name: main, prompt: first}}
  - {name: ask, stage_order: 2, default_next: end, error_next: fixed, max_retries: 1, model: {name: main, prompt: fragile}}
  - {name: fixed, stage_order: 3, scripted: {answers: [{output: {}}]}}
`
	run, driven := b.pipe(doc)
	if got := b.get(run); driven.Outcome != "interrupted" || driven.Reason != "panic" || got.Status != tipstaff.StatusInterrupted {
		t.Fatalf("it is %+v, %s", driven, got.Status)
	}
	for _, e := range b.events(run) {
		if e.Path == "ask#1" && (e.Kind == tipstaff.KindStageFinished || e.Kind == tipstaff.KindStageRetrying) || strings.HasPrefix(e.Path, "fixed") {
			t.Errorf("of the stage is recorded: %s %s %s", e.Kind, e.Path, e.Body)
		}
	}
	other, driven := b.pipe("name: other\nagents: [{name: a, model: {name: main, prompt: another}}]")
	if driven.State != tipstaff.Completed {
		t.Errorf("another run is %+v", driven)
	}
	if driven := b.resume(run); driven.State != tipstaff.Completed {
		t.Errorf("resumed it is %+v", driven)
	}
	env := b.envelope(run)
	if env.Reason != "completed" || env.Visits["ask"] != 1 || env.Visits["fixed"] != 0 || firsts.Load() != 1 {
		t.Errorf("it ended for %s with the visits %v; the first stage asked %d times", env.Reason, env.Visits, firsts.Load())
	}
	b.verified(run)
	b.verified(other)
}

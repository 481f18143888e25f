package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// loopOf is a pipeline of two stages that goes round so often.
func loopOf(tb testing.TB, turns int) *bed {
	p, problems := Check("p.yaml", []byte(fmt.Sprintf(`
name: loop
max_iterations: %d
max_agent_hops: 1000000
agents:
  - {name: a, stage_order: 1, default_next: b, scripted: {answers: [{output: {n: 1}}], repeat: last}}
  - {name: b, stage_order: 2, routing_rules: [{when: "iteration < %d", target: a}], scripted: {answers: [{output: {text: done}}], repeat: last}}
`, turns+1, turns)), Resolver{})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	b := bedOf(p)
	b.in.Bounds = tipstaff.Bounds{tipstaff.BoundIterations: 1_000_000, tipstaff.BoundAgentHops: 1_000_000}
	return b
}

// BenchmarkLoop goes round: what a turn costs does not depend on how many there were.
func BenchmarkLoop(b *testing.B) {
	for _, turns := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			for b.Loop() {
				bed := loopOf(b, turns)
				if out := bed.drive(b); out.Status != flow.Completed {
					b.Fatal(bed.err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*turns*2), "µs/stage")
		})
	}
}

// BenchmarkLine starts stages one after the other, and beside it the calls, events
// and readings of the clock that they make, without an executor: the difference is
// what scheduling a stage costs.
func BenchmarkLine(b *testing.B) {
	const stages = 50
	var doc strings.Builder
	fmt.Fprintf(&doc, "name: line\nmax_agent_hops: %d\nagents:\n", stages)
	for i := range stages {
		next := End
		if i+1 < stages {
			next = fmt.Sprintf("s%d", i+1)
		}
		fmt.Fprintf(&doc, "  - {name: s%d, default_next: %s, scripted: {answers: [{output: {n: %d}}]}}\n", i, next, i)
	}
	bed := newBed(b, doc.String())
	perStage := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*stages)/1000, "µs/stage")
	}
	b.Run("executor", func(b *testing.B) {
		for b.Loop() {
			bed.log = flow.NewMem()
			if out := bed.drive(b); out.Status != flow.Completed {
				b.Fatal(bed.err)
			}
		}
		perStage(b)
	})
	b.Run("bare", func(b *testing.B) {
		job := flow.Job{Run: theRun, Limits: bed.limits(), Acts: Activities(), Flow: bareStages(stages)}
		for b.Loop() {
			out, err := flow.New(flow.NewMem(), nil).Drive(b.Context(), job)
			if err != nil || out.Status != flow.Completed {
				b.Fatal(err, out.Err)
			}
		}
		perStage(b)
	})
}

// bareStages records what a line of stages does.
func bareStages(n int) flow.Func {
	return func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		for i := range n {
			at := fc.At(pathOf(fmt.Sprintf("s%d", i), 1))
			fc.Now()
			for _, c := range []flow.Call{
				{Key: "begin", Name: BeginActivity, Class: flow.Read, Reserve: flow.Use{tipstaff.BoundAgentHops: 1}, Input: flow.JSON(beginInput{"s", 1, 1})},
				{Key: "scripted", Name: ScriptedActivity, Class: flow.Read, Timeout: time.Minute, Input: flow.JSON(scriptedInput{Answer: 1})},
			} {
				if _, err := at.Do(c); err != nil {
					return nil, err
				}
			}
			at.Now()
			at.Emit(flow.Event{Kind: string(tipstaff.KindStageStarted), Body: tipstaff.StageStarted{}})
			at.Emit(flow.Event{Kind: string(tipstaff.KindStageFinished), Body: tipstaff.StageFinished{}})
			fc.Emit(flow.Event{Kind: string(tipstaff.KindTurnMerged), Body: tipstaff.TurnMerged{}})
			fc.Emit(flow.Event{Kind: string(tipstaff.KindTransition), Body: tipstaff.Transitioned{}})
		}
		return nil, nil
	}
}

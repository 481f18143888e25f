package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
)

const (
	scheduleLimit = 50 * time.Microsecond
	cloneLimit    = 5 // times as fast as the peer

	lineStages = 50
	manyHops   = 1_000_000
)

// measureSchedule: what the executor of pipelines adds to a stage, on the memory log:
// beside it are the calls and events that a stage makes, without an executor.
func measureSchedule(ctx context.Context, b *bench) ([]row, error) {
	var doc strings.Builder
	fmt.Fprintf(&doc, "name: line\nmax_agent_hops: %d\nagents:\n", lineStages)
	for i := range lineStages {
		next := pipeline.End
		if i+1 < lineStages {
			next = fmt.Sprintf("s%d", i+1)
		}
		fmt.Fprintf(&doc, "  - {name: s%d, default_next: %s, scripted: {answers: [{output: {n: %d}}]}}\n", i, next, i)
	}
	p, err := checkPipeline(doc.String())
	if err != nil {
		return nil, err
	}
	var executor, bare, added []float64
	for range turns(b.rounds) {
		whole, err := perStage(b.round, func() error { return drivePipeline(ctx, p) })
		if err != nil {
			return nil, err
		}
		calls, err := perStage(b.round, func() error { return driveFlow(ctx, p, bareLine) })
		if err != nil {
			return nil, err
		}
		executor, bare, added = append(executor, whole), append(bare, calls), append(added, max(whole-calls, 1e-9))
	}
	cost := median(added)
	return []row{{figure: "scheduling a stage of a pipeline, memory log", value: cost, measured: fmt.Sprintf("%.0f µs", cost*1e6),
		beside: fmt.Sprintf("fastest %.0f µs; a stage in all %.0f µs, its calls and events alone %.0f µs", added[0]*1e6, median(executor)*1e6, median(bare)*1e6), // median sorted them
		bound:  goal("< 50 µs", cost < scheduleLimit.Seconds())}}, nil
}

// perStage is how many seconds a stage of the line takes.
func perStage(d time.Duration, line func() error) (float64, error) {
	rate, err := repeat(d, line)
	return 1 / rate / lineStages, err
}

func checkPipeline(text string) (*pipeline.Pipeline, error) {
	p, problems := pipeline.Check("bench.yaml", []byte(text), pipeline.Resolver{})
	if len(problems) > 0 {
		return nil, fmt.Errorf("%v", problems)
	}
	return p, nil
}

// drivePipeline runs a pipeline of scripted stages on a new memory log.
func drivePipeline(ctx context.Context, p *pipeline.Pipeline) error {
	in := pipeline.Input{EnvelopeID: "env_bench", RunID: "bench", CreatedAt: time.Now()}
	return driveFlow(ctx, p, func(fc flow.Context, state json.RawMessage) (_ json.RawMessage, err error) {
		s := pipeline.State{Envelope: pipeline.NewEnvelope(p, in)}
		if len(state) > 0 && string(state) != "null" {
			if s, err = pipeline.Restore(state); err != nil {
				return nil, err
			}
		}
		err = pipeline.Execute(fc, p, &s, pipeline.PerformScripted)
		return empty, err
	})
}

func driveFlow(ctx context.Context, p *pipeline.Pipeline, f flow.Func) error {
	limits := tipstaff.EffectiveBounds(nil, p.Limits(), nil)
	delete(limits, tipstaff.BoundIterations) // the executor's own affair
	return completed(flow.New(flow.NewMem(), nil).Drive(ctx, flow.Job{Run: "bench", Root: "bench", Limits: flow.Use(limits), Acts: pipeline.Activities(), Flow: f}))
}

// bareLine makes the calls and events of a line of stages.
func bareLine(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	for i := range lineStages {
		at := fc.At(fmt.Sprintf("s%d#1", i))
		fc.Now()
		for _, c := range []flow.Call{
			{Key: "begin", Name: pipeline.BeginActivity, Class: flow.Read, Reserve: flow.Use{tipstaff.BoundAgentHops: 1}, Input: empty},
			{Key: "scripted", Name: pipeline.ScriptedActivity, Class: flow.Read, Timeout: time.Minute, Input: empty},
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
	return empty, nil
}

// measureLoop: whether the ten thousandth iteration costs what the first did.
func measureLoop(ctx context.Context, b *bench) ([]row, error) {
	few, many := b.loops, 10*b.loops
	var short, long, ratios []float64
	for range turns(b.rounds) {
		near, err := iterations(ctx, few)
		if err != nil {
			return nil, err
		}
		far, err := iterations(ctx, many)
		if err != nil {
			return nil, err
		}
		short, long, ratios = append(short, near), append(long, far), append(ratios, far/near)
	}
	r := median(ratios)
	return []row{{figure: fmt.Sprintf("a loop of %s iterations of two stages, memory log", count(float64(many))), value: r,
		measured: fmt.Sprintf("%.1f µs an iteration", median(long)*1e6),
		beside:   fmt.Sprintf("of %s: %.0f µs, %s", count(float64(few)), median(short)*1e6, times(r)),
		bound:    goal(fmt.Sprintf("≤ %g ×", linear), r <= linear)}}, nil
}

// iterations is how many seconds one of so many takes.
func iterations(ctx context.Context, n int) (float64, error) {
	p, err := checkPipeline(loopDocument(n, "a", "b"))
	if err != nil {
		return 0, err
	}
	start := time.Now()
	err = drivePipeline(ctx, p)
	return time.Since(start).Seconds() / float64(n), err
}

// loopDocument is a pipeline that goes through its stages n times.
func loopDocument(n int, stages ...string) string {
	var doc strings.Builder
	fmt.Fprintf(&doc, "name: loop\nmax_iterations: %d\nmax_agent_hops: %d\nagents:\n", n, manyHops)
	for i, s := range stages {
		way := fmt.Sprintf("routing_rules: [{when: \"iteration < %d\", target: %s}]", n-1, stages[0])
		if i+1 < len(stages) {
			way = "default_next: " + stages[i+1]
		}
		fmt.Fprintf(&doc, "  - {name: %s, stage_order: %d, %s, scripted: {repeat: last, answers: [{output: {n: %d}}]}}\n", s, i+1, way, i)
	}
	return doc.String()
}

// measureClone: a deep copy of an Envelope with a megabyte of outputs, beside the way
// by JSON and back.
func measureClone(_ context.Context, b *bench) ([]row, error) {
	env := &pipeline.Envelope{Outputs: map[string]map[string]any{}}
	for i := range 100 {
		list := make([]any, 100)
		for j := range list {
			list[j] = map[string]any{"id": int64(j), "score": 0.5, "text": strings.Repeat("x", 60)}
		}
		env.Outputs[fmt.Sprintf("stage%d", i)] = map[string]any{"list": list}
	}
	size := env.Size()
	var ours, peers, ratios []float64
	for range turns(b.rounds) {
		clones, err := repeat(b.round, func() error { env.Clone(); return nil })
		if err != nil {
			return nil, err
		}
		trips, err := repeat(b.round, func() error { return roundTrip(env) })
		if err != nil {
			return nil, err
		}
		ours, peers, ratios = append(ours, 1/clones), append(peers, 1/trips), append(ratios, clones/trips)
	}
	r := median(ratios)
	return []row{{figure: "cloning an Envelope of " + megabytes(float64(size)), value: median(ours),
		measured: milliseconds(time.Duration(median(ours) * float64(time.Second))),
		beside:   fmt.Sprintf("to JSON and back %s, %s", milliseconds(time.Duration(median(peers)*float64(time.Second))), times(r)),
		bound:    limit(fmt.Sprintf("≥ %d ×", cloneLimit), r >= cloneLimit)}}, nil
}

func roundTrip(env *pipeline.Envelope) error {
	text, err := json.Marshal(env.Outputs)
	if err != nil {
		return err
	}
	var back map[string]map[string]any
	return json.Unmarshal(text, &back)
}

package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// wide is a batch of n stages between two others.
func wide(n int, stage string) string {
	var s strings.Builder
	s.WriteString("name: wide\nmax_parallel: 16\nmax_agent_hops: 100\nagents:\n  - {name: first, stage_order: 0, remote: {}}\n")
	names := make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("s%d", i)
		fmt.Fprintf(&s, "  - {name: s%d, stage_order: 1, requires: [first], %s}\n", i, stage)
	}
	fmt.Fprintf(&s, "  - {name: last, stage_order: 2, requires: [%s], remote: {}}\n", strings.Join(names, ", "))
	return s.String()
}

// inOrder lets the activities of some stages end in an order.
type inOrder struct {
	mu   sync.Mutex
	cond *sync.Cond
	rank map[string]int
	next int
}

func newOrder(order []string) *inOrder {
	o := &inOrder{rank: map[string]int{}}
	o.cond = sync.NewCond(&o.mu)
	for i, path := range order {
		o.rank[path] = i
	}
	return o
}

func (o *inOrder) wait(_ context.Context, path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rank, ok := o.rank[path]
	for ok && o.next != rank {
		o.cond.Wait()
	}
	if ok {
		o.next++
		o.cond.Broadcast()
	}
}

// Who finishes first decides nothing.
func TestFinishingOrderDecidesNothing(t *testing.T) {
	times := 1000
	if testing.Short() {
		times = 100
	}
	const n = 5
	b := newBed(t, wide(n, "remote: {}"))
	var paths []string
	by := map[string]deed{}
	for i := range n {
		paths = append(paths, fmt.Sprintf("s%d#1/act#1", i))
		by[fmt.Sprintf("s%d", i)] = deed{output: map[string]any{"i": int64(i)}, control: &Control{Metadata: map[string]any{"who": int64(i), "same": true}}}
	}
	by["s3"] = deed{err: &StageError{Code: "odd"}}
	b.p.Agent("s3").ErrorNext = "last"
	var want []string
	for range times {
		b.log, b.world = flow.NewMem(), &world{by: by}
		rand.Shuffle(n, func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		b.world.before = newOrder(paths).wait
		b.drive(t)
		got := b.ways()
		for _, m := range bodies[tipstaff.TurnMerged](b, tipstaff.KindTurnMerged) {
			got = append(got, string(flow.JSON(m)))
		}
		if want == nil {
			want = got
			b.replays(t, flow.Outcome{Status: flow.Completed})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("another order gave another end: %s", diff)
		}
	}
}

// Ten stages with a model each, three calls left: three calls are made.
func TestThreeCallsLeft(t *testing.T) {
	times := 200
	if testing.Short() {
		times = 20
	}
	b := newBed(t, "max_llm_calls: 3\n"+wide(10, "model: {name: m, prompt: p}"))
	for range times {
		b.log, b.world = flow.NewMem(), &world{}
		b.take(t)
		calls := 0
		for path := range b.world.calls {
			if strings.HasPrefix(path, "s") {
				calls++
			}
		}
		if e := b.env; e.TerminalReason != tipstaff.TerminalLLMCalls || calls != 3 || e.LLMCallCount != 3 || e.Budget()[tipstaff.BoundModelCalls] != 0 {
			t.Fatalf("%s after %d calls, %d counted", e.TerminalReason, calls, e.LLMCallCount)
		}
	}
}

// gauge measures how many activities run at once.
type gauge struct {
	mu        sync.Mutex
	now, most int
	meet      chan struct{} // closed once two are there; nil: nobody waits for that
}

func (g *gauge) before(_ context.Context, path string) {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	if g.meet != nil && g.now == 2 {
		close(g.meet)
	}
	g.mu.Unlock()
	if g.meet != nil && strings.HasPrefix(path, "s") {
		<-g.meet
	}
	runtime.Gosched()
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
}

func TestStagesOfABatchOverlap(t *testing.T) {
	b := newBed(t, wide(2, "remote: {}"))
	g := &gauge{meet: make(chan struct{})}
	b.world.before = g.before
	if b.take(t); g.most != 2 || b.env.TerminalReason != tipstaff.TerminalCompleted {
		t.Errorf("%d ran at once, and it ended %s", g.most, b.env.TerminalReason)
	}
}

func TestMaxParallelOneNeverOverlaps(t *testing.T) {
	b := newBed(t, strings.Replace(wide(8, "remote: {}"), "max_parallel: 16", "max_parallel: 1", 1))
	g := &gauge{}
	b.world.before = g.before
	if b.take(t); g.most != 1 || b.env.AgentHopCount != 10 {
		t.Errorf("%d ran at once, %d hops", g.most, b.env.AgentHopCount)
	}
}

// A run that is cancelled while stages are at work records them as cancelled.
func TestCancelWhileStagesWork(t *testing.T) {
	b := newBed(t, wide(2, "scripted: {answers: [{hang: true}]}"))
	var once sync.Once
	b.jobs = func(j *flow.Job) {
		j.Appended = func(d flow.Draft) {
			if d.Kind == string(tipstaff.KindStageStarted) && d.Path == "s1#1" {
				once.Do(func() { go b.requestCancel() }) // who is told may not call the log
			}
		}
	}
	out := b.take(t)
	var cancelled []string
	for _, f := range bodies[tipstaff.StageFinished](b, tipstaff.KindStageFinished) {
		if f.Outcome == statusCancelled {
			cancelled = append(cancelled, f.Stage)
		}
	}
	if e := b.env; out.Status != flow.Cancelled || e.TerminalReason != tipstaff.TerminalCancelled || e.Outcome != tipstaff.OutcomeCancelled ||
		!slices.Equal(cancelled, []string{"s0", "s1"}) || len(e.ActiveStages) > 0 {
		t.Errorf("%s, %s, cancelled %v, active %v", out.Status, e.TerminalReason, cancelled, e.ActiveStages)
	}
}

// Any number of runs share a pipeline, and nothing else.
func TestConcurrentRunsShareNothing(t *testing.T) {
	p := loopOf(t, 3).p
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			b := bedOf(p)
			b.in.RawInput = fmt.Sprint(i)
			most := int64(i%3 + 1)
			b.in.Bounds = tipstaff.Bounds{tipstaff.BoundIterations: most}
			if _, err := b.engine().Drive(t.Context(), b.job()); err != nil {
				t.Errorf("run %d: %v", i, err)
				return
			}
			want := tipstaff.TerminalIterations
			if most == 3 {
				want = tipstaff.TerminalCompleted
			}
			n := int64(len(bodies[tipstaff.CheckpointCreated](b, tipstaff.KindCheckpointCreated)))
			if e := b.env; e.TerminalReason != want || e.Iteration != most || e.RawInput != fmt.Sprint(i) || n != most {
				t.Errorf("run %d: %s after %d iterations, %d checkpoints", i, e.TerminalReason, e.Iteration, n)
			}
		})
	}
	wg.Wait()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left, %d there were", runtime.NumGoroutine(), before)
		}
	}
}

// A long loop continues in segments; nothing that it carries grows with it.
func TestLongLoopContinues(t *testing.T) {
	const turns = 400
	b := loopOf(t, turns)
	out := b.take(t)
	e := b.env
	trs := bodies[tipstaff.Transitioned](b, tipstaff.KindTransition)
	if out.Status != flow.Completed || e.Iteration != turns || e.AgentHopCount != 2*turns+2 || len(trs) != 2*turns+3 {
		t.Fatalf("%v: %d iterations, %d hops, %d transitions", b.err, e.Iteration, e.AgentHopCount, len(trs))
	}
	for i, tr := range trs {
		if tr.N != int64(i+1) {
			t.Fatalf("transition %d has number %d", i+1, tr.N)
		}
	}
	if b.conts < 3 {
		t.Errorf("it continued %d times", b.conts)
	}
	if len(e.ProcessingHistory) != kept || e.HistoryTotal != 2*turns+2 || e.Visits["a"] != turns+1 {
		t.Errorf("history %d of %d, %d visits", len(e.ProcessingHistory), e.HistoryTotal, e.Visits["a"])
	}
	if used := flow.Totals(flow.History{Records: b.all()}, b.limits()).Used; used[tipstaff.BoundIterations] != turns || used[tipstaff.BoundAgentHops] != 2*turns+2 {
		t.Errorf("the ledger says %v", used)
	}
	segment, longest := 0, 0
	for _, r := range b.all() {
		if segment++; r.Kind == "run.continued" {
			segment = 0
		}
		longest = max(longest, segment)
	}
	if longest > maxRecords+100 {
		t.Errorf("a segment has %d records", longest)
	}
}

// What is pending when a run continues comes back as it was.
func TestContinueKeepsWhatIsPending(t *testing.T) {
	no := false
	p := loopOf(t, 1).p
	env := NewEnvelope(p, Input{RunID: theRun})
	env.Frontier, env.CompletedStages = []string{"b"}, []string{"a"}
	x := newExecutor(nil, p, &State{Envelope: env}, nil)
	x.pending = pending{Turn: 7, Transitions: 12, Parent: "cp_x_6", Owed: 1, MoreVisits: map[string]int64{"a": 2},
		MoreEdges: []EdgeCount{{From: "b", To: "a", Count: 3}}, Entries: map[string]entry{"b": {Feedback: "f", Granted: true, Error: &StageError{Code: "c", Message: "m"},
			Response: &Response{Kind: Confirmation, Approved: &no, Data: map[string]any{"i": int64(1), "f": 1.0, "big": json.Number("90071992547409931234567")}}}}}
	x.stages[0].mark, x.stages[1].frontier = closed, true
	want := x.pending
	want.Closed = []string{"a"}
	var c continued
	state := stateOf(t, x.resumeLater())
	if err := json.Unmarshal(state, &c); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(state)
	if err != nil {
		t.Fatal(err)
	}
	y := newExecutor(nil, p, &restored, nil)
	y.restore()
	if diff := cmp.Diff(want, y.pending, cmp.AllowUnexported(entry{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(x.stages, y.stages, cmp.AllowUnexported(stageState{})); diff != "" {
		t.Error(diff)
	}
	if _, err := Restore(json.RawMessage(`{"schema":2}`)); err == nil {
		t.Error("another schema is restored")
	}
}

// stateOf is what an error of flow.Continue hands on.
func stateOf(t *testing.T, err error) (state json.RawMessage) {
	t.Helper()
	log := flow.NewMem()
	job := flow.Job{Run: "r", Flow: func(_ flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) == "null" {
			return nil, err
		}
		state = in
		return nil, nil
	}, Input: json.RawMessage("null")}
	if _, err := flow.New(log, nil).Drive(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	return state
}

// However often a run is rolled back, its bounds hold.
func TestHundredRollbacksStayWithinTheBounds(t *testing.T) {
	b := newBed(t, `
name: rolled
max_llm_calls: 20
max_agent_hops: 1000
max_iterations: 1000
agents:
  - {name: a, stage_order: 1, default_next: a, model: {name: m, prompt: p}}
`)
	calls := 0
	b.world.before = func(context.Context, string) { calls++ }
	b.in.Bounds = tipstaff.Bounds{tipstaff.BoundModelCalls: 20}
	digests := map[int64]string{}
	for i := range 100 {
		b.drive(t)
		for _, m := range bodies[tipstaff.TurnMerged](b, tipstaff.KindTurnMerged) {
			digests[m.Turn] = m.Digest
		}
		if b.env.TerminalReason != tipstaff.TerminalLLMCalls || b.env.LLMCallCount != 20 {
			t.Fatalf("rollback %d: %s after %d calls", i, b.env.TerminalReason, b.env.LLMCallCount)
		}
		b.rollBack(t, Rollback{Turn: 1, By: "ada"})
	}
	if calls != 20 {
		t.Errorf("%d calls were made", calls)
	}
}

// The data of a run that was rolled back is that of the boundary.
func TestRollbackRestoresTheData(t *testing.T) {
	b := loopingBed(t)
	b.finish(t, yes)
	merged := bodies[tipstaff.TurnMerged](b, tipstaff.KindTurnMerged)
	hops, last := b.env.AgentHopCount, b.transitions()
	for _, m := range merged[1 : len(merged)-1] {
		c := *b
		c.rolls = nil
		c.rollBack(t, Rollback{Turn: m.Turn, By: "ada"})
		out := c.finish(t, yes)
		first := bodies[tipstaff.Transitioned](&c, tipstaff.KindTransition)[0]
		if first.Reason != tipstaff.TransitionRollback || first.By != "ada" || first.Left != theRun || first.N <= last {
			t.Errorf("turn %d: the first transition is %+v", m.Turn, first)
		}
		if out.Status != flow.Completed || c.env.AgentHopCount <= hops {
			t.Errorf("turn %d: %v, %d hops after %d", m.Turn, c.err, c.env.AgentHopCount, hops)
		}
		if c.env.RunID != c.run || c.env.Version < 2 {
			t.Errorf("turn %d: the identity is %s", m.Turn, c.env.RunID)
		}
	}
}

// An Envelope has a size; what would pass it fails its stage, and the rest stays.
func TestOutputTooLarge(t *testing.T) {
	b := newBed(t, "name: big\nagents:\n  - {name: a, stage_order: 1, error_next: b, remote: {}}\n  - {name: b, stage_order: 2, remote: {}}\n")
	b.world.by = map[string]deed{"a": {output: map[string]any{"text": strings.Repeat("x", MaxEnvelope)}}}
	b.drive(t)
	if e := b.env; !strings.HasPrefix(e.FailedStages["a"], codeTooLarge) || e.Outputs["a"] != nil || e.TerminalReason != tipstaff.TerminalCompleted {
		t.Errorf("%s, failed %v", e.TerminalReason, e.FailedStages)
	}
}

// The ledger may know of more than the Envelope: what a crash has cost, and the time.
func TestLedgerRefusesAStart(t *testing.T) {
	const doc = "name: two\nmax_agent_hops: 9\nagents:\n  - {name: a, stage_order: 1, default_next: b, remote: {}}\n  - {name: b, stage_order: 2, default_next: end, model: {name: m, prompt: p}}\n"
	for _, c := range []struct {
		name, doc string
		limits    flow.Use
		want      tipstaff.TerminalReason
		hops      int64
	}{
		{"hops", doc, flow.Use{tipstaff.BoundAgentHops: 1}, tipstaff.TerminalHops, 1},
		{"model calls", doc, flow.Use{tipstaff.BoundModelCalls: 0}, tipstaff.TerminalLLMCalls, 1},
		{"time", doc, flow.Use{tipstaff.BoundWallTime: 0}, tipstaff.TerminalDeadline, 0},
		{"the rest of a batch", wide(3, "remote: {}"), flow.Use{tipstaff.BoundAgentHops: 3}, tipstaff.TerminalHops, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, c.doc)
			b.lower = c.limits
			out := b.take(t)
			if e := b.env; out.Status != flow.Failed || e.TerminalReason != c.want || e.AgentHopCount != c.hops {
				t.Errorf("%s, %s after %d hops\n%s", out.Status, e.TerminalReason, e.AgentHopCount, b.story(0))
			}
			if n := len(bodies[tipstaff.BoundRefused](b, tipstaff.KindBoundRefused)); n == 0 {
				t.Error("no refusal is recorded")
			}
		})
	}
	t.Run("somebody extends it", func(t *testing.T) {
		b := newBed(t, "on_bound: ask\n"+doc)
		b.lower = flow.Use{tipstaff.BoundAgentHops: 1}
		b.take(t)
		b.decide(t, "b#1/bound", flow.Decision{Action: actionExtend, Answer: json.RawMessage(`{"agent_hops":1}`)})
		if b.take(t); b.env.TerminalReason != tipstaff.TerminalCompleted || b.env.MaxAgentHops != 10 {
			t.Errorf("%v, %d hops are allowed", b.err, b.env.MaxAgentHops)
		}
	})
}

// Two stages of a batch whose outputs fit alone, but not together.
func TestBatchTooLarge(t *testing.T) {
	half := strings.Repeat("x", MaxEnvelope/2)
	b := newBed(t, wide(2, "remote: {}, error_next: last"))
	b.world.by = map[string]deed{"s0": {output: map[string]any{"text": half}}, "s1": {output: map[string]any{"text": half}}}
	b.drive(t)
	if e := b.env; e.Outputs["s0"] == nil || e.Outputs["s1"] != nil || !strings.HasPrefix(e.FailedStages["s1"], codeTooLarge) || e.Size() > MaxEnvelope {
		t.Errorf("failed %v, size %d", e.FailedStages, e.Size())
	}
}

// What asking beforehand says would end a run is what ends it.
func TestAllowanceSpeaksInEndings(t *testing.T) {
	for bound, want := range ledgerReasons {
		run := tipstaff.Run{State: tipstaff.Executing, Bounds: tipstaff.BoundsStatus{bound: {Limited: true}}}
		a := tipstaff.AllowanceOf(run)
		if bound == tipstaff.BoundToolCalls || bound == tipstaff.BoundIterations {
			if !a.CanContinue {
				t.Errorf("without %s left no stage can start: %+v", bound, a)
			}
			continue
		}
		if a.CanContinue || tipstaff.TerminalReason(a.Reason) != want || want.Bound() == "" {
			t.Errorf("%s: %+v, want %s", bound, a, want)
		}
	}
}

// The text of a failure that the program itself makes is cut, too, in every record and in the
// Envelope; in runs from before it stands as it is.
func TestFailuresOfManyWordsAreCut(t *testing.T) {
	text := strings.Repeat("It broke. ", 1000)
	for uncut, most := range map[bool]int{false: flow.MostMessage, true: len(text)} {
		b := newBed(t, "name: long\nagents:\n  - {name: a, stage_order: 1, error_next: b, max_retries: 1, retry_delay_ms: 1, effect: idempotent, remote: {}}\n  - {name: b, stage_order: 2, remote: {}}\n")
		b.world.by = map[string]deed{"a": {err: &StageError{Code: "broken", Message: text, Retryable: true}}}
		b.uncut = uncut
		if out := b.take(t); out.Status != flow.Completed {
			t.Fatalf("it ended %s, %v", out.Status, out.Err)
		}
		longest := 0
		for _, r := range b.all() {
			longest = max(longest, len(r.Body))
		}
		if longest < most || longest > most+1000 {
			t.Errorf("uncut %t: the longest record has %d bytes, want some %d", uncut, longest, most)
		}
	}
}

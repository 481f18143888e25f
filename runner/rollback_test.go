package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
)

func (b *bed) checkpoints(run tipstaff.ID) []tipstaff.Checkpoint {
	b.t.Helper()
	list, err := b.Checkpoints(cli(), run)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// moves are the transitions of a run, as from>to reason.
func (b *bed) moves(run tipstaff.ID) (list []string) {
	b.t.Helper()
	all, err := tipstaff.Transitions(cli(), b, run)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range all {
		list = append(list, fmt.Sprintf("%s>%s %s", m.From, m.To, m.Reason))
	}
	return list
}

// forking is any of the ways to go back in a run.
type forking struct {
	Run               tipstaff.ID
	At                int64
	Checkpoint, Stage string
	Rollback          bool
	Thread            string
	Outputs, Metadata map[string]json.RawMessage
	Raise             map[string]int64
}

func (f forking) do(ctx context.Context, svc tipstaff.Brancher) (tipstaff.Run, error) {
	at := tipstaff.Place{At: f.At, Checkpoint: f.Checkpoint, Stage: f.Stage}
	changes := tipstaff.Changes{Outputs: f.Outputs, Metadata: f.Metadata, Raise: f.Raise}
	if f.Rollback {
		return svc.Rollback(ctx, tipstaff.RollbackRequest{Run: f.Run, Place: at, Changes: changes})
	}
	fork, err := svc.Fork(ctx, tipstaff.ForkRequest{Run: f.Run, Place: at, Thread: f.Thread, Changes: changes})
	return fork.Run, err
}

// Fork forks a run, or rolls it back.
func (b *bed) Fork(ctx context.Context, f forking) (tipstaff.Run, error) { return f.do(ctx, b.Runner) }

// label gives a checkpoint a name.
func (b *bed) label(run tipstaff.ID, checkpoint, name string) tipstaff.Checkpoint {
	b.t.Helper()
	c, err := b.Label(cli(), tipstaff.LabelRequest{Run: run, Checkpoint: checkpoint, Label: name})
	b.check(err)
	return c
}

func (b *bed) fork(req forking) tipstaff.Run {
	b.t.Helper()
	run, err := b.Fork(cli(), req)
	if err != nil {
		b.t.Fatalf("fork: %v %+v", err, err)
	}
	return run
}

func TestRollbackRestoresDataAndKeepsCounters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old, out := b.pipe(review, input("thread_id", `"t"`))
	if out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	cp := b.checkpoints(old)
	if len(cp) != 1 || cp[0].Stage != "critic" || cp[0].Iteration != 0 {
		t.Fatalf("checkpoints: %+v", cp)
	}
	was, at := b.envelope(old), b.envelopeAt(old, cp[0].ID)
	if string(at.Outputs["critic"]) != `{"verdict":"again"}` || at.Iteration != 0 {
		t.Errorf("at the checkpoint it was %+v", at)
	}

	got := b.fork(forking{Run: old, Checkpoint: cp[0].ID, Rollback: true})
	if got.Status != tipstaff.StatusAwaitingResume || got.Pipeline.Thread != "t" || got.Pipeline.Envelope != was.EnvelopeID ||
		got.Lineage.Relation != "rollback" || got.Lineage.Parent != old {
		t.Errorf("the new run is %+v", got)
	}
	left := b.get(old)
	if left.State != tipstaff.Cancelled || left.Pipeline.TerminalReason != "rolled_back" || len(left.OpenGates) != 0 {
		t.Errorf("the run that was left is %+v", left)
	}
	now := b.envelope(got.ID)
	if now.RunID != got.ID.String() || now.EnvelopeID != was.EnvelopeID || now.ThreadID != "t" || now.Hops != was.Hops || now.LLMCalls != was.LLMCalls ||
		now.Visits["critic"] != 2 || now.Version != was.Version+1 || now.Iteration != 1 || now.Epoch != 1 ||
		string(now.Outputs["critic"]) != `{"verdict":"again"}` || now.CurrentStage != at.CurrentStage {
		t.Errorf("its Envelope is %+v\nand was %+v", now, was)
	}
	if page, err := b.List(cli(), tipstaff.ListRequest{Thread: "t"}); err != nil || page.Runs[0].ID != got.ID {
		t.Errorf("the head of the thread: %+v %v", page, err)
	}

	if out := b.resume(got.ID); out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	e := b.envelope(got.ID)
	if string(e.Outputs["critic"]) != `{"verdict":"ok"}` || e.Visits["critic"] != 3 || e.Iteration != 2 {
		t.Errorf("it ended as %+v", e)
	}
	want := []string{"start>work start", "work>critic default",
		"critic>work reintent", "work>critic default", "critic>confirmation interrupt", // which were left behind
		"critic>critic rollback", "critic>work reintent", "work>critic default", "critic>end complete"}
	if moves := b.moves(got.ID); !slices.Equal(moves, want) {
		t.Errorf("its way was %v", moves)
	}
	all, err := tipstaff.Transitions(cli(), b, got.ID)
	b.check(err)
	for i, m := range all {
		if m.N != int64(i+1) || (m.Reason == "rollback") != (m.By == "local:cli" && m.Left == old.String()) {
			t.Errorf("transition %d is %+v", i+1, m)
		}
	}
	b.verified(old)
	b.verified(got.ID)
}

// A rollback of a rollback leaves two runs behind, also where it goes back before the
// first.
func TestWhatSeveralRollbacksLeftIsListed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first, _ := b.pipe(review)
	cp := b.checkpoints(first)[0].ID
	second := b.fork(forking{Run: first, Checkpoint: cp, Rollback: true})
	if out := b.resume(second.ID); out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	third := b.fork(forking{Run: second.ID, Checkpoint: cp, Rollback: true})
	var ns []int64
	all, err := tipstaff.Transitions(cli(), b, third.ID)
	b.check(err)
	for _, m := range all {
		ns = append(ns, m.N)
	}
	if !slices.Equal(ns, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}) || all[8].Left != "" {
		t.Errorf("the transitions are %v", ns)
	}
	for _, c := range b.checkpoints(third.ID) {
		if c.Left != (c.ID != cp) {
			t.Errorf("checkpoint %s: left %v", c.ID, c.Left)
		}
	}
	if list := b.checkpoints(first); len(list) != 1 || list[0].Left {
		t.Errorf("the first run's own are %+v", list)
	}
}

func TestEditedOutputTakesTheOtherRoute(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old, _ := b.pipe(review)
	cp := b.checkpoints(old)[0].ID
	got := b.fork(forking{Run: old, Checkpoint: cp, Rollback: true,
		Outputs:  map[string]json.RawMessage{"critic": json.RawMessage(`{"verdict": "ok", "n": 2.0}`)},
		Metadata: map[string]json.RawMessage{"why": json.RawMessage(`"a person said so"`)}})
	if out := b.resume(got.ID); out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	e := b.envelope(got.ID)
	if string(e.Outputs["critic"]) != `{"n":2.0,"verdict":"ok"}` || e.Visits["critic"] != 2 || string(e.Metadata["why"]) != `"a person said so"` {
		t.Errorf("it ended as %+v", e)
	}
	var by struct{ By string }
	for _, ev := range b.events(got.ID) {
		if ev.Kind == tipstaff.KindRunForked {
			_ = json.Unmarshal(ev.Body, &by)
		}
	}
	if by.By != "local:cli" {
		t.Errorf("the edit is by %q", by.By)
	}
	b.verified(old)
	b.verified(got.ID)
}

func TestForkIsAnotherLineOfWork(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old, _ := b.pipe(review, input("thread_id", `"t"`))
	was := b.get(old)
	for _, req := range []forking{
		{Run: old, Stage: "critic", Thread: "u"},
		{Run: old, Stage: "work"},
		{Run: old},
		{Run: old, Checkpoint: "cp_" + old.String() + "_0"},
	} {
		got := b.fork(req)
		thread := req.Thread
		if thread == "" {
			thread = got.ID.String()
		}
		if got.Pipeline.Thread != thread || got.Pipeline.Envelope == was.Pipeline.Envelope || got.Lineage.Relation != "fork" {
			t.Errorf("%+v makes %+v", req, got)
		}
		b.verified(got.ID)
		if out := b.resume(got.ID); out.Outcome != "parked" && out.State != tipstaff.Completed {
			t.Errorf("%+v: %+v", req, out)
		}
		if e := b.envelope(got.ID); e.EnvelopeID != got.Pipeline.Envelope || e.ThreadID != thread || e.RunID != got.ID.String() {
			t.Errorf("%+v: the Envelope says %+v", req, e)
		}
		b.verified(got.ID)
	}
	if now := b.get(old); now.HeadSeq != was.HeadSeq || now.Status != was.Status {
		t.Errorf("the old run was touched: %+v", now)
	}
}

// Going back gives no budget back, though it is done a hundred times.
func TestRollbacksDoNotPassTheBound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const most = 7
	rollbacks := 100
	if testing.Short() {
		rollbacks = 50
	}
	run, _ := b.pipe(fmt.Sprintf(`name: p
max_llm_calls: %d
max_agent_hops: 1000
agents:
  - {name: a, default_next: b, scripted: {answers: [{output: {n: 1}, usage: {llm_calls: 1}}], repeat: last}}
  - {name: b, scripted: {answers: [{output: {n: 1}, usage: {llm_calls: 1}}], repeat: last}}
`, most))
	start, total, refused := "cp_"+run.String()+"_0", int64(0), 0
	count := func(r tipstaff.Run) {
		t.Helper()
		used := r.Bounds[tipstaff.BoundModelCalls].Used
		if used < total || used > most {
			t.Fatalf("after %d calls there are %d of %d", total, used, most)
		}
		total = used
	}
	for i := range rollbacks {
		next := b.fork(forking{Run: run, Checkpoint: start, Rollback: true})
		run = next.ID
		count(next)
		if i%10 > 0 { // most are left again before they have done anything
			continue
		}
		out, now := b.resume(run), b.get(run)
		count(now)
		switch reason := now.Pipeline.TerminalReason; {
		case out.State != tipstaff.Failed && refused > 0, out.State == tipstaff.Failed && (reason != "max_llm_calls_exceeded" || total != most):
			t.Fatalf("rollback %d, of which %d were refused: %s for %s after %d calls", i, refused, out.State, reason, total)
		case out.State == tipstaff.Failed:
			refused++
		}
	}
	if refused < rollbacks/10-3 { // three have begun before the calls were spent
		t.Errorf("%d were refused: %d calls", refused, total)
	}
	if e := b.envelope(run); e.LLMCalls != most || e.MaxLLMCalls != most {
		t.Errorf("the Envelope has %d calls of %d", e.LLMCalls, e.MaxLLMCalls)
	}
	b.verified(run)
}

func TestRollbackRaisesBounds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"bounds: {iterations: 5}\n")
	run, out := b.pipe(`name: p
max_iterations: 1
agents:
  - {name: a, scripted: {answers: [{output: {n: 1}}], repeat: last}, routing_rules: [{when: "true", target: a}]}
`)
	if out.State != tipstaff.Failed || out.Bound == "" {
		t.Fatalf("%+v", out)
	}
	for name, req := range map[string]map[string]int64{"the ceiling": {"max_iterations": 6}, "what it is": {"max_iterations": 0}, "an unknown one": {"max_luck": 3}} {
		_, err := b.Fork(cli(), forking{Run: run, Stage: "a", Rollback: true, Raise: req})
		if tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("raised above %s: %v", name, err)
		}
	}
	next := b.fork(forking{Run: run, Stage: "a", Rollback: true, Raise: map[string]int64{"max_iterations": 3}})
	if out := b.resume(next.ID); out.State != tipstaff.Failed {
		t.Fatalf("%+v", out)
	}
	if e := b.envelope(next.ID); e.Iteration != 3 || e.Reason != "max_iterations_exceeded" {
		t.Errorf("it ended as %+v", e)
	}
	b.verified(run)
	b.verified(next.ID)
}

func TestRollbackIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, _ := b.pipe(review)
	other, _ := b.pipe(review)
	draft := b.held()
	plan, _ := b.run(gated)
	cp := b.checkpoints(run)[0].ID
	for name, tc := range map[string]struct {
		req  forking
		code tipstaff.Code
	}{
		"a turn that never was":     {forking{Run: run, Checkpoint: "cp_" + run.String() + "_99"}, tipstaff.CheckpointNotFound},
		"the checkpoint of another": {forking{Run: other, Checkpoint: cp}, tipstaff.CheckpointNotFound},
		"no checkpoint":             {forking{Run: run, Checkpoint: "x"}, tipstaff.CheckpointNotFound},
		"a stage that never ran":    {forking{Run: run, Stage: "nobody"}, tipstaff.CheckpointNotFound},
		"two places":                {forking{Run: run, Stage: "work", Checkpoint: cp}, tipstaff.InvalidArgument},
		"a bad thread":              {forking{Run: run, Checkpoint: cp, Thread: "a b"}, tipstaff.InvalidArgument},
		"an output that is none":    {forking{Run: run, Checkpoint: cp, Outputs: map[string]json.RawMessage{"critic": json.RawMessage(`1`)}}, tipstaff.InvalidArgument},
		"a draft":                   {forking{Run: draft, Rollback: true}, tipstaff.WrongState},
		"a plan":                    {forking{Run: plan, Rollback: true}, tipstaff.WrongState},
	} {
		if _, err := b.Fork(cli(), tc.req); tipstaff.CodeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	b.fork(forking{Run: run, Checkpoint: cp, Rollback: true})
	_, err := b.Fork(cli(), forking{Run: run, Checkpoint: cp, Rollback: true})
	wantCode(t, err, tipstaff.WrongState) // another has taken its place
}

func TestRunningRunIsNotRolledBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, err := b.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte(`name: p
agents:
  - {name: a, default_next: b, scripted: {answers: [{output: {n: 1}}]}}
  - {name: b, scripted: {answers: [{hang: true}]}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: s.Run, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == tipstaff.KindStageStarted && e.Path == "b#1" {
			break
		}
	}
	_, err = b.Fork(cli(), forking{Run: s.Run, Stage: "a", Rollback: true})
	wantCode(t, err, tipstaff.WrongState)

	// But it can be given a label.
	b.label(s.Run, "", "before b")
	if cp := b.checkpoints(s.Run); len(cp) != 1 || !slices.Equal(cp[0].Labels, []string{"before b"}) || cp[0].Automatic || cp[0].Turn != 1 || cp[0].Stage != "a" {
		t.Errorf("checkpoints: %+v", cp)
	}
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: s.Run}); err != nil {
		t.Fatal(err)
	}
	b.wait(s.Run)
	b.verified(s.Run)
}

func TestLabelNamesACheckpoint(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, _ := b.pipe(review)
	cp := b.checkpoints(run)[0]
	before := b.get(run).HeadSeq
	if got := b.label(run, cp.ID, "good"); got.ID != cp.ID || b.get(run).HeadSeq != before+1 {
		t.Errorf("it made %+v", got)
	}
	b.label(run, "", "last")
	list := b.checkpoints(run)
	if len(list) != 2 || !slices.Equal(list[0].Labels, []string{"good"}) || !list[0].Automatic || list[0].Digest != cp.Digest ||
		!slices.Equal(list[1].Labels, []string{"last"}) || list[1].Parent != cp.ID || list[1].Iteration != 1 {
		t.Errorf("checkpoints: %+v", list)
	}
	_, err := b.Label(cli(), tipstaff.LabelRequest{Run: run, Label: "two\nlines"})
	wantCode(t, err, tipstaff.InvalidArgument)
	b.verified(run)
	// A run that was labelled is rolled back to where the label is.
	got := b.fork(forking{Run: run, Checkpoint: list[1].ID, Rollback: true})
	b.verified(got.ID)
	b.verified(run)
}

// A rollback can be rolled back: to what it inherits, and to what it did itself.
func TestRollbackOfARollback(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first, _ := b.pipe(review)
	cp := b.checkpoints(first)[0].ID
	second := b.fork(forking{Run: first, Checkpoint: cp, Rollback: true})
	b.resume(second.ID)
	own := b.checkpoints(second.ID)
	if len(own) == 0 {
		t.Fatal("no checkpoints are inherited")
	}
	third := b.fork(forking{Run: second.ID, Checkpoint: cp, Rollback: true, Outputs: map[string]json.RawMessage{"critic": json.RawMessage(`{"verdict": "ask"}`)}})
	if third.Lineage.Parent != first {
		t.Errorf("it inherits %+v", third.Lineage)
	}
	if out := b.resume(third.ID); out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	fourth := b.fork(forking{Run: third.ID, Stage: "work"})
	fifth := b.fork(forking{Run: third.ID, Stage: "critic", Rollback: true})
	for _, run := range []tipstaff.ID{first, second.ID, third.ID, fourth.ID, fifth.ID} {
		b.verified(run)
	}
	if e, was := b.envelope(fifth.ID), b.envelope(third.ID); e.Hops != was.Hops || e.EnvelopeID != was.EnvelopeID || e.Visits["critic"] != was.Visits["critic"] {
		t.Errorf("it is %+v\nafter %+v", e, was)
	}
}

// A fork is rolled back to a checkpoint that it inherits, as any run is: its source is
// not touched, and its Envelope, its thread and its counters are the fork's.
func TestForkIsRolledBackToWhatItInherits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	source, _ := b.pipe(review, input("thread_id", `"t"`))
	head, cp := b.get(source).HeadSeq, b.checkpoints(source)[0].ID
	fork := b.fork(forking{Run: source, Checkpoint: cp, Thread: "u"})
	b.resume(fork.ID)
	was := b.envelope(fork.ID)
	got := b.fork(forking{Run: fork.ID, Checkpoint: cp, Rollback: true})
	if got.Pipeline.Envelope != fork.Pipeline.Envelope || got.Pipeline.Thread != "u" || got.Lineage.Relation != "rollback" || got.Lineage.Parent != source {
		t.Errorf("the new run is %+v", got)
	}
	if b.get(source).HeadSeq != head {
		t.Error("the source was touched")
	}
	if e := b.envelope(got.ID); e.EnvelopeID != was.EnvelopeID || e.ThreadID != "u" || e.Hops != was.Hops || e.Visits["critic"] != was.Visits["critic"] || e.Version != was.Version+1 {
		t.Errorf("its Envelope is %+v\nand was %+v", e, was)
	}
	if out := b.resume(got.ID); out.Err != nil {
		t.Errorf("%+v", out)
	}
	again := b.fork(forking{Run: got.ID, Checkpoint: "cp_" + source.String() + "_0", Rollback: true})
	for _, run := range []tipstaff.ID{source, fork.ID, got.ID, again.ID} {
		b.verified(run)
		dir := filepath.Join(t.TempDir(), "export")
		b.check(runner.Export(cli(), b.Runner, run, dir))
		if rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Dir: dir, Open: true}); err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
			t.Errorf("the export: integrity %+v\nconformance %+v\n%v", rep.Integrity.Problems, rep.Conformance.Problems, err)
		}
	}
}

// Whoever rolls a fork back, it stays its user's.
func TestRollbackOfAForkStaysItsUsers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	source, _ := b.pipe(review)
	cp := b.checkpoints(source)[0].ID
	bob := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli", User: "bob", Principal: "local:cli"})
	fork, err := b.Fork(bob, forking{Run: source, Checkpoint: cp})
	b.check(err)
	got := b.fork(forking{Run: fork.ID, Checkpoint: cp, Rollback: true})
	row, err := b.store.Run(cli(), got.ID.String())
	if err != nil || row.User != "bob" {
		t.Errorf("it is %q's: %v", row.User, err)
	}
	b.verified(got.ID)
}

// An export of a run that was a draft, and of one that was rolled back, is verified
// without the store.
func TestExportOfARollback(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old := b.held()
	b.change(tipstaff.EnvelopeUpdate{Run: old, Outputs: map[string]json.RawMessage{"o": json.RawMessage(`{"text": "` + strings.Repeat("x", 100<<10) + `"}`)}})
	b.begin(old)
	got := b.fork(forking{Run: old, Checkpoint: b.checkpoints(old)[0].ID, Rollback: true,
		Outputs: map[string]json.RawMessage{"critic": json.RawMessage(`{"verdict": "ok", "text": "` + strings.Repeat("y", 100<<10) + `"}`)}})
	b.resume(got.ID)
	for _, run := range []tipstaff.ID{old, got.ID} {
		dir := filepath.Join(t.TempDir(), "export")
		if err := runner.Export(cli(), b.Runner, run, dir); err != nil {
			t.Fatal(err)
		}
		rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Dir: dir, Open: true})
		if err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
			t.Errorf("integrity %+v\nconformance %+v\n%v", rep.Integrity.Problems, rep.Conformance.Problems, err)
		}
	}
}

// A run that was a draft is rolled back to its beginning: with what the draft held.
func TestStartedDraftIsRolledBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"bounds: {model_calls: 12}\n")
	run := b.held()
	b.change(tipstaff.EnvelopeUpdate{Run: run, Metadata: map[string]json.RawMessage{"m": json.RawMessage(`1.0`)}, Usage: &tipstaff.Usage{LLMCalls: 2}})
	b.begin(run)
	got := b.fork(forking{Run: run, Checkpoint: "cp_" + run.String() + "_0", Rollback: true, Raise: map[string]int64{"max_llm_calls": 12}})
	e := b.envelope(got.ID)
	if string(e.Metadata["m"]) != "1.0" || e.LLMCalls != 4 || e.MaxLLMCalls != 12 || len(e.Outputs) != 0 {
		t.Errorf("it is %+v", e)
	}
	b.resume(got.ID)
	b.verified(run)
	b.verified(got.ID)
}

package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// review is a loop that a person must confirm.
const review = `name: review
max_iterations: 3
agents:
  - {name: work, stage_order: 1, default_next: critic, scripted: {answers: [{output: {n: 1}, usage: {llm_calls: 1, tokens_in: 10, tokens_out: 5}}], repeat: last}}
  - name: critic
    stage_order: 2
    scripted: {answers: [{output: {verdict: again}}, {output: {verdict: ask}}, {output: {verdict: ok}}], repeat: last}
    routing_rules:
      - {condition: verdict, value: again, target: work}
      - {condition: verdict, value: ask, target: confirmation, then: end}
`

func hold(with ...func(*tipstaff.StartRequest)) tipstaff.StartRequest {
	req := tipstaff.StartRequest{Name: "review.yaml", Program: []byte(review),
		Inputs: map[string]json.RawMessage{"raw_input": json.RawMessage(`"do it"`)}}
	for _, f := range with {
		f(&req)
	}
	return req
}

func input(name, value string) func(*tipstaff.StartRequest) {
	return func(r *tipstaff.StartRequest) { r.Inputs[name] = json.RawMessage(value) }
}

func withoutProgram(r *tipstaff.StartRequest) { r.Program = nil }

// hold makes a draft of what could be started.
func (b *bed) hold(ctx context.Context, r tipstaff.StartRequest) (tipstaff.Started, error) {
	return b.Runner.CreateEnvelope(ctx, tipstaff.EnvelopeRequest{Program: r.Program, Name: r.Name, Inputs: r.Inputs, Title: r.Title, Bounds: r.Bounds, NoFiles: r.NoFiles})
}

// held makes a draft.
func (b *bed) held(with ...func(*tipstaff.StartRequest)) tipstaff.ID {
	b.t.Helper()
	s, err := b.hold(cli(), hold(with...))
	if err != nil {
		b.t.Fatalf("holding: %v %+v", err, err)
	}
	if s.Existed {
		b.t.Errorf("a new draft: %+v", s)
	}
	return s.Run
}

// change changes a draft.
func (b *bed) change(h tipstaff.EnvelopeUpdate) {
	b.t.Helper()
	if err := b.UpdateEnvelope(cli(), h); err != nil {
		b.t.Fatalf("changing: %v", err)
	}
}

func (b *bed) begin(run tipstaff.ID, with ...func(*tipstaff.StartRequest)) tipstaff.Driven {
	b.t.Helper()
	req := tipstaff.StartRequest{Inputs: map[string]json.RawMessage{}}
	for _, f := range with {
		f(&req)
	}
	execute := tipstaff.ExecuteRequest{Run: run, Program: req.Program, Name: req.Name, Bounds: req.Bounds}
	_ = json.Unmarshal(req.Inputs["thread_id"], &execute.Thread)
	s, err := b.ExecuteEnvelope(cli(), execute)
	if err != nil {
		b.t.Fatalf("starting the draft: %v %+v", err, err)
	}
	return b.wait(s.Run)
}

// envelope is what tests look at of one.
type envelope struct {
	EnvelopeID   string                     `json:"envelope_id"`
	RunID        string                     `json:"run_id"`
	ThreadID     string                     `json:"thread_id"`
	RequestID    string                     `json:"request_id"`
	Version      int64                      `json:"version"`
	RawInput     string                     `json:"raw_input"`
	Metadata     map[string]json.RawMessage `json:"metadata"`
	Outputs      map[string]json.RawMessage `json:"outputs"`
	Iteration    int64                      `json:"iteration"`
	LLMCalls     int64                      `json:"llm_call_count"`
	Hops         int64                      `json:"agent_hop_count"`
	TokensIn     int64                      `json:"tokens_in"`
	TokensOut    int64                      `json:"tokens_out"`
	Cost         string                     `json:"cost_usd"`
	Visits       map[string]int64           `json:"visits"`
	MaxLLMCalls  int64                      `json:"max_llm_calls"`
	Pipeline     string                     `json:"pipeline"`
	Reason       string                     `json:"terminal_reason"`
	CurrentStage string                     `json:"current_stage"`
	Epoch        int64                      `json:"epoch"`
}

func (b *bed) envelope(run tipstaff.ID) (e envelope) {
	b.t.Helper()
	return b.envelopeAt(run, "")
}

func (b *bed) envelopeAt(run tipstaff.ID, checkpoint string) (e envelope) {
	b.t.Helper()
	raw, err := b.Envelope(cli(), run, checkpoint)
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	if err != nil {
		b.t.Fatalf("%q: %v", checkpoint, err)
	}
	return e
}

func TestDraftIsMadeChangedAndStarted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.held(input("metadata", `{"exact": 1.0, "large": 9007199254740993, "text": "x"}`), input("thread_id", `"mine"`))
	if got := b.get(run); got.State != tipstaff.Drafting || got.Pipeline == nil || got.Pipeline.Version != 1 || got.Pipeline.Thread != "mine" {
		t.Errorf("the draft is %+v", got)
	}
	e := b.envelope(run)
	if e.Pipeline != "review" || e.RawInput != "do it" || e.CurrentStage != "start" || e.RunID != run.String() {
		t.Errorf("its Envelope is %+v", e)
	}
	for name, want := range map[string]string{"exact": "1.0", "large": "9007199254740993", "text": `"x"`} {
		if got := string(e.Metadata[name]); got != want {
			t.Errorf("metadata %s came back as %s, want %s", name, got, want)
		}
	}

	b.change(tipstaff.EnvelopeUpdate{Run: run, Version: 1, Outputs: map[string]json.RawMessage{"work": json.RawMessage(`{"n": 7.0}`), "other": json.RawMessage(`{}`)},
		Metadata: map[string]json.RawMessage{"text": json.RawMessage(`"y"`)}, Usage: &tipstaff.Usage{LLMCalls: 2, TokensIn: 100, CostUSD: 1_500_000_000}})
	b.change(tipstaff.EnvelopeUpdate{Run: run, Version: 2, Remove: []string{"other"}})
	e = b.envelope(run)
	if e.Version != 3 || string(e.Outputs["work"]) != `{"n":7.0}` || len(e.Outputs) != 1 || string(e.Metadata["text"]) != `"y"` || e.LLMCalls != 2 || e.Cost != "1.50" {
		t.Errorf("after two changes it is %+v", e)
	}
	if bounds := b.get(run).Bounds; bounds[tipstaff.BoundModelCalls].Used != 2 || bounds[tipstaff.BoundTokens].Used != 100 || bounds[tipstaff.BoundCostUSD].Used != 1_500_000_000 {
		t.Errorf("the ledger of the draft says %+v", bounds)
	}
	b.verified(run)

	if out := b.begin(run); out.Outcome != "parked" {
		t.Fatalf("the started draft: %+v", out)
	}
	want := []string{"intent.draft", "draft.updated", "draft.updated", "intent.compiled", "intent.accept", "plan.proposed", "run.continued", "run.started"}
	if got := b.kinds(run); !slices.Equal(got[:len(want)], want) {
		t.Errorf("its records begin with %v", got[:len(want)])
	}
	e = b.envelope(run)
	if e.Iteration != 1 || e.LLMCalls != 4 || e.Hops != 4 || e.TokensIn != 120 || string(e.Metadata["exact"]) != "1.0" {
		t.Errorf("where it waits it is %+v", e)
	}
	if got := b.get(run).Bounds[tipstaff.BoundModelCalls].Used; got != 4 {
		t.Errorf("the ledger has %d model calls", got)
	}
	b.verified(run)
}

func TestDraftChangesAreCompareAndSet(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.held()
	b.change(tipstaff.EnvelopeUpdate{Run: run, Version: 1, Metadata: map[string]json.RawMessage{"a": json.RawMessage(`1`)}})
	err := b.UpdateEnvelope(cli(), tipstaff.EnvelopeUpdate{Run: run, Version: 1, Metadata: map[string]json.RawMessage{"a": json.RawMessage(`2`)}})
	wantCode(t, err, tipstaff.VersionStale)
	for name, h := range map[string]tipstaff.EnvelopeUpdate{
		"outputs.o": {Outputs: map[string]json.RawMessage{"o": json.RawMessage(`[1]`)}},
		"$.b":       {Outputs: map[string]json.RawMessage{"o": json.RawMessage(`{"b": 1, "b": 2}`)}},
		"metadata":  {Metadata: map[string]json.RawMessage{"m": json.RawMessage(`{"b": `)}},
		"less":      {Usage: &tipstaff.Usage{ToolCalls: -1}},
	} {
		h.Run = run
		err := b.UpdateEnvelope(cli(), h)
		wantCode(t, err, tipstaff.InvalidArgument)
		if err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(name, "$.")) {
			t.Errorf("the refusal of %s says %v", name, err)
		}
	}
	if e := b.envelope(run); e.Version != 2 || string(e.Metadata["a"]) != "1" || len(e.Outputs) != 0 {
		t.Errorf("what was refused has changed it: %+v", e)
	}

	const writers = 8
	errs := make(chan error, writers)
	for range writers {
		go func() {
			err := b.UpdateEnvelope(cli(), tipstaff.EnvelopeUpdate{Run: run, Usage: &tipstaff.Usage{LLMCalls: 1}})
			errs <- err
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if e := b.envelope(run); e.LLMCalls != writers || e.Version != 2+writers {
		t.Errorf("of %d writers at once it has %d calls and version %d", writers, e.LLMCalls, e.Version)
	}
	b.verified(run)
}

func TestRequestMakesOneDraft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := input("request_id", `"r1"`)
	run := b.held(id)
	again, err := b.hold(cli(), hold(id))
	if err != nil || !again.Existed || again.Run != run {
		t.Errorf("the same again: %+v %v", again, err)
	}
	for name, other := range map[string]func(*tipstaff.StartRequest){
		"input":    input("raw_input", `"another"`),
		"metadata": input("metadata", `{"a": 1}`),
		"bounds":   func(r *tipstaff.StartRequest) { r.Bounds = tipstaff.Bounds{tipstaff.BoundToolCalls: 3} },
		"program":  withoutProgram,
	} {
		_, err := b.hold(cli(), hold(id, other))
		if tipstaff.CodeOf(err) != tipstaff.RequestConflict {
			t.Errorf("with another %s: %v", name, err)
		}
	}
	other := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli", User: "bob", Principal: "local:cli"})
	if s, err := b.Start(other, hold(id)); err != nil || s.Existed {
		t.Errorf("the request of another user: %+v %v", s, err)
	}
	page, err := b.List(cli(), tipstaff.ListRequest{Request: "r1"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != run {
		t.Errorf("runs of the request: %+v %v", page, err)
	}
}

func TestDraftIsGivenItsProgramWhenItIsStarted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.held(withoutProgram)
	_, err := b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: run})
	wantCode(t, err, tipstaff.InvalidArgument)
	if e := b.envelope(run); e.Pipeline != "" || e.MaxLLMCalls != 10 {
		t.Errorf("without a program it is %+v", e)
	}
	b.change(tipstaff.EnvelopeUpdate{Run: run, Outputs: map[string]json.RawMessage{"o": json.RawMessage(`{"a": 1}`)}, Usage: &tipstaff.Usage{LLMCalls: 1}})
	program := strings.Replace(review, "max_iterations: 3", "max_iterations: 3\nmax_llm_calls: 5", 1)
	given := func(r *tipstaff.StartRequest) { r.Program, r.Name = []byte(program), "given.yaml" }
	_, err = b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: run, Program: []byte(program), Name: "given.yaml", Bounds: tipstaff.Bounds{tipstaff.BoundModelCalls: 6}})
	wantCode(t, err, tipstaff.InvalidArgument)

	if out := b.begin(run, given, func(r *tipstaff.StartRequest) { r.Bounds = tipstaff.Bounds{tipstaff.BoundModelCalls: 4} }); out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	e := b.envelope(run)
	if e.Pipeline != "review" || e.MaxLLMCalls != 4 || e.LLMCalls != 3 || string(e.Outputs["o"]) != `{"a":1}` || e.Version < 3 {
		t.Errorf("it is %+v", e)
	}
	if got := b.get(run); got.Bounds[tipstaff.BoundModelCalls].Limit != 4 || got.Program.Name != "review" {
		t.Errorf("its status is %+v", got)
	}
	b.verified(run)
}

func TestOnlyWhatRestsIsStarted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.held()
	_, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
	wantCode(t, err, tipstaff.WrongState)
	b.begin(run) // it waits for a confirmation
	_, err = b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: run})
	wantCode(t, err, tipstaff.WrongState)
	err = b.UpdateEnvelope(cli(), tipstaff.EnvelopeUpdate{Run: run, Remove: []string{"work"}})
	wantCode(t, err, tipstaff.WrongState)
	if _, err := b.decide(run, b.get(run).OpenGates[0].ID.String(), "approve"); err != nil {
		t.Fatal(err)
	}
	_, err = b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: run, Name: "other.yaml", Program: []byte("name: other\nagents: []\n")})
	wantCode(t, err, tipstaff.WrongState)
	if out := b.begin(run); out.State != tipstaff.Completed { // now it awaits to be resumed
		t.Errorf("%+v", out)
	}
	_, err = b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: run})
	wantCode(t, err, tipstaff.WrongState)
	b.verified(run)
}

func TestDraftIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, run := range map[string]tipstaff.ID{"with a program": b.held(), "without": b.held(withoutProgram)} {
		b.change(tipstaff.EnvelopeUpdate{Run: run, Usage: &tipstaff.Usage{ToolCalls: 3}})
		got, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Reason: "enough"})
		if err != nil || got.State != tipstaff.Cancelled || got.Pipeline.TerminalReason != "user_cancelled" || got.Bounds[tipstaff.BoundToolCalls].Used != 3 {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		err = b.UpdateEnvelope(cli(), tipstaff.EnvelopeUpdate{Run: run})
		wantCode(t, err, tipstaff.WrongState)
		b.verified(run)
	}
}

func TestThreadHasOneRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	mine := input("thread_id", `"t"`)
	run := b.held(mine)
	_, err := b.hold(cli(), hold(mine))
	wantCode(t, err, tipstaff.ThreadBusy)
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil {
		t.Fatal(err)
	}
	next := b.held(mine)
	page, err := b.List(cli(), tipstaff.ListRequest{Thread: "t"})
	if err != nil || len(page.Runs) != 2 || page.Runs[0].ID != next {
		t.Errorf("runs of the thread: %+v %v", page, err)
	}
}

// A draft may be started in a thread that it was not made for, if nobody is at work
// there; a rollback stays in it.
func TestDraftIsStartedInAThread(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.held(input("thread_id", `"taken"`))
	run := b.held()
	_, err := b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: run, Thread: "taken"})
	wantCode(t, err, tipstaff.ThreadBusy)
	if e := b.envelope(run); e.ThreadID != run.String() || b.get(run).State != tipstaff.Drafting {
		t.Errorf("refused, it is in thread %s and %s", e.ThreadID, b.get(run).State)
	}
	b.begin(run, input("thread_id", `"free"`))
	if e, got := b.envelope(run), b.get(run).Pipeline; e.ThreadID != "free" || got.Thread != "free" {
		t.Errorf("it is in thread %s, its status says %s", e.ThreadID, got.Thread)
	}
	page, err := b.List(cli(), tipstaff.ListRequest{Thread: "free"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != run {
		t.Errorf("the thread has %+v, %v", page, err)
	}
	b.verified(run)
	back, err := b.Fork(cli(), forking{Run: run, Checkpoint: "cp_" + run.String() + "_0", Rollback: true})
	if err != nil || back.Pipeline.Thread != "free" {
		t.Errorf("rolled back, it is in thread %+v, %v", back.Pipeline, err)
	}
}

// A null takes a key of the metadata out.
func TestMetadataIsTakenOutOfADraft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.held(input("metadata", `{"a": 1, "b": 2}`))
	b.change(tipstaff.EnvelopeUpdate{Run: run, Metadata: map[string]json.RawMessage{"a": json.RawMessage("null")}})
	if e := b.envelope(run); len(e.Metadata) != 1 || string(e.Metadata["b"]) != "2" {
		t.Errorf("what is left is %s", e.Metadata)
	}
}

// Large data of a draft lies beside its records.
func TestLargeDraft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	text := strings.Repeat("x", 200<<10)
	run := b.held()
	b.change(tipstaff.EnvelopeUpdate{Run: run, Outputs: map[string]json.RawMessage{"o": json.RawMessage(`{"text": "` + text + `"}`)}})
	if e := b.envelope(run); len(e.Outputs["o"]) < len(text) || e.Version != 2 {
		t.Errorf("it has %d bytes and version %d", len(e.Outputs["o"]), e.Version)
	}
	if got := b.get(run); got.Pipeline.Version != 2 {
		t.Errorf("the status has version %d", got.Pipeline.Version)
	}
	b.begin(run)
	if e := b.envelope(run); len(e.Outputs["o"]) < len(text) {
		t.Errorf("started, it has %d bytes", len(e.Outputs["o"]))
	}
	b.verified(run)
}

// A counter that is full takes no more, and nothing of such a change is kept.
func TestCountersOfADraftDoNotOverflow(t *testing.T) {
	b := newBed(t)
	run := b.held()
	b.change(tipstaff.EnvelopeUpdate{Run: run, Usage: &tipstaff.Usage{LLMCalls: 1<<31 - 1, ToolCalls: 1<<31 - 2, TokensIn: 1<<62 - 1, CostUSD: 1}})
	for name, u := range map[string]tipstaff.Usage{
		"one more call":       {LLMCalls: 1},
		"two more tool calls": {ToolCalls: 2},
		"a sum over 64 bits":  {TokensIn: 1<<63 - 1},
		"money":               {CostUSD: 1<<62 - 1},
		"less than nothing":   {TokensOut: -1},
	} {
		err := b.UpdateEnvelope(cli(), tipstaff.EnvelopeUpdate{Run: run, Usage: &u, Metadata: map[string]json.RawMessage{"kept": json.RawMessage("true")}})
		if tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	raw, err := b.Envelope(cli(), run, "")
	if err != nil || !strings.Contains(string(raw), `"llm_call_count":2147483647`) || strings.Contains(string(raw), "kept") {
		t.Errorf("the draft is %s, %v", raw, err)
	}
	b.change(tipstaff.EnvelopeUpdate{Run: run, Usage: &tipstaff.Usage{ToolCalls: 1}}) // up to the last one
}

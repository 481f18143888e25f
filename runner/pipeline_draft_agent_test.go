package runner_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff"
)

const pair = `name: pair
max_llm_calls: 4
agents:
  - name: first
    stage_order: 1
    default_next: second
    scripted:
      answers: [{output: {n: 1}, usage: {llm_calls: 2, tokens_in: 30, tokens_out: 12, cost_usd: "0.25"}, control: {metadata: {seen: true}}}]
      repeat: last
  - {name: second, stage_order: 2, requires: [first], output_key: out, scripted: {answers: [{control: {interrupt: {kind: question, question: "Why?"}}, output: {}}, {output: {ok: true}}], repeat: last}}
  - {name: bad, stage_order: 3, entry: false, scripted: {answers: [{error: {code: broken, message: no}, usage: {llm_calls: 1}}], repeat: last}}
`

func ofPair(r *tipstaff.StartRequest) { r.Program = []byte(pair) }

// alone runs one agent of a draft to where it rests.
func (b *bed) alone(draft tipstaff.ID, agent string, doc ...string) (tipstaff.ID, tipstaff.Driven) {
	b.t.Helper()
	a := tipstaff.AgentRequest{Run: draft, Name: agent}
	if len(doc) > 0 {
		a.Document = json.RawMessage(doc[0])
	}
	s, err := b.ExecuteAgent(cli(), a)
	if err != nil {
		b.t.Fatalf("running %s alone: %v %+v", agent, err, err)
	}
	return s.Run, b.wait(s.Run)
}

func TestSingleAgentWorksOnItsDraft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	draft := b.held(ofPair)
	run, out := b.alone(draft, "first")
	if out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	if got := b.get(run); got.Lineage == nil || got.Lineage.Parent != draft || got.Lineage.Relation != "agent" || got.Bounds[tipstaff.BoundModelCalls].Limit != 4 {
		t.Errorf("its run is %+v", got)
	}
	e := b.envelope(draft)
	if string(e.Outputs["first"]) != `{"n":1}` || e.LLMCalls != 2 || e.Hops != 1 || e.TokensIn != 30 || e.TokensOut != 12 || e.Cost != "0.25" ||
		e.Version != 2 || string(e.Metadata["seen"]) != "true" {
		t.Errorf("the draft is %+v", e)
	}
	if got := b.get(draft); got.State != tipstaff.Drafting || got.Pipeline.Version != 2 || got.Bounds[tipstaff.BoundModelCalls].Used != 2 {
		t.Errorf("its status is %+v", got)
	}
	// The next has what is left.
	brought, out := b.alone(draft, "brought", `{"scripted": {"answers": [{"output": {"a": 1}}]}, "default_next": "first"}`)
	if out.State != tipstaff.Completed || b.get(brought).Bounds[tipstaff.BoundModelCalls].Limit != 2 {
		t.Errorf("%+v, %+v", out, b.get(brought).Bounds)
	}
	if e := b.envelope(brought); string(e.Outputs["first"]) != `{"n":1}` || string(e.Metadata["seen"]) != "true" {
		t.Errorf("it saw %+v", e)
	}
	if page, err := b.List(cli(), tipstaff.ListRequest{Envelope: e.EnvelopeID}); err != nil || len(page.Runs) != 1 || page.Runs[0].ID != draft {
		t.Errorf("the head of the Envelope: %+v %v", page, err)
	}
	for _, id := range []tipstaff.ID{draft, run, brought} {
		b.verified(id)
	}
	b.begin(draft)
	b.verified(draft)
}

// What a caller brings is the whole agent: of the draft's agent of that name nothing is
// left.
func TestAgentThatIsBroughtReplacesTheDrafts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	draft := b.held(ofPair)
	run, out := b.alone(draft, "second", `{"scripted": {"answers": [{"output": {"a": 1}}]}}`)
	if e := b.envelope(run); out.State != tipstaff.Completed || e.Outputs["out"] != nil || string(e.Outputs["second"]) != `{"a":1}` {
		t.Errorf("%+v: %v", out, e.Outputs)
	}
	for _, doc := range []string{`null`, `[]`, `"second"`, `{`} {
		_, err := b.ExecuteAgent(cli(), tipstaff.AgentRequest{Run: draft, Name: "second", Document: json.RawMessage(doc)})
		wantCode(t, err, tipstaff.InvalidArgument)
	}
}

// Of agents that are started at once one works on the draft, and the others are told so.
func TestAgentsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	draft := b.held(ofPair)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			_, err := b.ExecuteAgent(cli(), tipstaff.AgentRequest{Run: draft, Name: "second"}) // which parks, and keeps the draft
			errs <- err
		}()
	}
	working := 0
	for range cap(errs) {
		switch err := <-errs; {
		case err == nil:
			working++
		case tipstaff.CodeOf(err) != tipstaff.WrongState:
			t.Errorf("%v", err)
		}
	}
	if working != 1 {
		t.Errorf("%d work on it", working)
	}
}

func TestFailedAgentCostsItsDraft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	draft := b.held(ofPair)
	run, out := b.alone(draft, "bad")
	if out.State != tipstaff.Failed {
		t.Fatalf("%+v", out)
	}
	if e := b.envelope(draft); len(e.Outputs) != 0 || e.LLMCalls != 1 || e.Hops != 1 || e.Version != 2 {
		t.Errorf("the draft is %+v", e)
	}
	b.verified(draft)
	b.verified(run)
	_, err := b.ExecuteAgent(cli(), tipstaff.AgentRequest{Run: draft, Name: "nobody"})
	wantCode(t, err, tipstaff.AgentNotFound)
	_, err = b.ExecuteAgent(cli(), tipstaff.AgentRequest{Name: "bad"})
	wantCode(t, err, tipstaff.InvalidArgument)
}

func TestDraftIsLockedWhileAnAgentWorksOnIt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	draft := b.held(ofPair)
	run, out := b.alone(draft, "second") // which asks first
	if out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	for name, act := range map[string]func() error{
		"changing it": func() error {
			err := b.UpdateEnvelope(cli(), tipstaff.EnvelopeUpdate{Run: draft})
			return err
		},
		"starting it": func() error {
			_, err := b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: draft})
			return err
		},
		"another agent": func() error {
			_, err := b.ExecuteAgent(cli(), tipstaff.AgentRequest{Run: draft, Name: "first"})
			return err
		},
		"taking the agent's place": func() error {
			_, err := b.Fork(cli(), forking{Run: run, Rollback: true})
			return err
		},
		"cancelling it": func() error {
			_, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: draft})
			return err
		},
	} {
		if err := act(); tipstaff.CodeOf(err) != tipstaff.WrongState {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.verified(draft)
	if _, err := b.decide(run, b.get(run).OpenGates[0].ID.String(), "answer", answer(`"because"`)); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	if e := b.envelope(draft); string(e.Outputs["out"]) != `{"ok":true}` || e.Hops != 2 {
		t.Errorf("the draft is %+v", e)
	}
	b.change(tipstaff.EnvelopeUpdate{Run: draft, Remove: []string{"out"}})
	b.verified(draft)
	b.verified(run)
}

func TestCancelledAgentUnlocksItsDraft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	draft := b.held(ofPair)
	run, _ := b.alone(draft, "second")
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil {
		t.Fatal(err)
	}
	if e := b.envelope(draft); len(e.Outputs) != 0 || e.Hops != 1 || e.Version != 2 {
		t.Errorf("the draft is %+v", e)
	}
	b.change(tipstaff.EnvelopeUpdate{Run: draft, Metadata: map[string]json.RawMessage{"a": json.RawMessage(`1`)}})
	want := []string{"intent.draft", "draft.updated", "draft.updated", "draft.updated"}
	if got := b.kinds(draft); !slices.Equal(got, want) {
		t.Errorf("its records are %v", got)
	}
	b.verified(draft)
	b.verified(run)
}

package runner_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
)

// bearer is a caller by the network for the user local.
func bearer(scopes ...string) context.Context {
	return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "grpc", User: "local", Principal: "token:local", Scopes: scopes})
}

// Without decide, and with it.
var (
	runs    = []string{tipstaff.ScopeRead, tipstaff.ScopeRun, tipstaff.ScopeSubmit}
	decides = append([]string{tipstaff.ScopeDecide}, runs...)
)

// Whoever may not answer a gate may neither change what it is about nor leave it behind.
func TestGoingBackPastADecisionNeedsItsScope(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"bounds: {iterations: 5}\n")
	svc := b.Runner
	ended, out := b.pipe(loop)
	if !out.State.Terminal() {
		t.Fatalf("%+v", out)
	}
	edited := map[string]json.RawMessage{"critic": json.RawMessage(`{"verdict": "ok"}`)}
	for name, req := range map[string]forking{
		"an edited output":   {Outputs: edited},
		"edited metadata":    {Metadata: map[string]json.RawMessage{"m": json.RawMessage(`1`)}},
		"a raised bound":     {Raise: map[string]int64{"max_iterations": 5}},
		"all of it, a fork":  {Outputs: edited, Raise: map[string]int64{"max_iterations": 5}},
		"nothing, past none": {},
	} {
		for _, rollback := range []bool{false, true} {
			req.Run, req.Stage, req.Rollback = ended, "critic", rollback
			changes := len(req.Outputs)+len(req.Metadata)+len(req.Raise) > 0
			got, err := req.do(bearer(runs...), svc)
			if changes != (tipstaff.CodeOf(err) == tipstaff.Forbidden) || !changes && err != nil {
				t.Errorf("%s without decide: %v", name, err)
			}
			if changes {
				got, err = req.do(bearer(decides...), svc)
			}
			if err != nil {
				t.Errorf("%s with decide: %v", name, err)
			}
			if rollback {
				ended = got.ID
				b.resume2(ended)
			}
		}
	}
	asking, out := b.pipe(review)
	if out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	plan, _ := b.run(gated)
	for _, req := range []forking{{Run: plan}, {Run: plan, At: 4}, {Run: asking, Stage: "work"},
		{Run: asking, Checkpoint: b.checkpoints(asking)[0].ID}, {Run: asking, Stage: "work", Rollback: true}} {
		_, err := req.do(bearer(runs...), svc)
		wantCode(t, err, tipstaff.Forbidden)
		if _, err := req.do(bearer(decides...), svc); err != nil {
			t.Error(err)
		}
	}
	another, _ := b.pipe(review)
	if _, err := svc.Label(bearer(runs...), tipstaff.LabelRequest{Run: another, Label: "here"}); err != nil {
		t.Errorf("a label: %v", err)
	}
}

// A run that somebody else has rolled back is still its user's.
func TestARunThatIsRolledBackKeepsItsUser(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	svc := b.Runner
	as := func(user string, scopes ...string) context.Context {
		return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "grpc", User: user, Principal: "token:" + user, Scopes: scopes})
	}
	s, err := svc.Start(as("alice", decides...), tipstaff.StartRequest{Program: []byte(loop), Name: "p.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.Run)
	made, err := forking{Run: s.Run, Stage: "critic", Rollback: true}.do(as("root", tipstaff.ScopeAdmin), svc)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := svc.Get(as("alice", tipstaff.ScopeRead), made.ID); err != nil || got.User != "alice" {
		t.Errorf("it is %q's, %v", got.User, err)
	}
	if _, err := svc.Get(as("bob", tipstaff.ScopeRead), made.ID); tipstaff.CodeOf(err) != tipstaff.Forbidden {
		t.Errorf("bob sees it: %v", err)
	}
	b.resume2(made.ID)
	b.verified(made.ID)
}

// What answers gates in advance is for those who may answer them.
func TestAnsweringInAdvanceNeedsItsScope(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	svc := b.Runner
	for name, with := range map[string]func(*tipstaff.StartRequest){
		"yes": func(r *tipstaff.StartRequest) { r.Yes = true }, "ask": func(r *tipstaff.StartRequest) { r.Attended = true },
		"sub-dispatch": func(r *tipstaff.StartRequest) { r.AllowSubDispatch = true },
	} {
		req := tipstaff.StartRequest{Name: "p", Program: []byte(review), NoFiles: true}
		with(&req)
		check := tipstaff.ValidateRequest{Start: &req}
		if _, err := svc.Validate(bearer(runs...), check); tipstaff.CodeOf(err) != tipstaff.Forbidden {
			t.Errorf("%s without decide: %v", name, err)
		}
		if _, err := svc.Validate(bearer(decides...), check); err != nil {
			t.Errorf("%s with decide: %v", name, err)
		}
	}
	run, _ := b.run(gated)
	for _, who := range []tipstaff.Presence{{Yes: true}, {Attended: true}} {
		_, err := svc.Resume(bearer(runs...), tipstaff.ResumeRequest{Run: run, Presence: who})
		wantCode(t, err, tipstaff.Forbidden)
	}
}

func TestBoundsAreRaisedToTheDocumentsOwn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, _ := b.pipe(review, func(r *tipstaff.StartRequest) {
		r.Bounds = tipstaff.Bounds{tipstaff.BoundIterations: 2, tipstaff.BoundToolCalls: 7}
	})
	for name, n := range map[string]int64{"max_iterations": 4, "max_llm_calls": 11, "max_tool_calls": 201, "max_tokens": 1_000_001, "max_cost_usd": 5_000_000_001,
		"max_wall_seconds": 3601, "max_agent_hops": 22, "max_stages": 6} {
		_, err := b.Fork(cli(), forking{Run: run, Stage: "work", Rollback: true, Raise: map[string]int64{name: n}})
		if tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	back := b.fork(forking{Run: run, Stage: "work", Rollback: true, Raise: map[string]int64{"max_iterations": 3, "max_tool_calls": 200}})
	if got := b.get(back.ID).Bounds; got[tipstaff.BoundIterations].Limit != 3 || got[tipstaff.BoundToolCalls].Limit != 200 {
		t.Errorf("%+v", got)
	}
}

// An extension stays within the manifest, however it is put together.
func TestExtensionsStayWithinTheManifest(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"bounds: {iterations: 3, tool_calls: 50}\n")
	run, out := b.pipe(`name: p
max_iterations: 1
on_bound: ask
agents:
  - {name: a, scripted: {answers: [{output: {n: 1}}], repeat: last}, routing_rules: [{when: "true", target: a}]}
`)
	if out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	extend := func(by string) error {
		_, err := b.decide(run, b.get(run).OpenGates[0].ID.String(), "extend", answer(by))
		return err
	}
	for _, by := range []string{`{"iterations": 3}`, `{"iterations": 9223372036854775807}`, `{"iterations": 1, "tool_calls": 1}`} {
		if err := extend(by); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: %v", by, err)
		}
	}
	b.check(extend(`{"iterations": 1}`))
	b.resume(run)
	if err := extend(`{"iterations": 2}`); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Errorf("a second one beyond it: %v", err)
	}
	b.check(extend(`{"iterations": 1}`))
	b.resume(run)
	b.write("tipstaff.yaml", manifest+"bounds: {iterations: 4, tool_calls: 50}\n") // which permits more by now
	if err := extend(`{"iterations": 2}`); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Errorf("beyond the manifest of now: %v", err)
	}
	b.check(extend(`{"iterations": 1}`))
	b.resume(run)
	b.verified(run)
}

const (
	paid      = `echo paid >> effects`
	toolStage = "name: p\nagents: [{name: pay, tool: {uri: \"mcp://builtin/exec@1.0.0\", args: {argv: [sh, -c, \"" + paid + "\"]}}}]\n"
	planStage = "name: p\nagents: [{name: pay, plan: {document: {kind: plan, version: 1, root: {id: pay, kind: tool_call, tool: \"mcp://builtin/exec@1.0.0\", args: {argv: [sh, -c, \"" +
		paid + "\"]}}}}}]\n"
	wholePlan = "kind: plan\nversion: 1\nroot: {id: pay, kind: tool_call, tool: \"mcp://builtin/exec@1.0.0\", args: {argv: [sh, -c, \"" + paid + "\"]}}\n"
)

// serve puts a document into a folder that the operator serves, and returns its path in the
// workspace.
func (b *bed) serve(name, text string) string {
	b.Pipelines = []string{filepath.Join(b.dir, "served")}
	file := filepath.Join("served", name)
	b.check(os.MkdirAll(b.Pipelines[0], 0o700))
	b.write(file, text)
	return file
}

func (b *bed) effects() string {
	got, err := os.ReadFile(filepath.Join(b.dir, "effects"))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(b.dir, "effects"))
	return string(got)
}

// wantAsked sees that a run asks about its call before it makes it, also when it is
// forked, and that a person can allow it.
func (b *bed) wantAsked(s tipstaff.Started) {
	b.t.Helper()
	if out := b.wait(s.Run); out.Outcome != "parked" {
		b.t.Errorf("it did not ask: %+v", out)
	}
	if got := b.effects(); got != "" {
		b.t.Errorf("unasked it has done %q", got)
	}
	gates := b.get(s.Run).OpenGates
	if len(gates) != 1 || gates[0].Kind != tipstaff.Approval {
		b.t.Fatalf("it asks %+v", gates)
	}
	if fork, err := b.Fork(cli(), forking{Run: s.Run}); err != nil && tipstaff.CodeOf(err) != tipstaff.CheckpointNotFound {
		b.t.Error(err)
	} else if err == nil {
		if out := b.resume(fork.ID); out.Outcome != "parked" || b.effects() != "" {
			b.t.Errorf("a fork of it did not ask: %+v", out)
		}
		b.verified(fork.ID)
	}
	_, err := b.decide(s.Run, gates[0].ID.String(), "allow")
	b.check(err)
	if out := b.resume(s.Run); out.State != tipstaff.Completed || b.effects() != "paid\n" {
		b.t.Errorf("allowed, it ended %+v", out)
	}
	b.verified(s.Run)
	dir := filepath.Join(b.t.TempDir(), "export")
	b.check(runner.Export(cli(), b.Runner, s.Run, dir))
	if rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Dir: dir}); err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
		b.t.Errorf("its export: %+v, %v", rep, err)
	}
}

func (b *bed) wantUnasked(s tipstaff.Started) {
	b.t.Helper()
	if out := b.wait(s.Run); out.State != tipstaff.Completed || b.effects() != "paid\n" {
		b.t.Errorf("it ended %+v", out)
	}
}

// A document that somebody sends who may not decide is not accepted by that.
func TestOnceCallsOfASentDocumentAsk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	svc := b.Runner
	sent := func(ctx context.Context, doc string) tipstaff.Started {
		t.Helper()
		s, err := svc.Start(ctx, tipstaff.StartRequest{Name: "sent", Program: []byte(doc), NoFiles: true, Via: "grpc"})
		b.check(err)
		return s
	}
	for name, doc := range map[string]string{"a tool stage": toolStage, "a plan stage": planStage, "a plan": wholePlan} {
		t.Run(name, func(t *testing.T) {
			defer func(was *testing.T) { b.t = was }(b.t)
			b.t = t
			b.wantAsked(sent(bearer(runs...), doc))
			b.wantUnasked(sent(bearer(decides...), doc))
			b.wantUnasked(sent(cli(), doc))
		})
	}
	own, err := svc.Start(bearer(tipstaff.ScopeRun), tipstaff.StartRequest{File: b.serve("own.yaml", toolStage)})
	b.check(err)
	b.wantUnasked(own)
}

// So it is with drafts, whoever starts them, with what takes the place of a draft's
// program, and with agents that are run alone: outside of their pipeline, and without
// the gates before them.
func TestOnceCallsOfASentDraftAsk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	svc := b.Runner
	served := b.serve("own.yaml", toolStage)
	draft := func(ctx context.Context, foreign bool) tipstaff.ID {
		t.Helper()
		req := tipstaff.EnvelopeRequest{File: served}
		if foreign {
			req = tipstaff.EnvelopeRequest{Name: "sent", Program: []byte(toolStage), NoFiles: true}
		}
		s, err := svc.CreateEnvelope(ctx, req)
		b.check(err)
		return s.Run
	}
	start := func(ctx context.Context, run tipstaff.ID, with ...func(*tipstaff.ExecuteRequest)) tipstaff.Started {
		t.Helper()
		req := tipstaff.ExecuteRequest{Run: run, Via: "grpc"}
		for _, f := range with {
			f(&req)
		}
		s, err := svc.ExecuteEnvelope(ctx, req)
		b.check(err)
		return s
	}
	alone := func(ctx context.Context, run tipstaff.ID) tipstaff.Started {
		t.Helper()
		s, err := svc.ExecuteAgent(ctx, tipstaff.AgentRequest{Run: run, Name: "pay", Via: "grpc"})
		b.check(err)
		return s
	}
	program := func(r *tipstaff.ExecuteRequest) { r.Name, r.Program, r.NoFiles = "other", []byte(planStage), true }
	lower := func(r *tipstaff.ExecuteRequest) { r.Bounds = tipstaff.Bounds{tipstaff.BoundToolCalls: 3} }
	may, mayNot := bearer(decides...), bearer(runs...)

	b.wantAsked(start(mayNot, draft(mayNot, true)))
	b.wantAsked(start(may, draft(mayNot, true)))
	b.wantAsked(start(may, draft(mayNot, true), lower))
	b.wantUnasked(start(mayNot, draft(mayNot, false)))
	b.wantUnasked(start(mayNot, draft(may, true)))
	b.wantAsked(start(mayNot, draft(may, true), program))
	b.wantUnasked(start(may, draft(mayNot, true), program))
	b.wantAsked(alone(mayNot, draft(mayNot, false)))
	b.wantAsked(alone(may, draft(mayNot, true)))
	b.wantUnasked(alone(may, draft(may, true)))
}

// A correction that changes nothing material is accepted with what came before it: only
// as far as whoever sends it could have accepted it. Bounds it may not raise.
func TestCorrectionsWithoutDecide(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	svc := b.Runner
	doc := func(calls int, question string) []byte {
		return flowJSON(map[string]any{"kind": "plan", "version": 1, "bounds": map[string]any{"tool_calls": calls}, "root": map[string]any{"kind": "sequential", "children": []any{
			map[string]any{"id": "ok", "kind": "gate", "question": "Go on?"},
			map[string]any{"id": "read", "kind": "tool_call", "tool": "mcp://builtin/json_query@1.0.0", "args": map[string]any{"value": 1, "expr": question}},
			map[string]any{"id": "pay", "kind": "tool_call", "tool": "mcp://builtin/exec@1.0.0", "args": map[string]any{"argv": []string{"sh", "-c", paid}}}}}})
	}
	begin := func() tipstaff.ID {
		s, err := b.Start(cli(), tipstaff.StartRequest{Name: "plan", Program: doc(50, "value")})
		b.check(err)
		b.wait(s.Run)
		return s.Run
	}
	correct := func(ctx context.Context, run tipstaff.ID, with []byte) error {
		_, err := svc.Correct(ctx, tipstaff.CorrectRequest{Run: run, Name: "plan", Program: with, Reason: "better"})
		if err == nil {
			_, err = svc.Resume(ctx, tipstaff.ResumeRequest{Run: run})
			b.wait(run)
		}
		return err
	}
	run := begin()
	wantCode(t, correct(bearer(runs...), run, doc(55, "value")), tipstaff.Forbidden)
	b.check(correct(bearer(decides...), run, doc(55, "value")))
	for ctx, asks := range map[context.Context]bool{bearer(runs...): true, bearer(decides...): false, cli(): false} {
		run := begin()
		b.check(correct(ctx, run, doc(50, "value == 1")))
		_, err := b.decide(run, b.get(run).OpenGates[0].ID.String(), "approve")
		b.check(err)
		out := b.resume(run)
		if parked := out.Outcome == "parked"; parked != asks || (b.effects() == "") != asks {
			t.Errorf("asks: %t, and it ended %+v", asks, out)
		}
		b.verified(run)
	}
}

func flowJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

// foundAs checks that a forged run is in order byte by byte, and that all that is wrong
// with it is one thing.
func (b *bed) foundAs(run tipstaff.ID, code string, admins ...string) {
	b.t.Helper()
	rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Run: run, Open: true, Admins: admins})
	b.check(err)
	if !rep.Integrity.OK {
		b.t.Errorf("integrity: %+v", rep.Integrity.Problems)
	}
	if p := rep.Conformance.Problems; len(p) != 1 || p[0].Code != code {
		b.t.Errorf("found %+v, want %s alone", p, code)
	}
}

const allowAll = "policy: {rules: [{id: all, tool: \"*/*\", do: allow}]}\n"

// Whoever makes a call, its class is the one of what the run has frozen.
func TestForgedClassIsFound(t *testing.T) {
	t.Parallel()
	makes := func(stage string) func(b *bed) (tipstaff.ID, tipstaff.Driven) {
		return func(b *bed) (tipstaff.ID, tipstaff.Driven) {
			b.withModel(allowAll)
			return b.pipe("name: p\nagents:\n  - {name: s, stage_order: 1, " + stage + "}\n")
		}
	}
	for name, c := range map[string]struct {
		make     func(b *bed) (tipstaff.ID, tipstaff.Driven)
		from, to string
	}{
		"a tool stage": {makes(`tool: {uri: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "true"]}}`), "once", "read"},
		"a plan stage": {makes(`plan: {document: {kind: plan, version: 1, root: {kind: tool_call, id: go, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "true"]}}}}`), "once", "idempotent"},
		"an agent": {func(b *bed) (tipstaff.ID, tipstaff.Driven) {
			b.write("tipstaff.yaml", strings.Replace(withAgent, `effect: read, do: allow`, `do: allow`, 1))
			run, driven, err := b.turn("", "Go.")
			b.check(err)
			return run, driven
		}, "once", "read"},
		"a model": {func(b *bed) (tipstaff.ID, tipstaff.Driven) {
			b.withModel("")
			return b.pipe("name: p\nagents: [{name: s, stage_order: 1, model: {name: main, prompt: hello}}]")
		}, "read", "once"},
		"a host's": {func(b *bed) (tipstaff.ID, tipstaff.Driven) { return b.hosted() }, "once", "read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.write("script.yaml", "version: 1\nanswers: [{text: unused}]\n")
			b.says = func(r agent.Request) agent.Response {
				if len(r.Tools) > 0 && !strings.Contains(texts(r), "tool:") {
					return agent.Response{Calls: callTo("exec", `{"argv": ["sh", "-c", "true"]}`), Reason: agent.ReasonToolCalls}
				}
				return agent.Response{Text: "{}"}
			}
			run, driven := c.make(b)
			if driven.State != tipstaff.Completed {
				t.Fatalf("ended %+v", driven)
			}
			b.verified(run)
			b.forge(run, tipstaff.KindEffectIntended, `"class":"`+c.from+`"`, `"class":"`+c.to+`"`)
			b.foundAs(run, "replay_mismatch")
		})
	}
}

// hosted is a run of a stage that a host has performed.
func (b *bed) hosted() (tipstaff.ID, tipstaff.Driven) {
	b.t.Helper()
	run, done := b.beginRemote("once")
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	b.check(h.Complete(cli(), given(b.call(h), `{"ok": true}`)))
	return run, <-done
}

// by is a caller with a token.
func by(user string, scopes ...string) context.Context {
	return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "grpc", User: user, Principal: "token:" + user, Scopes: scopes})
}

const mayItBe = "kind: plan\nversion: 1\nroot: {kind: gate, id: ok, question: May it be?}"

// asked is a run of alice's that asks and is answered by somebody.
func (b *bed) asked(made, answers context.Context) tipstaff.ID {
	b.t.Helper()
	svc := b.Runner
	s, err := svc.Start(made, tipstaff.StartRequest{Name: "p", Program: []byte(mayItBe), NoFiles: true})
	b.check(err)
	b.wait(s.Run)
	_, err = svc.Decide(answers, tipstaff.DecideRequest{Run: s.Run, Gate: "root", Action: "approve"})
	b.check(err)
	if driven := b.resume(s.Run); driven.State != tipstaff.Completed {
		b.t.Fatalf("ended %+v", driven)
	}
	return s.Run
}

func TestWhoMayAct(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const tokens = "serve: {tokens: {alice: \"$env:ALICE\", root: {token: \"$env:ROOT\", scopes: [admin]}, gateway: {token: \"$env:GATEWAY\", scopes: [run, submit, decide, act_as]}}}\n"
	b.write("tipstaff.yaml", manifest+tokens)
	alice := by("alice", tipstaff.DefaultScopes()...)
	acting, err := tipstaff.CallerFrom(by("gateway", tipstaff.ScopeRun, tipstaff.ScopeSubmit, tipstaff.ScopeDecide, tipstaff.ScopeActAs)).ActingAs("alice")
	b.check(err)
	gateway := tipstaff.WithCaller(context.Background(), acting)
	root := by("root", tipstaff.ScopeAdmin)
	for name, run := range map[string]tipstaff.ID{
		"its user": b.asked(alice, alice), "an admin": b.asked(alice, root), "who acts for its user": b.asked(gateway, gateway), "the command line": b.asked(alice, cli()),
	} {
		t.Run(name, func(t *testing.T) { b.t = t; b.verified(run) })
	}
	b.t = t
	run := b.asked(alice, root)
	b.write("tipstaff.yaml", manifest) // as where the workspace is another's, or has changed
	b.foundAs(run, "principal")
	rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Run: run, Admins: []string{"root"}})
	if err != nil || !rep.Conformance.OK {
		t.Errorf("with the admin named: %+v %v", rep.Conformance, err)
	}
	b.write("tipstaff.yaml", manifest+tokens)
}

func TestForgedPrincipalIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	alice := by("alice", tipstaff.DefaultScopes()...)
	for _, who := range []string{"token:mallory", "alice", "local:eve", "run:01M7GGPA5VSGA5RH92W87ZQ97T", "system:expiry", "system:grpc", "token:", "somebody"} {
		t.Run(who, func(t *testing.T) {
			b.t = t
			run := b.asked(alice, alice)
			b.verified(run)
			b.forge(run, tipstaff.KindIntentAccept, `"on_behalf_of":"token:alice"`, `"on_behalf_of":"`+who+`"`)
			b.foundAs(run, "principal", "root")
		})
	}
	b.t = t
	run := b.asked(alice, alice)
	b.forge(run, tipstaff.KindPolicyGateResolve, `"on_behalf_of":"token:alice"`, `"on_behalf_of":"token:mallory"`)
	b.foundAs(run, "principal")
	s, err := b.Runner.Start(alice, tipstaff.StartRequest{Name: "p", Program: []byte(mayItBe), NoFiles: true})
	b.check(err)
	b.wait(s.Run)
	_, err = b.Cancel(alice, tipstaff.CancelRequest{Run: s.Run})
	b.check(err)
	b.verified(s.Run)
	b.forge(s.Run, tipstaff.KindIntentCancel, `"on_behalf_of":"token:alice"`, `"on_behalf_of":"local:cli"`) // who could have, and has not
	b.foundAs(s.Run, "outcome")
	// Of its parents a run answers to the one that has dispatched it, and not to its source.
	source, err := b.Runner.Start(alice, tipstaff.StartRequest{Name: "p", Program: []byte(mayItBe), NoFiles: true})
	b.check(err)
	b.wait(source.Run)
	fork, err := b.Runner.Fork(alice, tipstaff.ForkRequest{Run: source.Run})
	b.check(err)
	b.verified(fork.ID)
	b.forge(fork.ID, tipstaff.KindIntentAccept, `"on_behalf_of":"token:alice"`, `"on_behalf_of":"run:`+source.Run.String()+`"`)
	b.foundAs(fork.ID, "principal")
}

const taking = `
inputs: {who: {type: string, default: me}, count: {type: integer, required: false}, must: {type: boolean}}
root: {kind: tool_call, id: q, tool: "mcp://builtin/json_query@1.0.0", args: {value: 1, expr: value}}
`

func TestForgedInputIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	inputs := func(r *tipstaff.StartRequest) {
		r.Inputs = map[string]json.RawMessage{"must": json.RawMessage("true"), "count": json.RawMessage("7")}
	}
	plan := func() tipstaff.ID { run, _ := b.run(taking, inputs); return run }
	forked := func() tipstaff.ID {
		f, err := b.Fork(cli(), forking{Run: plan()})
		b.check(err)
		return f.ID
	}
	pipe := func() tipstaff.ID { run, _ := b.pipe(loop); return run }
	for name, c := range map[string]struct {
		make     func() tipstaff.ID
		from, to string
	}{
		"undeclared":               {plan, `"must":true`, `"more":1,"must":true`},
		"of another type":          {plan, `"count":7`, `"count":"7"`},
		"missing":                  {plan, `,"must":true`, ``},
		"without its default":      {plan, `,"who":"me"`, ``},
		"of a fork":                {forked, `"count":7`, `"count":8`},
		"undeclared, a pipeline's": {pipe, `"raw_input":"do it"`, `"more":1,"raw_input":"do it"`},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			run := c.make()
			b.verified(run)
			b.forge(run, tipstaff.KindIntentDraft, c.from, c.to)
			b.foundAs(run, "inputs")
		})
	}
}

// A fork of a corrected run has the inputs of the first program, also those that the
// revised one no longer declares.
func TestForkOfACorrectedRunHasItsInputs(t *testing.T) {
	b := newBed(t)
	const ask = `, {kind: gate, id: ok, question: Go on?}]}`
	const was = "inputs: {old: {type: string}}\nroot: {kind: sequential, children: [{kind: tool_call, id: q, tool: \"mcp://builtin/json_query@1.0.0\", args: {value: 1, expr: value}}" + ask
	const is = "root: {kind: sequential, children: [{kind: tool_call, id: q, tool: \"mcp://builtin/json_query@1.0.0\", args: {value: 2, expr: value}}" + ask
	run, _ := b.run(was, func(r *tipstaff.StartRequest) { r.Inputs = map[string]json.RawMessage{"old": json.RawMessage(`"x"`)} })
	b.corrected(run, is)
	b.verified(run)
	f, err := b.Fork(cli(), forking{Run: run})
	b.check(err)
	b.verified(f.ID)
	if kinds := b.kinds(run); !slices.Contains(kinds, string(tipstaff.KindIntentCorrect)) {
		t.Errorf("it was not corrected: %v", kinds)
	}
}

// Nobody has driven the fork, so nobody could tell that there was nothing left to do.
func TestForkOfAnEndedRunCanBeCancelled(t *testing.T) {
	b := newBed(t)
	run, driven := b.run(taking, func(r *tipstaff.StartRequest) { r.Inputs = map[string]json.RawMessage{"must": json.RawMessage("true")} })
	f, err := b.Fork(cli(), forking{Run: run})
	b.check(err)
	if got, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: f.ID}); err != nil || got.State != tipstaff.Cancelled || driven.State != tipstaff.Completed {
		t.Errorf("%v then %v %v", driven.State, got.State, err)
	}
	b.verified(f.ID)
}

package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

func rowsOf(t *testing.T, b *bed) []flow.Row {
	t.Helper()
	rows, err := b.store.Runs(cli(), flow.Query{})
	b.check(err)
	return rows
}

// control is the control plane over a bed.
func (b *bed) control() tipstaff.Control {
	return tipstaff.Control{Runs: b.Runner, Now: b.Now, Guard: b.MayDrive, Follow: b.Changed, Elicits: b.Elicits}
}

// stdio is a client on this machine.
func stdio() context.Context {
	return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "stdio", User: "local", Principal: "local:mcp", Client: "tester/1", Scopes: tipstaff.DefaultScopes()})
}

const spends = `
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one >> effects"]}}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}
    - {id: three, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo three >> effects"]}}
`

// detached starts a run with a process of its own, and has that drive it to where it rests.
func (b *bed) detached(l *launcher, program string, with ...func(*tipstaff.StartRequest)) (tipstaff.ID, tipstaff.Driven) {
	b.t.Helper()
	req := tipstaff.StartRequest{Program: []byte(program), Name: "program.yaml"}
	for _, f := range with {
		f(&req)
	}
	s, err := b.detach(req)
	b.check(err)
	d, err := b.execute(s.Run, l.last().Token)
	b.check(err)
	return s.Run, d
}

func toolCalls(n string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"tool_calls": json.RawMessage(n)}
}

// A run that ran out of a bound goes on in a fork with a higher one, up to the ceiling.
func TestForkWithHigherBounds(t *testing.T) {
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"bounds: {tool_calls: 3}\n")
	l := launching(b)
	c := b.control()
	run, out := b.detached(l, head+"bounds: {tool_calls: 1}\n"+spends)
	if out.Bound != tipstaff.BoundToolCalls {
		t.Fatalf("%+v", out)
	}
	d, err := c.Diagnose(stdio(), tipstaff.RunRequest{Run: run})
	b.check(err)
	next := d.Next[len(d.Next)-1]
	if d.Condition != tipstaff.DiagnosisBoundExceeded || next.Tool != tipstaff.ToolRunStart || next.Args["fork_of"] != run || next.Missing[0].Name != "bounds" || next.Missing[0].Choices[0] != tipstaff.BoundToolCalls {
		t.Fatalf("%+v", d)
	}
	before := len(rowsOf(t, b))
	for name, refused := range map[string]struct {
		ctx    context.Context
		bounds map[string]json.RawMessage
		code   tipstaff.Code
	}{
		"above the ceiling": {stdio(), toolCalls("4"), tipstaff.InvalidArgument},
		"no bound of plans": {stdio(), map[string]json.RawMessage{"max_stages": json.RawMessage("9")}, tipstaff.InvalidArgument},
		"without decide":    {bearer(tipstaff.ScopeRead, tipstaff.ScopeRun), toolCalls("2"), tipstaff.Forbidden},
	} {
		if _, err := c.Start(refused.ctx, tipstaff.RunStart{ForkOf: run, Bounds: refused.bounds}); tipstaff.CodeOf(err) != refused.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := len(rowsOf(t, b)); now != before {
		t.Errorf("%d runs were made", now-before)
	}
	second, err := c.Start(stdio(), tipstaff.RunStart{ForkOf: run, Bounds: toolCalls("2")})
	b.check(err)
	if second.Pid == 0 || second.Program == "" || second.Next[0].Tool != tipstaff.ToolRunWatch {
		t.Errorf("%+v", second)
	}
	if d, err := b.execute(second.Run, l.last().Token); err != nil || d.Bound != tipstaff.BoundToolCalls || b.read("effects") != "one\ntwo\n" {
		t.Fatalf("%+v, %v, effects %q", d, err, b.read("effects"))
	}
	third, err := c.Start(stdio(), tipstaff.RunStart{ForkOf: second.Run, Bounds: toolCalls("3")})
	b.check(err)
	if d, err := b.execute(third.Run, l.last().Token); err != nil || d.State != tipstaff.Completed || b.read("effects") != "one\ntwo\nthree\n" {
		t.Fatalf("%+v, %v, effects %q", d, err, b.read("effects"))
	}
	b.verified(third.Run)
	b.write("tipstaff.yaml", manifest+"bounds: {tool_calls: 5}\n") // which permits more by now
	more, err := b.Fork(cli(), forking{Run: run, Raise: map[string]int64{"max_tool_calls": 5}})
	b.check(err)
	_, err = b.Fork(cli(), forking{Run: run, Raise: map[string]int64{"max_tool_calls": 6}})
	wantCode(t, err, tipstaff.InvalidArgument)
	b.write("tipstaff.yaml", manifest+"bounds: {tool_calls: 3}\n") // and did when it was forked
	b.verified(more.ID)
	fork, err := b.Fork(cli(), forking{Run: run, Raise: map[string]int64{"max_tool_calls": 2}})
	b.check(err)
	b.verified(fork.ID)
	b.forge(fork.ID, tipstaff.KindRunForked, `"raised":{"max_tool_calls":2},`, ``)
	b.foundAs(fork.ID, "rollback_mismatch")
}

// A turn has the bounds of the workspace for its ceiling.
func TestForkOfATurnWithHigherBounds(t *testing.T) {
	b := agentBed(t, func(r agent.Request) agent.Response {
		if len(r.Messages) < 3 {
			return agent.Response{Calls: callTo("read_file", `{"path": "note.txt"}`), Reason: agent.ReasonToolCalls}
		}
		return agent.Response{Text: "done"}
	})
	run, d, err := b.turn("", "Read.", func(r *tipstaff.StartRequest) { r.Bounds = tipstaff.Bounds{tipstaff.BoundModelCalls: 1} })
	b.check(err)
	if d.Bound != tipstaff.BoundModelCalls {
		t.Fatalf("%+v", d)
	}
	fork, err := b.Fork(cli(), forking{Run: run, Raise: map[string]int64{"max_llm_calls": 5}})
	b.check(err)
	if d := b.resume(fork.ID); d.State != tipstaff.Completed {
		t.Errorf("%+v", d)
	}
	b.verified(fork.ID)
	_, err = b.Fork(cli(), forking{Run: run, Raise: map[string]int64{"max_llm_calls": 51}})
	wantCode(t, err, tipstaff.InvalidArgument)
}

// One key makes one fork, of a plan and of a pipeline, which has a title and labels of its own.
func TestOneKeyMakesOneFork(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	c := b.control()
	plan, _ := b.detached(l, head+gated, func(r *tipstaff.StartRequest) { r.Title, r.Labels = "first", map[string]string{"team": "a"} })
	pipe, _ := b.pipe(loop)
	for name, run := range map[string]tipstaff.ID{"plan": plan, "pipeline": pipe} {
		req := tipstaff.RunStart{ForkOf: run, Key: "k " + name, Title: "again", Labels: map[string]string{"try": "2"}}
		first, err := c.Start(stdio(), req)
		b.check(err)
		again, err := c.Start(stdio(), req)
		if err != nil || first.Replayed || !again.Replayed || again.Run != first.Run || again.Pid != first.Pid || first.Pid == 0 {
			t.Errorf("%s: %+v and %+v, %v", name, first, again, err)
		}
		if got := b.get(first.Run); got.Title != "again" || got.Labels["try"] != "2" || got.Labels["team"] != b.get(run).Labels["team"] || got.Control != tipstaff.Controllable {
			t.Errorf("%s: %q, %v, %s", name, got.Title, got.Labels, got.Control)
		}
		for field, change := range map[string]func(*tipstaff.RunStart){
			"title": func(r *tipstaff.RunStart) { r.Title = "other" }, "labels": func(r *tipstaff.RunStart) { r.Labels = nil }, "place": func(r *tipstaff.RunStart) { r.ForkAt = 5 },
		} {
			other := req
			change(&other)
			if _, err := c.Start(stdio(), other); tipstaff.CodeOf(err) != tipstaff.RequestConflict {
				t.Errorf("%s, another %s: %v", name, field, err)
			}
		}
	}
	if got := b.get(plan).Labels; got["try"] != "" {
		t.Errorf("the source has the labels %v", got)
	}
	before := len(rowsOf(t, b))
	b.MaxRuns = 1
	_, err := c.Start(stdio(), tipstaff.RunStart{ForkOf: plan, Key: "another"})
	wantCode(t, err, tipstaff.CapacityReached)
	_, err = c.Start(stdio(), tipstaff.RunStart{ForkOf: plan, Project: "part"})
	wantCode(t, err, tipstaff.InvalidArgument)
	if now := len(rowsOf(t, b)); now != before {
		t.Errorf("%d forks were made that nobody drives", now-before)
	}
}

// A decision says with which client it was made, to whoever repeats it, too.
func TestDecisionNamesItsClient(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	gate := b.get(run).OpenGates[0]
	c := b.control()
	as := func(client string) context.Context {
		return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: "local", Principal: "token:local", Scopes: tipstaff.DefaultScopes(), Client: client})
	}
	first, err := c.DecideGate(as("Mozilla\t5.0 "+strings.Repeat("x", 300)), tipstaff.GateDecision{Run: run, Gate: gate.ID, Action: "approve"})
	b.check(err)
	var d tipstaff.Decision
	b.check(json.Unmarshal(first.Decision, &d))
	if n := utf8.RuneCountInString(d.Actor.Client); n != 200 || !strings.HasPrefix(d.Actor.Client, `Mozilla\t5.0 xxx`) || d.Actor.Principal != "token:local" {
		t.Errorf("%d characters: %+v", n, d.Actor)
	}
	b.resume(run)
	again, err := c.DecideGate(as("another"), tipstaff.GateDecision{Run: run, Gate: gate.ID, Action: "approve"})
	if err != nil || !again.Replayed || string(again.Decision) != string(first.Decision) {
		t.Errorf("%s, then %s, %v", first.Decision, again.Decision, err)
	}
	ev, err := c.Evidence(stdio(), tipstaff.EvidenceRequest{Run: run, Slice: tipstaff.SliceDecisions})
	b.check(err)
	if got := ev.Decisions.Items[0].Decision.Client; got != d.Actor.Client {
		t.Errorf("the evidence names %q", got)
	}
}

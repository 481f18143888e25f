package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// echo answers with the last message; of a note it reads first.
func echo(r agent.Request) agent.Response {
	last := r.Messages[len(r.Messages)-1]
	switch {
	case last.Role == agent.User && strings.Contains(last.Text, "note"):
		return agent.Response{Text: "I look.", Reason: agent.ReasonToolCalls, Calls: []agent.Call{{ID: fmt.Sprint("c", len(r.Messages)), Name: "builtin__read_file", Arguments: `{"path":"note.txt"}`}}}
	case last.Role == agent.User:
		return agent.Response{Text: "You said: " + last.Text, Reason: agent.ReasonStop}
	}
	return agent.Response{Text: "I have read it.", Reason: agent.ReasonStop}
}

// of is a caller by the network for a user.
func of(user string, scopes ...string) context.Context {
	return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "grpc", User: user, Principal: "token:" + user, Scopes: scopes})
}

// says takes a turn as somebody; in a session, if one is named.
func (b *bed) say(ctx context.Context, session, message string) (tipstaff.Run, error) {
	b.t.Helper()
	doc := map[string]any{"kind": "turn", "message": message}
	if session != "" {
		doc["session"] = session
	}
	s, err := b.Start(ctx, tipstaff.StartRequest{Name: "turn", Program: flow.JSON(doc)})
	if err != nil {
		return tipstaff.Run{}, err
	}
	b.wait(s.Run)
	return b.get(s.Run), nil
}

func (b *bed) said(ctx context.Context, session, message string) tipstaff.Run {
	b.t.Helper()
	r, err := b.say(ctx, session, message)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func sessionsOf(t *testing.T, svc tipstaff.Reader, ctx context.Context, req tipstaff.ListRequest) (ids []string) {
	t.Helper()
	req.Heads = true
	page, err := svc.List(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Runs {
		ids = append(ids, r.Turn.Session)
	}
	return ids
}

func TestATurnNamesItsConversation(t *testing.T) {
	t.Parallel()
	b := agentBed(t, echo)
	plan, _ := b.run("root: {id: r, kind: tool_call, tool: mcp://builtin/read_file@1.0.0, args: {path: note.txt}}\n")
	if r := b.get(plan); r.Turn != nil {
		t.Errorf("a plan is a turn: %+v", r.Turn)
	}
	first := b.said(cli(), "", "  hello\n\tthere  "+strings.Repeat("é", 100))
	second := b.said(cli(), first.Turn.Session, "again")
	opening := "hello there " + strings.Repeat("é", 67) + "…"
	for i, r := range []tipstaff.Run{first, second} {
		want := tipstaff.TurnStatus{Session: first.Turn.Session, Number: int64(i + 1), Agent: "default", Model: "model-of-the-bed", Opening: opening}
		if *r.Turn != want {
			t.Errorf("turn %d: %+v", i+1, *r.Turn)
		}
	}
	other := b.said(cli(), "", "something else")
	if got, want := sessionsOf(t, b, cli(), tipstaff.ListRequest{}), []string{other.Turn.Session, first.Turn.Session}; !slices.Equal(got, want) {
		t.Errorf("sessions %v, want %v", got, want)
	}
	if got := sessionsOf(t, b, cli(), tipstaff.ListRequest{Prefix: first.Turn.Session}); !slices.Equal(got, []string{first.Turn.Session}) {
		t.Errorf("of that prefix: %v", got)
	}
	page, err := b.List(cli(), tipstaff.ListRequest{Session: first.Turn.Session})
	if err != nil || len(page.Runs) != 2 || page.Runs[0].ID != second.ID {
		t.Errorf("turns of the session: %v %+v", err, page.Runs)
	}
}

// What would be started says who answers with which tools.
func TestAValidatedTurnNamesAgentAndTools(t *testing.T) {
	t.Parallel()
	b := agentBed(t, echo)
	first := b.said(cli(), "", "hello")
	for session, number := range map[string]int64{"": 1, first.Turn.Session: 2} {
		doc := map[string]any{"kind": "turn", "message": "?"}
		if session != "" {
			doc["session"] = session
		}
		v, err := b.Validate(cli(), tipstaff.ValidateRequest{Start: &tipstaff.StartRequest{Name: "turn", Program: flow.JSON(doc)}})
		if err != nil {
			t.Fatal(err)
		}
		if v.Turn.Session != session || v.Turn.Number != number || v.Turn.Agent != "default" || v.Turn.Model != "model-of-the-bed" {
			t.Errorf("%+v", *v.Turn)
		}
		var names []string
		for _, info := range v.Tools {
			names = append(names, info.Name()+" "+info.Class)
		}
		if want := []string{"builtin/read_file read", "builtin/write_file idempotent", "builtin/exec once"}; !slices.Equal(names, want) { // of the manifest's five
			t.Errorf("tools %v", names)
		}
	}
}

// A conversation is its user's: others neither see it nor join it.
func TestConversationsBelongToUsers(t *testing.T) {
	t.Parallel()
	b := agentBed(t, echo)
	alice, bob := of("alice", decides...), of("bob", decides...)
	hers := b.said(alice, "", "my secret")
	if got := sessionsOf(t, b, bob, tipstaff.ListRequest{}); got != nil {
		t.Errorf("bob sees %v", got)
	}
	if page, err := b.List(bob, tipstaff.ListRequest{Session: hers.Turn.Session}); err != nil || len(page.Runs) > 0 {
		t.Errorf("bob reads %v %v", page.Runs, err)
	}
	for _, seen := range []context.Context{cli(), of("root", tipstaff.ScopeAdmin)} {
		if got := sessionsOf(t, b, seen, tipstaff.ListRequest{}); !slices.Equal(got, []string{hers.Turn.Session}) {
			t.Errorf("who sees all sees %v", got)
		}
		if got := sessionsOf(t, b, seen, tipstaff.ListRequest{Own: true}); got != nil {
			t.Errorf("of their own: %v", got)
		}
		if _, err := b.say(seen, hers.Turn.Session, "and?"); tipstaff.CodeOf(err) != tipstaff.Forbidden {
			t.Errorf("who sees all joins: %v", err)
		}
	}
	if _, err := b.say(bob, hers.Turn.Session, "what was it?"); tipstaff.CodeOf(err) != tipstaff.Forbidden {
		t.Errorf("bob joins: %v", err)
	}
	if got := b.said(alice, hers.Turn.Session, "again"); got.Turn.Number != 2 {
		t.Errorf("alice goes on: %+v", got.Turn)
	}
}

// transcribed is a conversation in short lines.
func (b *bed) transcribed(run tipstaff.ID) (lines []string) {
	b.t.Helper()
	turns, err := tipstaff.TurnsUpTo(cli(), b, b.get(run))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range turns {
		said, err := tipstaff.Transcript(cli(), b, r)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, m := range said {
			l := tipstaff.Joined(": ", m.Role, m.Code, m.Text)
			for _, c := range m.Calls {
				l += fmt.Sprintf(" [%s %s %s]", c.Name, c.Arguments, c.Decision)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	b := agentBed(t, echo)
	first := b.said(cli(), "", "hello")
	second := b.said(cli(), first.Turn.Session, "the note")
	third := b.said(cli(), first.Turn.Session, "thanks")
	upToSecond := []string{
		"user: hello", "assistant: You said: hello",
		"user: the note", `assistant: I look. [builtin/read_file {"path":"note.txt"} allow by rule reads]`, "tool: hello", "assistant: I have read it.",
	}
	whole := append(slices.Clone(upToSecond), "user: thanks", "assistant: You said: thanks")
	if got := b.transcribed(second.ID); !slices.Equal(got, upToSecond) {
		t.Errorf("up to the second turn: %q", got)
	}
	if got := b.transcribed(third.ID); !slices.Equal(got, whole) {
		t.Errorf("the whole: %q", got)
	}
	// A fork goes on with what was said before it, in a session of its own. Of what that
	// has frozen no decision is known.
	fork, err := b.Runner.Fork(cli(), tipstaff.ForkRequest{Run: third.ID})
	if err != nil {
		t.Fatal(err)
	}
	b.resume(fork.ID)
	forked := slices.Clone(whole)
	forked[3] = `assistant: I look. [builtin__read_file {"path":"note.txt"} ]`
	if got := b.transcribed(fork.ID); !slices.Equal(got, forked) {
		t.Errorf("the fork: %q", got)
	}
	if r := b.get(fork.ID); r.Turn.Session == third.Turn.Session || r.Turn.Number != 1 || r.Turn.Opening != "hello" {
		t.Errorf("the fork is %+v", r.Turn)
	}
}

// Agents of other programs speak, each under its path.
func TestTranscriptOfAPlan(t *testing.T) {
	t.Parallel()
	b := agentBed(t, echo)
	run, _ := b.run("tools: [mcp://builtin/read_file@1.0.0]\nroot: {id: r, kind: step, prompt: Read the note.}\n")
	said, err := tipstaff.Transcript(cli(), b, b.get(run))
	if err != nil || len(said) != 3 {
		t.Fatalf("%v %+v", err, said)
	}
	for i, role := range []string{tipstaff.RoleAssistant, tipstaff.RoleTool, tipstaff.RoleAssistant} {
		if said[i].Role != role || said[i].Path != "root" {
			t.Errorf("message %d: %+v", i, said[i])
		}
	}
}

// Without a manifest a turn has one all the same, which its run keeps.
func TestATurnNeedsNoManifest(t *testing.T) {
	t.Setenv("SOME_KEY", "0123456789abcdef")
	b := agentBed(t, echo)
	b.check(os.Remove(filepath.Join(b.dir, "tipstaff.yaml")))
	if _, err := b.say(cli(), "", "the note"); err == nil || !strings.Contains(err.Error(), "there is no key") {
		t.Errorf("without a key: %v", err)
	}
	b.implicit = []workspace.StarterModel{{Provider: workspace.ProviderAnthropic, Model: "m", Key: "SOME_KEY"}}
	v, err := b.Validate(cli(), tipstaff.ValidateRequest{Start: &tipstaff.StartRequest{Name: "turn", Program: []byte(`{"kind":"turn","message":"?"}`)}})
	if err != nil || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0].Message, "m answers, may read below "+b.dir) {
		t.Errorf("%v %+v", err, v.Warnings)
	}
	first := b.said(cli(), "", "the note")
	second := b.said(cli(), first.Turn.Session, "again")
	for _, r := range []tipstaff.Run{first, second} {
		if r.State != tipstaff.Completed {
			t.Errorf("%+v", r)
		}
		b.verified(r.ID)
	}
	// A plan still wants to be told what it may use.
	if _, err := b.Start(cli(), tipstaff.StartRequest{Name: "p", Program: []byte("kind: plan\nversion: 1\nroot: {id: r, kind: tool_call, tool: mcp://builtin/read_file@1.0.0, args: {path: note.txt}}\n")}); err == nil {
		t.Error("a plan was started")
	}
}

// What a run was given by a manifest that is gone does not become more.
func TestAnImplicitManifestIsNotForRunsWithAnother(t *testing.T) {
	t.Setenv("SOME_KEY", "0123456789abcdef")
	b := agentBed(t, echo)
	before, _, _ := strings.Cut(withAgent, "policy:")
	b.write("tipstaff.yaml", strings.Replace(before, `roots: ["."]`, `roots: ["sub"]`, 1))
	b.check(os.Mkdir(filepath.Join(b.dir, "sub"), 0o777))
	run := b.said(cli(), "", "the note").ID // which lies outside of sub
	gates := b.get(run).OpenGates
	if len(gates) != 1 {
		t.Fatalf("%+v", gates)
	}
	b.check(os.Remove(filepath.Join(b.dir, "tipstaff.yaml")))
	b.implicit = []workspace.StarterModel{{Provider: workspace.ProviderAnthropic, Model: "m", Key: "SOME_KEY"}}
	if _, err := b.decide(run, gates[0].Key, "allow"); err != nil {
		t.Fatal(err)
	}
	d := b.resume(run)
	if got := b.transcribed(run); slices.Contains(got, "tool: hello") {
		t.Errorf("it was read: %+v %q", d, got)
	}
}

// A turn that parked without a manifest goes on without one.
func TestAParkedTurnGoesOnWithoutAManifest(t *testing.T) {
	t.Setenv("SOME_KEY", "0123456789abcdef")
	b := agentBed(t, echo)
	b.check(os.Remove(filepath.Join(b.dir, "tipstaff.yaml")))
	b.write("asks.yaml", "version: 1\nrules:\n  - {id: all, tool: \"*/*\", do: ask}\n")
	b.Policy = filepath.Join(b.dir, "asks.yaml")
	b.implicit = []workspace.StarterModel{{Provider: workspace.ProviderAnthropic, Model: "m", Key: "SOME_KEY"}}
	run := b.said(cli(), "", "the note").ID
	gates := b.get(run).OpenGates
	if len(gates) != 1 {
		t.Fatalf("%+v", gates)
	}
	if _, err := b.decide(run, gates[0].Key, "allow"); err != nil {
		t.Fatal(err)
	}
	if d := b.resume(run); d.State != tipstaff.Completed {
		t.Errorf("%+v", d)
	}
	b.verified(run)
}

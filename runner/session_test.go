package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/flow"
)

const withAgent = manifest + `
models:
  toy: {provider: scripted, script: script.yaml}
agents:
  default:
    model: toy
    system: Be brief.
    tools: [mcp://builtin/read_file@1.0.0, mcp://builtin/write_file@1.0.0, mcp://builtin/exec@1.0.0]
policy:
  rules:
    - {id: reads, tool: "builtin/*", effect: read, do: allow}
`

// agentBed is a bed with an agent that says what says returns.
func agentBed(t *testing.T, says func(agent.Request) agent.Response) *bed {
	b := newBed(t)
	b.write("tipstaff.yaml", withAgent)
	b.write("script.yaml", "version: 1\nanswers: [{text: unused}]\n")
	b.write("note.txt", "hello")
	b.says = says
	return b
}

func (b *bed) turn(session, message string, with ...func(*tipstaff.StartRequest)) (tipstaff.ID, tipstaff.Driven, error) {
	doc := map[string]any{"kind": "turn", "message": message}
	if session != "" {
		doc["session"] = session
	}
	req := tipstaff.StartRequest{Name: "turn", Program: flow.JSON(doc)}
	for _, f := range with {
		f(&req)
	}
	s, err := b.Start(cli(), req)
	if err != nil {
		return tipstaff.ID{}, tipstaff.Driven{}, err
	}
	b.attend(s.Run)
	return s.Run, b.wait(s.Run), nil
}

func (b *bed) must(run tipstaff.ID, d tipstaff.Driven, err error) tipstaff.ID {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	if d.Err != nil {
		b.t.Fatal(d.Err)
	}
	return run
}

// head is what a turn's evidence says of its session.
func (b *bed) head(run tipstaff.ID) (id, head string) {
	b.t.Helper()
	events := b.events(run)
	var body struct {
		Evidence struct {
			Session struct{ ID, Head string }
		}
	}
	if err := json.Unmarshal(events[len(events)-1].Body, &body); err != nil {
		b.t.Fatal(err)
	}
	return body.Evidence.Session.ID, body.Evidence.Session.Head
}

// texts are what a request's messages say.
func texts(r agent.Request) string {
	var all []string
	for _, m := range r.Messages {
		text := m.Text
		for _, c := range m.Content {
			text += c.Text
		}
		all = append(all, string(m.Role)+": "+text)
	}
	return strings.Join(all, "\n")
}

func callTo(tool, args string) []agent.Call {
	return []agent.Call{{ID: "", Name: "builtin__" + tool, Arguments: args}}
}

func TestTurnsOfASessionKnowWhatWasSaid(t *testing.T) {
	var requests []string
	b := agentBed(t, func(r agent.Request) agent.Response {
		requests = append(requests, texts(r))
		if strings.HasSuffix(requests[len(requests)-1], "user: What does the note say?") {
			return agent.Response{Text: "Let me look.", Calls: callTo("read_file", `{"path": "note.txt"}`), Reason: agent.ReasonToolCalls}
		}
		return agent.Response{Text: fmt.Sprintf("answer %d", len(requests))}
	})
	first := b.must(b.turn("", "What does the note say?"))
	session, head := b.head(first)
	if session == "" || head == "" {
		t.Fatalf("session %q, head %q", session, head)
	}
	second := b.must(b.turn(session, "And now?"))
	want := "user: What does the note say?\nassistant: Let me look.\ntool: hello\nassistant: answer 2\nuser: And now?"
	if requests[2] != want {
		t.Errorf("the second turn began with\n%s\nwant\n%s", requests[2], want)
	}
	again, next := b.head(second)
	if again != session || next == head {
		t.Errorf("the second turn left session %s at %s, after %s", again, next, head)
	}
	if got, err := b.Get(cli(), second); err != nil || !strings.Contains(string(got.Outputs), `"answer 3"`) {
		t.Errorf("outputs %s %v", got.Outputs, err)
	}
	b.verified(first)
	b.verified(second)
}

func TestSessionHasOneTurnAtATime(t *testing.T) {
	b := agentBed(t, func(r agent.Request) agent.Response {
		if strings.Contains(texts(r), "tool:") {
			return agent.Response{Text: "done"}
		}
		return agent.Response{Calls: callTo("write_file", `{"path": "x", "content": "y"}`), Reason: agent.ReasonToolCalls}
	})
	first, driven, err := b.turn("", "Write.")
	if err != nil || driven.Outcome != "parked" {
		t.Fatalf("%+v %v", driven, err)
	}
	got, _ := b.Get(cli(), first)
	rows, err := b.store.Run(context.Background(), first.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.turn(rows.Session, "And?"); tipstaff.CodeOf(err) != tipstaff.SessionBusy {
		t.Fatalf("a second turn: %v", err)
	}
	if _, err := b.decide(first, got.OpenGates[0].ID.String(), "allow"); err != nil {
		t.Fatal(err)
	}
	b.resume(first)
	if b.read("x") != "y" {
		t.Error("the approved call was not made")
	}
	if _, _, err := b.turn(rows.Session, "And?"); err != nil {
		t.Errorf("after its end: %v", err)
	}
	b.verified(first)
}

// Of turns that begin at once in one session exactly one is made.
func TestTurnsThatBeginAtOnce(t *testing.T) {
	b := agentBed(t, func(agent.Request) agent.Response { return agent.Response{Text: "yes"} })
	first := b.must(b.turn("", "One."))
	session, _ := b.head(first)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made, busy := 0, 0
	for range 8 {
		wg.Go(func() {
			_, _, err := b.turn(session, "Two.")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case tipstaff.CodeOf(err) == tipstaff.SessionBusy:
				busy++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rows, err := b.store.Runs(context.Background(), flow.Query{Session: session})
	if err != nil || len(rows) != made+1 || made == 0 {
		t.Errorf("%d turns were made and %d refused, and the session has %d: %v", made, busy, len(rows), err)
	}
	for i, row := range rows[:len(rows)-1] { // newest first: each begins where the one before it ended
		_, before := b.head(idOf(t, rows[i+1].ID))
		var doc struct{ Head string }
		data, err := b.store.Blob(context.Background(), row.Program)
		if err != nil || json.Unmarshal(data, &doc) != nil || doc.Head != before {
			t.Errorf("turn %s begins at %s, the one before it ended at %s (%v)", row.ID, doc.Head, before, err)
		}
	}
}

func idOf(t *testing.T, s string) tipstaff.ID {
	t.Helper()
	id, err := tipstaff.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCancelledTurnLeavesAValidSession(t *testing.T) {
	var last string
	b := agentBed(t, func(r agent.Request) agent.Response {
		last = texts(r)
		if strings.HasSuffix(last, "user: Write.") {
			return agent.Response{Calls: callTo("write_file", `{"path": "x", "content": "y"}`), Reason: agent.ReasonToolCalls}
		}
		return agent.Response{Text: "fine"}
	})
	first, driven, err := b.turn("", "Write.")
	if err != nil || driven.Outcome != "parked" {
		t.Fatalf("%+v %v", driven, err)
	}
	if got, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: first, Reason: "changed my mind"}); err != nil || got.State != tipstaff.Cancelled {
		t.Fatalf("%s %v", got.State, err)
	}
	session, head := b.head(first)
	if head == "" || b.read("x") != "" {
		t.Fatalf("head %q, x %q", head, b.read("x"))
	}
	second := b.must(b.turn(session, "Never mind."))
	if !strings.HasPrefix(last, "user: Write.\nassistant: \ntool: ") || !strings.HasSuffix(last, "user: Never mind.") || !strings.Contains(last, "cancelled") {
		t.Errorf("the next turn began with\n%s", last)
	}
	b.verified(first)
	b.verified(second)
}

func TestForkOfATurnIsAnotherSession(t *testing.T) {
	b := agentBed(t, func(agent.Request) agent.Response { return agent.Response{Text: "yes"} })
	first := b.must(b.turn("", "One."))
	session, _ := b.head(first)
	second := b.must(b.turn(session, "Two."))
	fork, err := b.Fork(cli(), forking{Run: second, At: 5})
	if err != nil {
		t.Fatal(err)
	}
	if driven := b.resume(fork.ID); driven.State != tipstaff.Completed {
		t.Fatalf("%+v", driven)
	}
	if other, head := b.head(fork.ID); other == session || head == "" {
		t.Errorf("the fork is in session %s of %s", other, session)
	}
	b.verified(fork.ID)
}

// A session is its user's: nobody else goes on with it, looks whether one could, or is told
// what was said in it. An administrator may.
func TestASessionIsItsUsers(t *testing.T) {
	b := agentBed(t, func(agent.Request) agent.Response { return agent.Response{Text: "the secret is 4711"} })
	as := func(user string, scopes ...string) context.Context {
		return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "grpc", User: user, Principal: "token:" + user, Scopes: append(tipstaff.DefaultScopes(), scopes...)})
	}
	turn := func(session string) tipstaff.StartRequest {
		return tipstaff.StartRequest{Name: "turn", NoFiles: true, Program: flow.JSON(map[string]any{"kind": "turn", "message": "What is it?", "session": session})}
	}
	begun, err := b.Start(as("alice"), tipstaff.StartRequest{Name: "turn", NoFiles: true, Program: []byte(`{"kind": "turn", "message": "It is 4711."}`)})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(begun.Run)
	session, _ := b.head(begun.Run)
	for name, do := range map[string]func(context.Context) error{
		"Start": func(ctx context.Context) error { _, err := b.Start(ctx, turn(session)); return err },
		"Validate": func(ctx context.Context) error {
			start := turn(session)
			_, err := b.Validate(ctx, tipstaff.ValidateRequest{Start: &start})
			return err
		},
		"Get": func(ctx context.Context) error { _, err := b.Get(ctx, begun.Run); return err },
		"Events": func(ctx context.Context) error {
			for _, err := range b.Events(ctx, tipstaff.EventsRequest{Run: begun.Run}) {
				return err
			}
			return nil
		},
		"Fork": func(ctx context.Context) error { _, err := b.Fork(ctx, forking{Run: begun.Run, At: 5}); return err },
	} {
		if err := do(as("bob")); tipstaff.CodeOf(err) != tipstaff.Forbidden {
			t.Errorf("%s: bob is answered with %v", name, err)
		}
	}
	if page, err := b.List(as("bob"), tipstaff.ListRequest{}); err != nil || len(page.Runs) != 0 {
		t.Errorf("bob is shown %d runs, %v", len(page.Runs), err)
	}
	s, err := b.Start(as("alice"), turn(session))
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.Run)
}

func TestUnknownSessionsAndAgentsAreRefused(t *testing.T) {
	b := agentBed(t, func(agent.Request) agent.Response { return agent.Response{Text: "yes"} })
	if _, _, err := b.turn("01M7G3EYJYXZX0RQ2DABT2BB1E", "Hello?"); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Errorf("an unknown session: %v", err)
	}
	b.write("tipstaff.yaml", strings.Replace(withAgent, "agents:", "agents:\n  smith: {worker: claude}", 1))
	for name, say := range map[string]string{"nobody": "smith", "smith": "has no model"} {
		_, err := b.Start(cli(), tipstaff.StartRequest{Name: "turn", Program: []byte(`{"kind": "turn", "agent": "` + name + `", "message": "x"}`)})
		if tipstaff.CodeOf(err) != tipstaff.InvalidProgram {
			t.Fatalf("the agent %s: %v", name, err)
		}
		if problems := fmt.Sprint(err.(*tipstaff.Error).Problems); !strings.Contains(problems, "agent_unknown") || !strings.Contains(problems, say) {
			t.Errorf("the agent %s: %s", name, problems)
		}
	}
}

func TestStepsOfAPlanAreDoneByAgents(t *testing.T) {
	b := agentBed(t, func(r agent.Request) agent.Response {
		switch said := texts(r); {
		case strings.Contains(said, "tool:"):
			return agent.Response{Text: "It says " + r.Messages[len(r.Messages)-1].Content[0].Text}
		case strings.Contains(said, "Look at the note"):
			return agent.Response{Calls: callTo("read_file", `{"path": "note.txt"}`), Reason: agent.ReasonToolCalls}
		case strings.Contains(said, `{"about":"It says hello"}`):
			return agent.Response{Text: `{"words": 3}`}
		default:
			return agent.Response{Text: "what?"}
		}
	})
	run, driven := b.run(`
tools: [mcp://builtin/read_file@1.0.0]
root:
  kind: sequential
  children:
    - {id: look, kind: step, prompt: Look at the note}
    - {id: count, kind: step, prompt: Count the words, inputs: {about: "${look.output}"}, output_schema: {type: object, required: [words]}}
outputs: {text: "${look.output}", words: "${count.output.words}"}
`)
	if driven.State != tipstaff.Completed {
		t.Fatalf("%+v", driven)
	}
	got, _ := b.Get(cli(), run)
	if string(got.Outputs) != `{"text":"It says hello","words":3}` {
		t.Errorf("outputs %s", got.Outputs)
	}
	if used := got.Bounds["agent_hops"].Used; used != 2 {
		t.Errorf("%d hops were counted", used)
	}
	b.verified(run)
}

// What a step's agent may use is narrowed by the plan, the node and the agent: a
// tool that one of them leaves out is not offered.
func TestStepIsOfferedWhatAllAllow(t *testing.T) {
	var offered []string
	b := agentBed(t, func(r agent.Request) agent.Response {
		offered = nil
		for _, o := range r.Tools {
			offered = append(offered, o.Name)
		}
		return agent.Response{Text: "ok"}
	})
	_, driven := b.run(`
tools: [mcp://builtin/read_file@1.0.0, mcp://builtin/write_file@1.0.0, mcp://builtin/sleep@1.0.0]
root: {id: a, kind: step, prompt: Go, tools: [mcp://builtin/read_file@1.0.0, mcp://builtin/sleep@1.0.0]}
`)
	if driven.State != tipstaff.Completed || len(offered) != 1 || offered[0] != "builtin__read_file" {
		t.Errorf("%+v: offered %v", driven, offered)
	}
}

func TestStepIsTriedAgain(t *testing.T) {
	asked := 0
	b := agentBed(t, func(agent.Request) agent.Response {
		if asked++; asked == 1 {
			return agent.Response{Text: "cut", Reason: agent.ReasonLength}
		}
		return agent.Response{Text: "whole"}
	})
	run, driven := b.run(`
tools: [mcp://builtin/read_file@1.0.0]
root: {id: a, kind: step, prompt: Go, retry: {max: 1, backoff: 1ms, on: [output_invalid]}}
outputs: {a: "${a.output}"}
`)
	got, _ := b.Get(cli(), run)
	if driven.State != tipstaff.Completed || string(got.Outputs) != `{"a":"whole"}` {
		t.Errorf("%+v %s", driven, got.Outputs)
	}
	b.verified(run)
}

// What a model says is told between the record that it was asked and the record of
// its answer, to whoever follows.
func TestDeltasStandBetweenTheirRecords(t *testing.T) {
	begun := make(chan struct{})
	b := agentBed(t, func(agent.Request) agent.Response {
		<-begun
		return agent.Response{Text: "a whole sentence"}
	})
	s, err := b.Start(cli(), tipstaff.StartRequest{Name: "turn", Program: []byte(`{"kind": "turn", "message": "Hello"}`)})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: s.Run, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == tipstaff.KindAgentStepStarted {
			close(begun)
		}
		if strings.HasPrefix(string(e.Kind), "agent.") {
			order = append(order, string(e.Kind))
		}
	}
	b.wait(s.Run)
	if want := "agent.step_started agent.text_delta agent.message agent.finish"; strings.Join(order, " ") != want {
		t.Errorf("%v", order)
	}
}

// Whoever is asked is told who has answered instead.
func TestAnswerFromElsewhereSaysWhose(t *testing.T) {
	b := agentBed(t, func(r agent.Request) agent.Response {
		if strings.Contains(texts(r), "tool:") {
			return agent.Response{Text: "done"}
		}
		return agent.Response{Calls: callTo("write_file", `{"path": "x", "content": "y"}`), Reason: agent.ReasonToolCalls}
	})
	told := make(chan error, 1)
	_, driven, err := b.turn("", "Write.", b.attended(func(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
		run := b.newest()
		if _, err := b.decide(run, g.ID.String(), "allow"); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		told <- context.Cause(ctx)
		return tipstaff.Choice{}, false
	}))
	why := <-told // the run may have ended by then
	var other *tipstaff.AnsweredElsewhere
	if err != nil || driven.State != tipstaff.Completed || !errors.As(why, &other) || other.By != "local:cli" || other.Action != "allow" {
		t.Errorf("%+v %v: %v", driven, err, why)
	}
}

func (b *bed) newest() tipstaff.ID {
	page, err := b.List(cli(), tipstaff.ListRequest{Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		b.t.Fatal(err)
	}
	return page.Runs[0].ID
}

// What agents go by, the prompts among it, is named by digest in the first record.
func TestPromptsAreFrozenIntoTheDraft(t *testing.T) {
	b := agentBed(t, func(agent.Request) agent.Response { return agent.Response{Text: "yes"} })
	run := b.must(b.turn("", "Hello."))
	var draft struct{ Frozen map[string]string }
	if err := json.Unmarshal(b.events(run)[0].Body, &draft); err != nil {
		t.Fatal(err)
	}
	data, err := b.Artifact(cli(), run, draft.Frozen["prompts"])
	var set prompts.Set
	if err != nil || json.Unmarshal(data, &set) != nil || set != prompts.Default() {
		t.Errorf("the prompts of %v are %.80s: %v", draft.Frozen, data, err)
	}
	if data, err := b.Artifact(cli(), run, draft.Frozen["agents"]); err != nil || !strings.Contains(string(data), "Be brief.") {
		t.Errorf("the agents are %.80s: %v", data, err)
	}
}

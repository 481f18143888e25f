package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/agent/agenttest"
	"github.com/tipstaff/tipstaff/flow"
)

// toolbox is the tools of a library user.
type toolbox struct {
	tools []agent.Tool
	acts  map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error) // by name; those without one say ok

	mu    sync.Mutex
	calls []agent.ToolCall
}

func (b *toolbox) Catalog(context.Context) (*agent.Catalog, error) {
	return &agent.Catalog{Tools: b.tools}, nil
}

func (b *toolbox) Call(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
	b.mu.Lock()
	b.calls = append(b.calls, c)
	act := b.acts[c.Tool]
	b.mu.Unlock()
	if act == nil {
		return said("ok"), nil
	}
	return act(ctx, c)
}

// called are the tools that were called, in that order.
func (b *toolbox) called() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{}
	for _, c := range b.calls {
		names = append(names, c.Tool)
	}
	return names
}

func said(text string) agent.ToolResult {
	return agent.ToolResult{Content: []agent.Content{{Type: agent.ContentText, Text: text}}}
}

// approve is an approver that answers as the function does.
type approve func(context.Context, agent.ToolCallRequest) (agent.Decision, error)

func (a approve) Approve(ctx context.Context, r agent.ToolCallRequest) (agent.Decision, error) {
	return a(ctx, r)
}

var (
	allow approve = func(context.Context, agent.ToolCallRequest) (agent.Decision, error) { return agent.Allow, nil }
	never approve = func(_ context.Context, r agent.ToolCallRequest) (agent.Decision, error) {
		return agent.Deny, fmt.Errorf("%s was asked about", r.Tool)
	}
)

// configured is a configuration whose policy allows everything. The model answers as
// steps says.
func configured(box *toolbox, answers ...agent.Response) agent.Config {
	return agent.Config{Model: &model{answer: steps(answers...)}, Tools: box, Approver: never, Policy: rules("*/* allow")}
}

// run takes a turn to its end, and checks what must be true of every one.
func run(t *testing.T, cfg agent.Config, sess *agent.Session) []agent.Event {
	t.Helper()
	ch, err := agent.Run(t.Context(), cfg, sess, "Do it.")
	if err != nil {
		t.Fatal(err)
	}
	var events []agent.Event
	for e := range ch {
		events = append(events, e)
		if e.Terminal() && sess != nil && sess.Valid() != nil {
			t.Errorf("at the terminal event: %v", sess.Valid())
		}
	}
	if err := agenttest.Order(events, true); err != nil {
		t.Errorf("%v%s", err, listed(events))
	}
	return events
}

func listed(events []agent.Event) string {
	var s strings.Builder
	for _, e := range events {
		fmt.Fprintf(&s, "\n\t%s", flow.JSON(e))
	}
	return s.String()
}

func typesOf(events []agent.Event) []agent.Type {
	var types []agent.Type
	for _, e := range events {
		types = append(types, e.Type())
	}
	return types
}

// bodies are those of one type, in their order.
func bodies[B agent.Body](events []agent.Event) []B {
	var list []B
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			list = append(list, b)
		}
	}
	return list
}

func classesOf(events []agent.Event) []string {
	classes := []string{}
	for _, r := range bodies[*agent.ToolCallResult](events) {
		classes = append(classes, r.Class)
	}
	return classes
}

// endOf is the code of the last event; "": it is finish.
func endOf(events []agent.Event) string {
	if len(events) == 0 {
		return "no event"
	}
	switch b := events[len(events)-1].Body.(type) {
	case *agent.Finish:
		return ""
	case *agent.Failed:
		return b.Code
	}
	return "no end"
}

func TestRunNeedsModelToolsAndApprover(t *testing.T) {
	sess := &agent.Session{}
	ch, err := agent.Run(t.Context(), agent.Config{Settings: agent.Settings{MaxSteps: -1}}, sess, "Do it.")
	if ch != nil || tipstaff.CodeOf(err) != agent.ConfigInvalid {
		t.Fatalf("got %v, %v", ch, err)
	}
	var e *tipstaff.Error
	errors.As(err, &e)
	var paths []string
	for _, p := range e.Problems {
		paths = append(paths, p.Path)
	}
	if want := []string{"model", "tools", "approver", "max_steps"}; !slices.Equal(paths, want) {
		t.Errorf("problems at %v, want %v", paths, want)
	}
	if !cmp.Equal(sess, &agent.Session{}) {
		t.Errorf("the session was changed: %+v", sess)
	}
}

func TestRunRefusesABrokenSession(t *testing.T) {
	sess := &agent.Session{Messages: []agent.Message{{Role: agent.FromTool, CallID: "c"}}}
	_, err := agent.Run(t.Context(), configured(&toolbox{}, say("Hello.")), sess, "Hello?")
	if tipstaff.CodeOf(err) != agent.SessionInvalid || len(sess.Messages) != 1 {
		t.Errorf("got %v, and the session %+v", err, sess)
	}
}

func TestRunOneTool(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/df", "read")}}
	cfg := configured(box, call("ops__df", `{"n": 1}`), say("It is full."))
	sess := &agent.Session{}
	events := run(t, cfg, sess)
	want := []agent.Type{
		agent.TypeStepStarted, agent.TypeMessage, agent.TypeToolCallRequest, agent.TypeApprovalDecided, agent.TypeToolCallResult,
		agent.TypeStepStarted, agent.TypeTextDelta, agent.TypeTextDelta, agent.TypeMessage, agent.TypeFinish,
	}
	if diff := cmp.Diff(want, typesOf(events)); diff != "" {
		t.Errorf("events (-want +got):\n%s%s", diff, listed(events))
	}
	requests := cfg.Model.(*model).requests
	last := requests[1].Messages[len(requests[1].Messages)-1]
	if last.Role != agent.FromTool || last.Content[0].Text != "ok" {
		t.Errorf("the second request ends with %+v", last)
	}
	var roles []agent.Role
	for _, m := range sess.Messages {
		roles = append(roles, m.Role)
	}
	if want := []agent.Role{agent.User, agent.Assistant, agent.FromTool, agent.Assistant}; !slices.Equal(roles, want) {
		t.Errorf("the session has %v, want %v", roles, want)
	}
	if sess.ID == "" || sess.Created.IsZero() || sess.Updated.IsZero() {
		t.Errorf("the session is %+v", sess)
	}
	c := box.calls[0]
	id := bodies[*agent.ToolCallRequest](events)[0].ID
	if c.ID != id || c.Key == "" || c.Attempt != 1 || c.Path != "turn/tool#1.1" || string(c.Arguments) != `{"n":1}` || c.Server != "ops" {
		t.Errorf("the tool was called with %+v, and the id is %s", c, id)
	}
}

func TestRunGoesOnWithItsSession(t *testing.T) {
	cfg := configured(&toolbox{}, say("Hello."))
	sess := &agent.Session{ID: "mine"}
	run(t, cfg, sess)
	created := sess.Created
	run(t, cfg, sess)
	if sess.ID != "mine" || !sess.Created.Equal(created) || len(sess.Messages) != 4 {
		t.Errorf("the session is %+v", sess)
	}
	if got := cfg.Model.(*model).requests[1].Messages; len(got) != 3 || got[1].Text != "Hello." {
		t.Errorf("the second turn was told %+v", got)
	}
}

func TestRunWithoutASession(t *testing.T) {
	if end := endOf(run(t, configured(&toolbox{}, say("Hello.")), nil)); end != "" {
		t.Errorf("ended with %s", end)
	}
}

// streaming is a model that says what it is given to say, when it is given it.
type streaming struct{ text chan string }

func (s streaming) Name() string     { return "m" }
func (s streaming) Caps() agent.Caps { return agent.Caps{} }

func (s streaming) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	whole := ""
	for text := range s.text {
		whole += text
		emit(agent.Delta{Channel: agent.ChannelAnswer, Text: text})
	}
	return say(whole), nil
}

func TestDeltasReachTheReaderWhileTheModelSpeaks(t *testing.T) {
	m := streaming{make(chan string)}
	ch, err := agent.Run(t.Context(), agent.Config{Model: m, Tools: agent.NoTools, Approver: never}, nil, "Speak.")
	if err != nil {
		t.Fatal(err)
	}
	<-ch // step_started
	said := ""
	for _, piece := range []string{"Once ", "upon ", "a time."} {
		m.text <- piece
		d, ok := (<-ch).Body.(*agent.TextDelta)
		if !ok || d.Text != piece || d.Offset != int64(len(said)) {
			t.Fatalf("after %q came %+v", piece, d)
		}
		said += d.Text
	}
	close(m.text)
	if done := (<-ch).Body.(*agent.MessageDone); done.Text != said {
		t.Errorf("the message is %q, its deltas %q", done.Text, said)
	}
	for range ch {
	}
}

func TestTheTurnDoesNotRunAheadOfItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &toolbox{tools: []agent.Tool{aTool("ops/rm", "once")}}
		ch, err := agent.Run(t.Context(), configured(box, call("ops__rm", `{}`), say("Gone.")), nil, "Remove it.")
		if err != nil {
			t.Fatal(err)
		}
		for e := range ch {
			if e.Type() == agent.TypeToolCallRequest {
				break
			}
		}
		time.Sleep(time.Hour) // much longer than a call may take
		if called := box.called(); len(called) > 0 {
			t.Errorf("%v was called before its approval was told", called)
		}
		var rest []agent.Event
		for e := range ch {
			rest = append(rest, e)
		}
		if classes := classesOf(rest); !slices.Equal(classes, []string{""}) {
			t.Errorf("results %q", classes)
		}
	})
}

type key struct{}

func TestWhatTheCallersContextCarriesReachesModelAndTools(t *testing.T) {
	var got []any
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "read")}}
	box.acts = map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){
		"a": func(ctx context.Context, _ agent.ToolCall) (agent.ToolResult, error) {
			got = append(got, ctx.Value(key{}))
			return said("ok"), nil
		},
	}
	ch, err := agent.Run(context.WithValue(t.Context(), key{}, "hers"), configured(box, call("ops__a", `{}`), say("Done.")), nil, "Do it.")
	if err != nil {
		t.Fatal(err)
	}
	for range ch {
	}
	if !slices.Equal(got, []any{"hers"}) {
		t.Errorf("the tool saw %v", got)
	}
}

func TestTheRouterAsksTheModelOfTheTurn(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/df_a", "read"), aTool("ops/rm_b", "read")}}
	answers := steps(say("Done."))
	m := &model{answer: func(r agent.Request) (agent.Response, error) {
		if r.Purpose == agent.PurposeRouter {
			return say(`["df"]`), nil
		}
		return answers(r)
	}}
	for name, cfg := range map[string]agent.Config{
		"as a router":   {Router: &agent.ToolkitClassifier{Toolkits: []agent.Toolkit{}}},
		"as a setting":  {Settings: agent.Settings{Router: agent.RouterToolkits, Toolkits: []agent.Toolkit{}}},
		"with its name": {Router: &agent.ToolkitClassifier{Toolkits: []agent.Toolkit{}}, Settings: agent.Settings{Agent: "ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Model, cfg.Tools, cfg.Approver = m, box, never
			events := run(t, cfg, nil)
			decided := bodies[*agent.RouterDecided](events)
			if len(decided) != 1 || decided[0].Tools != 1 || !slices.Equal(decided[0].Toolkits, []string{"df"}) {
				t.Errorf("%s", listed(events))
			}
		})
	}
}

func TestTheLastEventSaysWhyATurnFailed(t *testing.T) {
	for code, err := range map[string]error{
		"provider_auth":   &flow.Error{Code: "provider_auth", Message: "no", Answered: true},
		flow.CodeInternal: flow.ErrParked, // which no model may say: the turn breaks off
	} {
		cfg := configured(&toolbox{})
		cfg.Model = &model{answer: func(agent.Request) (agent.Response, error) { return agent.Response{}, err }}
		sess := &agent.Session{}
		events := run(t, cfg, sess)
		if end := endOf(events); end != code || len(sess.Messages) != 1 {
			t.Errorf("ended with %s, want %s; the session has %d messages", end, code, len(sess.Messages))
		}
	}
}

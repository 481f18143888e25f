package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/agent/agenttest"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

const theRun = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"

// bed is a turn with everything around it: a model, tools, and a log that outlives
// drives.
type bed struct {
	log   *flow.Mem
	cfg   agent.Config
	in    agent.Input
	model *model
	world *world
	jobs  func(*flow.Job) // changes each job; nil: as it is

	mu   sync.Mutex
	told []flow.Draft
	out  agent.Output // of the last drive
	err  error
}

// newBed is a bed whose model answers as the function does.
func newBed(answer func(agent.Request) (agent.Response, error), tools ...agent.Tool) *bed {
	b := &bed{log: flow.NewMem(), model: &model{answer: answer}, world: &world{acts: map[string]act{}}}
	b.world.tools = tools
	b.cfg = agent.Config{Policy: rules("*/* allow")}
	b.cfg.ModelName, b.cfg.Caps = "m", agent.Caps{ContextWindow: 100_000, Price: &agent.Price{}}
	b.in = agent.Input{Message: "Do it."}
	return b
}

func (b *bed) job() flow.Job {
	cfg := b.cfg
	job := flow.Job{Run: theRun, Root: "turn", Linger: 0,
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			b.out, b.err = agent.Turn(fc, cfg, b.in)
			if b.err != nil {
				return nil, b.err
			}
			return flow.JSON(b.out), nil
		},
		Acts: map[string]flow.Activity{
			agent.ModelActivity:   agent.ModelCall(b.model),
			agent.CatalogActivity: agent.CatalogCall(b.world.catalog),
			agent.RouterActivity:  agent.RouterCall(cmp.Or[agent.Router](cfg.Router, agent.PassThrough{})),
			tool.ActivityName:     {Run: b.world.call},
		},
		Tell: func(d flow.Draft) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.told = append(b.told, d)
		},
	}
	if b.jobs != nil {
		b.jobs(&job)
	}
	return job
}

// drive takes the turn as far as it goes.
func (b *bed) drive(t testing.TB) flow.Outcome {
	t.Helper()
	out, err := flow.New(b.log, nil).Drive(t.Context(), b.job())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// take drives the turn and checks what must be true of it however it comes out.
func (b *bed) take(t testing.TB) flow.Outcome {
	t.Helper()
	out := b.drive(t)
	b.check(t, out)
	return out
}

// check holds of every turn: the order of its events, a valid conversation, and
// that the records alone give the same again.
func (b *bed) check(t testing.TB, out flow.Outcome) {
	t.Helper()
	if out.Status == flow.Interrupted {
		t.Fatalf("interrupted: %v", out.Err)
	}
	if err := agenttest.Order(b.events(), out.Status.Terminal()); err != nil {
		t.Errorf("%v%s", err, b.transcript())
	}
	if out.Status.Terminal() {
		if err := agent.Valid(b.out.Messages); err != nil {
			t.Errorf("the session: %v", err)
		}
	}
	if fault := b.differs(t, out); fault != "" {
		t.Error(fault)
	}
}

// differs takes the turn once more, over its records alone, and says what comes out
// otherwise; "": nothing.
func (b *bed) differs(t testing.TB, out flow.Outcome) string {
	t.Helper()
	h, err := b.log.Load(t.Context(), theRun)
	if err != nil {
		t.Fatal(err)
	}
	live, liveErr := b.out, b.err
	defer func() { b.out, b.err = live, liveErr }()
	job := b.job()
	job.Acts = nil
	again, err := flow.Replay(h).Drive(t.Context(), job)
	switch {
	case err != nil:
		t.Fatal(err)
	case again.Status != out.Status:
		return fmt.Sprintf("replay ended %s (%v), the turn %s", again.Status, again.Err, out.Status)
	case out.Status.Terminal() && string(flow.JSON(b.out.Messages)) != string(flow.JSON(live.Messages)):
		return fmt.Sprintf("replay gave another conversation:\n%s\nnot\n%s", flow.JSON(b.out.Messages), flow.JSON(live.Messages))
	case fmt.Sprint(b.err) != fmt.Sprint(liveErr):
		return fmt.Sprintf("replay ended with %v, the turn with %v", b.err, liveErr)
	}
	return ""
}

// events are those of the records.
func (b *bed) events() []agent.Event {
	var view agent.View
	var events []agent.Event
	for _, r := range b.log.Records(theRun) {
		if e, ok := view.Event(r); ok {
			events = append(events, e)
		}
	}
	return events
}

// of are the bodies of one type, in their order.
func of[B agent.Body](b *bed) []B {
	var list []B
	for _, e := range b.events() {
		if body, ok := e.Body.(B); ok {
			list = append(list, body)
		}
	}
	return list
}

// classes are those of the results, in their order.
func (b *bed) classes() []string {
	var list []string
	for _, r := range of[*agent.ToolCallResult](b) {
		list = append(list, r.Class)
	}
	return list
}

func (b *bed) transcript() string {
	var s strings.Builder
	for _, e := range b.events() {
		fmt.Fprintf(&s, "\n\t%s", flow.JSON(e))
	}
	return s.String()
}

// decide answers the open gate at a path.
func (b *bed) decide(t testing.TB, key string, d flow.Decision) {
	t.Helper()
	for _, r := range slices.Backward(b.log.Records(theRun)) {
		var body struct{ Gate string }
		if r.Kind != "policy.gate" || r.Path != key {
			continue
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		if err := b.log.Decide(theRun, body.Gate, d); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no gate %s", key)
}

// model is one whose answers are a function of the request.
type model struct {
	answer func(agent.Request) (agent.Response, error)
	forget bool // requests are not noted

	mu       sync.Mutex
	requests []agent.Request
}

func (m *model) Name() string     { return "m" }
func (m *model) Caps() agent.Caps { return agent.Caps{} }

func (m *model) Stream(_ context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	if !m.forget {
		m.mu.Lock()
		m.requests = append(m.requests, r)
		m.mu.Unlock()
	}
	said, err := m.answer(r)
	half := len(said.Text) / 2
	for _, text := range []string{said.Text[:half], said.Text[half:]} {
		emit(agent.Delta{Channel: agent.ChannelAnswer, Text: text})
	}
	return said, err
}

// stepOf is the number of the step that a request belongs to.
func stepOf(r agent.Request) (n int) {
	fmt.Sscanf(r.Path[strings.LastIndexByte(r.Path, '#')+1:], "%d", &n)
	return n
}

// say is an answer; call one that asks for tools, each given as name and arguments.
func say(text string) agent.Response {
	return agent.Response{Text: text, Reason: agent.ReasonStop, Usage: &agent.Usage{}}
}

func call(calls ...string) agent.Response {
	r := agent.Response{Reason: agent.ReasonToolCalls, Usage: &agent.Usage{}}
	for i := 0; i < len(calls); i += 2 {
		r.Calls = append(r.Calls, agent.Call{Name: calls[i], Arguments: calls[i+1]})
	}
	return r
}

// steps is a model that gives these answers, one for each step.
func steps(answers ...agent.Response) func(agent.Request) (agent.Response, error) {
	return func(r agent.Request) (agent.Response, error) {
		if n := stepOf(r); n <= len(answers) {
			return answers[n-1], nil
		}
		return agent.Response{}, &flow.Error{Code: "script_exhausted", Message: r.Path, Answered: true}
	}
}

// aTool is a tool of a catalog, named server/tool. Flags are its class, and closed
// (not an open world) or safe (not destructive).
func aTool(name string, flags ...string) agent.Tool {
	server, short, _ := strings.Cut(name, "/")
	t := agent.Tool{URI: "mcp://" + name + "@1.0.0", Server: server, Name: short, Version: "1.0.0"}
	hints := map[string]bool{}
	for _, f := range flags {
		switch f {
		case "closed":
			hints["openWorldHint"] = false
		case "safe":
			hints["destructiveHint"] = false
		default:
			t.Config.Effect = flow.Class(f)
		}
	}
	t.Raw = flow.JSON(map[string]any{"name": short, "description": "Does " + short + ".", "annotations": hints,
		"inputSchema": json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)})
	return t
}

// act is how a tool answers the n-th time it is called, counted from 1.
type act func(ctx context.Context, in tool.Input, n int) (tool.Reply, error)

func text(s string) tool.Reply {
	return tool.Reply{Content: []tool.Content{{Type: tool.ContentText, Text: s}}}
}

// world is the tools, and what was done with them.
type world struct {
	tools []agent.Tool
	acts  map[string]act // by server/tool; those without one say ok

	mu    sync.Mutex
	calls []string // server/tool and arguments, in the order of the calls
	input []tool.Input
}

func (w *world) catalog(context.Context) (*agent.Catalog, error) {
	return &agent.Catalog{Tools: w.tools}, nil
}

func (w *world) call(ctx context.Context, a flow.Attempt) (flow.Done, error) {
	var in tool.Input
	if err := json.Unmarshal(a.Input, &in); err != nil {
		return flow.Done{}, err
	}
	name := strings.TrimSuffix(strings.TrimPrefix(in.URI, "mcp://"), "@1.0.0")
	w.mu.Lock()
	w.calls = append(w.calls, name+" "+string(in.Args))
	w.input = append(w.input, in)
	n := 0
	for _, c := range w.calls {
		if strings.HasPrefix(c, name+" ") {
			n++
		}
	}
	do := w.acts[name]
	w.mu.Unlock()
	if do == nil {
		return flow.Done{Value: flow.JSON(text("ok"))}, nil
	}
	reply, err := do(ctx, in, n)
	if err != nil {
		return flow.Done{}, err
	}
	return flow.Done{Value: flow.JSON(reply)}, nil
}

// done are the calls that were made.
func (w *world) done() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// rules is a policy: each rule is a glob, an action, and perhaps a condition. Its id
// is the action and its place.
func rules(lines ...string) *policy.Policy {
	var d policy.Document
	for i, line := range lines {
		parts := strings.SplitN(line, " ", 3)
		do, err := policy.ParseAction(parts[1])
		if err != nil {
			panic(err)
		}
		r := policy.Rule{ID: fmt.Sprintf("%s-%d", parts[1], i+1), Tool: parts[0], Do: do}
		if len(parts) == 3 {
			r.When = parts[2]
		}
		d.Rules = append(d.Rules, r)
	}
	p, problems := policy.New(d)
	if problems != nil {
		panic(fmt.Sprint(problems))
	}
	return p
}

// codeOf is the code with which a turn ended; "": well.
func codeOf(err error) string {
	var failed *flow.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, flow.ErrCancelled):
		return agent.CodeCancelled
	case errors.As(err, &failed):
		return failed.Code
	}
	return err.Error()
}

// cancels is a tool that is in the middle of its work when the turn is cancelled, and
// that nobody waits for. It stops if it is told to, else when the test is over.
func cancels(b *bed, over <-chan struct{}) act {
	return func(ctx context.Context, _ tool.Input, n int) (tool.Reply, error) {
		now := flow.JSON(map[string]any{"mode": "graceful", "deadline": time.Now().UTC()})
		if err := b.log.Write(theRun, flow.Draft{Kind: "run.cancel_requested", Body: now}); err != nil {
			return tool.Reply{}, err
		}
		select {
		case <-ctx.Done():
		case <-over:
		}
		return tool.Reply{}, context.Cause(ctx)
	}
}

const second = time.Second

// takes is a tool that takes so long, and does not retry well.
func takes(d time.Duration) act {
	return func(ctx context.Context, _ tool.Input, _ int) (tool.Reply, error) {
		select {
		case <-time.After(d):
			return text("ok"), nil
		case <-ctx.Done():
			return tool.Reply{}, &flow.Error{Code: flow.CodeTimeout, Answered: true}
		}
	}
}

// says is a tool that always answers the same.
func says(s string) act {
	return func(context.Context, tool.Input, int) (tool.Reply, error) { return text(s), nil }
}

package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

const theRun = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"

// memStore is a log in memory in the place of a store.
type memStore struct {
	flow.Store // nil: nothing else of it is used
	log        *flow.Mem
}

func (m memStore) Acquire(ctx context.Context, run string, o flow.Owner) (flow.Lease, error) {
	return m.log.Acquire(ctx, run, o)
}
func (m memStore) Load(ctx context.Context, run string) (flow.History, error) {
	return m.log.Load(ctx, run)
}
func (m memStore) Append(l flow.Lease, d []flow.Draft, done func(error)) { m.log.Append(l, d, done) }
func (m memStore) Park(l flow.Lease, p flow.Parking) (bool, error)       { return m.log.Park(l, p) }
func (m memStore) Watch(run string, f func(flow.Record)) func()          { return m.log.Watch(run, f) }

// bed is a turn with a model, tools, and a log that outlives drives.
type bed struct {
	log    *flow.Mem
	cfg    agent.Config
	in     agent.Input
	answer func(agent.Request) (agent.Response, error)
	tools  []agent.Tool
	acts   map[string]act // by the URI's server/tool; those without one say ok
	jobs   func(*flow.Job)
}

// act is what a tool does.
type act func(context.Context) (tool.Reply, error)

func newBed(answer func(agent.Request) (agent.Response, error), tools ...agent.Tool) *bed {
	b := &bed{log: flow.NewMem(), answer: answer, tools: tools, acts: map[string]act{}, in: agent.Input{Message: "Do it."}}
	b.cfg = agent.Config{Policy: rule(policy.Allow)}
	b.cfg.ModelName, b.cfg.Caps = "m", agent.Caps{ContextWindow: 100_000, Price: &agent.Price{}}
	return b
}

// rule is a policy that says the same of every call.
func rule(do policy.Action) *policy.Policy {
	p, problems := policy.New(policy.Document{Rules: []policy.Rule{{ID: "all", Tool: "*/*", Do: do}}})
	if problems != nil {
		panic(fmt.Sprint(problems))
	}
	return p
}

func (b *bed) job() flow.Job {
	job := flow.Job{Run: theRun, Root: "turn",
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			out, err := agent.Turn(fc, b.cfg, b.in)
			return flow.JSON(out), err
		},
		Acts: map[string]flow.Activity{
			agent.ModelActivity:   agent.ModelCall(b),
			agent.CatalogActivity: agent.CatalogCall(func(context.Context) (*agent.Catalog, error) { return &agent.Catalog{Tools: b.tools}, nil }),
			agent.RouterActivity:  agent.RouterCall(b.cfg.Router),
			tool.ActivityName:     {Run: b.call},
		},
		Tell: func(flow.Draft) {},
	}
	if b.jobs != nil {
		b.jobs(&job)
	}
	return job
}

func (b *bed) Name() string     { return "m" }
func (b *bed) Caps() agent.Caps { return agent.Caps{} }

func (b *bed) Stream(_ context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	said, err := b.answer(r)
	emit(agent.Delta{Channel: agent.ChannelAnswer, Text: said.Text})
	return said, err
}

func (b *bed) call(ctx context.Context, a flow.Attempt) (flow.Done, error) {
	var in tool.Input
	if err := json.Unmarshal(a.Input, &in); err != nil {
		return flow.Done{}, err
	}
	reply := text("ok")
	if do := b.acts[strings.TrimSuffix(strings.TrimPrefix(in.URI, "mcp://"), "@1.0.0")]; do != nil {
		var err error
		if reply, err = do(ctx); err != nil {
			return flow.Done{}, err
		}
	}
	return flow.Done{Value: flow.JSON(reply)}, nil
}

// decide answers the gate that waits.
func (b *bed) decide(t testing.TB, d flow.Decision) {
	t.Helper()
	for _, r := range b.log.Records(theRun) {
		var body flow.GateOpened
		if r.Kind != flow.KindGateOpened {
			continue
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		if err := b.log.Decide(theRun, body.Gate, d); err != nil {
			t.Fatal(err)
		}
	}
}

// stepOf is the number of the step that a request belongs to.
func stepOf(r agent.Request) (n int) {
	fmt.Sscanf(r.Path[strings.LastIndexByte(r.Path, '#')+1:], "%d", &n)
	return n
}

// steps is a model that gives these answers, one for each step.
func steps(answers ...agent.Response) func(agent.Request) (agent.Response, error) {
	return func(r agent.Request) (agent.Response, error) { return answers[stepOf(r)-1], nil }
}

func say(text string) agent.Response {
	return agent.Response{Text: text, Reason: agent.ReasonStop, Usage: &agent.Usage{}}
}

func call(name, args string) agent.Response {
	return agent.Response{Reason: agent.ReasonToolCalls, Usage: &agent.Usage{}, Calls: []agent.Call{{Name: name, Arguments: args}}}
}

func text(s string) tool.Reply {
	return tool.Reply{Content: []tool.Content{{Type: tool.ContentText, Text: s}}}
}

// aTool is a tool of a catalog, named server/tool.
func aTool(name string, effect flow.Class) agent.Tool {
	server, short, _ := strings.Cut(name, "/")
	t := agent.Tool{URI: "mcp://" + name + "@1.0.0", Server: server, Name: short, Version: "1.0.0"}
	t.Config.Effect = effect
	t.Raw = flow.JSON(map[string]any{"name": short, "description": "Does " + short + ".",
		"inputSchema": json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)})
	return t
}

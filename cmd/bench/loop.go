package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// loop is what turns of an agent need when neither model, tool nor log takes time:
// what is left is the loop itself, with its gate and policy, and the engine.
type loop struct {
	gate     *tool.Gate
	settings agent.Settings
}

// allowing is a manifest whose policy lets an agent read.
const allowing = `{servers: {builtin: {roots: ["."], tools: {read_file: {}}}}, policy: {rules: [{id: reads, tool: "builtin/*", effect: read, do: allow}]}}`

func newLoop(settings agent.Settings) (*loop, error) {
	m, problems := workspace.Parse("tipstaff.yaml", []byte(allowing))
	if len(problems) > 0 {
		return nil, fmt.Errorf("%v", problems)
	}
	tools, err := tool.NewRegistry(m, map[string]tool.Server{builtin.Name: tool.Builtin(builtin.Options{Roots: []string{"."}})})
	if err != nil {
		return nil, err
	}
	settings.Agent, settings.ModelName, settings.Caps = "bench", reader{}.Name(), reader{}.Caps()
	return &loop{tool.NewGate([]string{dispatchedURI}, m, tools), settings}, nil
}

// acts are the activities of the turns: the model answers them, the tool says the
// same every time.
func (l *loop) acts(m agent.Model) map[string]flow.Activity {
	reply := flow.JSON(tool.Reply{Content: []tool.Content{{Type: tool.ContentText, Text: note}}})
	return map[string]flow.Activity{
		agent.ModelActivity: agent.ModelCall(m),
		agent.CatalogActivity: agent.CatalogCall(func(context.Context) (*agent.Catalog, error) {
			return agent.CatalogOf(l.gate), nil
		}),
		tool.ActivityName: {Run: func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{Value: reply}, nil }},
	}
}

// turn takes one turn at the place of fc.
func (l *loop) turn(fc flow.Context) (agent.Output, error) {
	return agent.Turn(fc, agent.Config{Settings: l.settings, Gate: l.gate}, agent.Input{Message: "Read the note, again and again."})
}

// reader is a model that reads a file in every step, until it has taken enough of
// them.
type reader struct {
	steps int
	using func(context.Context, agent.Request) (*agent.Usage, error) // nil: usage that does not matter
}

func (reader) Name() string     { return "reader" }
func (reader) Caps() agent.Caps { return agent.Caps{ContextWindow: 10_000_000, Price: &agent.Price{}} }

func (m reader) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	step, err := stepOf(r.Path)
	if err != nil {
		return agent.Response{}, err
	}
	usage := &agent.Usage{InputTokens: 1, OutputTokens: 1, TotalTokens: 2}
	if m.using != nil {
		if usage, err = m.using(ctx, r); err != nil {
			return agent.Response{}, err
		}
	}
	if step < m.steps {
		return agent.Response{Reason: agent.ReasonToolCalls, Usage: usage,
			Calls: []agent.Call{{Name: builtin.Name + "__" + dispatched, Arguments: string(dispatchedArgs)}}}, nil
	}
	const done = "That is what it says."
	emit(agent.Delta{Channel: agent.ChannelAnswer, Text: done})
	return agent.Response{Text: done, Reason: agent.ReasonStop, Usage: usage}, nil
}

// stepOf is the number that the path of a model call ends with.
func stepOf(path string) (int, error) { return strconv.Atoi(path[strings.LastIndexByte(path, '#')+1:]) }

// completed is the error of a drive that did not come to a good end.
func completed(out flow.Outcome, err error) error {
	if err == nil && out.Status != flow.Completed {
		err = errors.Join(fmt.Errorf("the run is %s", out.Status), out.Err)
	}
	return err
}

// spent is how long turns of so many steps take on a log in memory, one after the
// other, each a run.
func (l *loop) spent(ctx context.Context, turns, steps int) (time.Duration, error) {
	settings := l.settings
	settings.MaxSteps = steps
	own := &loop{l.gate, settings}
	start := time.Now()
	for range turns {
		err := completed(flow.New(flow.NewMem(), nil).Drive(ctx, flow.Job{Run: "turn", Root: "turn", Acts: own.acts(reader{steps: steps}),
			Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				_, err := own.turn(fc)
				return empty, err
			}}))
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

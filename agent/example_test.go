package agent_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/policy"
)

// clerk stands for a model of package provider: it asks for the weather once, and
// answers with what it is told.
type clerk struct{}

func (clerk) Name() string     { return "clerk-1" }
func (clerk) Caps() agent.Caps { return agent.Caps{ContextWindow: 32_768} }

func (clerk) Stream(_ context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == agent.User {
		return agent.Response{Reason: agent.ReasonToolCalls, Calls: []agent.Call{
			{ID: "call_1", Name: "weather__now", Arguments: `{"city": "Lübeck"}`},
		}}, nil
	}
	text := "In Lübeck there is " + last.Content[0].Text + "."
	emit(agent.Delta{Channel: agent.ChannelAnswer, Text: text})
	return agent.Response{Text: text, Reason: agent.ReasonStop}, nil
}

// station is a tool that the program brings along. It declares what it does as an
// MCP server would.
type station struct{}

func (station) Catalog(context.Context) (*agent.Catalog, error) {
	return &agent.Catalog{Tools: []agent.Tool{{Server: "weather", Name: "now", Version: "1.0.0", Raw: json.RawMessage(`{
		"name": "now", "description": "The weather in a city.",
		"inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
		"annotations": {"readOnlyHint": true}
	}`)}}}, nil
}

func (station) Call(_ context.Context, c agent.ToolCall) (agent.ToolResult, error) {
	return agent.ToolResult{Content: []agent.Content{{Type: agent.ContentText, Text: "drizzle"}}}, nil
}

// A turn of an agent inside another program: every call passes the policy, and what
// the policy asks about goes to the approver.
func ExampleRun() {
	session := &agent.Session{}
	events, err := agent.Run(context.Background(), agent.Config{
		Model:    clerk{},
		Tools:    station{},
		Approver: agent.AutoAllow{}, // what only reads needs nobody's word
	}, session, "What is the weather like?")
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range events {
		switch b := e.Body.(type) {
		case *agent.ToolCallRequest:
			fmt.Println("asks for", b.Server+"/"+b.Tool, string(b.Arguments))
		case *agent.ApprovalDecided:
			fmt.Println("decided:", b.Decision, "by", b.By)
		case *agent.TextDelta:
			fmt.Println("says:", b.Text)
		case *agent.Finish:
			fmt.Println("done after", b.Steps, "steps")
		case *agent.Failed:
			fmt.Println("failed:", b.Code, b.Msg)
		}
	}
	fmt.Println("the session has", len(session.Messages), "messages")
	// Output:
	// asks for weather/now {"city":"Lübeck"}
	// decided: allow by local:approver
	// says: In Lübeck there is drizzle.
	// done after 2 steps
	// the session has 4 messages
}

// Middleware stands between approval and call. It can refuse a call, and the model
// is told why.
func ExampleMiddleware() {
	curfew := func(next agent.Dispatch) agent.Dispatch {
		return func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
			return agent.ToolResult{}, fmt.Errorf("the station is closed")
		}
	}
	everything, _ := policy.New(policy.Document{Rules: []policy.Rule{{ID: "all", Tool: "*/*", Do: policy.Allow}}})
	events, err := agent.Run(context.Background(), agent.Config{
		Model: clerk{}, Tools: station{}, Approver: agent.AutoAllow{}, Policy: everything, Middleware: []agent.Middleware{curfew},
	}, nil, "What is the weather like?")
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range events {
		if r, ok := e.Body.(*agent.ToolCallResult); ok {
			fmt.Println(r.Content)
		}
	}
	// Output:
	// guard_refused: the call of weather/now was refused: the station is closed
}

package provider_test

import (
	"context"
	"fmt"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
)

// A script answers by what it is asked. The same request gets the same answer, at
// any time.
func ExampleOpen_scripted() {
	model, err := provider.Open(provider.Config{Provider: provider.Scripted, ScriptName: "disk.yaml", Script: []byte(`
version: 1
answers:
  - {when: {user: "(?i)disk", step: 1}, calls: [{tool: ops/df, args: {path: "/"}}]}
  - {when: {result: "9[0-9]%"}, text: "The disk is nearly full."}
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := agent.Request{Messages: []agent.Message{{Role: agent.User, Text: "Is the disk full?"}}}
	answer, _ := model.Stream(context.Background(), request, func(agent.Delta) {})
	fmt.Println(answer.Reason, answer.Calls[0].Name, answer.Calls[0].Arguments)

	request.Messages = append(request.Messages,
		agent.Message{Role: agent.Assistant, Calls: answer.Calls},
		agent.Message{Role: agent.FromTool, Content: []agent.Content{{Type: agent.ContentText, Text: "97%"}}})
	answer, _ = model.Stream(context.Background(), request, func(d agent.Delta) { fmt.Println(d.Text) })
	fmt.Println(answer.Reason)
	// Output:
	// tool_calls ops__df {"path":"/"}
	// The disk is nearly full.
	// stop
}

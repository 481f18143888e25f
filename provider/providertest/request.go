// Package providertest holds what the tests of models and of their scripts share.
package providertest

import "github.com/tipstaff/tipstaff/agent"

// Request is one in the midst of a second turn: step 2, after a result. change, if
// it is not nil, makes it another.
func Request(change func(*agent.Request)) agent.Request {
	r := agent.Request{
		System: "You watch disks.", Agent: "ops", Path: "turn/model#2", Attempt: 1, Purpose: agent.PurposeTurn,
		Tools: []agent.Offer{{Name: "ops__df", Tool: "ops/df"}, {Name: "net__ping_1a2b3c4d", Tool: "net/ping"}},
		Messages: []agent.Message{
			{Role: agent.User, Text: "Hello"},
			{Role: agent.Assistant, Text: "Hi"},
			{Role: agent.User, Text: "Is the disk full?"},
			{Role: agent.Assistant, Calls: []agent.Call{{ID: "1", Name: "ops__df"}, {ID: "2", Name: "ops__df"}}},
			{Role: agent.FromTool, CallID: "1", Content: []agent.Content{{Type: "text", Text: "12%"}}},
			{Role: agent.FromTool, CallID: "2", Content: []agent.Content{{Type: "text", Text: "used:"}, {Type: "image"}, {Type: "text", Text: "97%"}}},
		},
	}
	if change != nil {
		change(&r)
	}
	return r
}

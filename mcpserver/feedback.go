package mcpserver

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// A decision that lacks nothing but feedback asks the person for it, if the client can. The
// decision is then made from the beginning, with what they said.

// feedbackInput names the question and the field of its answer.
const feedbackInput = "feedback"

// withFeedback adds what a person has said to the arguments. given: somebody was asked.
func withFeedback(req *mcp.CallToolRequest, arguments json.RawMessage) (given bool, with json.RawMessage, err error) {
	answer, given := req.Params.InputResponses[feedbackInput].(*mcp.ElicitResult)
	if !given || answer.Action != "accept" {
		return given, arguments, nil
	}
	text, _ := answer.Content[feedbackInput].(string)
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(arguments, &all); err != nil {
		return given, nil, invalidArguments(err)
	}
	if all[feedbackInput], err = json.Marshal(text); err != nil {
		return given, nil, err
	}
	with, err = json.Marshal(all)
	return given, with, err
}

// askFeedback is the question for what a decision lacks; nil: it lacks something else, the
// client cannot ask, or the person was asked before.
func askFeedback(req *mcp.CallToolRequest, err error, asked bool) *mcp.CallToolResult {
	var e *tipstaff.Error
	if asked || !errors.As(err, &e) || e.Code != tipstaff.FeedbackRequired || !canAsk(req.ClientCapabilities()) {
		return nil
	}
	least := 1
	most := 16 << 10
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{feedbackInput: &mcp.ElicitParams{
		Mode:    "form",
		Message: strings.TrimSuffix(e.Message, ".") + ": what should whoever goes on be told?",
		RequestedSchema: &jsonschema.Schema{Type: "object", Required: []string{feedbackInput}, Properties: map[string]*jsonschema.Schema{
			feedbackInput: {Type: "string", Title: "Feedback", Description: "It is passed on verbatim.", MinLength: &least, MaxLength: &most}}},
	}}}
}

// canAsk reports whether a client shows forms. One that says nothing of modes does.
func canAsk(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

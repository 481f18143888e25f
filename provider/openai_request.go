package provider

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// What a request is made of, as far as it is used here.
type (
	openAIRequest struct {
		Model               string          `json:"model"`
		Messages            []openAIMessage `json:"messages,omitempty"`
		Tools               []openAITool    `json:"tools,omitempty"`
		MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
		MaxTokens           int             `json:"max_tokens,omitempty"`
		Temperature         *float64        `json:"temperature,omitempty"`
		TopP                *float64        `json:"top_p,omitempty"`
		ResponseFormat      *openAIFormat   `json:"response_format,omitempty"`
		Stream              bool            `json:"stream"`
		StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
	}
	openAITool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	openAIMessage struct {
		Role       string       `json:"role"`
		Content    any          `json:"content,omitempty"` // a string or []contentPart
		ToolCalls  []openAICall `json:"tool_calls,omitempty"`
		ToolCallID *string      `json:"tool_call_id,omitempty"`
	}
	openAICall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function functionCall `json:"function"`
	}
	functionCall struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	contentPart struct {
		Type     string    `json:"type"`
		Text     string    `json:"text,omitempty"`
		ImageURL *imageURL `json:"image_url,omitempty"`
	}
	imageURL struct {
		URL string `json:"url"`
	}
	openAIFormat struct {
		Type       string       `json:"type"`
		JSONSchema outputSchema `json:"json_schema"`
	}
	outputSchema struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
)

// request is a conversation in the chat completions format.
func (m *openAIModel) request(r agent.Request, usage bool) openAIRequest {
	q := openAIRequest{Model: m.name, Messages: m.conversation(r), Stream: true}
	for _, o := range r.Tools {
		q.Tools = append(q.Tools, openAITool{"function", function{o.Name, o.Description, withProperties(o.Schema)}})
	}
	if usage {
		q.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if limit := max(r.MaxOutputTokens, 0); m.own {
		q.MaxCompletionTokens = limit
	} else {
		q.MaxTokens = limit // all that most imitations know
	}
	// A router asks for temperature 0 of every model, also of those that take none.
	if !m.fixed || r.Purpose != agent.PurposeRouter {
		q.Temperature, q.TopP = r.Temperature, r.TopP
	}
	if len(r.OutputSchema) > 0 {
		q.ResponseFormat = &openAIFormat{"json_schema", outputSchema{"output", r.OutputSchema, strictSchema(r.OutputSchema)}}
	}
	return q
}

// withProperties adds the empty list of properties that this vendor insists on to
// the schema of a tool without parameters.
func withProperties(schema json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members == nil || members["properties"] != nil {
		return schema
	}
	members["properties"] = json.RawMessage("{}")
	return flow.JSON(members)
}

func (m *openAIModel) conversation(r agent.Request) []openAIMessage {
	var list []openAIMessage
	if r.System != "" {
		list = append(list, openAIMessage{Role: "system", Content: r.System})
	}
	var images []contentPart // of the results so far, which can hold text alone
	for i, message := range r.Messages {
		switch message.Role {
		case agent.FromTool:
			text, seen := m.result(message, len(images)/2)
			list = append(list, openAIMessage{Role: "tool", Content: text, ToolCallID: &message.CallID})
			images = append(images, seen...)
		case agent.Assistant:
			list = append(list, openAISaid(message))
		default:
			list = append(list, openAIMessage{Role: "user", Content: message.Text})
		}
		// Nothing may stand between the results of one step.
		last := i == len(r.Messages)-1 || r.Messages[i+1].Role != agent.FromTool
		if last && len(images) > 0 {
			list = append(list, openAIMessage{Role: "user", Content: images})
			images = nil
		}
	}
	return list
}

func openAISaid(message agent.Message) openAIMessage {
	said := openAIMessage{Role: "assistant"}
	if message.Text != "" || len(message.Calls) == 0 {
		said.Content = message.Text
	}
	for _, c := range message.Calls {
		said.ToolCalls = append(said.ToolCalls, openAICall{c.ID, "function", functionCall{sendableName(c.Name), sendable(c.Arguments)}})
	}
	return said
}

// result is a tool's result as text, and its images, each after a line that says
// which it is. before is how many images of this step there are already.
func (m *openAIModel) result(message agent.Message, before int) (string, []contentPart) {
	var lines []string
	var images []contentPart
	for _, c := range message.Content {
		switch {
		case c.Type != agent.ContentImage:
			lines = append(lines, c.Text)
		case !m.caps.Images:
			lines = append(lines, unseen(c))
		default:
			before++
			lines = append(lines, fmt.Sprintf("[image %d, below]", before))
			images = append(images,
				contentPart{Type: "text", Text: fmt.Sprintf("[image %d, of call %s]", before, message.CallID)},
				contentPart{Type: "image_url", ImageURL: &imageURL{"data:" + c.MimeType + ";base64," + base64.StdEncoding.EncodeToString(c.Data)}})
		}
	}
	return strings.Join(lines, "\n"), images
}

// strictWords are the keywords with which the vendor can guarantee a schema.
var strictWords = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true, "items": true,
	"enum": true, "const": true, "anyOf": true, "description": true, "title": true,
}

// strictSchema tells whether the vendor would guarantee a schema. It refuses to
// promise one that leaves objects open or members optional.
func strictSchema(schema json.RawMessage) bool {
	var object map[string]any
	return json.Unmarshal(schema, &object) == nil && object["type"] == "object" && strict(object)
}

func strict(node any) bool {
	schema, ok := node.(map[string]any)
	if !ok {
		return false
	}
	for word := range schema {
		if !strictWords[word] {
			return false
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	if schema["type"] == "object" && schema["additionalProperties"] != false {
		return false
	}
	required, _ := schema["required"].([]any)
	if len(required) != len(properties) {
		return false
	}
	for _, p := range properties {
		if !strict(p) {
			return false
		}
	}
	choices, _ := schema["anyOf"].([]any)
	for _, c := range choices {
		if !strict(c) {
			return false
		}
	}
	items, has := schema["items"]
	return !has || strict(items)
}

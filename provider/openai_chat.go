package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// chatModel speaks the chat completions format, which many servers imitate.
type chatModel struct {
	vendorModel
	usage option // to be told what was used: many servers know no stream_options
}

func newChat(c Config, dial dialFunc) (agent.Model, error) {
	base, err := newVendor(c, openAIAddress, "chat/completions", dial)
	if err != nil {
		return nil, err
	}
	base.bear(c.APIKey)
	return &chatModel{vendorModel: base, usage: option{words: []string{"stream_options", "include_usage"}}}, nil
}

// Stream makes one attempt to answer.
func (m *chatModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	return persist([]*option{&m.usage}, func(with []bool) (agent.Response, error) {
		return m.wire.ask(ctx, m.url, m.header, m.request(r, with[0]), newChatAnswer(m.wire, emit))
	})
}

// What a request is made of, as far as it is used here.
type (
	chatRequest struct {
		Model               string         `json:"model"`
		Messages            []chatMessage  `json:"messages,omitempty"`
		Tools               []chatTool     `json:"tools,omitempty"`
		MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
		MaxTokens           int            `json:"max_tokens,omitempty"`
		Temperature         *float64       `json:"temperature,omitempty"`
		TopP                *float64       `json:"top_p,omitempty"`
		ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
		ResponseFormat      *chatFormat    `json:"response_format,omitempty"`
		Stream              bool           `json:"stream"`
		StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	}
	chatTool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	chatMessage struct {
		Role       string     `json:"role"`
		Content    any        `json:"content,omitempty"` // a string or []contentPart
		ToolCalls  []chatCall `json:"tool_calls,omitempty"`
		ToolCallID *string    `json:"tool_call_id,omitempty"`
	}
	chatCall struct {
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
	chatFormat struct {
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
func (m *chatModel) request(r agent.Request, usage bool) chatRequest {
	q := chatRequest{Model: m.name, Messages: m.conversation(r), Stream: true}
	for _, o := range r.Tools {
		q.Tools = append(q.Tools, chatTool{"function", function{o.Name, o.Description, withProperties(o.Schema)}})
	}
	if usage {
		q.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if limit := max(r.MaxOutputTokens, 0); m.own {
		q.MaxCompletionTokens = limit
	} else {
		q.MaxTokens = limit // all that most imitations know
	}
	q.Temperature, q.TopP = m.sampling(r)
	q.ReasoningEffort = m.thinks(r).openAI()
	if len(r.OutputSchema) > 0 {
		q.ResponseFormat = &chatFormat{"json_schema", outputSchema{"output", r.OutputSchema, strictSchema(r.OutputSchema)}}
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

func (m *chatModel) conversation(r agent.Request) []chatMessage {
	var list []chatMessage
	if r.System != "" {
		list = append(list, chatMessage{Role: "system", Content: r.System})
	}
	var images []contentPart // of the results so far, which can hold text alone
	for i, message := range r.Messages {
		switch message.Role {
		case agent.FromTool:
			text, seen := m.result(message, len(images)/2)
			list = append(list, chatMessage{Role: "tool", Content: text, ToolCallID: &message.CallID})
			for _, c := range seen {
				images = append(images,
					contentPart{Type: "text", Text: imageLabel(len(images)/2+1, message.CallID)},
					contentPart{Type: "image_url", ImageURL: &imageURL{dataURL(c)}})
			}
		case agent.Assistant:
			list = append(list, chatSaid(message))
		default:
			list = append(list, chatMessage{Role: "user", Content: message.Text})
		}
		// Nothing may stand between the results of one step.
		last := i == len(r.Messages)-1 || r.Messages[i+1].Role != agent.FromTool
		if last && len(images) > 0 {
			list = append(list, chatMessage{Role: "user", Content: images})
			images = nil
		}
	}
	return list
}

func chatSaid(message agent.Message) chatMessage {
	said := chatMessage{Role: "assistant"}
	if message.Text != "" || len(message.Calls) == 0 {
		said.Content = message.Text
	}
	for _, c := range message.Calls {
		said.ToolCalls = append(said.ToolCalls, chatCall{c.ID, "function", functionCall{sendableName(c.Name), sendable(c.Arguments)}})
	}
	return said
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
	within, _ := schema["anyOf"].([]any)
	within = slices.AppendSeq(slices.Clone(within), maps.Values(properties))
	if items, has := schema["items"]; has {
		within = append(within, items)
	}
	return !slices.ContainsFunc(within, func(s any) bool { return !strict(s) })
}

// chatAnswer assembles an answer from the chunks of the chat completions format.
type chatAnswer struct {
	common
	content, refusal, thought joiner
	refused                   bool
	reason                    string // "": none came
	calls                     []*callPieces
	usage                     *agent.Usage
}

// callPieces is a call as its pieces come.
type callPieces struct {
	index     *int // nil: the server does not number them
	id, name  string
	joiner    joiner
	arguments strings.Builder
}

type chatChunk struct {
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached     int64 `json:"cached_tokens"`
			CacheWrite int64 `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatChoice struct {
	Index int `json:"index"`
	Delta struct {
		Content   json.RawMessage `json:"content"`
		Refusal   json.RawMessage `json:"refusal"`
		Reasoning json.RawMessage `json:"reasoning_content"`
		Calls     []chatCallPiece `json:"tool_calls"`
		Function  *chatFunction   `json:"function_call"` // the form before tool_calls
	} `json:"delta"`
	Reason string `json:"finish_reason"`
}

type chatCallPiece struct {
	Index    *int         `json:"index"`
	ID       string       `json:"id"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func newChatAnswer(w *wire, emit func(agent.Delta)) *chatAnswer {
	return &chatAnswer{common: newCommon(w, emit)}
}

// take reads one chunk. The finish reason is not the end: usage comes after it.
func (a *chatAnswer) take(data []byte) (whole bool, err error) {
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		if a.reason == "" && len(a.calls) == 0 { // only calls need no reason
			return false, a.wire.protocol("the answer ended without a finish reason")
		}
		return true, nil
	}
	var c chatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, a.wire.protocol("a chunk cannot be read: %v", err)
	}
	if !isNull(c.Error) {
		return false, a.failed(c.Error)
	}
	a.model = cmp.Or(c.Model, a.model)
	if u := c.Usage; u != nil {
		a.usage = &agent.Usage{
			InputTokens:      u.Prompt, // cached ones included
			OutputTokens:     u.Completion,
			CacheReadTokens:  u.Details.Cached,
			CacheWriteTokens: u.Details.CacheWrite,
			ReasoningTokens:  u.OutputDetails.Reasoning,
		}
	}
	for _, choice := range c.Choices {
		if choice.Index == 0 { // one is all that is asked for
			if err := a.extend(choice); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

func (a *chatAnswer) extend(c chatChoice) error {
	for _, p := range []struct {
		joiner *joiner
		raw    json.RawMessage
		to     *speech
	}{
		{&a.thought, c.Delta.Reasoning, &a.reasoning},
		{&a.content, c.Delta.Content, &a.said},
		{&a.refusal, c.Delta.Refusal, &a.said},
	} {
		text, err := p.joiner.add(p.raw)
		if err != nil {
			return a.wire.protocol("%v", err)
		}
		a.refused = a.refused || p.joiner == &a.refusal && text != ""
		p.to.say(text)
	}
	if f := c.Delta.Function; f != nil {
		c.Delta.Calls = append(c.Delta.Calls, chatCallPiece{Index: new(int), Function: *f})
	}
	for _, piece := range c.Delta.Calls {
		if err := a.extendCall(piece); err != nil {
			return err
		}
	}
	a.reason = cmp.Or(c.Reason, a.reason)
	return nil
}

func (a *chatAnswer) extendCall(p chatCallPiece) error {
	call := a.call(p)
	call.id, call.name = cmp.Or(call.id, p.ID), cmp.Or(call.name, p.Function.Name)
	text, err := call.joiner.add(p.Function.Arguments)
	if err != nil {
		return a.wire.protocol("the arguments of a call: %v", err)
	}
	call.arguments.WriteString(text)
	return nil
}

// call finds the call that a piece belongs to: by its number; without one by its
// id, and without that it is the last one's.
func (a *chatAnswer) call(p chatCallPiece) *callPieces {
	for _, c := range a.calls {
		switch {
		case p.Index != nil && c.index != nil && *p.Index == *c.index,
			p.Index == nil && p.ID != "" && p.ID == c.id:
			return c
		}
	}
	if n := len(a.calls); p.Index == nil && p.ID == "" && n > 0 {
		return a.calls[n-1]
	}
	c := &callPieces{index: p.Index}
	a.calls = append(a.calls, c)
	return c
}

// ended accepts a stream that ends without the mark, once there was a reason.
func (a *chatAnswer) ended() error {
	if a.reason == "" {
		return a.wire.truncated("the stream ended without a finish reason")
	}
	return nil
}

// chatReasons are the finish reasons that are known. With calls it is for them that
// an answer stops.
var chatReasons = map[string]agent.Reason{
	"stop": agent.ReasonStop, "eos": agent.ReasonStop, "": agent.ReasonStop,
	"tool_calls": agent.ReasonToolCalls, "function_call": agent.ReasonToolCalls,
	"length":         agent.ReasonLength,
	"content_filter": agent.ReasonContentFilter,
}

func (a *chatAnswer) answer() (agent.Response, error) {
	a.reasoning.say(a.thought.end())
	a.said.say(a.content.end() + a.refusal.end())
	var calls []agent.Call
	for _, c := range a.calls {
		c.arguments.WriteString(c.joiner.end())
		calls = append(calls, agent.Call{ID: c.id, Name: c.name, Arguments: orEmpty(c.arguments.String())})
	}
	reason, known := chatReasons[a.reason]
	switch {
	case a.refused:
		reason = agent.ReasonContentFilter
	case !known:
		return agent.Response{}, a.wire.protocol("the finish reason %q is unknown", a.reason)
	}
	return a.settled(reason, calls, a.usage)
}

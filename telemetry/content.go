package telemetry

import (
	"encoding/base64"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// spanContent is an attribute that holds what was said, as JSON.
type spanContent struct {
	key   attribute.Key
	value json.RawMessage
}

// maxContent is how much one attribute may hold. What is larger is left out:
// collectors take requests of a few MiB, and half of a JSON value is none.
const maxContent = 256 << 10

// redacted makes attributes of content, without credentials.
func (d *drive) redacted(list []spanContent) (attributes []attribute.KeyValue) {
	for _, c := range list {
		value := []byte(c.value)
		if d.redact != nil {
			value = d.redact(value)
		}
		if len(value) <= maxContent {
			attributes = append(attributes, c.key.String(string(value)))
		}
	}
	return attributes
}

// requested are the parameters of a request.
func requested(r agent.Request) []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.GenAIRequestMaxTokens(r.MaxOutputTokens), semconv.GenAIRequestStream(true), semconv.GenAIAgentName(r.Agent)}
	if r.Temperature != nil {
		list = append(list, semconv.GenAIRequestTemperature(*r.Temperature))
	}
	if r.TopP != nil {
		list = append(list, semconv.GenAIRequestTopP(*r.TopP))
	}
	if r.OutputSchema != nil {
		list = append(list, semconv.GenAIOutputTypeJSON)
	}
	return list
}

// spanMessage is a message as the conventions write it.
type spanMessage struct {
	Role         string     `json:"role"`
	Parts        []spanPart `json:"parts"`
	FinishReason string     `json:"finish_reason,omitempty"` // of what a model has said
}

// spanPart is a part of one. Which members it has depends on the type.
type spanPart struct {
	Type      string          `json:"type"` // text, tool_call, tool_call_response, blob
	Content   *string         `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  any             `json:"response,omitempty"`
	Modality  string          `json:"modality,omitempty"`
	MimeType  string          `json:"mime_type,omitempty"`
}

func textPart(s string) spanPart { return spanPart{Type: "text", Content: &s} }

// requestContent is what a request says: instructions, messages and tools.
func requestContent(r agent.Request) []spanContent {
	messages := make([]spanMessage, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = spanMessage{Role: string(m.Role), Parts: partsOf(m)}
	}
	list := []spanContent{{semconv.GenAIInputMessagesKey, flow.JSON(messages)}}
	if r.System != "" {
		list = append(list, spanContent{semconv.GenAISystemInstructionsKey, flow.JSON([]spanPart{textPart(r.System)})})
	}
	if len(r.Tools) > 0 {
		tools := make([]spanTool, len(r.Tools))
		for i, o := range r.Tools {
			tools[i] = spanTool{Type: "function", Name: o.Name, Description: o.Description, Parameters: o.Schema}
		}
		list = append(list, spanContent{semconv.GenAIToolDefinitionsKey, flow.JSON(tools)})
	}
	return list
}

// answerContent is what a model said.
func answerContent(r agent.Response) []spanContent {
	m := spanMessage{Role: string(agent.Assistant), Parts: partsOf(agent.Message{Text: r.Text, Calls: r.Calls}), FinishReason: r.Reason}
	if r.Reason == agent.ReasonToolCalls {
		m.FinishReason = "tool_call" // as the conventions call it in messages
	}
	return []spanContent{{semconv.GenAIOutputMessagesKey, flow.JSON([]spanMessage{m})}}
}

func partsOf(m agent.Message) []spanPart {
	if m.Role == agent.FromTool {
		return []spanPart{{Type: "tool_call_response", ID: m.CallID, Response: contentParts(m.Content)}}
	}
	parts := []spanPart{}
	if m.Text != "" {
		parts = append(parts, textPart(m.Text))
	}
	for _, c := range m.Calls {
		part := spanPart{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: json.RawMessage(c.Arguments)}
		if !json.Valid(part.Arguments) {
			part.Arguments = flow.JSON(c.Arguments) // the text, which is none
		}
		parts = append(parts, part)
	}
	return parts
}

func contentParts(list []agent.Content) []spanPart {
	parts := make([]spanPart, len(list))
	for i, c := range list {
		if c.Type != agent.ContentImage {
			parts[i] = textPart(c.Text)
			continue
		}
		data := base64.StdEncoding.EncodeToString(c.Data)
		parts[i] = spanPart{Type: "blob", Modality: "image", MimeType: c.MimeType, Content: &data}
	}
	return parts
}

// spanTool is a tool as the conventions write it.
type spanTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

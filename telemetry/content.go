package telemetry

import (
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

// said makes attributes of content, without credentials; none unless content is wanted.
func (d *drive) said(list ...spanContent) (attributes []attribute.KeyValue) {
	if !d.content {
		return nil
	}
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

// object is a message, a part of one, or a tool, as the conventions write them.
type object = map[string]any

func textPart(s string) object { return object{"type": "text", "content": s} }

// requestContent is what a request says: instructions, messages and tools.
func requestContent(r agent.Request) []spanContent {
	messages := make([]object, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = object{"role": m.Role, "parts": partsOf(m)}
	}
	list := []spanContent{{semconv.GenAIInputMessagesKey, flow.JSON(messages)}}
	if r.System != "" {
		list = append(list, spanContent{semconv.GenAISystemInstructionsKey, flow.JSON([]object{textPart(r.System)})})
	}
	if len(r.Tools) > 0 {
		tools := make([]object, len(r.Tools))
		for i, o := range r.Tools {
			tools[i] = object{"type": "function", "name": o.Name, "description": o.Description, "parameters": o.Schema}
		}
		list = append(list, spanContent{semconv.GenAIToolDefinitionsKey, flow.JSON(tools)})
	}
	return list
}

// answerContent is what a model said.
func answerContent(r agent.Response) spanContent {
	reason := r.Reason
	if reason == agent.ReasonToolCalls {
		reason = "tool_call" // as the conventions call it in messages
	}
	m := object{"role": agent.Assistant, "parts": partsOf(agent.Message{Text: r.Text, Calls: r.Calls}), "finish_reason": reason}
	return spanContent{semconv.GenAIOutputMessagesKey, flow.JSON([]object{m})}
}

func partsOf(m agent.Message) []object {
	if m.Role == agent.FromTool {
		return []object{{"type": "tool_call_response", "id": m.CallID, "response": contentParts(m.Content)}}
	}
	parts := []object{}
	if m.Text != "" {
		parts = append(parts, textPart(m.Text))
	}
	for _, c := range m.Calls {
		arguments := json.RawMessage(c.Arguments)
		if !json.Valid(arguments) {
			arguments = flow.JSON(c.Arguments) // the text, which is none
		}
		parts = append(parts, object{"type": "tool_call", "id": c.ID, "name": c.Name, "arguments": arguments})
	}
	return parts
}

func contentParts(list []agent.Content) []object {
	parts := make([]object, len(list))
	for i, c := range list {
		parts[i] = textPart(c.Text)
		if c.Type == agent.ContentImage {
			parts[i] = object{"type": "blob", "modality": "image", "mime_type": c.MimeType, "content": c.Data}
		}
	}
	return parts
}

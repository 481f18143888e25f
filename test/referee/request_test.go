package vendor

import (
	"encoding/json"
	"fmt"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/agent"
)

var (
	texts   = rapid.OneOf(rapid.SampledFrom([]string{"", " ", "Hello", "<b>&amp;</b> \u2028", "x.y:z|*#@?"}), rapid.String())
	ids     = rapid.SampledFrom([]string{"", "call_1", "functions.df:0", "toolu_01", "ü", "a b"})
	names   = rapid.SampledFrom([]string{"ops__df", "made up!", "", "ü"})
	inputs  = rapid.SampledFrom([]string{"", "{}", `{"path":"/<>"}`, ` { "b" : [1, null] } `, "[]", "null", `{"cut`})
	schemas = rapid.SampledFrom([]string{
		`{"type":"object"}`, `{"type":"object","properties":{"path":{"type":"string","minLength":1}},"required":["path"],"additionalProperties":false}`,
		`{"$defs":{"a":{"type":"null"}},"properties":{},"type":"object","x-odd":"<"}`,
	})
	purposes = rapid.SampledFrom([]string{agent.PurposeTurn, agent.PurposeRouter})
)

// layouts are of answers with blocks of each vendor's own.
var layouts = map[string]string{
	"anthropic":   `{"block":{"type":"thinking","thinking":"hm <b>","signature":"s"}},{"text":2},{"call":true},{"block":{"type":"redacted_thinking","data":"x"}}`,
	"openai":      `{"block":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm <b>"}],"encrypted_content":"x"}},{"text":2,"phase":"commentary"},{"call":true}`,
	"openai-chat": ``,
	"gemini":      `{"block":{"text":"hm <b>","thought":true,"thoughtSignature":"cw=="}},{"text":2},{"call":true,"signature":"c2ln"}`,
}

// requests draws what a loop might ask a model.
func requests(provider, model string) *rapid.Generator[agent.Request] {
	return rapid.Custom(func(t *rapid.T) agent.Request {
		r := agent.Request{
			System: texts.Draw(t, "system"), MaxOutputTokens: rapid.IntRange(-1, 1000).Draw(t, "limit"), Purpose: purposes.Draw(t, "purpose"),
			Temperature: optional(t, "temperature"), TopP: optional(t, "top_p"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "tools") {
			r.Tools = append(r.Tools, agent.Offer{Name: "ops__df", Description: texts.Draw(t, "description"), Schema: json.RawMessage(schemas.Draw(t, "schema"))})
		}
		for range rapid.IntRange(0, 6).Draw(t, "messages") {
			r.Messages = append(r.Messages, message(t, provider, model))
		}
		if rapid.Bool().Draw(t, "structured") {
			r.OutputSchema = json.RawMessage(schemas.Draw(t, "output"))
		}
		return r
	})
}

func optional(t *rapid.T, name string) *float64 {
	if v := rapid.IntRange(-1, 10).Draw(t, name); v >= 0 {
		return new(float64(v) / 10)
	}
	return nil
}

func message(t *rapid.T, provider, model string) agent.Message {
	switch rapid.IntRange(0, 3).Draw(t, "role") {
	case 0:
		return agent.Message{Role: agent.User, Text: texts.Draw(t, "text")}
	case 1:
		m := agent.Message{Role: agent.Assistant, Text: texts.Draw(t, "text")}
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			m.Calls = append(m.Calls, agent.Call{ID: ids.Draw(t, "id"), Name: names.Draw(t, "name"), Arguments: inputs.Draw(t, "arguments")})
		}
		if rapid.Bool().Draw(t, "thoughtful") {
			m.Opaque = json.RawMessage(fmt.Sprintf(`{"provider":%q,"model":%q,"parts":[%s]}`, provider, model, layouts[provider]))
		}
		return m
	}
	m := agent.Message{Role: agent.FromTool, CallID: ids.Draw(t, "id"), IsError: rapid.Bool().Draw(t, "error")}
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		c := agent.Content{Type: agent.ContentText, Text: texts.Draw(t, "text")}
		if rapid.Bool().Draw(t, "image") {
			c = agent.Content{Type: agent.ContentImage, MimeType: "image/png", Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data")}
		}
		m.Content = append(m.Content, c)
	}
	return m
}

// story is a conversation with everything in it.
func story() agent.Request {
	return agent.Request{
		System: "Be brief.",
		Tools: []agent.Offer{
			{Name: "ops__df", Description: "Free space", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
			{Name: "ops__uptime", Schema: json.RawMessage(`{"type":"object"}`)},
		},
		Messages: []agent.Message{
			{Role: agent.User, Text: "Is the disk full?"},
			{Role: agent.Assistant, Text: "Let me look.", Calls: []agent.Call{
				{ID: "call_1", Name: "ops__df", Arguments: `{"path":"/"}`},
				{ID: "call_2", Name: "made up!", Arguments: `{"cut`},
			}},
			{Role: agent.FromTool, CallID: "call_1", Content: []agent.Content{
				{Type: agent.ContentText, Text: "97%"}, {Type: agent.ContentImage, MimeType: "image/png", Data: []byte("PNG")},
			}},
			{Role: agent.FromTool, CallID: "call_2", IsError: true, Content: []agent.Content{{Type: agent.ContentText, Text: "no such tool"}}},
			{Role: agent.User, Text: "Well?"},
		},
		Temperature: new(0.5), TopP: new(0.9), MaxOutputTokens: 1000, Purpose: agent.PurposeTurn,
	}
}

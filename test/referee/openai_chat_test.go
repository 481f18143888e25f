package vendor

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
)

// chatSends is what the SDK sends for these parameters.
func chatSends(t failer, s *vendorServer, p openai.ChatCompletionNewParams) sent {
	service := chatService(s)
	stream := service.NewStreaming(context.Background(), p)
	if err := stream.Err(); err != nil {
		t.Fatalf("%v", err)
	}
	_ = stream.Close()
	return s.request()
}

// chatStory is story in the words of the SDK.
func chatStory() openai.ChatCompletionNewParams {
	call := func(id, name, arguments string) openai.ChatCompletionMessageToolCallUnionParam {
		return openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
			ID: id, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: name, Arguments: arguments},
		}}
	}
	said := openai.AssistantMessage("Let me look.")
	said.OfAssistant.ToolCalls = []openai.ChatCompletionMessageToolCallUnionParam{call("call_1", "ops__df", `{"path":"/"}`), call("call_2", "made_up_", `{}`)}
	return openai.ChatCompletionNewParams{
		Model: gpt, MaxTokens: openai.Int(1000), Temperature: openai.Float(0.5), TopP: openai.Float(0.9),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		Tools: []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "ops__df", Description: openai.String("Free space"), Parameters: shared.FunctionParameters{
				"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}, "required": []string{"path"},
			}}),
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "ops__uptime", Parameters: shared.FunctionParameters{
				"type": "object", "properties": map[string]any{},
			}}),
		},
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("Be brief."),
			openai.UserMessage("Is the disk full?"),
			said,
			openai.ToolMessage("97%\n[image 1, below]", "call_1"),
			openai.ToolMessage("no such tool", "call_2"),
			openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart("[image 1, of call call_1]"),
				openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,UE5H"}),
			}),
			openai.UserMessage("Well?"),
		},
	}
}

func TestOpenAIsSDKSendsTheSameChat(t *testing.T) {
	s := serve(t, chatHello)
	plain := openai.ChatCompletionNewParams{
		Model: gpt, MaxTokens: openai.Int(100), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	unlimited, structured, empty := plain, plain, plain
	unlimited.MaxTokens = openai.ChatCompletionNewParams{}.MaxTokens
	structured.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
		Name: "output", Strict: openai.Bool(true), Schema: map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false},
	}}
	empty.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(""), openai.AssistantMessage(""), openai.ToolMessage("", "")}
	for _, c := range []struct {
		name   string
		theirs openai.ChatCompletionNewParams
		change func(*agent.Request)
	}{
		{"plain", plain, nil},
		{"no limit", unlimited, func(r *agent.Request) { r.MaxOutputTokens = 0 }},
		{"structured output", structured, func(r *agent.Request) {
			r.OutputSchema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
		}},
		{"nothing said", empty, func(r *agent.Request) {
			r.Messages = []agent.Message{{Role: agent.User}, {Role: agent.Assistant}, {Role: agent.FromTool}}
		}},
		{"all of it", chatStory(), func(r *agent.Request) { *r = story() }},
	} {
		theirs := chatSends(t, s, c.theirs)
		r := hello
		if c.change != nil {
			c.change(&r)
		}
		ask(t, open(t, s, provider.Config{Provider: provider.OpenAIChat, Model: gpt}), r)
		same(t, c.name, theirs, s.request())
	}
}

// As of Anthropic's: what the SDK does not know it loses.
func TestOpenAIsSDKKnowsWhatWeSendToChat(t *testing.T) {
	s := serve(t, chatHello)
	rapid.Check(t, func(t *rapid.T) {
		c := provider.Config{Provider: provider.OpenAIChat, Model: rapid.SampledFrom([]string{gpt, "gpt-5", "unknown"}).Draw(t, "model")}
		c.Thinking = rapid.SampledFrom([]string{"", "low", "high"}).Draw(t, "thinking")
		if c.Model == gpt { // does not think
			c.Thinking = ""
		}
		ask(t, open(t, s, c), requests(c.Provider, c.Model).Draw(t, "request"))
		ours := s.request()
		var p openai.ChatCompletionNewParams
		if err := json.Unmarshal(s.body(t), &p); err != nil {
			t.Fatalf("%v", err)
		}
		same(t, "decoded and sent again", chatSends(t, s, p), ours)
	})
}

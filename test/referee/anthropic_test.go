package vendor

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
)

// anthropicSends is what the SDK sends for these parameters.
func anthropicSends(t failer, s *vendorServer, p anthropic.MessageNewParams) sent {
	service := anthropicService(s)
	stream := service.NewStreaming(context.Background(), p)
	if err := stream.Err(); err != nil {
		t.Fatalf("%v", err)
	}
	_ = stream.Close()
	return s.request()
}

// anthropicStory is story in the words of the SDK.
func anthropicStory(mark anthropic.CacheControlEphemeralParam) anthropic.MessageNewParams {
	df := anthropic.ToolParam{Name: "ops__df", Description: anthropic.String("Free space"), InputSchema: anthropic.ToolInputSchemaParam{
		Properties: map[string]any{"path": map[string]any{"type": "string"}}, Required: []string{"path"},
	}}
	uptime := anthropic.ToolParam{Name: "ops__uptime", InputSchema: anthropic.ToolInputSchemaParam{Type: "object"}, CacheControl: mark}
	odd := anthropic.NewToolUseBlock("call_2", map[string]any{}, "made_up_")
	odd.OfToolUse.CacheControl = mark
	seen := anthropic.ToolResultBlockParam{ToolUseID: "call_1", Content: []anthropic.ToolResultBlockParamContentUnion{
		{OfText: &anthropic.TextBlockParam{Text: "97%"}}, {OfImage: anthropic.NewImageBlockBase64("image/png", "UE5H").OfImage},
	}}
	well := anthropic.NewTextBlock("Well?")
	well.OfText.CacheControl = mark
	return anthropic.MessageNewParams{
		Model: claude, MaxTokens: 1000, Temperature: anthropic.Float(0.5), TopP: anthropic.Float(0.9),
		System: []anthropic.TextBlockParam{{Text: "Be brief.", CacheControl: mark}},
		Tools:  []anthropic.ToolUnionParam{{OfTool: &df}, {OfTool: &uptime}},
		Messages: []anthropic.MessageParam{
			anthropic.NewUserMessage(anthropic.NewTextBlock("Is the disk full?")),
			anthropic.NewAssistantMessage(anthropic.NewTextBlock("Let me look."), anthropic.NewToolUseBlock("call_1", map[string]any{"path": "/"}, "ops__df"), odd),
			anthropic.NewUserMessage(anthropic.ContentBlockParamUnion{OfToolResult: &seen}, anthropic.NewToolResultBlock("call_2", "no such tool", true), well),
		},
	}
}

func TestAnthropicsSDKSendsTheSame(t *testing.T) {
	s := serve(t, anthropicHello)
	short, long := anthropic.NewCacheControlEphemeralParam(), anthropic.NewCacheControlEphemeralParam()
	long.TTL = anthropic.CacheControlEphemeralTTLTTL1h
	marked := anthropic.NewTextBlock("Hello")
	marked.OfText.CacheControl = short
	plain := anthropic.MessageNewParams{Model: claude, MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(marked)}}
	unlimited, structured, thoughtful := plain, plain, plain
	unlimited.MaxTokens = 8192
	structured.OutputConfig.Format.Schema = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	thoughtful.Messages = []anthropic.MessageParam{anthropic.NewAssistantMessage(anthropic.NewThinkingBlock("sig", "Hm."), anthropic.NewRedactedThinkingBlock("x"), marked)}
	off, hard, budget := plain, plain, plain
	off.Thinking = anthropic.ThinkingConfigParamUnion{OfDisabled: &anthropic.ThinkingConfigDisabledParam{}}
	hard.Model = adaptive
	hard.Thinking = anthropic.ThinkingConfigParamUnion{OfAdaptive: &anthropic.ThinkingConfigAdaptiveParam{Display: anthropic.ThinkingConfigAdaptiveDisplaySummarized}}
	hard.OutputConfig.Effort = anthropic.OutputConfigEffortHigh
	budget.MaxTokens = 9000
	budget.Thinking = anthropic.ThinkingConfigParamUnion{OfEnabled: &anthropic.ThinkingConfigEnabledParam{BudgetTokens: 2000, Display: anthropic.ThinkingConfigEnabledDisplaySummarized}}
	for _, c := range []struct {
		thinking, model string
		theirs          anthropic.MessageNewParams
		limit           int
	}{
		{"off", claude, off, 100}, {"high", adaptive, hard, 100}, {"2000", claude, budget, 9000},
	} {
		theirs := anthropicSends(t, s, c.theirs)
		r := hello
		r.MaxOutputTokens = c.limit
		ask(t, open(t, s, provider.Config{Provider: provider.Anthropic, Model: c.model, Thinking: c.thinking}), r)
		same(t, "thinking "+c.thinking, theirs, s.request())
	}
	for _, c := range []struct {
		name, cache string
		theirs      anthropic.MessageNewParams
		change      func(*agent.Request)
	}{
		{"plain", "", plain, nil},
		{"no limit", "", unlimited, func(r *agent.Request) { r.MaxOutputTokens = 0 }},
		{"structured output", "", structured, func(r *agent.Request) {
			r.OutputSchema = json.RawMessage(`{"type":"array","items":{"type":"string"}}`)
		}},
		{"reasoning", "", thoughtful, func(r *agent.Request) {
			r.Messages = []agent.Message{{Role: agent.Assistant, Text: "Hello", Opaque: json.RawMessage(
				`{"provider":"anthropic","model":"` + claude + `","parts":[{"block":{"type":"thinking","thinking":"Hm.","signature":"sig"}},{"block":{"type":"redacted_thinking","data":"x"}}]}`)}}
		}},
		{"all of it, not cached", provider.CacheOff, anthropicStory(anthropic.CacheControlEphemeralParam{}), func(r *agent.Request) { *r = story() }},
		{"all of it, cached", provider.CacheShort, anthropicStory(short), func(r *agent.Request) { *r = story() }},
		{"all of it, cached for long", provider.CacheLong, anthropicStory(long), func(r *agent.Request) { *r = story() }},
	} {
		theirs := anthropicSends(t, s, c.theirs)
		r := hello
		if c.change != nil {
			c.change(&r)
		}
		ask(t, open(t, s, provider.Config{Provider: provider.Anthropic, Model: claude, Cache: c.cache}), r)
		same(t, c.name, theirs, s.request())
	}
}

// Whatever is asked, the SDK knows every member of what we send, and would send the
// same: what it does not know it loses.
func TestAnthropicsSDKKnowsWhatWeSend(t *testing.T) {
	s := serve(t, anthropicHello)
	rapid.Check(t, func(t *rapid.T) {
		c := provider.Config{Provider: provider.Anthropic, Model: rapid.SampledFrom([]string{claude, "claude-opus-5", "unknown"}).Draw(t, "model")}
		c.Cache = rapid.SampledFrom([]string{"", provider.CacheOff, provider.CacheLong}).Draw(t, "cache")
		c.Thinking = rapid.SampledFrom([]string{"", "off", "low", "high"}).Draw(t, "thinking")
		ask(t, open(t, s, c), requests(c.Provider, c.Model).Draw(t, "request"))
		ours := s.request()
		var p anthropic.MessageNewParams
		if err := json.Unmarshal(s.body(t), &p); err != nil {
			t.Fatalf("%v", err)
		}
		same(t, "decoded and sent again", anthropicSends(t, s, p), ours)
	})
}

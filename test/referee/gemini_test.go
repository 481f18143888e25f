package vendor

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
)

// geminiSends is what the SDK sends for these parameters. It does not say what it
// accepts, as we do to every vendor, and sends a configuration that holds nothing.
func geminiSends(t failer, s *vendorServer, model string, contents []*genai.Content, config *genai.GenerateContentConfig) sent {
	for _, err := range geminiService(t, s).GenerateContentStream(context.Background(), model, contents, config) {
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	got := s.request()
	got.Head["Accept"] = "application/json"
	body := got.Body.(map[string]any)
	if config, ok := body["generationConfig"].(map[string]any); ok && len(config) == 0 {
		delete(body, "generationConfig")
	}
	return got
}

// geminiStory is story in the words of the SDK.
func geminiStory() ([]*genai.Content, *genai.GenerateContentConfig) {
	call := func(id, name string, args map[string]any) *genai.Part {
		return &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: name, Args: args}}
	}
	seen := &genai.FunctionResponse{ID: "call_1", Name: "ops__df", Response: map[string]any{"output": "97%\n[image 1, below]"},
		Parts: []*genai.FunctionResponsePart{{InlineData: &genai.FunctionResponseBlob{MIMEType: "image/png", Data: []byte("PNG")}}}}
	return []*genai.Content{
			genai.NewContentFromText("Is the disk full?", genai.RoleUser),
			{Role: genai.RoleModel, Parts: []*genai.Part{genai.NewPartFromText("Let me look."), call("call_1", "ops__df", map[string]any{"path": "/"}), call("call_2", "made_up_", nil)}},
			{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: seen},
				{FunctionResponse: &genai.FunctionResponse{ID: "call_2", Name: "made_up_", Response: map[string]any{"error": "no such tool"}}}}},
			genai.NewContentFromText("Well?", genai.RoleUser),
		}, &genai.GenerateContentConfig{
			SystemInstruction: &genai.Content{Parts: []*genai.Part{genai.NewPartFromText("Be brief.")}},
			MaxOutputTokens:   1000, Temperature: genai.Ptr[float32](0.5), TopP: genai.Ptr[float32](0.9),
			Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
				{Name: "ops__df", Description: "Free space", ParametersJsonSchema: map[string]any{
					"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}, "required": []string{"path"},
				}},
				{Name: "ops__uptime", ParametersJsonSchema: map[string]any{"type": "object"}},
			}}},
		}
}

func TestGeminisSDKSendsTheSame(t *testing.T) {
	s := serve(t, geminiHello)
	say := []*genai.Content{genai.NewContentFromText("Hello", genai.RoleUser)}
	signed := append(say[:1:1], &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{Text: "Hi."},
		{FunctionCall: &genai.FunctionCall{ID: "c", Name: "n", Args: map[string]any{"a": 1}}, ThoughtSignature: []byte("sig")}}})
	told, config := geminiStory()
	limited := func(c genai.GenerateContentConfig) *genai.GenerateContentConfig {
		c.MaxOutputTokens = 100
		return &c
	}
	for _, c := range []struct {
		name, model, thinking string
		contents              []*genai.Content
		config                *genai.GenerateContentConfig
		change                func(*agent.Request)
	}{
		{"plain", gemini, "", say, limited(genai.GenerateContentConfig{}), nil},
		{"no limit", gemini, "", say, nil, func(r *agent.Request) { r.MaxOutputTokens = 0 }},
		{"structured output", gemini, "", say, limited(genai.GenerateContentConfig{ResponseMIMEType: "application/json", ResponseJsonSchema: map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}), func(r *agent.Request) {
			r.OutputSchema = json.RawMessage(`{"type":"array","items":{"type":"string"}}`)
		}},
		{"a level of thinking", gemini, "high", say, limited(genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{IncludeThoughts: true, ThinkingLevel: genai.ThinkingLevelHigh}}), nil},
		{"a budget", "gemini-2.5-flash", "50", say, limited(genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: genai.Ptr[int32](50)}}), nil},
		{"no thinking", "gemini-2.5-flash", "off", say, limited(genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{ThinkingBudget: genai.Ptr[int32](0)}}), nil},
		{"a signature", gemini, "", signed, limited(genai.GenerateContentConfig{}), func(r *agent.Request) {
			r.Messages = append(r.Messages[:1:1], agent.Message{Role: agent.Assistant, Text: "Hi.", Calls: []agent.Call{{ID: "c", Name: "n", Arguments: `{"a":1}`}}, Opaque: json.RawMessage(
				`{"provider":"gemini","model":"` + gemini + `","parts":[{"text":3},{"call":true,"signature":"c2ln"}]}`)})
		}},
		{"all of it", gemini, "", told, config, func(r *agent.Request) { *r = story() }},
	} {
		theirs := geminiSends(t, s, c.model, c.contents, c.config)
		r := hello
		if c.change != nil {
			c.change(&r)
		}
		ask(t, open(t, s, provider.Config{Provider: provider.Gemini, Model: c.model, Thinking: c.thinking}), r)
		same(t, c.name, theirs, s.request())
	}
}

// As of Anthropic's: what the SDK does not know it loses.
func TestGeminisSDKKnowsWhatWeSend(t *testing.T) {
	s := serve(t, geminiHello)
	rapid.Check(t, func(t *rapid.T) {
		c := provider.Config{Provider: provider.Gemini, Model: rapid.SampledFrom([]string{gemini, "gemini-2.5-flash", "unknown"}).Draw(t, "model")}
		c.Thinking = rapid.SampledFrom([]string{"", "low", "high"}).Draw(t, "thinking")
		ask(t, open(t, s, c), requests(c.Provider, c.Model).Draw(t, "request"))
		ours := s.request()
		var p struct {
			Contents          []*genai.Content
			SystemInstruction *genai.Content
			Tools             []*genai.Tool
			GenerationConfig  genai.GenerateContentConfig
		}
		if err := json.Unmarshal(s.body(t), &p); err != nil {
			t.Fatalf("%v", err)
		}
		if len(p.Contents) == 0 {
			return // which the SDK refuses to send
		}
		p.GenerationConfig.SystemInstruction, p.GenerationConfig.Tools = p.SystemInstruction, p.Tools
		same(t, "decoded and sent again", geminiSends(t, s, c.Model, p.Contents, &p.GenerationConfig), ours)
	})
}

func geminiChunk(parts, reason string) string {
	return `data: {"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},` + reason + `"index":0}],"usageMetadata":{"promptTokenCount":25,"cachedContentTokenCount":5,"candidatesTokenCount":8,"thoughtsTokenCount":7,"totalTokenCount":40},"modelVersion":"gemini-3.8-flash","responseId":"r"}` + "\r\n\r\n"
}

var geminiHello = geminiChunk(`{"text":"Hm.","thought":true}`, "") + geminiChunk(`{"text":"Good "}`, "") + geminiChunk(`{"text":"morning 😀."}`, "") + geminiChunk(`{"text":"","thoughtSignature":"c2ln"}`, `"finishReason":"STOP",`)

func TestGeminisOwnReaderAgrees(t *testing.T) {
	for name, body := range map[string]string{
		"text": geminiHello,
		"calls": geminiChunk(`{"text":"Let me look."}`, "") + geminiChunk(`{"functionCall":{"id":"a","name":"ops__df","args":{"path":"/"}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"ops__uptime"}}`, "") +
			geminiChunk("", `"finishReason":"STOP",`),
	} {
		s := serve(t, body)
		var want agent.Response
		var thought string
		var usage *genai.GenerateContentResponseUsageMetadata
		for r, err := range geminiService(t, s).GenerateContentStream(context.Background(), gemini, []*genai.Content{genai.NewContentFromText("Hello", genai.RoleUser)}, nil) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			usage = r.UsageMetadata
			for _, p := range r.Candidates[0].Content.Parts {
				switch {
				case p.Thought:
					thought += p.Text
				case p.FunctionCall != nil:
					args := "{}"
					if p.FunctionCall.Args != nil {
						raw, _ := json.Marshal(p.FunctionCall.Args)
						args = string(raw)
					}
					want.Calls = append(want.Calls, agent.Call{ID: p.FunctionCall.ID, Name: p.FunctionCall.Name, Arguments: args})
				default:
					want.Text += p.Text
				}
			}
		}
		var shown string
		ours, err := open(t, s, provider.Config{Provider: provider.Gemini, Model: gemini}).Stream(context.Background(), hello, func(d agent.Delta) {
			if d.Channel == agent.ChannelReasoning {
				shown += d.Text
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, agent.Response{Text: ours.Text, Calls: ours.Calls}); diff != "" || shown != thought {
			t.Errorf("%s: thought %q, they %q (-theirs +ours):\n%s", name, shown, thought, diff)
		}
		if u := ours.Usage; u.InputTokens != int64(usage.PromptTokenCount) || u.OutputTokens != int64(usage.CandidatesTokenCount+usage.ThoughtsTokenCount) || u.TotalTokens != int64(usage.TotalTokenCount) || u.CacheReadTokens != int64(usage.CachedContentTokenCount) {
			t.Errorf("%s: we count %+v, they %+v", name, *u, *usage)
		}
	}
}

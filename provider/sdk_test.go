package provider

import (
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"github.com/tipstaff/tipstaff/agent"
)

// The vendors' own SDKs put the same streams together and come to the same: what
// these tests take for the format is not only what our reader does.

func TestAnthropicsOwnReaderAgrees(t *testing.T) {
	for name, body := range map[string]string{
		"text": anthropicText(`"Good "`, `"morning`+smile+`."`),
		"calls": anthropicStart + block("0", `{"type":"text","text":""}`, `{"type":"text_delta","text":"Let me look."}`) +
			block("1", `{"type":"tool_use","id":"toolu_01","name":"ops__df","input":{}}`,
				`{"type":"input_json_delta","partial_json":"{\"path\":"}`, `{"type":"input_json_delta","partial_json":" \"/\"}"}`) +
			block("2", `{"type":"tool_use","id":"toolu_02","name":"ops__uptime","input":{}}`, `{"type":"input_json_delta","partial_json":"{}"}`) +
			anthropicEnd(`"tool_use"`),
	} {
		s := serve(t, events(body))
		client := anthropic.NewClient(anthropicoption.WithBaseURL(s.URL), anthropicoption.WithAPIKey(testKey), anthropicoption.WithMaxRetries(0))
		stream := client.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
			Model: anthropic.Model(claude.model), MaxTokens: 100,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
		})
		var theirs anthropic.Message
		for stream.Next() {
			if err := theirs.Accumulate(stream.Current()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want agent.Response
		for _, b := range theirs.Content {
			switch b.Type {
			case "text":
				want.Text += b.Text
			case "tool_use":
				want.Calls = append(want.Calls, agent.Call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
			}
		}
		ours := ask(t, claude.open(t, s), hello)
		if ours.err != nil {
			t.Fatalf("%s: %v", name, ours.err)
		}
		if diff := cmp.Diff(want, agent.Response{Text: ours.Text, Calls: ours.Calls}); diff != "" {
			t.Errorf("%s (-theirs +ours):\n%s", name, diff)
		}
		if u := theirs.Usage; ours.Usage.OutputTokens != u.OutputTokens || ours.Usage.InputTokens != u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens {
			t.Errorf("%s: we count %+v, they %+v", name, *ours.Usage, u)
		}
	}
}

func TestOpenAIsOwnReaderAgrees(t *testing.T) {
	for name, body := range map[string]string{
		"text": openAIText(`"Good "`, `"morning`+smile+`."`),
		"calls": chunks(`"tool_calls"`, `{"role":"assistant","content":null}`,
			`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"ops__df","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":" \"/\"}"}}]}`,
			`{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"ops__uptime","arguments":"{}"}}]}`) + openAIUsage + openAIDone,
	} {
		s := serve(t, events(body))
		client := openai.NewClient(openaioption.WithBaseURL(s.URL), openaioption.WithAPIKey(testKey), openaioption.WithMaxRetries(0))
		stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
			Model: gpt.model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
		})
		var theirs openai.ChatCompletionAccumulator
		for stream.Next() {
			if !theirs.AddChunk(stream.Current()) {
				t.Fatalf("%s: a chunk does not belong to the others", name)
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		message := theirs.Choices[0].Message
		want := agent.Response{Text: message.Content}
		for _, c := range message.ToolCalls {
			want.Calls = append(want.Calls, agent.Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		ours := ask(t, gpt.open(t, s), hello)
		if ours.err != nil {
			t.Fatalf("%s: %v", name, ours.err)
		}
		if diff := cmp.Diff(want, agent.Response{Text: ours.Text, Calls: ours.Calls}); diff != "" {
			t.Errorf("%s (-theirs +ours):\n%s", name, diff)
		}
		if u := theirs.Usage; ours.Usage.InputTokens != u.PromptTokens || ours.Usage.OutputTokens != u.CompletionTokens {
			t.Errorf("%s: we count %+v, they %+v", name, *ours.Usage, u)
		}
		if theirs.Choices[0].FinishReason != string(ours.Reason) {
			t.Errorf("%s: they end with %s, we with %s", name, theirs.Choices[0].FinishReason, ours.Reason)
		}
	}
}

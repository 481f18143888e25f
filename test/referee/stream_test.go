package vendor

import (
	"context"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
)

var hello = agent.Request{Messages: []agent.Message{{Role: agent.User, Text: "Hello"}}, MaxOutputTokens: 100, Purpose: agent.PurposeTurn}

func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func block(index, start string, deltas ...string) string {
	body := event("content_block_start", `{"type":"content_block_start","index":`+index+`,"content_block":`+start+`}`)
	for _, d := range deltas {
		body += event("content_block_delta", `{"type":"content_block_delta","index":`+index+`,"delta":`+d+`}`)
	}
	return body + event("content_block_stop", `{"type":"content_block_stop","index":`+index+`}`)
}

func anthropicStream(reason, blocks string) string {
	return event("message_start", `{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1003,"cache_creation_input_tokens":5001,"cache_read_input_tokens":20007,"output_tokens":2}}}`) +
		event("ping", `{"type": "ping"}`) + blocks +
		event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":{"output_tokens":501}}`) +
		event("message_stop", `{"type":"message_stop"}`)
}

var anthropicHello = anthropicStream("end_turn", block("0", `{"type":"text","text":""}`, `{"type":"text_delta","text":"Good "}`, `{"type":"text_delta","text":"morning 😀."}`))

func chunk(delta, reason string) string {
	return `data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4.1-2025-04-14","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + reason + "}],\"usage\":null}\n\n"
}

func chatStream(reason string, deltas ...string) (body string) {
	for _, d := range deltas {
		body += chunk(d, "null")
	}
	return body + chunk(`{}`, `"`+reason+`"`) +
		`data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4.1-2025-04-14","choices":[],"usage":{"prompt_tokens":25,"completion_tokens":15,"total_tokens":40}}` + "\n\ndata: [DONE]\n\n"
}

var chatHello = chatStream("stop", `{"role":"assistant","content":"","refusal":null}`, `{"content":"Good "}`, `{"content":"morning 😀."}`)

func TestAnthropicsOwnReaderAgrees(t *testing.T) {
	for name, body := range map[string]string{
		"text": anthropicHello,
		"calls": anthropicStream("tool_use", block("0", `{"type":"text","text":""}`, `{"type":"text_delta","text":"Let me look."}`)+
			block("1", `{"type":"tool_use","id":"toolu_01","name":"ops__df","input":{}}`,
				`{"type":"input_json_delta","partial_json":"{\"path\":"}`, `{"type":"input_json_delta","partial_json":" \"/\"}"}`)+
			block("2", `{"type":"tool_use","id":"toolu_02","name":"ops__uptime","input":{}}`, `{"type":"input_json_delta","partial_json":"{}"}`)),
	} {
		s := serve(t, body)
		service := anthropicService(s)
		stream := service.NewStreaming(context.Background(), anthropic.MessageNewParams{
			Model: claude, MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
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
		ours := ask(t, open(t, s, provider.Config{Provider: provider.Anthropic, Model: claude}), hello)
		if diff := cmp.Diff(want, agent.Response{Text: ours.Text, Calls: ours.Calls}); diff != "" {
			t.Errorf("%s (-theirs +ours):\n%s", name, diff)
		}
		if u := theirs.Usage; ours.Usage.OutputTokens != u.OutputTokens || ours.Usage.InputTokens != u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens {
			t.Errorf("%s: we count %+v, they %+v", name, *ours.Usage, u)
		}
	}
}

func TestOpenAIsOwnReaderAgreesOnChat(t *testing.T) {
	for name, body := range map[string]string{
		"text": chatHello,
		"calls": chatStream("tool_calls", `{"role":"assistant","content":null}`,
			`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"ops__df","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":" \"/\"}"}}]}`,
			`{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"ops__uptime","arguments":"{}"}}]}`),
	} {
		s := serve(t, body)
		service := chatService(s)
		stream := service.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
			Model: gpt, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
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
		ours := ask(t, open(t, s, provider.Config{Provider: provider.OpenAIChat, Model: gpt}), hello)
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

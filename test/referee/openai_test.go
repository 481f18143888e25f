package vendor

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
)

// openAISends is what the SDK sends for these parameters.
func openAISends(t failer, s *vendorServer, p responses.ResponseNewParams) sent {
	service := openAIService(s)
	stream := service.NewStreaming(context.Background(), p)
	if err := stream.Err(); err != nil {
		t.Fatalf("%v", err)
	}
	_ = stream.Close()
	return s.request()
}

type items = responses.ResponseInputParam

func saidBy(role responses.EasyInputMessageRole, text string) responses.ResponseInputItemUnionParam {
	message := responses.ResponseInputItemParamOfMessage(text, role)
	message.OfMessage.Type = responses.EasyInputMessageTypeMessage // without it the SDK cannot read again what it has sent
	return message
}

func resultOf(call string, output responses.ResponseInputItemFunctionCallOutputOutputUnionParam) responses.ResponseInputItemUnionParam {
	return responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{CallID: openai.String(call), Output: output}}
}

// openAIStory is story in the words of the SDK.
func openAIStory() responses.ResponseNewParams {
	tool := func(f responses.FunctionToolParam) responses.ToolUnionParam {
		f.Strict = openai.Bool(false)
		return responses.ToolUnionParam{OfFunction: &f}
	}
	seen := responses.ResponseFunctionCallOutputItemListParam{
		{OfInputText: &responses.ResponseInputTextContentParam{Text: "97%\n[image 1, below]"}},
		{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: openai.String("data:image/png;base64,UE5H")}},
	}
	return responses.ResponseNewParams{
		Model: gpt, Instructions: openai.String("Be brief."), MaxOutputTokens: openai.Int(1000), Temperature: openai.Float(0.5), TopP: openai.Float(0.9), Store: openai.Bool(false),
		Tools: []responses.ToolUnionParam{
			tool(responses.FunctionToolParam{Name: "ops__df", Description: openai.String("Free space"), Parameters: map[string]any{
				"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}, "required": []string{"path"},
			}}),
			tool(responses.FunctionToolParam{Name: "ops__uptime", Parameters: map[string]any{"type": "object", "properties": map[string]any{}}}),
		},
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: items{
			saidBy(responses.EasyInputMessageRoleUser, "Is the disk full?"),
			saidBy(responses.EasyInputMessageRoleAssistant, "Let me look."),
			responses.ResponseInputItemParamOfFunctionCall(`{"path":"/"}`, "call_1", "ops__df"),
			responses.ResponseInputItemParamOfFunctionCall(`{}`, "call_2", "made_up_"),
			resultOf("call_1", responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfResponseFunctionCallOutputItemArray: seen}),
			resultOf("call_2", responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("no such tool")}),
			saidBy(responses.EasyInputMessageRoleUser, "Well?"),
		}},
	}
}

func TestOpenAIsSDKSendsTheSame(t *testing.T) {
	s := serve(t, openAIHello)
	plain := responses.ResponseNewParams{Model: gpt, MaxOutputTokens: openai.Int(100), Store: openai.Bool(false),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: items{saidBy(responses.EasyInputMessageRoleUser, "Hello")}}}
	unlimited, structured, thoughtful, mindless := plain, plain, plain, plain
	unlimited.MaxOutputTokens = responses.ResponseNewParams{}.MaxOutputTokens
	structured.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
		Name: "output", Strict: openai.Bool(true), Schema: map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false},
	}
	thoughtful.Model, thoughtful.Include = reasoner, []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	thoughtful.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortHigh, Summary: shared.ReasoningSummaryAuto}
	answer := saidBy(responses.EasyInputMessageRoleAssistant, "Hi.")
	answer.OfMessage.Phase = responses.EasyInputMessagePhaseFinalAnswer
	thoughtful.Input.OfInputItemList = append(thoughtful.Input.OfInputItemList[:1:1], responses.ResponseInputItemUnionParam{OfReasoning: &responses.ResponseReasoningItemParam{
		ID: "rs_1", Summary: []responses.ResponseReasoningItemSummaryParam{{Text: "Hm."}}, EncryptedContent: openai.String("gAAA"),
	}}, answer)
	mindless.Model, mindless.Include, mindless.Reasoning = "gpt-6.1-terra", thoughtful.Include, shared.ReasoningParam{Effort: shared.ReasoningEffortNone}
	for _, c := range []struct {
		name, model, thinking string
		theirs                responses.ResponseNewParams
		change                func(*agent.Request)
	}{
		{"plain", gpt, "", plain, nil},
		{"no limit", gpt, "", unlimited, func(r *agent.Request) { r.MaxOutputTokens = 0 }},
		{"structured output", gpt, "", structured, func(r *agent.Request) {
			r.OutputSchema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
		}},
		{"reasoning", reasoner, "high", thoughtful, func(r *agent.Request) {
			r.Messages = append(r.Messages[:1:1], agent.Message{Role: agent.Assistant, Text: "Hi.", Opaque: json.RawMessage(
				`{"provider":"openai","model":"` + reasoner + `","parts":[{"block":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gAAA"}},{"text":3,"phase":"final_answer"}]}`)})
		}},
		{"no reasoning", "gpt-6.1-terra", "off", mindless, nil},
		{"all of it", gpt, "", openAIStory(), func(r *agent.Request) { *r = story() }},
	} {
		theirs := openAISends(t, s, c.theirs)
		r := hello
		if c.change != nil {
			c.change(&r)
		}
		ask(t, open(t, s, provider.Config{Provider: provider.OpenAI, Model: c.model, Thinking: c.thinking}), r)
		same(t, c.name, theirs, s.request())
	}
}

// As of Anthropic's: what the SDK does not know it loses.
func TestOpenAIsSDKKnowsWhatWeSend(t *testing.T) {
	s := serve(t, openAIHello)
	rapid.Check(t, func(t *rapid.T) {
		c := provider.Config{Provider: provider.OpenAI, Model: rapid.SampledFrom([]string{reasoner, "gpt-6-sol", "unknown"}).Draw(t, "model")}
		c.Thinking = rapid.SampledFrom([]string{"", "low", "high"}).Draw(t, "thinking")
		ask(t, open(t, s, c), requests(c.Provider, c.Model).Draw(t, "request"))
		ours := s.request()
		var p responses.ResponseNewParams
		if err := json.Unmarshal(s.body(t), &p); err != nil {
			t.Fatalf("%v", err)
		}
		same(t, "decoded and sent again", openAISends(t, s, p), ours)
	})
}

// openAIStream is a response with these items, as they end, and the deltas of the last.
func openAIStream(added, deltas, items string) string {
	response := func(status, output, usage string) string {
		return `"response":{"id":"resp_1","object":"response","created_at":1694268190,"status":"` + status + `","error":null,"incomplete_details":null,"model":"gpt-4.1-2025-04-14","output":[` + output + `],"usage":` + usage + `}}`
	}
	return event("response.created", `{"type":"response.created","sequence_number":0,`+response("in_progress", "", "null")) + added + deltas +
		event("response.completed", `{"type":"response.completed","sequence_number":90,`+response("completed", items, `{"input_tokens":25,"input_tokens_details":{"cached_tokens":5,"cache_write_tokens":0},"output_tokens":15,"output_tokens_details":{"reasoning_tokens":7},"total_tokens":40}`))
}

const openAIText = `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Good morning 😀.","annotations":[]}]}`

var openAIHello = openAIStream(
	event("response.output_item.added", `{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}`)+
		event("response.content_part.added", `{"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`),
	event("response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Good ","logprobs":[]}`)+
		event("response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"morning 😀.","logprobs":[]}`)+
		event("response.output_item.done", `{"type":"response.output_item.done","sequence_number":5,"output_index":0,"item":`+openAIText+`}`),
	openAIText)

func TestOpenAIsOwnReaderAgrees(t *testing.T) {
	const call = `{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_a","name":"ops__df","arguments":"{\"path\": \"/\"}"}`
	for name, body := range map[string]string{
		"text": openAIHello,
		"calls": openAIStream(event("response.output_item.added", `{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_a","name":"ops__df","arguments":""}}`),
			event("response.function_call_arguments.delta", `{"type":"response.function_call_arguments.delta","sequence_number":2,"item_id":"fc_1","output_index":0,"delta":"{\"path\":"}`)+
				event("response.function_call_arguments.delta", `{"type":"response.function_call_arguments.delta","sequence_number":3,"item_id":"fc_1","output_index":0,"delta":" \"/\"}"}`)+
				event("response.output_item.done", `{"type":"response.output_item.done","sequence_number":4,"output_index":0,"item":`+call+`}`), call),
	} {
		s := serve(t, body)
		service := openAIService(s)
		stream := service.NewStreaming(context.Background(), responses.ResponseNewParams{Model: gpt, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello")}})
		var theirs responses.Response
		var text, arguments string
		for stream.Next() {
			switch e := stream.Current(); e.Type {
			case "response.output_text.delta":
				text += e.Delta
			case "response.function_call_arguments.delta":
				arguments += e.Delta
			case "response.completed":
				theirs = e.Response
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := agent.Response{Text: theirs.OutputText()}
		for _, item := range theirs.Output {
			if item.Type == "function_call" {
				want.Calls = append(want.Calls, agent.Call{ID: item.CallID, Name: item.Name, Arguments: arguments})
			}
		}
		ours := ask(t, open(t, s, provider.Config{Provider: provider.OpenAI, Model: gpt}), hello)
		if diff := cmp.Diff(want, agent.Response{Text: ours.Text, Calls: ours.Calls}); diff != "" || text != ours.Text {
			t.Errorf("%s (-theirs +ours):\n%s", name, diff)
		}
		if u := theirs.Usage; ours.Usage.InputTokens != u.InputTokens || ours.Usage.OutputTokens != u.OutputTokens || ours.Usage.CacheReadTokens != u.InputTokensDetails.CachedTokens || ours.Usage.ReasoningTokens != u.OutputTokensDetails.ReasoningTokens {
			t.Errorf("%s: we count %+v, they %+v", name, *ours.Usage, u)
		}
	}
}

package provider

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
)

var (
	responses   = vendors[2]
	reasoner    = vendor{provider: OpenAI, model: "gpt-6.1-sol"}
	reasoning   = `{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAA<b>","summary":[{"type":"summary_text","text":"**Looking**"},{"type":"summary_text","text":"Where?"}]}`
	openAIThink = openAIEventOf("response.created", `"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-6.1-sol-2026-09-29","output":[]}`) +
		openAIEventOf("response.in_progress", `"response":{"id":"resp_1","status":"in_progress"}`) +
		openAIEventOf("response.output_item.added", `"output_index":0,"item":{"id":"rs_1","type":"reasoning","encrypted_content":"gAA","summary":[]}`) +
		openAIEventOf("response.reasoning_summary_part.added", `"item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}`) +
		openAIEventOf("response.reasoning_summary_text.delta", `"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"**Look"`) +
		openAIEventOf("response.reasoning_summary_text.delta", `"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"ing**"`) +
		openAIEventOf("response.reasoning_summary_text.done", `"item_id":"rs_1","output_index":0,"summary_index":0,"text":"**Looking**"`) +
		openAIEventOf("response.reasoning_summary_text.delta", `"item_id":"rs_1","output_index":0,"summary_index":1,"delta":"Where?"`) +
		openAIEventOf("response.output_item.done", `"output_index":0,"item":`+reasoning)
)

func openAIMessage(index, phase string, deltas ...string) string {
	body := openAIEventOf("response.output_item.added", `"output_index":`+index+`,"item":{"id":"msg_`+index+`","type":"message","status":"in_progress","content":[],"role":"assistant","phase":`+phase+`}`)
	for _, d := range deltas {
		body += openAIEventOf("response.output_text.delta", `"item_id":"msg_`+index+`","output_index":`+index+`,"content_index":0,"delta":`+d)
	}
	return body + openAIEventOf("response.output_item.done", `"output_index":`+index+`,"item":{"id":"msg_`+index+`","type":"message","status":"completed","content":[{"type":"output_text","text":"x"}],"role":"assistant","phase":`+phase+`}`)
}

func openAICall(index, id, name, whole string, deltas ...string) string {
	body := openAIEventOf("response.output_item.added", `"output_index":`+index+`,"item":{"id":"fc_`+index+`","type":"function_call","status":"in_progress","arguments":"","call_id":"`+id+`","name":"`+name+`"}`)
	for _, d := range deltas {
		body += openAIEventOf("response.function_call_arguments.delta", `"item_id":"fc_`+index+`","output_index":`+index+`,"delta":`+d)
	}
	return body + openAIEventOf("response.function_call_arguments.done", `"item_id":"fc_`+index+`","output_index":`+index+`,"arguments":`+whole) +
		openAIEventOf("response.output_item.done", `"output_index":`+index+`,"item":{"id":"fc_`+index+`","type":"function_call","status":"completed","arguments":`+whole+`,"call_id":"`+id+`","name":"`+name+`"}`)
}

// openAIRecorded thinks, says something, calls two tools, and says something else.
var openAIRecorded = openAIThink + openAIMessage("1", `"commentary"`, `"Let me \ud83d"`, `"\ude00 look."`) +
	openAICall("2", "call_a", "ops__df", `"{\"path\":\"/\"}"`, `"{\"pa"`, `"th\":\"/\"}"`) +
	openAICall("3", "call_b", "ops__uptime", `""`) +
	openAIMessage("4", `"final_answer"`, `"So."`) +
	openAIEventOf("response.completed", `"response":{"id":"resp_1","status":"completed","model":"gpt-6.1-sol-2026-09-29","incomplete_details":null,"error":null,"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":600,"cache_write_tokens":100},"output_tokens":200,"output_tokens_details":{"reasoning_tokens":150},"total_tokens":1200}}`)

func TestOpenAIReasoningTextAndCalls(t *testing.T) {
	h := ask(t, reasoner.open(t, serve(t, events(openAIRecorded))), hello)
	if h.err != nil {
		t.Fatal(h.err)
	}
	want := []agent.Call{{ID: "call_a", Name: "ops__df", Arguments: `{"path":"/"}`}, {ID: "call_b", Name: "ops__uptime", Arguments: `{}`}}
	if diff := cmp.Diff(want, h.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if h.Text != "Let me "+smile+" look.So." || h.channel(agent.ChannelReasoning) != "**Looking**\n\nWhere?" || h.Reason != agent.ReasonToolCalls {
		t.Errorf("%q, thought %q, %s", h.Text, h.channel(agent.ChannelReasoning), h.Reason)
	}
	u := h.Usage
	if u.InputTokens != 1000 || u.CacheReadTokens != 600 || u.CacheWriteTokens != 100 || u.OutputTokens != 200 || u.ReasoningTokens != 150 {
		t.Errorf("usage %+v", u)
	}
	// 300 × 2 + 600 × 0.10 + 100 × 2.50 + 200 × 10 USD per million
	if *u.CostUSD != 2_910_000 {
		t.Errorf("cost %d", *u.CostUSD)
	}
}

// What was thought goes back as it came, to the model that thought it.
func TestOpenAIReasoningGoesBack(t *testing.T) {
	first := ask(t, reasoner.open(t, serve(t, events(openAIRecorded))), hello)
	conversation := hello
	conversation.Messages = append(conversation.Messages[:1:1],
		agent.Message{Role: agent.Assistant, Text: first.Text, Calls: first.Calls, Opaque: first.Opaque},
		agent.Message{Role: agent.FromTool, CallID: "call_a", Content: []agent.Content{{Type: "text", Text: "97%"}, {Type: "image", MimeType: "image/png", Data: []byte("PNG")}}},
		agent.Message{Role: agent.FromTool, CallID: "call_b", IsError: true})
	s := serve(t, events(openAIRecorded))
	ask(t, reasoner.open(t, s), conversation)
	ask(t, vendor{provider: OpenAI, model: "gpt-6-sol"}.open(t, s), conversation)
	rest := `{"type":"message","role":"assistant","phase":"commentary","content":"Let me ` + smile + ` look."},
		{"type":"function_call","call_id":"call_a","name":"ops__df","arguments":"{\"path\":\"/\"}"},
		{"type":"function_call","call_id":"call_b","name":"ops__uptime","arguments":"{}"},
		{"type":"message","role":"assistant","phase":"final_answer","content":"So."},`
	results := `{"type":"function_call_output","call_id":"call_a","output":[{"type":"input_text","text":"97%\n[image 1, below]"},{"type":"input_image","image_url":"data:image/png;base64,UE5H"}]},
		{"type":"function_call_output","call_id":"call_b","output":""}`
	sameJSON(t, "to the same model", input(t, s.bodies[0]), `[{"type":"message","role":"user","content":"Hello"},`+reasoning+`,`+rest+results+`]`)
	sameJSON(t, "to another", input(t, s.bodies[1]), `[{"type":"message","role":"user","content":"Hello"},{"type":"message","role":"assistant","content":"Let me `+smile+` look.So."},
		{"type":"function_call","call_id":"call_a","name":"ops__df","arguments":"{\"path\":\"/\"}"},
		{"type":"function_call","call_id":"call_b","name":"ops__uptime","arguments":"{}"},`+results+`]`)
}

func input(t *testing.T, body []byte) []byte {
	t.Helper()
	var q struct{ Input json.RawMessage }
	if err := json.Unmarshal(body, &q); err != nil {
		t.Fatal(err)
	}
	return q.Input
}

// The vendor refuses reasoning that it cannot read, or that nothing follows.
func TestOpenAIReasoningThatCannotGoBack(t *testing.T) {
	plain := strings.ReplaceAll(openAIThink, `"encrypted_content":"gAAAA<b>",`, "")
	end := openAIEndOf("completed", "")
	for name, body := range map[string]string{
		"not encrypted": plain + openAIMessage("1", "null", `"Hi"`) + end,
		"at the end":    openAIMessage("1", "null", `"Hi"`) + openAIThink + end,
		"alone":         openAIThink + openAIEndOf("incomplete", `"incomplete_details":{"reason":"max_output_tokens"},`),
	} {
		if h := ask(t, reasoner.open(t, serve(t, events(body))), hello); h.err != nil || h.Opaque != nil {
			t.Errorf("%s: %v, %s", name, h.err, h.Opaque)
		}
	}
}

func TestOpenAIEnds(t *testing.T) {
	call := openAICall("0", "a", "n", `"{}"`)
	text := openAIMessage("0", "null", `"a"`)
	refusal := strings.ReplaceAll(text, "response.output_text.delta", "response.refusal.delta")
	whole := openAIEventOf("response.output_item.done", `"output_index":7,"item":{"type":"message","content":[{"type":"refusal","refusal":"a"}]}`)
	for _, c := range []struct {
		name, body string
		want       agent.Reason
		calls      int
	}{
		{"completed", text + openAIEndOf("completed", ""), agent.ReasonStop, 0},
		{"with calls", call + openAIEndOf("completed", ""), agent.ReasonToolCalls, 1},
		{"too long", text + openAIEndOf("incomplete", `"incomplete_details":{"reason":"max_output_tokens"},`), agent.ReasonLength, 0},
		{"too long, in a call", call + openAIEndOf("incomplete", `"incomplete_details":{"reason":"max_output_tokens"},`), agent.ReasonLength, 1},
		{"filtered", text + openAIEndOf("incomplete", `"incomplete_details":{"reason":"content_filter"},`), agent.ReasonContentFilter, 0},
		{"refused", refusal + openAIEndOf("completed", ""), agent.ReasonContentFilter, 0},
		{"refused at once", whole + openAIEndOf("completed", ""), agent.ReasonContentFilter, 0},
		{"unknown items and events", openAIEventOf("response.output_item.added", `"output_index":9,"item":{"type":"hologram","content":null}`) +
			openAIEventOf("response.hologram.delta", `"output_index":9,"delta":{"x":1}`) + text + openAIEndOf("completed", ""), agent.ReasonStop, 0},
	} {
		h := ask(t, responses.open(t, serve(t, events(c.body))), hello)
		if h.err != nil || h.Reason != c.want || len(h.Calls) != c.calls || c.calls == 0 && h.Text != "a" {
			t.Errorf("%s: %+v, %v", c.name, h.Response, h.err)
		}
	}
}

func TestOpenAIFaults(t *testing.T) {
	text := openAIMessage("0", "null", `"a"`)
	failedWith := func(object string) string {
		return openAIHead + openAIEventOf("response.failed", `"response":{"status":"failed","error":`+object+`}`)
	}
	for _, c := range []struct {
		name, body, code, says string
		retry                  bool
	}{
		{"rate", failedWith(`{"code":"rate_limit_exceeded","message":"Slow down"}`), CodeRateLimited, "Slow down", true},
		{"prompt", failedWith(`{"code":"invalid_prompt","message":"No"}`), CodeRejected, "invalid_prompt", false},
		{"policy", failedWith(`{"code":"bio_policy","message":"No"}`), CodeRejected, "bio_policy", false},
		{"image", failedWith(`{"code":"image_too_large","message":"No"}`), CodeRejected, "image_too_large", false},
		{"server", failedWith(`{"code":"server_error","message":"Oops"}`), CodeUnavailable, "Oops", true},
		{"no reason", failedWith(`null`), CodeTruncated, "nothing says why", true},
		{"error event", openAIHead + openAIEventOf("error", `"code":"server_error","message":"Oops","param":null`), CodeUnavailable, "server_error): Oops", true},
		{"error within", openAIHead + openAIEventOf("error", `"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Oops"}`), CodeRateLimited, "Oops", true},
		{"incomplete without a reason", text + openAIEndOf("incomplete", ""), CodeProtocol, "nothing says why", false},
		{"incomplete for another", text + openAIEndOf("incomplete", `"incomplete_details":{"reason":"steered"},`), CodeProtocol, `"steered"`, false},
		{"began twice", text + text, CodeProtocol, "began twice", false},
		{"never began", openAIDelta(`"a"`), CodeProtocol, "item 0", false},
		{"of another kind", openAICall("0", "a", "n", `""`) + openAIDelta(`"a"`), CodeProtocol, "no message", false},
		{"no item", openAIEventOf("response.output_item.added", `"output_index":0`), CodeProtocol, "cannot be read", false},
		{"nameless", openAICall("0", "a", "", `""`) + openAIEndOf("completed", ""), CodeProtocol, "names no tool", false},
		{"no end", text, CodeTruncated, "response.completed", true},
	} {
		e := failed(t, ask(t, responses.open(t, serve(t, events(c.body))), hello), c.code)
		if e.Retry != c.retry || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

// Items are known by their index, whatever their order, and may come in turns.
func TestOpenAIItemsOutOfOrder(t *testing.T) {
	at := func(index, text string) string {
		return openAIEventOf("response.output_text.delta", `"output_index":`+index+`,"content_index":0,"delta":`+text)
	}
	begin := func(index, phase string) string {
		return openAIEventOf("response.output_item.added", `"output_index":`+index+`,"item":{"type":"message","phase":"`+phase+`"}`)
	}
	body := begin("5", "commentary") + begin("2", "final_answer") + at("2", `"a"`) + at("5", `"b"`) + at("2", `"c"`) + openAIEndOf("completed", "")
	h := ask(t, reasoner.open(t, serve(t, events(body))), hello)
	if h.err != nil || h.Text != "abc" {
		t.Fatalf("%q, %v", h.Text, h.err)
	}
	sameJSON(t, "parts", h.Opaque, `{"provider":"openai","model":"gpt-6.1-sol","parts":[{"text":1,"phase":"final_answer"},{"text":1,"phase":"commentary"},{"text":1,"phase":"final_answer"}]}`)
}

func TestOpenAIRequest(t *testing.T) {
	s := serve(t, events(openAISays(`"a"`)))
	r := agent.Request{System: "Be brief.", MaxOutputTokens: 1000, Temperature: new(0.5), TopP: new(0.9), Purpose: agent.PurposeTurn,
		Tools:        []agent.Offer{{Name: "ops__uptime", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages:     []agent.Message{{Role: agent.User, Text: "Hello"}},
		OutputSchema: json.RawMessage(`{"type":"object"}`)}
	ask(t, responses.open(t, s), r)
	sameJSON(t, "request", s.bodies[0], `{"model":"gpt-4.1","instructions":"Be brief.","input":[{"type":"message","role":"user","content":"Hello"}],"max_output_tokens":1000,"temperature":0.5,"top_p":0.9,
		"tools":[{"type":"function","name":"ops__uptime","description":"d","parameters":{"type":"object","properties":{}},"strict":false}],
		"text":{"format":{"type":"json_schema","name":"output","schema":{"type":"object"},"strict":false}},"store":false,"stream":true}`)
	long := strings.Repeat("x", 65)
	r = hello
	r.Messages = []agent.Message{{Role: agent.Assistant, Calls: []agent.Call{{ID: long, Name: "a b", Arguments: "cut"}}}, {Role: agent.FromTool, CallID: long}}
	ask(t, reasoner.open(t, s), r)
	sameJSON(t, "what the vendor would refuse", input(t, s.bodies[1]), `[{"type":"function_call","call_id":"`+agent.MadeID(long)+`","name":"a_b","arguments":"{}"},
		{"type":"function_call_output","call_id":"`+agent.MadeID(long)+`","output":""}]`)
	if !strings.Contains(string(s.bodies[1]), `"include":["reasoning.encrypted_content"]`) {
		t.Errorf("reasoning is not asked for: %s", s.bodies[1])
	}
}

// What a server refuses is left out from then on; that is no attempt of its own.
func TestOpenAIOptionsThatAreRefused(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1:
			refuses(400, `{"error":{"message":"Your organization must be verified to generate reasoning summaries.","type":"invalid_request_error","param":"reasoning.summary","code":"unsupported_value"}}`)(n, w, r)
		case 2:
			refuses(400, `{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}`)(n, w, r)
		default:
			events(openAISays(`"a"`))(n, w, r)
		}
	})
	m := vendor{provider: OpenAI, model: "new"}.openWith(t, s, func(c *Config) { c.Thinking = "low" })
	for range 2 {
		if h := ask(t, m, hello); h.err != nil || h.Text != "a" {
			t.Fatal(h.err)
		}
	}
	if n := s.requests(); n != 4 {
		t.Fatalf("%d requests", n)
	}
	for i, want := range []string{`"reasoning":{"effort":"low","summary":"auto"},"include"`, `"reasoning":{"effort":"low"},"include"`, `"reasoning":{"effort":"low"},"store"`, `"reasoning":{"effort":"low"},"store"`} {
		if !strings.Contains(string(s.bodies[i]), want) {
			t.Errorf("request %d has no %s: %s", i+1, want, s.bodies[i])
		}
	}
}

// A server that knows chat completions only says 404, and so does one that lacks the
// model.
func TestOpenAIServersThatKnowChatOnly(t *testing.T) {
	for _, body := range []string{"404 page not found", `{"detail":"Not Found"}`} {
		e := failed(t, ask(t, responses.open(t, serve(t, refuses(404, body))), hello), CodeRejected)
		if !strings.HasSuffix(e.Message, "write provider: openai-chat") {
			t.Errorf("%s: %s", body, e.Message)
		}
		e = failed(t, ask(t, gpt.open(t, serve(t, refuses(404, body))), hello), CodeRejected)
		if strings.Contains(e.Message, "openai-chat,") || strings.Contains(e.Message, "write provider") {
			t.Errorf("%s: %s", body, e.Message)
		}
	}
}

package provider

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
)

var gpt = vendors[1]

const chatDone = "data: [DONE]\n\n"

// chunks is a stream of these deltas, with a reason at the end.
func chunks(reason string, deltas ...string) string {
	var body string
	for _, d := range deltas {
		body += chatChunkOf(d, "null")
	}
	return body + chatChunkOf(`{}`, reason)
}

func TestChatParallelCalls(t *testing.T) {
	body := chunks(`"tool_calls"`,
		`{"role":"assistant","content":null}`,
		`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"ops__df","arguments":""}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}`,
		`{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"ops__uptime","arguments":""}}]}`,
		`{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":" \"/\ud83d"}},{"index":2,"id":"call_c","function":{"name":"ops__odd","arguments":"{\"cut"}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]}`,
	) + chatUsage + chatDone
	h := ask(t, gpt.open(t, serve(t, events(body))), hello)
	if h.err != nil {
		t.Fatal(h.err)
	}
	want := []agent.Call{
		{ID: "call_a", Name: "ops__df", Arguments: `{"path": "/` + smile + `"}`},
		{ID: "call_b", Name: "ops__uptime", Arguments: `{}`},
		{ID: "call_c", Name: "ops__odd", Arguments: `{"cut`},
	}
	if diff := cmp.Diff(want, h.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if h.Reason != agent.ReasonToolCalls || h.Usage == nil || h.Usage.InputTokens != 25 {
		t.Errorf("%+v", h.Response)
	}
}

func TestChatCallsWithoutNumbers(t *testing.T) {
	body := chunks(`"tool_calls"`,
		`{"tool_calls":[{"id":"a","function":{"name":"one","arguments":"{\"x\""}}]}`,
		`{"tool_calls":[{"function":{"arguments":":1}"}}]}`,
		`{"tool_calls":[{"id":"b","function":{"name":"two","arguments":"{"}}]}`,
		`{"tool_calls":[{"id":"a","function":{"arguments":" "}},{"id":"b","function":{"arguments":"}"}}]}`,
	) + chatDone
	h := ask(t, gpt.open(t, serve(t, events(body))), hello)
	want := []agent.Call{{ID: "a", Name: "one", Arguments: `{"x":1} `}, {ID: "b", Name: "two", Arguments: `{}`}}
	if diff := cmp.Diff(want, h.Calls); diff != "" || h.err != nil {
		t.Errorf("%v, calls (-want +got):\n%s", h.err, diff)
	}
}

func TestChatFirstIDAndNameCount(t *testing.T) {
	body := chunks(`"tool_calls"`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}`,
		`{"tool_calls":[{"index":0,"id":"first","function":{"name":"one","arguments":""}}]}`,
		`{"tool_calls":[{"index":0,"id":"second","function":{"name":"two","arguments":"}"}}]}`,
	) + chatDone
	h := ask(t, gpt.open(t, serve(t, events(body))), hello)
	if diff := cmp.Diff([]agent.Call{{ID: "first", Name: "one", Arguments: `{}`}}, h.Calls); diff != "" || h.err != nil {
		t.Errorf("%v, calls (-want +got):\n%s", h.err, diff)
	}
}

func TestChatFinishReasons(t *testing.T) {
	call := `{"tool_calls":[{"index":0,"id":"a","function":{"name":"n","arguments":"{}"}}]}`
	text := `{"content":"a"}`
	old := `{"function_call":{"name":"n","arguments":"{}"}}`
	for _, c := range []struct {
		delta, reason string
		want          agent.Reason
		calls         int
	}{
		{text, `"stop"`, agent.ReasonStop, 0},
		{text, `"eos"`, agent.ReasonStop, 0},
		{text, `"length"`, agent.ReasonLength, 0},
		{text, `"content_filter"`, agent.ReasonContentFilter, 0},
		{call, `"tool_calls"`, agent.ReasonToolCalls, 1},
		{call, `"stop"`, agent.ReasonToolCalls, 1},
		{call, `"eos"`, agent.ReasonToolCalls, 1},
		{call, `null`, agent.ReasonToolCalls, 1},
		{old, `"function_call"`, agent.ReasonToolCalls, 1},
		{call, `"length"`, agent.ReasonLength, 1},
		{`{"refusal":"I must not."}`, `"stop"`, agent.ReasonContentFilter, 0},
	} {
		h := ask(t, gpt.open(t, serve(t, events(chunks(c.reason, c.delta)+chatDone))), hello)
		if h.err != nil || h.Reason != c.want || len(h.Calls) != c.calls {
			t.Errorf("%s with %s: %+v, %v", c.reason, c.delta, h.Response, h.err)
		}
	}
}

func TestChatProtocolFaults(t *testing.T) {
	for _, c := range []struct{ name, body, says string }{
		{"unknown reason", chunks(`"ennui"`, `{"content":"a"}`) + chatDone, `"ennui"`},
		{"no reason and no calls", chatDelta(`"a"`) + chatDone, "without a finish reason"},
		{"calls announced", chunks(`"tool_calls"`) + chatDone, "has none"},
		{"nameless call", chunks(`"tool_calls"`, `{"tool_calls":[{"index":0,"id":"a"}]}`) + chatDone, "names no tool"},
		{"arguments an object", chunks(`"tool_calls"`, `{"tool_calls":[{"index":0,"function":{"name":"n","arguments":{}}}]}`), "arguments of a call"},
	} {
		e := failed(t, ask(t, gpt.open(t, serve(t, events(c.body))), hello), CodeProtocol)
		if e.Retry || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

func TestChatEndOfStream(t *testing.T) {
	whole := chunks(`"stop"`, `{"content":"a"}`)
	for name, body := range map[string]string{
		"with its mark":         whole + chatUsage + chatDone,
		"after the usage":       whole + chatUsage,
		"after the reason":      whole,
		"after the mark":        whole + chatUsage + chatDone + chatDelta(`"more"`),
		"mark without its line": whole + chatUsage + "data: [DONE]\n",
		"lines with CR":         strings.ReplaceAll(whole+chatUsage+chatDone, "\n", "\r\n"),
		"error: null":           strings.ReplaceAll(whole, `"usage":null`, `"usage":null,"error":null`) + chatDone,
		"second choice":         strings.ReplaceAll(chatDelta(`"b"`), `"index":0`, `"index":1`) + whole,
	} {
		h := ask(t, gpt.open(t, serve(t, events(body))), hello)
		if h.err != nil || h.Text != "a" || h.Reason != agent.ReasonStop {
			t.Errorf("%s: %+v, %v", name, h.Response, h.err)
		}
		if strings.Contains(body, "prompt_tokens") != (h.Usage != nil) {
			t.Errorf("%s: usage %+v", name, h.Usage)
		}
	}
}

func TestChatErrorsInMidStream(t *testing.T) {
	for object, want := range map[string]struct {
		code  string
		retry bool
	}{
		`{"message":"m","type":"server_error","code":null}`:                             {CodeUnavailable, true},
		`{"message":"m","type":"rate_limit_exceeded"}`:                                  {CodeRateLimited, true},
		`{"message":"m","code":502}`:                                                    {CodeUnavailable, true},
		`{"message":"m","code":"429"}`:                                                  {CodeRateLimited, true},
		`{"message":"m","type":"invalid_request_error"}`:                                {CodeRejected, false},
		`{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}`:       {CodeAuth, false},
		`{"message":"m","type":"requests","code":"context_length_exceeded"}`:            {CodeOverflow, false},
		`{"message":"This model's maximum context length is 9","type":"invalid_error"}`: {CodeOverflow, false},
		`"just words"`: {CodeUnavailable, true},
	} {
		h := ask(t, gpt.open(t, serve(t, events(chatDelta(`"Hel"`)+"data: {\"error\":"+object+"}\n\n"))), hello)
		if e := failed(t, h, want.code); e.Retry != want.retry || h.Text != "Hel" {
			t.Errorf("%s: %+v", object, e)
		}
	}
}

// Of 2,006 tokens of input 1,920 were cached. With 2 USD per million tokens of
// input, 0.50 cached and 8 of output: 86 × 2 + 1920 × 0.50 + 300 × 8 = 3,532
// millionths of a USD.
func TestChatCountsAndCost(t *testing.T) {
	body := chunks(`"stop"`, `{"content":"a"}`) + `data: {"choices":[],"usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1920},"completion_tokens_details":{"reasoning_tokens":128}}}

` + chatDone
	h := ask(t, gpt.open(t, serve(t, events(body))), hello)
	if h.err != nil {
		t.Fatal(h.err)
	}
	cost := agent.USD(3_532_000)
	want := agent.Usage{InputTokens: 2006, OutputTokens: 300, CacheReadTokens: 1920, ReasoningTokens: 128, TotalTokens: 2306, CostUSD: &cost}
	if diff := cmp.Diff(want, *h.Usage); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChatUsageWithNullDetails(t *testing.T) {
	body := chunks(`"stop"`, `{"content":"a"}`) + `data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":null}}

` + chatDone
	h := ask(t, gpt.open(t, serve(t, events(body))), hello)
	if h.err != nil || h.Usage == nil || h.Usage.TotalTokens != 5 {
		t.Errorf("%+v, %v", h.Usage, h.err)
	}
}

func TestChatReasoningIsShownAndNotSentBack(t *testing.T) {
	h := ask(t, gpt.open(t, serve(t, events(chunks(`"stop"`, `{"reasoning_content":"Hm \ud83d"}`, `{"reasoning_content":"\ude00"}`, `{"content":"Yes"}`)+chatDone))), hello)
	if h.err != nil || h.channel(agent.ChannelReasoning) != "Hm "+smile || h.Text != "Yes" || h.Opaque != nil {
		t.Errorf("%+v, %v, %v", h.Response, h.deltas, h.err)
	}
}

func TestServersThatRefuseToBeAskedForUsage(t *testing.T) {
	for name, refusal := range map[string]string{
		"by its name":   `{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error"}}`,
		"by its member": `{"object":"error","message":"extra fields not permitted: include_usage"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					refuses(400, refusal)(n, w, r)
					return
				}
				events(chatText(`"a"`))(n, w, r)
			})
			m := gpt.open(t, s)
			for range 2 {
				if h := ask(t, m, hello); h.err != nil || h.Text != "a" {
					t.Fatalf("%+v, %v", h.Response, h.err)
				}
			}
			if s.requests() != 3 {
				t.Fatalf("%d requests, want one refused and two answered", s.requests())
			}
			for i, asked := range []bool{true, false, false} {
				if strings.Contains(string(s.bodies[i]), "include_usage") != asked {
					t.Errorf("request %d: %s", i+1, s.bodies[i])
				}
			}
		})
	}
	s := serve(t, refuses(400, `{"error":{"message":"messages: too odd"}}`))
	failed(t, ask(t, gpt.open(t, s), hello), CodeRejected)
	if s.requests() != 1 {
		t.Errorf("another refusal was answered with %d requests", s.requests())
	}
}

func TestChatRequest(t *testing.T) {
	s := serve(t, events(gpt.text(`"a"`)))
	if h := ask(t, gpt.open(t, s), story()); h.err != nil {
		t.Fatal(h.err)
	}
	sameJSON(t, "the request", s.bodies[0], `{
		"model": "gpt-4.1", "max_tokens": 1000, "stream": true, "stream_options": {"include_usage": true}, "temperature": 0.5, "top_p": 0.9,
		"tools": [
			{"type":"function","function":{"name":"ops__df","description":"Free space","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}}},
			{"type":"function","function":{"name":"ops__uptime","parameters":{"type":"object","properties":{}}}}],
		"messages": [
			{"role":"system","content":"Be brief."},
			{"role":"user","content":"Is the disk full?"},
			{"role":"assistant","content":"Let me look.","tool_calls":[
				{"id":"call_1","type":"function","function":{"name":"ops__df","arguments":"{\"path\":\"/\"}"}},
				{"id":"call_2","type":"function","function":{"name":"made_up_","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"call_1","content":"97%\n[image 1, below]"},
			{"role":"tool","tool_call_id":"call_2","content":"no such tool"},
			{"role":"user","content":[{"type":"text","text":"[image 1, of call call_1]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}}]},
			{"role":"user","content":"Well?"}]}`)
}

func TestImagesForModelsThatCannotSee(t *testing.T) {
	for _, v := range vendors {
		s := serve(t, events(v.text(`"a"`)))
		if h := ask(t, v.openWith(t, s, func(c *Config) { c.Model = "a-model-nobody-knows" }), story()); h.err != nil {
			t.Fatal(h.err)
		}
		if body := string(s.bodies[0]); strings.Contains(body, "UE5H") || !strings.Contains(body, "[an image, image/png, which this model cannot see]") {
			t.Errorf("%s: %s", v.provider, body)
		}
	}
}

func TestChatLimitOfOutput(t *testing.T) {
	for base, want := range map[string]string{"": "max_completion_tokens", "https://eu.api.openai.com/v1": "max_completion_tokens", "https://gateway.example/v1": "max_tokens"} {
		m, err := Open(Config{Provider: OpenAIChat, Model: "m", APIKey: testKey, BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(m.(*chatModel).request(hello, true))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"max_completion_tokens", "max_tokens"} {
			if _, sent := got[name]; sent != (name == want) {
				t.Errorf("at %q: %s", base, body)
			}
		}
	}
}

func TestChatStructuredOutput(t *testing.T) {
	for _, c := range []struct {
		schema string
		strict bool
	}{
		{`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"number"}},"c":{"anyOf":[{"type":"null"},{"type":"object","properties":{},"additionalProperties":false}]}},"required":["a","b","c"],"additionalProperties":false}`, true},
		{`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, false},
		{`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, false},
		{`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}`, false},
		{`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`, false},
		{`{"type":"object","properties":{"a":{"anyOf":[{"type":"object"}]}},"required":["a"],"additionalProperties":false}`, false},
		{`{"type":"object","properties":{"a":{"type":"string","pattern":"x"}},"required":["a"],"additionalProperties":false}`, false},
		{`{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`, false},
		{`{"type":"array","items":{"type":"string"}}`, false},
	} {
		s := serve(t, events(gpt.text(`"{}"`)))
		r := hello
		r.OutputSchema = json.RawMessage(c.schema)
		if h := ask(t, gpt.open(t, s), r); h.err != nil {
			t.Fatal(h.err)
		}
		var got struct {
			ResponseFormat json.RawMessage `json:"response_format"`
		}
		if err := json.Unmarshal(s.bodies[0], &got); err != nil {
			t.Fatal(err)
		}
		want := `{"type":"json_schema","json_schema":{"name":"output","strict":false,"schema":` + c.schema + `}}`
		if c.strict {
			want = strings.Replace(want, "false", "true", 1)
		}
		sameJSON(t, "response_format of "+c.schema, got.ResponseFormat, want)
	}
}

package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
)

var claude = vendors[0]

func block(index, start string, deltas ...string) string {
	body := `event: content_block_start
data: {"type":"content_block_start","index":` + index + `,"content_block":` + start + "}\n\n"
	for _, d := range deltas {
		body += "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":" + index + ",\"delta\":" + d + "}\n\n"
	}
	return body + "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":" + index + "}\n\n"
}

const anthropicStart = `event: message_start
data: {"type":"message_start","message":{"id":"msg_014p7gG3wDgGV9EUtLvnow3U","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","stop_sequence":null,"usage":{"input_tokens":1003,"cache_creation_input_tokens":5001,"cache_read_input_tokens":20007,"output_tokens":2},"content":[],"stop_reason":null}}

`

func anthropicEnd(reason string) string {
	return `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":` + reason + `,"stop_sequence":null},"usage":{"output_tokens":501}}

event: message_stop
data: {"type":"message_stop"}

`
}

func TestAnthropicParallelCalls(t *testing.T) {
	body := anthropicStart +
		block("0", `{"type":"text","text":""}`, `{"type":"text_delta","text":"Let me look."}`) +
		block("1", `{"type":"tool_use","id":"toolu_01","name":"ops__df","input":{}}`,
			`{"type":"input_json_delta","partial_json":""}`,
			`{"type":"input_json_delta","partial_json":"{\"path\": \"/\ud83d"}`,
			`{"type":"input_json_delta","partial_json":"\ude00\"}"}`) +
		block("2", `{"type":"tool_use","id":"toolu_02","name":"ops__uptime","input":{}}`) +
		block("3", `{"type":"tool_use","id":"toolu_03","name":"ops__odd","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"cut"}`) +
		block("4", `{"type":"tool_use","id":"toolu_04","name":"ops__at_once","input":{"a":1}}`) +
		anthropicEnd(`"tool_use"`)
	h := ask(t, claude.open(t, serve(t, events(body))), hello)
	if h.err != nil {
		t.Fatal(h.err)
	}
	want := []agent.Call{
		{ID: "toolu_01", Name: "ops__df", Arguments: `{"path": "/` + smile + `"}`},
		{ID: "toolu_02", Name: "ops__uptime", Arguments: `{}`},
		{ID: "toolu_03", Name: "ops__odd", Arguments: `{"cut`}, // kept as it came: the loop answers it
		{ID: "toolu_04", Name: "ops__at_once", Arguments: `{"a":1}`},
	}
	if diff := cmp.Diff(want, h.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if h.Text != "Let me look." || h.Reason != agent.ReasonToolCalls || h.Opaque != nil {
		t.Errorf("%+v", h.Response)
	}
}

func TestAnthropicStopReasons(t *testing.T) {
	for reason, want := range map[string]agent.Reason{
		"end_turn": agent.ReasonStop, "stop_sequence": agent.ReasonStop,
		"max_tokens": agent.ReasonLength, "model_context_window_exceeded": agent.ReasonLength,
		"refusal": agent.ReasonContentFilter,
	} {
		h := ask(t, claude.open(t, serve(t, events(anthropicHead+anthropicDelta(`"a"`)+anthropicTail(reason)))), hello)
		if h.err != nil || h.Reason != want {
			t.Errorf("%s gives %q, %v", reason, h.Reason, h.err)
		}
	}
	calls := block("0", `{"type":"tool_use","id":"t","name":"n","input":{}}`)
	for _, reason := range []string{`"tool_use"`, `"end_turn"`} {
		h := ask(t, claude.open(t, serve(t, events(anthropicStart+calls+anthropicEnd(reason)))), hello)
		if h.err != nil || h.Reason != agent.ReasonToolCalls || len(h.Calls) != 1 {
			t.Errorf("calls with %s: %+v, %v", reason, h.Response, h.err)
		}
	}
	h := ask(t, claude.open(t, serve(t, events(anthropicStart+calls+anthropicEnd(`"max_tokens"`)))), hello)
	if h.err != nil || h.Reason != agent.ReasonLength || len(h.Calls) != 1 {
		t.Errorf("calls that were cut off: %+v, %v", h.Response, h.err)
	}
}

func TestAnthropicProtocolFaults(t *testing.T) {
	for _, c := range []struct{ name, body, says string }{
		{"unknown reason", anthropicStart + anthropicEnd(`"pause_turn"`), `"pause_turn"`},
		{"no reason", anthropicStart + anthropicEnd(`null`), "without a stop reason"},
		{"calls announced", anthropicStart + anthropicEnd(`"tool_use"`), "has none"},
		{"nameless call", anthropicStart + block("0", `{"type":"tool_use","id":"t","input":{}}`) + anthropicEnd(`"tool_use"`), "names no tool"},
		{"delta before its block", anthropicStart + anthropicDelta(`"a"`), "never began"},
		{"block twice", anthropicStart + block("0", `{"type":"text","text":""}`) + block("0", `{"type":"text","text":""}`), "began twice"},
		{"block before the message", block("0", `{"type":"text","text":""}`), "before message_start"},
		{"block is no object", anthropicStart + block("0", `[]`), "cannot be read"},
	} {
		e := failed(t, ask(t, claude.open(t, serve(t, events(c.body))), hello), CodeProtocol)
		if e.Retry || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

func TestAnthropicUnknownEventsAreIgnored(t *testing.T) {
	body := "event: dawn\ndata: {\"type\":\"dawn\",\"index\":7}\n\n" + anthropicStart +
		": a comment\n\n" +
		block("0", `{"type":"hologram","beam":1}`, `{"type":"beam_delta","beam":"x"}`) +
		block("1", `{"type":"text","text":"Hi"}`, `{"type":"citations_delta","citation":{}}`, `{"type":"text_delta","text":"!"}`) +
		"event: noon\ndata: {\"type\":\"noon\"}\n\n" + anthropicEnd(`"end_turn"`)
	if h := ask(t, claude.open(t, serve(t, events(body))), hello); h.err != nil || h.Text != "Hi!" || h.Reason != agent.ReasonStop {
		t.Errorf("%+v, %v", h.Response, h.err)
	}
}

func TestAnthropicErrorsInMidStream(t *testing.T) {
	for kind, want := range map[string]struct {
		code  string
		retry bool
	}{
		"overloaded_error":      {CodeUnavailable, true},
		"api_error":             {CodeUnavailable, true},
		"timeout_error":         {CodeUnavailable, true},
		"rate_limit_error":      {CodeRateLimited, true},
		"authentication_error":  {CodeAuth, false},
		"permission_error":      {CodeAuth, false},
		"invalid_request_error": {CodeRejected, false},
		"not_found_error":       {CodeRejected, false},
		"billing_error":         {CodeRejected, false},
		"request_too_large":     {CodeOverflow, false},
		"a_new_kind":            {CodeUnavailable, true},
	} {
		body := anthropicHead + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" + kind + "\",\"message\":\"m\"}}\n\n"
		if e := failed(t, ask(t, claude.open(t, serve(t, events(body))), hello), want.code); e.Retry != want.retry {
			t.Errorf("%s: %+v", kind, e)
		}
	}
}

// The counts of the last event are totals. With 3 USD per million tokens of input,
// 15 of output, 0.30 read from and 3.75 or 6 written to the cache:
// 1003 × 3 + 20007 × 0.30 + 5001 × 3.75 + 501 × 15 = 35,279.85 millionths of a USD,
// and with the longer cache 5001 × (6 − 3.75) = 11,252.25 more.
func TestAnthropicCountsAndCost(t *testing.T) {
	for cache, want := range map[string]agent.USD{"": 35_279_850, CacheShort: 35_279_850, CacheOff: 35_279_850, CacheLong: 46_532_100} {
		s := serve(t, events(anthropicStart+block("0", `{"type":"text","text":"a"}`)+anthropicEnd(`"end_turn"`)))
		h := ask(t, claude.openWith(t, s, func(c *Config) { c.Cache = cache }), hello)
		if h.err != nil {
			t.Fatal(h.err)
		}
		usage := agent.Usage{InputTokens: 26_011, OutputTokens: 501, CacheReadTokens: 20_007, CacheWriteTokens: 5_001, TotalTokens: 26_512, CostUSD: &want}
		if diff := cmp.Diff(usage, *h.Usage); diff != "" {
			t.Errorf("cache %q (-want +got):\n%s", cache, diff)
		}
	}
}

func TestAnthropicUsageRepeatedAtTheEnd(t *testing.T) {
	body := anthropicStart + block("0", `{"type":"text","text":"a"}`) + `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":1004,"cache_creation_input_tokens":0,"cache_read_input_tokens":25008,"output_tokens":300,"output_tokens_details":{"thinking_tokens":120}}}

event: message_stop
data: {"type":"message_stop"}

`
	h := ask(t, claude.open(t, serve(t, events(body))), hello)
	if h.err != nil {
		t.Fatal(h.err)
	}
	h.Usage.CostUSD = nil
	want := agent.Usage{InputTokens: 26_012, OutputTokens: 300, CacheReadTokens: 25_008, ReasoningTokens: 120, TotalTokens: 26_312}
	if diff := cmp.Diff(want, *h.Usage); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// thoughtful is an answer with reasoning before and between its other blocks.
var thoughtful = anthropicStart +
	block("0", `{"type":"thinking","thinking":"","signature":""}`,
		`{"type":"thinking_delta","thinking":"First \ud83d"}`, `{"type":"thinking_delta","thinking":"\ude00 look."}`,
		`{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk="}`) +
	block("1", `{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a"}`) +
	block("2", `{"type":"text","text":""}`, `{"type":"text_delta","text":"Grüße. "}`) +
	block("3", `{"type":"tool_use","id":"toolu_01","name":"ops__df","input":{}}`) +
	block("4", `{"type":"thinking","thinking":"More.","signature":"c2ln"}`) +
	block("5", `{"type":"text","text":"Done"}`) +
	block("6", `{"type":"tool_use","id":"toolu_02","name":"ops__df","input":{}}`) +
	anthropicEnd(`"tool_use"`)

func TestAnthropicReasoningGoesBackUnchangedToItsModelAlone(t *testing.T) {
	s := serve(t, events(thoughtful))
	m := claude.openWith(t, s, func(c *Config) { c.Cache = CacheOff })
	h := ask(t, m, hello)
	if h.err != nil {
		t.Fatal(h.err)
	}
	if got := h.channel(agent.ChannelReasoning); got != "First "+smile+" look.More." {
		t.Errorf("reasoning %q", got)
	}
	if h.Text != "Grüße. Done" {
		t.Errorf("text %q", h.Text)
	}
	next := hello
	next.Messages = []agent.Message{
		{Role: agent.User, Text: "Hello"},
		{Role: agent.Assistant, Text: h.Text, Calls: h.Calls, Opaque: h.Opaque, Model: h.Model},
		{Role: agent.FromTool, CallID: "toolu_01", Content: []agent.Content{{Type: "text", Text: "97%"}}},
		{Role: agent.FromTool, CallID: "toolu_02", Content: []agent.Content{{Type: "text", Text: "98%"}}},
	}
	if h := ask(t, m, next); h.err != nil {
		t.Fatal(h.err)
	}
	const want = `[
		{"type":"thinking","thinking":"First \ud83d\ude00 look.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk="},
		{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a"},
		{"type":"text","text":"Grüße. "},
		{"type":"tool_use","id":"toolu_01","name":"ops__df","input":{}},
		{"type":"thinking","thinking":"More.","signature":"c2ln"},
		{"type":"text","text":"Done"},
		{"type":"tool_use","id":"toolu_02","name":"ops__df","input":{}}]`
	sameJSON(t, "to its own model", assistantContent(t, s.bodies[1]), want)

	other := serve(t, events(thoughtful))
	if h := ask(t, claude.openWith(t, other, func(c *Config) { c.Model, c.Cache = "claude-opus-4-5", CacheOff }), next); h.err != nil {
		t.Fatal(h.err)
	}
	const plain = `[{"type":"text","text":"Grüße. Done"},
		{"type":"tool_use","id":"toolu_01","name":"ops__df","input":{}},
		{"type":"tool_use","id":"toolu_02","name":"ops__df","input":{}}]`
	sameJSON(t, "to another model", assistantContent(t, other.bodies[0]), plain)

	gpt := vendors[1]
	third := serve(t, events(gpt.text(`"a"`)))
	if h := ask(t, gpt.open(t, third), next); h.err != nil {
		t.Fatal(h.err)
	}
	if strings.Contains(string(third.bodies[0]), "thinking") || strings.Contains(string(third.bodies[0]), "EqQB") {
		t.Errorf("another vendor got the reasoning: %s", third.bodies[0])
	}
}

func assistantContent(t *testing.T, body []byte) json.RawMessage {
	t.Helper()
	var request struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	for _, m := range request.Messages {
		if m.Role == "assistant" {
			return m.Content
		}
	}
	t.Fatalf("there is no assistant in %s", body)
	return nil
}

// story is a conversation with everything in it.
func story() agent.Request {
	temperature, topP := 0.5, 0.9
	return agent.Request{
		System: "Be brief.",
		Tools: []agent.Offer{
			{Name: "ops__df", Description: "Free space", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)},
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
		Temperature: &temperature, TopP: &topP, MaxOutputTokens: 1000,
		Agent: "not-sent", Path: "not-sent", Attempt: 3, Purpose: agent.PurposeTurn,
	}
}

func TestAnthropicRequest(t *testing.T) {
	s := serve(t, events(claude.text(`"a"`)))
	if h := ask(t, claude.open(t, s), story()); h.err != nil {
		t.Fatal(h.err)
	}
	sameJSON(t, "the request", s.bodies[0], `{
		"model": "claude-sonnet-4-5", "max_tokens": 1000, "stream": true, "temperature": 0.5, "top_p": 0.9,
		"system": [{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
		"tools": [
			{"name":"ops__df","description":"Free space","input_schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}},
			{"name":"ops__uptime","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],
		"messages": [
			{"role":"user","content":[{"type":"text","text":"Is the disk full?"}]},
			{"role":"assistant","content":[
				{"type":"text","text":"Let me look."},
				{"type":"tool_use","id":"call_1","name":"ops__df","input":{"path":"/"}},
				{"type":"tool_use","id":"call_2","name":"made_up_","input":{},"cache_control":{"type":"ephemeral"}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"97%"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}}]},
				{"type":"tool_result","tool_use_id":"call_2","is_error":true,"content":[{"type":"text","text":"no such tool"}]},
				{"type":"text","text":"Well?","cache_control":{"type":"ephemeral"}}]}]}`)
	if v := s.heads[0].Get("Anthropic-Version"); v != "2023-06-01" {
		t.Errorf("version %q", v)
	}
}

func TestAnthropicCacheMarks(t *testing.T) {
	for cache, want := range map[string]struct {
		marks int
		mark  string
	}{
		CacheOff: {0, "cache_control"}, CacheShort: {4, `"cache_control":{"type":"ephemeral"}`}, CacheLong: {4, `"cache_control":{"ttl":"1h","type":"ephemeral"}`},
	} {
		s := serve(t, events(claude.text(`"a"`)))
		if h := ask(t, claude.openWith(t, s, func(c *Config) { c.Cache = cache }), story()); h.err != nil {
			t.Fatal(h.err)
		}
		if n := strings.Count(string(s.bodies[0]), want.mark); n != want.marks {
			t.Errorf("cache %s: %d marks %s in %s", cache, n, want.mark, s.bodies[0])
		}
	}
	// Reasoning cannot carry a mark: the block before it does.
	blocks := (&anthropicModel{vendorModel: vendorModel{name: "m", wire: newWire(Anthropic, "host", "", nil)}}).said(agent.Message{Text: "Hi", Opaque: json.RawMessage(
		`{"provider":"anthropic","model":"m","parts":[{"text":2},{"block":{"type":"thinking","thinking":"","signature":"s"}}]}`)})
	markLast(blocks, &cacheMark{Type: "ephemeral"})
	got, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "marked", got, `[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}},{"type":"thinking","thinking":"","signature":"s"}]`)
}

func TestAnthropicLeavesOutWhatWouldBeRefused(t *testing.T) {
	s := serve(t, events(claude.text(`"a"`)))
	r := agent.Request{System: " \n", Messages: []agent.Message{
		{Role: agent.User, Text: "One"},
		{Role: agent.Assistant, Text: " "},
		{Role: agent.User, Text: "Two"},
		{Role: agent.Assistant, Calls: []agent.Call{{ID: "functions.df:0", Name: "df", Arguments: "[]"}, {Name: "", Arguments: "null"}}},
		{Role: agent.FromTool, CallID: "functions.df:0"},
		{Role: agent.FromTool, CallID: "", Content: []agent.Content{{Type: agent.ContentText}}},
	}}
	if h := ask(t, claude.openWith(t, s, func(c *Config) { c.Cache = CacheOff }), r); h.err != nil {
		t.Fatal(h.err)
	}
	var got struct {
		MaxTokens int `json:"max_tokens"`
		System    any
		Messages  []struct {
			Role    string
			Content []struct {
				Type, Text, Name string
				ID               string
				ToolUseID        string `json:"tool_use_id"`
				Input            json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(s.bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	if got.System != nil || got.MaxTokens != 8192 || len(got.Messages) != 3 || len(got.Messages[0].Content) != 2 {
		t.Fatalf("%s", s.bodies[0])
	}
	calls, results := got.Messages[1].Content, got.Messages[2].Content
	if len(calls) != 2 || len(results) != 2 {
		t.Fatalf("%s", s.bodies[0])
	}
	for i := range calls {
		if calls[i].ID != results[i].ToolUseID || !strings.HasPrefix(calls[i].ID, "tip_") || string(calls[i].Input) != "{}" || calls[i].Name == "" {
			t.Errorf("call %+v, result %+v", calls[i], results[i])
		}
	}
	if calls[0].ID == calls[1].ID {
		t.Error("two ids became one")
	}
}

func TestAnthropicStructuredOutput(t *testing.T) {
	s := serve(t, events(claude.text(`"{}"`)))
	r := hello
	r.OutputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}`)
	if h := ask(t, claude.open(t, s), r); h.err != nil {
		t.Fatal(h.err)
	}
	var got struct {
		OutputConfig struct {
			Format struct {
				Type   string
				Schema struct {
					AdditionalProperties *bool
					Properties           map[string]map[string]any
				}
			}
		} `json:"output_config"`
	}
	if err := json.Unmarshal(s.bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	f := got.OutputConfig.Format
	if f.Type != "json_schema" || f.Schema.AdditionalProperties == nil || *f.Schema.AdditionalProperties || f.Schema.Properties["n"]["minimum"] != nil {
		t.Errorf("not in the subset that the vendor takes: %s", s.bodies[0])
	}
}

func TestRouterSendsNoTemperatureToModelsThatRefuseIt(t *testing.T) {
	zero := 0.0
	for _, c := range []struct {
		vendor
		model, purpose string
		sent           bool
	}{
		{claude, "claude-sonnet-4-5", agent.PurposeRouter, true},
		{claude, "claude-opus-5", agent.PurposeRouter, false},
		{claude, "claude-opus-5", agent.PurposeTurn, true}, // somebody wants it: the vendor says no
		{vendors[1], "gpt-4.1", agent.PurposeRouter, true},
		{vendors[1], "gpt-5", agent.PurposeRouter, false},
		{vendors[1], "gpt-5", agent.PurposeTurn, true},
	} {
		s := serve(t, events(c.text(`"a"`)))
		r := hello
		r.Temperature, r.TopP, r.Purpose = &zero, &zero, c.purpose
		if h := ask(t, c.openWith(t, s, func(conf *Config) { conf.Model = c.model }), r); h.err != nil {
			t.Fatal(h.err)
		}
		for _, name := range []string{`"temperature":0`, `"top_p":0`} {
			if strings.Contains(string(s.bodies[0]), name) != c.sent {
				t.Errorf("%s as %s: %s", c.model, c.purpose, s.bodies[0])
			}
		}
	}
}

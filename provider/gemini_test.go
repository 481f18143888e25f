package provider

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
)

var (
	flash = vendors[3] // of the second generation
	gem   = vendor{provider: Gemini, model: "gemini-3.8-flash"}
)

// geminiRecorded thinks, says something, calls two tools, and signs what it did.
var geminiRecorded = geminiChunkOf(`{"text": "**Look","thought": true},{"text": "ing**","thought": true}`, "") +
	geminiChunkOf(`{"text": "Let me \ud83d"}`, "") + geminiChunkOf(`{"text": "\ude00 look."}`, "") +
	geminiChunkOf(`{"functionCall": {"name": "ops__df","args": {"path": "/"},"id": "abc1"},"thoughtSignature": "c2lnMQ=="}`, "") +
	geminiChunkOf(`{"functionCall": {"name": "_7zip__list"}}`, "") +
	`data: {"candidates": [{"content": {"parts": [{"text": "","thoughtSignature": "c2lnMg=="}],"role": "model"},"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 1000,"cachedContentTokenCount": 600,"candidatesTokenCount": 50,"thoughtsTokenCount": 150,"totalTokenCount": 1200},"modelVersion": "gemini-3.8-flash"}` + "\r\n\r\n"

var geminiTools7 = []agent.Offer{{Name: "ops__df", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "7zip__list", Description: "d"}}

func TestGeminiThoughtsTextAndCalls(t *testing.T) {
	r := hello
	r.Tools = geminiTools7
	h := ask(t, gem.open(t, serve(t, events(geminiRecorded))), r)
	if h.err != nil {
		t.Fatal(h.err)
	}
	want := []agent.Call{{ID: "abc1", Name: "ops__df", Arguments: `{"path": "/"}`}, {Name: "7zip__list", Arguments: `{}`}}
	if diff := cmp.Diff(want, h.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if h.Text != "Let me "+smile+" look." || h.channel(agent.ChannelReasoning) != "**Looking**" || h.Reason != agent.ReasonToolCalls || h.Model != gem.model {
		t.Errorf("%+v, thought %q", h.Response, h.channel(agent.ChannelReasoning))
	}
	u := h.Usage
	if u.InputTokens != 1000 || u.CacheReadTokens != 600 || u.OutputTokens != 200 || u.ReasoningTokens != 150 || u.TotalTokens != 1200 {
		t.Errorf("usage %+v", u)
	}
	// 400 × 1.50 + 600 × 0.15 + 200 × 7.50 USD per million
	if *u.CostUSD != 2_190_000 {
		t.Errorf("cost %d", *u.CostUSD)
	}
}

// contents are those of a request.
func contents(t *testing.T, body []byte) []byte {
	t.Helper()
	var q struct{ Contents json.RawMessage }
	if err := json.Unmarshal(body, &q); err != nil {
		t.Fatal(err)
	}
	return q.Contents
}

func TestGeminiSignaturesGoBack(t *testing.T) {
	r := hello
	r.Tools = geminiTools7
	first := ask(t, gem.open(t, serve(t, events(geminiRecorded))), r)
	first.Calls[1].ID = "tip_1" // as the loop calls it
	r.Messages = append(r.Messages[:1:1],
		agent.Message{Role: agent.Assistant, Text: first.Text, Calls: first.Calls, Opaque: first.Opaque},
		agent.Message{Role: agent.FromTool, CallID: "abc1", Content: []agent.Content{{Type: "text", Text: "97%"}, {Type: "image", MimeType: "image/png", Data: []byte("PNG")}}},
		agent.Message{Role: agent.FromTool, CallID: "tip_1", IsError: true, Content: []agent.Content{{Type: "text", Text: "gone"}}},
		agent.Message{Role: agent.User, Text: "Well?"})
	s := serve(t, events(geminiRecorded))
	ask(t, gem.open(t, s), r)
	ask(t, flash.open(t, s), r)
	sameJSON(t, "to the same model", contents(t, s.bodies[0]), `[{"role":"user","parts":[{"text":"Hello"}]},
		{"role":"model","parts":[{"text":"Let me `+smile+` look."},{"functionCall":{"id":"abc1","name":"ops__df","args":{"path":"/"}},"thoughtSignature":"c2lnMQ=="},
			{"functionCall":{"id":"tip_1","name":"_7zip__list"}},{"text":"","thoughtSignature":"c2lnMg=="}]},
		{"role":"user","parts":[{"functionResponse":{"id":"abc1","name":"ops__df","response":{"output":"97%\n[image 1, below]"},"parts":[{"inlineData":{"mimeType":"image/png","data":"UE5H"}}]}},
			{"functionResponse":{"id":"tip_1","name":"_7zip__list","response":{"error":"gone"}}}]},
		{"role":"user","parts":[{"text":"Well?"}]}]`)
	sameJSON(t, "to one that takes text alone in results", contents(t, s.bodies[1]), `[{"role":"user","parts":[{"text":"Hello"}]},
		{"role":"model","parts":[{"text":"Let me `+smile+` look."},{"functionCall":{"id":"abc1","name":"ops__df","args":{"path":"/"}}},{"functionCall":{"id":"tip_1","name":"_7zip__list"}}]},
		{"role":"user","parts":[{"functionResponse":{"id":"abc1","name":"ops__df","response":{"output":"97%\n[image 1, below]"}}},
			{"functionResponse":{"id":"tip_1","name":"_7zip__list","response":{"error":"gone"}}}]},
		{"role":"user","parts":[{"text":"[image 1, of call abc1]"},{"inlineData":{"mimeType":"image/png","data":"UE5H"}},{"text":"Well?"}]}]`)
}

// A text that is signed is not joined with one that is not.
func TestGeminiSignedTexts(t *testing.T) {
	for _, c := range []struct{ name, body, parts string }{
		{"after another", geminiDelta(`"ab"`) + geminiDelta(`"c"`) + geminiChunkOf(`{"text":"de","thoughtSignature":"cw=="}`, "") + geminiDelta(`"f"`), `[{"text":3},{"text":2,"signature":"cw=="},{"text":1}]`},
		{"alone", geminiChunkOf(`{"text":"abcdef","thoughtSignature":"cw=="}`, ""), `[{"text":6,"signature":"cw=="}]`},
		{"without text", geminiDelta(`"abcdef"`) + geminiChunkOf(`{"thoughtSignature":"cw=="}`, ""), `[{"text":6},{"signature":"cw=="}]`},
		{"a thought", geminiChunkOf(`{"text":"hm","thought":true,"thoughtSignature":"cw=="}`, "") + geminiDelta(`"abcdef"`), `[{"block":{"text":"hm","thought":true,"thoughtSignature":"cw=="}},{"text":6}]`},
	} {
		h := ask(t, gem.open(t, serve(t, events(c.body+geminiChunkOf("", "STOP")))), hello)
		if h.err != nil || h.Text != "abcdef" {
			t.Errorf("%s: %q, %v", c.name, h.Text, h.err)
			continue
		}
		sameJSON(t, c.name, h.Opaque, `{"provider":"gemini","model":"gemini-3.8-flash","parts":`+c.parts+`}`)
	}
}

func TestGeminiFinishReasons(t *testing.T) {
	call, text := `{"functionCall":{"name":"n"}}`, `{"text":"a"}`
	for _, c := range []struct {
		parts, reason string
		want          agent.Reason
	}{
		{text, "STOP", agent.ReasonStop}, {call, "STOP", agent.ReasonToolCalls}, {text, "MAX_TOKENS", agent.ReasonLength}, {call, "MAX_TOKENS", agent.ReasonLength},
		{text, "SAFETY", agent.ReasonContentFilter}, {text, "RECITATION", agent.ReasonContentFilter}, {text, "BLOCKLIST", agent.ReasonContentFilter},
		{text, "PROHIBITED_CONTENT", agent.ReasonContentFilter}, {text, "SPII", agent.ReasonContentFilter}, {text, "IMAGE_SAFETY", agent.ReasonContentFilter},
		{`{"executableCode":{"language":"PYTHON","code":"1"}},` + text, "STOP", agent.ReasonStop},
	} {
		if h := ask(t, gem.open(t, serve(t, events(geminiChunkOf(c.parts, c.reason)))), hello); h.err != nil || h.Reason != c.want {
			t.Errorf("%s: %+v, %v", c.reason, h.Response, h.err)
		}
	}
	blocked := `data: {"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":25},"modelVersion":"m"}` + "\n\n"
	if h := ask(t, gem.open(t, serve(t, events(blocked))), hello); h.err != nil || h.Reason != agent.ReasonContentFilter || h.Usage.InputTokens != 25 {
		t.Errorf("blocked: %+v, %v", h.Response, h.err)
	}
	for reason, code := range map[string]string{"MALFORMED_FUNCTION_CALL": CodeTruncated, "UNEXPECTED_TOOL_CALL": CodeTruncated, "TOO_MANY_TOOL_CALLS": CodeTruncated, "OTHER": CodeTruncated, "ENNUI": CodeProtocol} {
		e := failed(t, ask(t, gem.open(t, serve(t, events(geminiChunkOf(text, reason)))), hello), code)
		if e.Retry != (code == CodeTruncated) || !strings.Contains(e.Message, reason) {
			t.Errorf("%s: %+v", reason, e)
		}
	}
}

func TestGeminiFaults(t *testing.T) {
	object := func(code, status, message, details string) string {
		return `{"error":{"code":` + code + `,"message":"` + message + `","status":"` + status + `","details":[` + details + `]}}`
	}
	for _, c := range []struct {
		name, body, code string
		status           int
		after            time.Duration
	}{
		{"quota", object("429", "RESOURCE_EXHAUSTED", "You exceeded your current quota", `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"},{"@type":"x"}`), CodeRateLimited, 429, 34500 * time.Millisecond},
		{"in a list", "[" + object("429", "RESOURCE_EXHAUSTED", "Slow", `{"retryDelay":"2s"}`) + "]", CodeRateLimited, 429, 2 * time.Second},
		{"too long a wait", object("429", "RESOURCE_EXHAUSTED", "Tomorrow", `{"retryDelay":"3600s"}`), CodeRateLimited, 429, 0},
		{"key", object("400", "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", ""), CodeAuth, 400, 0},
		{"denied", object("403", "PERMISSION_DENIED", "No", ""), CodeAuth, 403, 0},
		{"schema", object("400", "INVALID_ARGUMENT", "Unknown name", ""), CodeRejected, 400, 0},
		{"model", object("404", "NOT_FOUND", "models/x is not found", ""), CodeRejected, 404, 0},
		{"busy", object("503", "UNAVAILABLE", "The model is overloaded", ""), CodeUnavailable, 503, 0},
	} {
		e := failed(t, ask(t, gem.open(t, serve(t, refuses(c.status, c.body))), hello), c.code)
		if e.After != c.after || strings.Contains(e.Message, "openai-chat") {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
	for name, body := range map[string]string{"429": CodeRateLimited, "503": CodeUnavailable, "400": CodeRejected} {
		h := ask(t, gem.open(t, serve(t, events(geminiDelta(`"Hel"`)+"data: "+object(name, "X", "m", "")+"\n\n"))), hello)
		failed(t, h, body)
	}
}

func TestGeminiRequest(t *testing.T) {
	s := serve(t, events(geminiSays(`"a"`)))
	r := agent.Request{System: "Be brief.", MaxOutputTokens: 1000, Temperature: new(0.5), TopP: new(0.9), Purpose: agent.PurposeTurn, Tools: geminiTools7,
		Messages:     []agent.Message{{Role: agent.User, Text: "Hello"}, {Role: agent.Assistant}, {Role: agent.User, Text: "Hello?"}},
		OutputSchema: json.RawMessage(`{"type":"object"}`)}
	ask(t, gem.open(t, s), r)
	sameJSON(t, "request", s.bodies[0], `{"systemInstruction":{"role":"user","parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"Hello"},{"text":"Hello?"}]}],
		"tools":[{"functionDeclarations":[{"name":"ops__df","parametersJsonSchema":{"type":"object"}},{"name":"_7zip__list","description":"d"}]}],
		"generationConfig":{"temperature":0.5,"topP":0.9,"maxOutputTokens":1000,"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}}`)
}

// Early models take a schema of the answer or tools, not both: the loop checks the answer
// all the same.
func TestGeminiSchemaBesideTools(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			refuses(400, `{"error":{"code":400,"message":"Function calling with a response mime type: 'application/json' is unsupported","status":"INVALID_ARGUMENT"}}`)(n, w, r)
			return
		}
		events(geminiSays(`"a"`))(n, w, r)
	})
	m, r := flash.open(t, s), hello
	r.OutputSchema = json.RawMessage(`{"type":"object"}`)
	r.Tools = geminiTools7
	ask(t, m, r)
	r.Tools = nil
	ask(t, m, r)
	for i, want := range []bool{true, false, true} {
		if strings.Contains(string(s.bodies[i]), "responseJsonSchema") != want {
			t.Errorf("request %d: %s", i+1, s.bodies[i])
		}
	}
}

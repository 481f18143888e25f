package provider

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// testKey is as long and as odd as real ones.
const testKey = "key-0123456789abcdefghijklmnopqrstuvwxyz_TEST"

// vendorServer is a loopback server that speaks a vendor's format: respond writes
// the answer to the n-th request.
type vendorServer struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
	heads  []http.Header
	paths  []string
}

func serve(t *testing.T, respond func(n int, w http.ResponseWriter, r *http.Request)) *vendorServer {
	t.Helper()
	s := &vendorServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the request cannot be read: %v", err)
		}
		s.mu.Lock()
		s.bodies, s.heads, s.paths = append(s.bodies, body), append(s.heads, r.Header.Clone()), append(s.paths, r.URL.Path)
		n := len(s.bodies)
		s.mu.Unlock()
		respond(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *vendorServer) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// events answers with an event stream.
func events(body string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, body)
	}
}

// refuses answers with an error.
func refuses(status int, body string, header ...string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// vendor is what all formats have in common, in the words of each.
type vendor struct {
	provider, model string
	text            func(deltas ...string) string // a stream that says these, each a JSON string
	broken          string                        // a stream that just ends after saying "Hel"
	overloaded      string                        // one that reports an overload after saying "Hel"
	overflow        string                        // the body of a 400 for a request that is too long
	keyEcho         string                        // the body of a 401 that shows the key
}

var vendors = []vendor{
	{
		provider: Anthropic, model: "claude-sonnet-4-5",
		text:       anthropicText,
		broken:     anthropicHead + anthropicDelta(`"Hel"`),
		overloaded: anthropicHead + anthropicDelta(`"Hel"`) + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		overflow:   `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`,
		keyEcho:    `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key ` + testKey + `"}}`,
	},
	{
		provider: OpenAIChat, model: "gpt-4.1",
		text:       chatText,
		broken:     chatDelta(`"Hel"`),
		overloaded: chatDelta(`"Hel"`) + "data: {\"error\":{\"message\":\"The server is overloaded\",\"type\":\"server_error\",\"code\":\"overloaded\"}}\n\n",
		overflow:   `{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		keyEcho:    `{"error":{"message":"Incorrect API key provided: key-0123*****************************TEST (` + testKey + `).","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
	},
	{
		provider: OpenAI, model: "gpt-4.1",
		text:       openAISays,
		broken:     openAIHead + openAIDelta(`"Hel"`),
		overloaded: openAIHead + openAIDelta(`"Hel"`) + "event: response.failed\ndata: " + `{"type":"response.failed","sequence_number":9,"response":{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_error","message":"The model is overloaded"},"model":"gpt-4.1-2025-04-14","output":[],"usage":null}}` + "\n\n",
		overflow:   `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`,
		keyEcho:    `{"error":{"message":"Incorrect API key provided: key-0123*****************************TEST (` + testKey + `).","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
	},
	{
		provider: Gemini, model: "gemini-2.5-flash",
		text:       geminiSays,
		broken:     geminiDelta(`"Hel"`),
		overloaded: geminiDelta(`"Hel"`) + `data: {"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}` + "\n\n",
		overflow:   `{"error":{"code":400,"message":"The input token count (1048999) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`,
		keyEcho:    `{"error":{"code":401,"message":"API key not valid: ` + testKey + `","status":"UNAUTHENTICATED"}}`,
	},
}

func (v vendor) open(t *testing.T, s *vendorServer) agent.Model {
	t.Helper()
	return v.openWith(t, s, nil)
}

func (v vendor) openWith(t *testing.T, s *vendorServer, change func(*Config)) agent.Model {
	t.Helper()
	c := Config{Provider: v.provider, Model: v.model, APIKey: testKey, BaseURL: s.URL}
	if change != nil {
		change(&c)
	}
	dial := (&net.Dialer{}).DialContext
	m, err := open(c, dial)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func eachVendor(t *testing.T, run func(t *testing.T, v vendor)) {
	for _, v := range vendors {
		t.Run(v.provider, func(t *testing.T) { run(t, v) })
	}
}

// heard is what a stream brought.
type heard struct {
	agent.Response
	err    error
	deltas []agent.Delta
}

func (h heard) channel(name string) (text string) {
	for _, d := range h.deltas {
		if d.Channel == name {
			text += d.Text
		}
	}
	return text
}

var hello = agent.Request{
	Messages: []agent.Message{{Role: agent.User, Text: "Hello"}}, MaxOutputTokens: 100, Path: "turn/model#1", Attempt: 1, Purpose: agent.PurposeTurn,
}

// ask streams one answer and checks what holds for every stream. It says what the answer
// cost, which is for the caller of a model to say.
func ask(t *testing.T, m agent.Model, r agent.Request) heard {
	t.Helper()
	return askIn(context.Background(), t, m, r)
}

func askIn(ctx context.Context, t *testing.T, m agent.Model, r agent.Request) (h heard) {
	t.Helper()
	h.Response, h.err = m.Stream(ctx, r, func(d agent.Delta) { h.deltas = append(h.deltas, d) })
	if price := m.Caps().Price; price != nil && h.Usage != nil {
		if h.Usage.CostUSD != nil {
			t.Error("the model says what it cost")
		}
		cost := price.Cost(*h.Usage)
		h.Usage.CostUSD = &cost
	}
	for _, d := range h.deltas {
		if d.Text == "" || !utf8.ValidString(d.Text) {
			t.Errorf("the delta %q is empty or not UTF-8", d.Text)
		}
	}
	if got := h.channel(agent.ChannelAnswer); got != h.Text {
		t.Errorf("the deltas add up to %q, the text is %q", got, h.Text)
	}
	if h.err != nil && (h.Calls != nil || h.Reason != "") {
		t.Errorf("an answer that failed has calls or a reason: %+v", h.Response)
	}
	if h.err != nil && strings.Contains(h.err.Error(), testKey) {
		t.Errorf("the key is in the error: %v", h.err)
	}
	return h
}

// failed is the failure with which a stream ended.
func failed(t *testing.T, h heard, code string) *flow.Error {
	t.Helper()
	var e *flow.Error
	if !errors.As(h.err, &e) || e.Code != code {
		t.Fatalf("got %v, want the code %s", h.err, code)
	}
	return e
}

// sameJSON compares two documents, however they are written.
func sameJSON(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %v in %s", what, err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v in what is wanted", what, err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// The streams below are written by hand. In test/referee the vendors' own SDKs read such streams, too.

const anthropicHead = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY","type":"message","role":"assistant","content":[],"model":"claude-sonnet-4-5-20250929","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type": "ping"}

`

func anthropicDelta(text string) string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":" + text + "}}\n\n"
}

func anthropicTail(reason string) string {
	return `event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

`
}

func anthropicText(deltas ...string) string {
	body := anthropicHead
	for _, d := range deltas {
		body += anthropicDelta(d)
	}
	return body + anthropicTail("end_turn")
}

func chatChunkOf(delta, reason string) string {
	return `data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4.1-2025-04-14","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + reason + "}],\"usage\":null}\n\n"
}

func chatDelta(text string) string { return chatChunkOf(`{"content":`+text+`}`, "null") }

const chatUsage = `data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4.1-2025-04-14","system_fingerprint":"fp_44709d6fcb","choices":[],"usage":{"prompt_tokens":25,"completion_tokens":15,"total_tokens":40,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}

`

func chatText(deltas ...string) string {
	body := chatChunkOf(`{"role":"assistant","content":"","refusal":null}`, "null")
	for _, d := range deltas {
		body += chatDelta(d)
	}
	return body + chatChunkOf(`{}`, `"stop"`) + chatUsage + "data: [DONE]\n\n"
}

// openAIEventOf is one event of the Responses format.
func openAIEventOf(kind, members string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\",\"sequence_number\":1," + members + "}\n\n"
}

func openAIDelta(text string) string {
	return openAIEventOf("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":`+text+`,"logprobs":[],"obfuscation":"x7"`)
}

var openAIHead = openAIEventOf("response.created", `"response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"incomplete_details":null,"model":"gpt-4.1-2025-04-14","output":[],"usage":null}`) +
	openAIEventOf("response.output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}`) +
	openAIEventOf("response.content_part.added", `"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`)

// openAIEndOf is how a response ends, with the rest of its members.
func openAIEndOf(status, members string) string {
	return openAIEventOf("response."+status, `"response":{"id":"resp_1","object":"response","status":"`+status+`","error":null,"model":"gpt-4.1-2025-04-14","output":[],`+members+
		`"usage":{"input_tokens":25,"input_tokens_details":{"cached_tokens":0},"output_tokens":15,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":40}}`)
}

func openAISays(deltas ...string) string {
	body := openAIHead
	for _, d := range deltas {
		body += openAIDelta(d)
	}
	return body + openAIEventOf("response.output_item.done", `"output_index":0,"item":{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"text":"all of it"}],"role":"assistant"}`) +
		openAIEndOf("completed", `"incomplete_details":null,`)
}

// geminiChunkOf is a chunk with these parts, and a reason as JSON unless it is "".
func geminiChunkOf(parts, reason string) string {
	if reason != "" {
		reason = `"finishReason":"` + reason + `",`
	}
	return `data: {"candidates": [{"content": {"parts": [` + parts + `],"role": "model"},` + reason + `"index": 0}],"usageMetadata": {"promptTokenCount": 25,"candidatesTokenCount": 15,"totalTokenCount": 40},"modelVersion": "gemini-2.5-flash-002","responseId": "r1"}` + "\r\n\r\n"
}

func geminiDelta(text string) string { return geminiChunkOf(`{"text": `+text+`}`, "") }

func geminiSays(deltas ...string) (body string) {
	for _, d := range deltas {
		body += geminiDelta(d)
	}
	return body + geminiChunkOf("", "STOP")
}

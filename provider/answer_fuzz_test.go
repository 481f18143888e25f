package provider

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// stream gives out the lines of body as the data of events.
func stream(body []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line := range bytes.Lines(body) {
			if !yield(line, nil) {
				return
			}
		}
	}
}

// checkStream is what holds of every stream, whatever a server sends: what is
// emitted is UTF-8 and adds up to the text, the end is an answer with a known reason
// or a failure with a known code, and the same stream ends alike.
func checkStream(t *testing.T, body []byte, assemble func(*wire, func(agent.Delta)) assembly) {
	w := newWire("vendor", "host", "", nil)
	var said string
	emit := func(d agent.Delta) {
		if d.Text == "" || !utf8.ValidString(d.Text) {
			t.Errorf("the delta %q is empty or not UTF-8", d.Text)
		}
		if d.Channel == agent.ChannelAnswer {
			said += d.Text
		}
	}
	r, err := w.follow(context.Background(), stream(body), assemble(w, emit))
	if said != r.Text {
		t.Errorf("the deltas add up to %q, the text is %q", said, r.Text)
	}
	if err != nil {
		checkFailure(t, r, err)
	} else {
		checkAnswer(t, r)
	}
	again, errAgain := w.follow(context.Background(), stream(body), assemble(w, func(agent.Delta) {}))
	if diff := cmp.Diff(r, again); diff != "" || (err == nil) != (errAgain == nil) {
		t.Errorf("%v, then %v:\n%s", err, errAgain, diff)
	}
}

func checkFailure(t *testing.T, r agent.Response, err error) {
	var e *flow.Error
	if !errors.As(err, &e) || !slices.Contains([]string{CodeAuth, CodeRejected, CodeOverflow, CodeRateLimited, CodeTruncated, CodeUnavailable, CodeProtocol}, e.Code) {
		t.Errorf("the failure is %v", err)
	}
	if r.Calls != nil || r.Usage != nil || r.Reason != "" {
		t.Errorf("an answer that failed has more than its text: %+v", r)
	}
}

func checkAnswer(t *testing.T, r agent.Response) {
	switch r.Reason {
	case agent.ReasonToolCalls:
		if len(r.Calls) == 0 {
			t.Error("for tool calls, and none")
		}
		for _, c := range r.Calls {
			if c.Name == "" || c.Arguments == "" {
				t.Errorf("the call %+v", c)
			}
		}
	case agent.ReasonStop:
		if len(r.Calls) > 0 {
			t.Errorf("stopped, with calls: %+v", r.Calls)
		}
	case agent.ReasonLength, agent.ReasonContentFilter:
	default:
		t.Errorf("the reason %q", r.Reason)
	}
	for _, c := range r.Calls {
		if !utf8.ValidString(c.Arguments) {
			t.Errorf("arguments %q", c.Arguments)
		}
	}
}

func assembleAnthropic(w *wire, emit func(agent.Delta)) assembly {
	return newAnthropicAnswer(w, "m", emit)
}

func assembleChat(w *wire, emit func(agent.Delta)) assembly {
	return newChatAnswer(w, emit)
}

func assembleOpenAI(w *wire, emit func(agent.Delta)) assembly {
	return newOpenAIAnswer(w, "m", emit)
}

func assembleGemini(w *wire, emit func(agent.Delta)) assembly {
	return newGeminiAnswer(w, "m", map[string]string{"_7": "7"}, emit)
}

// dataOf are the data of the events of a stream, one on a line.
func dataOf(stream string) (lines string) {
	for data, err := range serverSentEvents(strings.NewReader(stream)) {
		if err == nil {
			lines += string(data) + "\n"
		}
	}
	return lines
}

const (
	anthropicBegin = `{"type":"message_start","message":{"model":"m","usage":{"input_tokens":25,"cache_read_input_tokens":3,"output_tokens":1}}}` + "\n"
	anthropicStop  = `{"type":"message_stop"}` + "\n"
)

func anthropicReason(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":` + reason + `},"usage":{"output_tokens":15}}` + "\n"
}

var anthropicStreams = []string{
	anthropicBegin + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"He"}}
{"type":"ping"}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"llo \ud83d"}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00"}}
{"type":"content_block_stop","index":0}
` + anthropicReason(`"end_turn"`) + anthropicStop,
	anthropicBegin + `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}
{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"x"}}
{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"n","input":{"a":1}}}
{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"u","name":"n","input":{}}}
{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"b\":2}"}}
{"type":"content_block_start","index":4,"content_block":{"type":"hologram"}}
{"type":"content_block_delta","index":4,"delta":{"type":"beam_delta"}}
` + anthropicReason(`"tool_use"`) + anthropicStop,
	anthropicBegin + anthropicReason(`"refusal"`) + anthropicStop,
	anthropicBegin + anthropicReason(`"max_tokens"`) + anthropicStop,
	anthropicBegin + anthropicReason(`"pause_turn"`) + anthropicStop,
	anthropicBegin + anthropicReason(`"tool_use"`) + anthropicStop,
	anthropicBegin + anthropicStop,
	anthropicBegin + `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
	anthropicBegin,
	anthropicStop,
	"[]\n",
}

func FuzzAnthropicStream(f *testing.F) {
	for _, body := range anthropicStreams {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkStream(t, body, assembleAnthropic) })
}

var chatStreams = []string{
	`{"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"He"},"finish_reason":null}],"usage":null}
{"choices":[{"index":0,"delta":{"content":"llo \ud83d"}}]}
{"choices":[{"index":0,"delta":{"content":"\ude00","reasoning_content":"hm"}}]}
{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
{"choices":[],"usage":{"prompt_tokens":25,"completion_tokens":15,"prompt_tokens_details":{"cached_tokens":3}}}
[DONE]
`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"n","arguments":"{"}},{"id":"b","function":{"name":"m"}}]}}]}
{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}},{"function":{"arguments":"{}"}}]}}]}
[DONE]
`,
	`{"choices":[{"index":0,"delta":{"refusal":"no","function_call":{"name":"n","arguments":""}},"finish_reason":"length"}]}` + "\n",
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"ennui"}]}` + "\n",
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"tool_calls"}]}` + "\n",
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"content_filter"}]}` + "\n",
	`{"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n",
	`{"error":{"message":"m","type":"server_error","code":"overloaded"}}` + "\n",
	`{"error":null}` + "\n[DONE]\n",
	"1\n",
}

func FuzzChatStream(f *testing.F) {
	for _, body := range chatStreams {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkStream(t, body, assembleChat) })
}

func FuzzOpenAIStream(f *testing.F) {
	text, end := openAIMessage("0", "null", `"a"`), openAIEndOf("completed", "")
	for _, body := range []string{openAIRecorded, text + end, openAIThink + end, openAICall("0", "a", "", `"{"`) + end, text + text,
		strings.ReplaceAll(text, "output_text.delta", "refusal.delta") + end, openAIEndOf("incomplete", `"incomplete_details":{"reason":"max_output_tokens"},`),
		vendors[2].overloaded, openAIEventOf("error", `"code":"x","message":"y"`), openAIMessage("1", `"final_answer"`, `"\ud83d"`) + text + end, "data: 1\n\n"} {
		f.Add([]byte(dataOf(body)))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkStream(t, body, assembleOpenAI) })
}

func FuzzGeminiStream(f *testing.F) {
	for _, body := range []string{geminiRecorded, geminiSays(`"a\ud83d"`), geminiChunkOf(`{"text":"a","thoughtSignature":"cw=="},{"text":"b","thought":true,"thoughtSignature":"cw=="}`, "MAX_TOKENS"),
		geminiChunkOf(`{"functionCall":{"name":""}}`, "STOP"), geminiChunkOf("", "OTHER"), geminiChunkOf("", "ENNUI"), vendors[3].overloaded,
		`data: {"promptFeedback":{"blockReason":"SAFETY"}}` + "\n\n", "data: []\n\n"} {
		f.Add([]byte(dataOf(body)))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkStream(t, body, assembleGemini) })
}

// A stream that is cut off anywhere gives no other answer than the whole one, and none in
// parts: it fails, or what was cut off did not matter.
func TestStreamsCutAtEveryByte(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 7
	}
	calls := `{"content":"Let me \ud83d"}|{"content":"\ude00 look."}|{"tool_calls":[{"index":0,"id":"a","function":{"name":"n","arguments":"{\"x\""}}]}|{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`
	for name, c := range map[string]struct {
		body     string
		assemble func(*wire, func(agent.Delta)) assembly
	}{
		"anthropic":   {"data: " + strings.ReplaceAll(strings.TrimSpace(anthropicStreams[1]), "\n", "\n\ndata: ") + "\n\n", assembleAnthropic},
		"openai-chat": {chunks(`"tool_calls"`, strings.Split(calls, "|")...) + chatUsage + chatDone, assembleChat},
		"openai":      {openAIRecorded, assembleOpenAI},
		"gemini":      {geminiRecorded, assembleGemini},
	} {
		w := newWire(name, "host", "", nil)
		follow := func(body string) (agent.Response, error) {
			return w.follow(context.Background(), serverSentEvents(strings.NewReader(body)), c.assemble(w, func(d agent.Delta) {
				if !utf8.ValidString(d.Text) {
					t.Errorf("%s: the delta %q is not UTF-8", name, d.Text)
				}
			}))
		}
		whole, err := follow(c.body)
		if err != nil || len(whole.Calls) == 0 {
			t.Fatalf("%s: %+v, %v", name, whole, err)
		}
		for n := 0; n < len(c.body); n += stride {
			cut, err := follow(c.body[:n])
			if err != nil {
				checkFailure(t, cut, err)
				if !strings.HasPrefix(whole.Text, cut.Text) {
					t.Errorf("%s cut at %d said %q", name, n, cut.Text)
				}
				continue
			}
			cut.Usage = whole.Usage // which may come after the reason
			if diff := cmp.Diff(whole, cut); diff != "" {
				t.Errorf("%s cut at %d (-whole +cut):\n%s", name, n, diff)
			}
		}
	}
}

// An answer of many megabytes in small pieces costs no more than its size.
func TestHugeStreams(t *testing.T) {
	const pieces, size = 200, 10_000
	text := `"` + strings.Repeat("x", size) + `"`
	for _, v := range vendors {
		body := v.text(slices.Repeat([]string{text}, pieces)...)
		r, err := v.open(t, serve(t, events(body))).Stream(context.Background(), hello, func(agent.Delta) {})
		if err != nil || len(r.Text) != pieces*size {
			t.Errorf("%s: %d bytes, %v", v.provider, len(r.Text), err)
		}
		long := v.text(`"` + strings.Repeat("x", maxEvent) + `"`)
		failed(t, ask(t, v.open(t, serve(t, events(long))), hello), CodeProtocol)
	}
}

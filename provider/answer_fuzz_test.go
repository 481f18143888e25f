package provider

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
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

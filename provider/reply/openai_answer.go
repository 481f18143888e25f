package reply

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
)

// openAIAnswer assembles an answer from the chunks of the chat completions format.
type openAIAnswer struct {
	wire      *Wire
	price     *agent.Price
	said      speech
	reasoning speech

	content, refusal, thought joiner
	refused                   bool
	model                     string
	reason                    string // "": none came
	calls                     []*openAICall
	usage                     *agent.Usage
}

// openAICall is a call as its pieces come.
type openAICall struct {
	index     *int // nil: the server does not number them
	id, name  string
	joiner    joiner
	arguments strings.Builder
}

type openAIChunk struct {
	Model   string         `json:"model"`
	Choices []openAIChoice `json:"choices"`
	Usage   *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached     int64 `json:"cached_tokens"`
			CacheWrite int64 `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type openAIChoice struct {
	Index int `json:"index"`
	Delta struct {
		Content   json.RawMessage   `json:"content"`
		Refusal   json.RawMessage   `json:"refusal"`
		Reasoning json.RawMessage   `json:"reasoning_content"`
		Calls     []openAICallPiece `json:"tool_calls"`
		Function  *openAIFunction   `json:"function_call"` // the form before tool_calls
	} `json:"delta"`
	Reason string `json:"finish_reason"`
}

type openAICallPiece struct {
	Index    *int           `json:"index"`
	ID       string         `json:"id"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func NewOpenAI(w *Wire, price *agent.Price, emit func(agent.Delta)) *openAIAnswer {
	return &openAIAnswer{
		wire: w, price: price,
		said:      speech{channel: agent.ChannelAnswer, emit: emit},
		reasoning: speech{channel: agent.ChannelReasoning, emit: emit},
	}
}

// take reads one chunk. The finish reason is not the end: usage comes after it.
func (a *openAIAnswer) take(data []byte) (whole bool, err error) {
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		return true, a.done()
	}
	var c openAIChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, a.wire.protocol("a chunk cannot be read: %v", err)
	}
	if !isNull(c.Error) {
		f := parseErrorObject(c.Error)
		f.Status = statusOf(f.Kind)
		return false, a.wire.Failure(f)
	}
	if c.Model != "" {
		a.model = c.Model
	}
	if u := c.Usage; u != nil {
		a.usage = &agent.Usage{
			InputTokens:      u.Prompt, // cached ones included
			OutputTokens:     u.Completion,
			CacheReadTokens:  u.Details.Cached,
			CacheWriteTokens: u.Details.CacheWrite,
			ReasoningTokens:  u.OutputDetails.Reasoning,
		}
	}
	for _, choice := range c.Choices {
		if choice.Index == 0 { // one is all that is asked for
			if err := a.extend(choice); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

func (a *openAIAnswer) extend(c openAIChoice) error {
	for _, p := range []struct {
		joiner *joiner
		raw    json.RawMessage
		to     *speech
	}{
		{&a.thought, c.Delta.Reasoning, &a.reasoning},
		{&a.content, c.Delta.Content, &a.said},
		{&a.refusal, c.Delta.Refusal, &a.said},
	} {
		text, err := p.joiner.add(p.raw)
		if err != nil {
			return a.wire.protocol("%v", err)
		}
		a.refused = a.refused || p.joiner == &a.refusal && text != ""
		p.to.say(text)
	}
	if f := c.Delta.Function; f != nil {
		c.Delta.Calls = append(c.Delta.Calls, openAICallPiece{Index: new(int), Function: *f})
	}
	for _, piece := range c.Delta.Calls {
		if err := a.extendCall(piece); err != nil {
			return err
		}
	}
	if c.Reason != "" {
		a.reason = c.Reason
	}
	return nil
}

func (a *openAIAnswer) extendCall(p openAICallPiece) error {
	call := a.call(p)
	if call.id == "" {
		call.id = p.ID
	}
	if call.name == "" {
		call.name = p.Function.Name
	}
	text, err := call.joiner.add(p.Function.Arguments)
	if err != nil {
		return a.wire.protocol("the arguments of a call: %v", err)
	}
	call.arguments.WriteString(text)
	return nil
}

// call finds the call that a piece belongs to: by its number; without one by its
// id, and without that it is the last one's.
func (a *openAIAnswer) call(p openAICallPiece) *openAICall {
	for _, c := range a.calls {
		switch {
		case p.Index != nil && c.index != nil && *p.Index == *c.index,
			p.Index == nil && p.ID != "" && p.ID == c.id:
			return c
		}
	}
	if n := len(a.calls); p.Index == nil && p.ID == "" && n > 0 {
		return a.calls[n-1]
	}
	c := &openAICall{index: p.Index}
	a.calls = append(a.calls, c)
	return c
}

// done is asked at the mark that ends a stream. Only calls need no reason.
func (a *openAIAnswer) done() error {
	if a.reason == "" && len(a.calls) == 0 {
		return a.wire.protocol("the answer ended without a finish reason")
	}
	return nil
}

// ended accepts a stream that ends without the mark, once there was a reason.
func (a *openAIAnswer) ended() error {
	if a.reason == "" {
		return a.wire.Truncated("the stream ended without a finish reason")
	}
	return nil
}

func (a *openAIAnswer) partial() agent.Response {
	return agent.Response{Text: a.said.text.String(), Model: a.model}
}

func (a *openAIAnswer) answer() (agent.Response, error) {
	a.reasoning.say(a.thought.end())
	a.said.say(a.content.end() + a.refusal.end())
	r := a.partial()
	for _, c := range a.calls {
		c.arguments.WriteString(c.joiner.end())
		arguments := c.arguments.String()
		if strings.TrimSpace(arguments) == "" {
			arguments = EmptyArguments
		}
		r.Calls = append(r.Calls, agent.Call{ID: c.id, Name: c.name, Arguments: arguments})
	}
	reason, err := a.finishReason()
	if err != nil {
		return r, err
	}
	if r.Reason, err = a.wire.settle(reason, r.Calls); err != nil {
		return r, err
	}
	r.Usage = Priced(a.usage, a.price)
	return r, nil
}

func (a *openAIAnswer) finishReason() (agent.Reason, error) {
	if a.refused {
		return agent.ReasonContentFilter, nil
	}
	switch a.reason {
	case "stop", "eos", "":
		return agent.ReasonStop, nil // with calls it is for them
	case "tool_calls", "function_call":
		return agent.ReasonToolCalls, nil
	case "length":
		return agent.ReasonLength, nil
	case "content_filter":
		return agent.ReasonContentFilter, nil
	}
	return "", a.wire.protocol("the finish reason %q is unknown", a.reason)
}

package reply

import (
	"encoding/json"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// anthropicAnswer assembles an answer from the events of the Messages format.
type anthropicAnswer struct {
	wire      *Wire
	name      string // as configured
	price     *agent.Price
	said      speech
	reasoning speech

	begun  bool
	model  string // as the vendor says
	reason *string
	blocks []*anthropicBlock // in the order in which they began
	usage  anthropicUsage
}

// anthropicBlock is one block of content. Those of unknown kinds are left out of
// the answer.
type anthropicBlock struct {
	index     int
	kind      string
	start     json.RawMessage // as it began
	id, name  string
	joiner    joiner
	text      strings.Builder // of the answer, of reasoning, or of a call's input
	signature strings.Builder
}

// Kinds of blocks.
const (
	blockText     = "text"
	blockThinking = "thinking"
	blockRedacted = "redacted_thinking"
	blockCall     = "tool_use"
)

type anthropicEvent struct {
	Type    string `json:"type"`
	Message struct {
		Model string         `json:"model"`
		Usage anthropicUsage `json:"usage"`
	} `json:"message"`
	Index int             `json:"index"`
	Block json.RawMessage `json:"content_block"`
	Delta struct {
		Text       json.RawMessage `json:"text"`
		Thinking   json.RawMessage `json:"thinking"`
		Input      json.RawMessage `json:"partial_json"`
		Signature  string          `json:"signature"`
		StopReason *string         `json:"stop_reason"`
	} `json:"delta"`
	Usage anthropicUsage  `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// anthropicUsage holds totals, never increments. nil: not said.
type anthropicUsage struct {
	Input      *int64 `json:"input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Output     *int64 `json:"output_tokens"`
	Details    struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func NewAnthropic(w *Wire, name string, price *agent.Price, emit func(agent.Delta)) *anthropicAnswer {
	return &anthropicAnswer{
		wire: w, name: name, price: price,
		said:      speech{channel: agent.ChannelAnswer, emit: emit},
		reasoning: speech{channel: agent.ChannelReasoning, emit: emit},
	}
}

func (a *anthropicAnswer) take(data []byte) (whole bool, err error) {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, a.wire.protocol("an event cannot be read: %v", err)
	}
	switch e.Type {
	case "error":
		f := parseErrorObject(e.Error)
		f.Status = statusOf(f.Kind)
		return false, a.wire.Failure(f)
	case "message_start":
		a.begun, a.model = true, e.Message.Model
		a.usage.update(e.Message.Usage)
		return false, nil
	case "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop":
		if !a.begun {
			return false, a.wire.protocol("%s came before message_start", e.Type)
		}
	}
	switch e.Type {
	case "content_block_start":
		return false, a.begin(e)
	case "content_block_delta":
		return false, a.extend(e)
	case "content_block_stop":
		a.close(a.block(e.Index))
	case "message_delta":
		a.usage.update(e.Usage)
		if e.Delta.StopReason != nil {
			a.reason = e.Delta.StopReason
		}
	case "message_stop":
		return true, nil
	}
	return false, nil // pings, and what later versions add
}

func (a *anthropicAnswer) begin(e anthropicEvent) error {
	var start struct {
		Type     string          `json:"type"`
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Text     json.RawMessage `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if err := json.Unmarshal(e.Block, &start); err != nil {
		return a.wire.protocol("the beginning of block %d cannot be read: %v", e.Index, err)
	}
	if a.block(e.Index) != nil {
		return a.wire.protocol("block %d began twice", e.Index)
	}
	b := &anthropicBlock{index: e.Index, kind: start.Type, start: append(json.RawMessage(nil), e.Block...), id: start.ID, name: start.Name}
	a.blocks = append(a.blocks, b)
	switch b.kind {
	case blockText:
		return a.append(b, start.Text)
	case blockThinking:
		return a.append(b, start.Thinking)
	}
	return nil
}

func (a *anthropicAnswer) block(index int) *anthropicBlock {
	for _, b := range a.blocks {
		if b.index == index {
			return b
		}
	}
	return nil
}

func (a *anthropicAnswer) extend(e anthropicEvent) error {
	b := a.block(e.Index)
	if b == nil {
		return a.wire.protocol("block %d goes on and never began", e.Index)
	}
	switch b.kind {
	case blockText:
		return a.append(b, e.Delta.Text)
	case blockThinking:
		b.signature.WriteString(e.Delta.Signature)
		return a.append(b, e.Delta.Thinking)
	case blockCall:
		return a.append(b, e.Delta.Input)
	}
	return nil
}

func (a *anthropicAnswer) append(b *anthropicBlock, raw json.RawMessage) error {
	text, err := b.joiner.add(raw)
	if err != nil {
		return a.wire.protocol("block %d: %v", b.index, err)
	}
	a.add(b, text)
	return nil
}

func (a *anthropicAnswer) add(b *anthropicBlock, text string) {
	b.text.WriteString(text)
	switch b.kind {
	case blockText:
		a.said.say(text)
	case blockThinking:
		a.reasoning.say(text)
	}
}

func (a *anthropicAnswer) close(b *anthropicBlock) {
	if b != nil {
		a.add(b, b.joiner.end())
	}
}

func (a *anthropicAnswer) ended() error {
	return a.wire.Truncated("the stream ended before message_stop")
}

func (a *anthropicAnswer) partial() agent.Response {
	return agent.Response{Text: a.said.text.String(), Model: a.model}
}

func (a *anthropicAnswer) answer() (agent.Response, error) {
	for _, b := range a.blocks {
		a.close(b)
	}
	r := a.partial()
	for _, b := range a.blocks {
		if b.kind == blockCall {
			r.Calls = append(r.Calls, agent.Call{ID: b.id, Name: b.name, Arguments: b.input()})
		}
	}
	reason, err := a.finishReason()
	if err != nil {
		return r, err
	}
	if r.Reason, err = a.wire.settle(reason, r.Calls); err != nil {
		return r, err
	}
	r.Usage = Priced(a.usage.total(), a.price)
	r.Opaque = a.opaque()
	return r, nil
}

func (a *anthropicAnswer) finishReason() (agent.Reason, error) {
	if a.reason == nil {
		return "", a.wire.protocol("the answer ended without a stop reason")
	}
	switch *a.reason {
	case "end_turn", "stop_sequence":
		return agent.ReasonStop, nil
	case "tool_use":
		return agent.ReasonToolCalls, nil
	case "max_tokens", "model_context_window_exceeded":
		return agent.ReasonLength, nil
	case "refusal":
		return agent.ReasonContentFilter, nil
	}
	return "", a.wire.protocol("the stop reason %q is unknown", *a.reason)
}

// input is a call's arguments: what was streamed, else what stood at the beginning.
func (b *anthropicBlock) input() string {
	if b.text.Len() > 0 {
		return b.text.String()
	}
	var start struct {
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(b.start, &start) != nil || isNull(start.Input) {
		return EmptyArguments
	}
	return string(start.Input)
}

// opaque is the vendor's own blocks and their places; nil if there are none.
func (a *anthropicAnswer) opaque() json.RawMessage {
	o, any := Opaque{Provider: Anthropic, Model: a.name}, false
	for _, b := range a.blocks {
		switch b.kind {
		case blockThinking, blockRedacted:
			o.Parts, any = append(o.Parts, Part{Block: b.whole()}), true
		case blockText:
			if b.text.Len() > 0 {
				o.Parts = append(o.Parts, Part{Text: b.text.Len()})
			}
		case blockCall:
			o.Parts = append(o.Parts, Part{Call: true})
		}
	}
	if !any {
		return nil
	}
	return flow.JSON(o)
}

// whole is a block of reasoning as it must go back: as it began, with what was
// streamed into it.
func (b *anthropicBlock) whole() json.RawMessage {
	if b.kind == blockRedacted {
		return b.start
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b.start, &members) != nil {
		return b.start
	}
	members["thinking"] = flow.JSON(b.text.String())
	if b.signature.Len() > 0 {
		members["signature"] = flow.JSON(b.signature.String())
	}
	return flow.JSON(members)
}

func (u *anthropicUsage) update(by anthropicUsage) {
	for _, total := range []struct{ have, said **int64 }{
		{&u.Input, &by.Input},
		{&u.CacheRead, &by.CacheRead},
		{&u.CacheWrite, &by.CacheWrite},
		{&u.Output, &by.Output},
		{&u.Details.Thinking, &by.Details.Thinking},
	} {
		if *total.said != nil {
			*total.have = *total.said
		}
	}
}

// total counts cached input as input. nil: the vendor said nothing.
func (u *anthropicUsage) total() *agent.Usage {
	if u.Input == nil || u.Output == nil {
		return nil
	}
	count := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	read, write := count(u.CacheRead), count(u.CacheWrite)
	return &agent.Usage{
		InputTokens:      *u.Input + read + write,
		OutputTokens:     *u.Output,
		CacheReadTokens:  read,
		CacheWriteTokens: write,
		ReasoningTokens:  count(u.Details.Thinking),
	}
}

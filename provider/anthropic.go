package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

const (
	anthropicAddress = "https://api.anthropic.com"
	anthropicVersion = "2023-06-01" // of the format
)

// anthropicModel speaks the Messages format.
type anthropicModel struct {
	vendorModel
	cache string
}

func newAnthropic(c Config, dial dialFunc) (agent.Model, error) {
	base, err := newVendor(c, anthropicAddress, "v1/messages", dial)
	if err != nil {
		return nil, err
	}
	m := &anthropicModel{base, cmp.Or(c.Cache, CacheShort)}
	if !slices.Contains([]string{CacheOff, CacheShort, CacheLong}, m.cache) {
		return nil, invalid("cache is %q", c.Cache).WithHint("use %s, %s or %s", CacheOff, CacheShort, CacheLong)
	}
	m.header.Set("Anthropic-Version", anthropicVersion)
	if c.APIKey != "" {
		m.header.Set("X-Api-Key", c.APIKey)
	}
	return m, nil
}

// Stream makes one attempt to answer.
func (m *anthropicModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	return m.wire.ask(ctx, m.url, m.header, m.request(r), newAnthropicAnswer(m.wire, m.name, emit))
}

// defaultOutput is asked for where a request names no limit: the format needs one.
const defaultOutput = 8192

// What a request is made of, as far as it is used here.
type (
	anthropicRequest struct {
		Model        string             `json:"model"`
		MaxTokens    int                `json:"max_tokens"`
		System       []any              `json:"system,omitempty"` // of blocks
		Tools        []*anthropicTool   `json:"tools,omitempty"`
		Messages     []anthropicMessage `json:"messages,omitempty"`
		Temperature  *float64           `json:"temperature,omitempty"`
		TopP         *float64           `json:"top_p,omitempty"`
		Thinking     *anthropicThinking `json:"thinking,omitempty"`
		OutputConfig anthropicOutput    `json:"output_config,omitzero"`
		Stream       bool               `json:"stream"`
	}
	anthropicThinking struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens,omitempty"`
		Display string `json:"display,omitempty"`
	}
	anthropicTool struct {
		Name         string          `json:"name"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl *cacheMark      `json:"cache_control,omitempty"`
	}
	anthropicMessage struct {
		Role    string `json:"role"`
		Content []any  `json:"content"` // *contentBlock, or json.RawMessage: the vendor's own
	}
	contentBlock struct {
		Type         string          `json:"type"`
		Text         string          `json:"text,omitempty"`
		Source       *imageSource    `json:"source,omitempty"`
		ID           string          `json:"id,omitempty"`
		Name         string          `json:"name,omitempty"`
		Input        json.RawMessage `json:"input,omitempty"`
		ToolUseID    string          `json:"tool_use_id,omitempty"`
		IsError      bool            `json:"is_error,omitempty"`
		Content      []*contentBlock `json:"content,omitempty"`
		CacheControl *cacheMark      `json:"cache_control,omitempty"`
	}
	imageSource struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type,omitempty"`
		Data      string `json:"data"`
	}
	cacheMark struct {
		TTL  string `json:"ttl,omitempty"` // "": five minutes
		Type string `json:"type"`
	}
	anthropicOutput struct {
		Effort string           `json:"effort,omitempty"`
		Format *anthropicFormat `json:"format,omitempty"`
	}
	anthropicFormat struct {
		Type   string  `json:"type"`
		Schema *schema `json:"schema"`
	}
)

// request is a conversation in the Messages format.
func (m *anthropicModel) request(r agent.Request) anthropicRequest {
	q := anthropicRequest{
		Model:     m.name,
		MaxTokens: r.MaxOutputTokens,
		System:    textBlocks(r.System),
		Messages:  m.conversation(r.Messages),
		Stream:    true,
	}
	if q.MaxTokens <= 0 {
		q.MaxTokens = defaultOutput
	}
	for _, o := range r.Tools {
		q.Tools = append(q.Tools, &anthropicTool{Name: o.Name, Description: o.Description, InputSchema: o.Schema})
	}
	q.Temperature, q.TopP = m.sampling(r)
	if schema := anthropicSchema(r.OutputSchema); schema != nil {
		q.OutputConfig.Format = &anthropicFormat{"json_schema", schema}
	}
	m.think(&q, m.thinks(r))
	m.markCache(&q)
	return q
}

// think asks for thinking: with a budget of the models that take one, of others by how
// hard they should try. A summary of it is to be shown, which some leave out unless they
// are asked.
func (m *anthropicModel) think(q *anthropicRequest, t thinking) {
	const shown = "summarized"
	switch {
	case t.off():
		q.Thinking = &anthropicThinking{Type: "disabled"}
	case t.effort != "":
		q.Thinking, q.OutputConfig.Effort = &anthropicThinking{Type: "adaptive", Display: shown}, t.effort
	case t.budget(q.MaxTokens) > 0: // it must be less than the answer may have
		q.Thinking = &anthropicThinking{Type: "enabled", Budget: t.budget(q.MaxTokens), Display: shown}
	}
}

// conversation is the messages, those of one side in one: so all results of a step
// stand together, before any text that follows them.
func (m *anthropicModel) conversation(messages []agent.Message) []anthropicMessage {
	var list []anthropicMessage
	for _, message := range messages {
		role := "user"
		if message.Role == agent.Assistant {
			role = "assistant"
		}
		blocks := m.blocks(message)
		if len(blocks) == 0 {
			continue // an empty message would be refused
		}
		if last := len(list) - 1; last >= 0 && list[last].Role == role {
			list[last].Content = append(list[last].Content, blocks...)
			continue
		}
		list = append(list, anthropicMessage{Role: role, Content: blocks})
	}
	return list
}

func (m *anthropicModel) blocks(message agent.Message) []any {
	switch message.Role {
	case agent.FromTool:
		return []any{m.result(message)}
	case agent.Assistant:
		return m.said(message)
	}
	return textBlocks(message.Text)
}

func textBlocks(text string) []any {
	if strings.TrimSpace(text) == "" {
		return nil // refused by the vendor
	}
	return []any{&contentBlock{Type: "text", Text: text}}
}

// said is what the model said before, its own blocks at their places.
func (m *anthropicModel) said(message agent.Message) (blocks []any) {
	for _, p := range m.pieces(message) {
		switch {
		case len(p.Block) > 0:
			blocks = append(blocks, p.Block)
		case p.Call:
			blocks = append(blocks, callBlock(p.call))
		default:
			blocks = append(blocks, textBlocks(p.text)...)
		}
	}
	return blocks
}

func callBlock(c agent.Call) *contentBlock {
	return &contentBlock{Type: "tool_use", ID: anthropicID(c.ID), Name: sendableName(c.Name), Input: json.RawMessage(sendable(c.Arguments))}
}

// anthropicID keeps an id that this vendor takes. Those of others may have
// characters that it refuses.
func anthropicID(id string) string {
	if id != "" && agent.PlainName(id) == id {
		return id
	}
	return agent.MadeID(id)
}

func (m *anthropicModel) result(message agent.Message) *contentBlock {
	block := &contentBlock{Type: "tool_result", ToolUseID: anthropicID(message.CallID), IsError: message.IsError}
	for _, c := range message.Content {
		if part := m.resultPart(c); part != nil {
			block.Content = append(block.Content, part)
		}
	}
	return block
}

// resultPart is nil for a text that the vendor would refuse.
func (m *anthropicModel) resultPart(c agent.Content) *contentBlock {
	if c.Type == agent.ContentImage && m.caps.Images && len(c.Data) > 0 {
		return &contentBlock{Type: "image", Source: &imageSource{Type: "base64", MediaType: c.MimeType, Data: base64Of(c)}}
	}
	text := c.Text
	if c.Type == agent.ContentImage {
		text = unseen(c)
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return &contentBlock{Type: "text", Text: text}
}

// markCache marks the four places up to which the next request will probably be the
// same: the tools, the system text, and the last two messages.
func (m *anthropicModel) markCache(q *anthropicRequest) {
	if m.cache == CacheOff {
		return
	}
	mark := &cacheMark{Type: "ephemeral"}
	if m.cache == CacheLong {
		mark.TTL = CacheLong
	}
	if n := len(q.Tools); n > 0 {
		q.Tools[n-1].CacheControl = mark
	}
	markLast(q.System, mark)
	for _, message := range q.Messages[max(len(q.Messages)-2, 0):] {
		markLast(message.Content, mark)
	}
}

// markLast marks the last block that can be: reasoning cannot.
func markLast(blocks []any, mark *cacheMark) {
	for _, b := range slices.Backward(blocks) {
		if own, ok := b.(*contentBlock); ok {
			own.CacheControl = mark
			return
		}
	}
}

// anthropicAnswer assembles an answer from the events of the Messages format.
type anthropicAnswer struct {
	common
	name   string // of the model, as configured
	begun  bool
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

func newAnthropicAnswer(w *wire, name string, emit func(agent.Delta)) *anthropicAnswer {
	return &anthropicAnswer{common: newCommon(w, emit), name: name}
}

func (a *anthropicAnswer) take(data []byte) (whole bool, err error) {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, a.wire.protocol("an event cannot be read: %v", err)
	}
	switch e.Type {
	case "error":
		return false, a.failed(e.Error)
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
		if b := a.block(e.Index); b != nil {
			a.add(b, b.joiner.end())
		}
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
	b := &anthropicBlock{index: e.Index, kind: start.Type, start: bytes.ToValidUTF8(e.Block, []byte("\uFFFD")), id: start.ID, name: start.Name}
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

func (a *anthropicAnswer) ended() error {
	return a.wire.truncated("the stream ended before message_stop")
}

// anthropicReasons are the stop reasons that are known.
var anthropicReasons = map[string]agent.Reason{
	"end_turn": agent.ReasonStop, "stop_sequence": agent.ReasonStop,
	"tool_use":   agent.ReasonToolCalls,
	"max_tokens": agent.ReasonLength, "model_context_window_exceeded": agent.ReasonLength,
	"refusal": agent.ReasonContentFilter,
}

func (a *anthropicAnswer) answer() (agent.Response, error) {
	var calls []agent.Call
	for _, b := range a.blocks {
		a.add(b, b.joiner.end())
		if b.kind == blockCall {
			calls = append(calls, agent.Call{ID: b.id, Name: b.name, Arguments: b.input()})
		}
	}
	if a.reason == nil {
		return agent.Response{}, a.wire.protocol("the answer ended without a stop reason")
	}
	reason, known := anthropicReasons[*a.reason]
	if !known {
		return agent.Response{}, a.wire.protocol("the stop reason %q is unknown", *a.reason)
	}
	r, err := a.settled(reason, calls, a.usage.total())
	r.Opaque = a.opaque()
	return r, err
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
		return emptyArguments
	}
	return string(start.Input)
}

// opaque is the vendor's own blocks and their places; nil if there are none.
func (a *anthropicAnswer) opaque() json.RawMessage {
	o, any := opaque{Provider: Anthropic, Model: a.name}, false
	for _, b := range a.blocks {
		switch b.kind {
		case blockThinking, blockRedacted:
			o.Parts, any = append(o.Parts, part{Block: b.whole()}), true
		case blockText:
			if b.text.Len() > 0 {
				o.Parts = append(o.Parts, part{Text: b.text.Len()})
			}
		case blockCall:
			o.Parts = append(o.Parts, part{Call: true})
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

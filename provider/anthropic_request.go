package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider/reply"
)

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
		OutputConfig *anthropicOutput   `json:"output_config,omitempty"`
		Stream       bool               `json:"stream"`
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
		Format struct {
			Type   string  `json:"type"`
			Schema *schema `json:"schema"`
		} `json:"format"`
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
	// A router asks for temperature 0 of every model, also of those that take none.
	if !m.fixed || r.Purpose != agent.PurposeRouter {
		q.Temperature, q.TopP = r.Temperature, r.TopP
	}
	if schema := anthropicSchema(r.OutputSchema); schema != nil {
		q.OutputConfig = &anthropicOutput{}
		q.OutputConfig.Format.Type, q.OutputConfig.Format.Schema = "json_schema", schema
	}
	m.markCache(&q)
	return q
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
func (m *anthropicModel) said(message agent.Message) []any {
	var blocks []any
	text, calls := message.Text, message.Calls
	for _, p := range m.layout(message.Opaque) {
		switch {
		case len(p.Block) > 0:
			blocks = append(blocks, p.Block)
		case p.Call && len(calls) > 0:
			blocks, calls = append(blocks, callBlock(calls[0])), calls[1:]
		case p.Text > 0:
			n := min(p.Text, len(text))
			blocks, text = append(blocks, textBlocks(text[:n])...), text[n:]
		}
	}
	blocks = append(blocks, textBlocks(text)...)
	for _, c := range calls {
		blocks = append(blocks, callBlock(c))
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
	sum := sha256.Sum256([]byte(id))
	return "tip_" + hex.EncodeToString(sum[:6])
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
	if c.Type == agent.ContentImage && m.caps.Images {
		data := base64.StdEncoding.EncodeToString(c.Data)
		return &contentBlock{Type: "image", Source: &imageSource{Type: "base64", MediaType: c.MimeType, Data: data}}
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

// layout is the parts of an answer that this model gave; nil for those of others.
func (m *anthropicModel) layout(raw json.RawMessage) []reply.Part {
	var o reply.Opaque
	if json.Unmarshal(raw, &o) != nil || o.Provider != Anthropic || o.Model != m.name {
		return nil
	}
	return o.Parts
}

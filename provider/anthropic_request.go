package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider/reply"
)

// defaultOutput is asked for where a request names no limit: the format needs one.
const defaultOutput = 8192

// request is a conversation in the Messages format.
func (m *anthropicModel) request(r agent.Request) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model:     m.name,
		MaxTokens: int64(r.MaxOutputTokens),
		Tools:     anthropicTools(r.Tools),
		Messages:  m.conversation(r.Messages),
	}
	if p.MaxTokens <= 0 {
		p.MaxTokens = defaultOutput
	}
	if strings.TrimSpace(r.System) != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.System}}
	}
	// A router asks for temperature 0 of every model, also of those that take none.
	if !m.fixed || r.Purpose != agent.PurposeRouter {
		if r.Temperature != nil {
			p.Temperature = anthropic.Float(*r.Temperature)
		}
		if r.TopP != nil {
			p.TopP = anthropic.Float(*r.TopP)
		}
	}
	if len(r.OutputSchema) > 0 {
		p.OutputConfig.Format.Schema = anthropicSchema(r.OutputSchema)
	}
	m.markCache(&p)
	return p
}

func anthropicTools(offers []agent.Offer) []anthropic.ToolUnionParam {
	var tools []anthropic.ToolUnionParam
	for _, o := range offers {
		t := &anthropic.ToolParam{Name: o.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](o.Schema)}
		if o.Description != "" {
			t.Description = anthropic.String(o.Description)
		}
		tools = append(tools, anthropic.ToolUnionParam{OfTool: t})
	}
	return tools
}

// anthropicSchema is a schema in the subset that structured output takes. What the
// subset leaves out the loop checks all the same.
func anthropicSchema(schema json.RawMessage) map[string]any {
	var object map[string]any
	if json.Unmarshal(schema, &object) != nil {
		return nil
	}
	fitting, _ := anthropic.BetaJSONSchemaOutputFormat(object).Schema.(map[string]any)
	return fitting
}

// conversation is the messages, those of one side in one: so all results of a step
// stand together, before any text that follows them.
func (m *anthropicModel) conversation(messages []agent.Message) []anthropic.MessageParam {
	var list []anthropic.MessageParam
	for _, message := range messages {
		role := anthropic.MessageParamRoleUser
		if message.Role == agent.Assistant {
			role = anthropic.MessageParamRoleAssistant
		}
		blocks := m.blocks(message)
		if len(blocks) == 0 {
			continue // an empty message would be refused
		}
		if last := len(list) - 1; last >= 0 && list[last].Role == role {
			list[last].Content = append(list[last].Content, blocks...)
			continue
		}
		list = append(list, anthropic.MessageParam{Role: role, Content: blocks})
	}
	return list
}

func (m *anthropicModel) blocks(message agent.Message) []anthropic.ContentBlockParamUnion {
	switch message.Role {
	case agent.FromTool:
		return []anthropic.ContentBlockParamUnion{{OfToolResult: m.result(message)}}
	case agent.Assistant:
		return m.said(message)
	}
	return textBlocks(message.Text)
}

func textBlocks(text string) []anthropic.ContentBlockParamUnion {
	if strings.TrimSpace(text) == "" {
		return nil // refused by the vendor
	}
	return []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(text)}
}

// said is what the model said before, its own blocks at their places.
func (m *anthropicModel) said(message agent.Message) []anthropic.ContentBlockParamUnion {
	var blocks []anthropic.ContentBlockParamUnion
	text, calls := message.Text, message.Calls
	for _, p := range m.layout(message.Opaque) {
		switch {
		case len(p.Block) > 0:
			blocks = append(blocks, param.Override[anthropic.ContentBlockParamUnion](p.Block))
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

func callBlock(c agent.Call) anthropic.ContentBlockParamUnion {
	return anthropic.NewToolUseBlock(anthropicID(c.ID), json.RawMessage(sendable(c.Arguments)), sendableName(c.Name))
}

// anthropicID keeps an id that this vendor takes. Those of others may have
// characters that it refuses.
func anthropicID(id string) string {
	if id != "" && !strings.ContainsFunc(id, func(r rune) bool { return !nameRune(r) }) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "tip_" + hex.EncodeToString(sum[:6])
}

func (m *anthropicModel) result(message agent.Message) *anthropic.ToolResultBlockParam {
	block := &anthropic.ToolResultBlockParam{ToolUseID: anthropicID(message.CallID)}
	if message.IsError {
		block.IsError = anthropic.Bool(true)
	}
	for _, c := range message.Content {
		if part, ok := m.resultPart(c); ok {
			block.Content = append(block.Content, part)
		}
	}
	return block
}

func (m *anthropicModel) resultPart(c agent.Content) (part anthropic.ToolResultBlockParamContentUnion, ok bool) {
	if c.Type == agent.ContentImage && m.caps.Images {
		image := anthropic.NewImageBlockBase64(c.MimeType, base64.StdEncoding.EncodeToString(c.Data))
		return anthropic.ToolResultBlockParamContentUnion{OfImage: image.OfImage}, true
	}
	text := c.Text
	if c.Type == agent.ContentImage {
		text = unseen(c)
	}
	if strings.TrimSpace(text) == "" {
		return part, false
	}
	return anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: text}}, true
}

// markCache marks the four places up to which the next request will probably be the
// same: the tools, the system text, and the last two messages.
func (m *anthropicModel) markCache(p *anthropic.MessageNewParams) {
	if m.cache == CacheOff {
		return
	}
	mark := anthropic.NewCacheControlEphemeralParam()
	if m.cache == CacheLong {
		mark.TTL = anthropic.CacheControlEphemeralTTLTTL1h
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = mark
	}
	for _, message := range p.Messages[max(len(p.Messages)-2, 0):] {
		markLast(message.Content, mark)
	}
}

// markLast marks the last block that can be: reasoning cannot.
func markLast(blocks []anthropic.ContentBlockParamUnion, mark anthropic.CacheControlEphemeralParam) {
	for i := len(blocks) - 1; i >= 0; i-- {
		if at := blocks[i].GetCacheControl(); at != nil {
			*at = mark
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

package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

const openAIAddress = "https://api.openai.com/v1"

// openAIModel speaks the Responses format. The vendor stores nothing: what it must know
// again goes with every request.
type openAIModel struct {
	vendorModel
	encrypted option // reasoning that can be sent back: models without any refuse to be asked
	summary   option // of the reasoning: the vendor shows it to organizations that it has verified
}

func newOpenAI(c Config, dial dialFunc) (agent.Model, error) {
	base, err := newVendor(c, openAIAddress, "responses", dial)
	if err != nil {
		return nil, err
	}
	base.bear(c.APIKey)
	if !base.own {
		base.wire.unknownPath = "if this server knows chat completions only, write provider: " + OpenAIChat
	}
	return &openAIModel{vendorModel: base, encrypted: option{words: []string{"ncrypted content", "encrypted_content"}},
		summary: option{words: []string{"reasoning summar", "reasoning.summary"}}}, nil
}

// Stream makes one attempt to answer.
func (m *openAIModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	return persist([]*option{&m.encrypted, &m.summary}, func(with []bool) (agent.Response, error) {
		return m.wire.ask(ctx, m.url, m.header, m.request(r, with[0], with[1]), newOpenAIAnswer(m.wire, m.name, emit))
	})
}

// What a request is made of, as far as it is used here.
type (
	openAIRequest struct {
		Model           string           `json:"model"`
		Instructions    string           `json:"instructions,omitempty"`
		Input           []any            `json:"input"` // openAIItem, or json.RawMessage: the vendor's own
		Tools           []openAITool     `json:"tools,omitempty"`
		MaxOutputTokens int              `json:"max_output_tokens,omitempty"`
		Temperature     *float64         `json:"temperature,omitempty"`
		TopP            *float64         `json:"top_p,omitempty"`
		Reasoning       *openAIReasoning `json:"reasoning,omitempty"`
		Text            *openAIText      `json:"text,omitempty"`
		Include         []string         `json:"include,omitempty"`
		Store           bool             `json:"store"`
		Stream          bool             `json:"stream"`
	}
	openAIItem struct {
		Type      string `json:"type"`
		Role      string `json:"role,omitempty"`
		Phase     string `json:"phase,omitempty"`
		Content   any    `json:"content,omitempty"`
		CallID    string `json:"call_id,omitempty"`
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
		Output    any    `json:"output,omitempty"` // a string or []openAIContent
	}
	openAIContent struct {
		Type     string `json:"type"`
		Text     string `json:"text,omitempty"`
		ImageURL string `json:"image_url,omitempty"`
	}
	openAITool struct {
		Type string `json:"type"`
		function
		Strict bool `json:"strict"` // the vendor's default is true, which few schemas fit
	}
	openAIReasoning struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary,omitempty"`
	}
	openAIText struct {
		Format openAIFormat `json:"format"`
	}
	openAIFormat struct {
		Type string `json:"type"`
		outputSchema
	}
)

// request is a conversation in the Responses format.
func (m *openAIModel) request(r agent.Request, encrypted, summary bool) openAIRequest {
	q := openAIRequest{Model: m.name, Instructions: r.System, Input: m.conversation(r.Messages), MaxOutputTokens: max(r.MaxOutputTokens, 0), Stream: true}
	for _, o := range r.Tools {
		q.Tools = append(q.Tools, openAITool{Type: "function", function: function{o.Name, o.Description, withProperties(o.Schema)}})
	}
	q.Temperature, q.TopP = m.sampling(r)
	if encrypted && !m.mute {
		q.Include = []string{"reasoning.encrypted_content"}
	}
	if t := m.thinks(r); t != (thinking{}) {
		q.Reasoning = &openAIReasoning{Effort: t.openAI()}
		if summary && t.on() {
			q.Reasoning.Summary = "auto"
		}
	}
	if len(r.OutputSchema) > 0 {
		q.Text = &openAIText{openAIFormat{"json_schema", outputSchema{"output", r.OutputSchema, strictSchema(r.OutputSchema)}}}
	}
	return q
}

func (m *openAIModel) conversation(messages []agent.Message) []any {
	list := []any{}
	for _, message := range messages {
		switch message.Role {
		case agent.FromTool:
			list = append(list, openAIItem{Type: itemResult, CallID: openAIID(message.CallID), Output: m.output(message)})
		case agent.Assistant:
			list = append(list, m.said(message)...)
		default:
			list = append(list, openAIItem{Type: itemMessage, Role: "user", Content: message.Text})
		}
	}
	return list
}

// said is what the model said before, its reasoning at its places.
func (m *openAIModel) said(message agent.Message) (items []any) {
	for _, p := range m.pieces(message) {
		switch {
		case len(p.Block) > 0:
			items = append(items, p.Block)
		case p.Call:
			items = append(items, openAIItem{Type: itemCall, CallID: openAIID(p.call.ID), Name: sendableName(p.call.Name), Arguments: sendable(p.call.Arguments)})
		case p.text != "":
			items = append(items, openAIItem{Type: itemMessage, Role: "assistant", Phase: p.Phase, Content: p.text})
		}
	}
	return items
}

// output is a tool's result: its text alone, or followed by its images.
func (m *openAIModel) output(message agent.Message) any {
	text, images := m.result(message, 0)
	if len(images) == 0 {
		return text
	}
	parts := []openAIContent{{Type: "input_text", Text: text}}
	for _, c := range images {
		parts = append(parts, openAIContent{Type: "input_image", ImageURL: dataURL(c)})
	}
	return parts
}

// openAIID keeps an id that is not too long for this vendor.
func openAIID(id string) string {
	const most = 64
	if id != "" && len(id) <= most {
		return id
	}
	return agent.MadeID(id)
}

// Kinds of items.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemResult    = "function_call_output"
)

// openAIAnswer assembles an answer from the events of the Responses format.
type openAIAnswer struct {
	common
	name    string // of the model, as configured
	items   map[int]*openAIOutput
	order   []openAIPlace
	refused bool
	end     openAIEnd
}

// openAIOutput is one item of an answer as its pieces come.
type openAIOutput struct {
	Kind      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Phase     string `json:"phase"`
	Encrypted string `json:"encrypted_content"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`

	whole  json.RawMessage // as it ended; nil: it has not
	part   string          // that is being said
	joiner joiner
	text   strings.Builder // what was streamed of it
}

// openAIPlace is where in an answer an item stands: all of it, or so many bytes of text.
type openAIPlace struct {
	item *openAIOutput
	text int
}

type openAIEvent struct {
	Type     string          `json:"type"`
	Index    int             `json:"output_index"`
	Content  int             `json:"content_index"`
	Summary  int             `json:"summary_index"`
	Delta    json.RawMessage `json:"delta"`
	Item     json.RawMessage `json:"item"`
	Response openAIEnd       `json:"response"`
	Error    json.RawMessage `json:"error"`
}

// openAIEnd is the response as an event tells of it.
type openAIEnd struct {
	Model string          `json:"model"`
	Error json.RawMessage `json:"error"`
	Usage *struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached     int64 `json:"cached_tokens"`
			CacheWrite int64 `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

func newOpenAIAnswer(w *wire, name string, emit func(agent.Delta)) *openAIAnswer {
	return &openAIAnswer{common: newCommon(w, emit), name: name, items: map[int]*openAIOutput{}}
}

// openAIDeltas are the events that bring pieces, and the kinds of items that have such.
var openAIDeltas = map[string]string{
	"response.output_text.delta":             itemMessage,
	"response.refusal.delta":                 itemMessage,
	"response.reasoning_summary_text.delta":  itemReasoning,
	"response.reasoning_text.delta":          itemReasoning,
	"response.function_call_arguments.delta": itemCall,
}

func (a *openAIAnswer) take(data []byte) (whole bool, err error) {
	var e openAIEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, a.wire.protocol("an event cannot be read: %v", err)
	}
	a.model = cmp.Or(e.Response.Model, a.model)
	switch e.Type {
	case "error":
		if isNull(e.Error) {
			e.Error = data // as the vendor documents it
		}
		return false, a.failed(e.Error)
	case "response.failed":
		if isNull(e.Response.Error) {
			return false, a.wire.truncated("the response failed, and nothing says why")
		}
		return false, a.failed(e.Response.Error)
	case "response.completed", "response.incomplete":
		if a.end = e.Response; e.Type == "response.completed" {
			a.end.Incomplete = nil
		} else if a.end.Incomplete == nil {
			return false, a.wire.protocol("the response is incomplete, and nothing says why")
		}
		return true, nil
	case "response.output_item.added":
		_, err := a.begin(e)
		return false, err
	case "response.output_item.done":
		return false, a.finish(e)
	}
	if kind, ok := openAIDeltas[e.Type]; ok {
		return false, a.extend(e, kind)
	}
	return false, nil // what says nothing new, and what later versions add
}

func (a *openAIAnswer) begin(e openAIEvent) (*openAIOutput, error) {
	if a.items[e.Index] != nil {
		return nil, a.wire.protocol("item %d began twice", e.Index)
	}
	item := &openAIOutput{}
	if err := json.Unmarshal(e.Item, item); err != nil {
		return nil, a.wire.protocol("item %d cannot be read: %v", e.Index, err)
	}
	a.items[e.Index] = item
	if item.Kind == itemReasoning || item.Kind == itemCall {
		a.order = append(a.order, openAIPlace{item: item})
	}
	return item, nil
}

func (a *openAIAnswer) extend(e openAIEvent, kind string) error {
	item := a.items[e.Index]
	if item == nil || item.Kind != kind {
		return a.wire.protocol("%s is of item %d, which is no %s", e.Type, e.Index, kind)
	}
	part := fmt.Sprint(e.Type, " ", e.Content, " ", e.Summary)
	if item.part != part {
		a.say(item, item.joiner.end())
		if item.part != "" && kind == itemReasoning {
			a.say(item, "\n\n")
		}
		item.part = part
	}
	text, err := item.joiner.add(e.Delta)
	if err != nil {
		return a.wire.protocol("item %d: %v", e.Index, err)
	}
	a.refused = a.refused || e.Type == "response.refusal.delta" && text != ""
	a.say(item, text)
	return nil
}

// say adds to an item. Texts of several items may come in turns.
func (a *openAIAnswer) say(item *openAIOutput, text string) {
	item.text.WriteString(text)
	switch {
	case item.Kind == itemReasoning:
		a.reasoning.say(text)
	case item.Kind == itemMessage && text != "":
		a.said.say(text)
		if n := len(a.order) - 1; n < 0 || a.order[n].item != item {
			a.order = append(a.order, openAIPlace{item: item})
		}
		a.order[len(a.order)-1].text += len(text)
	}
}

// finish takes the end of an item. What was not streamed of it is said now.
func (a *openAIAnswer) finish(e openAIEvent) (err error) {
	item := a.items[e.Index]
	if item == nil {
		if item, err = a.begin(e); err != nil {
			return err
		}
	}
	var last openAIOutput
	if err := json.Unmarshal(e.Item, &last); err != nil {
		return a.wire.protocol("the end of item %d cannot be read: %v", e.Index, err)
	}
	a.say(item, item.joiner.end())
	item.whole = bytes.ToValidUTF8(e.Item, []byte("\uFFFD"))
	item.CallID, item.Name = cmp.Or(item.CallID, last.CallID), cmp.Or(item.Name, last.Name)
	item.Arguments, item.Phase, item.Encrypted = last.Arguments, cmp.Or(last.Phase, item.Phase), last.Encrypted
	if item.text.Len() > 0 {
		return nil
	}
	for _, c := range last.Content {
		a.say(item, c.Text+c.Refusal)
		a.refused = a.refused || c.Refusal != ""
	}
	for _, s := range last.Summary {
		a.say(item, s.Text)
	}
	return nil
}

func (a *openAIAnswer) ended() error {
	return a.wire.truncated("the stream ended before response.completed")
}

// openAIIncomplete are the reasons for an incomplete response that are known.
var openAIIncomplete = map[string]agent.Reason{
	"max_output_tokens": agent.ReasonLength, "content_filter": agent.ReasonContentFilter,
}

func (a *openAIAnswer) answer() (agent.Response, error) {
	var calls []agent.Call
	for _, p := range a.order {
		a.say(p.item, p.item.joiner.end())
		if p.item.Kind == itemCall {
			calls = append(calls, agent.Call{ID: p.item.CallID, Name: p.item.Name, Arguments: orEmpty(cmp.Or(p.item.text.String(), p.item.Arguments))})
		}
	}
	reason := agent.ReasonStop
	if cut := a.end.Incomplete; cut != nil {
		known := false
		if reason, known = openAIIncomplete[cut.Reason]; !known {
			return agent.Response{}, a.wire.protocol("the response is incomplete for a reason that is unknown: %q", cut.Reason)
		}
	}
	if a.refused {
		reason = agent.ReasonContentFilter
	}
	r, err := a.settled(reason, calls, a.usage())
	r.Opaque = a.opaque()
	return r, err
}

func (a *openAIAnswer) usage() *agent.Usage {
	u := a.end.Usage
	if u == nil {
		return nil
	}
	return &agent.Usage{
		InputTokens:      u.Input, // cached ones included
		OutputTokens:     u.Output,
		CacheReadTokens:  u.Details.Cached,
		CacheWriteTokens: u.Details.CacheWrite,
		ReasoningTokens:  u.OutputDetails.Reasoning,
	}
}

// opaque is the reasoning, if it can be sent back, and where everything stood; nil if
// none of it matters. The vendor refuses reasoning that nothing follows.
func (a *openAIAnswer) opaque() json.RawMessage {
	var parts []part
	keep, matters := 0, false
	for _, p := range a.order {
		switch {
		case p.item.Kind == itemCall:
			parts = append(parts, part{Call: true})
			keep = len(parts)
		case p.text > 0:
			parts = append(parts, part{Text: p.text, Phase: p.item.Phase})
			keep = len(parts)
		case p.item.Encrypted != "":
			parts = append(parts, part{Block: p.item.whole})
		}
	}
	for _, p := range parts[:keep] {
		matters = matters || p.Block != nil || p.Phase != ""
	}
	if !matters {
		return nil
	}
	return flow.JSON(opaque{Provider: OpenAI, Model: a.name, Parts: parts[:keep]})
}

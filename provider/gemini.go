package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

const geminiAddress = "https://generativelanguage.googleapis.com"

// geminiModel speaks the format of Google's Gemini API.
type geminiModel struct {
	vendorModel
	early  bool   // of the second generation or before: with a budget to think, and text alone in results
	schema option // of the answer, beside tools: early models refuse both together
}

func newGemini(c Config, dial dialFunc) (agent.Model, error) {
	name := c.Model
	if !strings.Contains(name, "/") {
		name = "models/" + name
	}
	base, err := newVendor(c, geminiAddress, "v1beta/"+(&url.URL{Path: name}).EscapedPath()+":streamGenerateContent?alt=sse", dial)
	if err != nil {
		return nil, err
	}
	if c.APIKey != "" {
		base.header.Set("X-Goog-Api-Key", c.APIKey)
	}
	early := strings.Contains(name, "/gemini-1") || strings.Contains(name, "/gemini-2")
	return &geminiModel{vendorModel: base, early: early, schema: option{words: []string{"response mime type"}}}, nil
}

// Stream makes one attempt to answer.
func (m *geminiModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	names := map[string]string{}
	for _, o := range r.Tools {
		names[geminiName(o.Name)] = o.Name
	}
	return persist([]*option{&m.schema}, func(with []bool) (agent.Response, error) {
		return m.wire.ask(ctx, m.url, m.header, m.request(r, with[0]), newGeminiAnswer(m.wire, m.name, names, emit))
	})
}

// What a request is made of, as far as it is used here.
type (
	geminiRequest struct {
		Contents []geminiContent `json:"contents"`
		System   *geminiContent  `json:"systemInstruction,omitempty"`
		Tools    []geminiTools   `json:"tools,omitempty"`
		Config   geminiConfig    `json:"generationConfig,omitzero"`
	}
	geminiContent struct {
		Role  string `json:"role"`
		Parts []any  `json:"parts"` // *geminiPart, or json.RawMessage: the vendor's own

		results bool // of tools, which stand apart
	}
	geminiPart struct {
		Text      *string       `json:"text,omitempty"`
		Image     *geminiImage  `json:"inlineData,omitempty"`
		Call      *geminiCall   `json:"functionCall,omitempty"`
		Result    *geminiResult `json:"functionResponse,omitempty"`
		Signature string        `json:"thoughtSignature,omitempty"`
	}
	geminiImage struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	}
	geminiCall struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args,omitempty"`
	}
	geminiResult struct {
		ID       string            `json:"id,omitempty"`
		Name     string            `json:"name"`
		Response map[string]string `json:"response"`
		Parts    []*geminiPart     `json:"parts,omitempty"` // images
	}
	geminiTools struct {
		Functions []geminiFunction `json:"functionDeclarations"`
	}
	geminiFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Schema      json.RawMessage `json:"parametersJsonSchema,omitempty"`
	}
	geminiConfig struct {
		Temperature     *float64        `json:"temperature,omitempty"`
		TopP            *float64        `json:"topP,omitempty"`
		MaxOutputTokens int             `json:"maxOutputTokens,omitempty"`
		MimeType        string          `json:"responseMimeType,omitempty"`
		Schema          json.RawMessage `json:"responseJsonSchema,omitempty"`
		Thinking        *geminiThinking `json:"thinkingConfig,omitempty"`
	}
	geminiThinking struct {
		Shown  bool   `json:"includeThoughts,omitempty"`
		Level  string `json:"thinkingLevel,omitempty"`
		Budget *int   `json:"thinkingBudget,omitempty"`
	}
)

// request is a conversation in the vendor's format.
func (m *geminiModel) request(r agent.Request, schema bool) geminiRequest {
	q := geminiRequest{Contents: m.conversation(r.Messages)}
	if r.System != "" {
		q.System = &geminiContent{Role: "user", Parts: []any{geminiText(r.System)}}
	}
	var functions []geminiFunction
	for _, o := range r.Tools {
		functions = append(functions, geminiFunction{geminiName(o.Name), o.Description, o.Schema})
	}
	if functions != nil {
		q.Tools = []geminiTools{{functions}}
	}
	q.Config.MaxOutputTokens = max(r.MaxOutputTokens, 0)
	q.Config.Temperature, q.Config.TopP = m.sampling(r)
	if len(r.OutputSchema) > 0 && (schema || functions == nil) {
		q.Config.MimeType, q.Config.Schema = "application/json", r.OutputSchema
	}
	q.Config.Thinking = m.think(m.thinks(r), q.Config.MaxOutputTokens)
	return q
}

// think is how a request asks for thinking, of which a summary is to be shown.
func (m *geminiModel) think(t thinking, limit int) *geminiThinking {
	if limit == 0 {
		limit = cmp.Or(m.caps.MaxOutput, m.caps.ContextWindow)
	}
	switch {
	case t.off():
		return &geminiThinking{Budget: new(int)}
	case t.effort != "":
		return &geminiThinking{Shown: true, Level: strings.ToUpper(t.effort)}
	case t.budget(limit) > 0:
		budget := t.budget(limit)
		return &geminiThinking{Shown: true, Budget: &budget}
	}
	return nil
}

// conversation is the messages, those of one side in one, and all results of a step in
// one of their own: the vendor wants as many of them as there were calls.
func (m *geminiModel) conversation(messages []agent.Message) []geminiContent {
	list, names := []geminiContent{}, map[string]string{}
	var images []any // of the results so far, which can hold text alone
	add := func(c geminiContent) {
		if last := len(list) - 1; last >= 0 && list[last].Role == c.Role && list[last].results == c.results {
			list[last].Parts = append(list[last].Parts, c.Parts...)
		} else if len(c.Parts) > 0 { // an empty one would be refused
			list = append(list, c)
		}
	}
	for i, message := range messages {
		switch message.Role {
		case agent.FromTool:
			part, seen := m.resultPart(message, names[message.CallID], len(images)/2)
			images = append(images, seen...)
			add(geminiContent{Role: "user", Parts: []any{part}, results: true})
		case agent.Assistant:
			for _, c := range message.Calls {
				names[c.ID] = geminiName(sendableName(c.Name))
			}
			add(geminiContent{Role: "model", Parts: m.said(message)})
		default:
			if message.Text != "" {
				add(geminiContent{Role: "user", Parts: []any{geminiText(message.Text)}})
			}
		}
		if i == len(messages)-1 || messages[i+1].Role != agent.FromTool {
			add(geminiContent{Role: "user", Parts: images})
			images = nil
		}
	}
	return list
}

// said is what the model said before, with the signatures at their places.
func (m *geminiModel) said(message agent.Message) (parts []any) {
	for _, p := range m.pieces(message) {
		switch {
		case len(p.Block) > 0:
			parts = append(parts, p.Block)
		case p.Call:
			call := &geminiCall{ID: p.call.ID, Name: geminiName(sendableName(p.call.Name))}
			if arguments := sendable(p.call.Arguments); arguments != emptyArguments {
				call.Args = json.RawMessage(arguments)
			}
			parts = append(parts, &geminiPart{Call: call, Signature: p.Signature})
		case p.text != "" || p.Signature != "":
			parts = append(parts, &geminiPart{Text: &p.text, Signature: p.Signature})
		}
	}
	return parts
}

// resultPart is a tool's result, and its images where they must stand apart, each after
// a line that says which it is. before is how many images of this step there are already.
func (m *geminiModel) resultPart(message agent.Message, name string, before int) (result *geminiPart, apart []any) {
	text, images := m.result(message, before)
	key := "output"
	if message.IsError {
		key = "error"
	}
	result = &geminiPart{Result: &geminiResult{ID: message.CallID, Name: cmp.Or(name, "_"), Response: map[string]string{key: text}}}
	for i, c := range images {
		image := &geminiPart{Image: &geminiImage{c.MimeType, base64Of(c)}}
		if m.early {
			apart = append(apart, geminiText(imageLabel(before+i+1, message.CallID)), image)
		} else {
			result.Result.Parts = append(result.Result.Parts, image)
		}
	}
	return result, apart
}

func geminiText(text string) *geminiPart { return &geminiPart{Text: &text} }

// geminiName is a tool's name as this vendor takes it: it begins with a letter or _.
func geminiName(name string) string {
	if name != "" && strings.IndexByte("-0123456789", name[0]) >= 0 {
		return "_" + name
	}
	return name
}

// geminiAnswer assembles an answer from the chunks of a stream.
type geminiAnswer struct {
	common
	name   string            // of the model, as configured
	names  map[string]string // of tools, as offered, by those that were sent
	joiner joiner            // of the text or thought that is being said
	mid    geminiMid
	parts  []part
	calls  []agent.Call
	reason string // "": none came
	why    string // the vendor's words for it
	usage  *agent.Usage
}

// geminiMid is what a stream is in the midst of.
type geminiMid int

const (
	midNothing geminiMid = iota
	midText
	midThought
)

type geminiChunk struct {
	Model      string `json:"modelVersion"`
	Candidates []struct {
		Index   int `json:"index"`
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		Reason  string `json:"finishReason"`
		Message string `json:"finishMessage"`
	} `json:"candidates"`
	Feedback struct {
		Blocked string `json:"blockReason"`
		Message string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt   int64 `json:"promptTokenCount"`
		Tools    int64 `json:"toolUsePromptTokenCount"`
		Output   int64 `json:"candidatesTokenCount"`
		Thoughts int64 `json:"thoughtsTokenCount"`
		Cached   int64 `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
	Error json.RawMessage `json:"error"`
}

type geminiPiece struct {
	Text      json.RawMessage `json:"text"`
	Thought   bool            `json:"thought"`
	Signature string          `json:"thoughtSignature"`
	Call      *geminiCall     `json:"functionCall"`
}

func newGeminiAnswer(w *wire, name string, names map[string]string, emit func(agent.Delta)) *geminiAnswer {
	return &geminiAnswer{common: newCommon(w, emit), name: name, names: names}
}

// blockedPrompt is the reason of an answer to a request that is not let through.
const blockedPrompt = "BLOCKED"

// take reads one chunk. There is no mark at the end, and the last one has the reason.
func (a *geminiAnswer) take(data []byte) (whole bool, err error) {
	var c geminiChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, a.wire.protocol("a chunk cannot be read: %v", err)
	}
	if !isNull(c.Error) {
		return false, a.failed(c.Error)
	}
	a.model = cmp.Or(c.Model, a.model)
	if u := c.Usage; u != nil { // totals
		a.usage = &agent.Usage{
			InputTokens:     u.Prompt + u.Tools, // cached ones included
			OutputTokens:    u.Output + u.Thoughts,
			CacheReadTokens: u.Cached,
			ReasoningTokens: u.Thoughts,
		}
	}
	if c.Feedback.Blocked != "" {
		a.reason = blockedPrompt
	}
	for _, candidate := range c.Candidates {
		if candidate.Index != 0 { // one is all that is asked for
			continue
		}
		for _, raw := range candidate.Content.Parts {
			if err := a.extend(raw); err != nil {
				return false, err
			}
		}
		a.reason, a.why = cmp.Or(candidate.Reason, a.reason), cmp.Or(candidate.Message, a.why)
	}
	return false, nil
}

func (a *geminiAnswer) extend(raw json.RawMessage) error {
	var p geminiPiece
	if err := json.Unmarshal(raw, &p); err != nil {
		return a.wire.protocol("a part cannot be read: %v", err)
	}
	switch {
	case p.Call != nil:
		a.turnTo(midNothing)
		a.parts = append(a.parts, part{Call: true, Signature: p.Signature})
		name := cmp.Or(a.names[p.Call.Name], p.Call.Name)
		arguments := ""
		if !isNull(p.Call.Args) {
			arguments = strings.ToValidUTF8(string(p.Call.Args), "\uFFFD")
		}
		a.calls = append(a.calls, agent.Call{ID: p.Call.ID, Name: name, Arguments: orEmpty(arguments)})
		return nil
	case p.Thought:
		a.turnTo(midThought)
	case p.Text == nil && p.Signature == "":
		return nil // of a kind that was not asked for
	default:
		a.turnTo(midText)
	}
	apart := p.Signature != "" && len(a.joiner.tail) == 0 // what is signed stays as it came
	text, err := a.joiner.add(p.Text)
	if err != nil {
		return a.wire.protocol("%v", err)
	}
	a.say(text, apart)
	if p.Signature != "" {
		a.sign(p, raw)
	}
	return nil
}

// turnTo ends what was being said, unless it goes on.
func (a *geminiAnswer) turnTo(next geminiMid) {
	if a.mid != next {
		a.say(a.joiner.end(), false)
		a.mid = next
	}
}

// say adds to the part that is being said, or begins another.
func (a *geminiAnswer) say(text string, another bool) {
	switch {
	case a.mid == midThought:
		a.reasoning.say(text)
	case text != "":
		a.said.say(text)
		if n := len(a.parts) - 1; another || n < 0 || a.parts[n].Text == 0 || a.parts[n].Signature != "" {
			a.parts = append(a.parts, part{})
		}
		a.parts[len(a.parts)-1].Text += len(text)
	}
}

// sign keeps a signature with what it came with: a text that has one is a part of its
// own, also an empty one.
func (a *geminiAnswer) sign(p geminiPiece, raw json.RawMessage) {
	thought := a.mid == midThought
	a.turnTo(midNothing)
	switch n := len(a.parts) - 1; {
	case thought:
		a.parts = append(a.parts, part{Block: bytes.ToValidUTF8(raw, []byte("\uFFFD"))})
	case len(p.Text) > len(`""`) && n >= 0 && a.parts[n].Text > 0 && a.parts[n].Signature == "":
		a.parts[n].Signature = p.Signature
	default:
		a.parts = append(a.parts, part{Signature: p.Signature})
	}
}

// ended: the reason is all there is at the end.
func (a *geminiAnswer) ended() error {
	if a.reason == "" {
		return a.wire.truncated("the stream ended without a finish reason")
	}
	return nil
}

// geminiReasons are the finish reasons that are known.
var geminiReasons = map[string]agent.Reason{
	"STOP": agent.ReasonStop, "MAX_TOKENS": agent.ReasonLength,
	"SAFETY": agent.ReasonContentFilter, "RECITATION": agent.ReasonContentFilter, "LANGUAGE": agent.ReasonContentFilter,
	"BLOCKLIST": agent.ReasonContentFilter, "PROHIBITED_CONTENT": agent.ReasonContentFilter, "SPII": agent.ReasonContentFilter,
	"IMAGE_SAFETY": agent.ReasonContentFilter, "IMAGE_PROHIBITED_CONTENT": agent.ReasonContentFilter, "IMAGE_RECITATION": agent.ReasonContentFilter,
	blockedPrompt: agent.ReasonContentFilter,
}

// geminiSlips are reasons for which an answer is of no use, and the next may be.
var geminiSlips = map[string]string{
	"MALFORMED_FUNCTION_CALL": "the model's call cannot be read",
	"MALFORMED_RESPONSE":      "the model's answer cannot be read",
	"UNEXPECTED_TOOL_CALL":    "the model called a tool that it does not have",
	"TOO_MANY_TOOL_CALLS":     "the model called too many tools in a row",
	"OTHER":                   "for a reason that the vendor does not name",
}

func (a *geminiAnswer) answer() (agent.Response, error) {
	a.turnTo(midNothing)
	reason, known := geminiReasons[a.reason]
	switch slip := geminiSlips[a.reason]; {
	case slip != "":
		return agent.Response{}, a.wire.truncated("%s (%s) %s", slip, a.reason, a.why)
	case !known:
		return agent.Response{}, a.wire.protocol("the finish reason %q is unknown", a.reason)
	}
	r, err := a.settled(reason, a.calls, a.usage)
	r.Opaque = a.opaque()
	return r, err
}

// opaque is the signatures and their places; nil if there are none.
func (a *geminiAnswer) opaque() json.RawMessage {
	for _, p := range a.parts {
		if p.Signature != "" || p.Block != nil {
			return flow.JSON(opaque{Provider: Gemini, Model: a.name, Parts: a.parts})
		}
	}
	return nil
}

package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// inputRequired is the reason of a call's failure that a person could have met.
const inputRequired = "input_required"

// ParseJSON is the parse of a call whose text is taken as JSON.
const ParseJSON = "json"

// result is a tools/call reply, as much of it as matters.
type result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
	Type       string            `json:"resultType"`
	Requests   json.RawMessage   `json:"inputRequests"`
}

// answer turns a reply into a call's value: as plans use it, structured or else its
// text; with in.Parse its text, taken as JSON; with in.Content as models are shown it, a
// Reply. Its errors are definite answers: the server did what it did and said so.
// Credentials are removed first: half of one, cut off in a message, would not be found.
func answer(d *Definition, got reply, in Input, clean *Redactor) (json.RawMessage, *flow.Error) {
	r, c, failed := got.read(d)
	if failed != nil {
		return nil, failed
	}
	c.clean(clean, in.Content)
	r.Structured = clean.Bytes(r.Structured)
	output := c.value()
	if !absent(r.Structured) {
		output = flow.JSON(r.Structured)
	}
	if size := int64(max(len(output), c.size)); size > d.MaxResult {
		return nil, answered(flow.CodeResultTooLarge, detail{"size": size, "max_result": d.MaxResult},
			"the result of %s has %d bytes: max_result is %d", d.Tool, size, d.MaxResult)
	}
	if r.IsError {
		return nil, answered(CodeToolError, failure(r, c, output, in.Content), "%s", reported(d, c))
	}
	var wrong *SchemaError
	// What builtin returns is made from types that its schemas describe.
	if got.builtin == nil && !absent(r.Structured) && d.OutputSchema != nil && errors.As(d.OutputSchema.Validate(output), &wrong) {
		return nil, answered(CodeOutputInvalid, detail{"pointer": wrong.Pointer}, "the result of %s does not fit its output schema: %v", d.Tool, wrong)
	}
	switch {
	case in.Content:
		return flow.JSON(c.reply(r)), nil
	case in.Parse == "":
		return output, nil
	}
	text := json.RawMessage(c.text)
	if !json.Valid(text) {
		return nil, answered(CodeOutputInvalid, nil, "the text of %s is not one JSON value", d.Tool)
	}
	return flow.JSON(text), nil
}

// read takes a reply apart.
func (got reply) read(d *Definition) (r result, c content, failed *flow.Error) {
	if b := got.builtin; b != nil {
		r = result{Structured: b.Value, IsError: b.Failed}
		return r, content{text: b.Text, pieces: []Content{{Type: ContentText, Text: b.Text}}, size: len(b.Text)}, nil
	}
	if err := json.Unmarshal(got.result, &r); err != nil {
		return r, c, answered(CodeOutputInvalid, nil, "the reply of %s cannot be read: %v", d.Tool, err)
	}
	if r.Type == inputRequired || !absent(r.Requests) {
		return r, c, answered(CodeToolError, detail{"reason": inputRequired}, "%s insists on input from a person, which is not offered", d.Tool)
	}
	c, err := readContent(r.Content)
	if err != nil {
		return r, c, answered(CodeOutputInvalid, nil, "the reply of %s cannot be used: %v", d.Tool, err)
	}
	return r, c, nil
}

// failure is what a tool said of its own failure, for programs.
func failure(r result, c content, output json.RawMessage, asContent bool) detail {
	if !asContent {
		return detail{"output": output}
	}
	reply := c.reply(r)
	told := detail{"content": reply.Content}
	if reply.Structured != nil {
		told["structured"] = reply.Structured
	}
	return told
}

// reported is what a tool said of its own failure, for people.
func reported(d *Definition, c content) string {
	text := strings.TrimSpace(c.text)
	if text == "" {
		return d.Tool + " reported an error without saying which"
	}
	return d.Tool + ": " + cut(text, 2048)
}

func answered(code string, d detail, format string, args ...any) *flow.Error {
	e := refusal(code, d, format, args...)
	e.NotSent, e.Answered = false, true
	return e
}

// CheckResult says why a value that a person gives for a call could not be the
// call's own; nil: it could.
func (in Input) CheckResult(d *Definition, value json.RawMessage) error {
	structured := value
	switch {
	case in.Parse != "":
		return nil
	case in.Content:
		var r Reply
		if err := document.UnmarshalStrict(value, &r); err != nil || r.Content == nil {
			return errors.New(`it must be {"content": [{"type": "text", "text": …}]}, with "structured" where the tool gives that too`)
		}
		if structured = r.Structured; structured == nil {
			return nil
		}
	}
	if d.OutputSchema == nil {
		return nil // nothing says what its results look like
	}
	if err := d.OutputSchema.Validate(structured); err != nil {
		return fmt.Errorf("%w; its results are described by %s", err, d.OutputSchema.Raw())
	}
	return nil
}

// cut is the beginning of a text, of at most so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Reply is the value of a call that asks for content, and the detail of one that
// fails in band.
type Reply struct {
	Content    []Content       `json:"content"`
	Structured json.RawMessage `json:"structured,omitempty"`
}

// Types of content. Whatever else a server sends keeps its type and has Digest and
// Size.
const (
	ContentText  = "text"
	ContentImage = "image"
)

// Content is one piece of a reply: text, an image, or what is neither, by its
// digest.
type Content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	MimeType string `json:"mime_type,omitempty"`
	Data     []byte `json:"data,omitempty"` // of an image
	Digest   string `json:"digest,omitempty"`
	Size     int    `json:"size,omitempty"`
}

// block is one piece of content as it comes.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
	Name     string `json:"name"`
	URI      string `json:"uri"`
	Resource struct {
		MimeType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     string `json:"blob"`
	} `json:"resource"`
}

// blob stands for content that is not text.
type blob struct {
	Type     string `json:"type"`
	MimeType string `json:"mime_type"`
	Digest   string `json:"digest"`
	Size     int    `json:"size"`
}

// content is a reply's blocks: their text joined by newlines, what else there was,
// and all of it in its order.
type content struct {
	text   string
	blobs  []blob
	pieces []Content
	size   int // bytes of everything
}

// value is the content as plans use it.
func (c content) value() json.RawMessage {
	if c.blobs == nil {
		return flow.JSON(c.text)
	}
	return flow.JSON(map[string]any{"text": c.text, "blobs": c.blobs})
}

// reply is the content as models are shown it.
func (c content) reply(r result) Reply {
	reply := Reply{Content: append([]Content{}, c.pieces...)}
	if !absent(r.Structured) {
		reply.Structured = r.Structured
	}
	return reply
}

// clean removes credentials. An image that contains one is replaced by its digest,
// since a reference in its middle would break it.
func (c *content) clean(r *Redactor, asContent bool) {
	if r == nil {
		return
	}
	c.text = string(r.Bytes([]byte(c.text)))
	if !asContent {
		return
	}
	for i, p := range c.pieces {
		p.Text = string(r.Bytes([]byte(p.Text)))
		if text := base64.StdEncoding.EncodeToString(p.Data); r.Text(text) != text {
			p.Digest, p.Size, p.Data = flow.Digest(p.Data), len(p.Data), nil
		}
		c.pieces[i] = p
	}
}

func readContent(blocks []json.RawMessage) (content, error) {
	var c content
	var texts []string
	for i, raw := range blocks {
		var b block
		if err := json.Unmarshal(raw, &b); err != nil {
			return c, fmt.Errorf("block %d: %w", i+1, err)
		}
		if b.Type == ContentText {
			texts = append(texts, b.Text)
			c.pieces = append(c.pieces, Content{Type: ContentText, Text: b.Text})
			continue
		}
		data, err := b.data(raw)
		if err != nil {
			return c, fmt.Errorf("block %d (%s): %w", i+1, b.Type, err)
		}
		c.size += len(data)
		c.blobs = append(c.blobs, blob{b.Type, b.mimeType(), flow.Digest(data), len(data)})
		c.pieces = append(c.pieces, b.piece(data))
	}
	c.text = strings.Join(texts, "\n")
	c.size += len(c.text)
	return c, nil
}

func (b block) mimeType() string {
	if b.MimeType != "" {
		return b.MimeType
	}
	return b.Resource.MimeType
}

// data is what a block holds; of one that only points elsewhere, the block
// itself.
func (b block) data(raw json.RawMessage) ([]byte, error) {
	switch {
	case b.Data != "":
		return base64.StdEncoding.DecodeString(b.Data)
	case b.Resource.Blob != "":
		return base64.StdEncoding.DecodeString(b.Resource.Blob)
	case b.Resource.Text != "":
		return []byte(b.Resource.Text), nil
	}
	return bytes.TrimSpace(raw), nil
}

// piece is a block that is not text. The text of a resource is text; of a link, which
// is not followed, a model gets the address.
func (b block) piece(data []byte) Content {
	switch {
	case b.Type == ContentImage && b.Data != "":
		return Content{Type: ContentImage, MimeType: b.MimeType, Data: data}
	case b.Resource.Text != "":
		return Content{Type: ContentText, Text: b.Resource.Text, MimeType: b.mimeType()}
	case b.Type == "resource_link" && b.URI != "":
		return Content{Type: ContentText, Text: strings.TrimSpace(b.Name + " " + b.URI), MimeType: b.mimeType()}
	}
	return Content{Type: b.Type, MimeType: b.mimeType(), Digest: flow.Digest(data), Size: len(data)}
}

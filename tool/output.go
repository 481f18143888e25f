package tool

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
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
// Reply. Its errors are definite answers: the server did what it did and said so. The
// media that either names are to be kept, unless keeps is false: then a Reply has images
// in itself.
// Credentials are removed first: half of one, cut off in a message, would not be found.
func answer(d *Definition, got reply, in Input, clean *redact.Redactor, keeps bool) (value json.RawMessage, media [][]byte, failed *flow.Error) {
	r, c, failed := got.read(d)
	if failed != nil {
		return nil, nil, failed
	}
	c.clean(clean)
	if keeps {
		media = c.keep(in.Content)
	}
	r.Structured = clean.Bytes(r.Structured)
	output := c.value()
	if !absent(r.Structured) {
		output = flow.JSON(r.Structured)
	}
	if size := int64(max(len(output), c.size)); size > d.MaxResult {
		return nil, nil, answered(flow.CodeResultTooLarge, detail{"size": size, "max_result": d.MaxResult},
			"the result of %s has %d bytes: max_result is %d", d.Tool, size, d.MaxResult)
	}
	if r.IsError {
		return nil, media, answered(CodeToolError, failure(r, c, output, in.Content), "%s", reported(d, c))
	}
	var wrong *SchemaError
	// What builtin returns is made from types that its schemas describe.
	if got.builtin == nil && !absent(r.Structured) && d.OutputSchema != nil && errors.As(d.OutputSchema.Validate(output), &wrong) {
		return nil, nil, answered(CodeOutputInvalid, detail{"pointer": wrong.Pointer}, "the result of %s does not fit its output schema: %v", d.Tool, wrong)
	}
	switch {
	case in.Content:
		return flow.JSON(c.reply(r)), media, nil
	case in.Parse == "":
		return output, media, nil
	}
	text := json.RawMessage(c.text)
	if !json.Valid(text) {
		return nil, nil, answered(CodeOutputInvalid, nil, "the text of %s is not one JSON value", d.Tool)
	}
	return flow.JSON(text), media, nil
}

// read takes a reply apart.
func (got reply) read(d *Definition) (r result, c content, failed *flow.Error) {
	if b := got.builtin; b != nil {
		r = result{Structured: b.Value, IsError: b.Failed}
		return r, content{text: b.Text, pieces: []piece{{shown: Content{Type: ContentText, Text: b.Text}}}, size: len(b.Text)}, nil
	}
	if err := json.Unmarshal(got.result, &r); err != nil {
		return r, c, answered(CodeOutputInvalid, nil, "the reply of %s cannot be read: %v", d.Tool, document.Readable(err))
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
		if slices.ContainsFunc(r.Content, func(c Content) bool { return c.Kept }) {
			return errors.New("it names something as kept: give an image as data, in base64")
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

// Types of content. Whatever else a server sends keeps its type.
const (
	ContentText  = "text"
	ContentImage = "image"
)

// Content is one piece of a reply: text, an image, or what is neither. What is not text
// has a Digest and a Size; an image may have Data in their place.
type Content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	MimeType string `json:"mime_type,omitempty"`
	Data     []byte `json:"data,omitempty"` // of an image
	Digest   string `json:"digest,omitempty"`
	Size     int    `json:"size,omitempty"`
	Kept     bool   `json:"kept,omitempty"`     // its bytes are a blob of the run
	Withheld bool   `json:"withheld,omitempty"` // it held a credential
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
		URI      string `json:"uri"`
		MimeType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     string `json:"blob"`
	} `json:"resource"`
}

// blob stands for content that is not text.
type blob struct {
	Type     string `json:"type"`
	MimeType string `json:"mime_type"`
	Digest   string `json:"digest,omitempty"`
	Size     int    `json:"size"`
	URI      string `json:"uri,omitempty"` // of a resource, or where a link leads
	Name     string `json:"name,omitempty"`
	Withheld bool   `json:"withheld,omitempty"` // it held a credential
}

// content is a reply's blocks: their text joined by newlines, and all of them in their
// order.
type content struct {
	text   string
	pieces []piece
	size   int // bytes of everything
}

// piece is a block as models are shown it and, if it is not text, as plans are told of
// it. data is what that names; nil: nothing is kept of it.
type piece struct {
	shown  Content
	blob   *blob
	data   []byte
	binary bool // data is not text
}

// value is the content as plans use it.
func (c content) value() json.RawMessage {
	var blobs []*blob
	for _, p := range c.pieces {
		if p.blob != nil {
			blobs = append(blobs, p.blob)
		}
	}
	if blobs == nil {
		return flow.JSON(c.text)
	}
	return flow.JSON(map[string]any{"text": c.text, "blobs": blobs})
}

// reply is the content as models are shown it.
func (c content) reply(r result) Reply {
	reply := Reply{Content: []Content{}}
	for _, p := range c.pieces {
		reply.Content = append(reply.Content, p.shown)
	}
	if !absent(r.Structured) {
		reply.Structured = r.Structured
	}
	return reply
}

// clean removes credentials. What is not text and contains one is withheld, since a
// reference in its middle would break it.
func (c *content) clean(r *redact.Redactor) {
	if r == nil {
		return
	}
	c.text = string(r.Bytes([]byte(c.text)))
	for i := range c.pieces {
		p := &c.pieces[i]
		p.shown.Text = string(r.Bytes([]byte(p.shown.Text)))
		if p.blob == nil {
			continue
		}
		p.blob.URI, p.blob.Name = r.Text(p.blob.URI), r.Text(p.blob.Name)
		clean := r.Bytes(p.data)
		changed := !bytes.Equal(clean, p.data)
		if p.binary && !changed {
			text := base64.StdEncoding.EncodeToString(p.data)
			changed = r.Text(text) != text
		}
		switch {
		case changed && p.binary:
			p.data, p.blob.Digest, p.blob.Withheld = nil, "", true
			p.shown = Content{Type: p.shown.Type, MimeType: p.shown.MimeType, Size: p.blob.Size, Withheld: true}
		case changed:
			p.data, p.blob.Digest, p.blob.Size = clean, flow.Digest(clean), len(clean)
		}
	}
}

// keep returns what the content names by its digest, each once. Of what is shown as text
// a reply for models names none.
func (c *content) keep(asContent bool) (media [][]byte) {
	seen := map[string]bool{}
	for i := range c.pieces {
		p := &c.pieces[i]
		if p.data == nil || asContent && p.shown.Type == ContentText {
			continue
		}
		if p.shown.Type != ContentText {
			p.shown.Data, p.shown.Digest, p.shown.Size, p.shown.Kept = nil, p.blob.Digest, p.blob.Size, true
		}
		if !seen[p.blob.Digest] {
			seen[p.blob.Digest] = true
			media = append(media, p.data)
		}
	}
	return media
}

func readContent(blocks []json.RawMessage) (content, error) {
	var c content
	var texts []string
	for i, raw := range blocks {
		var b block
		if err := json.Unmarshal(raw, &b); err != nil {
			return c, fmt.Errorf("block %d: %w", i+1, document.Readable(err))
		}
		if b.Type == ContentText {
			texts = append(texts, b.Text)
			c.pieces = append(c.pieces, piece{shown: Content{Type: ContentText, Text: b.Text}})
			continue
		}
		data, binary, err := b.data(raw)
		if err != nil {
			return c, fmt.Errorf("block %d (%s): %w", i+1, b.Type, err)
		}
		c.size += len(data)
		told := &blob{Type: b.Type, MimeType: b.mimeType(), Digest: flow.Digest(data), Size: len(data), URI: cmp.Or(b.URI, b.Resource.URI), Name: b.Name}
		c.pieces = append(c.pieces, piece{b.shown(data), told, data, binary})
	}
	c.text = strings.Join(texts, "\n")
	c.size += len(c.text)
	return c, nil
}

func (b block) mimeType() string { return cmp.Or(b.MimeType, b.Resource.MimeType) }

// data is what a block holds, and whether that is not text; of one that only points
// elsewhere, the block itself.
func (b block) data(raw json.RawMessage) (data []byte, binary bool, err error) {
	switch encoded := cmp.Or(b.Data, b.Resource.Blob); {
	case encoded != "":
		data, err = base64.StdEncoding.DecodeString(encoded)
		return data, true, err
	case b.Resource.Text != "":
		return []byte(b.Resource.Text), false, nil
	}
	return bytes.TrimSpace(raw), false, nil
}

// shown is a block that is not text, as models are shown it. The text of a resource is
// text; of a link, which is not followed, a model gets the address.
func (b block) shown(data []byte) Content {
	switch {
	case b.Type == ContentImage && b.Data != "", b.Resource.Blob != "" && Viewable(b.Resource.MimeType):
		return Content{Type: ContentImage, MimeType: b.mimeType(), Data: data}
	case b.Resource.Text != "":
		return Content{Type: ContentText, Text: b.Resource.Text, MimeType: b.mimeType()}
	case b.Type == "resource_link" && b.URI != "":
		text := strings.TrimSpace(b.Name + " " + b.URI)
		if b.MimeType != "" {
			text += " (" + b.MimeType + ")"
		}
		return Content{Type: ContentText, Text: text, MimeType: b.MimeType}
	}
	return Content{Type: b.Type, MimeType: b.mimeType(), Digest: flow.Digest(data), Size: len(data)}
}

// Viewable reports whether models that accept images accept one of this kind.
func Viewable(mimeType string) bool {
	switch mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

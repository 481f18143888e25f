package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// inputRequired is the reason of a call's failure that a person could have met.
const inputRequired = "input_required"

// ParseJSON is the parse of a call whose text is taken as JSON.
const ParseJSON = "json"

// result is a tools/call reply, as much of it as matters.
type result struct {
	Content    []json.RawMessage          `json:"content"`
	Structured json.RawMessage            `json:"structuredContent"`
	IsError    bool                       `json:"isError"`
	Type       string                     `json:"resultType"`
	Requests   json.RawMessage            `json:"inputRequests"`
	Meta       map[string]json.RawMessage `json:"_meta"`
}

// block is one piece of content.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
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

// answer turns a reply into a call's value. Its errors are definite answers: the
// server did what it did and said so.
// Credentials are taken out first: what is left of one that a message cuts off
// could not be told any more.
func answer(d *Definition, raw json.RawMessage, parse string, clean *Redactor) (json.RawMessage, *flow.Error) {
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, answered(CodeOutputInvalid, nil, "the reply of %s cannot be read: %v", d.Tool, err)
	}
	if r.Type == inputRequired || !absent(r.Requests) {
		return nil, answered(CodeToolError, detail{"reason": inputRequired}, "%s insists on input from a person, which is not offered", d.Tool)
	}
	c, err := readContent(r.Content)
	if err != nil {
		return nil, answered(CodeOutputInvalid, nil, "the reply of %s cannot be used: %v", d.Tool, err)
	}
	c.text, r.Structured = string(clean.Bytes([]byte(c.text))), clean.Bytes(r.Structured)
	var value json.RawMessage
	if absent(r.Structured) {
		value = c.value()
	} else {
		value = flow.JSON(r.Structured)
	}
	if size := int64(max(len(value), c.size)); size > d.MaxResult {
		return nil, answered(flow.CodeResultTooLarge, detail{"size": size, "max_result": d.MaxResult},
			"the result of %s has %d bytes: max_result is %d", d.Tool, size, d.MaxResult)
	}
	if r.IsError {
		return nil, answered(CodeToolError, detail{"output": value}, "%s", reported(d, c))
	}
	return checkOutput(d, r, c, value, parse)
}

func checkOutput(d *Definition, r result, c content, value json.RawMessage, parse string) (json.RawMessage, *flow.Error) {
	if !absent(r.Structured) && d.OutputSchema != nil {
		var wrong *SchemaError
		if errors.As(d.OutputSchema.Validate(value), &wrong) {
			return nil, answered(CodeOutputInvalid, detail{"pointer": wrong.Pointer}, "the result of %s does not fit its output schema: %v", d.Tool, wrong)
		}
	}
	if parse != ParseJSON {
		return value, nil
	}
	text := json.RawMessage(c.text)
	if !json.Valid(text) {
		return nil, answered(CodeOutputInvalid, nil, "the text of %s is not one JSON value", d.Tool)
	}
	return flow.JSON(text), nil
}

// reported is what a tool said of its own failure, for people.
func reported(d *Definition, c content) string {
	text := strings.TrimSpace(c.text)
	if text == "" {
		return d.Tool + " reported an error without saying which"
	}
	if len(text) > 2048 {
		text = strings.ToValidUTF8(text[:2048], "") + "…"
	}
	return d.Tool + ": " + text
}

func answered(code string, d detail, format string, args ...any) *flow.Error {
	e := refusal(code, d, format, args...)
	e.NotSent, e.Answered = false, true
	return e
}

// content is a reply's blocks: their text joined by newlines, and what else there
// was.
type content struct {
	text  string
	blobs []blob
	size  int // bytes of everything
}

func (c content) value() json.RawMessage {
	if c.blobs == nil {
		return flow.JSON(c.text)
	}
	return flow.JSON(map[string]any{"text": c.text, "blobs": c.blobs})
}

func readContent(blocks []json.RawMessage) (content, error) {
	var c content
	var texts []string
	for i, raw := range blocks {
		var b block
		if err := json.Unmarshal(raw, &b); err != nil {
			return c, fmt.Errorf("block %d: %w", i+1, err)
		}
		if b.Type == "text" {
			texts = append(texts, b.Text)
			continue
		}
		data, err := b.data(raw)
		if err != nil {
			return c, fmt.Errorf("block %d (%s): %w", i+1, b.Type, err)
		}
		mime := b.MimeType
		if mime == "" {
			mime = b.Resource.MimeType
		}
		c.size += len(data)
		c.blobs = append(c.blobs, blob{b.Type, mime, digestOf(data), len(data)})
	}
	c.text = strings.Join(texts, "\n")
	c.size += len(c.text)
	return c, nil
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

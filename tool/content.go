package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

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
	reply := Reply{Content: orEmpty(c.pieces)}
	if !absent(r.Structured) {
		reply.Structured = r.Structured
	}
	return reply
}

// clean takes credentials out. An image with one in it is told by its digest: with
// a reference in its middle it would be none.
func (c *content) clean(r *Redactor, as shape) {
	if r == nil {
		return
	}
	c.text = string(r.Bytes([]byte(c.text)))
	if as != shapeContent {
		return
	}
	for i, p := range c.pieces {
		p.Text = string(r.Bytes([]byte(p.Text)))
		if text := base64.StdEncoding.EncodeToString(p.Data); r.Text(text) != text {
			p.Digest, p.Size, p.Data = digestOf(p.Data), len(p.Data), nil
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
		c.blobs = append(c.blobs, blob{b.Type, b.mimeType(), digestOf(data), len(data)})
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

// piece is a block that is not text. What a resource says in text is text, and of
// a link, which nobody follows, a model can use the address.
func (b block) piece(data []byte) Content {
	switch {
	case b.Type == ContentImage && b.Data != "":
		return Content{Type: ContentImage, MimeType: b.MimeType, Data: data}
	case b.Resource.Text != "":
		return Content{Type: ContentText, Text: b.Resource.Text, MimeType: b.mimeType()}
	case b.Type == "resource_link" && b.URI != "":
		return Content{Type: ContentText, Text: strings.TrimSpace(b.Name + " " + b.URI), MimeType: b.mimeType()}
	}
	return Content{Type: b.Type, MimeType: b.mimeType(), Digest: digestOf(data), Size: len(data)}
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

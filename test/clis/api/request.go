package api

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Request is what a CLI asked, in the same form for all dialects.
type Request struct {
	Dialect  string // the name of the dialect; empty: a path that is none
	Method   string
	Path     string
	Body     json.RawMessage
	Model    string
	Stream   bool
	Messages []Message
	Tools    []string // as the CLI calls them
	Dir      string   // where the CLI says it works
	Side     bool     // the CLI's own business: it took no turn
}

// Message is one of a conversation. A result of a tool is one of role tool.
type Message struct {
	Role string // user, assistant, tool
	Text string
}

// last is the newest message, with those before it that nobody answered.
func (r *Request) last() string {
	var b strings.Builder
	for i, m := range r.Messages {
		if m.Role == "assistant" {
			b.Reset()
			continue
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(m.Text)
	}
	return b.String()
}

// Said reports whether an earlier message of the role has the text.
func (r *Request) Said(role, text string) bool {
	for _, m := range r.Messages {
		if m.Role == role && strings.Contains(m.Text, text) {
			return true
		}
	}
	return false
}

// told is the text that the result of a tool has last told under a name, "" if none has. A
// result may be JSON in a text of JSON, whose quotes are escaped.
func (r *Request) told(name string) (text string) {
	told := regexp.MustCompile(`\\*"` + name + `\\*"\s*:\s*\\*"([^"\\]*)`)
	for _, m := range r.Messages {
		if all := told.FindAllStringSubmatch(m.Text, -1); m.Role == "tool" && all != nil {
			text = all[len(all)-1][1]
		}
	}
	return text
}

// Offers reports whether the model may call an MCP tool of the name.
func (r *Request) Offers(name string) bool { return r.tool(name, "") != "" }

// tool is the CLI's name of an MCP tool: the declared one that ends with the name.
func (r *Request) tool(name, otherwise string) string {
	for _, declared := range r.Tools {
		if strings.HasSuffix(declared, "_"+name) || strings.HasSuffix(declared, "/"+name) {
			return declared
		}
	}
	return otherwise
}

// has reports whether a tool is declared.
func (r *Request) has(name string) bool {
	for _, declared := range r.Tools {
		if declared == name {
			return true
		}
	}
	return false
}

// texts is every text in a JSON value, in order of the lists, joined by line breaks; it
// reads contents that may be a string or a list of blocks.
func texts(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var blocks []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return string(raw)
	}
	var parts []string
	for _, b := range blocks {
		switch {
		case b.Text != "":
			parts = append(parts, b.Text)
		case b.Content != nil:
			parts = append(parts, texts(b.Content))
		}
	}
	return strings.Join(parts, "\n")
}

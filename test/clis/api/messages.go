package api

import (
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
)

// messages is Anthropic's dialect, which Claude Code speaks.
type messages struct{}

var claudeDir = regexp.MustCompile(`[Ww]orking directory: (/[^\n]*)`)

func (messages) read(r *Request) error {
	var body struct {
		Model    string
		Stream   bool
		System   json.RawMessage
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	r.Model, r.Stream = body.Model, body.Stream
	for _, t := range body.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	r.Dir = found(claudeDir, texts(body.System))
	for _, m := range body.Messages {
		role := m.Role
		if strings.Contains(string(m.Content), `"tool_result"`) {
			role = "tool"
		}
		text := texts(m.Content)
		if r.Dir == "" {
			r.Dir = found(claudeDir, text)
		}
		r.Messages = append(r.Messages, Message{role, text})
	}
	return nil
}

func (messages) call(r *Request, c Call) (string, object) {
	switch c.Tool {
	case Write:
		return "Write", object{"file_path": c.arg("path"), "content": c.arg("content")}
	case Shell:
		return "Bash", object{"command": c.arg("command"), "description": "by the script"}
	}
	return r.tool(c.Tool, "mcp__tipstaff__"+c.Tool), c.Args
}

func (m messages) write(w io.Writer, r *Request, t Turn) {
	var blocks []object
	if t.Text != "" {
		blocks = append(blocks, object{"type": "text", "text": t.Text})
	}
	stop := "end_turn"
	for _, c := range t.Calls {
		name, input := m.call(r, c)
		blocks = append(blocks, object{"type": "tool_use", "id": id("toolu_"), "name": name, "input": input})
		stop = "tool_use"
	}
	usage := object{"input_tokens": InputTokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": OutputTokens}
	message := object{"id": id("msg_"), "type": "message", "role": "assistant", "model": r.Model, "content": []object{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	if !r.Stream {
		message["content"], message["stop_reason"] = blocks, stop
		json.NewEncoder(w).Encode(message)
		return
	}
	event(w, "message_start", object{"type": "message_start", "message": message})
	for i, b := range blocks {
		start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": b["text"]}
		if b["type"] == "tool_use" {
			input, _ := json.Marshal(b["input"])
			start = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}
			delta = object{"type": "input_json_delta", "partial_json": string(input)}
		}
		event(w, "content_block_start", object{"type": "content_block_start", "index": i, "content_block": start})
		event(w, "content_block_delta", object{"type": "content_block_delta", "index": i, "delta": delta})
		event(w, "content_block_stop", object{"type": "content_block_stop", "index": i})
	}
	event(w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": OutputTokens}})
	event(w, "message_stop", object{"type": "message_stop"})
}

func (messages) fail(status int, message string) any {
	kind := "api_error"
	switch status {
	case 400:
		kind = "invalid_request_error"
	case 401:
		kind = "authentication_error"
	case 429:
		kind = "rate_limit_error"
	case 529:
		kind = "overloaded_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}

// found is the first group of a match, without spaces around it.
func found(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[1])
	}
	return ""
}

var ids atomic.Int64

// id is one that no other answer has.
func id(prefix string) string { return prefix + strconv.FormatInt(ids.Add(1), 10) }

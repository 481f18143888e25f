package api

import (
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"strings"
)

// responses is OpenAI's newer dialect, which Codex speaks.
type responses struct{}

var codexDir = regexp.MustCompile(`<cwd>(/[^<]*)</cwd>`)

func (responses) read(r *Request) error {
	var body struct {
		Model  string
		Stream bool
		Input  []struct {
			Type    string
			Role    string
			Content json.RawMessage
			Output  json.RawMessage
			Name    string
		}
		Tools []responsesTool
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	r.Model, r.Stream = body.Model, body.Stream
	for _, t := range body.Tools {
		r.Tools = append(r.Tools, t.names()...)
	}
	for _, item := range body.Input {
		m := Message{item.Role, texts(item.Content)}
		switch item.Type {
		case "function_call_output", "custom_tool_call_output":
			m = Message{"tool", texts(item.Output)}
		case "function_call", "custom_tool_call":
			m = Message{"assistant", item.Name}
		case "message", "":
			if m.Role == "developer" {
				m.Role = "user"
			}
		default:
			continue
		}
		if dir := found(codexDir, m.Text); dir != "" {
			r.Dir = dir
		}
		r.Messages = append(r.Messages, m)
	}
	return nil
}

// responsesTool is a tool, or a name space of some.
type responsesTool struct {
	Type  string
	Name  string
	Tools []responsesTool
}

func (t responsesTool) names() (names []string) {
	if t.Type == "namespace" {
		for _, inner := range t.Tools {
			names = append(names, t.Name+"/"+inner.Name)
		}
		return names
	}
	if t.Name == "" {
		return []string{t.Type}
	}
	return []string{t.Name}
}

// call is an item that calls a tool. Codex has no tool for a single file: it writes by a
// patch, if it declares that tool, else by a command.
func (d responses) call(r *Request, c Call) object {
	name, args := c.Tool, object(c.Args)
	switch c.Tool {
	case Write:
		if r.has("apply_patch") {
			patch := "*** Begin Patch\n*** Add File: " + c.arg("path") + "\n+" + c.arg("content") + "\n*** End Patch\n"
			return object{"type": "custom_tool_call", "id": id("ctc_"), "call_id": id("call_"), "name": "apply_patch", "input": patch, "status": "completed"}
		}
		return d.call(r, Run("cat > '"+c.arg("path")+"' <<'END'\n"+c.arg("content")+"\nEND"))
	case Shell:
		if r.has("exec_command") {
			name, args = "exec_command", object{"cmd": c.arg("command")}
		} else {
			name, args = "shell", object{"command": []string{"bash", "-lc", c.arg("command")}}
		}
	}
	arguments, _ := json.Marshal(args)
	item := object{"type": "function_call", "id": id("fc_"), "call_id": id("call_"), "name": name, "arguments": string(arguments), "status": "completed"}
	for _, declared := range r.Tools {
		if space, tool, ok := strings.Cut(declared, "/"); ok && tool == name {
			item["namespace"] = space
		} else if strings.HasSuffix(declared, "__"+name) {
			item["name"] = declared
		}
	}
	return item
}

func (d responses) write(w io.Writer, r *Request, t Turn) {
	var items []object
	if t.Text != "" {
		items = append(items, object{"type": "message", "id": id("msg_"), "role": "assistant", "status": "completed", "content": []object{{"type": "output_text", "text": t.Text, "annotations": []any{}}}})
	}
	for _, c := range t.Calls {
		items = append(items, d.call(r, c))
	}
	response := object{"id": id("resp_"), "object": "response", "model": r.Model, "status": "in_progress", "output": []object{}}
	done := maps.Clone(response)
	done["status"], done["output"] = "completed", items
	done["usage"] = object{"input_tokens": InputTokens, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": OutputTokens, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": InputTokens + OutputTokens}
	if !r.Stream {
		json.NewEncoder(w).Encode(done)
		return
	}
	event(w, "response.created", object{"type": "response.created", "response": response})
	for i, item := range items {
		event(w, "response.output_item.added", object{"type": "response.output_item.added", "output_index": i, "item": item})
		if item["type"] == "message" {
			event(w, "response.output_text.delta", object{"type": "response.output_text.delta", "output_index": i, "content_index": 0, "item_id": item["id"], "delta": t.Text})
		}
		event(w, "response.output_item.done", object{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	event(w, "response.completed", object{"type": "response.completed", "response": done})
}

func (responses) fail(status int, message string) any { return openAIError(status, message) }

func openAIError(status int, message string) any {
	kind := "server_error"
	switch status {
	case 400:
		kind = "invalid_request_error"
	case 429:
		kind = "rate_limit_exceeded"
	}
	return object{"error": object{"message": message, "type": kind, "code": kind, "param": nil}}
}

package api

import (
	"encoding/json"
	"io"
	"regexp"
)

// chat is OpenAI's older dialect, which opencode speaks with servers of others.
type chat struct{}

var opencodeDir = regexp.MustCompile(`Working directory: (/[^\n]*)`)

func (chat) read(r *Request) error {
	var body struct {
		Model    string
		Stream   bool
		Messages []struct {
			Role      string
			Content   json.RawMessage
			ToolCalls json.RawMessage `json:"tool_calls"`
		}
		Tools []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	r.Model, r.Stream = body.Model, body.Stream
	for _, t := range body.Tools {
		r.Tools = append(r.Tools, t.Function.Name)
	}
	for _, m := range body.Messages {
		text := texts(m.Content)
		if dir := found(opencodeDir, text); dir != "" {
			r.Dir = dir
		}
		if m.Role == "system" {
			continue
		}
		r.Messages = append(r.Messages, Message{m.Role, text})
	}
	return nil
}

func (chat) call(r *Request, c Call) (string, object) {
	switch c.Tool {
	case Write:
		return "write", object{"filePath": c.arg("path"), "content": c.arg("content")}
	case Shell:
		return "bash", object{"command": c.arg("command"), "description": "by the script"}
	}
	return r.tool(c.Tool, "tipstaff_"+c.Tool), c.Args
}

func (d chat) write(w io.Writer, r *Request, t Turn) {
	message := object{"role": "assistant", "content": t.Text}
	finish := "stop"
	var calls []object
	for i, c := range t.Calls {
		name, args := d.call(r, c)
		arguments, _ := json.Marshal(args)
		calls = append(calls, object{"index": i, "id": id("call_"), "type": "function", "function": object{"name": name, "arguments": string(arguments)}})
	}
	if calls != nil {
		message["tool_calls"], finish = calls, "tool_calls"
	}
	usage := object{"prompt_tokens": InputTokens, "completion_tokens": OutputTokens, "total_tokens": InputTokens + OutputTokens}
	answer := func(kind string, choice object) object {
		choice["index"] = 0
		return object{"id": "chatcmpl-1", "object": kind, "created": 1, "model": r.Model, "choices": []object{choice}}
	}
	if !r.Stream {
		whole := answer("chat.completion", object{"message": message, "finish_reason": finish})
		whole["usage"] = usage
		json.NewEncoder(w).Encode(whole)
		return
	}
	event(w, "", answer("chat.completion.chunk", object{"delta": message, "finish_reason": nil}))
	last := answer("chat.completion.chunk", object{"delta": object{}, "finish_reason": finish})
	last["usage"] = usage
	event(w, "", last)
	io.WriteString(w, "data: [DONE]\n\n")
}

func (chat) fail(status int, message string) any { return openAIError(status, message) }

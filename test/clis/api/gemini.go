package api

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// gemini is Google's dialect, which the Gemini CLI speaks.
type gemini struct{}

var (
	geminiModel = regexp.MustCompile(`/models/([^:/]+):`)
	geminiDir   = regexp.MustCompile(`(?:\*\*Workspace Directories:\*\*\n\s*- |working in the directory: )(/[^\n]*)`)
)

func (gemini) read(r *Request) error {
	var body struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionCall     *struct{ Name string }
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
		Tools []struct{ FunctionDeclarations []struct{ Name string } }
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	r.Model, r.Stream = found(geminiModel, r.Path), strings.Contains(r.Path, ":streamGenerateContent")
	for _, t := range body.Tools {
		for _, f := range t.FunctionDeclarations {
			r.Tools = append(r.Tools, f.Name)
		}
	}
	for _, c := range body.Contents {
		m := Message{Role: c.Role}
		if m.Role == "model" {
			m.Role = "assistant"
		}
		for _, p := range c.Parts {
			switch {
			case p.FunctionResponse != nil:
				m.Role = "tool"
				m.Text += string(p.FunctionResponse.Response)
			case p.FunctionCall != nil:
				m.Text += p.FunctionCall.Name
			default:
				m.Text += p.Text
			}
		}
		if dir := found(geminiDir, m.Text); dir != "" {
			r.Dir = dir
		}
		r.Messages = append(r.Messages, m)
	}
	return nil
}

func (gemini) call(r *Request, c Call) (string, object) {
	switch c.Tool {
	case Write:
		return "write_file", object{"file_path": c.arg("path"), "content": c.arg("content")}
	case Shell:
		return "run_shell_command", object{"command": c.arg("command"), "description": "by the script"}
	}
	return r.tool(c.Tool, "mcp_tipstaff_"+c.Tool), c.Args
}

func (d gemini) write(w io.Writer, r *Request, t Turn) {
	var parts []object
	if t.Text != "" {
		parts = append(parts, object{"text": t.Text})
	}
	for _, c := range t.Calls {
		name, args := d.call(r, c)
		parts = append(parts, object{"functionCall": object{"id": id("call_"), "name": name, "args": args}})
	}
	answer := object{
		"candidates":    []object{{"content": object{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": InputTokens, "candidatesTokenCount": OutputTokens, "totalTokenCount": InputTokens + OutputTokens},
		"modelVersion":  r.Model,
	}
	if !r.Stream {
		json.NewEncoder(w).Encode(answer)
		return
	}
	event(w, "", answer)
}

func (gemini) fail(status int, message string) any {
	state := "INTERNAL"
	switch status {
	case 400:
		state = "INVALID_ARGUMENT"
	case 429:
		state = "RESOURCE_EXHAUSTED"
	case 503:
		state = "UNAVAILABLE"
	}
	return object{"error": object{"code": status, "message": message, "status": state}}
}

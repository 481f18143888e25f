package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// toolServer is an MCP server over standard input and output whose every word a
// test decides: its argument names a JSON file, with or without its suffix, with the
// version it reports and the definitions it lists, member for member. Without the
// suffix no lock holds the file's digest. Each start leaves its name as a line in the file starts, and each call the tool's name in the file calls, so that
// both are seen outside of Tipstaff. It answers
// with the arguments; the tool fail reports an error, the tool big tells a number
// that no double can hold.
func toolServer() {
	file := strings.TrimSuffix(os.Args[1], ".json") + ".json"
	note("starts", file)
	var script struct {
		Version string            `json:"version"`
		Tools   []json.RawMessage `json:"tools"`
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &script)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolserver:", err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		var result any = map[string]any{}
		switch m.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]string{"name": "toolserver", "version": script.Version}}
		case "tools/list":
			result = map[string]any{"tools": script.Tools}
		case "tools/call":
			note("calls", m.Params.Name)
			text := string(m.Params.Arguments)
			if m.Params.Name == "big" {
				text = "9007199254740993"
			}
			result = map[string]any{"isError": m.Params.Name == "fail", "content": []any{map[string]string{"type": "text", "text": text}}}
		case "ping":
		default:
			reply(m.ID, "error", map[string]any{"code": -32601, "message": "no such method"})
			continue
		}
		reply(m.ID, "result", result)
	}
}

func reply(id json.RawMessage, member string, value any) {
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, member: value})
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolserver:", err)
		os.Exit(1)
	}
	fmt.Printf("%s\n", line)
}

func note(file, name string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, name)
		f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolserver:", err)
		os.Exit(1)
	}
}

package page_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const chatManifest = `
allowed_effects: [read, idempotent]
servers:
  builtin:
    roots: ["."]
    tools: {write_file: {effect: idempotent}}
models:
  rehearsed: {provider: scripted, script: script.yaml}
agents:
  default: {model: rehearsed, tools: [mcp://builtin/write_file@1.0.0]}
policy:
  rules:
    - {id: writes, tool: "builtin/write_file", do: ask}
`

var chatScript = `
version: 1
answers:
  - when: {user: "(?i)note", step: 1}
    chunks: 60
    delay: 50ms
    text: "I **write** the note now <b>and</b> here, which takes me a while, since every word has to be weighed, and none may be one too many, until all of it is said."
    calls: [{tool: builtin/write_file, args: {path: note.md, content: hello}}]
  - when: {user: "(?i)note", step: 2}
    chunks: 5
    text: "The note is there."
  - when: {user: "(?i)time"}
    chunks: 300
    delay: 100ms
    text: "` + strings.Repeat("tick ", 60) + `"
  - when: {user: "(?i)another"}
    text: "Another thing it is."
`

func TestBrowserChat(t *testing.T) {
	g := newGround(t)
	for name, text := range map[string]string{"tipstaff.yaml": chatManifest, "script.yaml": chatScript} {
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g.script("chat.mjs")
}

package mcp

import (
	"os"
	"strings"
	"testing"
)

// withFiles declares server-filesystem over a folder of the workspace.
func withFiles(t *testing.T) *workspace {
	t.Helper()
	w := newWorkspace(t)
	w.Write("files/note.txt", "first\n")
	w.Write("tipstaff.yaml", `allowed_effects: [read, idempotent, once]
servers:
  files:
    command: `+w.command(filesystem, w.Path("files"))+`
    tools: {read_text_file: {}, write_file: {}, edit_file: {}, create_directory: {}, move_file: {}, list_directory: {}}
`)
	return w
}

func TestFilesystem(t *testing.T) {
	t.Parallel()
	w := withFiles(t)
	w.files(strings.ReplaceAll(`-- files.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: made, kind: tool_call, tool: "mcp://files/create_directory@0.2.0", args: {path: DIR/deep/er}}
    - kind: parallel
      children:
        - {id: a, kind: tool_call, tool: "mcp://files/write_file@0.2.0", args: {path: DIR/deep/a.txt, content: "a\n"}}
        - {id: b, kind: tool_call, tool: "mcp://files/write_file@0.2.0", args: {path: DIR/deep/b.txt, content: ""}}
        - {id: c, kind: tool_call, tool: "mcp://files/edit_file@0.2.0", args: {path: DIR/note.txt, edits: [{oldText: first, newText: second}]}}
    - {id: moved, kind: tool_call, tool: "mcp://files/move_file@0.2.0", args: {source: DIR/deep/a.txt, destination: DIR/deep/er/a.txt}}
    - {id: note, kind: tool_call, tool: "mcp://files/read_text_file@0.2.0", args: {path: DIR/note.txt}}
    - {id: list, kind: tool_call, tool: "mcp://files/list_directory@0.2.0", args: {path: DIR/deep}}
outputs: {note: "${note.output.content}", list: "${list.output.content}"}
`, "DIR", w.Path("files"))).pin()
	var out struct{ Note, List string }
	w.outputs("files.yaml", &out)
	if out.Note != "second\n" {
		t.Errorf("note.txt has %q", out.Note)
	}
	if !strings.Contains(out.List, "b.txt") || strings.Contains(out.List, "a.txt") || !strings.Contains(out.List, "er") {
		t.Errorf("the folder has %q", out.List)
	}
	if got := w.Read("files/deep/er/a.txt"); got != "a\n" {
		t.Errorf("a.txt has %q", got)
	}
	if _, err := os.Stat(w.Path("files/deep/b.txt")); err != nil {
		t.Errorf("an empty content was no content: %v", err)
	}
	// What the server says of its tools decides the class.
	for path, class := range map[string]string{"root/made": "idempotent", "root/1/a": "idempotent", "root/1/c": "once", "root/moved": "once", "root/note": "read"} {
		if r := w.journal("effect.intended", path); len(r) != 1 || r[0].Body.Class != class {
			t.Errorf("%s: %+v, want class %s", path, r, class)
		}
	}
}

func TestFilesystemRefuses(t *testing.T) {
	t.Parallel()
	w := withFiles(t).pin()
	w.Must(10, "tools", "call", "mcp://files/read_text_file@0.2.0", "--args", `{"path":"/etc/passwd"}`).Says(t, "Access denied")
}

// Results of megabytes come through whole, up to the limit, and not a byte beyond.
func TestLargeResults(t *testing.T) {
	t.Parallel()
	w := withFiles(t)
	w.Write("tipstaff.yaml", strings.Replace(w.Read("tipstaff.yaml"), "read_text_file: {}", "read_text_file: {max_result: 2MiB}", 1))
	line := strings.Repeat("täglich 0123456789 ", 50) + "\n"
	fits := strings.Repeat(line, 1<<20/len(line))
	w.Write("files/fits.txt", fits)
	w.Write("files/over.txt", strings.Repeat(line, 3<<20/len(line)))
	w.files(strings.ReplaceAll(`-- fits.yaml --
kind: plan
version: 1
root: {id: big, kind: tool_call, tool: "mcp://files/read_text_file@0.2.0", args: {path: DIR/fits.txt}}
outputs: {text: "${big.output.content}"}
-- over.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: big, kind: tool_call, tool: "mcp://files/read_text_file@0.2.0", args: {path: DIR/over.txt}, on_error: continue}
    - {id: note, kind: tool_call, tool: "mcp://files/read_text_file@0.2.0", args: {path: DIR/note.txt}}
outputs: {text: "${note.output.content}"}
`, "DIR", w.Path("files"))).pin()
	var out struct{ Text string }
	if w.outputs("fits.yaml", &out); out.Text != fits {
		t.Errorf("of %d bytes %d came back, or others", len(fits), len(out.Text))
	}
	w.Must(0, "run", "over.yaml", "--unattended")
	if f := w.failure("root/big"); f.Body.Error.Code != "result_too_large" {
		t.Errorf("it failed with %+v", f.Body.Error)
	}
	if s := w.show(); s.Outcome != "partial" || !strings.Contains(string(s.Outputs), `first\n`) {
		t.Errorf("after it: %s %s", s.Outcome, s.Outputs)
	}
}

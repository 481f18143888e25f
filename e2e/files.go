package e2e

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// FilesCommand is the hidden command with which the binary serves the files of a folder.
const FilesCommand = "e2e-files"

// The versions that servers report; that of builtin is the product's.
const (
	filesVersion   = "1.4.0"
	notesVersion   = "2.1.0"
	builtinVersion = "1.0.0"
)

// Hints of tools; once is what a tool is that gives none.
var (
	reads      = &mcp.ToolAnnotations{ReadOnlyHint: true}
	idempotent = &mcp.ToolAnnotations{IdempotentHint: true}
	once       = &mcp.ToolAnnotations{}
)

// arguments are those of all tools of the harness; each uses some.
type arguments struct {
	Name string `json:"name,omitempty"`
	Text string `json:"text,omitempty"`
}

// ServeFiles is the server files, over standard input and output: three tools for the
// files of a folder. Every call adds the tool's name to the file counter, as a line.
func ServeFiles(ctx context.Context, folder, counter string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	calls, err := os.OpenFile(counter, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer calls.Close()
	count := func(tool string) error {
		_, err := calls.WriteString(tool + "\n")
		return err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "files", Version: filesVersion}, nil)
	serve(s, "list", "Lists the names of all files.", reads, count, func(arguments) (object, error) {
		names, err := fs.Glob(root.FS(), "*")
		return object{"names": names}, err
	})
	serve(s, "read", "Reads a file.", reads, count, func(in arguments) (object, error) {
		text, err := root.ReadFile(in.Name)
		return object{"text": string(text)}, err
	})
	serve(s, "write", "Writes a file.", idempotent, count, func(in arguments) (object, error) {
		return object{"name": in.Name}, root.WriteFile(in.Name, []byte(in.Text), 0o600)
	})
	return s.Run(ctx, &mcp.StdioTransport{})
}

// serve adds a tool whose calls are counted before they do anything.
func serve(s *mcp.Server, name, what string, hints *mcp.ToolAnnotations, count func(string) error, do func(arguments) (object, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: what, Annotations: hints},
		func(_ context.Context, _ *mcp.CallToolRequest, in arguments) (*mcp.CallToolResult, object, error) {
			if err := count(name); err != nil {
				return nil, nil, err
			}
			out, err := do(in)
			return nil, out, err
		})
}

// countedFiles are the calls that the server files has counted so far.
func countedFiles(folder string) (calls, error) {
	text, err := os.ReadFile(filepath.Join(folder, "calls"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	found := calls{}
	for _, tool := range strings.Fields(string(text)) {
		found["files/"+tool]++
	}
	return found, nil
}

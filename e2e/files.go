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

var (
	reads  = &mcp.ToolAnnotations{ReadOnlyHint: true}
	repeat = &mcp.ToolAnnotations{IdempotentHint: true}
)

type (
	noArgs   struct{}
	fileArgs struct {
		Name string `json:"name"`
	}
	writeArgs struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	fileList struct {
		Names []string `json:"names"`
	}
	fileText struct {
		Text string `json:"text"`
	}
	fileWritten struct {
		Name  string `json:"name"`
		Bytes int    `json:"bytes"`
	}
)

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
	serve(s, "list", "Lists the names of all files.", reads, count, func(noArgs) (out fileList, err error) {
		entries, err := fs.ReadDir(root.FS(), ".")
		for _, e := range entries {
			out.Names = append(out.Names, e.Name())
		}
		return out, err
	})
	serve(s, "read", "Reads a file.", reads, count, func(in fileArgs) (out fileText, err error) {
		text, err := root.ReadFile(in.Name)
		return fileText{string(text)}, err
	})
	serve(s, "write", "Writes a file.", repeat, count, func(in writeArgs) (fileWritten, error) {
		return fileWritten{in.Name, len(in.Text)}, root.WriteFile(in.Name, []byte(in.Text), 0o600)
	})
	return s.Run(ctx, &mcp.StdioTransport{})
}

// serve adds a tool whose calls are counted before they do anything.
func serve[In, Out any](s *mcp.Server, name, what string, hints *mcp.ToolAnnotations, count func(string) error, do func(In) (Out, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: what, Annotations: hints},
		func(_ context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
			if err := count(name); err != nil {
				var none Out
				return nil, none, err
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

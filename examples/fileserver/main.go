// Command fileserver is a small MCP server over standard input and output, on the
// official SDK: it lists and reads the files of one folder. The examples use it to
// show an agent that works through a server which is a program of its own.
//
//	fileserver FOLDER
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const version = "1.0.0"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fileserver FOLDER")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "fileserver:", err)
		os.Exit(1)
	}
}

func serve(folder string) error {
	root, err := os.OpenRoot(folder) // neither .. nor a link leaves it
	if err != nil {
		return err
	}
	defer root.Close()
	s := mcp.NewServer(&mcp.Implementation{Name: "fileserver", Version: version}, nil)
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	mcp.AddTool(s, &mcp.Tool{Name: "list", Description: "Lists the names of all files.", Annotations: reads},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, names, error) {
			found, err := list(root.FS())
			return nil, names{found}, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "read", Description: "Reads a file as text.", Annotations: reads},
		func(_ context.Context, _ *mcp.CallToolRequest, in file) (*mcp.CallToolResult, any, error) {
			text, err := root.ReadFile(in.Name)
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, nil
		})
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

type file struct {
	Name string `json:"name" jsonschema:"the name that list gives"`
}

type names struct {
	Files []string `json:"files"`
}

func list(files fs.FS) ([]string, error) {
	found := []string{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			found = append(found, name)
		}
		return err
	})
	return found, err
}

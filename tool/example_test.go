package tool_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// A call is decided over what was frozen, and made over what holds now.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	_ = os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("remember"), 0o644)

	m, problems := workspace.Parse("tipstaff.yaml", []byte(`
servers:
  builtin: {roots: ["."], tools: {read_file: {effect: read}}}
`))
	if problems != nil {
		fmt.Println(problems)
		return
	}
	servers := tool.Servers(m, tool.Launch{Workspace: dir})
	tools, err := tool.NewRegistry(m, servers)
	if err != nil {
		fmt.Println(err)
		return
	}
	const uri = "mcp://builtin/read_file@1.0.0"
	gate := tool.NewGate([]string{uri}, m, tools)

	args := flow.JSON(map[string]any{"path": "notes.txt"})
	v := gate.Ask(tool.Request{URI: uri, Args: args})
	fmt.Println(v.Do, "by", v.By, "under", v.Rule)
	if v.Do != policy.Allow {
		return
	}
	manager := tool.NewManager(m, servers)
	defer manager.Close()
	done, err := manager.Activity(gate).Run(context.Background(), flow.Attempt{
		Class: v.Definition.Class,
		Input: flow.JSON(tool.Input{URI: uri, Args: args, By: v.By}),
	})
	fmt.Println(string(done.Value), err)
	// Output:
	// allow by accept under builtin/no-match
	// {"path":"notes.txt","text":"remember","size":8,"sha256":"sha256:35379d9c009e290d702b72abf3f5f9bdbaa7e00a63fc37b5174fc3825c8095e3"} <nil>
}

package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// leastNode is the major version of Node that the suite needs.
const leastNode = 22

// installation is what scripts/mcp.sh left in .cache/mcp.
type installation struct {
	modules string
	node    string
}

var find = sync.OnceValues(func() (installation, error) {
	modules, err := filepath.Abs("../../.cache/mcp/node_modules")
	if err != nil {
		return installation{}, err
	}
	if _, err := os.Stat(modules); err != nil {
		return installation{}, fmt.Errorf("%w: run scripts/mcp.sh, which installs it", err)
	}
	brought := filepath.Join(modules, ".bin", "node")
	for _, node := range []string{"node", brought} {
		if path, err := exec.LookPath(node); err == nil && majorVersion(path) >= leastNode {
			return installation{modules, path}, nil
		}
	}
	return installation{}, fmt.Errorf("neither PATH nor %s has Node %d: run scripts/mcp.sh, which installs it", brought, leastNode)
})

func majorVersion(node string) int {
	out, err := exec.Command(node, "--version").Output()
	if err != nil {
		return 0
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, _ := strconv.Atoi(major) // what is no number is too old
	return n
}

// installed skips the test where the servers were not asked for.
func installed(t testing.TB) installation {
	t.Helper()
	if os.Getenv("TIPSTAFF_MCP") == "" {
		t.Skip("TIPSTAFF_MCP is not set: make test-mcp installs the servers and runs this")
	}
	i, err := find()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// folder of an installed package.
func (i installation) folder(name string) string {
	return filepath.Join(i.modules, filepath.FromSlash(name))
}

// The packages, by the names of package.json.
const (
	everything = "@modelcontextprotocol/server-everything"
	filesystem = "@modelcontextprotocol/server-filesystem"
	memory     = "@modelcontextprotocol/server-memory"
	thinking   = "@modelcontextprotocol/server-sequential-thinking"
	git        = "@cyanheads/git-mcp-server"
	playwright = "@playwright/mcp"
	suite      = "@modelcontextprotocol/conformance"

	formerEverything = "former-server-everything"
	formerFilesystem = "former-server-filesystem"
	formerThinking   = "former-server-sequential-thinking"
)

// start is the program in a package's folder.
func start(folder string) string { return filepath.Join(folder, "dist", "index.js") }

// command starts a server, as a manifest writes it.
func (i installation) command(name string, args ...string) string {
	return i.commandAt(i.folder(name), args...)
}

func (i installation) commandAt(folder string, args ...string) string {
	words := append([]string{i.node, start(folder)}, args...)
	for n, w := range words {
		words[n] = strconv.Quote(w)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

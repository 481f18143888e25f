package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is written into a client's file leaves the rest as it was, and is written once.
func TestMCPConfigIsMerged(t *testing.T) {
	const entry = `"command": "/bin/tipstaff"`
	for name, c := range map[string]struct {
		client, old string
		keeps       []string // besides the lines of old
		fails       bool
	}{
		"no file":                {client: "claude"},
		"an empty file":          {client: "gemini", old: "\n"},
		"other settings":         {client: "gemini", old: "{\n    \"theme\": \"dark\",\n    // a comment\n    \"list\": [1, {\"a\": \"}\"}], /* another */\n}\n"},
		"other servers":          {client: "cursor", old: "{\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\", \"args\": [\"mcpServers\"]}\n\t}\n}\n"},
		"no servers yet":         {client: "claude", old: `{"mcpServers": {}}`},
		"an empty object":        {client: "claude", old: "{}"},
		"an old entry":           {client: "claude", old: "{\n  \"mcpServers\": {\n    \"tipstaff\": {\"command\": \"/old\"},\n    \"other\": {\"command\": \"x\"}\n  }\n}\n"},
		"opencode with comments": {client: "opencode", old: "{\n  // of mine\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    // no servers\n  },\n}\n"},
		"TOML with tables":       {client: "codex", old: "model = \"m\" # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n"},
		"TOML with an old entry": {client: "codex", old: "[mcp_servers.tipstaff]\ncommand = \"/old\"\nargs = [\n  \"a\",\n]\n\n# of the next\n[mcp_servers.tipstaff.env]\nA = \"b\"\n\n[z]\nq = \"\"\"\n[mcp_servers.tipstaff]\n\"\"\"\n"},
		"TOML without an end":    {client: "codex", old: "model = \"m\""},
		"TOML in one line":       {client: "codex", old: "mcp_servers = {}\n", fails: true},
		"not JSON":               {client: "claude", old: "{\"a\": ", fails: true},
		"a list":                 {client: "claude", old: "[]", fails: true},
		"servers are a list":     {client: "claude", old: `{"mcpServers": []}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			config := mcpConfigs[c.client]
			args := []string{"mcp", "--workspace", `/w/with "quotes"`}
			got, err := config.merged(c.old, "/bin/tipstaff", args)
			if c.fails != (err != nil) {
				t.Fatalf("%v: %s", err, got)
			}
			if c.fails {
				return
			}
			if again, err := config.merged(got, "/bin/tipstaff", args); err != nil || again != got {
				t.Errorf("a second time changes it: %v\n%s", err, lineDifference(got, again))
			}
			for line := range strings.SplitSeq(c.old, "\n") {
				if line = strings.Trim(line, " \t{}"); line != "" && !strings.Contains(line, "/old") && line != "args = [" && line != `"a",` && line != "]" && !strings.Contains(got, line) {
					t.Errorf("%q is gone from\n%s", line, got)
				}
			}
			want := entry
			switch c.client {
			case "codex":
				want = `command = "/bin/tipstaff"` + "\n" + `args = ["mcp", "--workspace", "/w/with \"quotes\""]`
			case "opencode":
				want = `"/bin/tipstaff",`
			}
			if strings.Count(got, want) != 1 || strings.Contains(got, "/old") {
				t.Errorf("%q is not there once:\n%s", want, got)
			}
		})
	}
}

func TestMCPConfigCommand(t *testing.T) {
	b := newBench(t)
	b.env.MCP = func(context.Context, MCPOptions, func(Listening) error) error {
		t.Error("it serves")
		return nil
	}
	dir := t.TempDir()
	for _, client := range mcpClients() {
		file := filepath.Join(dir, mcpConfigs[client].file)
		b.run(t, 0, "mcp", "--config", client, "--workspace", dir)
		if _, err := os.Stat(file); err == nil || !strings.Contains(b.out.String(), dir) {
			t.Errorf("%s was written, or not printed: %s", file, b.out.String())
		}
		b.out.Reset()
		b.run(t, 0, "mcp", "--config", client, "--write", "--workspace", dir)
		first, err := os.ReadFile(file)
		if err != nil || !strings.Contains(b.out.String(), "+") {
			t.Errorf("%s: %v, %s", client, err, b.out.String())
		}
		b.out.Reset()
		b.run(t, 0, "mcp", "--config", client, "--write", "--workspace", dir)
		second, err := os.ReadFile(file)
		if err != nil || string(second) != string(first) || !strings.Contains(b.out.String(), "has it already") {
			t.Errorf("%s, again: %v, %s", client, err, b.out.String())
		}
		b.out.Reset()
	}
	for name, args := range map[string][]string{
		"an unknown client":  {"--config", "emacs"},
		"no client":          {"--write"},
		"both":               {"--config", "claude", "--http", "127.0.0.1:0"},
		"another machine":    {"--http", "0.0.0.0:80"},
		"no address":         {"--http", "here"},
		"no runs":            {"--max-runs", "0"},
		"runs that are none": {"--max-runs", "many"},
		"an argument":        {"now"},
		"of a server":        {"--server", "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) { b.run(t, 2, append([]string{"mcp"}, args...)...) })
	}
}

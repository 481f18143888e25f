package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// The text for a client holds our server alone, with what starts it as it is.
func TestMCPConfigOfEachClient(t *testing.T) {
	argv := []string{"/bin/tipstaff", "mcp", "--workspace", `/w/with "quotes"`}
	for name, c := range mcpClients {
		text := c.text(argv)
		if name == "codex" {
			if want := "[mcp_servers.tipstaff]\ncommand = \"/bin/tipstaff\"\nargs = [\"mcp\",\"--workspace\",\"/w/with \\\"quotes\\\"\"]\n"; text != want {
				t.Errorf("codex: %s", text)
			}
			continue
		}
		var file map[string]json.RawMessage
		var servers map[string]struct {
			Command any
			Args    []string
		}
		if err := errors.Join(json.Unmarshal([]byte(text), &file), json.Unmarshal(file[c.member], &servers)); err != nil || len(servers) != 1 {
			t.Errorf("%s: %v in %s", name, err, text)
		}
		words := servers[mcpEntry].Args
		if of, ok := servers[mcpEntry].Command.([]any); ok {
			for _, w := range of[1:] {
				words = append(words, w.(string))
			}
		}
		if !slices.Equal(words, argv[1:]) {
			t.Errorf("%s starts the server with %q", name, words)
		}
	}
}

// client is what became of a client's own command.
type client struct {
	dir  string
	argv []string
	code int
	err  error
}

func configuring(t *testing.T) (*bench, *client) {
	b, ran := newBench(t), new(client)
	b.env.MCP = func(context.Context, MCPOptions, func(Listening) error) error {
		t.Error("it serves")
		return nil
	}
	b.env.RunClient = func(_ context.Context, dir string, argv []string) (int, error) {
		ran.dir, ran.argv = dir, argv
		return ran.code, ran.err
	}
	return b, ran
}

// Nothing of ours writes a client's file: its own command does, or a person.
func TestMCPConfigWritesNothing(t *testing.T) {
	b, ran := configuring(t)
	dir := t.TempDir()
	for _, name := range mcpClientNames() {
		*ran = client{}
		b.run(t, 0, "mcp", "--config", name, "--workspace", dir)
		if ran.argv != nil || !strings.Contains(b.out.String(), dir) || strings.Contains(b.out.String(), "--decide") || !strings.Contains(b.err.String(), "--decide") {
			t.Errorf("%s: it runs %q, and prints %s%s", name, ran.argv, b.out.String(), b.err.String())
		}
		b.out.Reset()
		adds := mcpClients[name].add != nil
		code := 0
		if !adds {
			code = 3
		}
		b.run(t, code, "mcp", "--config", name, "--write", "--workspace", dir)
		if adds && (ran.dir != dir || ran.argv[0] != name || !slices.Contains(ran.argv, "--workspace") || slices.Contains(ran.argv, "--decide") || b.out.Len() > 0) {
			t.Errorf("%s: in %s it runs %q, and prints %s", name, ran.dir, ran.argv, b.out.String())
		}
		if !adds && !strings.Contains(b.out.String(), dir) {
			t.Errorf("%s: there is no text to paste: %s", name, b.out.String())
		}
		b.out.Reset()
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d files were written, %v", len(left), err)
	}
}

// A client that is not there, or does not take the server in, leaves the text to paste.
func TestMCPConfigWithoutTheClient(t *testing.T) {
	b, ran := configuring(t)
	for why, c := range map[string]client{"cannot be started: not on PATH": {err: errors.New("not on PATH")}, "ended with code 1": {code: 1}} {
		*ran = c
		b.run(t, 3, "mcp", "--config", "claude", "--write", "--workspace", t.TempDir())
		if !strings.Contains(b.out.String(), `"mcpServers"`) || !strings.Contains(b.err.String(), why) || !strings.Contains(b.err.String(), ".mcp.json") {
			t.Errorf("%s: %s%s", why, b.out.String(), b.err.String())
		}
		b.out.Reset()
		b.err.Reset()
	}
}

func TestMCPMisused(t *testing.T) {
	b, _ := configuring(t)
	for name, args := range map[string][]string{
		"an unknown client":            {"--config", "emacs"},
		"no client":                    {"--write"},
		"both":                         {"--config", "claude", "--http", "127.0.0.1:0"},
		"another machine":              {"--http", "0.0.0.0:80"},
		"no address":                   {"--http", "here"},
		"no runs":                      {"--max-runs", "0"},
		"runs that are none":           {"--max-runs", "many"},
		"an argument":                  {"now"},
		"of a server":                  {"--server", "127.0.0.1:1"},
		"decides and reads only":       {"--decide", "--read-only"},
		"decides, and is printed":      {"--decide", "--config", "claude"},
		"decides, where tokens decide": {"--decide", "--http", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) { b.run(t, 2, append([]string{"mcp"}, args...)...) })
	}
}

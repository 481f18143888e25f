package main

import (
	"testing"

	"github.com/tipstaff/tipstaff/provider"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// A key of any vendor is enough: what init writes for it can be read, and its model be
// opened.
func TestEveryVendorHasAStarter(t *testing.T) {
	for _, v := range provider.Vendors() {
		for _, key := range v.Keys {
			m, err := ws.Implicit([]ws.StarterModel{{Provider: v.Provider, Model: v.Model, Key: key}})
			if err != nil {
				t.Errorf("%s: %v", v.Provider, err)
				continue
			}
			model, _ := m.Model(v.Provider)
			resolved, refused := model.Resolve([]string{key + "=key-of-nobody"})
			if refused != nil {
				t.Errorf("%s: %v", v.Provider, refused)
				continue
			}
			opened, err := openModel(resolved, ws.File{})
			if err != nil {
				t.Errorf("%s: %v", v.Provider, err)
				continue
			}
			if caps := opened.Caps(); caps.Price == nil || caps.ContextWindow < 100_000 {
				t.Errorf("%s: nothing is known of the default model %s: %+v", v.Provider, v.Model, caps)
			}
		}
	}
}

func TestNamesOfServers(t *testing.T) {
	for want, command := range map[string][]string{
		"time":       {"uvx", "mcp-server-time"},
		"filesystem": {"npx", "-y", "@modelcontextprotocol/server-filesystem@2026.7.1", "."},
		"github":     {"docker", "run", "-i", "--rm", "ghcr.io/github/github-mcp-server:1.2"},
		"srv":        {"python3", "./lib/srv.py"},
		"issues":     {"/opt/issues-server", "--stdio"},
		"server":     {"npx", "-y"},
		"tools":      {"./tools"},
	} {
		if got := serverName(command); got != want {
			t.Errorf("%q is called %q, want %q", command, got, want)
		}
	}
	for _, taken := range []string{"builtin", "tipstaff", "ä"} {
		if got := serverName([]string{taken}); got != "server" {
			t.Errorf("%q is called %q", taken, got)
		}
	}
}

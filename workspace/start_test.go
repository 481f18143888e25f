package workspace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/workspace"
)

// A server has the time to start that the manifest gives it; what is inside this binary has
// nothing to start.
func TestServersHaveTimeToStart(t *testing.T) {
	m := parse(t, `
servers:
  slow: {command: [slow], start_timeout: 2m}
  far: {url: "https://example.com/mcp", start_timeout: 90s}
  usual: {command: [usual]}
`)
	for name, want := range map[string]time.Duration{"slow": 2 * time.Minute, "far": 90 * time.Second, "usual": 0} {
		if got := time.Duration(m.Servers[name].StartTimeout); got != want {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
	for server, want := range map[string]string{
		`slow: {command: [slow], start_timeout: 2h}`:                   "start_timeout",
		`slow: {command: [slow], start_timeout: 10ms}`:                 "start_timeout",
		`slow: {command: [slow], start_timeout: soon}`:                 "start_timeout",
		`builtin: {roots: ["."], tools: {sleep: }, start_timeout: 1m}`: "builtin is inside this binary: it has no start_timeout",
		`slow: {command: [slow], start_timeouts: 1m}`:                  "start_timeout",
	} {
		_, problems := workspace.Parse("tipstaff.yaml", []byte("servers:\n  "+server+"\n"))
		if len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %+v", server, problems)
		}
	}
}

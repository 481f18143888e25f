package page_test

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// sleeping is a plan of two branches with so many steps in each.
func sleeping(steps int, each string) string {
	var b strings.Builder
	b.WriteString("kind: plan\nversion: 1\nname: sleeping\nroot:\n  id: all\n  kind: sequential\n  children:\n")
	for _, branch := range []string{"first", "second"} {
		fmt.Fprintf(&b, "  - id: %s\n    kind: sequential\n    children:\n", branch)
		for i := range steps {
			fmt.Fprintf(&b, "    - {id: %s%d, kind: tool_call, tool: \"mcp://builtin/sleep@1.0.0\", args: {duration: %s}}\n", branch, i, each)
		}
	}
	return b.String()
}

// write makes a file of the workspace.
func (g *ground) write(name, text string) {
	g.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o644); err != nil {
		g.Fatal(err)
	}
}

// with has a script run while somebody does what it asks for.
func (g *ground) with(name string, does map[string]func(), env ...string) {
	g.Helper()
	var all sync.WaitGroup
	for what, do := range does {
		all.Go(func() { g.asked(what, do) })
	}
	g.script(name, env...)
	if !g.Failed() {
		all.Wait()
	}
}

// sleepManifest lets plans sleep as often as they like, and pages be asked for at any port.
const sleepManifest = `
allowed_effects: [read, idempotent]
servers: {builtin: {tools: {sleep: {effect: read}}}}
serve: {hosts: [127.0.0.1]}
`

// newSleepingGround is one with plans of many short steps.
func newSleepingGround(t *testing.T) *ground {
	t.Helper()
	g := newGround(t)
	g.stop()
	g.write("tipstaff.yaml", sleepManifest)
	g.write("steps.yaml", sleeping(12, "120ms"))
	g.write("long-steps.yaml", sleeping(40, "100ms"))
	g.serve()
	return g
}

func TestBrowserStream(t *testing.T) {
	g := newSleepingGround(t)
	for _, name := range []string{"stream.mjs", "keep.mjs", "over.mjs"} {
		g.script(name)
	}
}

func TestBrowserTabs(t *testing.T) { newGround(t).script("tabs.mjs") }

// The daemon comes back after it was stopped, after it was killed, and as another version.
func TestBrowserDown(t *testing.T) {
	g := newGround(t)
	g.with("down.mjs", map[string]func(){
		"stop": g.stop, "start": g.serve,
		"kill":   func() { _ = g.daemon.Process.Kill(); _ = g.daemon.Wait() },
		"revive": g.serve,
		"update": func() { g.stop(); g.binary = g.other(); g.serve() },
	})
}

// other builds the binary with another style sheet.
func (g *ground) other() string {
	g.Helper()
	dir := g.TempDir()
	css, err := filepath.Abs("../../web/page/assets/app.css")
	if err != nil {
		g.Fatal(err)
	}
	text, err := os.ReadFile(css)
	if err != nil {
		g.Fatal(err)
	}
	changed, overlay, binary := filepath.Join(dir, "app.css"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tipstaff")
	for name, text := range map[string][]byte{changed: append(text, '\n'), overlay: fmt.Appendf(nil, `{"Replace": {%q: %q}}`, css, changed)} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			g.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-overlay", overlay, "-ldflags", "-s -w", "-o", binary, "github.com/tipstaff/tipstaff/cmd/tipstaff")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		g.Fatalf("%v: %s", err, out)
	}
	return binary
}

func TestBrowserCut(t *testing.T) {
	g := newSleepingGround(t)
	at, err := url.Parse(g.page)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(cutting(t, g.addr))
	if err != nil {
		t.Fatal(err)
	}
	g.script("cut.mjs", "TIPSTAFF_PAGE=http://"+net.JoinHostPort(at.Hostname(), port))
}

// flooding is a pipeline that goes round and round, some two hundred records a second.
func flooding(stages int) string {
	var b strings.Builder
	b.WriteString("name: flooding\nmax_iterations: 200000\nmax_agent_hops: 1000000\nagents:\n")
	for i := range stages {
		fmt.Fprintf(&b, "  - {name: stage%d, stage_order: %d, scripted: {repeat: last, answers: [{output: {n: 1}, delay_ms: 20}]}, default_next: stage%d}\n", i, i+1, (i+1)%stages)
	}
	return b.String()
}

// It lasts a minute, or as many seconds as TIPSTAFF_FLOOD_SECONDS says.
func TestBrowserFlood(t *testing.T) {
	g := newGround(t)
	g.write("flood.yaml", flooding(40))
	g.script("flood.mjs")
}

func TestBrowserSlow(t *testing.T) { newSleepingGround(t).script("slow.mjs") }

// cutting forwards connections, and breaks off each that carries a stream after its first event.
func cutting(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close() // the daemon is away
				continue
			}
			go func() {
				defer client.Close()
				defer server.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := client.Read(buf)
					if err != nil {
						return
					}
					if _, err := server.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
			go func() {
				defer client.Close()
				defer server.Close()
				buf := make([]byte, 64<<10)
				stream := false
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					stream = stream || bytes.Contains(buf[:n], []byte("text/event-stream"))
					if _, err := client.Write(buf[:n]); err != nil {
						return
					}
					if stream && bytes.Contains(buf[:n], []byte("\n\n\r\n")) {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// hiding is a server, and a program, that start another in a session of its own, with
// nothing in its environment that tells where it is from.
const hiding = `-- hide.sh --
setsid env -i /bin/sh -c 'echo $$ > "$0.new"; /bin/mv "$0.new" "$0"; while true; do /bin/sleep 0.05; done' "$PWD/$1" > /dev/null 2>&1 < /dev/null &
while ! test -e "$1"; do sleep 0.01; done
-- server.sh --
. ./hide.sh
exec toolserver desk.json
-- desk.json --
{"version": "1.0.0", "tools": [{"name": "echo", "description": "Says it.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]}
-- both.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: serve, kind: tool_call, tool: "mcp://desk/echo@1.0.0"}
    - {id: run, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, hide.sh, ran]}}
    - {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, slow.sh, runs]}}
-- slow.sh --
. ./hide.sh
touch there
while ! test -e enough; do sleep 0.01; done
`

// A process that gives no sign of whose it is does not outlive its run either.
func TestNoHiddenChildOutlivesItsRun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *workspace, p *cmdtest.Process) int{
		"completed": func(w *workspace, p *cmdtest.Process) int {
			w.Write("enough", "")
			return p.Wait().Code
		},
		"interrupted": func(w *workspace, p *cmdtest.Process) int {
			p.Signal(os.Interrupt)
			return p.Wait().Code - 130
		},
		"cancelled": func(w *workspace, p *cmdtest.Process) int {
			w.Must(0, "cancel", "@")
			return p.Wait().Code - 8
		},
		"killed": func(w *workspace, p *cmdtest.Process) int {
			p.Kill()
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, hiding)
			w.Write("tipstaff.yaml", w.Read("tipstaff.yaml")+"  desk: {command: [sh, ./server.sh, served], ignore: [served], tools: {echo: {}}}\n")
			w.Must(0, "tools", "pin", "--yes")
			alive := func(name string) bool {
				pid := strings.TrimSpace(w.Read(name))
				if _, err := strconv.Atoi(pid); err != nil {
					t.Fatalf("%s: %q", name, pid)
				}
				stat, err := os.ReadFile("/proc/" + pid + "/stat")
				return err == nil && !strings.Contains(string(stat), ") Z ")
			}
			if alive("served") {
				t.Error("the one that pinning started lives on")
			}
			w.Check(os.Remove(w.Path("served")))
			p := w.Start("run", "both.yaml", "--unattended")
			w.Until("the slow call", func() bool { return fileExists(w.Path("there")) || !p.Running() })
			if !p.Running() {
				t.Fatal(p.Wait())
			}
			if !alive("runs") || !alive("served") {
				t.Fatal("they are not there")
			}
			if alive("ran") {
				t.Error("the one of the program that has ended lives on")
			}
			if code := end(w, p); code != 0 {
				t.Errorf("another exit code, by %d", code)
			}
			ended := time.Now()
			for _, hidden := range []string{"runs", "served"} {
				for name == "killed" && alive(hidden) && time.Since(ended) < 5*time.Second { // it is the reaper that sees it
					time.Sleep(10 * time.Millisecond)
				}
				if alive(hidden) {
					t.Errorf("%s lives on", hidden)
				}
			}
		})
	}
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

package main

import (
	"os"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// daemon is a plan whose program leaves another behind, in a session of its own,
// that does not mind being asked to go.
const daemon = `-- long.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, start.sh]}}
    - {id: ok, kind: gate, question: Go on?}
-- start.sh --
setsid sh -c 'trap "" TERM HUP INT; touch born; while true; do sleep 0.01; done' > /dev/null 2>&1 < /dev/null &
while ! test -e born; do sleep 0.01; done
echo slow >> effects
while ! test -e enough; do sleep 0.01; done
`

// However a run ends, nothing that it started lives on.
func TestNoChildOutlivesItsRun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *workspace, p *cmdtest.Process){
		"completed": func(w *workspace, p *cmdtest.Process) {
			w.Write("enough", "")
			if r := p.Wait(); r.Code != 0 {
				w.Errorf("%v", r)
			}
		},
		"interrupted": func(w *workspace, p *cmdtest.Process) {
			p.Signal(os.Interrupt)
			if r := p.Wait(); r.Code != 130 {
				w.Errorf("%v", r)
			}
		},
		"cancelled": func(w *workspace, p *cmdtest.Process) {
			w.Must(0, "cancel", "@")
			if r := p.Wait(); r.Code != 8 {
				w.Errorf("%v", r)
			}
		},
		"killed, then looked at": func(w *workspace, p *cmdtest.Process) {
			p.Kill()
			w.Must(0, "ls")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, daemon)
			p := w.startLong("--yes")
			run := w.show("@").ID
			if len(w.leftOver(run)) < 2 {
				t.Skip("the processes of a run cannot be seen here")
			}
			end(w, p)
			if left := w.leftOver(run); len(left) > 0 {
				t.Errorf("%d processes of the run live on", len(left))
				for _, pid := range left {
					end, err := os.FindProcess(pid)
					w.Check(err)
					_ = end.Kill()
				}
			}
		})
	}
}

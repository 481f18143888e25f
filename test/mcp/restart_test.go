package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fastmcp is a server as people write them with the Python SDK. Each call of note
// leaves a line in the folder that it was started in.
const fastmcp = `
-- server.py --
import os

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

server = FastMCP("notes", host="127.0.0.1", port=int(os.environ["PORT"]))


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> str:
    return str(a + b)


@server.tool()
def note(text: str) -> str:
    with open("noted", "a") as noted:
        print(text, file=noted)
    return "noted " + text


server.run(transport="streamable-http")
`

// servePython starts FastMCP, or skips the test where it is not installed.
func (w *workspace) servePython() *httpServer {
	w.Helper()
	python, err := filepath.Abs("../../.cache/fastmcp/bin/python")
	w.Check(err)
	if _, err := os.Stat(filepath.Join(filepath.Dir(python), "..", "installed.txt")); err != nil {
		w.Skip("FastMCP is not installed: scripts/mcp.sh installs it, and says why if it cannot")
	}
	w.files(fastmcp)
	return w.serve("Uvicorn running", python, "server.py")
}

// A plan whose second call comes after the server was restarted: pause says that the
// first has been made, and waits for a line in the pipe.
const restarted = `
-- pause.sh --
#!/bin/sh
: > paused
read line < pipe
`

// A service that is restarted in the middle of a run has forgotten the session. The
// calls that follow are made in a new one, those of class once too, and once each.
func TestRestartedServiceIsCalledAgain(t *testing.T) {
	type call struct{ tool, args, gives string }
	for name, c := range map[string]struct {
		serve      func(*workspace) *httpServer
		read, once call
	}{
		"FastMCP":           {(*workspace).servePython, call{"add@1.30.0", "{a: 2, b: 3}", `{"result":"5"}`}, call{"note@1.30.0", "{text: again}", `{"result":"noted again"}`}},
		"server-everything": {(*workspace).serveHTTP, call{"echo@2.0.0", "{message: before}", `"Echo: before"`}, call{"get-sum@2.0.0", "{a: 2, b: 3}", `"The sum of 2 and 3 is 5."`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			s := c.serve(w)
			w.files(restarted)
			w.Check(os.Chmod(w.Path("pause.sh"), 0o755))
			w.Check(syscall.Mkfifo(w.Path("pipe"), 0o600))
			named := func(c call) string { name, _, _ := strings.Cut(c.tool, "@"); return name }
			w.Write("tipstaff.yaml", `allowed_effects: [read, idempotent, once]
servers:
  builtin: {programs: [./pause.sh], tools: {exec: {}}}
  web: {url: "`+s.url+`", tools: {`+named(c.read)+`: {effect: read}, `+named(c.once)+`: {effect: once}}}
`)
			w.pin()
			w.Write("restart.yaml", `kind: plan
version: 1
root:
  kind: sequential
  children:
    - {kind: tool_call, id: before, tool: "mcp://web/`+c.read.tool+`", args: `+c.read.args+`}
    - {kind: tool_call, id: pause, tool: "mcp://builtin/exec@1.0.0", args: {argv: [./pause.sh]}}
    - {kind: tool_call, id: after, tool: "mcp://web/`+c.once.tool+`", args: `+c.once.args+`}
    - {kind: tool_call, id: later, tool: "mcp://web/`+c.read.tool+`", args: `+c.read.args+`}
outputs: {before: "${before.output}", after: "${after.output}", later: "${later.output}"}
`)
			p := w.Start("run", "restart.yaml", "--unattended")
			w.Until("the first call", func() bool { _, err := os.Stat(w.Path("paused")); return err == nil })
			s.kill()
			s.start()
			w.Check(os.WriteFile(w.Path("pipe"), []byte("go\n"), 0))
			p.Must(0)
			var out struct{ Before, After, Later json.RawMessage }
			w.shown(&out)
			if got := [3]string{string(out.Before), string(out.After), string(out.Later)}; got != [3]string{c.read.gives, c.once.gives, c.read.gives} {
				t.Errorf("the run gives %q", got)
			}
			if name == "FastMCP" && w.Read("noted") != "again\n" {
				t.Errorf("the server noted %q", w.Read("noted"))
			}
		})
	}
}

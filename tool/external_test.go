package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/tooltest"
)

// spawn starts servers as the command does.
func (o *outside) spawn(c supervisor.Command) (*supervisor.Process, error) {
	o.starts.Add(1)
	return supervisor.Spawn(c)
}

var toolNames = []string{tooltest.Echo, tooltest.Write, tooltest.Env, tooltest.Meta, tooltest.Never, tooltest.Late, tooltest.Again, tooltest.Large,
	tooltest.Half, tooltest.Crash, tooltest.Invalid, tooltest.Spawn, tooltest.Links, tooltest.Imitate, tooltest.Reveal, tooltest.Ask,
	tooltest.Swap, tooltest.Chatter, "huge"}

// outside is a bench over servers that are not in this process.
type outside struct {
	*bench
	environ []string
	starts  atomic.Int32 // of programs
}

// secret has every character that some encoding changes.
const secret = `s3cr/t "two\words" & <more>?é`

// traces are what is left of the credentials in some encoding, or when they were
// cut off.
var traces = []string{"s3cr", "czNjc", "MzY3I", "zM2Ny", "s3cr%2Ft", `\u0073`, "plain-cred"}

// clean fails the test unless texts have the reference of a credential in its
// place.
func clean(t testing.TB, form string, texts ...string) {
	t.Helper()
	reference := false
	for _, text := range texts {
		reference = reference || strings.Contains(text, "$env:TOKEN") || strings.Contains(text, "$env:PLAIN")
		for _, trace := range traces {
			if strings.Contains(text, trace) {
				t.Errorf("%s: %s", form, text)
			}
		}
	}
	if !reference {
		t.Errorf("%s: no reference in %q", form, texts)
	}
}

// environ is an environment with a credential in it, and much that is nobody's
// business.
func environ() []string {
	return append(os.Environ(), "TOKEN="+secret, "OTHER_SECRET=not yours", "LC_TIME=C", "SHARED=for you", "SHORT=abc", "PLAIN=plain-credential")
}

// newOutside declares servers, given as YAML by their names without the tools,
// which are all of tooltest's.
func newOutside(t testing.TB, servers map[string]string) *outside {
	t.Helper()
	var b strings.Builder
	b.WriteString("allowed_effects: [read, idempotent, once]\npolicy: {rules: [{id: all, tool: '*/*', do: allow}]}\nservers:\n")
	for name, fields := range servers {
		fmt.Fprintf(&b, "  %s:\n    tools: {%s: {}}\n", name, strings.Join(toolNames, ": {}, "))
		for line := range strings.Lines(fields) {
			b.WriteString("    " + line)
		}
		b.WriteString("\n")
	}
	m := parse(t, b.String())
	o := &outside{environ: environ()}
	dir := t.TempDir()
	o.bench = &bench{TB: t, dir: dir, manifest: m, servers: tool.Servers(m, tool.Launch{
		Workspace: dir, Markers: []string{"TIPSTAFF_RUN_ID=run-1", "TIPSTAFF_LAUNCH=launch-1"}, Environ: o.environ, Spawn: o.spawn,
	})}
	var allow []string
	for name := range servers {
		for _, tool := range toolNames {
			allow = append(allow, "mcp://"+name+"/"+tool+"@1.0.0")
		}
	}
	o.gate = tool.NewGate(allow, m, nil)
	o.manager = tool.NewManager(m, o.servers)
	t.Cleanup(o.manager.Close)
	o.activity = o.manager.Activity(o.gate)
	return o
}

// command declares a server that is this test binary.
func command(t testing.TB, options ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "command: " + string(flow.JSON(tooltest.Command(self, options...))) + "\nenv: {TOOLTEST_SECRET: $env:TOKEN}\n"
}

func (o *outside) attempt(server, name string, args any) flow.Attempt {
	if args == nil {
		args = object{}
	}
	class := flow.Read
	if name == tooltest.Write {
		class = flow.Once
	}
	return flow.Attempt{Run: "run-1", Path: "root/a", Name: tool.ActivityName, N: 1, Class: class, Key: "key-1",
		Input: flow.JSON(tool.Input{URI: "mcp://" + server + "/" + name + "@1.0.0", Args: flow.JSON(args)})}
}

// call makes one call as the engine would, and redacts what comes of it as the
// engine would.
func (o *outside) call(server, name string, args any) (json.RawMessage, error) {
	value, err := o.try(context.Background(), o.attempt(server, name, args))
	if e, ok := err.(*flow.Error); ok {
		clean := *e
		clean.Message, clean.Detail = string(o.manager.Redact([]byte(e.Message))), o.manager.Redact(e.Detail)
		err = &clean
	}
	return o.manager.Redact(value), err
}

func (o *outside) fails(code, server, name string, args any) *flow.Error {
	o.Helper()
	value, err := o.call(server, name, args)
	return wantCode(o, code, value, err)
}

// says is a call whose value is this text.
func (o *outside) says(want, server, name string, args any) {
	o.Helper()
	value, err := o.call(server, name, args)
	if err != nil || string(value) != string(flow.JSON(want)) {
		o.Errorf("%s/%s: got %s, %v; want %q", server, name, value, err, want)
	}
}

// lock makes the tools as they are listed now those that were accepted.
func (o *outside) lock() {
	o.Helper()
	held, err := tool.NewRegistry(o.manifest, o.servers)
	if err != nil {
		o.Fatal(err)
	}
	o.gate.Tools = held
}

// until waits for what happens by itself, soon.
func (o *outside) until(happened func() bool) {
	o.Helper()
	for deadline := time.Now().Add(10 * time.Second); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			o.Fatal("it did not happen in 10 seconds")
		}
	}
}

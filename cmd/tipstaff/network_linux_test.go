package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// A plan without steps needs nobody: it runs, waits, goes on and is proven where
// there is no network at all, not even the loopback.
func TestNoNetworkIsNeeded(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, strings.Replace(manifest, "[sh]", "[readlink]", 1), `-- plan.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: write, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: note.txt, content: alone}}
    - {id: ok, kind: gate, question: Go on?}
    - {id: read, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}
    - {id: look, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [readlink, /proc/self/ns/net]}}
outputs: {text: "${read.output.text}", network: "${look.output.stdout}"}
`)
	alone := func(code int, args ...string) {
		t.Helper()
		w.withoutNetwork(os.Getuid(), args...).Must(code)
	}
	alone(4, "run", "plan.yaml", "--unattended")
	alone(0, "decide", "@", "root/ok", "approve")
	alone(0, "resume", "@")
	for _, args := range [][]string{{"show", "@"}, {"verify", "@"}, {"replay", "@"}, {"export", "@", "exported"}, {"verify", "./exported"}} {
		alone(0, args...)
	}
	here, err := os.Readlink("/proc/self/ns/net")
	w.Check(err)
	var got struct{ Text, Network string }
	w.Check(json.Unmarshal(w.show("@").Outputs, &got))
	if got.Text != "alone" || !strings.HasPrefix(got.Network, "net:[") || strings.TrimSpace(got.Network) == here {
		t.Errorf("outputs %+v, the network here is %s", got, here)
	}
}

// withoutNetwork starts a command in a network namespace of its own, as a user there.
func (w *workspace) withoutNetwork(user int, args ...string) *cmdtest.Process {
	w.Helper()
	p := w.Prepare(args...)
	p.Listen()
	id := func(there, here int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: there, HostID: here, Size: 1}}
	}
	p.Cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET
	p.Cmd.SysProcAttr.UidMappings, p.Cmd.SysProcAttr.GidMappings = id(user, os.Getuid()), id(os.Getgid(), os.Getgid())
	switch err := p.Try(); {
	case errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC):
		w.Skipf("no namespaces can be made here: %v", err)
	case err != nil:
		w.Fatal(err)
	}
	return p
}

// The harness needs nothing beyond the loopback interface, which it brings up where it may,
// and no program: twice in a row.
func TestEndToEndWithoutNetwork(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Env = append(w.Env, "PATH=/nowhere")
	for range 2 {
		r := w.withoutNetwork(0, "e2e").Must(0)
		if !strings.HasSuffix(r.Out, "\n75 of 75\n") {
			t.Errorf("%v", r)
		}
	}
}

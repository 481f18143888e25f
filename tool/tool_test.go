package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// everything is a manifest that declares all of builtin and allows all of it.
const everything = `
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh, sleep, env, printf, cat]
    tools: {read_file: {}, write_file: {}, list_dir: {}, http_get: {}, exec: {}, json_query: {}, sleep: {}}
policy:
  rules: [{id: all, tool: "*/*", do: allow}]
`

func uriOf(name string) string { return "mcp://builtin/" + name + "@1.0.0" }

func allURIs() []string {
	var list []string
	for _, name := range builtin.Tools() {
		list = append(list, uriOf(name))
	}
	return list
}

func parse(t testing.TB, manifest string) *workspace.Manifest {
	t.Helper()
	m, problems := workspace.Parse("tipstaff.yaml", []byte(manifest))
	for _, p := range problems {
		t.Errorf("manifest: %+v", p)
	}
	if m == nil {
		t.FailNow()
	}
	return m
}

// bench is a workspace with a manifest, and the activity over it.
type bench struct {
	testing.TB
	dir      string
	manifest *workspace.Manifest
	servers  map[string]tool.Server
	gate     *tool.Gate
	manager  *tool.Manager
	activity flow.Activity
}

func newBench(t testing.TB, manifest string) *bench {
	t.Helper()
	m := parse(t, manifest)
	dir := t.TempDir()
	markers := []string{"TIPSTAFF_RUN_ID=run-1", "TIPSTAFF_LAUNCH=launch-1"}
	return benchWith(t, dir, m, tool.Servers(m, tool.Launch{Workspace: dir, Markers: markers}))
}

// oldBench is newBench for a run that was made before paths had to be clean.
func oldBench(t testing.TB, manifest string) *bench {
	t.Helper()
	m := parse(t, manifest)
	m.CleanPaths = false
	dir := t.TempDir()
	return benchWith(t, dir, m, tool.Servers(m, tool.Launch{Workspace: dir}))
}

func benchWith(t testing.TB, dir string, m *workspace.Manifest, servers map[string]tool.Server) *bench {
	t.Helper()
	registry, err := tool.NewRegistry(m, servers)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, dir: dir, manifest: m, servers: servers}
	b.gate = tool.NewGate(allURIs(), m, registry)
	b.manager = tool.NewManager(m, servers)
	t.Cleanup(b.manager.Close)
	b.activity = b.manager.Activity(b.gate)
	return b
}

// notes collects what an attempt notes.
type notes struct {
	mu   sync.Mutex
	list []tipstaff.PlanOutput
}

func (n *notes) note(e flow.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, e.Body.(tipstaff.PlanOutput))
}

func (b *bench) attempt(name string, args any) flow.Attempt {
	b.Helper()
	in := tool.Input{URI: uriOf(name), Args: flow.JSON(args)}
	d, err := b.gate.Tools.Lookup(in.URI)
	if err != nil {
		b.Fatal(err)
	}
	return flow.Attempt{Name: tool.ActivityName, N: 1, Class: d.Class, Input: flow.JSON(in), Key: "key-1"}
}

// call makes one call as the engine would: check, then run.
func (b *bench) call(name string, args any) (json.RawMessage, error) {
	b.Helper()
	return b.try(context.Background(), b.attempt(name, args))
}

func (b *bench) try(ctx context.Context, a flow.Attempt) (json.RawMessage, error) {
	if err := b.activity.Check(ctx, a); err != nil {
		return nil, err
	}
	done, err := b.activity.Run(ctx, a)
	return done.Value, err
}

// must is a call that succeeds, decoded.
func must[T any](b *bench, name string, args any) T {
	b.Helper()
	value, err := b.call(name, args)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	if d, err := b.gate.Tools.Lookup(uriOf(name)); err == nil { // what a built-in tool returns is not checked when it is called
		if err := d.OutputSchema.Validate(value); err != nil {
			b.Errorf("what %s returned does not fit its schema: %v", name, err)
		}
	}
	var v T
	if err := json.Unmarshal(value, &v); err != nil {
		b.Fatal(err)
	}
	return v
}

// fails is a call that fails with a code; its error is returned.
func (b *bench) fails(code, name string, args any) *flow.Error {
	b.Helper()
	value, err := b.call(name, args)
	return wantCode(b, code, value, err)
}

func wantCode(t testing.TB, code string, value json.RawMessage, err error) *flow.Error {
	t.Helper()
	var e *flow.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %s, %v; want the code %s", value, err, code)
	}
	if e.Code != code {
		t.Fatalf("got %v; want the code %s", err, code)
	}
	return e
}

func (b *bench) write(name, content string) {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

func contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q does not contain %q", text, part)
	}
}

type object = map[string]any

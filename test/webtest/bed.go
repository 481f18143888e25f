// Package webtest is the ground that the tests of the HTTP API and of the web page stand on: a
// real server over a real runner and a real store. The model of all agents is the test.
package webtest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/web"
	"github.com/tipstaff/tipstaff/web/page"
	"github.com/tipstaff/tipstaff/workspace"
)

// Manifest is that of a bed.
const Manifest = `
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh]
    tools:
      read_file: {effect: read}
      write_file: {effect: idempotent}
      exec: {effect: once}
models:
  toy: {provider: scripted, script: script.yaml}
default_skill: skill://notes@1.0.0
`

// Callers are those of a bed.
var Callers = []tipstaff.Token{
	{User: "alice", Secret: "the-token-of-alice"},
	{User: "bob", Secret: "the-token-of-bob"},
	{User: "root", Secret: "the-token-of-root", Scopes: []string{tipstaff.ScopeAdmin}},
	{User: "driver", Secret: "the-token-of-a-driver", Scopes: []string{tipstaff.ScopeRead, tipstaff.ScopeRun, tipstaff.ScopeSubmit}},
	{User: "reader", Secret: "the-token-of-a-reader", Scopes: []string{tipstaff.ScopeRead}},
}

// Bed is a server over a workspace.
type Bed struct {
	*testing.T
	Dir    string
	Places int                  // how many runs are driven at once; 0: as many as there are
	Page   bool                 // it serves the page as well
	Tokens []tipstaff.Token     // who is let in when it opens
	Config func(*runner.Config) // changes what the runner is made of; nil: nothing
	Ahead  atomic.Int64         // by how many nanoseconds the clock of the page is fast
	Addr   string
	Runner *runner.Runner
	Says   func(context.Context, agent.Request) (string, error) // what models answer
	// Answers is that with calls of tools and all else. nil: Says.
	Answers func(agent.Request) agent.Response
	// Speaks is that in pieces. nil: Answers.
	Speaks func(context.Context, agent.Request, func(agent.Delta)) (agent.Response, error)

	life    int
	started time.Time
	store   *sqlite.Store
	stop    context.CancelCauseFunc
	Server  *web.Server
}

// New opens a bed; with changes what it stands on before.
func New(t *testing.T, with ...func(*Bed)) *Bed {
	t.Helper()
	b := &Bed{T: t, Dir: t.TempDir(), Tokens: Callers}
	b.Write("tipstaff.yaml", Manifest)
	b.Write("script.yaml", "version: 1\nanswers: [{text: unused}]\n")
	b.Write("note.txt", "hello")
	b.Write("skills/notes/skill.yaml", "id: notes\nversion: 1.0.0\nverbs: [deliver]\ntools: [mcp://builtin/read_file@1.0.0, mcp://builtin/write_file@1.0.0]\nsub_skills: none\n")
	b.Write("skills/notes/SKILL.md", "---\nname: notes\ndescription: Copies notes.\n---\nCopy what is asked for.\n")
	for _, f := range with {
		f(b)
	}
	b.Open()
	t.Cleanup(b.Close)
	return b
}

// Write makes a file of the workspace.
func (b *Bed) Write(name, text string) {
	b.Helper()
	path := filepath.Join(b.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

// Open starts the server, as New does.
func (b *Bed) Open() {
	b.life++
	b.started = time.Now()
	life := fmt.Sprint(b.life)
	alive := func(o flow.Owner) bool { return o.Boot == life }
	stored := &sqlite.Options{UserKey: true}
	stored.Alive = func(o flow.Owner, _ time.Time) bool { return alive(o) }
	store, err := sqlite.Open(filepath.Join(b.Dir, ".tipstaff"), stored)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	b.store, b.stop = store, stop
	config := runner.Config{
		Store: store, Workers: store, Memory: store, Keys: store.Keys(), Workspace: b.Dir, Origin: "daemon",
		Trusted: func() ([]journal.PublicKey, error) { return store.PublicKeys(context.Background()) },
		Servers: func(m *workspace.Manifest, dir string, env []string) map[string]tool.Server {
			c, _ := m.Server("builtin")
			return map[string]tool.Server{"builtin": tool.Builtin(builtin.Options{Workspace: dir, Roots: c.Roots, Programs: c.Programs, Markers: env})}
		},
		Models: func(workspace.Model, workspace.File) (agent.Model, error) { return b, nil },
		Self: func(kind, launch string) flow.Owner {
			return flow.Owner{Kind: kind, Host: "here", Boot: life, Pid: os.Getpid(), Launch: launch}
		},
		Alive:   func(o flow.Owner, _, _ time.Time) bool { return alive(o) },
		Markers: func(string, string) []string { return nil },
		Sweep:   func(context.Context, map[string]string) (int, error) { return 0, nil },
		Stop:    ctx, MaxDriving: b.Places, Users: 2,
	}
	if b.Config != nil {
		b.Config(&config)
	}
	b.Runner = runner.New(config)
	if err := b.Runner.Recover(context.Background(), "the bed"); err != nil {
		b.Fatal(err)
	}
	if _, err := b.Runner.TakeUp(context.Background(), "daemon"); err != nil {
		b.Fatal(err)
	}
	tokens, err := tipstaff.NewTokens(b.Tokens...)
	if err != nil {
		b.Fatal(err)
	}
	tokens.Now = time.Now
	control := b.Control()
	log := slog.New(slog.NewTextHandler(b.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	o := web.Options{Tokens: tokens, Hosts: []string{"box.example"}, Folders: []string{b.Dir}, Load: b.Runner.Load,
		Version: web.Version{Version: "test"}, Log: log,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "# counters") })}
	if b.Page {
		seen := control
		seen.Now = func() time.Time { return time.Now().Add(time.Duration(b.Ahead.Load())) }
		o.Page = page.New(seen, page.Options{Tokens: tokens, Version: "test", Status: web.Status, Export: runner.Export, Log: log,
			Sessions: b.Runner.Sessions(), Daemon: b.daemon, Tools: b.Runner.Tools(), Memory: runner.Memory{Runner: b.Runner}})
	}
	b.Server = web.New(control, o)
	listen := "127.0.0.1:0"
	if b.Addr != "" {
		listen = b.Addr // as a daemon that comes back does
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		b.Fatal(err)
	}
	b.Addr = l.Addr().String()
	go func() {
		if err := b.Server.Serve(l); err != nil {
			b.Error(err)
		}
	}()
}

// daemon is what the process tells of itself.
func (b *Bed) daemon(ctx context.Context) (page.Daemon, error) {
	d := page.Daemon{Started: b.started, Store: b.Dir, Keys: b.store.Keys(), Places: b.Places}
	d.Driving, d.Queued = b.Runner.Load()
	keys, err := b.store.PublicKeys(ctx)
	for _, k := range keys {
		d.Trusted = append(d.Trusted, k.ID().String())
	}
	return d, err
}

// Control is what surfaces ask.
func (b *Bed) Control() tipstaff.Control {
	return tipstaff.Control{Runs: b.Runner, Now: time.Now, Follow: b.Runner.Changed}
}

// Terminate does what a daemon does that is told to stop.
func (b *Bed) Terminate() {
	b.Server.Quiesce()
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	b.Runner.Drain()
	b.Server.Close(context.Background())
}

// Close stops the server and verifies every run that there is.
func (b *Bed) Close() {
	b.Terminate()
	rows, err := b.store.Runs(context.Background(), flow.Query{})
	if err != nil {
		b.Error(err)
	}
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	for _, row := range rows {
		run, _ := tipstaff.ParseID(row.ID)
		rep, err := b.Runner.Verify(local, tipstaff.VerifyRequest{Run: run, Open: true, Admins: []string{"root"}})
		if err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
			b.Errorf("run %s: %v %+v %+v", row.ID, err, rep.Integrity.Problems, rep.Conformance.Problems)
		}
	}
	if err := b.store.Close(); err != nil {
		b.Error(err)
	}
}

// Name implements [agent.Model].
func (b *Bed) Name() string { return "model-of-the-bed" }

// Caps implements [agent.Model].
func (b *Bed) Caps() agent.Caps { return agent.Caps{ContextWindow: 100_000, MaxOutput: 8_000} }

// Stream implements [agent.Model].
func (b *Bed) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	if b.Speaks != nil {
		return b.Speaks(ctx, r, emit)
	}
	if b.Answers != nil {
		return b.Answers(r), nil
	}
	text, err := b.Says(ctx, r)
	if err != nil {
		return agent.Response{}, err
	}
	emit(agent.Delta{Channel: agent.ChannelAnswer, Text: text})
	return agent.Response{Text: text, Reason: agent.ReasonStop, Usage: &agent.Usage{InputTokens: 100, OutputTokens: 10, TotalTokens: 110}}, nil
}

// Gated is a plan that asks, and then writes a file.
func Gated(file string) string {
	return `{kind: plan, version: 1, root: {kind: sequential, children: [
  {id: ok, kind: gate, question: "Go on?"},
  {id: write, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: ` + file + `, content: done}}]}}`
}

// Slow is a plan that runs until a file is there.
func Slow(file string) string {
	return `{kind: plan, version: 1, root: {kind: sequential, children: [
  {id: wait, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "until [ -e ` + file + ` ]; do sleep 0.02; done"]}}]}}`
}

// Rest waits until nobody drives a run.
func (b *Bed) Rest(run string) tipstaff.Run {
	b.Helper()
	id, err := tipstaff.ParseID(run)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"}), 30*time.Second)
	defer cancel()
	if _, err := b.Runner.Wait(ctx, id); err != nil {
		b.Fatal(err)
	}
	got, err := b.Runner.Get(ctx, id)
	if err != nil {
		b.Fatal(err)
	}
	return got
}

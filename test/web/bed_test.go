// Package web_test tries the HTTP API as its clients see it: over real connections, with the
// real runner over a real store. The model of all agents is the test.
package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	"github.com/tipstaff/tipstaff/workspace"
)

const manifest = `
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

// The callers of a bed.
var callers = []tipstaff.Token{
	{User: "alice", Secret: "the-token-of-alice"},
	{User: "bob", Secret: "the-token-of-bob"},
	{User: "root", Secret: "the-token-of-root", Scopes: []string{tipstaff.ScopeAdmin}},
	{User: "driver", Secret: "the-token-of-a-driver", Scopes: []string{tipstaff.ScopeRead, tipstaff.ScopeRun, tipstaff.ScopeSubmit}},
	{User: "reader", Secret: "the-token-of-a-reader", Scopes: []string{tipstaff.ScopeRead}},
}

// bed is a server over a workspace.
type bed struct {
	*testing.T
	dir    string
	places int
	life   int
	store  *sqlite.Store
	runner *runner.Runner
	stop   context.CancelCauseFunc
	server *web.Server
	addr   string
	says   func(context.Context, agent.Request) (string, error) // what models answer
}

func newBed(t *testing.T, with ...func(*bed)) *bed {
	t.Helper()
	b := &bed{T: t, dir: t.TempDir()}
	b.write("tipstaff.yaml", manifest)
	b.write("script.yaml", "version: 1\nanswers: [{text: unused}]\n")
	b.write("note.txt", "hello")
	b.write("skills/notes/skill.yaml", "id: notes\nversion: 1.0.0\nverbs: [deliver]\ntools: [mcp://builtin/read_file@1.0.0, mcp://builtin/write_file@1.0.0]\nsub_skills: none\n")
	b.write("skills/notes/SKILL.md", "---\nname: notes\ndescription: Copies notes.\n---\nCopy what is asked for.\n")
	for _, f := range with {
		f(b)
	}
	b.open()
	t.Cleanup(b.close)
	return b
}

func (b *bed) write(name, text string) {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) open() {
	b.life++
	life := fmt.Sprint(b.life)
	alive := func(o flow.Owner) bool { return o.Boot == life }
	o := &sqlite.Options{UserKey: true}
	o.Alive = func(o flow.Owner, _ time.Time) bool { return alive(o) }
	store, err := sqlite.Open(filepath.Join(b.dir, ".tipstaff"), o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	b.store, b.stop = store, stop
	b.runner = runner.New(runner.Config{
		Store: store, Workers: store, Keys: store.Keys(), Workspace: b.dir, Origin: "daemon",
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
		Stop:    ctx, MaxDriving: b.places, Users: 2,
	})
	if err := b.runner.Recover(context.Background(), "the bed"); err != nil {
		b.Fatal(err)
	}
	if _, err := b.runner.TakeUp(context.Background(), "daemon"); err != nil {
		b.Fatal(err)
	}
	tokens, err := tipstaff.NewTokens(callers...)
	if err != nil {
		b.Fatal(err)
	}
	b.server = web.New(tipstaff.Control{Runs: b.runner, Now: time.Now}, web.Options{Tokens: tokens, Hosts: []string{"box.example"}, Folders: []string{b.dir}, Load: b.runner.Load,
		Version: web.Version{Version: "test"}, Log: slog.New(slog.NewTextHandler(b.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "# counters") })})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.addr = l.Addr().String()
	go func() {
		if err := b.server.Serve(l); err != nil {
			b.Error(err)
		}
	}()
}

// terminate does what a daemon does that is told to stop.
func (b *bed) terminate() {
	b.server.Quiesce()
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	b.runner.Drain()
	b.server.Close(context.Background())
}

// close also verifies every run that there is.
func (b *bed) close() {
	b.terminate()
	rows, err := b.store.Runs(context.Background(), flow.Query{})
	if err != nil {
		b.Error(err)
	}
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	for _, row := range rows {
		run, _ := tipstaff.ParseID(row.ID)
		rep, err := b.runner.Verify(local, tipstaff.VerifyRequest{Run: run, Open: true, Admins: []string{"root"}})
		if err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
			b.Errorf("run %s: %v %+v %+v", row.ID, err, rep.Integrity.Problems, rep.Conformance.Problems)
		}
	}
	if err := b.store.Close(); err != nil {
		b.Error(err)
	}
}

// The bed is the model of every agent in it.

func (b *bed) Name() string     { return "model-of-the-bed" }
func (b *bed) Caps() agent.Caps { return agent.Caps{ContextWindow: 100_000, MaxOutput: 8_000} }

func (b *bed) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	text, err := b.says(ctx, r)
	if err != nil {
		return agent.Response{}, err
	}
	emit(agent.Delta{Channel: agent.ChannelAnswer, Text: text})
	return agent.Response{Text: text, Reason: agent.ReasonStop, Usage: &agent.Usage{InputTokens: 100, OutputTokens: 10, TotalTokens: 110}}, nil
}

// answer is what a server has said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// member is one of the answer, by the names on the way to it.
func (a answer) member(t testing.TB, names ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	for _, name := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func (a answer) code(t testing.TB) string {
	t.Helper()
	code, _ := a.member(t, "error", "code").(string)
	return code
}

// request makes one, as a user whose token it bears; "": of nobody.
func (b *bed) request(user, method, path string, body any, with ...func(*http.Request)) *http.Request {
	b.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		text, err := json.Marshal(body)
		if err != nil {
			b.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, "http://"+b.addr+path, reader)
	if err != nil {
		b.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range callers {
		if c.User == user {
			r.Header.Set("Authorization", "Bearer "+c.Secret)
		}
	}
	for _, f := range with {
		f(r)
	}
	return r
}

// do makes a request and looks whether the answer is one that the description knows.
func (b *bed) do(user, method, path string, body any, with ...func(*http.Request)) answer {
	b.Helper()
	res, err := http.DefaultClient.Do(b.request(user, method, path, body, with...))
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Access-Control-Allow-Origin") != "" {
		b.Errorf("%s %s is answered with the headers %v", method, path, res.Header)
	}
	a := answer{res.StatusCode, res.Header, text}
	if a.status >= 400 && path != "/healthz" && (a.code(b) == "" || len(text) > tipstaff.MaxReply+100) {
		b.Errorf("%s %s is answered %d in the shape %.200s", method, path, a.status, text)
	}
	described(b, method, path, a)
	return a
}

func (b *bed) get(user, path string) answer { b.Helper(); return b.do(user, "GET", path, nil) }

// want makes a request that is answered with a status.
func (b *bed) want(status int, user, method, path string, body any, with ...func(*http.Request)) answer {
	b.Helper()
	a := b.do(user, method, path, body, with...)
	if a.status != status {
		b.Fatalf("%s %s is answered %d, want %d: %.500s", method, path, a.status, status, a.body)
	}
	return a
}

type object = map[string]any

// gated is a plan that asks, and then writes a file.
func gated(file string) string {
	return `{kind: plan, version: 1, root: {kind: sequential, children: [
  {id: ok, kind: gate, question: "Go on?"},
  {id: write, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: ` + file + `, content: done}}]}}`
}

// slow is a plan that runs until a file is there.
func slow(file string) string {
	return `{kind: plan, version: 1, root: {kind: sequential, children: [
  {id: wait, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "until [ -e ` + file + ` ]; do sleep 0.02; done"]}}]}}`
}

// start submits a program and gives the run.
func (b *bed) start(user, program string, more ...object) string {
	b.Helper()
	body := object{"program": program}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return b.want(202, user, "POST", "/runs", body).member(b, "run").(string)
}

// rest waits until nobody drives a run.
func (b *bed) rest(run string) tipstaff.Run {
	b.Helper()
	id, err := tipstaff.ParseID(run)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"}), 30*time.Second)
	defer cancel()
	if _, err := b.runner.Wait(ctx, id); err != nil {
		b.Fatal(err)
	}
	got, err := b.runner.Get(ctx, id)
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// sse is one event of a stream.
type sse struct{ id, event, data string }

// stream opens a stream of a run.
func (b *bed) stream(user, run, last string) *http.Response {
	b.Helper()
	r := b.request(user, "GET", "/runs/"+run+"/events", nil, func(r *http.Request) {
		r.Header.Set("Accept", "text/event-stream")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	b.Cleanup(cancel)
	res, err := http.DefaultClient.Do(r.WithContext(ctx))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { res.Body.Close() })
	return res
}

// events reads a stream until it ends, or until enough says so.
func events(t testing.TB, from io.Reader, enough func(sse) bool) (all []sse) {
	t.Helper()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<22)
	var e sse
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			if e.event != "" {
				if all = append(all, e); enough != nil && enough(e) {
					return all
				}
			}
			e = sse{}
		}
	}
	return all
}

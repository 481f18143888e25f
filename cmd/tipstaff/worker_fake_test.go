package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/worker"
)

// fakeClaude is a coding CLI that does what a test wants: this test binary under another
// name, started by tipstaff. Beside it lie the name of its part and a count of its starts.
func fakeClaude() {
	f := &fake{dir: filepath.Dir(os.Args[0]), out: bufio.NewWriter(os.Stdout)}
	if slices.Contains(os.Args, "--version") {
		fmt.Println("2.1.325 (Claude Code)")
		return
	}
	part, err := os.ReadFile(filepath.Join(f.dir, "part"))
	f.check(err)
	prompt, err := io.ReadAll(os.Stdin)
	f.check(err)
	f.prompt = string(prompt)
	for _, flag := range []string{"--resume", "--session-id"} { // both: the second is a copy of the first
		if i := slices.Index(os.Args, flag); i > 0 {
			f.copied = f.id
			f.id, f.resumed = os.Args[i+1], flag == "--resume"
		}
	}
	f.n = f.count()
	f.note("%d %s resumed=%t copied=%q prompt=%q", f.n, f.id, f.resumed, f.copied, f.prompt)
	parts[string(part)](f)
	f.check(f.out.Flush())
}

// fake is a fake CLI that runs.
type fake struct {
	dir, prompt, id string
	copied          string // the session that this one is a copy of; "": none
	resumed         bool
	n               int // which start it is
	asks            int // for leave, so far
	out             *bufio.Writer
	channel         *mcp.ClientSession
}

func (f *fake) check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		os.Exit(99)
	}
}

// count counts starts: workers side by side have different numbers.
func (f *fake) count() int {
	for n := 1; ; n++ {
		file, err := os.OpenFile(filepath.Join(f.dir, "start."+strconv.Itoa(n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			f.check(file.Close())
			return n
		}
	}
}

// note leaves a line for the test.
func (f *fake) note(format string, args ...any) {
	file, err := os.OpenFile(filepath.Join(f.dir, "notes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	f.check(err)
	_, err = fmt.Fprintf(file, format+"\n", args...)
	f.check(err)
	f.check(file.Close())
}

func (f *fake) say(format string, args ...any) {
	fmt.Fprintf(f.out, format+"\n", args...)
	f.check(f.out.Flush())
}

// print writes a part of a line.
func (f *fake) print(part string) {
	_, err := f.out.WriteString(part)
	f.check(err)
}

// begin is how every honest invocation begins.
func (f *fake) begin() {
	f.connect()
	f.say(`{"type":"system","subtype":"init","session_id":%q,"mcp_servers":[{"name":"tipstaff","status":"connected"}]}`, f.id)
}

func (f *fake) connect() {
	conn, err := worker.DialChannel(context.Background(), os.Environ())
	f.check(err)
	f.channel, err = mcp.NewClient(&mcp.Implementation{Name: "fake", Version: "1"}, nil).Connect(context.Background(), &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	f.check(err)
}

// token is that of the channel, before it is connected to.
func (f *fake) token() string {
	token, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("TIPSTAFF_MCP_SOCKET")), "mcp.token"))
	f.check(err)
	return string(token)
}

func (f *fake) text(text string) {
	f.say(`{"type":"assistant","message":{"id":"m%d","model":"m","content":[{"type":"text","text":%s}],"usage":{"input_tokens":10,"output_tokens":5}},"session_id":%q}`, f.n, jsonText(text), f.id)
}

func (f *fake) end() { f.cost(0.25) }

// cost ends well, having cost so much.
func (f *fake) cost(usd float64) {
	f.say(`{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":%q,"total_cost_usd":%g,"usage":{"input_tokens":10,"output_tokens":5}}`, f.id, usd)
}

// call calls a tool of the channel, and is what it answers.
func (f *fake) call(tool string, args any) (text string, refused bool) {
	raw, ok := args.(string)
	if !ok {
		b, err := json.Marshal(args)
		f.check(err)
		raw = string(b)
	}
	r, err := f.channel.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(raw)})
	f.check(err)
	return r.Content[0].(*mcp.TextContent).Text, r.IsError
}

func (f *fake) report() {
	text, refused := f.call("task_set_status", `{"status":"needs_review","reason":"it is done"}`)
	if refused {
		f.note("report refused: %s", text)
	}
}

// honest does all of it.
func (f *fake) honest() {
	f.begin()
	f.text("hello")
	f.report()
	f.end()
}

// approve asks leave for a call, and is the answer.
func (f *fake) approve(tool string, input any) string {
	f.asks++
	text, _ := f.call("approve", map[string]any{"tool_name": tool, "input": input, "tool_use_id": fmt.Sprintf("call-%d-%d", f.n, f.asks)})
	return text
}

func jsonText(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// fakeManifest declares hand, a fake CLI that may only read, and writer, which may ask.
const fakeManifest = `-- tipstaff.yaml --
allowed_effects: [read, idempotent, once]
workers:
  hand: {type: claude, command: BIN/claude, posture: read_only, limits: {grace: 1s}}
  second: {type: claude, command: BIN/claude, posture: read_only, limits: {grace: 1s}}
  writer: {type: claude, command: BIN/claude, limits: {grace: 1s}}
policy: {rules: [{id: edits, tool: "worker-claude/Edit", do: allow}, {id: asks, tool: "worker-claude/Bash", do: ask}]}
-- plan.yaml --
kind: plan
version: 1
root: {kind: step, id: work, agent: hand, prompt: "Do it."}
`

// newFake is a workspace whose workers are fake CLIs with a part.
func newFake(t testing.TB, part string, archives ...string) *workspace {
	t.Helper()
	w := newWorkspace(t, append([]string{fakeManifest}, archives...)...)
	w.Write("tipstaff.yaml", strings.ReplaceAll(w.Read("tipstaff.yaml"), "BIN", w.Path("bin")))
	w.fakes(part)
	return w
}

// fakes puts fake CLIs with a part into a workspace.
func (w *workspace) fakes(part string) {
	w.Helper()
	self, err := os.Executable()
	w.Check(err)
	w.Check(os.MkdirAll(w.Path("bin"), 0o755))
	w.Check(os.Symlink(self, w.Path("bin/claude")))
	w.Write("bin/part", part)
	w.Env = append(w.Env, "XDG_STATE_HOME="+w.Path("state"), "PATH="+w.Path("bin")+":"+os.Getenv("PATH"))
}

// configure replaces a text in the manifest.
func (w *workspace) configure(from, to string) {
	w.Helper()
	text := w.Read("tipstaff.yaml")
	if !strings.Contains(text, from) {
		w.Fatalf("%q is not in the manifest", from)
	}
	w.Write("tipstaff.yaml", strings.ReplaceAll(text, from, to))
}

// git makes the workspace a repository with a commit.
func (w *workspace) git() {
	w.Helper()
	w.Write(".gitignore", "/bin/\n/state/\n/.tipstaff/\n")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qm", "begin"}} {
		w.gitSays(args...)
	}
}

// bodies are those of a run's records of a kind.
func (w *workspace) bodies(run, kind string) (bodies []string) {
	w.Helper()
	for _, r := range w.journal(run) {
		if r.Kind == kind {
			bodies = append(bodies, string(r.Body))
		}
	}
	return bodies
}

// outcomes are those of a run's invocations, and of the fakes how often they were started.
func (w *workspace) outcomes(run string) (outcomes []string) {
	w.Helper()
	for _, body := range w.bodies(run, "worker.ended") {
		outcomes = append(outcomes, record{Body: json.RawMessage(body)}.field("outcome"))
	}
	return outcomes
}

// starts is how often the fakes were started.
func (w *workspace) starts() int {
	names, err := filepath.Glob(w.Path("bin/start.*"))
	w.Check(err)
	return len(names)
}

// nothingRuns fails if a process is left that was started below the workspace, however it
// is called and whatever its environment is.
func (w *workspace) nothingRuns() {
	w.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		cwd, err := os.Readlink(filepath.Join(name, "cwd"))
		if err != nil || cwd != w.Dir && !strings.HasPrefix(cwd, w.Dir+"/") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(name))
		line, _ := os.ReadFile(filepath.Join(name, "cmdline"))
		w.Errorf("process %d is left: %q", pid, line)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

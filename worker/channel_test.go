package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// fakeTask is a Channel that keeps what it is told, one line for each call.
type fakeTask struct {
	mu     sync.Mutex
	lines  []string
	refuse error         // what every changing call is refused with
	hold   chan struct{} // what Log waits for; nil: nothing
	held   chan struct{} // is sent to when Log waits
}

func (f *fakeTask) keep(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
	return nil
}

func (f *fakeTask) kept() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lines)
}

func (f *fakeTask) Status(context.Context) (json.RawMessage, error) {
	return json.RawMessage(`{"task":"010"}`), nil
}
func (f *fakeTask) SetStatus(_ context.Context, to tipstaff.TaskStatus, reason string) error {
	return f.keep("status %s %s", to, reason)
}
func (f *fakeTask) Log(ctx context.Context, level, text string) error {
	if f.hold != nil {
		f.held <- struct{}{}
		<-f.hold
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.keep("log %s %s", level, text)
}
func (f *fakeTask) Ask(_ context.Context, question string, options []string) error {
	return f.keep("ask %s %q", question, options)
}
func (f *fakeTask) Output(_ context.Context, h Handed) (tipstaff.TaskOutput, error) {
	return tipstaff.TaskOutput{Kind: h.Kind, Path: h.Path, SHA256: "digest of " + h.Path, Iteration: 1}, f.keep("output %s %s%s", h.Kind, h.Path, h.Value)
}

// ruled is a Policy that rules by the name of the tool.
type ruled map[string]Ruling

func (p ruled) Static(_, tool, _ string) Ruling            { return p[tool] }
func (p ruled) Decide(_ context.Context, r Request) Ruling { return p[r.Tool] }

func opened(t *testing.T, f *fakeTask, p Policy, o channelOptions) channel {
	t.Helper()
	c, err := openChannel(t.TempDir(), f, p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// connected is a client of the channel, as a CLI is one.
func connected(t *testing.T, c channel) *mcp.ClientSession {
	t.Helper()
	conn, err := DialChannel(t.Context(), c.environ())
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "cli", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// call is the text that a tool answers with.
func call(t *testing.T, s *mcp.ClientSession, tool, args string) (text string, refused bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r.Content[0].(*mcp.TextContent).Text, r.IsError
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWorkerReportsThroughItsChannel(t *testing.T) {
	f := new(fakeTask)
	c := opened(t, f, nil, channelOptions{Type: "codex"})
	if isClosed(c.authenticated()) {
		t.Error("nobody has connected yet")
	}
	s := connected(t, c)
	<-c.authenticated()
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	want := taskTools()
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("tools without a hook (-want +got):\n%s", diff)
	}
	for _, step := range []struct{ tool, args, answer string }{
		{"task_status", `{}`, `{"task":"010"}`},
		{"task_log", `{"text":"reading"}`, "logged"},
		{"task_log", `{"text":"hm","level":"warning"}`, "logged"},
		{"task_output", `{"kind":"file","path":"a.txt"}`, "stored"},
		{"task_output", `{"kind":"data","value":{"n":1}}`, "stored"},
		{"task_output", `{"kind":"data","value":{"n":2}}`, "stored"},
		{"task_output", `{"kind":"verdict","value":{"verdict":"approved","summary":"fine","findings":[{"title":"nit"}]}}`, "stored"},
	} {
		if got, refused := call(t, s, step.tool, step.args); refused || got != step.answer {
			t.Errorf("%s %s: %q, refused %v", step.tool, step.args, got, refused)
		}
	}
	if isClosed(c.spoke()) {
		t.Error("it has not reported yet")
	}
	if got, refused := call(t, s, "task_set_status", `{"status":"needs_review","reason":"done"}`); refused || !strings.Contains(got, "End your turn now") {
		t.Errorf("%q, %v", got, refused)
	}
	<-c.spoke()
	if diff := cmp.Diff([]string{"log info reading", "log warning hm", "output file a.txt", `output data {"n":1}`, `output data {"n":2}`,
		`output verdict {"verdict":"approved","summary":"fine","findings":[{"title":"nit"}]}`, "status needs_review done"}, f.kept()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	output := func(kind, path string) tipstaff.TaskOutput {
		return tipstaff.TaskOutput{Kind: kind, Path: path, SHA256: "digest of " + path, Iteration: 1}
	}
	if diff := cmp.Diff(Report{Status: "needs_review", Reason: "done", Data: json.RawMessage(`{"n":2}`),
		Outputs: []tipstaff.TaskOutput{output("file", "a.txt"), output("data", ""), output("data", ""), output("verdict", "")},
		Verdict: &Verdict{Verdict: "approved", Summary: "fine", Findings: json.RawMessage(`[{"title":"nit"}]`), Incomplete: json.RawMessage("[]")},
	}, c.report()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestRefusedCallsChangeNothing(t *testing.T) {
	long := strings.Repeat("ö", 4001)
	options := `["` + strings.Join(strings.Split("abcdefghijk", ""), `","`) + `"]`
	f := new(fakeTask)
	c := opened(t, f, nil, channelOptions{Type: "codex"})
	s := connected(t, c)
	for _, step := range []struct{ tool, args, says string }{
		{"task_set_status", `{"status":"completed","reason":"done"}`, "use needs_review or paused"},
		{"task_set_status", `{"status":"in_progress","reason":"more"}`, "use needs_review or paused"},
		{"task_set_status", `{"status":"paused","reason":" "}`, "reason is empty"},
		{"task_set_status", `{"status":"paused","reason":"` + long + `"}`, "4001 characters: 4000 are the most"},
		{"task_set_status", `{"status":7,"reason":"a"}`, "do not fit"},
		{"task_set_status", `{"status":"paused","reason":"a","why":"b"}`, `"why"`},
		{"task_set_status", `{"status":"paused","status":"needs_review","reason":"a"}`, "status"},
		{"task_log", `{}`, "text is empty"},
		{"task_log", `{"text":"` + strings.Repeat("x", 8<<10+1) + `"}`, "8193 bytes: 8192 are the most"},
		{"task_log", `{"text":"a","level":"loud"}`, "info, warning, error"},
		{"task_ask", `{"question":""}`, "question is empty"},
		{"task_ask", `{"question":"` + long + `"}`, "4000 are the most"},
		{"task_ask", `{"question":"a?","options":` + options + `}`, "11 options: 10 are the most"},
		{"task_ask", `{"question":"a?","options":["x",""]}`, "options[1]"},
		{"task_ask", `{"question":"a?","options":["x","x"]}`, "stands twice"},
		{"task_output", `{"kind":"file"}`, "named by its path"},
		{"task_output", `{"kind":"file","path":"a","value":1}`, "no value"},
		{"task_output", `{"kind":"data"}`, "needs a value"},
		{"task_output", `{"kind":"data","path":"a","value":1}`, "no path"},
		{"task_output", `{"kind":"poem","value":"a"}`, "file, data, verdict"},
		{"task_output", `{"kind":"verdict","value":{"verdict":"maybe","summary":"a"}}`, "neither approved nor rejected"},
		{"task_output", `{"kind":"verdict","value":{"verdict":"approved","findings":{}}}`, "findings is not a list"},
		{"task_output", `{"kind":"verdict","value":"approved"}`, "do not fit"},
		{"task_status", `{"task":"020"}`, `"task"`},
	} {
		if got, refused := call(t, s, step.tool, step.args); !refused || !strings.Contains(got, step.says) {
			t.Errorf("%s %.80s: %q, refused %v; it should say %q", step.tool, step.args, got, refused, step.says)
		}
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: ApproveTool, Arguments: map[string]any{"tool_name": "Bash", "input": map[string]any{}}}); err == nil {
		t.Error("approve was called where there is no hook")
	}
	f.refuse = errors.New("the task was abandoned")
	for _, step := range [][2]string{{"task_set_status", `{"status":"paused","reason":"a"}`}, {"task_ask", `{"question":"a?"}`}, {"task_log", `{"text":"a"}`}, {"task_output", `{"kind":"file","path":"a"}`}} {
		if got, refused := call(t, s, step[0], step[1]); !refused || got != "the task was abandoned" {
			t.Errorf("%s: %q, %v", step[0], got, refused)
		}
	}
	if diff := cmp.Diff(Report{Outputs: []tipstaff.TaskOutput{}}, c.report()); diff != "" || f.kept() != nil || isClosed(c.spoke()) {
		t.Errorf("something has changed: %v %s", f.kept(), diff)
	}
}

func TestReportsAndQuestionsEndTheTurn(t *testing.T) {
	for name, first := range map[string][2]string{
		"a report":   {"task_set_status", `{"status":"paused","reason":"no access"}`},
		"a question": {"task_ask", `{"question":"Which one?","options":["a","b"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := new(fakeTask)
			c := opened(t, f, ruled{"worker-claude/Bash": {Effect: Allow}}, channelOptions{Type: "claude", Hook: true})
			s := connected(t, c)
			if got, refused := call(t, s, first[0], first[1]); refused || !strings.Contains(got, "nd your turn now") {
				t.Fatalf("%q", got)
			}
			<-c.spoke()
			before := f.kept()
			for _, second := range [][2]string{{"task_set_status", `{"status":"needs_review","reason":"done"}`}, {"task_ask", `{"question":"And?"}`}} {
				if got, refused := call(t, s, second[0], second[1]); !refused || !strings.Contains(got, "the task is paused") {
					t.Errorf("%s: %q", second[0], got)
				}
			}
			got, _ := call(t, s, ApproveTool, `{"tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"c1"}`)
			if !strings.Contains(got, `"behavior":"deny"`) || !strings.Contains(got, ruleReported) {
				t.Errorf("approve: %s", got)
			}
			if _, _, ok := c.passed("c1"); ok || len(c.denials()) != 1 {
				t.Errorf("%+v", c.denials())
			}
			if diff := cmp.Diff(before, f.kept()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLogsAreCounted(t *testing.T) {
	f := new(fakeTask)
	s := connected(t, opened(t, f, nil, channelOptions{Type: "codex"}))
	for range mostLogs {
		if got, refused := call(t, s, "task_log", `{"text":"a"}`); refused {
			t.Fatal(got)
		}
	}
	if got, refused := call(t, s, "task_log", `{"text":"a"}`); !refused || !strings.Contains(got, "1000 entries") || len(f.kept()) != mostLogs {
		t.Errorf("%q after %d", got, len(f.kept()))
	}
}

func TestParallelCallsAllSurvive(t *testing.T) {
	f := new(fakeTask)
	c := opened(t, f, nil, channelOptions{Type: "codex"})
	s := connected(t, c)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "task_output", Arguments: map[string]any{"kind": "file", "path": fmt.Sprint(i)}})
			if err != nil || r.IsError {
				t.Errorf("%d: %v %+v", i, err, r)
			}
		})
	}
	all.Wait()
	var paths []string
	for i, o := range c.report().Outputs {
		paths = append(paths, o.Path)
		if f.kept()[i] != "output file "+o.Path {
			t.Errorf("the report is in another order than what was stored: %v, %v", f.kept(), c.report().Outputs)
		}
	}
	slices.Sort(paths)
	if strings.Join(paths, "") != "01234567" {
		t.Errorf("%v", paths)
	}
}

func TestChannelHasOneConnection(t *testing.T) {
	f := new(fakeTask)
	c := opened(t, f, nil, channelOptions{Type: "codex"})
	socket, _ := strings.CutPrefix(c.environ()[0], socketVariable+"=")
	if _, _, err := dialSocket(t.Context(), socket, strings.Repeat("0", len(c.token()))); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a wrong token: %v", err)
	}
	if _, _, err := dialSocket(t.Context(), socket, strings.Repeat(c.token(), 3)); err == nil {
		t.Error("a token that goes on and on was taken")
	}
	if isClosed(c.authenticated()) {
		t.Error("it counts as authenticated")
	}
	s := connected(t, c)
	if _, err := DialChannel(t.Context(), c.environ()); err == nil || !strings.Contains(err.Error(), "has had its connection") {
		t.Errorf("a second relay: %v", err)
	}
	if _, _, err := dialSocket(t.Context(), socket, c.token()); err == nil || !strings.Contains(err.Error(), "has had its connection") {
		t.Errorf("a second connection with the token: %v", err)
	}
	_ = s.Close()
	if _, _, err := dialSocket(t.Context(), socket, c.token()); err == nil {
		t.Error("a second connection after the first")
	}
	c.close()
	if _, _, err := dialSocket(t.Context(), socket, c.token()); err == nil {
		t.Error("the channel is closed")
	}
	if len(c.token()) != 64 || c.token() == opened(t, f, nil, channelOptions{}).token() {
		t.Errorf("the token %q is not 256 random bits", c.token())
	}
}

// The token is in no environment. It is handed over once, in a file that its owner alone can
// read and that is gone when it was taken, or when the invocation has ended.
func TestTokenIsHandedOverOnce(t *testing.T) {
	dir, f := t.TempDir(), new(fakeTask)
	secret := filepath.Join(dir, tokenFile)
	for name, leftover := range map[string]func(elsewhere string) error{
		"nothing": func(string) error { return nil },
		"a file":  func(string) error { return os.WriteFile(secret, []byte("old"), 0o666) },
		"a link":  func(elsewhere string) error { return os.Symlink(elsewhere, secret) },
		"a FIFO":  func(string) error { return syscall.Mkfifo(secret, 0o666) },
	} {
		elsewhere := filepath.Join(t.TempDir(), "file")
		if err := errors.Join(os.WriteFile(elsewhere, []byte("mine"), 0o600), leftover(elsewhere)); err != nil {
			t.Fatal(err)
		}
		c, err := openChannel(dir, f, nil, channelOptions{Type: "codex"})
		if err != nil {
			t.Fatalf("over %s: %v", name, err)
		}
		if strings.Contains(strings.Join(c.environ(), " "), c.token()) {
			t.Errorf("the environment has the token: %q", c.environ())
		}
		info, err := os.Lstat(secret)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("over %s: %v, %v", name, info, err)
		}
		if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "mine" {
			t.Errorf("over %s: %q was written elsewhere, %v", name, b, err)
		}
		if name != "nothing" {
			_ = connected(t, c).Close()
			if _, err := os.Lstat(secret); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it was taken, and is still there: %v", err)
			}
		}
		c.close()
		if _, err := os.Lstat(secret); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the channel is closed, and it is still there: %v", err)
		}
	}
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secret, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := openChannel(dir, f, nil, channelOptions{Type: "codex"}); err == nil {
		c.close()
		t.Error("there is no place for the token, and the channel was opened")
	}
}

// A relay that its CLI ends before it has shown the token leaves it to the next; what comes
// after one that has shown it finds none.
func TestARelayThatIsStartedAgain(t *testing.T) {
	c := opened(t, new(fakeTask), nil, channelOptions{Type: "codex"})
	socket := lookup(c.environ(), socketVariable)
	if token, err := readToken(socket); err != nil || token != c.token() {
		t.Fatalf("%q, %v", token, err) // and it is killed
	}
	if _, _, err := dialSocket(t.Context(), socket, strings.Repeat("0", len(c.token()))); err == nil {
		t.Error("another token was taken")
	}
	conn, _, err := dialChannel(t.Context(), c.environ())
	if err != nil {
		t.Fatalf("the next has none: %v", err)
	}
	defer conn.Close()
	if _, err := readToken(socket); tipstaff.CodeOf(err) != tipstaff.Unauthenticated {
		t.Errorf("the token was shown, and lies there: %v", err)
	}
}

// A token that cannot be removed opens nothing.
func TestATokenThatStaysIsRefused(t *testing.T) {
	c := opened(t, new(fakeTask), nil, channelOptions{Type: "codex"})
	socket := lookup(c.environ(), socketVariable)
	if err := errors.Join(os.Remove(beside(socket)), os.MkdirAll(filepath.Join(beside(socket), "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := dialSocket(t.Context(), socket, c.token()); err == nil || !strings.Contains(err.Error(), "cannot be removed") {
		t.Error(err)
	}
}

func TestMalformedFramesAreRefused(t *testing.T) {
	f := new(fakeTask)
	c := opened(t, f, nil, channelOptions{Type: "codex"})
	conn, err := DialChannel(t.Context(), c.environ())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	ask := func(frame string) string {
		t.Helper()
		if _, err := io.WriteString(conn, frame+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", frame, err)
		}
		return line
	}
	if got := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cli","version":"1"}}}`); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
		t.Errorf("not as negotiated: %s", got)
	}
	if _, err := io.WriteString(conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for _, frame := range []string{
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"task_log","arguments":"text"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"task_log","arguments":[]}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"task_delete","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[]}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/destroy"}`,
	} {
		if got := ask(frame); !strings.Contains(got, `"error":`) && !strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: %s", frame, got)
		}
	}
	if got := ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"task_log","arguments":{"text":"still here"}}}`); strings.Contains(got, "isError") {
		t.Errorf("after them: %s", got)
	}
	if diff := cmp.Diff([]string{"log info still here"}, f.kept()); diff != "" {
		t.Error(diff)
	}
}

// The worker's end does not undo a call that has arrived, and none is made after close.
func TestCloseWaitsForCalls(t *testing.T) {
	f := &fakeTask{hold: make(chan struct{}), held: make(chan struct{})}
	c := opened(t, f, nil, channelOptions{Type: "codex"})
	s := connected(t, c)
	for range 3 { // one of them is under way, the others wait
		go func() {
			_, _ = s.CallTool(context.Background(), &mcp.CallToolParams{Name: "task_log", Arguments: map[string]any{"text": "last words"}})
		}()
	}
	<-f.held
	done := make(chan struct{})
	go func() { c.close(); close(done) }()
	select {
	case <-done:
		t.Error("closed with a call under way")
	case <-time.After(20 * time.Millisecond):
	}
	ended := time.Now()
	close(f.hold)
	<-done
	if took := time.Since(ended); took > drainTime/2 {
		t.Errorf("it waited for %v after the call", took)
	}
	if diff := cmp.Diff([]string{"log info last words"}, f.kept()); diff != "" {
		t.Error(diff)
	}
}

// A worker that reports and exits has reported.
func TestCallsBeforeTheEndAreCarriedOut(t *testing.T) {
	f := new(fakeTask)
	c := opened(t, f, nil, channelOptions{Type: "codex"})
	conn, from, err := dialChannel(t.Context(), c.environ())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	frames := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cli","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for i := range 20 {
		frames += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"task_log","arguments":{"text":"%d"}}}`+"\n", i+2, i)
	}
	if _, err := io.WriteString(conn, frames); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(from)
	if err != nil || strings.Count(string(answers), "logged") != 20 || len(f.kept()) != 20 {
		t.Errorf("%v: %d kept\n%s", err, len(f.kept()), answers)
	}
}

func TestSocketInADeepFolder(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := openChannel(deep, new(fakeTask), nil, channelOptions{Type: "codex"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	connected(t, c)
	socket, _ := strings.CutPrefix(c.environ()[0], socketVariable+"=")
	info, err := os.Stat(filepath.Dir(socket))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	c.close()
	if _, err := os.Stat(filepath.Dir(socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestRelayCopiesBothWays(t *testing.T) {
	f := new(fakeTask)
	c := opened(t, f, nil, channelOptions{Type: "codex"})
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Relay(t.Context(), theirs, theirs, c.environ()) }()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "cli", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: ours, Writer: ours}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, refused := call(t, s, "task_status", `{}`); refused || got != `{"task":"010"}` {
		t.Errorf("%q", got)
	}
	_ = s.Close()
	if err := <-ended; err != nil {
		t.Errorf("after the CLI closed it: %v", err)
	}
	if err := Relay(t.Context(), strings.NewReader(""), io.Discard, c.environ()); err == nil {
		t.Error("a second relay was let in")
	}
	if err := Relay(t.Context(), strings.NewReader(""), io.Discard, nil); err == nil || !strings.Contains(err.Error(), socketVariable) {
		t.Errorf("without an environment: %v", err)
	}
}

func TestRelayEndsWithTheChannel(t *testing.T) {
	c := opened(t, new(fakeTask), nil, channelOptions{Type: "codex"})
	in, never := io.Pipe()
	defer never.Close()
	ended := make(chan error, 1)
	go func() { ended <- Relay(t.Context(), in, io.Discard, c.environ()) }()
	<-c.authenticated()
	c.close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

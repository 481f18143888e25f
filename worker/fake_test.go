package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// fixture is what a fake CLI does. It lies beside the fake, which is the test's own
// program under another name.
type fixture struct {
	Version string     `json:"version"`
	Help    string     `json:"help"`
	HelpErr string     `json:"help_err"` // on stderr
	Chat    string     `json:"chat"`     // the id that create-chat prints
	Steps   []fakeStep `json:"steps"`
}

type fakeStep struct {
	Out     string        `json:"out,omitempty"` // a line
	Half    string        `json:"half,omitempty"`
	Err     string        `json:"err,omitempty"`
	Repeat  int           `json:"repeat,omitempty"`
	Pause   time.Duration `json:"pause,omitempty"` // after it
	Call    string        `json:"call,omitempty"`  // a tool of the channel
	Args    string        `json:"args,omitempty"`
	Deaf    bool          `json:"deaf,omitempty"`    // from now on SIGTERM is ignored
	Child   string        `json:"child,omitempty"`   // leaves one behind in a session of its own; "bare": without its environment
	Forever bool          `json:"forever,omitempty"` // never ends
	Exit    int           `json:"exit,omitempty"`
	Die     bool          `json:"die,omitempty"`   // by SIGKILL
	Token   bool          `json:"token,omitempty"` // prints the token that it connected with
}

// start is what a fake saw when it was started.
type started struct {
	Args  []string `json:"args"`
	Env   []string `json:"env"`
	Input string   `json:"input"`
	Dir   string   `json:"dir"`
	MCP   string   `json:"mcp"` // the file that --mcp-config names
}

const sleeper = "fake-sleeper"

func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); {
	case name == sleeper:
		time.Sleep(time.Minute)
		syscall.Exit(0)
	case slices.Contains([]string{"claude", "codex", "gemini", "opencode", "cursor-agent", "tipstaff"}, name):
		fake()
	}
	os.Exit(m.Run())
}

// fake is a CLI. It ends with syscall.Exit: the race detector would wait for a second, for
// there is no GORACE in its environment.
func fake() {
	dir := filepath.Dir(os.Args[0])
	var f fixture
	b, err := os.ReadFile(filepath.Join(dir, "fixture.json"))
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(99)
	}
	switch os.Args[len(os.Args)-1] {
	case "--version":
		fmt.Println(f.Version)
		syscall.Exit(0)
	case "--help":
		fmt.Print(f.Help)
		fmt.Fprint(os.Stderr, f.HelpErr)
		syscall.Exit(0)
	case "create-chat":
		fmt.Println(f.Chat)
		syscall.Exit(0)
	}
	f.note(dir)
	var channel *mcp.ClientSession
	for _, s := range f.Steps {
		for range max(s.Repeat, 1) {
			channel = s.do(channel)
		}
	}
	syscall.Exit(0)
}

// note writes down how the fake was started.
func (f *fixture) note(dir string) {
	input, _ := io.ReadAll(os.Stdin)
	wd, _ := os.Getwd()
	s := started{Args: os.Args[1:], Env: os.Environ(), Input: string(input), Dir: wd}
	if i := slices.Index(os.Args, "--mcp-config"); i > 0 {
		b, _ := os.ReadFile(os.Args[i+1])
		s.MCP = string(b)
	}
	b, _ := json.Marshal(s)
	out, err := os.OpenFile(filepath.Join(dir, "starts.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		syscall.Exit(98)
	}
	_, _ = out.Write(append(b, '\n'))
	_ = out.Close()
}

func (s *fakeStep) do(channel *mcp.ClientSession) *mcp.ClientSession {
	if s.Deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	if s.Out != "" {
		fmt.Println(s.Out)
	}
	fmt.Print(s.Half)
	if s.Err != "" {
		fmt.Fprintln(os.Stderr, s.Err)
	}
	if s.Token {
		token, _ := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), tokenFile))
		fmt.Printf("{\"type\":\"x\",\"token\":%q}\n", token)
		fmt.Fprintf(os.Stderr, "%s\n", token)
	}
	if s.Call != "" {
		if channel == nil {
			channel = dial()
		}
		if s.Call != "connect" {
			_, _ = channel.CallTool(context.Background(), &mcp.CallToolParams{Name: s.Call, Arguments: json.RawMessage(s.Args)})
		}
	}
	if s.Child != "" {
		c := exec.Command("/proc/self/exe")
		c.Args, c.SysProcAttr = []string{sleeper}, &syscall.SysProcAttr{Setsid: true}
		c.Stdout = os.Stdout // which keeps the pipe open
		if s.Child == "bare" {
			c.Env = []string{}
		}
		if err := c.Start(); err != nil {
			syscall.Exit(97)
		}
	}
	time.Sleep(s.Pause)
	switch {
	case s.Forever:
		time.Sleep(time.Minute)
	case s.Die:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case s.Exit != 0:
		syscall.Exit(s.Exit)
	}
	return channel
}

// dial connects to the channel, as a relay does. The token is left beside the fake.
func dial() *mcp.ClientSession {
	if token, err := os.ReadFile(beside(os.Getenv(socketVariable))); err == nil {
		_ = os.WriteFile(filepath.Join(filepath.Dir(os.Args[0]), tokenFile), token, 0o600)
	}
	conn, err := DialChannel(context.Background(), os.Environ())
	if err == nil {
		var s *mcp.ClientSession
		if s, err = mcp.NewClient(&mcp.Implementation{Name: "cli", Version: "1"}, nil).Connect(context.Background(), &mcp.IOTransport{Reader: conn, Writer: conn}, nil); err == nil {
			return s
		}
	}
	fmt.Fprintln(os.Stderr, err)
	syscall.Exit(96)
	return nil
}

// execStarter starts processes as plainly as possible. What is left of one is found by a
// variable of its environment, or as a descendant that was seen.
type execStarter struct {
	mu     sync.Mutex
	starts []Program
	all    []*execProcess
	level  string
	fail   error
}

func (s *execStarter) Containment() string { return s.level }

func (s *execStarter) Start(p Program) (Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil && !slices.Contains(p.Args, "--version") {
		return nil, s.fail
	}
	s.starts = append(s.starts, p)
	q := &execProcess{marker: fmt.Sprintf("TIPSTAFF_SPAWN=%d-%d", os.Getpid(), time.Now().UnixNano()), exited: make(chan struct{})}
	q.cmd = &exec.Cmd{Path: p.Path, Args: p.Args, Dir: p.Dir, Env: append(slices.Clone(p.Env), q.marker), Stdin: bytes.NewReader(p.Input), SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	var theirs [2]*os.File
	for i, ours := range []**os.File{&q.out, &q.err} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		*ours, theirs[i] = r, w
	}
	q.cmd.Stdout, q.cmd.Stderr = theirs[0], theirs[1]
	err := q.cmd.Start()
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		return nil, err
	}
	go func() {
		_ = q.cmd.Wait()
		close(q.exited)
	}()
	s.all = append(s.all, q)
	return q, nil
}

// close closes the pipes of all processes, whose output has been read.
func (s *execStarter) close() {
	for _, p := range s.all {
		_, _ = p.out.Close(), p.err.Close()
	}
}

// runs are the programs that were started for more than their version.
func (s *execStarter) runs() (runs []Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.starts {
		if last := p.Args[len(p.Args)-1]; last != "--version" && last != "--help" && last != "create-chat" {
			runs = append(runs, p)
		}
	}
	return runs
}

type execProcess struct {
	cmd      *exec.Cmd
	marker   string
	out, err *os.File
	exited   chan struct{}
}

func (p *execProcess) Identity() tipstaff.ProcessIdentity {
	return tipstaff.ProcessIdentity{Pid: p.cmd.Process.Pid, Start: 1, Boot: "test"}
}
func (p *execProcess) Stdout() io.Reader       { return p.out }
func (p *execProcess) Stderr() io.Reader       { return p.err }
func (p *execProcess) Exited() <-chan struct{} { return p.exited }

func (p *execProcess) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(grace):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
	}
}

func (p *execProcess) Wait() (e Ended) {
	<-p.exited
	for _, name := range processes() {
		pid, err := strconv.Atoi(name)
		env, _ := os.ReadFile("/proc/" + name + "/environ")
		if err != nil || pid == os.Getpid() || !bytes.Contains(env, []byte(p.marker)) {
			continue
		}
		comm, _ := os.ReadFile("/proc/" + name + "/comm")
		_ = syscall.Kill(pid, syscall.SIGKILL)
		e.Leftover = append(e.Leftover, tipstaff.LeftProcess{Pid: pid, Comm: strings.TrimSpace(string(comm))})
	}
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		e.Exit.Signal = status.Signal().String()
	} else {
		e.Exit.Code = status.ExitStatus()
	}
	return e
}

func processes() (names []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// memorySink keeps what it hears.
type memorySink struct {
	starts   []tipstaff.WorkerStarted
	sessions []string
	events   []Body
	returned bool
	late     int
	refuse   error
}

func (s *memorySink) Started(b tipstaff.WorkerStarted) error {
	s.starts = append(s.starts, b)
	return s.refuse
}
func (s *memorySink) Session(id string) error { s.sessions = append(s.sessions, id); return nil }
func (s *memorySink) Event(b Body) {
	if s.returned {
		s.late++
	}
	s.events = append(s.events, b)
}

// kinds are the kinds of worker.event that were told.
func (s *memorySink) notes() (kinds []string) {
	for _, b := range s.events {
		if e, ok := b.(*tipstaff.WorkerEvent); ok {
			kinds = append(kinds, e.What)
		}
	}
	return kinds
}

// bed is a worker with a fake CLI, and all that an invocation needs.
type bed struct {
	t       *testing.T
	config  Config
	bin     string // the folder of the fake
	starter *execStarter
	task    *fakeTask
	sink    *memorySink
	options Options
}

const anID = "3b9b7a4e-9c1c-5d0a-8f4e-0d6a5f1f2a11"

var allowAll = ruled{}

func init() {
	for _, of := range []*cliType{&claude, &codex, &gemini, &opencode, &cursor, &scripted} {
		for _, n := range of.tools() {
			allowAll[n.name] = Ruling{Effect: Allow, Rules: []string{"all"}}
		}
	}
}

func newBed(t *testing.T, typ string, steps ...fakeStep) *bed {
	t.Helper()
	b := &bed{t: t, bin: t.TempDir(), starter: &execStarter{level: "subreaper"}, task: new(fakeTask), sink: new(memorySink)}
	t.Cleanup(b.starter.close)
	of := rowsOf(typ)[0].of
	name := of.command
	if name == "" {
		name = "tipstaff"
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.must(os.Symlink(self, filepath.Join(b.bin, name)))
	b.config = Config{Name: typ, Type: typ, Self: "/opt/tipstaff", Starter: b.starter, Version: "1.0"}
	if typ == "scripted" {
		b.config.Self, b.config.Script = filepath.Join(b.bin, "tipstaff"), "/answers.yaml"
	}
	b.script(map[string]string{"claude": "2.1.325 (Claude Code)", "codex": "codex-cli 0.166.0", "gemini": "0.61.0", "opencode": "1.18.33", "cursor": "2026.10.02-abcdef"}[typ], steps...)
	b.options = Options{Run: "01J00000000000000000000000", Path: "root/1", Invocation: "01J0000000000000000000000A", Prompt: "do it", Dir: t.TempDir(), Posture: ReadOnly,
		Folder: t.TempDir(), Logs: t.TempDir(), Channel: b.task, Policy: allowAll, Sink: b.sink,
		Env:     []string{"PATH=" + b.bin, "HOME=" + t.TempDir()},
		Limits:  Limits{Grace: 5 * time.Second, Wall: time.Hour}, // a hang is ended with the test binary
		Session: Conversation{ID: anID}}
	return b
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// script replaces what the fake does.
func (b *bed) script(version string, steps ...fakeStep) {
	b.t.Helper()
	f, err := json.Marshal(fixture{Version: version, Chat: "chat-1", Steps: steps})
	b.must(err)
	b.must(os.WriteFile(filepath.Join(b.bin, "fixture.json"), f, 0o600))
}

func (b *bed) worker() *CLI {
	b.t.Helper()
	w, err := New(b.config)
	b.must(err)
	return w
}

func (b *bed) spawn() Result { return b.invoke(b.t.Context(), false) }

func (b *bed) resume() Result { return b.invoke(b.t.Context(), true) }

func (b *bed) invoke(ctx context.Context, resume bool) Result {
	b.t.Helper()
	b.options.Invocation = tipstaff.NewID(time.Now()).String()
	do := b.worker().Spawn
	if resume {
		do = b.worker().Resume
	}
	r, err := do(ctx, b.options)
	b.must(err)
	b.sink.returned = true
	if b.sink.late > 0 {
		b.t.Error("the sink was called after the call returned")
	}
	b.sink.returned = false
	return r
}

// seen is how the fake was started, each time.
func (b *bed) seen() (all []started) {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.bin, "starts.jsonl"))
	b.must(err)
	for line := range strings.Lines(string(content)) {
		var s started
		b.must(json.Unmarshal([]byte(line), &s))
		all = append(all, s)
	}
	return all
}

func (b *bed) read(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(name)
	b.must(err)
	return string(content)
}

// Lines of the fakes.

func initLine(id string) string {
	return fmt.Sprintf(`{"type":"system","subtype":"init","session_id":%q,"mcp_servers":[{"name":"tipstaff","status":"connected"}]}`, id)
}

func textLine(message, text string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"id":%q,"model":"m","content":[{"type":"text","text":%q}],"usage":{"input_tokens":10,"output_tokens":5}},"session_id":%q}`, message, text, anID)
}

func callLine(message, id, tool, args string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"id":%q,"model":"m","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]},"session_id":%q}`, message, id, tool, args, anID)
}

func resultLine(id, content string) string {
	return fmt.Sprintf(`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%s}]}}`, id, content)
}

const endLine = `{"is_error":false,"subtype":"success","type":"result","result":"done","session_id":"` + anID + `","total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":2}}`

var (
	connect  = fakeStep{Call: "connect"}
	reported = fakeStep{Call: "task_set_status", Args: `{"status":"needs_review","reason":"it is done"}`}
)

func happy(steps ...fakeStep) []fakeStep {
	return slices.Concat([]fakeStep{connect, {Out: initLine(anID)}, {Out: textLine("m1", "hello")}}, steps, []fakeStep{{Out: endLine}})
}

//go:build linux

package clis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/clis/api"
)

// A cli is how one of them is started.
type cli interface {
	name() string
	// argv is the command line of a spawn, or with an id of a session of its resumption.
	// Files are written below the bench's home before the start.
	spawn(b *bench, p posture, id string) []string
	resume(b *bench, p posture, id string) []string
	env(b *bench, p posture) []string
	// session is the id that a stream tells, "" if none.
	session(line map[string]any) string

	// worker is the CLI's part of a worker in a manifest, passed the variables that Tipstaff
	// is started with, sessions the files, relative to the home, that hold its sessions.
	worker(w *workspace) map[string]any
	passed(w *workspace) []string
	sessions() string
}

// posture as in the specification of workers.
type posture string

const (
	auto     posture = "auto"
	readOnly posture = "read_only"
	write    posture = "write"
	bypass   posture = "bypass"
)

var clis = []cli{claude{}, codex{}, gemini{}, opencode{}}

// bench is where one CLI runs by hand: a root with a repository and a home, and an API.
type bench struct {
	testing.TB
	cli   cli
	api   *api.Server
	root  string
	run   string        // the value of TIPSTAFF_RUN_ID, by which its processes are known
	limit time.Duration // after which all its processes are killed; 0: none
	dead  bool          // the API does not listen
}

// asked waits for the API to have had so many requests.
func (b *bench) asked(n int) {
	b.Helper()
	deadline := time.After(patience)
	for {
		next := b.api.Next()
		if len(b.api.Requests()) >= n {
			return
		}
		select {
		case <-next:
		case <-deadline:
			b.Fatalf("%d requests came, not %d", len(b.api.Requests()), n)
		}
	}
}

// newAPI is a model's API that ends with the test.
func newAPI(t testing.TB, turns ...api.Turn) *api.Server {
	t.Helper()
	s, err := api.New(turns...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func newBench(t testing.TB, c cli, turns ...api.Turn) *bench {
	t.Helper()
	installed(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, cli: c, api: newAPI(t, turns...), root: root, run: "bench" + filepath.Base(filepath.Dir(root)) + filepath.Base(root)}
	for _, dir := range []string{b.dir(), b.home(), filepath.Join(root, "tmp")} {
		b.check(os.MkdirAll(dir, 0o755))
	}
	git := exec.Command("git", "init", "-q", b.dir())
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if left := marked(b.run); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
			end(left)
		}
	})
	return b
}

func (b *bench) check(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func (b *bench) dir() string     { return filepath.Join(b.root, "repo") }
func (b *bench) home() string    { return filepath.Join(b.root, "home") }
func (b *bench) channel() string { return filepath.Join(b.root, "channel.jsonl") }

// file writes one below the root, and says where.
func (b *bench) file(name, content string) string {
	b.Helper()
	path := filepath.Join(b.root, name)
	b.check(os.MkdirAll(filepath.Dir(path), 0o755))
	b.check(os.WriteFile(path, []byte(content), 0o600))
	return path
}

// read is a file of the repository, "" if there is none.
func (b *bench) read(name string) string {
	content, err := os.ReadFile(filepath.Join(b.dir(), name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	return string(content)
}

// heard is the calls that came in by the channel, without its start.
func (b *bench) heard() (calls []said) {
	content, err := os.ReadFile(b.channel())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var s said
		b.check(json.Unmarshal([]byte(line), &s))
		calls = append(calls, s)
	}
	return calls
}

// channelTold returns the first call of a tool, and fails the test if there is none.
func (b *bench) channelTold(tool string) said {
	b.Helper()
	for _, s := range b.heard() {
		if s.Tool == tool {
			return s
		}
	}
	b.Fatalf("the channel heard no %s, but %v", tool, b.heard())
	return said{}
}

// ended is how a CLI ended.
type ended struct {
	out, err string
	code     int // -1: a signal
	signal   syscall.Signal
	took     time.Duration
}

func (e ended) String() string {
	return fmt.Sprintf("exit %d, signal %v, after %s\nstdout:\n%s\nstderr:\n%s", e.code, e.signal, e.took.Round(time.Millisecond), clip(e.out), clip(e.err))
}

// lines are the JSON objects on standard output.
func (e ended) lines() (lines []map[string]any) {
	for line := range strings.Lines(e.out) {
		var object map[string]any
		if json.Unmarshal([]byte(line), &object) == nil {
			lines = append(lines, object)
		}
	}
	return lines
}

// running is a CLI that runs.
type running struct {
	b        *bench
	cmd      *exec.Cmd
	out, err bytes.Buffer
	begun    time.Time
	args     []string
	copied   chan struct{} // closed when all of stdout was read
}

// patience is how long a CLI may run.
const patience = 3 * time.Minute

// start starts the CLI with the prompt at its standard input.
func (b *bench) start(p posture, argv []string, prompt string) *running {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.Cleanup(cancel)
	r := &running{b: b, cmd: exec.CommandContext(ctx, program(b.cli.name()), argv...), begun: time.Now(), args: argv}
	r.cmd.Dir = b.dir()
	r.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.home(), "TMPDIR=" + filepath.Join(b.root, "tmp"), "TERM=dumb", "LANG=C.UTF-8", "SHELL=/bin/bash",
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost", // nothing else is to be reached
		"TIPSTAFF_MCP_SOCKET=" + b.channel(), "TIPSTAFF_MCP_TOKEN=token", "TIPSTAFF_RUN_ID=" + b.run, "TIPSTAFF_LAUNCH=launch", "TIPSTAFF_SPAWN=spawn",
	}, b.cli.env(b, p)...)
	r.cmd.Stdin = strings.NewReader(prompt)
	r.cmd.Stderr = &r.err
	stdout, to, err := os.Pipe()
	b.check(err)
	// Gemini CLI exits without waiting for its output to be read, and loses what does not
	// fit into the pipe.
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, to.Fd(), syscall.F_SETPIPE_SZ, 1<<20); errno != 0 {
		b.Fatal(errno)
	}
	r.cmd.Stdout = to
	r.copied = make(chan struct{})
	go func() {
		defer close(r.copied)
		io.Copy(&r.out, stdout)
	}()
	b.Cleanup(func() { stdout.Close() })
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r.cmd.WaitDelay = 5 * time.Second
	if b.dead {
		b.api.Stop()
	}
	b.check(r.cmd.Start())
	b.check(to.Close())
	if b.limit > 0 {
		timer := time.AfterFunc(b.limit, func() { end(marked(b.run)) })
		b.Cleanup(func() { timer.Stop() })
	}
	return r
}

// wait returns when it has ended.
func (r *running) wait() ended {
	r.b.Helper()
	err := r.cmd.Wait()
	select {
	case <-r.copied:
	case <-time.After(5 * time.Second): // a process that it left holds the pipe
		end(marked(r.b.run))
		<-r.copied
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		r.b.Fatalf("%s %q: %v", r.b.cli.name(), r.args, err)
	}
	e := ended{out: r.out.String(), err: r.err.String(), code: r.cmd.ProcessState.ExitCode(), took: time.Since(r.begun)}
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	return e
}

// spawn runs a new session to its end.
func (b *bench) spawn(p posture, id, prompt string) ended {
	b.Helper()
	return b.start(p, b.cli.spawn(b, p, id), prompt).wait()
}

// resume goes on with a session.
func (b *bench) resume(p posture, id, prompt string) ended {
	b.Helper()
	return b.start(p, b.cli.resume(b, p, id), prompt).wait()
}

// session is the id that a stream told.
func (b *bench) session(e ended) string {
	b.Helper()
	for _, line := range e.lines() {
		if id := b.cli.session(line); id != "" {
			return id
		}
	}
	b.Fatalf("no session id in\n%v", e)
	return ""
}

// keep writes what a CLI printed, if the tests are run with -record.
func (b *bench) keep(name string, e ended) ended {
	b.Helper()
	b.Logf("%s: %v", name, e)
	if !*record {
		return e
	}
	folder := filepath.Join("..", "..", "worker", "testdata", "streams", b.cli.name())
	b.check(os.MkdirAll(folder, 0o755))
	scrub := strings.NewReplacer(b.root, "/w", strings.ReplaceAll(b.root, "/", "-"), "-w", nodeModules(), "/n").Replace
	if b.api != nil {
		inner, address := scrub, strings.TrimPrefix(b.api.URL, "http://")
		scrub = func(s string) string { return strings.ReplaceAll(inner(s), address, "127.0.0.1:1") }
	}
	how := fmt.Sprintf("%d\n", e.code)
	if e.signal != 0 {
		how = fmt.Sprintf("signal %d\n", int(e.signal))
	}
	for suffix, content := range map[string]string{".jsonl": scrub(e.out), ".stderr": scrub(e.err), ".exit": how} {
		b.check(os.WriteFile(filepath.Join(folder, name+suffix), []byte(content), 0o644))
	}
	return e
}

func clip(s string) string {
	if len(s) > 6000 {
		return s[:3000] + "\n…\n" + s[len(s)-3000:]
	}
	return s
}

func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

//go:build linux

package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// files are those of every workspace. ask is a program that asks a person in its middle.
const files = `
-- tipstaff.yaml --
version: 1
allowed_effects: [read]
servers:
  builtin:
    tools: {json_query: {effect: read}, sleep: {effect: read}}
policy:
  rules: [{id: reads, tool: "builtin/*", effect: read, do: allow}]
-- ask.yaml --
kind: plan
version: 1
name: ask
root:
  kind: sequential
  children:
    - {id: first, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: 20, expr: "int(value) + 1"}}
    - {id: ok, kind: gate, question: "Double it?", show: {number: "${first.output.result}"}}
    - {id: second, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: "${first.output.result}", expr: "int(value) * 2"}}
outputs: {number: "${second.output.result}"}
`

// busy is a program that tells something new for as long as it takes: so many steps, each of
// so many milliseconds.
func busy(steps, ms int) string {
	var b strings.Builder
	b.WriteString("kind: plan\nversion: 1\nname: busy\nroot:\n  kind: sequential\n  children:\n")
	for n := range steps {
		fmt.Fprintf(&b, "    - {id: s%d, kind: tool_call, tool: \"mcp://builtin/sleep@1.0.0\", args: {duration: %dms}}\n", n, ms)
	}
	return b.String()
}

// patience is how long any one program may run.
const patience = 3 * time.Minute

// bed is a workspace, and the released command in it.
type bed struct {
	*cmdtest.Folder
}

func newBed(t testing.TB) *bed {
	t.Helper()
	asked(t)
	b := &bed{cmdtest.New(t, cmdtest.Released, patience)}
	b.Unpack(files)
	return b
}

// tipstaff is the path of the command.
func (b *bed) tipstaff() string {
	b.Helper()
	path, err := cmdtest.Released()
	b.Check(err)
	return path
}

// json runs the command with --json, and reads the object that it prints.
func (b *bed) json(into any, args ...string) {
	b.Helper()
	r := b.Must(0, append(args, "--json")...)
	b.decode([]byte(r.Out), into)
}

func (b *bed) decode(text []byte, into any) {
	b.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		b.Fatalf("%v in %s", err, cmdtest.Clip(string(text)))
	}
}

// program is one of others, run to its end in a folder of its own.
type program struct {
	argv []string
	dir  string
	env  []string
	in   string
}

// ended is what a program has said.
type ended struct {
	out, err string
	code     int // -1: a signal ended it
}

// run runs a program with nothing in its environment but PATH, a home in the workspace, and
// what it names. It cannot reach any other machine by a proxy that is set here.
func (b *bed) run(p program) ended {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	c.Dir = p.dir
	if c.Dir == "" {
		c.Dir = b.Dir
	}
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.Path("home"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8", "TERM=dumb", "SHELL=/bin/bash",
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost"}, p.env...)
	b.Check(os.MkdirAll(b.Path("home"), 0o755))
	c.Stdin = strings.NewReader(p.in)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 10 * time.Second
	err := c.Run()
	if !cmdtest.IsExit(err) && !errors.Is(err, exec.ErrWaitDelay) {
		b.Fatalf("%q: %v\n%s\n%s", p.argv, err, cmdtest.Clip(out.String()), cmdtest.Clip(errs.String()))
	}
	return ended{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

// must runs a program that has to succeed.
func (b *bed) must(p program) string {
	b.Helper()
	e := b.run(p)
	if e.code != 0 {
		b.Fatalf("%q: exit code %d\nstdout:\n%s\nstderr:\n%s", p.argv, e.code, cmdtest.Clip(e.out), cmdtest.Clip(e.err))
	}
	return e.out
}

// wellDone fails the test unless the run has ended as its program says, after a person's
// decision, and its journal proves it.
func (b *bed) wellDone(run, decidedBy string) {
	b.Helper()
	var shown struct {
		State   string
		Outputs struct{ Number int }
	}
	b.json(&shown, "show", run)
	if shown.State != "completed" || shown.Outputs.Number != 42 {
		b.Errorf("run %s is %+v", run, shown)
	}
	b.Must(0, "verify", run)
	var recorded struct {
		Decisions struct {
			Items []struct {
				Decision struct {
					Action    string
					DecidedBy string `json:"decided_by"`
				}
			}
		}
	}
	b.json(&recorded, "show", run, "--evidence=decisions")
	if items := recorded.Decisions.Items; len(items) != 1 || items[0].Decision.Action != "approve" || items[0].Decision.DecidedBy != decidedBy {
		b.Errorf("what is recorded of decisions in run %s is %+v, not that %s has approved", run, items, decidedBy)
	}
}

// daemon is `tipstaff serve` over a bed.
type daemon struct {
	*bed
	url   string // of HTTP
	grpc  string // the address
	token string
	proc  *cmdtest.Process
}

// serve starts a daemon.
func (b *bed) serve(args ...string) *daemon {
	b.Helper()
	return b.start(append([]string{"serve", "--addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0"}, args...)...)
}

// start starts a command that serves, and returns when it says that it listens.
func (b *bed) start(args ...string) *daemon {
	b.Helper()
	d := &daemon{bed: b, proc: b.Prepare(append(args, "--json")...)}
	listening := newLine()
	d.proc.Cmd.Stdout, d.proc.Cmd.Stderr = listening, &d.proc.Err
	d.proc.Begin()
	b.Cleanup(d.stop)
	var told struct {
		HTTP string `json:"addr"`
		GRPC string `json:"grpc_addr"`
		File string `json:"token_file"`
	}
	select {
	case line := <-listening.first:
		b.decode(line, &told)
	case <-d.proc.Ended:
		b.Fatalf("the daemon ended: %s", d.proc.Err.String())
	}
	token, err := os.ReadFile(told.File)
	b.Check(err)
	d.url, d.grpc, d.token = "http://"+told.HTTP, told.GRPC, strings.TrimSpace(string(token))
	return d
}

// stop ends the daemon in good order.
func (d *daemon) stop() {
	d.Helper()
	if !d.proc.Running() {
		return
	}
	d.proc.Signal(syscall.SIGTERM)
	<-d.proc.Ended
	if code := d.proc.Cmd.ProcessState.ExitCode(); code != 0 {
		d.Errorf("the daemon ended with %d\n%s", code, cmdtest.Clip(d.proc.Err.String()))
	}
}

func (d *daemon) bearer() string { return "Bearer " + d.token }

// post sends JSON, which must be taken.
func (d *daemon) post(path string, body, into any) {
	d.Helper()
	text, err := json.Marshal(body)
	d.Check(err)
	answer := d.ask(http.MethodPost, path, text)
	if into != nil {
		d.decode(answer, into)
	}
}

// get reads JSON.
func (d *daemon) get(path string, into any) {
	d.Helper()
	d.decode(d.ask(http.MethodGet, path, nil), into)
}

// ask makes a request, which must succeed, and returns the answer.
func (d *daemon) ask(method, path string, body []byte) []byte {
	d.Helper()
	req, err := http.NewRequest(method, d.url+path, bytes.NewReader(body))
	d.Check(err)
	req.Header.Set("Authorization", d.bearer())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	d.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	d.Check(err)
	if resp.StatusCode >= 300 {
		d.Fatalf("%s %s: %s\n%s", method, path, resp.Status, text)
	}
	return text
}

// line is a writer that tells its first line.
type line struct {
	first chan []byte
	told  bool
	text  []byte
}

func newLine() *line { return &line{first: make(chan []byte, 1)} }

func (l *line) Write(p []byte) (int, error) {
	if !l.told {
		l.text = append(l.text, p...)
		if text, _, whole := bytes.Cut(l.text, []byte("\n")); whole {
			l.told = true
			l.first <- text
		}
	}
	return len(p), nil
}

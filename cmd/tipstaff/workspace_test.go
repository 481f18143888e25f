package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// patience is how long any one command may take before it counts as hanging.
const patience = 5 * time.Minute

// workspace is a folder with a manifest and plans, and the command run in it.
type workspace struct {
	testing.TB
	dir string
	uid uint32   // whom the command runs as; 0: whoever runs the tests
	env []string // that the command gets beside PATH, HOME and TMPDIR
}

// manifest declares what the plans of these tests use.
const manifest = `-- tipstaff.yaml --
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh]
    tools:
      read_file: {effect: read}
      write_file: {effect: idempotent}
      list_dir: {effect: read}
      json_query: {effect: read}
      sleep: {effect: read}
      exec: {effect: once}
`

func emptyWorkspace(t testing.TB) *workspace {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &workspace{TB: t, dir: dir}
}

// newWorkspace writes the files of txtar archives to a new folder.
func newWorkspace(t testing.TB, archives ...string) *workspace {
	t.Helper()
	w := emptyWorkspace(t)
	for _, archive := range archives {
		for _, f := range txtar.Parse([]byte(archive)).Files {
			w.write(f.Name, string(f.Data))
		}
	}
	return w
}

// copyOf is a workspace with the same files.
func copyOf(t testing.TB, from *workspace) *workspace {
	t.Helper()
	w := emptyWorkspace(t)
	if err := os.CopyFS(w.dir, os.DirFS(from.dir)); err != nil {
		t.Fatal(err)
	}
	w.tighten()
	return w
}

// tighten gives the store's files the modes that a copy has lost: keys that
// others may read are refused.
func (w *workspace) tighten() {
	w.Helper()
	keys := w.path(".tipstaff", "keys")
	w.check(os.Chmod(keys, 0o700))
	names, err := filepath.Glob(filepath.Join(keys, "*.key"))
	w.check(err)
	for _, name := range names {
		w.check(os.Chmod(name, 0o600))
	}
}

func (w *workspace) check(err error) {
	if err != nil {
		w.Helper()
		w.Fatal(err)
	}
}

func (w *workspace) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *workspace) write(name, content string) {
	w.Helper()
	w.check(os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	w.check(os.WriteFile(w.path(name), []byte(content), 0o644))
}

// read is a file's content, "" if there is none.
func (w *workspace) read(name string) string {
	w.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	return string(b)
}

// result is how a command ended.
type result struct {
	args     string
	code     int // -1: a signal ended it
	out, err string
}

func (r result) String() string {
	return fmt.Sprintf("tipstaff %s: exit code %d\nstdout:\n%s\nstderr:\n%s", r.args, r.code, clip(r.out), clip(r.err))
}

func clip(s string) string {
	if len(s) > 4000 {
		return s[:2000] + "\n…\n" + s[len(s)-2000:]
	}
	return s
}

// says fails the test unless the output has each of the texts.
func (r result) says(t testing.TB, texts ...string) result {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Errorf("no word of %q in\n%v", text, r)
		}
	}
	return r
}

// tipstaff runs the command to its end.
func (w *workspace) tipstaff(args ...string) result {
	w.Helper()
	return w.start(args...).wait()
}

// must is tipstaff with an exit code that is expected.
func (w *workspace) must(code int, args ...string) result {
	w.Helper()
	r := w.tipstaff(args...)
	if r.code != code {
		w.Fatalf("want exit code %d\n%v", code, r)
	}
	return r
}

// process is a command that runs.
type process struct {
	w        *workspace
	cmd      *exec.Cmd
	args     string
	out, err bytes.Buffer
	ended    chan struct{}
	waitErr  error
}

func (w *workspace) start(args ...string) *process {
	w.Helper()
	p := w.prepare(args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.begin()
	return p
}

// prepare makes a command whose streams are yet to be joined.
func (w *workspace) prepare(args ...string) *process {
	w.Helper()
	name, err := command()
	w.check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.Cleanup(cancel)
	p := &process{w: w, cmd: exec.CommandContext(ctx, name, args...), args: strings.Join(args, " "), ended: make(chan struct{})}
	p.cmd.Dir = w.dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + os.TempDir()}, w.env...)
	p.cmd.WaitDelay = 10 * time.Second // for streams that a left-over child holds
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if w.uid != 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: w.uid, Gid: w.uid}
	}
	return p
}

func (p *process) begin() {
	p.w.Helper()
	p.w.check(p.cmd.Start())
	go func() {
		p.waitErr = p.cmd.Wait()
		close(p.ended)
	}()
}

// wait returns when the process has ended.
func (p *process) wait() result {
	p.w.Helper()
	<-p.ended
	if !isExit(p.waitErr) {
		p.w.Fatalf("tipstaff %s: %v\nstderr:\n%s", p.args, p.waitErr, clip(p.err.String()))
	}
	r := result{p.args, p.cmd.ProcessState.ExitCode(), p.out.String(), p.err.String()}
	if strings.Contains(r.err, "goroutine ") || strings.Contains(r.err, "DATA RACE") {
		p.w.Errorf("it crashed\n%v", r)
	}
	return r
}

func isExit(err error) bool {
	var exit *exec.ExitError
	return err == nil || errors.As(err, &exit)
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal to the process alone, not to its group.
func (p *process) signal(s os.Signal) {
	p.w.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.w.Fatal(err)
	}
}

// kill is kill -9. It reports whether the process still ran.
func (p *process) kill() (killed bool) {
	p.w.Helper()
	p.signal(syscall.SIGKILL)
	<-p.ended
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// record is one line of a run's journal.
type record struct {
	Seq  int64           `json:"seq"`
	Kind string          `json:"kind"`
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

// field is a member of the body, as text without quotes.
func (r record) field(name string) string {
	var body map[string]json.RawMessage
	if json.Unmarshal(r.Body, &body) != nil {
		return ""
	}
	return strings.Trim(string(body[name]), `"`)
}

// journal is the records of a run, as the command prints them.
func (w *workspace) journal(run string) []record {
	w.Helper()
	return w.parseRecords(w.must(0, "events", run, "--json").out)
}

func (w *workspace) parseRecords(lines string) []record {
	w.Helper()
	var records []record
	for line := range strings.Lines(lines) {
		var r record
		w.check(json.Unmarshal([]byte(line), &r))
		records = append(records, r)
	}
	return records
}

// gate is an open gate as the command shows it.
type gate struct {
	ID     string `json:"gate_id"`
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	Path   string `json:"path"`
	Digest string `json:"digest"`
}

// shown is what the tests read of show --json.
type shown struct {
	ID        string          `json:"run_id"`
	State     string          `json:"state"`
	Status    string          `json:"status"`
	Outcome   string          `json:"outcome"`
	HeadSeq   int64           `json:"head_seq"`
	Head      string          `json:"head"`
	OpenGates []gate          `json:"open_gates"`
	Outputs   json.RawMessage `json:"outputs"`
}

func (w *workspace) show(run string) shown {
	w.Helper()
	var s shown
	w.check(json.Unmarshal([]byte(w.must(0, "show", run, "--json").out), &s))
	return s
}

// runs are the ids of all runs, newest first.
func (w *workspace) runs() []string {
	w.Helper()
	var ids []string
	for line := range strings.Lines(w.must(0, "ls", "--json").out) {
		var s shown
		w.check(json.Unmarshal([]byte(line), &s))
		ids = append(ids, s.ID)
	}
	return ids
}

// runID is the run that the last line of run --json or resume --json names.
func (r result) runID(t testing.TB) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var s shown
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil || s.ID == "" {
		t.Fatalf("its last line names no run: %v\n%v", err, r)
	}
	return s.ID
}

// until calls done until it is true, and fails the test when that takes too long.
func (w *workspace) until(what string, done func() bool) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

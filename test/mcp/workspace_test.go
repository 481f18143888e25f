package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// patience is how long any one command may take before it counts as hanging.
const patience = 2 * time.Minute

// workspace is a folder with a manifest and plans, and the command run in it. Its
// folder is HOME to the command and so to the servers, by which their processes
// are known.
type workspace struct {
	testing.TB
	installation
	dir string
	env []string // beside PATH, HOME and TMPDIR
}

// newWorkspace skips the test where the servers are not installed.
func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	w := &workspace{TB: t, installation: installed(t)}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	w.check(err)
	w.dir = dir
	t.Cleanup(func() {
		if left := w.servers(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
			end(left)
		}
	})
	return w
}

// files writes the files of a txtar archive.
func (w *workspace) files(archive string) *workspace {
	w.Helper()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		w.write(f.Name, string(f.Data))
	}
	return w
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
	took     time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("tipstaff %s: exit code %d after %s\nstdout:\n%s\nstderr:\n%s", r.args, r.code, r.took.Round(time.Millisecond), clip(r.out), clip(r.err))
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

// tipstaff runs the command to its end, which must have the exit code.
func (w *workspace) tipstaff(code int, args ...string) result {
	w.Helper()
	return w.start(args...).wait(code)
}

// process is a command that runs.
type process struct {
	w        *workspace
	cmd      *exec.Cmd
	begun    time.Time
	out, err bytes.Buffer
	ended    chan struct{}
	waitErr  error
}

func (w *workspace) start(args ...string) *process {
	w.Helper()
	name, err := command()
	w.check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.Cleanup(cancel)
	p := &process{w: w, cmd: exec.CommandContext(ctx, name, args...), begun: time.Now(), ended: make(chan struct{})}
	p.cmd.Dir = w.dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + os.TempDir()}, w.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = 10 * time.Second // for streams that a left-over child holds
	w.check(p.cmd.Start())
	go func() {
		p.waitErr = p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

// wait returns when the process has ended, which must be with the exit code.
func (p *process) wait(code int) result {
	p.w.Helper()
	<-p.ended
	var exit *exec.ExitError
	if p.waitErr != nil && !errors.As(p.waitErr, &exit) {
		p.w.Fatalf("tipstaff %s: %v\nstderr:\n%s", strings.Join(p.cmd.Args[1:], " "), p.waitErr, clip(p.err.String()))
	}
	r := result{strings.Join(p.cmd.Args[1:], " "), p.cmd.ProcessState.ExitCode(), p.out.String(), p.err.String(), time.Since(p.begun)}
	if strings.Contains(r.err, "goroutine ") || strings.Contains(r.err, "DATA RACE") {
		p.w.Errorf("it crashed\n%v", r)
	}
	if r.code != code {
		p.w.Fatalf("want exit code %d\n%v", code, r)
	}
	return r
}

// kill is kill -9.
func (p *process) kill() {
	p.w.Helper()
	p.w.check(p.cmd.Process.Kill())
	<-p.ended
}

// pin accepts what the servers list now, which is then what tools list shows.
func (w *workspace) pin() *workspace {
	w.Helper()
	w.tipstaff(0, "tools", "pin", "--yes")
	listed := w.tipstaff(0, "tools", "list").out
	var lock struct {
		Servers map[string]struct {
			Tools map[string]json.RawMessage
		}
	}
	w.check(json.Unmarshal([]byte(w.read("tipstaff.lock")), &lock))
	for server, s := range lock.Servers {
		for tool := range s.Tools {
			if line := regexp.MustCompile(`(?m)^mcp://` + regexp.QuoteMeta(server+"/"+tool) + `@.* locked$`); !line.MatchString(listed) {
				w.Errorf("%s/%s is locked, and tools list says:\n%s", server, tool, listed)
			}
		}
	}
	return w
}

// outputs runs a plan, which must succeed, and decodes what it gives.
func (w *workspace) outputs(plan string, into any) {
	w.Helper()
	w.tipstaff(0, "run", plan, "--unattended")
	w.shown(into)
}

// shown decodes the outputs of the newest run, which must have completed and must
// bear looking at.
func (w *workspace) shown(into any) {
	w.Helper()
	s := w.show()
	if s.State != "completed" || s.Outcome != "success" {
		w.Errorf("the run is %s, %s", s.State, s.Outcome)
	}
	if err := json.Unmarshal(s.Outputs, into); err != nil {
		w.Fatalf("outputs %s: %v", clip(string(s.Outputs)), err)
	}
	w.tipstaff(0, "verify", "@")
	w.tipstaff(0, "replay", "@")
}

// status is what the tests read of show --json.
type status struct {
	State     string          `json:"state"`
	Outcome   string          `json:"outcome"`
	Outputs   json.RawMessage `json:"outputs"`
	OpenGates []struct {
		Key string `json:"key"`
	} `json:"open_gates"`
}

// show is the newest run.
func (w *workspace) show() status {
	w.Helper()
	var s status
	w.check(json.Unmarshal([]byte(w.tipstaff(0, "show", "@", "--json").out), &s))
	return s
}

// record is one line of a run's journal.
type record struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	Path string    `json:"path"`
	Body struct {
		Class    string  `json:"class"`
		Progress float64 `json:"progress"`
		Error    struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	} `json:"body"`
}

// journal is the records of the newest run that have a kind and, if some are given,
// one of the paths.
func (w *workspace) journal(kind string, paths ...string) []record {
	w.Helper()
	return w.ofKind(kind, w.tipstaff(0, "events", "@", "--json").out, paths...)
}

// ofKind is those of the records in an output that have a kind.
func (w *workspace) ofKind(kind, out string, paths ...string) []record {
	w.Helper()
	var found []record
	for line := range strings.Lines(out) {
		var r record
		w.check(json.Unmarshal([]byte(line), &r))
		if r.Kind == kind && (len(paths) == 0 || slices.Contains(paths, r.Path)) {
			found = append(found, r)
		}
	}
	return found
}

// failure is how a node of the newest run failed.
func (w *workspace) failure(path string) record {
	w.Helper()
	steps := w.journal("plan.step", path)
	if len(steps) != 1 || steps[0].Body.Error.Code == "" {
		w.Fatalf("%s did not fail: %+v", path, steps)
	}
	return steps[0]
}

// until calls done until it is true, and fails the test when that takes too long.
func (w *workspace) until(what string, done func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain for %s", what)
		}
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// detached is a run that has a process of its own.
type detached struct {
	Run  string   `json:"run_id"`
	Dir  string   `json:"run_dir"`
	Pid  int      `json:"pid"`
	Argv []string `json:"argv"`
}

// detach leaves a plan to a process of its own, and returns when its program has had its
// effect. The process is ended with the test.
func (w *workspace) detach(args ...string) (d detached) {
	w.Helper()
	w.Check(json.Unmarshal([]byte(w.Must(0, append(args, "--detach", "--json")...).Out), &d))
	w.Cleanup(func() {
		if lives(d.Pid) {
			_ = syscall.Kill(d.Pid, syscall.SIGKILL)
		}
	})
	w.Until("the program's line", func() bool { return w.happened("slow") || !lives(d.Pid) })
	return d
}

// lives reports whether a process runs, and not as a zombie.
func lives(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

// exit is how the process of a run ended, as its file says; -1: it is not known.
func (w *workspace) exit(run string) int {
	w.Helper()
	var file tipstaff.SupervisorFile
	w.Check(json.Unmarshal([]byte(w.Read(".tipstaff/runs/"+run+"/supervisor.json")), &file))
	if file.Exit == nil {
		return -1
	}
	return file.Exit.Code
}

// ended waits for the end of the process, and for that nothing of it is left.
func (w *workspace) ended(d detached) {
	w.Helper()
	w.Until("the end of the process", func() bool { return !lives(d.Pid) })
	if left := w.leftOver(d.Run); len(left) > 0 {
		w.Errorf("%v of the run live on", left)
	}
}

func (w *workspace) records(run, kind string) (n int) {
	w.Helper()
	for _, r := range w.journal(run) {
		if r.Kind == kind {
			n++
		}
	}
	return n
}

// A detached run needs nobody: neither who started it nor the server that did.
func TestDetachedRunGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, daemon)
	w.Env = append(w.Env, "SECRET_OF_SERVER=x")
	began := time.Now()
	d := w.detach("run", "long.yaml", "--yes")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("that took %v", took)
	}
	proc := filepath.Join("/proc", strconv.Itoa(d.Pid))
	environ, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err == nil { // root may read it; others may not, it is concealed
		var file tipstaff.SupervisorFile
		w.Check(json.Unmarshal([]byte(w.Read(d.Dir+"/supervisor.json")), &file))
		for _, want := range []string{"TIPSTAFF_RUN_ID=" + d.Run, "TIPSTAFF_LAUNCH=" + file.Launch, "SECRET_OF_SERVER=x"} {
			if !slices.Contains(strings.Split(string(environ), "\x00"), want) {
				t.Errorf("its environment lacks %s", want)
			}
		}
	}
	if session, err := syscall.Getpgid(d.Pid); err != nil || session != d.Pid {
		t.Errorf("its group is %d, %v", session, err)
	}
	for fd, want := range map[string]string{"0": "/dev/null", "1": w.Path(d.Dir, "runner.log"), "2": w.Path(d.Dir, "runner.log")} {
		if to, err := os.Readlink(filepath.Join(proc, "fd", fd)); err == nil && to != want {
			t.Errorf("descriptor %s is %s", fd, to)
		}
	}
	cmdline, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	w.Check(err)
	if want := strings.Join(d.Argv, "\x00") + "\x00"; string(cmdline) != want || len(d.Argv) != 5 || d.Argv[1] != "exec" || d.Argv[2] != d.Run || d.Argv[4] != w.Dir {
		t.Errorf("its command line is %q, told was %q", cmdline, d.Argv)
	}
	if run := w.show(d.Run); run.Status != "running" {
		t.Errorf("it is %s", run.Status)
	}
	w.Write("enough", "")
	w.Must(0, "watch", d.Run)
	w.ended(d)
	if code := w.exit(d.Run); code != 0 {
		t.Errorf("its process ended with %d", code)
	}
	if log := w.Read(d.Dir + "/runner.log"); !strings.HasPrefix(log, "--- launch ") || !strings.Contains(log, "completed") {
		t.Errorf("its log says %q", log)
	}
	w.Must(0, "verify", d.Run)
}

// SIGTERM interrupts, SIGKILL too; what was under way is in doubt, and resumed in a process
// of its own.
func TestDetachedRunIsInterruptedAndResumed(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]struct {
		reason string
		code   int
	}{syscall.SIGTERM: {"signal:TERM", 143}, syscall.SIGKILL: {"owner_died", -1}} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, daemon)
			d := w.detach("run", "long.yaml", "--yes")
			w.Check(syscall.Kill(d.Pid, sig))
			w.Until("its end", func() bool { return !lives(d.Pid) })
			for range 2 { // whoever comes finds it, once
				w.Must(0, "ls")
			}
			w.ended(d)
			if run := w.show(d.Run); run.Status != "interrupted" || w.records(d.Run, "run.interrupted") != 1 {
				t.Errorf("it is %s, interrupted %d times", run.Status, w.records(d.Run, "run.interrupted"))
			}
			if code := w.exit(d.Run); code != want.code {
				t.Errorf("its process ended with %d", code)
			}
			if last := w.journal(d.Run); last[len(last)-1].field("reason") != want.reason {
				t.Errorf("it was interrupted by %s", last[len(last)-1].field("reason"))
			}
			var again detached
			w.Check(json.Unmarshal([]byte(w.Must(0, "resume", d.Run, "--detach", "--json").Out), &again))
			if r := w.Run("watch", d.Run); r.Code != 4 {
				t.Errorf("%v", r)
			}
			w.ended(again)
			if code := w.exit(d.Run); code != 4 {
				t.Errorf("its process ended with %d", code)
			}
			for i, r := range w.journal(d.Run) {
				if r.Seq != int64(i+1) {
					t.Fatalf("record %d is %d", i+1, r.Seq)
				}
			}
			if got := w.effects(); got != "slow" {
				t.Errorf("effects %q", got)
			}
			w.Must(4, "resume", d.Run, "--detach") // nobody has decided
			w.Must(0, "verify", d.Run, "--open")
		})
	}
}

func TestDetachedRunIsCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stopped bool // its process
		args    []string
		says    string
		exit    int
	}{
		"it listens":         {false, nil, "cancelled RUN\n", 8},
		"it does not":        {true, []string{"--grace", "1s"}, "cancelled RUN; its process was killed\n", 137},
		"nobody asks it":     {false, []string{"--hard"}, "cancelled RUN; its process was killed\n", 137},
		"the canceller dies": {false, []string{"--grace", "3s"}, "", 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, daemon)
			d := w.detach("run", "long.yaml", "--yes")
			if len(w.leftOver(d.Run)) < 2 {
				t.Skip("the processes of a run cannot be seen here")
			}
			if c.stopped {
				w.Check(syscall.Kill(d.Pid, syscall.SIGSTOP))
			}
			args := append([]string{"cancel", d.Run}, c.args...)
			if c.says == "" {
				p := w.Start(args...)
				w.Until("the request", func() bool { return w.records(d.Run, "run.cancel_requested") > 0 })
				p.Kill()
				w.Until("its end", func() bool { return !lives(d.Pid) })
			} else if got := w.Must(0, args...).Out; got != strings.ReplaceAll(c.says, "RUN", d.Run) {
				t.Errorf("it said %q", got)
			}
			w.ended(d)
			if run := w.show(d.Run); run.State != "cancelled" {
				t.Errorf("it is %s", run.State)
			}
			if code := w.exit(d.Run); code != c.exit {
				t.Errorf("its process ended with %d", code)
			}
			before := len(w.journal(d.Run))
			w.Must(3, "cancel", d.Run)
			if len(w.journal(d.Run)) != before {
				t.Error("a repeat has written something")
			}
			w.Must(0, "verify", d.Run)
		})
	}
}

// The fifth is refused, whoever asks.
func TestDetachedRunsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, reading)
	started := make([]detached, 2)
	for i := range started {
		w.Check(json.Unmarshal([]byte(w.Must(0, "run", "reading.yaml", "--detach", "--json", "--max-runs", "2").Out), &started[i]))
	}
	w.Must(3, "run", "reading.yaml", "--detach", "--max-runs", "2").Says(t, "process of their own", "--max-runs")
	w.Env = append(w.Env, "TIPSTAFF_MAX_RUNS=2")
	w.Must(3, "run", "reading.yaml", "--detach")
	if n := len(w.runs()); n != 2 {
		t.Errorf("there are %d runs", n)
	}
	w.Must(0, "cancel", started[0].Run, "--hard")
	w.Must(0, "run", "reading.yaml", "--detach", "--max-runs", "2")
	for _, run := range w.runs() {
		_ = w.Run("cancel", run, "--hard")
	}
	for _, bad := range []string{"0", "-1", "many", "1.5"} {
		w.Must(2, "run", "reading.yaml", "--detach", "--max-runs", bad)
		w.Env = append(w.Env, "TIPSTAFF_MAX_RUNS="+bad)
		w.Must(2, "run", "reading.yaml", "--detach")
	}
	w.Must(2, "run", "reading.yaml", "--max-runs", "3")
}

// A server that launches a run may be killed: the run goes on, and the next finds it.
func TestDetachedRunOutlivesItsServer(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, daemon)
	server := w.Prepare("serve", "--grpc-addr", "unix:"+w.Path("s"))
	server.Listen()
	server.Begin()
	defer server.Kill()
	w.Until("the server", func() bool { _, err := os.Stat(w.Path("s")); return err == nil || !server.Running() })
	d := w.detach("run", "long.yaml", "--yes", "--server", "unix:"+w.Path("s"))
	other := w.detach("run", "long.yaml", "--yes", "--server", "unix:"+w.Path("s"))
	// The launcher reaps what it has started, and says how it ended.
	w.Check(syscall.Kill(other.Pid, syscall.SIGKILL))
	w.Until("the word of the launcher", func() bool {
		for line := range strings.Lines(w.Must(0, "events", other.Run, "--json", "--server", "unix:"+w.Path("s")).Out) {
			if strings.Contains(line, `"run.interrupted"`) && strings.Contains(line, `"signal:KILL"`) {
				return true
			}
		}
		return false
	})
	server.Kill()
	w.Write("enough", "")
	w.Must(0, "watch", d.Run)
	w.ended(d)
	w.ended(other)
	w.Must(0, "verify", d.Run)
}

// The process that drives a run is not for people.
func TestExecNeedsItsLaunch(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, reading)
	const unknown = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"
	w.Must(2, "exec", unknown)
	var d detached
	w.Check(json.Unmarshal([]byte(w.Must(0, "run", "reading.yaml", "--detach", "--json").Out), &d))
	defer func() { w.Must(0, "cancel", d.Run, "--hard") }()
	w.Until("its lease", func() bool { return w.records(d.Run, "run.started") > 0 })
	head := len(w.journal(d.Run))
	var file tipstaff.SupervisorFile
	w.Until("its file", func() bool {
		return json.Unmarshal([]byte(w.Read(d.Dir+"/supervisor.json")), &file) == nil && file.Epoch == 1
	})
	for _, token := range []string{"another", file.Launch} { // it is taken once
		p := w.Prepare("exec", d.Run)
		p.Cmd.Env = append(p.Cmd.Env, "TIPSTAFF_LAUNCH="+token, "TIPSTAFF_RUN_ID="+d.Run)
		p.Listen()
		p.Begin()
		if r := p.Wait(); r.Code != 3 {
			t.Errorf("%v", r)
		}
	}
	p := w.Prepare("exec", unknown)
	p.Cmd.Env = append(p.Cmd.Env, "TIPSTAFF_LAUNCH=x")
	p.Listen()
	p.Begin()
	if r := p.Wait(); r.Code != 3 {
		t.Errorf("%v", r)
	}
	if now := len(w.journal(d.Run)); now != head || w.exit(d.Run) != -1 {
		t.Errorf("%d records follow, and its process is said to have ended with %d", now-head, w.exit(d.Run))
	}
}

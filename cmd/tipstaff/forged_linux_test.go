package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// detachLong leaves the long plan to a process of its own, and returns when its program
// has had its effect.
func (w *workspace) detachLong() (run string, pid int) {
	w.Helper()
	w.endLaunched()
	r := w.Must(0, "run", "long.yaml", "--detach", "--json")
	var told struct {
		Pid int `json:"pid"`
	}
	w.Check(json.Unmarshal([]byte(r.Out), &told))
	w.Until("the program's line", func() bool { return w.happened("slow") })
	return runID(w, r), told.Pid
}

// forge changes what the store knows of the process that drives a run, and of the one that
// was launched for it.
func (w *workspace) forge(run string, changes map[string]any) {
	w.Helper()
	for member, value := range changes {
		w.setOwner(run, member, value)
		w.sql(`UPDATE runs SET launch = json_set(launch, '$.process.' || ?, ?) WHERE id = ?`, member, value, run)
	}
}

// beat says when the owner of a run was heard of last.
func (w *workspace) beat(run string, ago time.Duration) {
	w.Helper()
	w.sql(`UPDATE runs SET heartbeat = ?, launch = json_set(launch, '$.at', ?) WHERE id = ?`, time.Now().Add(-ago).UnixNano(),
		time.Now().Add(-ago).UTC().Format(time.RFC3339Nano), run)
}

// interruptions is how often a run was found dead.
func (w *workspace) interruptions(run string) (n int) {
	w.Helper()
	for _, r := range w.journal(run) {
		if r.Kind == "run.interrupted" {
			n++
		}
	}
	return n
}

// A process that was launched for a run and stands still owns it, however long it has been
// silent: that is told, nobody takes its place, and only who says hard ends it.
func TestStalledProcess(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	run, pid := w.detachLong()
	w.hold(pid)
	w.beat(run, 45*time.Second)
	w.Must(0, "show", run, "--diagnose", "--json").Says(t, `"condition":"stalled"`)
	w.Must(3, "resume", run, "--detach", "--json").Says(t, `"code":"busy"`)
	if s := w.show(run); s.Status != "running" || w.interruptions(run) != 0 {
		t.Errorf("it is %s, found dead %d times", s.Status, w.interruptions(run))
	}
	w.Must(0, "cancel", run, "--hard").Says(t, "its process was killed")
	if s := w.show(run); s.State != "cancelled" || len(w.leftOver(run)) > 0 {
		t.Errorf("it is %s, and %v are left", s.State, w.leftOver(run))
	}
	w.Must(0, "verify", run)
}

// hold stops a process where it stands, but not in the middle of a commit.
func (w *workspace) hold(pid int) {
	w.Helper()
	db := w.openWritable(50 * time.Millisecond)
	defer db.Close()
	w.Until("a moment outside of a commit", func() bool {
		w.Check(syscall.Kill(pid, syscall.SIGSTOP))
		tx, err := db.Begin()
		if err == nil {
			w.Check(tx.Rollback())
			return true
		}
		w.Check(syscall.Kill(pid, syscall.SIGCONT))
		return false
	})
}

// A run whose process has died, and of which the store names a stranger, gives that one no
// signal; who cannot be looked at is believed for 30 seconds.
func TestStrangersAreNotSignalled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forge func(pid int, start int64) map[string]any
		beat  time.Duration
		lives bool
	}{
		"another has its pid": {func(pid int, _ int64) map[string]any { return map[string]any{"Pid": pid} }, 0, false},
		"before a reboot": {func(pid int, start int64) map[string]any {
			return map[string]any{"Pid": pid, "Start": start, "Boot": "another"}
		}, 0, false},
		"in a container, silent": {func(pid int, start int64) map[string]any {
			return map[string]any{"Pid": pid, "Start": start, "PidNS": "pid:[1]"}
		}, 31 * time.Second, false},
		"in a container, beating": {func(pid int, start int64) map[string]any {
			return map[string]any{"Pid": pid, "Start": start, "PidNS": "pid:[1]"}
		}, 0, true},
		"on another host, silent": {func(pid int, start int64) map[string]any {
			return map[string]any{"Pid": pid, "Start": start, "Host": "away"}
		}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, long)
			run, pid := w.detachLong()
			killPid(pid)
			w.Until("its end", func() bool { return len(w.executing()) == 0 })
			stranger := exec.Command("sleep", "600")
			w.Check(stranger.Start())
			t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
			w.forge(run, c.forge(stranger.Process.Pid, startOf(w, stranger.Process.Pid)))
			w.beat(run, c.beat)
			if c.lives {
				if s := w.show(run); s.Status != "running" || w.interruptions(run) != 0 {
					t.Errorf("it is %s", s.Status)
				}
				w.Must(3, "resume", run, "--detach", "--json").Says(t, `"code":"busy"`)
				cancel := w.Start("cancel", run)
				w.Until("the request", func() bool { return w.count(`SELECT cancel > 0 FROM runs`) == 1 || !cancel.Running() })
				if s := w.show(run); s.State != "executing" {
					t.Errorf("without its owner it is %s", s.State)
				}
				w.beat(run, 31*time.Second)
				if cancel.Must(0); w.show(run).State != "cancelled" {
					t.Errorf("when its owner is silent it is %s", w.show(run).State)
				}
			} else {
				w.Must(0, "ls")
				if s := w.show(run); s.Status != "interrupted" || w.interruptions(run) != 1 {
					t.Errorf("it is %s, found dead %d times", s.Status, w.interruptions(run))
				}
				w.Must(0, "cancel", run)
			}
			if err := stranger.Process.Signal(syscall.Signal(0)); err != nil || stateOf(w, stranger.Process.Pid) == "Z" {
				t.Errorf("the stranger was ended: %v", err)
			}
			w.Must(0, "verify", run)
		})
	}
}

// statOf are the fields of a process after its name.
func statOf(w *workspace, pid int) []string {
	_, rest, _ := strings.Cut(readProc(w, pid, "stat"), ") ")
	return strings.Fields(rest)
}

func stateOf(w *workspace, pid int) string { return statOf(w, pid)[0] }

func startOf(w *workspace, pid int) int64 {
	start, err := strconv.ParseInt(statOf(w, pid)[19], 10, 64)
	w.Check(err)
	return start
}

// A launched process that another epoch has followed exits with 3 and appends nothing.
func TestSupersededLaunch(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	run, pid := w.detachLong()
	w.hold(pid)
	w.sql(`UPDATE runs SET epoch = epoch + 1 WHERE id = ?`, run)
	before := w.show(run).HeadSeq
	w.Write("enough", "")
	w.Check(syscall.Kill(pid, syscall.SIGCONT))
	w.Until("its end", func() bool { return len(w.executing()) == 0 })
	if n := w.count(`SELECT json_extract(launch, '$.exit.code') FROM runs`); n != 3 {
		t.Errorf("it ended with %d\n%s", n, w.Read(".tipstaff/runs/"+run+"/runner.log"))
	}
	for _, r := range w.journal(run) {
		if r.Seq > before && r.Kind != "run.interrupted" {
			t.Errorf("it has appended %s", r.Kind)
		}
	}
	if len(w.leftOver(run)) > 0 {
		t.Errorf("left are %v", w.leftOver(run))
	}
}

// One folder is shared by a process in another pid namespace: neither takes the other's run
// for left, and neither signals what has the same pid here.
func TestSharedWithAnotherPidNamespace(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	p := w.Prepare("run", "long.yaml", "--unattended")
	name := p.Cmd.Path
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skipf("there is no unshare: %v", err)
	}
	p.Cmd.Path, p.Cmd.Args = unshare, []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", name, "run", "long.yaml", "--unattended"}
	p.Listen()
	p.Begin()
	w.Until("the program's line", func() bool { return w.happened("slow") || !p.Running() })
	if !p.Running() {
		if r := p.Wait(); strings.Contains(r.Err, "unshare") {
			t.Skipf("no pid namespace can be had: %s", r.Err)
		} else {
			t.Fatal(r)
		}
	}
	run := w.show("@").ID
	w.Must(0, "ls")
	w.Must(3, "resume", run, "--json").Says(t, `"code":"busy"`)
	if s := w.show(run); s.Status != "running" || w.interruptions(run) != 0 {
		t.Errorf("seen from outside it is %s", s.Status)
	}
	// From another namespace still, which has processes with the same small pids.
	from := func(args ...string) cmdtest.Result {
		p := w.Prepare(args...)
		p.Cmd.Path, p.Cmd.Args = unshare, append([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", name}, args...)
		p.Listen()
		p.Begin()
		return p.Wait()
	}
	if r := from("ls"); r.Code != 0 || !strings.Contains(r.Out, "running") {
		t.Errorf("seen from another namespace: %v", r)
	}
	w.Check(syscall.Kill(p.Cmd.Process.Pid, syscall.SIGKILL)) // with its child, the init of the namespace
	<-p.Ended
	if s := w.show(run); s.Status != "running" {
		t.Errorf("a moment after its death it is %s: nobody here can know", s.Status)
	}
	w.sql(`UPDATE runs SET heartbeat = ? WHERE id = ?`, time.Now().Add(-31*time.Second).UnixNano(), run)
	if r := from("ls"); r.Code != 0 || !strings.Contains(r.Out, "interrupted") {
		t.Errorf("when it was silent for long: %v", r)
	}
	w.Must(4, "resume", run, "--unattended").Says(t, "in_doubt")
	if n := w.interruptions(run); n != 1 {
		t.Errorf("it was found dead %d times", n)
	}
}

// A process whose disk is full waits for room and goes on; meanwhile nothing is launched.
func TestLaunchOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	dir := w.Path("disk")
	mountSmall(t, dir)
	w.Dir = dir
	w.Unpack(manifest)
	w.Unpack(long)
	run, pid := w.detachLong()
	fill(t, w.Path("ballast"))
	w.Write("enough", "")
	refused := w.Start("run", "long.yaml", "--detach", "--json")
	w.unanswered(run)
	if n := len(w.executing()); n != 1 {
		t.Errorf("%d processes drive runs", n)
	}
	refused.Kill()
	w.Check(os.Remove(w.Path("ballast")))
	w.Must(0, "watch", run)
	w.Until("its end", func() bool { return len(w.executing()) == 0 })
	if got := w.effects(); got != "after slow" || w.interruptions(run) != 0 {
		t.Errorf("effects %q of process %d, found dead %d times", got, pid, w.interruptions(run))
	}
	w.Must(0, "verify", run)
	if n := len(w.runs()); n != 1 {
		t.Errorf("there are %d runs", n)
	}
}

func readProc(w *workspace, pid int, name string) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	w.Check(err)
	return string(text)
}

// deafLong is the long plan with a program that minds no signal, and with another in a
// session of its own.
const deafLong = `-- long.yaml --
kind: plan
version: 1
root: {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", timeout: 5m, args: {argv: [sh, deaf.sh]}}
-- deaf.sh --
trap "" TERM HUP INT
setsid sh -c 'trap "" TERM HUP INT; touch born; while true; do sleep 0.01; done' > /dev/null 2>&1 < /dev/null &
while ! test -e born; do sleep 0.01; done
echo slow >> effects
while true; do sleep 0.01; done
`

// However a run in a process of its own is ended, it ends, with all that it has started:
// also if whoever cancels it is killed while it has time left, or its process is.
func TestNothingOutlivesALaunchedRun(t *testing.T) {
	t.Parallel()
	cancelled := func(w *workspace, run string) func() bool {
		store := w.openReadOnly()
		w.Cleanup(func() { _ = store.Close() })
		return func() bool {
			var state string
			w.Check(store.QueryRow(`SELECT state FROM runs WHERE id = ?`, run).Scan(&state))
			return state == "cancelled"
		}
	}
	abandon := func(w *workspace, run string) {
		p := w.Start("cancel", run, "--grace", "1s")
		w.Until("the request", func() bool { return w.count(`SELECT cancel > 0 FROM runs`) == 1 })
		if !p.Kill() {
			w.Errorf("the canceller was too fast: %v", p.Wait())
		}
	}
	for name, c := range map[string]struct {
		end   func(w *workspace, run string, pid int)
		state string
	}{
		"cancelled":       {func(w *workspace, run string, _ int) { w.Must(0, "cancel", run, "--grace", "1s") }, "cancelled"},
		"cancelled, hard": {func(w *workspace, run string, _ int) { w.Must(0, "cancel", run, "--hard") }, "cancelled"},
		"its canceller is killed": {func(w *workspace, run string, _ int) {
			abandon(w, run)
			w.Until("the end that nobody waits for", cancelled(w, run))
		}, "cancelled"},
		"its canceller is killed, and it stands still": {func(w *workspace, run string, pid int) {
			w.hold(pid)
			abandon(w, run)
			ended := cancelled(w, run)
			w.Until("somebody who comes by to end it", func() bool { w.Must(0, "ls"); return ended() })
		}, "cancelled"},
		"its canceller is killed, then it is": {func(w *workspace, run string, pid int) {
			abandon(w, run)
			killPid(pid)
			w.Must(0, "ls")
		}, "cancelled"},
		"killed": {func(w *workspace, run string, pid int) {
			killPid(pid)
			w.Until("its end", func() bool { return len(w.executing()) == 0 })
			w.Must(0, "ls")
		}, "executing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, deafLong)
			run, pid := w.detachLong()
			if len(w.leftOver(run)) < 3 {
				t.Skip("the processes of a run cannot be seen here")
			}
			c.end(w, run, pid)
			if s := w.show(run); s.State != c.state {
				t.Errorf("it is %s", s.State)
			}
			w.Until("its processes to end", func() bool { return len(w.leftOver(run)) == 0 })
			w.Must(0, "verify", run, "--open")
		})
	}
}

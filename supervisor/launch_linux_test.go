package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/supervisor/reap"
)

// launch starts a shell script as the process of a run.
func launch(t *testing.T, l *Launcher, script string) (flow.Owner, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "runner.log")
	p, err := l.Launch(context.Background(), tipstaff.LaunchRequest{Run: "R", Token: t.Name(), Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = l.Stop(context.Background(), p.Owner, "R", 0)
	})
	return p.Owner, log
}

func says(t *testing.T, log, text string) string {
	t.Helper()
	said := ""
	eventually(t, log+" says "+text, func() bool {
		b, _ := os.ReadFile(log)
		said = string(b)
		return strings.Contains(said, text)
	})
	return said
}

func TestLaunchedProcessIsOnItsOwn(t *testing.T) {
	inherited, err := os.Open("/etc/passwd") // as a shell may let us inherit it
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	fd, err := syscall.Dup(int(inherited.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	t.Setenv("TIPSTAFF_RUN_ID", "outer")
	l := new(Launcher)
	p, log := launch(t, l, `readlink /proc/self/fd/0; for fd in 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do readlink /proc/$$/fd/$fd; done; echo "run $TIPSTAFF_RUN_ID $TIPSTAFF_LAUNCH home $HOME"; echo oops >&2; exec sleep 300`)
	said := says(t, log, "oops")
	first, rest, _ := strings.Cut(said, "\n")
	if !strings.HasPrefix(first, "--- launch "+t.Name()) || rest != "/dev/null\nrun R "+t.Name()+" home "+os.Getenv("HOME")+"\noops\n" {
		t.Errorf("it said %q", said)
	}
	group, err := syscall.Getpgid(p.Pid)
	if s, _ := reap.StatOf(p.Pid); err != nil || s.Session != p.Pid || group != p.Pid || s.Start != p.Start || p.Launch != t.Name() || p.Kind != "supervisor" {
		t.Errorf("session %d, group %d of %+v, %v", s.Session, group, p, err)
	}
	if !Alive(p, time.Time{}, time.Now()) {
		t.Error("it counts as dead")
	}
	// We have not inherited it: what is looked for among our children leaves it alone.
	if _, err := Sweep(context.Background(), map[string]string{"other": "R"}); err != nil || !running(p.Pid) {
		t.Errorf("it was swept, %v", err)
	}
	if err := syscall.Kill(p.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit, known := l.Probe(context.Background(), p); !known || exit != (flow.LaunchExit{Code: 137, Signal: "SIGKILL"}) || exit.Reason() != "signal:KILL" {
		t.Errorf("%+v, %v", exit, known)
	}
	if _, err := l.Launch(context.Background(), tipstaff.LaunchRequest{Run: "R", Token: "t", Argv: []string{"/no/such/program"}, Log: log}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestLaunchedProcessStops(t *testing.T) {
	const deafChild = `setsid env -i /bin/sh -c 'trap "" TERM; echo $$ born; while :; do sleep 0.1; done' & `
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		want   tipstaff.Stopped
	}{
		"it listens, and its group":   {`(trap 'echo asked; exit' TERM; echo born; while :; do sleep 0.02; done) & trap 'wait; exit 7' TERM; wait`, time.Minute, tipstaff.Stopped{}},
		"it is deaf":                  {`trap "" TERM; ` + deafChild + `while :; do sleep 0.1; done`, 200 * time.Millisecond, tipstaff.Stopped{Forced: true, Swept: 1}},
		"there is no grace":           {`trap 'exit 7' TERM; ` + deafChild + `while :; do sleep 0.1; done`, 0, tipstaff.Stopped{Forced: true, Swept: 1}},
		"what it left behind is deaf": {`trap 'exit 7' TERM; setsid sh -c 'trap "" TERM; echo $$ born; while :; do sleep 0.1; done' & while :; do sleep 0.02; done`, time.Minute, tipstaff.Stopped{Swept: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := new(Launcher)
			p, log := launch(t, l, c.script)
			says(t, log, "born")
			got, err := l.Stop(context.Background(), p, "R", c.grace)
			if err != nil || got.Forced != c.want.Forced || got.Swept < c.want.Swept {
				t.Errorf("%+v, %v", got, err)
			}
			if running(p.Pid) {
				t.Error("it lives")
			}
			said := says(t, log, "born")
			for line := range strings.Lines(said) {
				var pid int
				if n, _ := fmt.Sscan(line, &pid); n == 1 && running(pid) {
					t.Errorf("process %d lives", pid)
				}
			}
			if c.want == (tipstaff.Stopped{}) && !strings.Contains(said, "asked") {
				t.Errorf("its group was not asked: %q", said)
			}
			if again, err := l.Stop(context.Background(), p, "R", time.Minute); err != nil || again != (tipstaff.Stopped{}) {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

// A process is known by more than its pid.
func TestStrangersAreNotStopped(t *testing.T) {
	l := new(Launcher)
	p, log := launch(t, l, `trap 'echo asked' TERM; echo born; while :; do sleep 0.02; done`)
	says(t, log, "born")
	for name, c := range map[string]struct {
		forge   func(*flow.Owner)
		refused bool
	}{
		"a pid that was given again": {func(o *flow.Owner) { o.Start-- }, false},
		"another boot":               {func(o *flow.Owner) { o.Boot = "before" }, false},
		"another namespace":          {func(o *flow.Owner) { o.PidNS = "pid:[1]" }, true},
		"another host":               {func(o *flow.Owner) { o.Host = "elsewhere" }, true},
	} {
		o := p
		o.Launch = "another"
		c.forge(&o)
		got, err := l.Stop(context.Background(), o, "R", time.Millisecond)
		if got != (tipstaff.Stopped{}) || errors.Is(err, errors.ErrUnsupported) != c.refused || !c.refused && err != nil || !running(p.Pid) {
			t.Errorf("%s: %+v, %v; it runs: %v", name, got, err, running(p.Pid))
		}
		now := time.Now()
		if alive := Alive(o, now.Add(-time.Minute), now); alive {
			t.Errorf("%s: it counts as alive", name)
		}
		if alive := Alive(o, now, now); alive != c.refused { // what cannot be looked at is believed while it beats
			t.Errorf("%s: with a heartbeat it counts as alive: %v", name, alive)
		}
	}
	if b, _ := os.ReadFile(log); strings.Contains(string(b), "asked") {
		t.Errorf("the stranger got a signal: %s", b)
	}
}

func TestLogIsPutAside(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runner.log")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, maxLog-1); err != nil {
		t.Fatal(err)
	}
	f, err := openLog(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("!"); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if _, err := os.Stat(name + ".1"); err == nil {
		t.Error("it was put aside too early")
	}
	if f, err = openLog(name); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	now, err := os.Stat(name)
	before, err2 := os.Stat(name + ".1")
	if err != nil || err2 != nil || now.Size() != 0 || before.Size() != maxLog || now.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; %v, %v", now, err, before, err2)
	}
}

// logger writes its log, which becomes too large with the first line.
func logger() {
	log := OwnLog("runner.log")
	_, _ = fmt.Fprintln(log, "one")
	_, _ = fmt.Fprintln(log, "two")
	_, _ = fmt.Fprintln(os.Stderr, "three")
	if OwnLog("another.log") != nil {
		_, _ = fmt.Fprintln(log, "it takes any file for its log")
	}
}

func TestProcessPutsItsLogAside(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runner.log")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(maxLog - 1); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), roleVar+"=logger"), f, f
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(name + ".1")
	if err != nil || before.Size() != maxLog+3 {
		t.Errorf("%v, %v", before, err)
	}
	if said, err := os.ReadFile(name); err != nil || string(said) != "two\nthree\n" {
		t.Errorf("%q, %v", said, err)
	}
}

package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/supervisor/reap"
)

// hidesDeaf starts a process that leaves no trace of where it is from and does not mind
// being asked to end, and says its pid.
const hidesDeaf = `setsid env -i /bin/sh -c 'trap "" TERM; echo $$; exec >/dev/null 2>&1; while :; do /bin/sleep 0.1; done' & `

// reaped is a shell script with a reaper.
func reaped(text string, env ...string) Command {
	c := script(text)
	c.Env, c.Reap = append(c.Env, env...), true
	return c
}

// spawnScript starts one that begins by saying a number.
func spawnScript(t *testing.T, c Command) (p *Process, said int) {
	t.Helper()
	p, err := Spawn(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if said, err = strconv.Atoi(strings.TrimSpace(line)); err != nil || !running(said) {
		t.Fatalf("it said %q", line)
	}
	return p, said
}

// eventually waits for something that happens by itself, within 5 seconds.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func reaperOf(t *testing.T, p *Process) int {
	t.Helper()
	s, known := reap.StatOf(p.Identity().Pid)
	if !known {
		t.Fatal("the program is not there")
	}
	return s.Parent
}

func TestExitsAreToldApart(t *testing.T) {
	for text, want := range map[string]Exit{
		"exit 0": {}, "exit 3": {Code: 3}, "exit 143": {Code: 143}, "exit 144": {Code: 144},
		"kill -TERM $$": {Signal: "SIGTERM"}, "kill -KILL $$": {Signal: "SIGKILL"},
	} {
		for _, reap := range []bool{false, true} {
			c := script(text)
			c.Reap = reap
			f, err := Output(context.Background(), c, nil, 100)
			if err != nil || f.Exit != want {
				t.Errorf("%s, reaped %v: %+v, %v, want %+v", text, reap, f.Exit, err, want)
			}
		}
	}
	if got := [2]int{Exit{Code: 143}.Status(), Exit{Signal: "SIGTERM"}.Status()}; got != [2]int{143, 143} {
		t.Errorf("shells would tell %v", got)
	}
	if got := (Exit{Signal: "SIGKILL"}).String(); got != "signal: killed" {
		t.Errorf("it is told as %q", got)
	}
}

func TestReapedProgramIsItself(t *testing.T) {
	p, err := Spawn(reaped(`echo $$ $A; read x; echo "got $x in $PWD"; echo oops >&2; exit 3`, "A=b"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	id := p.Identity() // before anything was read
	if start, alive := startTime(id.Pid); !alive || start != id.Start || id.Boot == "" || id.PidNS == "" || id.Spawn == "" {
		t.Errorf("it is %+v", id)
	}
	environ, err := os.ReadFile(procFile(id.Pid, "environ"))
	if err != nil || carried(environ, spawnMarker) != id.Spawn {
		t.Errorf("it carries %q, %v", environ, err)
	}
	if s, _ := reap.StatOf(id.Pid); s.Session != id.Pid {
		t.Errorf("its session is that of %d", s.Session)
	}
	if p.Containment() != Containment() {
		t.Errorf("it is contained by %s, not by %s", p.Containment(), Containment())
	}
	lines := bufio.NewReader(p.Stdout())
	if first, err := lines.ReadString('\n'); err != nil || first != fmt.Sprintln(id.Pid, "b") {
		t.Errorf("got %q, %v", first, err)
	}
	files, err := os.ReadDir(procFile(id.Pid, "fd"))
	if err != nil || len(files) != 3 {
		t.Errorf("it has %d files open, %v", len(files), err)
	}
	for _, f := range files {
		if to, _ := os.Readlink(procFile(id.Pid, "fd/"+f.Name())); !strings.HasPrefix(to, "pipe:") || f.Name() > "2" {
			t.Errorf("it has %s open, as %s", to, f.Name())
		}
	}
	if _, err := io.WriteString(p.Stdin(), "it\n"); err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(lines)
	said, _ := io.ReadAll(p.Stderr())
	if string(out) != "got it in /\n" || string(said) != "oops\n" {
		t.Errorf("got %q, %q", out, said)
	}
	if exit := p.Wait(); exit.Code != 3 || p.State() != "exit status 3" || len(p.Leftover()) > 0 || len(p.Survivors()) > 0 {
		t.Errorf("it ended by %+v, leaving %v, %v", exit, p.Leftover(), p.Survivors())
	}
	if id.Cgroup != "" {
		if _, err := os.Stat(id.Cgroup); err == nil {
			t.Error("its cgroup is left")
		}
	}
}

func TestReapedProgramThatCannotBeStarted(t *testing.T) {
	before := openFiles(t)
	for path, want := range map[string]syscall.Errno{"/no/such/program": syscall.ENOENT, "/etc/passwd": syscall.EACCES} {
		_, err := Spawn(Command{Path: path, Args: []string{"x"}, Reap: true})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Spawn(Command{Path: "/bin/true", Args: []string{"x"}, Dir: "/no/such/folder", Reap: true}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

// What hides is ended with the program that started it, and told.
func TestReapedProgramLeavesNothing(t *testing.T) {
	t.Parallel()
	p, hidden := spawnScript(t, reaped(hidesDeaf+"read x"))
	_ = p.Stdin().Close()
	began := time.Now()
	if exit := p.Wait(); exit != (Exit{Code: 1}) {
		t.Errorf("it ended by %+v", exit)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("that took %v", took)
	}
	if running(hidden) || !slices.Contains(p.Leftover(), Left{hidden, "sh"}) || len(p.Survivors()) > 0 {
		t.Errorf("process %d: %v; left %v, survivors %v", hidden, running(hidden), p.Leftover(), p.Survivors())
	}
}

// One that holds the pipe open does not keep readers waiting.
func TestGrandchildThatHoldsThePipe(t *testing.T) {
	t.Parallel()
	began := time.Now()
	f, err := Output(context.Background(), reaped("echo here; sleep 300 & exit 0"), nil, 100)
	if err != nil || string(f.Stdout) != "here\n" || f.Exit.Code != 0 || len(f.Leftover) != 1 || f.Leftover[0].Comm != "sleep" && f.Leftover[0].Comm != "sh" {
		t.Errorf("%+v, %v", f, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("that took %v", took)
	}
}

// Only the program is asked to end; after the grace everything is killed.
func TestStopAsksTheProgramAlone(t *testing.T) {
	t.Parallel()
	asked := filepath.Join(t.TempDir(), "asked")
	deaf := `trap "touch ` + asked + `" TERM; echo $$; while :; do sleep 0.05; done`
	p, child := spawnScript(t, reaped(`trap "echo deaf" TERM; sh -c '`+deaf+`' & while :; do sleep 0.05; done`))
	began := time.Now()
	p.Stop(300 * time.Millisecond)
	exit := p.Wait()
	if took := time.Since(began); took < 300*time.Millisecond || took > 6300*time.Millisecond {
		t.Errorf("that took %v", took)
	}
	if _, err := os.Stat(asked); err == nil {
		t.Error("its child was asked, too")
	}
	if exit.Signal != "SIGKILL" || running(child) {
		t.Errorf("it ended by %+v, its child runs: %v", exit, running(child))
	}
}

func TestStopLetsAProgramEndItself(t *testing.T) {
	p, _ := spawnScript(t, reaped(`trap "exit 7" TERM; echo $$; while :; do sleep 0.02; done`))
	began := time.Now()
	p.Stop(time.Minute)
	if exit := p.Wait(); exit.Code != 7 || time.Since(began) > 20*time.Second {
		t.Errorf("it ended by %+v after %v", exit, time.Since(began))
	}
}

func TestStopEndsTheDeafAndTheHidden(t *testing.T) {
	t.Parallel()
	p, hidden := spawnScript(t, reaped(`trap "" TERM; `+hidesDeaf+`while :; do sleep 0.1; done`))
	began := time.Now()
	p.Stop(100 * time.Millisecond)
	if exit := p.Wait(); exit.Signal != "SIGKILL" {
		t.Errorf("it ended by %+v", exit)
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("that took %v", took)
	}
	if running(hidden) || !slices.Contains(p.Leftover(), Left{hidden, "sh"}) {
		t.Errorf("process %d runs: %v; left %v", hidden, running(hidden), p.Leftover())
	}
}

func TestOutputEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, reap := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(context.Background())
		c := script("echo up; sleep 300")
		c.Reap = reap
		why := errors.New("enough")
		time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
		began := time.Now()
		f, err := Output(ctx, c, nil, 100)
		if !errors.Is(err, why) || string(f.Stdout) != "up\n" || f.Exit.Signal != "SIGTERM" {
			t.Errorf("reaped %v: %+v, %v", reap, f, err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("that took %v", took)
		}
		if _, err := Output(ctx, c, nil, 100); !errors.Is(err, why) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	f, err := Output(context.Background(), script("cat; echo 12345678 >&2"), []byte("1234567"), 7)
	if err != nil || string(f.Stdout) != "1234567" || string(f.Stderr) != "1234567" || !f.Cut {
		t.Errorf("%q %q %v, %v", f.Stdout, f.Stderr, f.Cut, err)
	}
	if f, err = Output(context.Background(), script("cat; readlink /proc/self/fd/0"), nil, 100); err != nil || string(f.Stdout) != "/dev/null\n" || f.Cut {
		t.Errorf("%q %v, %v", f.Stdout, f.Cut, err)
	}
}

func TestOutputEndKeepsTheEnd(t *testing.T) {
	for _, c := range []struct {
		script, want string
		cut          bool
	}{{"printf 1234", "1234", false}, {"printf 12345", "12345", false}, {"printf 12345678", "45678", true}, {"head -c 100000 /dev/zero; printf end", "\x00\x00end", true}} {
		f, err := OutputEnd(context.Background(), script("{ "+c.script+"; }; { "+c.script+"; } >&2"), 5)
		if err != nil || string(f.Stdout) != c.want || string(f.Stderr) != c.want || f.Cut != c.cut {
			t.Errorf("%s: %q %q %v, %v", c.script, f.Stdout, f.Stderr, f.Cut, err)
		}
	}
}

// started is what reapSpawner says.
type started struct {
	Identity Identity
	Reaper   int
	Hidden   int
	Marked   int
}

// reapSpawner starts a program that hides another and has one in a session of its own,
// says who they are, and stays.
func reapSpawner() {
	if os.Getenv("NO_CGROUP") != "" {
		ownCgroup = func() string { return "" }
	}
	p, err := Spawn(reaped(`trap "" TERM; `+hidesDeaf+`setsid sh -c 'trap "" TERM; echo $$; exec >/dev/null 2>&1; while :; do sleep 0.1; done' & while :; do sleep 0.1; done`, Markers("run", "launch-"+os.Getenv("LAUNCH"))...))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	s := started{Identity: p.Identity()}
	program, _ := reap.StatOf(s.Identity.Pid)
	s.Reaper = program.Parent
	lines := bufio.NewReader(p.Stdout())
	for range 2 {
		line, _ := lines.ReadString('\n')
		pid, _ := strconv.Atoi(strings.TrimSpace(line))
		if environ, _ := os.ReadFile(procFile(pid, "environ")); carried(environ, spawnMarker) != "" {
			s.Marked = pid
		} else {
			s.Hidden = pid
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(s)
	linger()
}

func startSpawner(t *testing.T, env ...string) (*exec.Cmd, started) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, roleVar+"=reap spawner", "LAUNCH="+t.Name())...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var s started
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || json.Unmarshal([]byte(line), &s) != nil || !running(s.Hidden) || !running(s.Marked) || !running(s.Reaper) {
		t.Fatalf("it said %q, %v", line, err)
	}
	return cmd, s
}

func (s started) running() (all []string) {
	for name, pid := range map[string]int{"the program": s.Identity.Pid, "the reaper": s.Reaper, "the hidden one": s.Hidden, "the marked one": s.Marked} {
		if running(pid) {
			all = append(all, name)
		}
	}
	return all
}

// Killed, we leave nothing that has a reaper, though nobody is there to end it.
func TestNothingReapedOutlivesUs(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{nil, {"NO_CGROUP=1"}} {
		cmd, s := startSpawner(t, env...)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for len(s.running()) > 0 {
			if time.Since(began) > 5*time.Second {
				t.Fatalf("with %q: still there: %v", env, s.running())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// Killed together with the reaper, the rest is found by what was stored.
func TestSweepIdentityAfterTheReaperWasKilled(t *testing.T) {
	t.Parallel()
	cmd, s := startSpawner(t)
	killBoth(t, cmd, s)
	if ended, err := SweepIdentity(context.Background(), s.Identity); err != nil || ended == 0 {
		t.Errorf("it ended %d, %v", ended, err)
	}
	want := []string(nil)
	if s.Identity.Cgroup == "" {
		want = []string{"the hidden one"} // nothing tells whose it is
		_ = syscall.Kill(s.Hidden, syscall.SIGKILL)
	}
	if left := s.running(); !slices.Equal(left, want) {
		t.Errorf("still there: %v", left)
	}
	if ended, err := SweepIdentity(context.Background(), s.Identity); err != nil || ended != 0 {
		t.Errorf("a second one ended %d, %v", ended, err)
	}
}

// The sweep by launches finds the cgroups of servers, whose identities nobody stores.
func TestSweepAfterTheReaperWasKilled(t *testing.T) {
	t.Parallel()
	cmd, s := startSpawner(t)
	killBoth(t, cmd, s)
	if s.Identity.Cgroup == "" {
		defer func() { _ = syscall.Kill(s.Hidden, syscall.SIGKILL) }()
	}
	if ended := sweep(t, "run", "launch-"+t.Name()); ended == 0 {
		t.Error("it ended none")
	}
	for _, left := range s.running() {
		if left != "the hidden one" || s.Identity.Cgroup != "" {
			t.Errorf("%s is still there", left)
		}
	}
}

func killBoth(t *testing.T, cmd *exec.Cmd, s started) {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGSTOP) // so that it does not notice
	var stopped syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &stopped, syscall.WUNTRACED, nil); err != nil || !stopped.Stopped() {
		t.Fatalf("it was to stop: %v, %v", stopped, err)
	}
	_ = syscall.Kill(s.Reaper, syscall.SIGKILL)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the program outlives its reaper", func() bool { return !running(s.Identity.Pid) && !running(s.Reaper) })
	if !running(s.Hidden) || !running(s.Marked) {
		t.Fatal("they ended by themselves: nothing is tested")
	}
}

// A living reaper knows what is hidden: a sweep of its program ends that first.
func TestSweepIdentityBeforeTheReaperHasEnded(t *testing.T) {
	t.Parallel()
	_, s := startSpawner(t, "NO_CGROUP=1")
	if ended, err := SweepIdentity(context.Background(), s.Identity); err != nil || ended < 3 {
		t.Errorf("it ended %d, %v", ended, err)
	}
	if left := s.running(); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
}

func TestSweepIdentitySparesOthers(t *testing.T) {
	_, pid := start(t, "deaf")
	began, _ := startTime(pid)
	self := Self("", "")
	right := Identity{Pid: pid, Start: began, Boot: self.Boot, PidNS: self.PidNS}
	for name, change := range map[string]func(*Identity){
		"another start":     func(id *Identity) { id.Start-- },
		"no start":          func(id *Identity) { id.Start = 0 },
		"another boot":      func(id *Identity) { id.Boot = "another" },
		"another namespace": func(id *Identity) { id.PidNS = "pid:[1]" },
		"a foreign cgroup":  func(id *Identity) { id.Pid, id.Spawn, id.Cgroup = 0, "x", "/sys/fs/cgroup" },
	} {
		id := right
		change(&id)
		if ended, err := SweepIdentity(context.Background(), id); err != nil || ended != 0 || !running(pid) {
			t.Errorf("%s: it ended %d, %v", name, ended, err)
		}
	}
	if ended, err := SweepIdentity(context.Background(), right); err != nil || ended != 1 || running(pid) {
		t.Errorf("the right one: it ended %d, %v", ended, err)
	}
}

// When the reaper is killed, its program ends, and what that has started is found as
// far as it can be.
func TestKilledReaper(t *testing.T) {
	t.Parallel()
	p, child := spawnScript(t, reaped(`setsid sh -c 'trap "" TERM; echo $$; exec >/dev/null 2>&1; while :; do sleep 0.1; done' & while :; do sleep 0.1; done`))
	if err := syscall.Kill(reaperOf(t, p), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := p.Wait(); exit.Signal != "SIGKILL" {
		t.Errorf("it ended by %+v", exit)
	}
	if running(child) || running(p.Identity().Pid) {
		t.Error("something is left")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Others cannot ask a reaper to go.
func TestReaperStays(t *testing.T) {
	t.Parallel()
	p, hidden := spawnScript(t, reaped(hidesDeaf+"read x"))
	reaper := reaperOf(t, p)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(reaper, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil || running(hidden) || p.Exit() != (Exit{Code: 1}) {
		t.Errorf("%v, %v, %+v", err, running(hidden), p.Exit())
	}
}

// A program may stop its reaper: that is ended with it.
func TestStoppedReaper(t *testing.T) {
	t.Parallel()
	p, hidden := spawnScript(t, reaped(`trap "" TERM; `+hidesDeaf+`while :; do sleep 0.1; done`))
	reaper := reaperOf(t, p)
	if err := syscall.Kill(reaper, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.Stop(0)
	p.Wait()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("that took %v", took)
	}
	for _, pid := range []int{hidden, reaper, p.Identity().Pid} {
		if running(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// What the program made of its cgroup is removed with it.
func TestNestedCgroup(t *testing.T) {
	t.Parallel()
	if Containment() != levelCgroup {
		t.Skip("no cgroup can be made here")
	}
	p, inner := spawnScript(t, reaped(`dir=$(sed -n "s|^0::||p" /proc/self/cgroup); dir=$(echo "$OWN"/$(basename "$dir")); mkdir $dir/inner && sh -c 'echo 0 > '$dir'/inner/cgroup.procs; trap "" TERM; echo $$; exec >/dev/null; while :; do sleep 0.1; done' & read x`, "OWN="+ownCgroup()))
	if in := cgroupOf(strconv.Itoa(inner)); in != filepath.Join(p.Identity().Cgroup, "inner") {
		t.Fatalf("it is in %s", in)
	}
	if err := p.Close(); err != nil || running(inner) {
		t.Errorf("%v, it runs: %v", err, running(inner))
	}
	if _, err := os.Stat(p.Identity().Cgroup); err == nil {
		t.Error("the cgroup is left")
	}
}

func TestManyAtOnce(t *testing.T) {
	if f, err := Output(context.Background(), reaped("exit 0"), nil, 0); err != nil || f.Exit.Code != 0 { // what is opened once is open
		t.Fatal(f, err)
	}
	before := openFiles(t)
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			f, err := Output(context.Background(), reaped(fmt.Sprintf("sleep 0.1 & echo %d; exit %d", n, n)), nil, 100)
			if err != nil || f.Exit != (Exit{Code: n}) || string(f.Stdout) != fmt.Sprintln(n) {
				t.Errorf("the %dth: %+v, %v", n, f, err)
			}
		})
	}
	all.Wait()
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, %d were", after, before)
	}
	self := reap.Process{Pid: os.Getpid()}
	self.Start, _ = startTime(self.Pid)
	for _, p := range reap.Below(0, self) {
		t.Errorf("process %d (%s) is left", p.Pid, reap.Comm(p.Pid))
	}
	if tasks, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err == nil && len(tasks) > 0 {
		t.Errorf("zombies: %s", tasks)
	}
	if own := ownCgroup(); own != "" {
		left, err := filepath.Glob(filepath.Join(own, cgroupName("", "")+"*"))
		if err != nil || len(left) > 0 {
			t.Errorf("cgroups are left: %q, %v", left, err)
		}
	}
}

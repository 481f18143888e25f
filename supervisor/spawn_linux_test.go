package supervisor

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// spawn starts a helper and reads the line with which it says that it is there.
func spawn(t *testing.T, role string, env ...string) (p *Process, said string) {
	t.Helper()
	p, err := Spawn(Command{Path: "/proc/self/exe", Args: []string{"helper"}, Env: append(env, roleVar+"="+role)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	said, err = bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(said)
}

func TestSpawnedProgramReadsAndWrites(t *testing.T) {
	p, err := Spawn(Command{Path: "/bin/sh", Args: []string{"sh", "-c", `read x; echo "got $x in $PWD with $A"; echo oops >&2; exit 3`}, Dir: "/", Env: []string{"A=b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := io.WriteString(p.Stdin(), "it\n"); err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(p.Stdout())
	said, _ := io.ReadAll(p.Stderr())
	<-p.Exited()
	if string(out) != "got it in / with b\n" || string(said) != "oops\n" || p.State() != "exit status 3" {
		t.Errorf("got %q, %q, %s", out, said, p.State())
	}
}

func TestProgramThatCannotBeStarted(t *testing.T) {
	before := openFiles(t)
	if _, err := Spawn(Command{Path: "/no/such/program", Args: []string{"x"}}); err == nil {
		t.Error("it was started")
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A program in a session of its own that ends when its input does is given the
// time to.
func TestCloseLetsAProgramEndByItself(t *testing.T) {
	last := filepath.Join(t.TempDir(), "last") // Close does not wait for who reads what it prints
	p, err := Spawn(Command{Path: "/bin/sh", Args: []string{"sh", "-c", "cat; sleep 0.2; echo bye >$0", last}})
	if err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(p.cmd.Process.Pid); err != nil || sid != p.cmd.Process.Pid {
		t.Errorf("its session is %d (%v)", sid, err)
	}
	if err := p.Close(); err != nil || p.State() != "exit status 0" {
		t.Errorf("got %v, %s", err, p.State())
	}
	if text, err := os.ReadFile(last); string(text) != "bye\n" {
		t.Errorf("it wrote %q (%v)", text, err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// A program that listens to nothing is killed in time, and with it what it started
// in another session.
func TestCloseEndsTheDeaf(t *testing.T) {
	for _, role := range []string{"deaf", "parent", "breeder"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			p, said := spawn(t, role)
			pid, err := strconv.Atoi(said)
			if err != nil || !running(pid) {
				t.Fatalf("it said %q", said)
			}
			began := time.Now()
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			if running(pid) {
				t.Errorf("%d is still there", pid)
			}
			if n := left(t, bySpawn(p.identity.Spawn)); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

// What was started with an empty environment carries no marker: its group is what it is
// found by, whether the program ends by itself or listens to nothing.
func TestTheGroupOfAProgramEndsWithIt(t *testing.T) {
	for name, script := range map[string]string{
		"deaf":      `trap "" TERM; env -i sleep 60 & echo $!; exec sleep 60`,
		"by itself": `env -i sleep 60 & echo $!`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Spawn(Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ()})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			said, err := bufio.NewReader(p.Stdout()).ReadString('\n')
			pid, bad := strconv.Atoi(strings.TrimSpace(said))
			if err != nil || bad != nil {
				t.Fatalf("it said %q: %v", said, err)
			}
			if name == "deaf" {
				p.Stop(0)
			}
			for deadline := time.Now().Add(2 * time.Second); running(pid); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					t.Fatalf("process %d of its group has outlived it", pid)
				}
			}
		})
	}
}

// When a program ends by itself, what it started ends with it, at once.
func TestNothingOutlivesTheProgram(t *testing.T) {
	p, said := spawn(t, "parent")
	pid, err := strconv.Atoi(said)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.gone
	if running(pid) || p.State() != "signal: killed" {
		t.Errorf("%d is still there: %v; %s", pid, running(pid), p.State())
	}
}

// A process that was killed and is still giving back its memory has no environment
// any more: it is waited for all the same.
func TestCloseWaitsForTheDying(t *testing.T) {
	p, said := spawn(t, "fat parent")
	pid, err := strconv.Atoi(said)
	if err != nil || !running(pid) {
		t.Fatalf("it said %q", said)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if running(pid) {
		t.Errorf("%d is still there", pid)
	}
}

// Programs of other spawns, also of the same run, are left alone.
func TestCloseLeavesOthersAlone(t *testing.T) {
	markers := Markers("run", "launch")
	one, _ := spawn(t, "deaf", markers...)
	_, said := spawn(t, "deaf", markers...)
	one.signal(syscall.SIGKILL, true)
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if pid, err := strconv.Atoi(said); err != nil || !running(pid) {
		t.Errorf("%s is gone", said)
	}
}

// When we are killed, the program is too, although nobody is there to do it.
func TestProgramEndsWithUs(t *testing.T) {
	cmd, pid := start(t, "spawner")
	if !running(pid) {
		t.Fatalf("%d is not there", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); running(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d is still there", pid)
		}
	}
}

// spawner spawns a deaf program, says its pid, and stays.
func spawner() {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, roleVar+"=") })
	p, err := Spawn(Command{Path: "/proc/self/exe", Args: []string{"helper"}, Env: append(env, roleVar+"=deaf")})
	if err != nil {
		os.Exit(1)
	}
	_, _ = io.CopyN(os.Stdout, p.Stdout(), 64) // it ends after its one line
	_ = os.Stdout.Close()
	linger()
}

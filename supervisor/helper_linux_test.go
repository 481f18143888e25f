package supervisor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is its own helper process: TestMain looks for a role first.
const roleVar = "SUPERVISOR_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		os.Exit(m.Run())
	case "deaf":
		deaf()
	case "parent":
		parent()
	case "breeder":
		breeder()
	case "sweeper":
		sweeper()
	case "adopter":
		adopter()
	case "spawner":
		spawner()
	case "reap spawner":
		reapSpawner()
	case "dialer":
		dialer()
	case "member":
		member()
	case "fat":
		fat()
	case "concealer":
		concealer()
	case "logger":
		logger()
	case "fat parent":
		fatParent()
	}
}

// deaf ignores what asks it to end, says that it is there, and stays.
func deaf() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	fmt.Println(os.Getpid())
	_ = os.Stdout.Close()
	linger()
}

// parent starts a deaf process in a session of its own, says its pid, and stays.
func parent() {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"=deaf")
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		os.Exit(1)
	}
	_ = os.Stdout.Close()
	linger()
}

// fat is deaf and holds so much memory that the kernel takes a while to give it
// back when the process ends.
func fat() {
	memory := make([]byte, 1<<28)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	deaf()
	runtime.KeepAlive(memory)
}

// fatParent starts a fat process in its own group, and ends when it is told to.
func fatParent() {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"=fat")
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		os.Exit(1)
	}
	_ = os.Stdout.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// breeder starts a process again and again, so that a sweep that looks only once
// leaves some.
func breeder() {
	fmt.Println(os.Getpid())
	_ = os.Stdout.Close()
	for range 50 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), roleVar+"=deaf")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
		time.Sleep(2 * time.Millisecond) // the pace of the breeding, not a wait
	}
	linger()
}

// sweeper sweeps the very launch it belongs to, and says how many it ended.
func sweeper() {
	ended, err := Sweep(context.Background(), map[string]string{os.Getenv("TIPSTAFF_LAUNCH"): os.Getenv("TIPSTAFF_RUN_ID")})
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(ended)
	os.Exit(0)
}

// linger keeps a helper alive for longer than any test, and not for ever if the
// test that started it has crashed.
func linger() {
	time.Sleep(time.Minute)
	os.Exit(0)
}

// start runs a helper with these markers and returns it with the number it says,
// as a rule a pid.
func start(t *testing.T, role string, markers ...string) (cmd *exec.Cmd, said int) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), markers...)
	cmd.Env = append(cmd.Env, roleVar+"="+role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	said, err = strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("helper %s said %q", role, line)
	}
	return cmd, said
}

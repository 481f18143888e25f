package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/supervisor/reap"
)

func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

func pidNamespace() string {
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return ns
}

// widen makes a pipe larger. A user's pipes may have so much room together and no more:
// then it stays as it is.
func widen(pipe *os.File) {
	const size = 1 << 20
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
	}
}

func exists(pid int) bool {
	_, running := startTime(pid)
	return running
}

// startTime is when the process began, in the kernel's ticks since boot. One that
// has ended does not run, even if it was not waited for yet.
func startTime(pid int) (ticks int64, running bool) {
	s, known := reap.StatOf(pid)
	if !known || s.Ended {
		return 0, false
	}
	return s.Start, true
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// Conceal keeps other processes of our user, the children of runs among them, from
// reading our environment and memory, where credentials are. It leaves a process that
// belongs to a run itself as it is: that must be found by its environment, in which
// there are no more of them than its run has let through. Root may look at anybody.
func Conceal() {
	if os.Getenv(strings.TrimSuffix(launchMarker, "=")) == "" {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // it fails on no kernel that we run on
	}
}

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// wait returns when the program has ended, and its group with it. The rest of the
// group is killed while the program's pid, which names the group, is still its
// own, and only then the pid is given back.
func (p *Process) wait() error {
	pid := p.cmd.Process.Pid
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		continue
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-pid, syscall.SIGKILL) // an error means that none is left
	p.reaped = true
	return p.cmd.Wait()
}

// bySpawn finds what one spawned program has started.
func bySpawn(token string) matcher {
	return func(environ []byte) bool { return carried(environ, spawnMarker) == token }
}

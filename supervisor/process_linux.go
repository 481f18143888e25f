package supervisor

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

func pidNamespace() string {
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return ns
}

func exists(pid int) bool {
	_, running := startTime(pid)
	return running
}

// startTime is when the process began, in the kernel's ticks since boot. One that
// has ended does not run, even if it was not waited for yet.
func startTime(pid int) (ticks int64, running bool) {
	s, known := statOf(pid)
	if !known || s.ended {
		return 0, false
	}
	return s.start, true
}

// procStat is what the kernel reports of a process.
type procStat struct {
	parent, session int
	start           int64 // in ticks since boot
	ended           bool  // and was not waited for yet
	leaving         bool  // it ends, and may have lost its environment already
}

func statOf(pid int) (s procStat, known bool) {
	text, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return procStat{}, false
	}
	return parseStat(text)
}

// parseStat reads the fields after the name. That stands in parentheses, and may hold
// spaces and parentheses itself.
func parseStat(text []byte) (procStat, bool) {
	const (
		exiting  = 0x4 // PF_EXITING
		lastRead = 19
	)
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= lastRead {
		return procStat{}, false
	}
	known := true
	number := func(i int) int64 {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		known = known && err == nil
		return n
	}
	s := procStat{parent: int(number(1)), session: int(number(3)), start: number(lastRead), leaving: number(6)&exiting != 0}
	switch string(fields[0]) {
	case "Z", "X", "x": // a zombie, or gone while we looked
		s.ended = true
	}
	return s, known
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

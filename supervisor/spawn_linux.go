package supervisor

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

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
	_ = syscall.Kill(-pid, syscall.SIGKILL) // an error says that nobody is left
	p.reaped = true
	return p.cmd.Wait()
}

// bySpawn finds what one spawned program has started.
func bySpawn(token string) matcher {
	return func(environ []byte) bool { return carried(environ, spawnMarker) == token }
}

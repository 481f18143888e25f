package supervisor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/supervisor/reap"
)

const (
	mayReap = true
	// reapLimit is how long a reaper takes to end everything, and to tell what it
	// cannot end.
	reapLimit = 5 * time.Second
)

// reaper is our side of one. It is another process of this very program.
type reaper struct {
	socket *os.File
	level  string
}

func (r *reaper) stop(grace time.Duration) {
	_, _ = fmt.Fprintln(r.socket, grace.Milliseconds()) // an error means that it has ended
}

// beginReaped starts the program by a reaper, and returns when that tells who it is.
func (p *Process) beginReaped(c Command) error {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(ends[1]), "reaper's end")
	defer theirs.Close()
	_ = unix.SetNonblock(ends[0], true) // so that nobody's reading holds a thread
	p.reaper = &reaper{socket: os.NewFile(uintptr(ends[0]), "reaper")}
	environ := []byte(strings.Join(c.Env, "\x00"))
	run := carried(environ, runMarker)
	p.identity.Cgroup = newCgroup(run, carried(environ, launchMarker), p.identity.Spawn)
	p.cmd.Path, p.cmd.Args = "/proc/self/exe", reap.Args(run, p.identity.Cgroup, c.Path, c.Args)
	p.cmd.ExtraFiles, p.cmd.SysProcAttr = []*os.File{theirs}, &syscall.SysProcAttr{Setsid: true}
	if err := p.begin(); err != nil {
		_ = p.reaper.socket.Close()
		_, _ = endCgroup(context.Background(), p.identity.Cgroup)
		return err
	}
	lines := bufio.NewReader(p.reaper.socket)
	if err := p.up(lines, c); err != nil {
		p.endReaper()
		return err
	}
	go p.follow(lines)
	return nil
}

// up reads the first line.
func (p *Process) up(lines *bufio.Reader, c Command) error {
	line, err := lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the reaper of %s ended before it started it: %w", c.Path, err)
	}
	errno := 0
	if _, err := fmt.Sscanf(line, "refused %d", &errno); err == nil {
		return &os.PathError{Op: "fork/exec", Path: c.Path, Err: syscall.Errno(errno)}
	}
	if _, err := fmt.Sscanf(line, "up %d %d %s", &p.identity.Pid, &p.identity.Start, &p.reaper.level); err != nil {
		return fmt.Errorf("the reaper of %s said %q", c.Path, line)
	}
	if p.reaper.level != levelCgroup {
		_, _ = endCgroup(context.Background(), p.identity.Cgroup)
		p.identity.Cgroup = ""
	}
	return nil
}

// follow reads what the reaper tells until it has ended.
func (p *Process) follow(lines *bufio.Reader) {
	defer close(p.gone)
	exited, done := false, false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		number, comm := 0, ""
		_, _ = fmt.Sscan(rest, &number, &comm)
		switch word {
		case "exit":
			p.exit = Exit{Code: number}
		case "signal":
			p.exit = bySignal(syscall.Signal(number))
		case "left":
			p.left = append(p.left, Left{number, comm})
		case "survivor":
			p.survivors = append(p.survivors, Left{number, comm})
		case "done":
			done = true
		}
		if (word == "exit" || word == "signal") && !exited {
			exited = true
			close(p.exited)
		}
	}
	p.endReaper()
	if !done { // it was killed, and with it the program; what that has started is left to us
		p.endRest()
	}
	if !exited {
		p.exit = bySignal(syscall.SIGKILL)
		close(p.exited)
	}
	limit := drainLimit
	if done && len(p.survivors) == 0 {
		limit = drainReaped
	}
	p.drain(limit)
}

// endStalled ends everything in the place of a reaper that does not: the program may
// have stopped it.
func (p *Process) endStalled() {
	ctx, cancel := context.WithTimeout(context.Background(), reapLimit)
	defer cancel()
	all := Identity{Pid: p.cmd.Process.Pid, Start: p.start, Spawn: p.identity.Spawn, Cgroup: p.identity.Cgroup}
	_, _ = sweepIdentities(ctx, []Identity{all}) // what is left then hangs in the kernel
	within(killLimit, p.gone)
}

// endReaper waits for the end of the reaper, and ends what is left in its cgroup.
func (p *Process) endReaper() {
	_ = p.reaper.socket.Close()
	_ = p.cmd.Wait() // how it ended tells nothing
	p.forget()
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	_, _ = endCgroup(ctx, p.identity.Cgroup)
}

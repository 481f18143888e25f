package supervisor

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/supervisor/reap"
)

// adopted records the programs that this process has started, to distinguish them from
// those that it inherited when their parents ended.
var adopted struct {
	mu      sync.Mutex // held while a program is started, so that none is seen half known
	on      bool
	started map[int]int64 // our programs: start times by pid
	// launched are processes that go on without us. They adopt what they start, so they say
	// nothing of whom we inherit.
	launched map[int]int64
}

// reapTime is how often children that have ended are looked for.
const reapTime = time.Second

// Adopt makes this process the parent of every descendant that loses its own. A
// descendant that left its group, session and environment is then still found: it is a
// child that we have not started.
//
// It is for programs all of whose children are started by [Spawn], or stay in their
// session. Such a process is ended when no program of ours is left that could have
// started it, since it is unknown which of several programs did.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	adopted.mu.Lock()
	adopted.on = true
	adopted.mu.Unlock()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() { // nothing else waits for them
		for range ended {
			time.Sleep(reapTime)
			_, _ = orphans()
		}
	}()
	return nil
}

// begin starts a program and remembers it.
func (p *Process) begin() error {
	adopted.mu.Lock()
	defer adopted.mu.Unlock()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if adopted.started == nil {
		adopted.started = map[int]int64{}
	}
	p.start, _ = startTime(p.cmd.Process.Pid)
	adopted.started[p.cmd.Process.Pid] = p.start
	return nil
}

// forget is called when a program has ended and its pid was given back.
func (p *Process) forget() {
	adopted.mu.Lock()
	defer adopted.mu.Unlock()
	if pid := p.cmd.Process.Pid; adopted.started[pid] == p.start { // else it is another's by now
		delete(adopted.started, pid)
	}
}

// childless reports whether no descendant of this process can be left: the first of those
// that lost their parents would be its child. To look at all processes of the system takes
// ten times as long as to start a small program.
func childless() bool {
	adopted.mu.Lock()
	defer adopted.mu.Unlock()
	return adopted.on && errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// endAdopted ends the processes that we were given and that no living program of ours
// can have started, and whatever those have started in turn.
func endAdopted(ctx context.Context) (ended int, err error) {
	for {
		found, err := orphans()
		if err != nil || len(found) == 0 {
			return ended, err
		}
		gone, err := endAll(ctx, found)
		ended += gone
		if err != nil || ctx.Err() != nil {
			return ended, err
		}
	}
}

// orphans opens them, and waits for those that have ended.
func orphans() (found []process, err error) {
	adopted.mu.Lock()
	defer adopted.mu.Unlock()
	if !adopted.on {
		return nil, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	session, err := unix.Getsid(0)
	if err != nil {
		return nil, err
	}
	oldest, given := int64(-1), map[int]int64{} // start times by pid
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		c, known := reap.StatOf(pid)
		_, started := adopted.started[pid]
		_, launched := adopted.launched[pid]
		switch {
		case !known || c.Parent != os.Getpid() || launched:
		case started || c.Session == session: // what it starts is younger
			if !c.Ended && (oldest < 0 || c.Start < oldest) {
				oldest = c.Start
			}
		case c.Ended:
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		default:
			given[pid] = c.Start
		}
	}
	for pid, start := range given {
		if oldest >= 0 && oldest <= start {
			continue
		}
		// It is our child, and we alone wait for it: its pid stays its own.
		if handle, err := os.FindProcess(pid); err == nil {
			found = append(found, process{handle: handle, start: start})
		}
	}
	return found, nil
}

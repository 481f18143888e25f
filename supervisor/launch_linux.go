package supervisor

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// launchedLevel is by what the descendants of a launched process are found: it adopts them.
const launchedLevel = levelSubreaper

// beginLaunched starts a process that is to outlive us, and remembers that we have not
// inherited it. What others have let us inherit is not passed on.
func beginLaunched(cmd *exec.Cmd) (start int64, err error) {
	adopted.mu.Lock()
	defer adopted.mu.Unlock()
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // kernels that cannot have passed on what they did before
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if adopted.launched == nil {
		adopted.launched = map[int]int64{}
	}
	start, _ = startTime(cmd.Process.Pid)
	adopted.launched[cmd.Process.Pid] = start
	return start, nil
}

// forgetLaunched is called when the process has ended and its pid was given back.
func forgetLaunched(pid int, start int64) {
	adopted.mu.Lock()
	defer adopted.mu.Unlock()
	if adopted.launched[pid] == start {
		delete(adopted.launched, pid)
	}
}

// signalGroup is the flag of pidfd_send_signal that means the group, since Linux 6.9.
const signalGroup = 1 << 2

// stopProcess asks a process to end, and kills it with all that it has started when grace
// is over. A stranger that has its pid by now is left alone.
func stopProcess(ctx context.Context, o flow.Owner, grace time.Duration) (stopped tipstaff.Stopped, err error) {
	handle, err := os.FindProcess(o.Pid)
	if err != nil {
		return stopped, nil // it has ended
	}
	p := process{handle: handle, start: o.Start}
	if p.ended() {
		p.release()
		return stopped, nil
	}
	if grace > 0 {
		p.ask()
		patient, cancel := context.WithTimeout(ctx, grace)
		_ = p.wait(patient)
		cancel()
	}
	if p.ended() || ctx.Err() != nil {
		p.release()
		return stopped, ctx.Err()
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepLimit)
	defer cancel()
	ended, err := endAll(limited, []process{p}) // its descendants before itself, which lets go of it
	return tipstaff.Stopped{Forced: true, Swept: max(0, ended-1)}, err
}

// ask sends SIGTERM: to the group if the process leads it, else to the process alone, whose
// group may be a person's script.
func (p process) ask() {
	group, err := syscall.Getpgid(p.handle.Pid)
	if err != nil || group != p.handle.Pid || p.ended() {
		_ = p.handle.Signal(syscall.SIGTERM) // an error means that it has ended
		return
	}
	sent := errors.ErrUnsupported
	_ = p.handle.WithHandle(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), unix.SIGTERM, nil, signalGroup) })
	if sent != nil && !errors.Is(sent, unix.ESRCH) && !p.ended() { // an older kernel: while it lives its pid names its group
		_ = syscall.Kill(-p.handle.Pid, syscall.SIGTERM)
	}
}

func duplicate(from, to int) error { return unix.Dup3(from, to, 0) }

// ConcealOwner is [Conceal] for a process that was launched for a run: it is known by the
// identity that it has stored with its lease.
func ConcealOwner() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

//go:build !linux

package supervisor

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

const launchedLevel = levelGroup

func beginLaunched(cmd *exec.Cmd) (start int64, err error) {
	for fd := 3; fd < 256; fd++ { // what others have let us inherit is not passed on
		syscall.CloseOnExec(fd)
	}
	return 0, cmd.Start()
}

func forgetLaunched(int, int64) {}

// stopProcess asks the group of a process to end, and kills it when grace is over. Here a
// process is known by its pid alone, so only one that leads its group is signalled.
func stopProcess(ctx context.Context, o flow.Owner, grace time.Duration) (stopped tipstaff.Stopped, err error) {
	group, err := syscall.Getpgid(o.Pid)
	switch {
	case errors.Is(err, syscall.ESRCH):
		return stopped, nil
	case err != nil:
		return stopped, err
	case group != o.Pid:
		return stopped, errors.ErrUnsupported
	}
	if grace > 0 {
		_ = syscall.Kill(-o.Pid, syscall.SIGTERM)
		for end := time.Now().Add(grace); exists(o.Pid) && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if !exists(o.Pid) || ctx.Err() != nil {
		return stopped, ctx.Err()
	}
	return tipstaff.Stopped{Forced: true}, syscall.Kill(-o.Pid, syscall.SIGKILL)
}

func duplicate(from, to int) error { return syscall.Dup2(from, to) }

// ConcealOwner does nothing here, as Conceal.
func ConcealOwner() {}

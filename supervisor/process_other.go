//go:build !linux

package supervisor

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// Without a proc file system there is neither boot nor namespace nor start time
// to go by: see the last case of Alive.

func bootID() string { return "" }

func pidNamespace() string { return "" }

func startTime(int) (ticks int64, running bool) { return 0, false }

func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	if runtime.GOOS == "windows" {
		return true // there, finding it is the proof
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

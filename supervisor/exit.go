package supervisor

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func exitOf(s *os.ProcessState) Exit {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return bySignal(status.Signal())
	}
	return Exit{Code: s.ExitCode()}
}

func bySignal(s syscall.Signal) Exit {
	if name := unix.SignalName(s); name != "" {
		return Exit{Signal: name}
	}
	return Exit{Signal: fmt.Sprintf("SIG%d", int(s))} // a real-time signal
}

// String is as package os tells it: "exit status 1", "signal: killed".
func (e Exit) String() string {
	if e.Signal == "" {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return "signal: " + e.signal().String()
}

func (e Exit) signal() syscall.Signal {
	if s := unix.SignalNum(e.Signal); s != 0 {
		return s
	}
	var n int
	_, _ = fmt.Sscanf(e.Signal, "SIG%d", &n)
	return syscall.Signal(n)
}

// Status is the exit as shells tell it: the code, or 128 and the signal's number.
func (e Exit) Status() int {
	if e.Signal == "" {
		return e.Code
	}
	return 128 + int(e.signal())
}

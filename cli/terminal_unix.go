//go:build unix

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rawMode has a terminal send every key at once and echo none. What is written to
// it is treated as before: lines end where others end them.
func rawMode(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	raw := *before
	raw.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.IXON | unix.ISTRIP
	raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ECHONL | unix.ISIG | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermios, &raw); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }, nil // the terminal may be gone
}

// echoOff has a terminal echo nothing. A process that is stopped, or ended by a signal
// that nobody deals with, gives the echo back first.
func echoOff(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	quiet := *before
	quiet.Lflag &^= unix.ECHO | unix.ECHOE | unix.ECHOK | unix.ECHONL
	set := func(t *unix.Termios) {
		if inForeground(fd) { // the terminal of others is left alone
			_ = unix.IoctlSetTermios(fd, setTermios, t) // it may be gone
		}
	}
	signals, resumed, over := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGTSTP, syscall.SIGQUIT, syscall.SIGHUP)
	signal.Notify(resumed, syscall.SIGCONT)
	set(&quiet)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case sig := <-signals:
				set(before)
				signal.Reset(sig)
				_ = self.Signal(sig)
				select {
				case <-resumed:
				case <-over: // it was not stopped: nobody could have it go on
					return
				}
				signal.Notify(signals, syscall.SIGTSTP)
				set(&quiet)
			case <-resumed:
				set(&quiet)
			case <-over:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-done
		signal.Stop(signals)
		signal.Stop(resumed)
		set(before)
	}), nil
}

// notifyStop has somebody told who asks the process to stop, as Ctrl-Z does, in place of
// stopping it.
func notifyStop(c chan<- os.Signal) { signal.Notify(c, syscall.SIGTSTP) }

func ignoreStop(c chan<- os.Signal) { signal.Stop(c) }

// stopTime is how long a process waits to be stopped: nobody could have one go on whose
// group has lost its shell, and the system does not stop it.
const stopTime = 300 * time.Millisecond

// stopNow stops the process, and returns when it goes on.
func stopNow() {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	signal.Reset(syscall.SIGTSTP)
	_ = self.Signal(syscall.SIGTSTP)
	select {
	case <-resumed:
	case <-time.After(stopTime):
	}
}

// inForeground reports whether the terminal is this process's at the moment. Others
// that change it are stopped.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// typedInput is a terminal, as [tipstaff.Typed]. Read is for those who take all there
// is.
type typedInput struct{ *os.File }

// terminalInput is what is typed at f, if it is a terminal.
func terminalInput(f *os.File) io.Reader {
	if !isTerminal(f) {
		return f
	}
	return typedInput{f}
}

func (t typedInput) Wait(ctx context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer w.Close()
	defer context.AfterFunc(ctx, func() { w.Close() })()
	ends := int(r.Fd())
	for {
		fds := []unix.PollFd{{Fd: int32(t.Fd()), Events: unix.POLLIN}, {Fd: int32(ends), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case fds[0].Revents != 0:
			return nil
		}
	}
}

func (t typedInput) Take(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(t.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); n == 0 || err != nil {
		return 0, nil // Wait meets what is wrong
	}
	return t.Read(p)
}

func (t typedInput) Drop() {
	if fd := int(t.Fd()); inForeground(fd) {
		_ = flushInput(fd) // the terminal may be gone
	}
}

//go:build !linux

package supervisor

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Other systems tell no start times, so that an owner has but its heartbeat to go by
// (see the last case of Alive); and they show no environments, so that descendants which
// left the group of their program are not found.

func bootID() string { return "" }

func pidNamespace() string { return "" }

func startTime(int) (ticks int64, running bool) { return 0, false }

func widen(*os.File) {} // pipes have the size that the system gives them

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

// Conceal keeps other processes of our user from reading our environment, where the
// system does not do so by itself. Here nothing is known to be needed.
func Conceal() {}

// Adopt is not to be had here: a descendant that left its group, session and
// environment behind cannot be found.
func Adopt() error { return errors.ErrUnsupported }

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func (p *Process) begin() error { return p.cmd.Start() }

// wait returns when the program has ended, and its group with it. Here the end of
// a child cannot be seen without giving its pid back, so that for a moment the
// group is named by a pid that is not in use.
func (p *Process) wait() error {
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error means that none is left
	p.reaped = true
	return err
}

func (p *Process) forget() {}

func childless() bool { return true }

// process is one that was found.
type process struct{}

const (
	mayReap   = false
	reapLimit = killLimit
)

// reaper is not to be had here: nobody else is given the children of a process that ends.
type reaper struct{ level string }

func (*reaper) stop(time.Duration) {}

func (p *Process) beginReaped(Command) error { return errors.ErrUnsupported }

func (p *Process) endStalled() {}

func ownCgroup() string { return "" }

func endCgroups(context.Context, map[string]string) (int, error) { return 0, nil }

func sweepIdentities(context.Context, []Identity) (int, error) { return 0, errors.ErrUnsupported }

func byLaunch(map[string]string) matcher { return nil }

func bySpawn(string) matcher { return nil }

func findMarked(matcher) ([]process, error) { return nil, errors.ErrUnsupported }

func endAll(context.Context, []process) (ended int, err error) { return 0, errors.ErrUnsupported }

func endAdopted(context.Context) (int, error) { return 0, nil }

// lookUp has nobody to ask here: a process that clears its environment hides.
func (m *Member) lookUp(int) {}

// PeerOf cannot be told here: the system does not say who holds a socket.
func PeerOf(net.Conn, func() ([]flow.Owner, error)) Peer { return Peer{} }

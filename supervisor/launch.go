package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// maxLog is how large the log of a run may become before it is put aside.
const maxLog = 64 << 20

// Launcher implements [tipstaff.Launcher].
type Launcher struct {
	mu       sync.Mutex
	children map[flow.Owner]*child // that were launched here and whose end was not asked for
}

// child is a process that was launched here.
type child struct {
	ended chan struct{} // closed when it has
	exit  flow.LaunchExit
}

var _ tipstaff.Launcher = (*Launcher)(nil)

// Launch implements [tipstaff.Launcher]. The process gets our environment, the markers of
// the run, and no descriptor but the log.
func (l *Launcher) Launch(_ context.Context, req tipstaff.LaunchRequest) (tipstaff.LaunchedProcess, error) {
	log, err := openLog(req.Log)
	if err != nil {
		return tipstaff.LaunchedProcess{}, err
	}
	defer log.Close()
	if _, err := fmt.Fprintf(log, "--- launch %s %s\n", req.Token, time.Now().UTC().Format(time.RFC3339Nano)); err != nil {
		return tipstaff.LaunchedProcess{}, err
	}
	cmd := &exec.Cmd{Path: req.Argv[0], Args: req.Argv, Dir: req.Dir, Stdout: log, Stderr: log,
		Env: append(withoutMarkers(os.Environ()), Markers(req.Run, req.Token)...), SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	start, err := beginLaunched(cmd)
	if err != nil {
		return tipstaff.LaunchedProcess{}, err
	}
	owner := Self(tipstaff.OriginSupervisor, req.Token)
	owner.Pid, owner.Start = cmd.Process.Pid, start
	c := &child{ended: make(chan struct{})}
	l.mu.Lock()
	if l.children == nil {
		l.children = map[flow.Owner]*child{}
	}
	l.children[owner] = c
	l.mu.Unlock()
	go func() {
		_ = cmd.Wait() // how it ended is in its state
		forgetLaunched(owner.Pid, start)
		exit := exitOf(cmd.ProcessState)
		c.exit = flow.LaunchExit{Code: exit.Status(), Signal: exit.Signal}
		close(c.ended)
	}()
	return tipstaff.LaunchedProcess{Owner: owner, Containment: launchedLevel}, nil
}

// Probe implements [tipstaff.Launcher].
func (l *Launcher) Probe(ctx context.Context, p flow.Owner) (flow.LaunchExit, bool) {
	l.mu.Lock()
	c := l.children[p]
	l.mu.Unlock()
	if c == nil {
		return flow.LaunchExit{}, false
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		return flow.LaunchExit{}, false
	}
	l.mu.Lock()
	delete(l.children, p)
	l.mu.Unlock()
	return c.exit, true
}

// Stop implements [tipstaff.Launcher].
func (l *Launcher) Stop(ctx context.Context, p flow.Owner, run string, grace time.Duration) (tipstaff.Stopped, error) {
	self := Self("", "")
	if p.Host != self.Host || p.PidNS != self.PidNS {
		return tipstaff.Stopped{}, fmt.Errorf("process %d is on %s, in another place than this one: %w", p.Pid, p.Host, errors.ErrUnsupported)
	}
	var stopped tipstaff.Stopped
	if p.Boot == self.Boot {
		var err error
		if stopped, err = stopProcess(ctx, p, grace); err != nil {
			return stopped, err
		}
	}
	more, err := Sweep(context.WithoutCancel(ctx), map[string]string{p.Launch: run})
	stopped.Swept += more
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil // this system cannot tell whose a process is
	}
	return stopped, err
}

// withoutMarkers leaves out those of the run that this process belongs to, if any.
func withoutMarkers(environ []string) (rest []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, runMarker) && !strings.HasPrefix(v, launchMarker) && !strings.HasPrefix(v, spawnMarker) {
			rest = append(rest, v)
		}
	}
	return rest
}

// openLog opens the log of a run at its end. One that is too large is put aside, in the
// place of the one before.
func openLog(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.Size() >= maxLog {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(filepath.Clean(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// Log is the log of a run for the process that writes it: what goes to its standard output
// and error. It is put aside when it becomes too large.
type Log struct {
	mu   sync.Mutex
	name string
	file *os.File
	size int64
}

// OwnLog takes over standard output and error of a launched process; nil: they are not a
// log of that name, or this system does not tell.
func OwnLog(base string) *Log {
	name, err := os.Readlink("/proc/self/fd/1")
	if err != nil || filepath.Base(name) != base {
		return nil
	}
	f, err := openLog(name)
	if err != nil {
		return nil
	}
	l := &Log{name: name}
	if l.use(f) != nil {
		return nil
	}
	return l
}

// use has everything written to f from now on, also what the runtime says.
func (l *Log) use(f *os.File) error {
	info, err := f.Stat()
	for _, fd := range []int{1, 2} {
		if err == nil {
			err = duplicate(int(f.Fd()), fd)
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size >= maxLog {
		f, err := openLog(l.name)
		if err == nil {
			err = l.use(f)
		}
		if err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	return n, err
}

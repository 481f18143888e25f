package reap

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const (
	leftGrace = 2 * time.Second // that descendants are given when their program has ended, and all when Tipstaff is dead
	killLimit = 4 * time.Second // after which what SIGKILL has not ended hangs in the kernel
	lookAgain = 20 * time.Millisecond
)

// init turns a process that was started as a reaper into one, before the packages of
// a large program are set up: those would take ten times as long as all that a reaper
// does. See [Args].
func init() {
	if o, ok := parse(os.Args); ok {
		syscall.Exit(run(o)) // not os.Exit: a race detector would sleep for a second first
	}
}

// end is the end of a child: of the program, or of a descendant that lost its parent.
type end struct {
	pid    int
	status syscall.WaitStatus
}

// reaper is one at work.
type reaper struct {
	options
	self    Process
	program Process
	running bool                 // the program has not ended
	alone   bool                 // Tipstaff is dead
	killAt  time.Time            // when everything is killed; zero: not yet
	left    map[Process]bool     // descendants that were found after the program's end
	ends    <-chan end           // closed when there is no descendant
	orders  <-chan time.Duration // graces of orders to stop; closed when Tipstaff is dead
}

func run(o options) int {
	const setChildSubreaper = 36
	if _, _, err := syscall.RawSyscall6(syscall.SYS_PRCTL, setChildSubreaper, 1, 0, 0, 0, 0); err != 0 {
		return refuse(err)
	}
	// Asked to end by others it stays: its end would leave its descendants to the system.
	// They are caught and not ignored, for the program would ignore them too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// Nor does it get files that we were left open, by those who started Tipstaff.
	const closeRange, closeOnExec = 436, 4
	syscall.CloseOnExec(control)
	_, _, _ = syscall.RawSyscall(closeRange, control, uintptr(^uint32(0)), closeOnExec) // old kernels do not know it
	pid, contained, err := o.start()
	if err != nil {
		return refuse(err)
	}
	if null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil { // else the program's readers wait for our end
		for fd := range 3 {
			_ = syscall.Dup3(null, fd, syscall.O_CLOEXEC)
		}
	}
	status, _ := StatOf(pid) // it is our child and was not waited for: it is there
	self, _ := StatOf(os.Getpid())
	r := &reaper{options: o, self: Process{os.Getpid(), self.Start}, program: Process{pid, status.Start}, running: true, left: map[Process]bool{}, ends: ends(), orders: orders()}
	say("up", strconv.Itoa(pid), strconv.FormatInt(status.Start, 10), contained)
	r.watch()
	return 0
}

func refuse(err error) int {
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = syscall.EINVAL // a NUL in an argument
	}
	say("refused", strconv.Itoa(int(errno)))
	return 1
}

// start starts the program, inside its cgroup if that is possible.
func (o options) start() (pid int, contained string, err error) {
	attr := &syscall.ProcAttr{Env: syscall.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	if o.cgroup != "" {
		if fd, err := syscall.Open(o.cgroup, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0); err == nil {
			defer syscall.Close(fd)
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
			if pid, err = syscall.ForkExec(o.path, o.argv, attr); err == nil {
				return pid, "cgroup", nil
			}
			attr.Sys.UseCgroupFD = false // an old kernel, or no right to: the next attempt tells
		}
	}
	pid, err = syscall.ForkExec(o.path, o.argv, attr)
	return pid, "subreaper", err
}

// ends waits for all children. When there is none there is no descendant either: one
// that had lost its parents would be a child.
func ends() <-chan end {
	all := make(chan end)
	go func() {
		defer close(all)
		for {
			var e end
			var err error
			if e.pid, err = syscall.Wait4(-1, &e.status, 0, nil); err == nil {
				all <- e
			} else if err != syscall.EINTR {
				return
			}
		}
	}()
	return all
}

// childless reports whether there is no child, living or not waited for. To look at all
// processes of the system takes longer than all else.
func childless() bool {
	const exitedNoHangNoWait = 0x4 | 0x1 | 0x1000000
	_, _, err := syscall.RawSyscall6(syscall.SYS_WAITID, 0, 0, 0, exitedNoHangNoWait, 0, 0)
	return err == syscall.ECHILD
}

// orders reads what Tipstaff orders.
func orders() <-chan time.Duration {
	all := make(chan time.Duration)
	go func() {
		defer close(all)
		line, buffer := "", make([]byte, 64)
		for {
			n, err := syscall.Read(control, buffer)
			switch {
			case err == syscall.EINTR:
				continue
			case err != nil || n <= 0:
				return
			}
			for _, c := range buffer[:n] {
				if c != '\n' {
					line += string(rune(c))
					continue
				}
				if ms, err := strconv.Atoi(line); err == nil {
					all <- time.Duration(ms) * time.Millisecond
				}
				line = ""
			}
		}
	}()
	return all
}

// watch returns when no descendant is left, or none that could be ended.
func (r *reaper) watch() {
	timer := time.NewTimer(time.Hour)
	for {
		wait := time.Hour
		if !r.killAt.IsZero() {
			wait = max(0, time.Until(r.killAt))
		}
		timer.Reset(wait)
		select {
		case e, some := <-r.ends:
			if !some {
				r.done()
				return
			}
			r.ended(e)
		case grace, alive := <-r.orders:
			if !alive {
				r.orders, r.alone, grace = nil, true, leftGrace
			}
			r.stop(grace)
		case <-timer.C:
			if !r.killAt.IsZero() {
				r.kill()
				return
			}
		}
	}
}

// stop asks the program to end, and no other: it ends its own helpers in good order.
func (r *reaper) stop(grace time.Duration) {
	if r.running {
		r.program.Signal(syscall.SIGTERM)
	}
	r.within(grace)
}

// within has everything killed after a while, if that is not to happen sooner.
func (r *reaper) within(d time.Duration) {
	if at := time.Now().Add(d); r.killAt.IsZero() || at.Before(r.killAt) {
		r.killAt = at
	}
}

// ended takes notice of the end of a child. What the program leaves behind is asked to
// end as well.
func (r *reaper) ended(e end) {
	if e.pid != r.program.Pid || !r.running {
		return
	}
	r.running = false
	if e.status.Signaled() {
		say("signal", strconv.Itoa(int(e.status.Signal())))
	} else {
		say("exit", strconv.Itoa(e.status.ExitStatus()))
	}
	for _, p := range r.found() {
		p.Signal(syscall.SIGTERM)
	}
	if !r.alone {
		r.killAt = time.Time{} // a stop's grace was the program's
	}
	r.within(leftGrace)
}

// found are the descendants that live. All but the program were left behind by it.
func (r *reaper) found() []Process {
	if childless() {
		return nil
	}
	all := Below(0, r.self)
	for _, p := range all {
		if p != r.program && !r.left[p] {
			r.left[p] = true
			say("left", strconv.Itoa(p.Pid), Comm(p.Pid))
		}
	}
	return all
}

// kill ends everything: at once by the cgroup, and those who left that one by one.
func (r *reaper) kill() {
	for limit := time.Now().Add(killLimit); ; {
		if r.cgroup != "" {
			r.found()
			_ = os.WriteFile(r.cgroup+"/cgroup.kill", []byte("1"), 0) // the looks below find what it does not end
		}
		KillAll(r.found)
		for again := time.After(lookAgain); again != nil; {
			select {
			case e, some := <-r.ends:
				if !some {
					r.done()
					return
				}
				r.ended(e)
			case <-again:
				again = nil
			}
		}
		if time.Now().After(limit) {
			for _, p := range Below(0, r.self) {
				say("survivor", strconv.Itoa(p.Pid), Comm(p.Pid))
			}
			r.done()
			return
		}
	}
}

func (r *reaper) done() {
	if r.cgroup != "" {
		_ = syscall.Rmdir(r.cgroup) // Tipstaff does, too, if it lives
	}
	say("done")
}

// say tells Tipstaff something, if it lives.
func say(words ...string) {
	line := words[0]
	for _, w := range words[1:] {
		line += " " + w
	}
	for text := []byte(line + "\n"); len(text) > 0; {
		n, err := syscall.Write(control, text)
		if err != nil && err != syscall.EINTR {
			return
		}
		text = text[max(n, 0):]
	}
}

package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/supervisor/reap"
)

// process is one that was found. The handle holds a descriptor of it: whatever the
// system does with its pid, that names this process and no other. Kernels without
// such descriptors leave the start time to go by.
type process struct {
	handle  *os.Process
	start   int64
	leaving bool // it is ending; its environment can no longer be read
}

// findMarked opens the running processes of our user, other than this one, that
// match, and all that are leaving.
func findMarked(match matcher) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !ours(entry) {
			continue
		}
		if p, ok := hold(pid, match); ok {
			found = append(found, p)
		}
	}
	return found, nil
}

// ours reports whether a process belongs to our user. Root could read, and end,
// those of all others.
func ours(entry fs.DirEntry) bool {
	info, err := entry.Info()
	if err != nil {
		return false // it has ended
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// hold takes hold of a process if it matches or is leaving. It looks before, which
// costs little where nothing is found, and again afterwards: should the pid have
// changed hands in between, the start time differs.
func hold(pid int, match matcher) (p process, ok bool) {
	start, running := startTime(pid)
	if !running {
		return process{}, false
	}
	if marked, leaving := look(pid, match); !marked && !leaving {
		return process{}, false
	}
	handle, err := os.FindProcess(pid)
	if err != nil {
		return process{}, false // it has ended
	}
	marked, leaving := look(pid, match)
	p = process{handle, start, leaving}
	if p.ended() || !marked && !leaving {
		p.release()
		return process{}, false
	}
	return p, true
}

func (p process) release() { _ = p.handle.Release() }

// ended reports whether the process is gone, or its pid is another's by now.
func (p process) ended() bool {
	start, running := startTime(p.handle.Pid)
	return !running || start != p.start
}

// look reports whether a process was started with a matching environment. One whose
// environment we may not read is not ours to end. One that ends loses its
// environment first, and may then take its time: it is leaving.
func look(pid int, match matcher) (marked, leaving bool) {
	env, err := os.ReadFile(procFile(pid, "environ"))
	if err == nil && len(env) > 0 {
		return match(env), false
	}
	s, known := reap.StatOf(pid)
	return false, known && !s.Ended && s.Leaving
}

// byLaunch finds the processes that carry both markers of one of these launches.
func byLaunch(launches map[string]string) matcher {
	return func(environ []byte) bool {
		run, launch := carried(environ, runMarker), carried(environ, launchMarker)
		return run != "" && launches[launch] == run
	}
}

// carried is the value of a variable; "" if it is not set, or to several values:
// which of them a process goes by is its own affair.
func carried(environ []byte, marker string) string {
	found := ""
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if v, ok := bytes.CutPrefix(entry, []byte(marker)); ok {
			if found != "" && found != string(v) {
				return ""
			}
			found = string(v)
		}
	}
	return found
}

// endAll kills the processes and what they have started, waits until they have ended,
// and lets go of them. It returns how many have. Those that are leaving it waits for, too, but not for
// long: one that hangs may be anybody's.
func endAll(ctx context.Context, all []process) (ended int, err error) {
	defer func() {
		for _, p := range all {
			p.release()
		}
	}()
	below, late := endBelow(ctx, all)
	for _, p := range all {
		if err := p.kill(); err != nil {
			return 0, fmt.Errorf("end process %d: %w", p.handle.Pid, err)
		}
	}
	short, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	for _, p := range all {
		if p.leaving {
			_ = p.wait(short)
			continue
		}
		if err := p.wait(ctx); err != nil {
			return below + ended, fmt.Errorf("process %d was killed and has not ended: %w", p.handle.Pid, err)
		}
		ended++
	}
	return below + ended, late
}

// endBelow ends the descendants of processes, while these are there to find them by:
// those that left their session and environment are children of a reaper.
func endBelow(ctx context.Context, all []process) (ended int, err error) {
	var roots []reap.Process
	for _, p := range all {
		if !p.leaving {
			root := reap.Process{Pid: p.handle.Pid, Start: p.start}
			root.Signal(syscall.SIGSTOP) // it starts no more
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 {
		return 0, nil
	}
	for {
		killed := reap.KillAll(func() []reap.Process {
			return slices.DeleteFunc(reap.Below(os.Getpid(), roots...), func(p reap.Process) bool { return slices.Contains(roots, p) })
		})
		for _, p := range killed {
			for ; p.Runs(); time.Sleep(time.Millisecond) { // it is nobody's child that we could wait for
				if ctx.Err() != nil {
					return ended, fmt.Errorf("process %d was killed and has not ended: %w", p.Pid, context.Cause(ctx))
				}
			}
			ended++
		}
		if len(killed) == 0 {
			return ended, nil
		}
	}
}

// sweepIdentities ends what is left of these programs.
func sweepIdentities(ctx context.Context, all []Identity) (ended int, err error) {
	var there []process
	spawns := map[string]bool{}
	for _, id := range all {
		spawns[id.Spawn] = id.Spawn != ""
		if p := (reap.Process{Pid: id.Pid, Start: id.Start}); p.Pid > 0 && p.Start > 0 && p.Runs() {
			if handle, err := os.FindProcess(id.Pid); err == nil {
				there = append(there, process{handle: handle, start: id.Start})
			}
		}
	}
	if ended, err = endAll(ctx, there); err != nil {
		return ended, err
	}
	more, err := endMarked(ctx, func(environ []byte) bool { return spawns[carried(environ, spawnMarker)] })
	ended += more
	for _, id := range all {
		if id.Spawn == "" || !strings.HasSuffix(id.Cgroup, "-"+id.Spawn) {
			continue
		}
		inside, cerr := endCgroup(ctx, id.Cgroup)
		ended += inside
		err = errors.Join(err, cerr)
	}
	return ended, err
}

func (p process) kill() error {
	if p.leaving || p.ended() {
		return nil
	}
	err := p.handle.Signal(syscall.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// wait returns when the process has ended. It is not our child, so there is no
// status to wait for; but its descriptor becomes readable.
func (p process) wait(ctx context.Context) error {
	const slice = 20 * time.Millisecond // after which ctx is looked at again
	for !p.ended() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := p.handle.WithHandle(func(fd uintptr) {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(slice.Milliseconds()))
		})
		if err != nil { // no descriptor
			time.Sleep(slice)
		}
	}
	return nil
}

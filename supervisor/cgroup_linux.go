package supervisor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupName begins the names of our cgroups; a run and a spawn follow.
const cgroupName = "tipstaff-"

// ownCgroup is the folder of our own cgroup, in which we may make others; "" if there
// is none.
var ownCgroup = sync.OnceValue(func() string {
	dir := cgroupOf("self")
	if dir == "" || !delegated(dir) {
		return ""
	}
	trial := filepath.Join(dir, cgroupName+"trial-"+Self("", "").Boot)
	if err := os.Mkdir(trial, 0o755); err != nil && !os.IsExist(err) {
		return ""
	}
	defer func() { _ = unix.Rmdir(trial) }()
	if unix.Access(filepath.Join(trial, "cgroup.kill"), unix.W_OK) != nil { // an old kernel
		return ""
	}
	return dir
})

// delegated reports whether a cgroup was given to our user to divide. What root may
// write belongs to systemd where that runs, unless it says otherwise.
func delegated(dir string) bool {
	if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
		return false
	}
	if _, err := os.Stat("/run/systemd/system"); os.Geteuid() != 0 || err != nil {
		return true
	}
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		value := make([]byte, 1)
		if n, err := unix.Getxattr(dir, name, value); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return false
}

// cgroupOf is the folder of a process's cgroup of version 2; "" if it cannot be told.
func cgroupOf(pid string) string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	groups, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil {
		return ""
	}
	path, found := "", false
	for line := range strings.Lines(string(groups)) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			path, found = strings.TrimSuffix(p, "\n"), true
		}
	}
	for line := range bytes.Lines(mounts) {
		before, after, _ := strings.Cut(string(line), " - ")
		fields := strings.Fields(before) // id parent device root mountpoint …
		if !found || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		if rel, err := filepath.Rel(fields[3], path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return filepath.Join(fields[4], rel)
		}
	}
	return ""
}

// newCgroup makes a cgroup for a program; "" if that is not possible.
func newCgroup(run, spawn string) string {
	own := ownCgroup()
	if own == "" {
		return ""
	}
	dir := filepath.Join(own, cgroupName+run+"-"+spawn)
	if os.Mkdir(dir, 0o755) != nil {
		return ""
	}
	return dir
}

// endCgroup kills what is in a cgroup, waits for it, and removes the cgroup.
func endCgroup(ctx context.Context, dir string) (ended int, err error) {
	if dir == "" || !strings.HasPrefix(filepath.Base(dir), cgroupName) {
		return 0, nil
	}
	for {
		members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if os.IsNotExist(err) {
			return ended, nil
		}
		ended = max(ended, bytes.Count(members, []byte("\n")))
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		if err := unix.Rmdir(dir); err == nil || os.IsNotExist(err) {
			return ended, nil
		} else if ctx.Err() != nil {
			return ended, err
		}
		time.Sleep(2 * time.Millisecond) // the kernel tells the end of its members to nobody who may not watch it
	}
}

package supervisor

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPrefix begins the names of our cgroups; a run, a launch and a spawn follow.
const cgroupPrefix = "tipstaff-"

// cgroupName is the name of a cgroup of a launch, up to the spawn.
func cgroupName(run, launch string) string {
	word := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, s)
	}
	return cgroupPrefix + word(run) + "-" + word(launch) + "-"
}

// ownCgroup is the folder of our own cgroup, in which we may make others; "" if there
// is none.
var ownCgroup = sync.OnceValue(func() string {
	dir := cgroupOf("self")
	if dir == "" || !delegated(dir) {
		return ""
	}
	trial := filepath.Join(dir, cgroupName("", "trial")+rand.Text())
	if os.Mkdir(trial, 0o755) != nil {
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
func newCgroup(run, launch, spawn string) string {
	own := ownCgroup()
	if own == "" {
		return ""
	}
	dir := filepath.Join(own, cgroupName(run, launch)+spawn)
	if os.Mkdir(dir, 0o755) != nil {
		return ""
	}
	return dir
}

// endCgroups ends the cgroups of launches, as far as they are in our own.
func endCgroups(ctx context.Context, launches map[string]string) (ended int, err error) {
	own := ownCgroup()
	if own == "" {
		return 0, nil
	}
	entries, err := os.ReadDir(own)
	if err != nil {
		return 0, err
	}
	for launch, run := range launches {
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), cgroupName(run, launch)) {
				inside, err := endCgroup(ctx, filepath.Join(own, e.Name()))
				if ended += inside; err != nil {
					return ended, err
				}
			}
		}
	}
	return ended, nil
}

// endCgroup kills what is in a cgroup, waits for it, and removes the cgroup.
func endCgroup(ctx context.Context, dir string) (ended int, err error) {
	if !strings.HasPrefix(filepath.Base(dir), cgroupPrefix) {
		return 0, nil // it is not ours, or none
	}
	for {
		members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if os.IsNotExist(err) {
			return ended, nil
		}
		ended = max(ended, bytes.Count(members, []byte("\n")))
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		if err := removeCgroup(dir); err == nil || os.IsNotExist(err) {
			return ended, nil
		} else if ctx.Err() != nil {
			return ended, err
		}
		time.Sleep(2 * time.Millisecond) // the kernel tells the end of its members to nobody who may not watch it
	}
}

// removeCgroup removes an empty cgroup, and those that were made in it.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(dir)
}

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// inMemory makes a folder in memory for what tests write, where there is room. Most of what they
// wait for is a disk that syncs, and no test can tell: whatever is killed, the machine goes on. What
// is about disks makes its own; make soak writes to the disk that there is.
func inMemory() (dir string, remove func()) {
	const room = 4 << 30
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil || st.Bavail*uint64(st.Bsize) < room {
		return "", func() {}
	}
	dir, err := os.MkdirTemp("/dev/shm", "t") // names of sockets below it must be short
	if err == nil {
		err = os.Chmod(dir, 0o755) // some tests run the command as another user
	}
	if err != nil {
		return "", func() {}
	}
	return dir, func() { os.RemoveAll(dir) }
}

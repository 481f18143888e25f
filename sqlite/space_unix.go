//go:build linux || darwin

package sqlite

import "golang.org/x/sys/unix"

// freeSpace is how many bytes a user may still write to the disk of a folder.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return uint64(st.Bavail) * uint64(st.Bsize), err
}

package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/flow"
)

// refuseNetwork: the locks and shared memory of network file systems are not
// good enough for a write-ahead log.
func refuseNetwork(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if st.Flags&unix.MNT_LOCAL == 0 {
		return fmt.Errorf("%w: %s lies on a network file system (%s): use a folder on a local disk",
			flow.ErrReadOnly, dir, unix.ByteSliceToString(st.Fstypename[:]))
	}
	return nil
}

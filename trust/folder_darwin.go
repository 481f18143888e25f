package trust

import (
	"fmt"
	"syscall"
)

// folderID tells a folder by its number, which may be given away again, and by when it was made.
func folderID(path string) (string, error) {
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d made %d.%09d", s.Ino, s.Birthtimespec.Sec, s.Birthtimespec.Nsec), nil
}

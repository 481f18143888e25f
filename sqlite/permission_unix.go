//go:build unix

package sqlite

import (
	"io/fs"
	"os"
)

// modeBeyond is the mode of a file that allows more than most; 0: it does not.
func modeBeyond(name string, most fs.FileMode) (fs.FileMode, error) {
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm()&^most == 0 {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

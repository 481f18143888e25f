//go:build unix

package sqlite

import (
	"fmt"
	"io/fs"
	"os"
)

// refuseWider refuses a key that others on this machine can read.
func refuseWider(name string, most fs.FileMode) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if have := info.Mode().Perm(); have&^most != 0 {
		return fmt.Errorf("%s has permissions %04o, others may have read the key: run chmod %04o %[1]s, or move it away to get a new one", name, have, most)
	}
	return nil
}

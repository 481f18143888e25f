// Package filestamp tells, without reading a file, whether it is another than it was. What is
// kept of a file's content is kept with its [Stamp], and only if that [Stamp.Settled] before the
// file was read. [Open] and [Digest] read one that may have become anything meanwhile.
package filestamp

import (
	"io/fs"
	"time"
)

// Stamp is what a file cannot be changed without: nobody can set its time of change.
type Stamp struct {
	Mode          fs.FileMode
	Size          int64
	Modified      int64 // nanoseconds
	Changed       int64 // likewise; 0: the system does not tell
	Device, Inode int64
}

// How far the clock of a file system may lag behind, of one that knows parts of a second and of
// one that does not: two changes within that can have the same time.
const (
	fine   = 100 * time.Millisecond
	coarse = 3 * time.Second
)

// Of is the stamp of a file.
func Of(info fs.FileInfo) Stamp {
	s := Stamp{Mode: info.Mode(), Size: info.Size(), Modified: info.ModTime().UnixNano()}
	s.look(info.Sys())
	return s
}

// Settled reports whether a change of the file from now on would show in its stamp.
func (s Stamp) Settled() bool {
	least := fine
	if s.Changed%int64(time.Second) == 0 {
		least = coarse
	}
	return s.Changed != 0 && time.Since(time.Unix(0, s.Changed)) > least
}

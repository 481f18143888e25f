package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/flow"
)

// FullError is a disk without room for what was to be written.
type FullError struct {
	Path string // of something on it
	Need int64  // bytes that were to be written; 0: not known
	Free int64
	Err  error // of whoever wrote; nil: nothing was begun
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("the disk is full at %s (%s free", e.Path, amount(e.Free))
	if e.Need > 0 {
		text += ", " + amount(e.Need) + " needed"
	}
	if text += ")"; e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *FullError) Unwrap() []error { return []error{e.Err, syscall.ENOSPC} }

func amount(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// noRoom reports whether something was not written because there is no room on a disk, or of
// the user's on it.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, flow.ErrStoreFull)
}

// fullText is an error of a full disk, in words that say so.
func fullText(err error) string {
	var full *FullError
	if errors.As(err, &full) {
		return err.Error()
	}
	return "the disk is full: " + err.Error()
}

// leastRoom is what git and other programs leave of a disk that is full for them: less than
// the next block that they write.
const leastRoom = 64 << 10

// fullest is the one of some places whose disk has the least room.
func fullest(places ...string) (at string, free int64) {
	for _, place := range places {
		var st unix.Statfs_t
		if place == "" || unix.Statfs(place, &st) != nil {
			continue
		}
		if room := int64(st.Bavail) * int64(st.Bsize); at == "" || room < free {
			at, free = place, room
		}
	}
	return at, free
}

// fullWords are what git says of a disk that is full.
var fullWords = []string{"No space left on device", "Out of diskspace", "Disk quota exceeded"}

// full says, of a program that has failed, whether the disk of one of the places where it
// writes is why. git does not always say it.
func full(err error, places ...string) error {
	var exit *ExitError
	if !errors.As(err, &exit) {
		return err
	}
	at, free := fullest(places...)
	said := slices.ContainsFunc(fullWords, func(words string) bool { return strings.Contains(exit.Stderr, words) })
	if said || at != "" && free < leastRoom && strings.Contains(exit.Stderr, "unable to ") {
		return &FullError{Path: at, Free: free, Err: err}
	}
	return err
}

package supervisor

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Outlet is what a program prints, on one of its outputs. It ends soon after the last
// process that the program has started, and soon after the program itself if that has no
// reaper: then a descendant may hold the pipe open for good. All that the program had
// printed itself is read before, however late the reader comes.
type Outlet struct {
	file *os.File
	late int // how much was read after the time for reading was over
}

// maxPipe is more than any pipe of ours holds: what is beyond was written later.
const maxPipe = 1 << 20

func (o *Outlet) Read(p []byte) (int, error) {
	n, err := o.file.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) || o.late >= maxPipe {
		return n, err
	}
	if n, there := o.now(p); there != nil {
		return n, there
	} else if n > 0 {
		o.late += n
		return n, nil
	}
	return 0, err
}

// Close stops whoever reads.
func (o *Outlet) Close() error { return o.file.Close() }

// now reads what lies in the pipe without waiting. 0 without an error: there is nothing now.
func (o *Outlet) now(p []byte) (n int, err error) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var read error
	if err := raw.Control(func(fd uintptr) {
		for n, read = syscall.Read(int(fd), p); errors.Is(read, syscall.EINTR); {
			n, read = syscall.Read(int(fd), p)
		}
	}); err != nil {
		return 0, err
	}
	switch {
	case errors.Is(read, syscall.EAGAIN):
		return 0, nil
	case read != nil:
		return 0, &os.PathError{Op: "read", Path: o.file.Name(), Err: read}
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// drain leaves a reader this long to come to the end.
func (o *Outlet) drain(limit time.Duration) {
	_ = o.file.SetReadDeadline(time.Now().Add(limit)) // an error means that it is closed
}

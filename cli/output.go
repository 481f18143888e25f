package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// output is one of the two streams. The first error is kept and ends all
// writing: a reader that went away must not hurt what is going on here, and a
// loop that only feeds it can ask whether to stop.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}

// failure is the error that ended writing, if any.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// hungUp reports whether a write failed because nobody reads any more, which is
// no fault: `tipstaff events @ | head`.
func hungUp(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed)
}

// writeJSON prints v as one line on standard output.
func (a *app) writeJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.writeLine(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// writeLine prints stored JSON. A pipe gets the very bytes; on a terminal what
// does not print is escaped, which leaves the meaning of JSON as it was.
func (a *app) writeLine(raw []byte) error {
	line := string(raw)
	if a.env.StdoutTTY {
		line = clean(line)
	}
	_, err := io.WriteString(a.out, line+"\n")
	return err
}

package tool

import (
	"io"
	"strings"
	"sync"
)

const (
	keptErrors = 64 << 10 // bytes of what a server printed last
	toldErrors = 1000     // of these, bytes that a message repeats
)

// tail keeps the last of what a server prints to its error output, without
// credentials. Whatever a server prints is read, so that it never blocks.
type tail struct {
	mu    sync.Mutex
	clean stream
	kept  []byte // the last, up to twice keptErrors
	ended chan struct{}
}

func newTail(r *Redactor) *tail {
	return &tail{clean: stream{redactor: r}, ended: make(chan struct{})}
}

// follow reads until the end.
func (t *tail) follow(r io.Reader) {
	defer close(t.ended)
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		t.add(buffer[:n], err != nil)
		if err != nil {
			return
		}
	}
}

func (t *tail) add(piece []byte, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.clean.next(string(piece))
	if last {
		text += t.clean.rest()
	}
	t.kept = append(t.kept, text...)
	if len(t.kept) > 2*keptErrors {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-keptErrors:]...)
	}
}

// last is the end of what was printed, as much as a person wants to read in a
// message; whole lines if that is possible.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "�"))
	if len(text) <= toldErrors {
		return text
	}
	text = strings.ToValidUTF8(text[len(text)-toldErrors:], "")
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		text = rest
	}
	return "…" + text
}

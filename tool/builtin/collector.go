package builtin

import (
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/supervisor"
)

const (
	maxOutput  = 1 << 20 // kept of each channel; the rest is read and dropped
	pieceSize  = 1 << 10 // a piece is handed on when it has this size,
	pieceDelay = 500 * time.Millisecond
)

// collector keeps what a program prints to one channel, and hands it on in
// pieces while it runs.
type collector struct {
	channel   string
	emit      func(Output)
	kept      strings.Builder
	truncated bool
	ended     chan struct{} // closed when all was read

	mu      sync.Mutex // guards pending and timer, and keeps pieces in order
	pending []byte
	spoke   bool // a piece was handed on
	timer   *time.Timer
}

// collect reads what a program prints. emit is never called concurrently; nil: not
// wanted.
func collect(p *supervisor.Process, emit func(Output)) (stdout, stderr *collector) {
	if each := emit; each != nil {
		var mu sync.Mutex
		emit = func(piece Output) {
			mu.Lock()
			defer mu.Unlock()
			each(piece)
		}
	}
	stdout, stderr = newCollector("stdout", emit), newCollector("stderr", emit)
	go stdout.readFrom(p.Stdout())
	go stderr.readFrom(p.Stderr())
	return stdout, stderr
}

func newCollector(channel string, emit func(Output)) *collector {
	return &collector{channel: channel, emit: emit, ended: make(chan struct{})}
}

// text waits for the end, and is all that was kept.
func (c *collector) text() string {
	<-c.ended
	return strings.ToValidUTF8(c.kept.String(), "\uFFFD")
}

// readFrom reads to the end, and hands on a final piece.
func (c *collector) readFrom(r io.Reader) {
	defer close(c.ended)
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		c.take(buffer[:n])
		if err != nil {
			c.flush(true)
			return
		}
	}
}

func (c *collector) take(data []byte) {
	if room := maxOutput - c.kept.Len(); len(data) > room {
		data, c.truncated = data[:room], true
	}
	if len(data) == 0 {
		return
	}
	c.kept.Write(data)
	if c.emit == nil {
		return
	}
	c.mu.Lock()
	c.pending = append(c.pending, data...)
	due := len(c.pending) >= pieceSize
	if !due && c.timer == nil {
		c.timer = time.AfterFunc(pieceDelay, func() { c.flush(false) })
	}
	c.mu.Unlock()
	if due {
		c.flush(false)
	}
}

// flush hands on what is pending. A character whose last bytes are still to come
// waits for them, unless nothing more comes.
func (c *collector) flush(final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.emit == nil {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	piece := c.pending
	if !final {
		piece = piece[:wholeRunes(piece)]
	}
	if len(piece) == 0 && (!final || !c.spoke) {
		return // nothing to say, and nothing that would have to be ended
	}
	c.spoke = true
	c.emit(Output{c.channel, strings.ToValidUTF8(string(piece), "\uFFFD"), final})
	c.pending = append([]byte(nil), c.pending[len(piece):]...)
	if final {
		c.emit = nil
	}
}

// wholeRunes is the length of b without a character that is cut off at its end.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// Output is a piece of what a program prints while it runs.
type Output struct {
	Channel string // stdout, stderr
	Chunk   string
	Final   bool // the last of its channel
}

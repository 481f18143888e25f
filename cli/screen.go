package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// screen keeps a block of lines on a terminal and paints over it in place. What
// is painted is one write, without clearing first, so nothing flickers. The
// cursor rests below the block. Of no screen, nil, nothing is painted.
type screen struct {
	mu        sync.Mutex
	w         io.Writer
	size      func() (width, height int)
	colored   bool
	widths    []int // of the lines on the terminal
	last      string
	suspended int // how many others write at the moment
}

// paint shows a frame that draw makes for the terminal's present size.
func (s *screen) paint(draw func(width, height int) []line) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended > 0 {
		return
	}
	width, height := s.size()
	// A full last column makes some terminals wrap, a full last row makes them scroll.
	lines := draw(max(1, width-1), max(1, height-1))
	var body strings.Builder
	widths := make([]int, len(lines))
	for i, l := range lines {
		widths[i] = l.cells()
		body.WriteString(l.text(s.colored))
		body.WriteString("\x1b[K\n")
	}
	frame := body.String()
	if frame == s.last && (frame == "" || len(s.widths) > 0) {
		return
	}
	io.WriteString(s.w, upOver(s.widths, 0, width)+frame+"\x1b[J")
	s.widths, s.last = widths, frame
}

// upOver moves the cursor to the first of rows above it, given their widths. What was
// painted when the terminal was wider takes more rows by now.
func upOver(widths []int, rows, width int) string {
	for _, w := range widths {
		rows += max(1, (w+width-1)/width)
	}
	if rows == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", rows)
}

// suspend takes the block away until resume: someone else writes meanwhile.
func (s *screen) suspend() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	width, _ := s.size()
	if len(s.widths) > 0 {
		io.WriteString(s.w, upOver(s.widths, 0, width)+"\x1b[J")
	}
	s.widths, s.last = nil, ""
	s.suspended++
}

// leave lets the block stand as it is until resume: someone else writes below it. The
// next one is painted below that.
func (s *screen) leave() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.widths, s.last = nil, ""
	s.suspended++
}

func (s *screen) resume() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended--
}

package tipstaff

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"sync"
)

// Typed is input that a person types at a terminal. What was typed waits there, and
// can be dropped, until it is taken.
type Typed interface {
	// Wait waits until something can be taken, or for ctx, and returns its cause.
	Wait(ctx context.Context) error
	// Take reads what there is, without waiting: it may be nothing.
	Take(p []byte) (int, error)
	// Drop discards all that was typed and not taken, also a line that was not entered.
	Drop()
}

// LineReader reads lines that somebody may stop waiting for, as those of a person
// at a terminal. It serves one question at a time.
//
// A read from other input than [Typed] cannot be taken back, so one is left behind
// and the next question takes it over.
type LineReader struct {
	typed  Typed         // nil: the input is no terminal
	source io.Reader     // else, and
	in     *bufio.Reader // what was read of it

	mu      sync.Mutex
	taken   []byte         // of what was typed
	begun   chan typedLine // nil: no read is under way
	waiting bool           // somebody waits for it
	ended   error          // input that has ended stays so, also where a terminal would go on
}

type typedLine struct {
	text string
	err  error
}

// NewLineReader reads from in, which is then for nobody else to read. A Reader that
// implements [Typed] is a terminal.
func NewLineReader(in io.Reader) *LineReader {
	if t, ok := in.(Typed); ok {
		return &LineReader{typed: t}
	}
	return &LineReader{source: in, in: bufio.NewReader(in)}
}

// Line waits for a line, and returns it with its end, or for ctx, and returns its
// cause. A last line without an end was never entered.
func (l *LineReader) Line(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if l.typed != nil {
		return l.typedLine(ctx)
	}
	begun, err := l.begin()
	if err != nil {
		return "", err
	}
	select {
	case t := <-begun:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.take(t)
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting = false
		return "", context.Cause(ctx)
	}
}

// typedLine waits outside of the lock and takes inside of it: so all that was typed
// before Forget is either still at the terminal or taken already, and nothing lies
// between.
func (l *LineReader) typedLine(ctx context.Context) (string, error) {
	for {
		line, ok, err := l.takeTyped()
		if ok || err != nil {
			return line, err
		}
		if err := l.typed.Wait(ctx); err != nil {
			return "", err
		}
	}
}

// takeTyped is the next line, if all of it was typed.
func (l *LineReader) takeTyped() (line string, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil && bytes.IndexByte(l.taken, '\n') < 0 {
		var p [4096]byte
		n, err := l.typed.Take(p[:])
		l.taken, l.ended = append(l.taken, p[:n]...), err
	}
	if before, after, found := bytes.Cut(l.taken, []byte("\n")); found {
		line, l.taken = string(before)+"\n", after
		return line, true, nil
	}
	return "", false, l.ended
}

func (l *LineReader) begin() (<-chan typedLine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return nil, l.ended
	}
	l.waiting = true
	if l.begun == nil {
		begun := make(chan typedLine, 1)
		l.begun = begun
		go func() {
			text, err := l.in.ReadString('\n')
			begun <- typedLine{text, err}
		}()
	}
	return l.begun, nil
}

func (l *LineReader) take(t typedLine) (string, error) {
	l.begun, l.waiting, l.ended = nil, false, t.err
	if t.err != nil {
		return "", t.err
	}
	return t.text, nil
}

// Forget drops what was typed before a question is asked. It is called when all that
// the question is about was shown, and before the prompt is: whoever sees the prompt
// can answer at once. Of input that is no terminal it drops only a line that was read
// as the answer to an earlier question, which nobody waits for any more; a script may
// hold all its answers ready.
func (l *LineReader) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.typed != nil {
		l.typed.Drop()
		l.taken = nil
		return
	}
	if f, ok := l.source.(interface{ Forget() }); ok { // it takes its lines from elsewhere
		f.Forget()
	}
	if l.waiting {
		return
	}
	select {
	case t := <-l.begun:
		_, _ = l.take(t)
	default:
	}
}

package tipstaff

import (
	"bufio"
	"context"
	"io"
)

// LineReader reads lines that somebody may stop waiting for, as those of a person
// at a terminal. A read from a terminal cannot be taken back, so one is left behind
// and the next question takes it over. It serves one question at a time.
type LineReader struct {
	in    *bufio.Reader
	begun chan typedLine // nil: no read is under way
	ended error          // input that has ended stays so, also where a terminal would go on
}

type typedLine struct {
	text string
	err  error
}

// NewLineReader reads from in, which is then for nobody else to read.
func NewLineReader(in io.Reader) *LineReader { return &LineReader{in: bufio.NewReader(in)} }

// Line waits for a line, and returns it with its end, or for ctx, and returns its
// cause. A last line without an end was never entered.
func (l *LineReader) Line(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if l.ended != nil {
		return "", l.ended
	}
	if l.begun == nil {
		l.begin()
	}
	select {
	case t := <-l.begun:
		return l.take(t)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (l *LineReader) begin() {
	begun := make(chan typedLine, 1)
	l.begun = begun
	go func() {
		text, err := l.in.ReadString('\n')
		begun <- typedLine{text, err}
	}()
}

func (l *LineReader) take(t typedLine) (string, error) {
	l.begun, l.ended = nil, t.err
	if t.err != nil {
		return "", t.err
	}
	return t.text, nil
}

// Forget drops a line that was typed as the answer to an earlier question.
func (l *LineReader) Forget() {
	select {
	case t := <-l.begun:
		_, _ = l.take(t)
	default:
	}
}

package cli

import (
	"context"
	"io"
	"sync"
)

// answerReader lets an approver, which reads from a Reader, take lines from where
// those who ask about other gates take theirs. A Read cannot be taken back: one
// that nobody waits for any more is served when the next question is asked.
type answerReader struct {
	wanted chan struct{}
	given  chan string // "": the input has ended
	rest   string
	owed   bool // a Read waits that has not been served

	mu    sync.Mutex
	src   lineSource    // of the question that is open; nil: none is
	shown chan struct{} // closed when it is about to be asked
}

func newAnswerReader() *answerReader {
	return &answerReader{wanted: make(chan struct{}), given: make(chan string)}
}

func (r *answerReader) Read(p []byte) (int, error) {
	if r.rest == "" {
		r.wanted <- struct{}{}
		if r.rest = <-r.given; r.rest == "" {
			return 0, io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Forget drops what was typed before a question is asked: whoever asks calls it when
// all was shown.
func (r *answerReader) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.src == nil {
		return
	}
	r.src.Forget()
	select {
	case <-r.shown:
	default:
		close(r.shown)
	}
}

// open begins a question whose answers come from src.
func (r *answerReader) open(src lineSource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.src, r.shown = src, make(chan struct{})
}

// close ends it.
func (r *answerReader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.src = nil
}

// serve gives lines of src to whoever reads, while a question is open.
func (r *answerReader) serve(ctx context.Context, src lineSource) {
	if r.owed { // what is typed before the question was shown is not for this Read
		select {
		case <-r.shown:
		case <-ctx.Done():
			return
		}
	}
	for {
		if !r.owed {
			select {
			case <-r.wanted:
				r.owed = true
			case <-ctx.Done():
				return
			}
		}
		text, err := src.Line(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			text = ""
		default:
			text = ended(text)
		}
		r.given <- text
		r.owed = false
	}
}

// ended is text that ends with a line.
func ended(s string) string {
	if n := len(s); n > 0 && s[n-1] == '\n' {
		return s
	}
	return s + "\n"
}

package cli

import (
	"context"
	"io"
)

// answerReader lets an approver, which reads from a Reader, take lines from where
// those who ask about other gates take theirs. A Read cannot be taken back: one
// that nobody waits for any more is served when the next question is asked.
type answerReader struct {
	wanted chan struct{}
	given  chan string // "": the input has ended
	rest   string
	owed   bool // a Read waits that has not been served
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

// serve gives lines of src to whoever reads, while a question is open.
func (r *answerReader) serve(ctx context.Context, src lineSource) {
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

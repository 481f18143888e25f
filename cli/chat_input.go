package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxMessage = 1 << 20         // bytes of a message, with what is piped in
	maxCounted = 64 << 20        // how far more than that is counted
	inputWait  = 2 * time.Second // then it is said what is waited for
)

// message is the argument and, below it, what standard input holds. Beside an argument a
// pipe or a file is read; without one, whatever standard input is. It may be empty where
// a session can be gone on with all the same.
func (o *chatOptions) message(ctx context.Context, args []string) (string, error) {
	text, given := strings.Join(args, ""), len(args) > 0
	if given && strings.TrimSpace(text) == "" {
		return "", &usageError{message: "the message is empty", hint: `say something: tipstaff chat "How full is the disk?"`}
	}
	if given && !o.env.StdinPiped {
		return text, nil
	}
	piped, err := o.standardInput(ctx, maxMessage-len(text)-len("\n\n"))
	switch {
	case err != nil:
		return "", err
	case strings.TrimSpace(piped) != "" && given:
		text += "\n\n" + strings.TrimRight(piped, "\n")
	case !given:
		text = strings.TrimRight(piped, "\n")
	}
	if strings.TrimSpace(text) == "" && !o.goesOn() {
		return "", errNoMessage
	}
	return strings.TrimRight(text, "\n"), nil
}

var errNoMessage = &usageError{message: "there is no message", hint: `give one: tipstaff chat "How full is the disk?"`}

// standardInput is the text that comes in, of which there is room for some.
func (o *chatOptions) standardInput(ctx context.Context, room int) (string, error) {
	var kept bytes.Buffer
	size, waits := 0, time.After(inputWait)
	pieces := o.pieces(ctx)
	for size <= maxCounted {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-waits:
			fmt.Fprintln(o.err, "waiting for standard input to end; with nothing to read, use < /dev/null")
			continue
		case p, more := <-pieces:
			if !more {
				return checkedInput(kept.Bytes(), size, room)
			}
			if p.err != nil {
				return "", &usageError{message: "standard input cannot be read: " + p.err.Error()}
			}
			waits, size = nil, size+len(p.data)
			kept.Write(p.data[:min(len(p.data), max(0, room+1-kept.Len()))])
		}
	}
	return checkedInput(kept.Bytes(), size, room)
}

// checkedInput refuses what is not text, or too long.
func checkedInput(text []byte, size, room int) (string, error) {
	at := bytes.IndexByte(text, 0)
	for i := 0; i < len(text) && at < 0; {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 && (size == len(text) || len(text)-i >= utf8.UTFMax) { // else it may have been cut here
			at = i
		}
		i += n
	}
	switch {
	case at >= 0:
		return "", &usageError{message: fmt.Sprintf("standard input is not text: byte %d is not UTF-8", at+1), hint: "a message is text; let a tool read the file, or convert it first"}
	case size > maxCounted:
		return "", tooLong(fmt.Sprintf("more than %d", maxCounted))
	case size > room:
		return "", tooLong(fmt.Sprint(size))
	}
	return string(text), nil
}

func tooLong(size string) error {
	return &usageError{message: fmt.Sprintf("standard input has %s bytes: a message has at most %d, with all that is piped in", size, maxMessage),
		hint: "let the agent read a file, or send a part"}
}

// piece is some of what standard input holds.
type piece struct {
	data []byte
	err  error
}

// pieces reads standard input beside whoever waits for it.
func (o *chatOptions) pieces(ctx context.Context) <-chan piece {
	pieces := make(chan piece)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 64<<10)
			n, err := o.env.Stdin.Read(buffer)
			p := piece{data: buffer[:n]}
			if err != nil && !errors.Is(err, io.EOF) {
				p.err = err
			}
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return pieces
}

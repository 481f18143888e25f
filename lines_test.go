package tipstaff_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff"
)

func TestLinesEndWithTheInput(t *testing.T) {
	l := tipstaff.NewLineReader(strings.NewReader("one\ntwo\r\nhalf"))
	for _, want := range []string{"one\n", "two\r\n"} {
		if got, err := l.Line(t.Context()); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	for range 2 {
		if got, err := l.Line(t.Context()); got != "" || !errors.Is(err, io.EOF) {
			t.Errorf("half a line is %q, %v", got, err)
		}
	}
}

// A question that is given up leaves its read to the next one.
func TestALineIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, keys := io.Pipe()
		l := tipstaff.NewLineReader(in)
		over := errors.New("answered elsewhere")
		ctx, stop := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			stop(over)
		}()
		if got, err := l.Line(ctx); !errors.Is(err, over) {
			t.Fatalf("%q, %v", got, err)
		}
		if got, err := l.Line(ctx); !errors.Is(err, over) {
			t.Errorf("a question that nobody waits for was answered: %q, %v", got, err)
		}
		go io.WriteString(keys, "yes\n")
		if got, err := l.Line(t.Context()); err != nil || got != "yes\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// What was typed for an earlier question answers no later one.
func TestAnEarlierAnswerIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, keys := io.Pipe()
		l := tipstaff.NewLineReader(in)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			stop()
		}()
		l.Line(ctx)
		go io.WriteString(keys, "yes\n")
		synctest.Wait()
		l.Forget()
		l.Forget() // nothing is left
		go io.WriteString(keys, "no\n")
		if got, err := l.Line(t.Context()); err != nil || got != "no\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// keyboard is a terminal whose queue the test fills.
type keyboard struct {
	mu    sync.Mutex
	queue []byte
	typed chan struct{}
}

func (k *keyboard) types(text string) {
	k.mu.Lock()
	k.queue = append(k.queue, text...)
	k.mu.Unlock()
	select {
	case k.typed <- struct{}{}:
	default:
	}
}

func (k *keyboard) Wait(ctx context.Context) error {
	select {
	case <-k.typed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *keyboard) Take(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := copy(p, k.queue)
	k.queue = k.queue[n:]
	return n, nil
}

func (k *keyboard) Drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = nil
}

func (*keyboard) Read([]byte) (int, error) { panic("a terminal is waited for and taken from") }

// What was typed before a question is dropped, wherever it waits: at the terminal, behind
// a line that was taken, and as the beginning of a line that somebody has waited for.
func TestForgetEmptiesATerminal(t *testing.T) {
	k := &keyboard{typed: make(chan struct{}, 1)}
	l := tipstaff.NewLineReader(k)
	line := func(want string) {
		t.Helper()
		if got, err := l.Line(t.Context()); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	k.types("before\n")
	l.Forget()
	k.types("one\ntwo\nthr")
	line("one\n")
	line("two\n")
	l.Forget()
	k.types("ee\n")
	line("ee\n")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	k.types("begun")
	if got, err := l.Line(ctx); got != "" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %q, %v", got, err)
	}
	l.Forget()
	k.types("!\n")
	line("!\n")
}

package tipstaff_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

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

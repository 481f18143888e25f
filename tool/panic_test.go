package tool_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

func frailBench(t *testing.T) (*bench, *wireServer) {
	s := okServer(echoTool)
	s.reply = func(w *wireCall) { w.result(`{"content":[]}`) }
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {}})
	s.frail.Store(true)
	return b, s
}

// A panic on the way of a call is the call's failure; the next one finds a new
// connection.
func TestPanicIsTheFailureOfItsCall(t *testing.T) {
	b, s := frailBench(t)
	value, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
	e := wantCode(t, tool.CodePanic, value, err)
	contains(t, e.Message, "no such luck")
	if e.Answered || e.NotSent || e.Retry {
		t.Errorf("got %+v", e)
	}
	s.frail.Store(false)
	for {
		value, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
		if err == nil {
			if string(value) != `""` || s.called() != 1 {
				t.Errorf("got %s, called %d times", value, s.called())
			}
			return
		}
		var failed *flow.Error
		if !errors.As(err, &failed) || failed.Code != tool.CodeUnavailable { // the old one is still being closed
			t.Fatal(err)
		}
	}
}

// Of a call that may be made once nobody knows what became of it: the engine must see
// the panic, and takes the call for in doubt.
func TestPanicOfOnceIsLeftToTheEngine(t *testing.T) {
	b, _ := frailBench(t)
	defer func() {
		if p := recover(); p != "no such luck" {
			t.Errorf("what came was %v", p)
		}
	}()
	value, err := b.try(context.Background(), wireAttempt("echo", flow.Once, `{}`))
	t.Errorf("it came back with %s, %v", value, err)
}

// What panics while it connects is not available, and the process lives.
func TestPanicWhileConnecting(t *testing.T) {
	s := okServer(echoTool)
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {}})
	s.dial = func() error { panic("no such luck") }
	value, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
	contains(t, wantCode(t, tool.CodeUnavailable, value, err).Message, "no such luck")
}

package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// jammed is a handler that does not come back before it is let go.
type jammed struct {
	slog.Handler
	free chan struct{}
}

func (s jammed) Handle(ctx context.Context, r slog.Record) error {
	<-s.free
	return s.Handler.Handle(ctx, r)
}

func TestTheLogNeverMakesADriveWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		free := make(chan struct{})
		tel := New("", &out)
		tel.observers = []observer{agent.NewCallLog(slog.New(jammed{slog.NewJSONHandler(&out, nil), free}), nil)}
		const path = "turn/tool#1.1"
		for range 100 {
			tel.appended("r", []flow.Draft{draft("agent.tool_call_request", path, `{"id":"c"}`), draft("agent.tool_call_result", path, `{"id":"c"}`)})
		}
		closed := false
		go func() { tel.Close(); closed = true }()
		synctest.Wait()
		if closed {
			t.Error("it says that all is written, and nothing is")
		}
		close(free)
		synctest.Wait()
		if got := strings.Count(out.String(), "\n"); got != 100 || !closed {
			t.Errorf("%d lines", got)
		}
	})
}

func TestTracesURL(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://otel:4318":              "http://otel:4318/v1/traces",
		"http://otel:4318/":             "http://otel:4318/v1/traces",
		"https://otel.example.com/here": "https://otel.example.com/here",
	} {
		if got := tracesURL(endpoint); got != want {
			t.Errorf("%s: %s, want %s", endpoint, got, want)
		}
	}
}

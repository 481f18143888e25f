package runner_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

// Code that panics below a stage is no failure of the stage, which could route on as if
// it had been judged: nothing is recorded of it, its run alone is interrupted, and
// whoever resumes does the stage again, and none that had finished.
func TestAPanicBelowAStageInterruptsItsRunAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.withModel("")
	var calls, firsts atomic.Int64
	b.says = func(r agent.Request) agent.Response {
		last := r.Messages[len(r.Messages)-1].Text
		if strings.Contains(last, "first") {
			firsts.Add(1)
		}
		if strings.Contains(last, "fragile") && calls.Add(1) == 1 {
			panic("no such luck")
		}
		return agent.Response{Text: "{}"}
	}
	const doc = `
name: fragile
agents:
  - {name: before, stage_order: 1, default_next: ask, model: {name: main, prompt: first}}
  - {name: ask, stage_order: 2, default_next: end, error_next: fixed, max_retries: 1, model: {name: main, prompt: fragile}}
  - {name: fixed, stage_order: 3, scripted: {answers: [{output: {}}]}}
`
	run, driven := b.pipe(doc)
	if got := b.get(run); driven.Outcome != "interrupted" || driven.Reason != "panic" || got.Status != tipstaff.StatusInterrupted {
		t.Fatalf("it is %+v, %s", driven, got.Status)
	}
	for _, e := range b.events(run) {
		if e.Path == "ask#1" && (e.Kind == tipstaff.KindStageFinished || e.Kind == tipstaff.KindStageRetrying) || strings.HasPrefix(e.Path, "fixed") {
			t.Errorf("of the stage is recorded: %s %s %s", e.Kind, e.Path, e.Body)
		}
	}
	other, driven := b.pipe("name: other\nagents: [{name: a, model: {name: main, prompt: another}}]")
	if driven.State != tipstaff.Completed {
		t.Errorf("another run is %+v", driven)
	}
	if driven := b.resume(run); driven.State != tipstaff.Completed {
		t.Errorf("resumed it is %+v", driven)
	}
	env := b.envelope(run)
	if env.Reason != "completed" || env.Visits["ask"] != 1 || env.Visits["fixed"] != 0 || firsts.Load() != 1 {
		t.Errorf("it ended for %s with the visits %v; the first stage asked %d times", env.Reason, env.Visits, firsts.Load())
	}
	b.verified(run)
	b.verified(other)
}

// frail is a server to which a call cannot be written without a panic.
type frail struct{ reporting }

func (s frail) Transport(ctx context.Context) (mcp.Transport, error) {
	t, err := s.reporting.Transport(ctx)
	return frailTransport{t}, err
}

type frailTransport struct{ mcp.Transport }

func (t frailTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return frailConn{c}, err
}

type frailConn struct{ mcp.Connection }

func (c frailConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "tools/call" {
		panic("no such luck")
	}
	return c.Connection.Write(ctx, m)
}

// A panic of what calls a tool fails the attempt, and leads where failures lead.
func TestAPanicOfAToolCallFailsItsStage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ next, reason string }{
		"routed": {"error_next: fixed, ", "completed"},
		"fatal":  {"", "tool_failed_fatally"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.declare("slow", "{work: {effect: read}}", frail{})
			run, _ := b.pipe(`
name: frail
agents:
  - {name: work, stage_order: 1, default_next: end, max_retries: 2, ` + c.next + `tool: {uri: "mcp://slow/work@1.0.0", args: {}}}
  - {name: fixed, stage_order: 2, default_next: end, scripted: {answers: [{output: {}}]}}
`)
			env := b.envelope(run)
			if string(env.Reason) != c.reason || env.Visits["work"] != 1 {
				t.Errorf("it ended for %s with the visits %v", env.Reason, env.Visits)
			}
			finished := 0
			for _, e := range b.events(run) {
				if e.Kind == tipstaff.KindStageFinished && strings.Contains(string(e.Body), `"stage":"work"`) {
					finished++
					if text := string(e.Body); !strings.Contains(text, `"code":"panic"`) || !strings.Contains(text, `"attempts":1`) || !strings.Contains(text, "no such luck") {
						t.Error(text)
					}
				}
			}
			if finished != 1 {
				t.Errorf("the stage finished %d times", finished)
			}
			b.verified(run)
		})
	}
}

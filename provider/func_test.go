package provider

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
)

func TestFuncKeepsCopiesOfRequests(t *testing.T) {
	m := Func(func(_ context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
		emit(agent.Delta{Channel: agent.ChannelAnswer, Text: "Hi"})
		r.Messages[0].Text = "changed by the function"
		return agent.Response{Text: "Hi", Reason: agent.ReasonStop}, nil
	})
	r := story()
	r.Messages[1].Opaque = json.RawMessage(`{}`)
	r.Messages[1].Usage = &agent.Usage{CostUSD: new(agent.USD)}
	r.OutputSchema = json.RawMessage(`{"type":"object"}`)
	want := copyRequest(r)
	if h := ask(t, m, r); h.err != nil || h.Text != "Hi" {
		t.Fatalf("%+v, %v", h.Response, h.err)
	}
	for range 2 {
		got := m.Requests()
		if diff := cmp.Diff([]agent.Request{want}, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		// Whatever is done to a copy, the next one is as it was.
		*got[0].Temperature = 9
		got[0].OutputSchema[0], got[0].Tools[0].Schema[0] = 'x', 'x'
		got[0].Messages[1].Opaque[0], got[0].Messages[2].Content[1].Data[0] = 'x', 'x'
		*got[0].Messages[1].Usage.CostUSD, got[0].Messages[1].Calls[0].ID = 9, "x"
	}
}

func TestFuncMayPanic(t *testing.T) {
	m := Func(func(context.Context, agent.Request, func(agent.Delta)) (agent.Response, error) {
		panic("as a test wants")
	})
	defer func() {
		if recover() == nil || len(m.Requests()) != 1 {
			t.Error("the panic was swallowed, or the request not noted")
		}
	}()
	_, _ = m.Stream(context.Background(), agent.Request{}, nil)
}

func TestFuncCaps(t *testing.T) {
	m := Func(nil)
	if c := m.Caps(); m.Name() != "func" || c.ContextWindow == 0 || c.Price == nil {
		t.Errorf("%s: %+v", m.Name(), c)
	}
	m.Limits.ContextWindow = 7
	if m.Caps().ContextWindow != 7 {
		t.Error("Limits have no effect")
	}
}

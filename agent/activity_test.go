package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

func TestAModelIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(nil)
		b.model.answer = func(r agent.Request) (agent.Response, error) {
			if r.Attempt < 3 {
				return agent.Response{Text: "Half of an"}, &flow.Error{Code: "stream_truncated", Retry: true}
			}
			return say("The whole answer."), nil
		}
		b.take(t)
		m := of[*agent.MessageDone](b)
		if b.err != nil || len(m) != 1 || m[0].Attempts != 3 || m[0].Text != "The whole answer." {
			t.Errorf("%v %+v", b.err, m)
		}
		// Each attempt begins its text anew; the last is the message.
		text := ""
		for _, d := range b.told {
			var delta agent.TextDelta
			if err := json.Unmarshal(d.Body, &delta); err != nil {
				t.Fatal(err)
			}
			if delta.Offset == 0 {
				text = ""
			}
			text += delta.Text
		}
		if text != "The whole answer." {
			t.Errorf("the deltas end in %q", text)
		}
	})
}

func TestAModelIsAskedFiveTimesAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(func(agent.Request) (agent.Response, error) {
			return agent.Response{Text: "Half"}, &flow.Error{Code: "stream_truncated", Retry: true}
		})
		b.take(t)
		if codeOf(b.err) != "stream_truncated" || len(b.model.requests) != 5 {
			t.Errorf("%v after %d attempts", b.err, len(b.model.requests))
		}
		if last := b.out.Messages[len(b.out.Messages)-1]; last.Text != "Half" || !last.Partial {
			t.Errorf("the session ends with %+v", last)
		}
	})
}

func TestWhatAModelCallUses(t *testing.T) {
	price := agent.Price{Input: 1_000_000_000, Output: 2_000_000_000} // 1 and 2 USD a million
	for name, c := range map[string]struct {
		answer func(agent.Request) (agent.Response, error)
		want   flow.Use
	}{
		"what was reported": {func(agent.Request) (agent.Response, error) {
			return agent.Response{Text: "x", Reason: agent.ReasonStop, Usage: &agent.Usage{InputTokens: 100, OutputTokens: 10, TotalTokens: 110}}, nil
		}, flow.Use{"model_calls": 1, "tokens": 110, "cost_usd": 120_000}},
		"what was reserved, where nothing was": {func(agent.Request) (agent.Response, error) {
			return agent.Response{Text: "x", Reason: agent.ReasonStop}, nil
		}, flow.Use{"model_calls": 1, "tokens": 1 + 1 + 1000, "cost_usd": 2000 + 2_000_000}},
		"nothing, where it was refused": {func(agent.Request) (agent.Response, error) {
			return agent.Response{}, &flow.Error{Code: "provider_auth", Answered: true}
		}, flow.Use{"model_calls": 1, "tokens": 0, "cost_usd": 0}},
		"all, where nobody knows": {func(agent.Request) (agent.Response, error) {
			return agent.Response{}, &flow.Error{Code: "provider_protocol"}
		}, flow.Use{"model_calls": 1, "tokens": 1 + 1 + 1000, "cost_usd": 2000 + 2_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(c.answer)
			b.cfg.Preamble, b.in.Message = "abc", "xyz" // a token each
			b.cfg.MaxOutputTokens, b.cfg.Caps.Price = 1000, &price
			out := b.take(t)
			if diff := cmp.Diff(c.want, out.Used); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestARecordNamesTheConversationThatWasSent(t *testing.T) {
	b := newBed(steps(call("f__a", `{}`), say("Done.")), aTool("f/a", "read"))
	b.take(t)
	for _, r := range b.model.requests {
		for _, rec := range b.log.Records(theRun) {
			if rec.Kind == "effect.intended" && rec.Path == r.Path && !strings.Contains(string(rec.Body), agent.HeadOf(r.Messages)) {
				t.Errorf("the record of %s does not name what was sent: %s", r.Path, rec.Body)
			}
		}
	}
}

func TestACatalogThatCannotBeRead(t *testing.T) {
	b := newBed(steps(say("hello")))
	b.jobs = func(j *flow.Job) {
		j.Acts[agent.CatalogActivity] = agent.CatalogCall(func(context.Context) (*agent.Catalog, error) {
			return nil, &flow.Error{Code: "tool_unavailable", Message: "nobody is there"}
		})
	}
	b.take(t)
	if codeOf(b.err) != "tool_unavailable" || len(b.model.requests) != 0 {
		t.Errorf("%v after %d requests", b.err, len(b.model.requests))
	}
}

func TestAHopIsReservedWithTheCatalog(t *testing.T) {
	b := newBed(steps(say("hello")))
	b.cfg.Hop = true
	b.jobs = func(j *flow.Job) { j.Limits = flow.Use{"agent_hops": 0} }
	b.take(t)
	if f := of[*agent.Failed](b); len(f) != 1 || f[0].Which != "agent_hops" || len(b.model.requests) != 0 {
		t.Errorf("%+v", f)
	}
}

func TestTheTimeOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := call("f__a", `{}`)
		b := newBed(steps(again, again, again), aTool("f/a", "read"))
		b.cfg.Timeout = 25 * second
		b.world.acts["f/a"] = takes(10 * second)
		b.take(t)
		// Ten seconds, ten more, and five of the third call, in which nothing is left.
		if want := []string{"", "", "timeout"}; codeOf(b.err) != flow.CodeTimeout || !cmp.Equal(b.classes(), want) {
			t.Errorf("%v, results %q", b.err, b.classes())
		}
	})
}

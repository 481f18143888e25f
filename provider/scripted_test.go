package provider

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider/file"
	"github.com/tipstaff/tipstaff/provider/providertest"
)

func openScript(t *testing.T, script string) agent.Model {
	t.Helper()
	m, err := Open(Config{Provider: Scripted, ScriptName: "script.yaml", Script: []byte(script)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnswerIsAFunctionOfTheRequest(t *testing.T) {
	m := openScript(t, "version: 1\nanswers: [{text: one}, {text: two}]\n")
	for range 3 {
		if h := ask(t, m, providertest.Request(nil)); h.Text != "two" {
			t.Errorf("%q, %v", h.Text, h.err)
		}
	}
}

func TestScriptedCalls(t *testing.T) {
	m := openScript(t, `
version: 1
answers:
  - text: Let me see.
    calls:
      - {tool: net/ping, args: {host: "a", n: 3, deep: [1.5, {x: null}], big: 18446744073709551615}}
      - {tool: ops/df, id: mine}
      - {tool: ops/rm, args: "{not json"}
      - {tool: plain_name, args: []}
`)
	h := ask(t, m, providertest.Request(func(r *agent.Request) { r.Messages = r.Messages[:1] }))
	want := []agent.Call{
		{Name: "net__ping_1a2b3c4d", Arguments: `{"big":18446744073709551615,"deep":[1.5,{"x":null}],"host":"a","n":3}`},
		{ID: "mine", Name: "ops__df", Arguments: `{}`},
		{Name: "ops__rm", Arguments: `{not json`},
		{Name: "plain_name", Arguments: `[]`},
	}
	if diff := cmp.Diff(want, h.Calls); diff != "" || h.err != nil {
		t.Errorf("%v, calls (-want +got):\n%s", h.err, diff)
	}
	if h.Reason != agent.ReasonToolCalls || h.Text != "Let me see." {
		t.Errorf("%+v", h.Response)
	}
}

func TestScriptedReasonsAndUsage(t *testing.T) {
	r := providertest.Request(func(r *agent.Request) { r.Messages = r.Messages[:1] })
	for entry, want := range map[string]agent.Reason{
		`{text: a}`:                                  agent.ReasonStop,
		`{text: a, finish: stop}`:                    agent.ReasonStop,
		`{text: a, finish: length}`:                  agent.ReasonLength,
		`{finish: content_filter}`:                   agent.ReasonContentFilter,
		`{calls: [{tool: a/b}]}`:                     agent.ReasonToolCalls,
		`{calls: [{tool: a/b}], finish: stop}`:       agent.ReasonToolCalls,
		`{calls: [{tool: a/b}], finish: tool_calls}`: agent.ReasonToolCalls,
		`{calls: [{tool: a/b}], finish: length}`:     agent.ReasonLength,
	} {
		if h := ask(t, openScript(t, "version: 1\nanswers: ["+entry+"]\n"), r); h.err != nil || h.Reason != want {
			t.Errorf("%s: %q, %v", entry, h.Reason, h.err)
		}
	}
	h := ask(t, openScript(t, `{version: 1, answers: [{text: a, usage: {input_tokens: 10, output_tokens: 4, cache_read_tokens: 6, cache_write_tokens: 2, reasoning_tokens: 1}}]}`), r)
	if diff := cmp.Diff(&agent.Usage{InputTokens: 10, OutputTokens: 4, CacheReadTokens: 6, CacheWriteTokens: 2, ReasoningTokens: 1, TotalTokens: 14, CostUSD: new(agent.USD)}, h.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	h = ask(t, openScript(t, `{version: 1, answers: [{text: "1234567"}]}`), r)
	if h.Usage.OutputTokens != 3 || h.Usage.InputTokens != agent.Estimate(r) || h.Usage.CostUSD == nil || *h.Usage.CostUSD != 0 {
		t.Errorf("estimated usage %+v", h.Usage)
	}
}

func TestScriptedChunksAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openScript(t, `{version: 1, answers: [{text: "aü`+smile+`bc", chunks: 4, delay: 200ms}]}`)
		began := time.Now()
		h := ask(t, m, providertest.Request(func(r *agent.Request) { r.Messages = r.Messages[:1] }))
		if len(h.deltas) != 4 || h.Text != "aü"+smile+"bc" || time.Since(began) != 800*time.Millisecond {
			t.Errorf("%q in %v", h.deltas, time.Since(began))
		}
		stop := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(300*time.Millisecond, func() { cancel(stop) })
		began = time.Now()
		h = askIn(ctx, t, m, providertest.Request(func(r *agent.Request) { r.Messages = r.Messages[:1] }))
		if !errors.Is(h.err, stop) || h.Text != "a" || time.Since(began) != 300*time.Millisecond {
			t.Errorf("%q, %v after %v", h.Text, h.err, time.Since(began))
		}
	})
	if got := pieces("ab", 9); len(got) != 2 {
		t.Errorf("pieces %q", got)
	}
	if got := pieces("", 3); got != nil {
		t.Errorf("pieces of nothing %q", got)
	}
}

func TestScriptedErrors(t *testing.T) {
	for entry, want := range map[string]struct {
		code, text string
		retry      bool
		answered   bool
		after      time.Duration
	}{
		`{status: 529}`:                                    {CodeUnavailable, "", true, true, 0},
		`{status: 429, retry_after: 1.5s}`:                 {CodeRateLimited, "", true, true, 1500 * time.Millisecond},
		`{status: 429, retry_after: 3m}`:                   {CodeRateLimited, "", false, true, 0},
		`{status: 401}`:                                    {CodeAuth, "", false, true, 0},
		`{status: 400, message: "prompt is too long"}`:     {CodeOverflow, "", false, true, 0},
		`{status: 400, type: context_length_exceeded}`:     {CodeOverflow, "", false, true, 0},
		`{status: 529, mid_stream: true, after_chunks: 2}`: {CodeUnavailable, "……", true, false, 0},
		`{mid_stream: true}`:                               {CodeTruncated, "", true, false, 0},
	} {
		h := ask(t, openScript(t, "version: 1\nanswers: [{error: "+entry+"}]\n"), providertest.Request(func(r *agent.Request) { r.Messages = r.Messages[:1] }))
		e := failed(t, h, want.code)
		if e.Retry != want.retry || e.Answered != want.answered || e.After != want.after || h.Text != want.text {
			t.Errorf("%s: %+v after %q", entry, e, h.Text)
		}
	}
}

func TestScriptWithoutAnAnswer(t *testing.T) {
	e := failed(t, ask(t, openScript(t, "version: 1\nanswers: []\n"), providertest.Request(nil)), file.CodeExhausted)
	if e.Retry || !e.Answered {
		t.Errorf("%+v", e)
	}
}

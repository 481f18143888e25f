package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// spans are those that drives have made, in the order in which they ended.
type spans struct {
	*tracetest.SpanRecorder
	telemetry *Telemetry
	caller    string
}

func newSpans(version string, content bool) *spans {
	s := &spans{SpanRecorder: tracetest.NewSpanRecorder(), telemetry: New(version, io.Discard)}
	s.telemetry.export.asked = true
	s.telemetry.export.tracing = newTracing(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s)), version, content)
	return s
}

// drive drives a turn, watched.
func (s *spans) drive(t testing.TB, b *bed, ctx context.Context) flow.Outcome {
	t.Helper()
	return s.driveJob(t, b.log, b.job(), ctx)
}

func (s *spans) driveJob(t testing.TB, log *flow.Mem, job flow.Job, ctx context.Context) flow.Outcome {
	t.Helper()
	store, err := s.telemetry.Observe(memStore{log: log}, nil)
	if err != nil {
		t.Fatal(err)
	}
	job, end := s.telemetry.Watch(job, workspace.Telemetry{}, s.caller, func(string) agent.Invocation {
		return agent.Invocation{Provider: "scripted", Host: "127.0.0.1", Port: 4000, Conversation: "talk"}
	})
	out, err := flow.New(store, nil).Drive(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	end()
	return out
}

// named are the spans of that name.
func (s *spans) named(name string) (list []sdktrace.ReadOnlySpan) {
	for _, span := range s.Ended() {
		if span.Name() == name {
			list = append(list, span)
		}
	}
	return list
}

// one is the only span of that name.
func (s *spans) one(t testing.TB, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	list := s.named(name)
	if len(list) != 1 {
		t.Fatalf("%d spans are named %q among %q", len(list), name, s.names())
	}
	return list[0]
}

func (s *spans) names() (names []string) {
	for _, span := range s.Ended() {
		names = append(names, span.Name())
	}
	return names
}

// attributes are those of a span, as text. How long something took is left out.
func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	m := map[string]string{}
	for _, kv := range span.Attributes() {
		if kv.Key != "gen_ai.response.time_to_first_chunk" {
			m[string(kv.Key)] = kv.Value.String()
		}
	}
	return m
}

func of1(span sdktrace.ReadOnlySpan, key attribute.Key) string { return attributes(span)[string(key)] }

func used(input, output int64) *agent.Usage {
	return &agent.Usage{InputTokens: input, OutputTokens: output, TotalTokens: input + output}
}

func TestSpansFollowTheConventions(t *testing.T) {
	temperature, topP := 0.5, 0.25
	b := newBed(steps(
		agent.Response{Reason: agent.ReasonToolCalls, Model: "m-2026", Calls: []agent.Call{{ID: "call_1", Name: "ops__df", Arguments: `{"n":1}`}},
			Usage: &agent.Usage{InputTokens: 100, OutputTokens: 20, CacheReadTokens: 60, CacheWriteTokens: 30, ReasoningTokens: 7, TotalTokens: 120}},
		agent.Response{Text: "Done.", Reason: agent.ReasonStop, Usage: used(150, 5)},
	), aTool("ops/df", "read"))
	b.cfg.Temperature, b.cfg.TopP = &temperature, &topP
	s := newSpans("1.2.3", false)
	if out := s.drive(t, b, t.Context()); out.Status != flow.Completed {
		t.Fatalf("%s: %v", out.Status, out.Err)
	}
	if got, want := s.names(), []string{"chat m", "execute_tool df", "chat m", "invoke_agent default"}; !slices.Equal(got, want) {
		t.Fatalf("spans %q, want %q", got, want)
	}
	turn, chat, df := s.one(t, "invoke_agent default"), s.named("chat m")[0], s.one(t, "execute_tool df")
	model := map[string]string{"gen_ai.provider.name": "scripted", "gen_ai.request.model": "m", "gen_ai.conversation.id": "talk",
		"gen_ai.agent.name": "default", "server.address": "127.0.0.1", "server.port": "4000", "tipstaff.run.id": theRun}
	for _, c := range []struct {
		span sdktrace.ReadOnlySpan
		kind trace.SpanKind
		own  map[string]string
		of   map[string]string
	}{
		{turn, trace.SpanKindInternal, model, map[string]string{"gen_ai.operation.name": "invoke_agent", "tipstaff.path": "turn",
			"gen_ai.response.finish_reasons": `["stop"]`, "gen_ai.usage.input_tokens": "250", "gen_ai.usage.output_tokens": "25"}},
		{chat, trace.SpanKindClient, model, map[string]string{"gen_ai.operation.name": "chat", "tipstaff.path": "turn/model#1", "tipstaff.attempts": "1",
			"gen_ai.request.max_tokens": "8192", "gen_ai.request.stream": "true", "gen_ai.request.temperature": "0.5", "gen_ai.request.top_p": "0.25",
			"gen_ai.response.model": "m-2026", "gen_ai.response.finish_reasons": `["tool_calls"]`,
			"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "20", "gen_ai.usage.cache_read.input_tokens": "60",
			"gen_ai.usage.cache_creation.input_tokens": "30", "gen_ai.usage.reasoning.output_tokens": "7"}},
		{df, trace.SpanKindInternal, nil, map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "df", "gen_ai.tool.type": "function",
			"gen_ai.tool.call.id": "call_1", "gen_ai.agent.name": "default", "gen_ai.conversation.id": "talk", "tipstaff.run.id": theRun,
			"tipstaff.path": "turn/tool#1.1", "tipstaff.attempts": "1", "tipstaff.tool.uri": "mcp://ops/df@1.0.0"}},
	} {
		want := map[string]string{}
		for _, from := range []map[string]string{c.own, c.of} {
			for k, v := range from {
				want[k] = v
			}
		}
		if diff := cmp.Diff(want, attributes(c.span)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.span.Name(), diff)
		}
		if c.span.SpanKind() != c.kind || c.span.Status().Code != codes.Unset {
			t.Errorf("%s is %s with status %v", c.span.Name(), c.span.SpanKind(), c.span.Status())
		}
		if s := c.span.InstrumentationScope(); s.SchemaURL != "https://opentelemetry.io/schemas/1.41.0" || s.Version != "1.2.3" {
			t.Errorf("%s is of %+v", c.span.Name(), s)
		}
	}
	if turn.Parent().SpanID().IsValid() || chat.Parent().SpanID() != turn.SpanContext().SpanID() || df.Parent().SpanID() != turn.SpanContext().SpanID() {
		t.Errorf("parents: %v, %v, %v", turn.Parent(), chat.Parent(), df.Parent())
	}
}

func TestOneTraceBeforeAndAfterAPark(t *testing.T) {
	b := newBed(steps(
		agent.Response{Reason: agent.ReasonToolCalls, Calls: []agent.Call{{ID: "call_1", Name: "ops__rm", Arguments: `{}`}}, Usage: used(10, 1)},
		agent.Response{Text: "Done.", Reason: agent.ReasonStop, Usage: used(20, 2)},
	), aTool("ops/rm", "once"))
	b.cfg.Policy = rule(policy.Ask)
	s := newSpans("", false)
	if out := s.drive(t, b, t.Context()); out.Status != flow.ParkedRun {
		t.Fatalf("%s: %v", out.Status, out.Err)
	}
	if got, want := s.names(), []string{"chat m", "invoke_agent default"}; !slices.Equal(got, want) {
		t.Fatalf("before: %q, want %q", got, want)
	}
	b.decide(t, flow.Decision{Action: agent.ActionAllow, By: "local:cli"})
	if out := s.drive(t, b, t.Context()); out.Status != flow.Completed {
		t.Fatalf("%s: %v", out.Status, out.Err)
	}
	// What was recorded is served, and has no span again.
	if got, want := s.names()[2:], []string{"execute_tool rm", "chat m", "invoke_agent default"}; !slices.Equal(got, want) {
		t.Errorf("after: %q, want %q", got, want)
	}
	for _, span := range s.Ended() {
		if got := span.SpanContext().TraceID(); got != tool.TraceID(theRun) {
			t.Errorf("%s is in trace %s, not in that of the run", span.Name(), got)
		}
	}
	if id := of1(s.one(t, "execute_tool rm"), "gen_ai.tool.call.id"); id != "call_1" {
		t.Errorf("the call has id %q", id)
	}
	turns := s.named("invoke_agent default")
	for i, want := range []string{"10", "20"} { // each tells of its own drive
		if got := of1(turns[i], "gen_ai.usage.input_tokens"); got != want {
			t.Errorf("drive %d used %s tokens, want %s", i+1, got, want)
		}
		if code := of1(turns[i], "error.type"); code != "" {
			t.Errorf("drive %d failed with %s", i+1, code)
		}
	}
}

func TestReplayMakesNoSpans(t *testing.T) {
	b := newBed(steps(call("ops__df", `{}`), say("Done.")), aTool("ops/df", "read"))
	if out, err := flow.New(b.log, nil).Drive(t.Context(), b.job()); err != nil || out.Status != flow.Completed {
		t.Fatal(out.Err, err)
	}
	h, err := b.log.Load(t.Context(), theRun)
	if err != nil {
		t.Fatal(err)
	}
	s := newSpans("", false)
	job, end := s.telemetry.Watch(b.job(), workspace.Telemetry{}, "", func(string) agent.Invocation { return agent.Invocation{} })
	if out, err := flow.Replay(h).Drive(t.Context(), job); err != nil || out.Status != flow.Completed {
		t.Fatalf("%s: %v, %v", out.Status, out.Err, err)
	}
	if end(); len(s.Started()) > 0 {
		t.Errorf("spans %q", s.names())
	}
}

func TestSpansBelongToTheCaller(t *testing.T) {
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var told string
	b := newBed(steps(call("ops__df", `{}`), say("Done.")), aTool("ops/df", "read"))
	b.acts["ops/df"] = func(ctx context.Context) (tool.Reply, error) {
		told = tool.Traceparent(ctx)
		return text("ok"), nil
	}
	s := newSpans("", false)
	s.caller = caller
	s.drive(t, b, t.Context())
	turn, df := s.one(t, "invoke_agent default"), s.one(t, "execute_tool df")
	if p := turn.Parent(); p.TraceID().String() != caller[3:35] || p.SpanID().String() != caller[36:52] {
		t.Errorf("the turn has parent %s %s", p.TraceID(), p.SpanID())
	}
	if got, want := told, fmt.Sprintf("00-%s-%s-01", caller[3:35], df.SpanContext().SpanID()); got != want {
		t.Errorf("the tool is told of %s, want %s: its own span", got, want)
	}

	t.Run("without telemetry tools are told of the caller", func(t *testing.T) {
		b.log = flow.NewMem()
		none := &spans{telemetry: New("", io.Discard), caller: caller}
		none.telemetry.export.asked = true
		if out := none.drive(t, b, t.Context()); out.Status != flow.Completed {
			t.Fatalf("%s: %v", out.Status, out.Err)
		}
		if told != caller {
			t.Errorf("told of %s, want %s", told, caller)
		}
	})
	t.Run("one that wants no spans recorded gets none", func(t *testing.T) {
		b.log = flow.NewMem()
		s := newSpans("", false)
		s.caller = strings.TrimSuffix(caller, "01") + "00"
		s.drive(t, b, t.Context())
		if len(s.Ended()) > 0 || !strings.HasPrefix(told, caller[:36]) || !strings.HasSuffix(told, "-00") {
			t.Errorf("spans %q, told of %s", s.names(), told)
		}
	})
}

func TestAllAttemptsAreOneSpan(t *testing.T) {
	for name, c := range map[string]struct {
		failures int
		attempts string
		code     string
	}{
		"the third succeeds": {2, "3", ""},
		"all fail":           {9, "5", "provider_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the pauses between attempts pass at once
				n := 0
				b := newBed(func(agent.Request) (agent.Response, error) {
					if n++; n <= c.failures {
						return agent.Response{}, &flow.Error{Code: "provider_unavailable", Message: "secret words", Retry: true}
					}
					return say("Done."), nil
				})
				s := newSpans("", false)
				s.drive(t, b, t.Context())
				chat := s.one(t, "chat m")
				if got := of1(chat, "tipstaff.attempts"); got != c.attempts {
					t.Errorf("%s attempts, want %s", got, c.attempts)
				}
				for _, span := range []sdktrace.ReadOnlySpan{chat, s.one(t, "invoke_agent default")} {
					if got := of1(span, "error.type"); got != c.code || (span.Status().Code == codes.Error) != (c.code != "") {
						t.Errorf("%s ended with %q and %v, want %q", span.Name(), got, span.Status(), c.code)
					}
					if span.Status().Description != "" {
						t.Errorf("%s tells %q", span.Name(), span.Status().Description)
					}
				}
			})
		})
	}
}

func TestASpanTellsHowACallFailed(t *testing.T) {
	for name, c := range map[string]struct {
		class flow.Class
		act   act
		want  string
	}{
		"in band":     {"once", failing(&flow.Error{Code: tool.CodeToolError, Answered: true}), "tool_error"},
		"in doubt":    {"once", failing(&flow.Error{Code: tool.CodeUnavailable}), "tool_unavailable"},
		"untyped":     {"once", failing(fmt.Errorf("boom")), "_OTHER"},
		"of a reader": {"read", failing(&flow.Error{Code: tool.CodeToolError, Answered: true}), "tool_error"},
		"too late": {"read", func(ctx context.Context) (tool.Reply, error) {
			<-ctx.Done()
			return tool.Reply{}, ctx.Err()
		}, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(steps(call("ops__it", `{}`), say("Done.")), aTool("ops/it", c.class))
				b.acts["ops/it"] = c.act
				s := newSpans("", false)
				s.drive(t, b, t.Context())
				it := s.one(t, "execute_tool it")
				if got := of1(it, "error.type"); got != c.want || it.Status().Code != codes.Error {
					t.Errorf("it ended with %q and %v, want %q", got, it.Status(), c.want)
				}
			})
		})
	}
}

func failing(err error) act {
	return func(context.Context) (tool.Reply, error) { return tool.Reply{}, err }
}

func TestWhatAStopBreaksOffIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	b := newBed(steps(call("ops__df", `{}`), say("Done.")), aTool("ops/df", "read"))
	b.acts["ops/df"] = func(ctx context.Context) (tool.Reply, error) {
		cancel(&flow.Stop{Reason: "signal:TERM"})
		<-ctx.Done()
		return tool.Reply{}, context.Cause(ctx)
	}
	s := newSpans("", false)
	if out := s.drive(t, b, ctx); out.Status != flow.Interrupted {
		t.Fatal(out.Status)
	}
	if got := of1(s.one(t, "execute_tool df"), "error.type"); got != "cancelled" {
		t.Errorf("the call ended with %q", got)
	}
	if got := of1(s.one(t, "invoke_agent default"), "error.type"); got != "" { // it goes on
		t.Errorf("the turn ended with %q", got)
	}
	if len(s.Ended()) != len(s.Started()) {
		t.Errorf("%d of %d spans ended", len(s.Ended()), len(s.Started()))
	}
}

func TestARouterThatAsksHasASpan(t *testing.T) {
	for name, c := range map[string]struct {
		selection agent.Selection
		spans     int
	}{
		"it asked":       {agent.Selection{Usage: used(7, 3)}, 2},
		"it fell back":   {agent.Selection{Fallback: "provider_unavailable"}, 2},
		"it did not ask": {agent.Selection{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(steps(agent.Response{Text: "Done.", Reason: agent.ReasonStop, Usage: used(10, 1)}), aTool("ops/df", "read"))
			c.selection.Tools, c.selection.Toolkits = []string{"mcp://ops/df@1.0.0"}, []string{}
			b.cfg.Router, b.cfg.Settings.Router = selects(c.selection), agent.RouterCustom
			s := newSpans("", false)
			if out := s.drive(t, b, t.Context()); out.Status != flow.Completed {
				t.Fatal(out.Err)
			}
			chats := s.named("chat m")
			if len(chats) != c.spans {
				t.Fatalf("%d chats, want %d", len(chats), c.spans)
			}
			if c.selection.Fallback != "" && of1(chats[0], "error.type") != "_OTHER" {
				t.Errorf("the router: %v", attributes(chats[0]))
			}
			if c.selection.Usage == nil {
				return
			}
			if of1(chats[0], "tipstaff.path") != "turn/router" || of1(chats[0], "gen_ai.usage.input_tokens") != "7" {
				t.Errorf("the router: %v", attributes(chats[0]))
			}
			if got := of1(s.one(t, "invoke_agent default"), "gen_ai.usage.input_tokens"); got != "17" {
				t.Errorf("the turn used %s tokens", got)
			}
		})
	}
}

type selects agent.Selection

func (s selects) Narrow(context.Context, string, *agent.Catalog) (agent.Selection, error) {
	return agent.Selection(s), nil
}

// secretTurn is a turn in which a key and other secrets are said everywhere.
func secretTurn() *bed {
	b := newBed(func(r agent.Request) (agent.Response, error) {
		if stepOf(r) == 1 {
			return agent.Response{Text: "SECRET-1", Reason: agent.ReasonToolCalls, Usage: used(1, 1),
				Calls: []agent.Call{{ID: "c", Name: "ops__df", Arguments: `{"n":1,"x":"SECRET-2 sk-key"}`}}}, nil
		}
		return say("SECRET-3"), nil
	}, aTool("ops/df", "read"))
	b.acts["ops/df"] = func(context.Context) (tool.Reply, error) {
		return tool.Reply{Content: []tool.Content{{Type: tool.ContentText, Text: "SECRET-4 sk-key"},
			{Type: tool.ContentImage, MimeType: "image/png", Data: []byte("SECRET-5")}}}, nil
	}
	b.cfg.Caps.Images = true
	b.cfg.Preamble, b.cfg.System, b.in.Message = "Be good.", "SECRET-6", "SECRET-7 sk-key"
	b.jobs = func(j *flow.Job) {
		j.Redact = func(data []byte) []byte { return []byte(strings.ReplaceAll(string(data), "sk-key", "$env:KEY")) }
	}
	return b
}

func TestSpansHoldNoContent(t *testing.T) {
	b, s := secretTurn(), newSpans("", false)
	if out := s.drive(t, b, t.Context()); out.Status != flow.Completed {
		t.Fatal(out.Err)
	}
	if len(s.Ended()) != 4 {
		t.Fatalf("spans %q", s.names())
	}
	for _, span := range s.Ended() {
		for _, kv := range span.Attributes() {
			if v := kv.Value.String(); strings.Contains(v, "SECRET") || strings.Contains(v, "sk-key") {
				t.Errorf("%s: %s is %s", span.Name(), kv.Key, v)
			}
		}
	}
}

func TestSpansHoldContentWhereItIsWanted(t *testing.T) {
	b, s := secretTurn(), newSpans("", true)
	if out := s.drive(t, b, t.Context()); out.Status != flow.Completed {
		t.Fatal(out.Err)
	}
	first, second, df := s.named("chat m")[0], s.named("chat m")[1], s.one(t, "execute_tool df")
	for _, c := range []struct {
		span sdktrace.ReadOnlySpan
		key  attribute.Key
		want string
	}{
		{first, "gen_ai.system_instructions", `[{"type":"text","content":"Be good.\n\nSECRET-6"}]`},
		{first, "gen_ai.input.messages", `[{"role":"user","parts":[{"type":"text","content":"SECRET-7 $env:KEY"}]}]`},
		{first, "gen_ai.tool.definitions", `[{"type":"function","name":"ops__df","description":"Does df.",` +
			`"parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}]`},
		{first, "gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"SECRET-1"},` +
			`{"type":"tool_call","id":"c","name":"ops__df","arguments":{"n":1,"x":"SECRET-2 $env:KEY"}}],"finish_reason":"tool_call"}]`},
		{df, "gen_ai.tool.call.arguments", `{"n":1,"x":"SECRET-2 $env:KEY"}`},
		{df, "gen_ai.tool.call.result", `{"content":[{"type":"text","text":"SECRET-4 $env:KEY"},{"type":"image","mime_type":"image/png","data":"U0VDUkVULTU="}]}`},
		{second, "gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"SECRET-3"}],"finish_reason":"stop"}]`},
	} {
		if diff := cmp.Diff(decoded(t, c.want), decoded(t, of1(c.span, c.key))); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.key, c.span.Name(), diff)
		}
	}
	var messages []struct {
		Role  string
		Parts []map[string]any
	}
	if err := json.Unmarshal([]byte(of1(second, "gen_ai.input.messages")), &messages); err != nil || len(messages) != 3 {
		t.Fatalf("%v: %d messages", err, len(messages))
	}
	want := []map[string]any{{"type": "tool_call_response", "id": "c", "response": []any{
		map[string]any{"type": "text", "content": "SECRET-4 $env:KEY"},
		map[string]any{"type": "blob", "modality": "image", "mime_type": "image/png", "content": "U0VDUkVULTU="}}}}
	if diff := cmp.Diff(want, messages[2].Parts); diff != "" || messages[2].Role != "tool" {
		t.Errorf("the result, of %s (-want +got):\n%s", messages[2].Role, diff)
	}
}

func TestContentThatIsTooLargeIsLeftOut(t *testing.T) {
	b := newBed(steps(call("ops__df", `{}`), say("Done.")), aTool("ops/df", "read"))
	b.acts["ops/df"] = func(context.Context) (tool.Reply, error) {
		return text(strings.Repeat("x", 256<<10)), nil
	}
	s := newSpans("", true)
	s.drive(t, b, t.Context())
	df := s.one(t, "execute_tool df")
	if got := of1(df, "gen_ai.tool.call.result"); got != "" || of1(df, "gen_ai.tool.call.arguments") != "{}" {
		t.Errorf("%d bytes of result, arguments %q", len(got), of1(df, "gen_ai.tool.call.arguments"))
	}
}

func decoded(t testing.TB, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %q", err, s)
	}
	return v
}

func TestAProgramsOwnCallHasASpan(t *testing.T) {
	s := newSpans("", false)
	job := flow.Job{Run: theRun, Root: "root", Acts: map[string]flow.Activity{tool.ActivityName: {
		Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			return flow.Done{Value: json.RawMessage(`"ok"`)}, nil
		}}},
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			_, err := fc.Do(flow.Call{Key: "read", Name: tool.ActivityName, Class: flow.Read, Input: flow.JSON(tool.Input{URI: "mcp://fs/read_file@1.0.0"})})
			return nil, err
		}}
	if out := s.driveJob(t, flow.NewMem(), job, t.Context()); out.Status != flow.Completed {
		t.Fatalf("%s: %v", out.Status, out.Err)
	}
	if got := s.names(); !slices.Equal(got, []string{"execute_tool read_file"}) {
		t.Errorf("spans %q", got)
	}
}

func TestTheFirstWordIsTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(func(agent.Request) (agent.Response, error) {
			time.Sleep(1500 * time.Millisecond) // it thinks
			return say("Done."), nil
		})
		s := newSpans("", false)
		s.drive(t, b, t.Context())
		for _, kv := range s.one(t, "chat m").Attributes() {
			if kv.Key == "gen_ai.response.time_to_first_chunk" {
				if kv.Value.AsFloat64() != 1.5 {
					t.Errorf("it took %v s", kv.Value.AsFloat64())
				}
				return
			}
		}
		t.Error("it is not told")
	})
}

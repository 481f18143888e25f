package tool_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// outTool states an output schema.
const outTool = `{"name":"out","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}`

func TestReplyBecomesOutput(t *testing.T) {
	image := base64.StdEncoding.EncodeToString([]byte("png"))
	text := func(s string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, s) }
	for _, c := range []struct {
		name, tool, reply, parse string
		want                     string // the value, or the code of an Answered failure
	}{
		{"structured", "out", `{"content":[` + text("x") + `],"structuredContent":{ "n": 1 }}`, "", `{"n":1}`},
		{"large number as received", "out", `{"content":[],"structuredContent":{"n":9007199254740993}}`, "", `{"n":9007199254740993}`},
		{"against the schema", "out", `{"content":[],"structuredContent":{"n":"1"}}`, "", tool.CodeOutputInvalid},
		{"structured without schema", "echo", `{"content":[],"structuredContent":[1,2]}`, "", `[1,2]`},
		{"structured null", "echo", `{"content":[` + text("x") + `],"structuredContent":null}`, "", `"x"`},
		{"text", "echo", `{"content":[` + text("a") + `,` + text("b") + `]}`, "", `"a\nb"`},
		{"no blocks", "echo", `{"content":[]}`, "", `""`},
		{"no content", "echo", `{}`, "", `""`},
		{"image", "echo", `{"content":[` + text("see") + `,{"type":"image","mimeType":"image/png","data":"` + image + `"}]}`, "",
			`{"blobs":[{"type":"image","mime_type":"image/png","digest":"sha256:8f8cbb7dcf46e0bc7d53265749a6c17d116093a6ba95e442764060c76fd4a86c","size":3}],"text":"see"}`},
		{"bad base64", "echo", `{"content":[{"type":"image","mimeType":"image/png","data":"%%"}]}`, "", tool.CodeOutputInvalid},
		{"parse", "echo", `{"content":[` + text(`{"a": [1, 2]}`) + `]}`, "json", `{"a":[1,2]}`},
		{"parse with structured", "out", `{"content":[` + text(`[true]`) + `],"structuredContent":{"n":1}}`, "json", `[true]`},
		{"parse of prose", "echo", `{"content":[` + text(`hello`) + `]}`, "json", tool.CodeOutputInvalid},
		{"parse of two values", "echo", `{"content":[` + text(`1`) + `,` + text(`2`) + `]}`, "json", tool.CodeOutputInvalid},
		{"in-band error", "echo", `{"isError":true,"content":[` + text("broken") + `]}`, "", tool.CodeToolError},
		{"in-band error with parse", "echo", `{"isError":true,"content":[` + text("broken") + `]}`, "json", tool.CodeToolError},
		{"too large", "echo", `{"content":[` + text(strings.Repeat("x", 2000)) + `]}`, "", flow.CodeResultTooLarge},
		{"too large as blob", "echo", `{"content":[{"type":"image","mimeType":"x/y","data":"` + strings.Repeat("AAAA", 500) + `"}]}`, "", flow.CodeResultTooLarge},
		{"input required", "echo", `{"resultType":"input_required","inputRequests":{"1":{"method":"elicitation/create","params":{}}}}`, "", tool.CodeToolError},
		{"not an object", "echo", `[1]`, "", tool.CodeOutputInvalid},
		{"content of another type", "echo", `{"content":"x"}`, "", tool.CodeOutputInvalid},
		{"a block of another type", "echo", `{"content":[7]}`, "", tool.CodeOutputInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := okServer(echoTool, outTool)
			s.reply = func(w *wireCall) { w.result(c.reply) }
			b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}, "out": {MaxResult: 1000}})
			a := wireAttempt(c.tool, flow.Read, `{}`)
			a.Input = flow.JSON(tool.Input{URI: "mcp://wire/" + c.tool + "@1.0.0", Args: json.RawMessage(`{}`), Parse: c.parse})
			value, err := b.try(context.Background(), a)
			if strings.ContainsAny(c.want[:1], `{["0123456789`) {
				if err != nil || string(value) != c.want {
					t.Errorf("got %s, %v; want %s", value, err, c.want)
				}
				return
			}
			e := wantCode(t, c.want, value, err)
			if !e.Answered || e.NotSent {
				t.Errorf("a reply is a definite answer: %+v", e)
			}
			if s.called() != 1 {
				t.Errorf("it was called %d times", s.called())
			}
		})
	}
}

func TestInBandErrorKeepsItsContent(t *testing.T) {
	s := okServer(echoTool)
	s.reply = func(w *wireCall) {
		w.result(`{"isError":true,"content":[{"type":"text","text":"no such row"}],"structuredContent":{"row":7}}`)
	}
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
	value, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
	e := wantCode(t, tool.CodeToolError, value, err)
	if string(e.Detail) != `{"output":{"row":7}}` {
		t.Errorf("the detail is %s", e.Detail)
	}
	contains(t, e.Message, "no such row")
}

// TestWhatAOnceCallKnows: only a reply makes an end definite, only an unsent
// request makes it sure that nothing was done; the rest is in doubt.
func TestWhatAOnceCallKnows(t *testing.T) {
	const notSent, answered, inDoubt = "not sent", "answered", "in doubt"
	for _, c := range []struct {
		name   string
		server func(*wireServer)
		code   string
		want   string
	}{
		{"cannot connect", func(s *wireServer) { s.dial = func() error { return errors.New("down") } }, tool.CodeUnavailable, notSent},
		{"invalid params", func(s *wireServer) { s.reply = func(w *wireCall) { w.fail(-32602, "bad") } }, tool.CodeToolError, answered},
		{"method not found", func(s *wireServer) { s.reply = func(w *wireCall) { w.fail(-32601, "gone") } }, tool.CodeToolError, answered},
		{"internal error", func(s *wireServer) { s.reply = func(w *wireCall) { w.fail(-32603, "oops") } }, flow.CodeInternal, inDoubt},
		{"connection lost", func(s *wireServer) { s.reply = func(w *wireCall) { w.conn.Close() } }, tool.CodeUnavailable, inDoubt},
		{"timeout", func(s *wireServer) { s.reply = func(w *wireCall) { <-w.cancelled } }, flow.CodeTimeout, inDoubt},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := okServer(onceTool)
			b := wireBench(t, s, map[string]workspace.Tool{"act": {MaxResult: 1000}})
			c.server(s)
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			value, err := b.try(ctx, wireAttempt("act", flow.Once, `{"to":"x"}`))
			e := wantCode(t, c.code, value, err)
			got := inDoubt
			switch {
			case e.NotSent:
				got = notSent
			case e.Answered:
				got = answered
			}
			if got != c.want || e.NotSent && e.Answered {
				t.Errorf("got %s (%+v), want %s", got, e, c.want)
			}
			if c.want == notSent && s.called() != 0 {
				t.Error("it was called")
			}
		})
	}
}

func TestLimitOfTheRunNamesItself(t *testing.T) {
	s := okServer(onceTool)
	s.reply = func(w *wireCall) { <-w.cancelled }
	b := wireBench(t, s, map[string]workspace.Tool{"act": {MaxResult: 1000}})
	why := &flow.Error{Code: flow.CodeBoundExceeded, Bound: flow.WallTime}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, why)
	defer cancel()
	value, err := b.try(ctx, wireAttempt("act", flow.Once, `{"to":"x"}`))
	if e := wantCode(t, flow.CodeBoundExceeded, value, err); e.Bound != flow.WallTime || e.Answered || e.NotSent {
		t.Errorf("got %+v", e)
	}
	if why.NotSent || why.Answered {
		t.Error("the cause itself was changed")
	}
}

func TestCancelReachesTheServer(t *testing.T) {
	s := okServer(echoTool)
	begun, told := make(chan struct{}), make(chan struct{})
	s.reply = func(w *wireCall) { close(begun); <-w.cancelled; close(told) }
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {}})
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { <-begun; cancel(flow.ErrCancelled) }()
	if _, err := b.try(ctx, wireAttempt("echo", flow.Read, `{}`)); !errors.Is(err, flow.ErrCancelled) {
		t.Errorf("got %v", err)
	}
	<-told
}

func TestWhatIsSent(t *testing.T) {
	s := okServer(echoTool)
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
	if _, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{ "text" : "a<b é", "n": 1.50 }`)); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      map[string]any  `json:"_meta"`
	}
	if err := json.Unmarshal(s.calls[0], &sent); err != nil {
		t.Fatal(err)
	}
	var got, want any
	_ = json.Unmarshal(sent.Arguments, &got)
	_ = json.Unmarshal([]byte(`{"n":1.5,"text":"a<b é"}`), &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(string(sent.Arguments), `{"n":1.5,`) {
		t.Errorf("not canonical: %s", sent.Arguments)
	}
	if sent.Name != "echo" || sent.Meta["tipstaff/idempotency-key"] != "key-1" {
		t.Errorf("got %+v", sent)
	}
}

func TestInputThatCannotBeReadIsRefused(t *testing.T) {
	b := newBench(t, everything)
	for _, input := range []string{`{}`, `[]`, `{"uri":"x"}`, `{"uri":"` + uriOf("sleep") + `","args":{"duration":"0s"},"parse":"xml"}`,
		`{"uri":"` + uriOf("sleep") + `","args":{"duration":"0s"},"more":1}`} {
		_, err := b.try(context.Background(), flow.Attempt{Class: flow.Read, Input: json.RawMessage(input)})
		var e *flow.Error
		if !errors.As(err, &e) || !e.NotSent {
			t.Errorf("%s: %v", input, err)
		}
	}
}

func TestMillionCharacters(t *testing.T) {
	s := okServer(echoTool)
	s.reply = func(w *wireCall) {
		var p struct {
			Arguments struct{ Text string } `json:"arguments"`
		}
		_ = json.Unmarshal(w.params, &p)
		w.result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, p.Arguments.Text))
	}
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 4 << 20}})
	long := strings.Repeat("x", 1_000_000)
	value, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{"text":"`+long+`"}`))
	if err != nil || string(value) != `"`+long+`"` {
		t.Errorf("%d bytes came back, %v", len(value), err)
	}
}

func TestCallsAtOnceAreBounded(t *testing.T) {
	s := okServer(echoTool)
	var now, most atomic.Int32
	release := make(chan struct{})
	full := make(chan struct{}, 100)
	s.reply = func(w *wireCall) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		full <- struct{}{}
		<-release
		now.Add(-1)
		w.result(`{"content":[]}`)
	}
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
	ended := make(chan error, 20)
	for range 20 {
		go func() {
			_, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
			ended <- err
		}()
	}
	for range 4 {
		<-full
	}
	queued, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	value, err := b.try(queued, wireAttempt("echo", flow.Read, `{}`))
	if e := wantCode(t, flow.CodeTimeout, value, err); !e.NotSent {
		t.Errorf("a queued call that ran out of time was not sent: %+v", e)
	}
	close(release)
	for range 20 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 4 {
		t.Errorf("%d calls ran at once, max_concurrent is 4", most.Load())
	}
}

func TestChangedListIsListedAgain(t *testing.T) {
	s := okServer(echoTool)
	s.reply = func(w *wireCall) {
		w.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		w.result(`{"content":[]}`)
	}
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
	a := wireAttempt("echo", flow.Read, `{}`)
	if _, err := b.try(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	s.tools = listOf(strings.Replace(echoTool, `"big":1`, `"big":2`, 1))
	for deadline := time.Now().Add(5 * time.Second); ; {
		// The notification is handled beside the reply, so the first call after it
		// may still see the old list.
		before := s.called()
		_, err := b.try(context.Background(), a)
		var e *flow.Error
		if errors.As(err, &e) && e.Code == tool.CodeDefinitionChanged {
			if s.called() != before {
				t.Error("it was refused, and called all the same")
			}
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("got %v; want %s", err, tool.CodeDefinitionChanged)
		}
	}
}

// TestServerThatEndsIsStartedAgain: after 1, 2, 4, 8 and 16 seconds, then no more.
func TestServerThatEndsIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := okServer(echoTool)
		b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
		s.reply = func(w *wireCall) { w.conn.Close() }
		call := func() *flow.Error {
			_, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
			synctest.Wait() // the end of the connection has been noticed
			return wantCode(t, tool.CodeUnavailable, nil, err)
		}
		began := time.Now()
		var waited []time.Duration
		for range 6 {
			e := call()
			if e.NotSent {
				t.Fatalf("it was not sent: %v", e)
			}
			waited = append(waited, time.Since(began))
			began = time.Now()
		}
		s1 := time.Second
		if diff := cmp.Diff([]time.Duration{0, s1, 2 * s1, 4 * s1, 8 * s1, 16 * s1}, waited); diff != "" {
			t.Error(diff)
		}
		if e := call(); !e.NotSent {
			t.Errorf("after the fifth restart: %+v", e)
		}
		b.manager.Close()
	})
}

// TestServerThatIsDownMayStartAgain: ten minutes after the first of its restarts,
// however often it was asked for in between.
func TestServerThatIsDownMayStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := okServer(echoTool)
		b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
		defer b.manager.Close()
		answers := s.reply
		s.reply = func(w *wireCall) { w.conn.Close() }
		call := func() error {
			_, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
			synctest.Wait() // the end of the connection has been noticed
			return err
		}
		_ = call() // it ends for the first time
		first := time.Now()
		for range 5 {
			_ = call() // and after each restart
		}
		s.reply = answers
		started := s.dialled()
		for time.Since(first) <= 9*time.Minute {
			wantCode(t, tool.CodeUnavailable, nil, call())
			time.Sleep(time.Minute)
		}
		if s.dialled() != started {
			t.Errorf("within ten minutes it was started %d times more", s.dialled()-started)
		}
		time.Sleep(10*time.Minute - time.Since(first) + time.Second)
		if err := call(); err != nil {
			t.Errorf("ten minutes later: %v", err)
		}
	})
}

func TestServerThatCannotStartFailsAtOnceAndIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := okServer(echoTool)
		b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
		defer b.manager.Close()
		s.dial = func() error { return errors.New("not yet") }
		before := s.dials
		for range 3 {
			began := time.Now()
			value, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
			contains(t, wantCode(t, tool.CodeUnavailable, value, err).Message, "not yet")
			if waited := time.Since(began); waited != 0 {
				t.Errorf("it took %v", waited)
			}
		}
		if s.dials != before+1 {
			t.Errorf("it was started %d times within a second", s.dials-before)
		}
		s.dial = nil
		time.Sleep(time.Second)
		if _, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`)); err != nil {
			t.Errorf("a second later: %v", err)
		}
	})
}

func TestClosedManagerSendsNothing(t *testing.T) {
	s := okServer(echoTool)
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
	b.manager.Close()
	value, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
	if e := wantCode(t, tool.CodeUnavailable, value, err); !e.NotSent || s.called() != 0 {
		t.Errorf("got %+v", e)
	}
}

// FuzzReply: whatever a server answers, the call ends with a value that is JSON
// or with a definite failure.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{`{"content":[{"type":"text","text":"x"}]}`, `{"structuredContent":{"n":1}}`, `{"isError":true}`, `null`, `{"content":[{"type":"image","data":"AA=="}]}`,
		`{"content":[{"type":"resource","resource":{"blob":"AA==","uri":"x:y"}}]}`, `{"resultType":"input_required"}`, `{"_meta":{"tipstaff/killed":true}}`} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	s := okServer(echoTool, outTool)
	var reply atomic.Value
	s.reply = func(w *wireCall) { w.result(reply.Load().(string)) }
	b := wireBench(f, s, map[string]workspace.Tool{"echo": {MaxResult: 10000}, "out": {MaxResult: 10000}})
	f.Fuzz(func(t *testing.T, raw string, structured bool) {
		if !json.Valid([]byte(raw)) || strings.ContainsAny(raw, "\n\r") {
			return
		}
		reply.Store(raw)
		name := "echo"
		if structured {
			name = "out"
		}
		value, err := b.try(context.Background(), wireAttempt(name, flow.Read, `{}`))
		var e *flow.Error
		switch {
		case err == nil && !json.Valid(value):
			t.Fatalf("%s became %s", raw, value)
		case err != nil && (!errors.As(err, &e) || !e.Answered):
			t.Fatalf("%s: %v is no definite answer", raw, err)
		}
	})
}

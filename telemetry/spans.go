package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// tracing makes spans, as the GenAI conventions of OpenTelemetry name them (version
// 1.41.0): invoke_agent for a turn in a drive, and below it chat for a model call and
// execute_tool for a tool call, each with all its attempts.
//
// Only what a drive does has spans: what it finds in the records has none. All
// drives of a run are in one trace. What was said is in no span, unless content.
type tracing struct {
	tracer  trace.Tracer
	content bool
}

// spanScope is who makes the spans.
const spanScope = "github.com/tipstaff/tipstaff"

func newTracing(p trace.TracerProvider, version string, content bool) *tracing {
	return &tracing{p.Tracer(spanScope, trace.WithInstrumentationVersion(version), trace.WithSchemaURL(semconv.SchemaURL)), content}
}

// Attributes of our own. All others are of the conventions.
const (
	runKey      = attribute.Key("tipstaff.run.id")
	pathKey     = attribute.Key("tipstaff.path")
	attemptsKey = attribute.Key("tipstaff.attempts")
	toolURIKey  = attribute.Key("tipstaff.tool.uri")
)

// Watch makes spans of what the job does, whose log must be an observed store. c is
// what the manifest says. caller is the span of whoever asked for the run, in W3C
// form; "" stands for a trace that is named after the run. turn tells of the turns of
// an agent. end must be called when the drive has ended.
//
// Where there are no spans, tools are told of the caller all the same.
func (t *Telemetry) Watch(job flow.Job, c workspace.Telemetry, caller string, turn func(agent string) agent.Invocation) (watched flow.Job, end func()) {
	d := &drive{tracing: t.export.open(t.version, c), run: job.Run, turn: turn, redact: job.Redact,
		turns: map[string]*turnSpan{}, calls: map[string]*callSpan{}}
	parent := tool.ParseTraceparent(caller)
	if d.tracing == nil && !parent.IsValid() {
		return job, func() {}
	}
	if !parent.IsValid() {
		// Without a span it is no parent, but its trace is taken up all the same.
		parent = trace.NewSpanContext(trace.SpanContextConfig{TraceID: tool.TraceID(job.Run)})
	}
	d.root = trace.ContextWithRemoteSpanContext(context.Background(), parent)
	acts := make(map[string]flow.Activity, len(job.Acts))
	for name, act := range job.Acts {
		run := act.Run
		act.Run = func(ctx context.Context, a flow.Attempt) (flow.Done, error) { return d.activity(ctx, a, run) }
		acts[name] = act
	}
	job.Acts = acts
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drives[job.Run] = d
	return job, func() {
		t.mu.Lock()
		delete(t.drives, job.Run)
		t.mu.Unlock()
		d.end()
	}
}

// drive is one drive of a run.
type drive struct {
	*tracing // nil: there are no spans
	run      string
	root     context.Context // above all spans
	turn     func(agent string) agent.Invocation
	redact   func([]byte) []byte

	mu    sync.Mutex
	turns map[string]*turnSpan // that are open, by path
	calls map[string]*callSpan // likewise
	over  bool
}

// turnSpan is a turn in this drive.
type turnSpan struct {
	agent.Invocation
	agent  string
	model  string // as the vendor calls it
	ctx    context.Context
	span   trace.Span
	input  int64 // tokens of the calls of this drive
	output int64
}

// callSpan is a model call or a tool call, with all its attempts.
type callSpan struct {
	span    trace.Span
	turn    *turnSpan // nil: of no turn
	failure error     // of the last attempt; nil: there was none, or it is under way
	running bool
}

type runFunc = func(context.Context, flow.Attempt) (flow.Done, error)

func (d *drive) activity(ctx context.Context, a flow.Attempt, run runFunc) (flow.Done, error) {
	if d.tracing != nil {
		switch a.Name {
		case agent.ModelActivity:
			return d.attempt(ctx, a, run, d.startChat, d.answered)
		case agent.RouterActivity:
			return d.route(ctx, a, run)
		case tool.ActivityName:
			return d.attempt(ctx, a, run, d.startTool, func(s *callSpan, done flow.Done) {
				s.span.SetAttributes(d.said(spanContent{semconv.GenAIToolCallResultKey, done.Value})...)
			})
		case agent.CatalogActivity:
			d.mu.Lock()
			d.begin(a)
			d.mu.Unlock()
		}
	}
	return run(withSpanOf(ctx, d.root), a)
}

// withSpanOf is a context with the span of another.
func withSpanOf(ctx, of context.Context) context.Context {
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(of))
}

// begin is the turn that an attempt belongs to; its span begins with the first thing
// that the drive does for it. nil: there is no turn. Called with mu held.
func (d *drive) begin(a flow.Attempt) *turnSpan {
	path := above(a.Path)
	if t := d.turns[path]; t != nil || d.over {
		return t
	}
	local, ok := a.Local.(*agent.Local)
	if !ok {
		return nil
	}
	t := &turnSpan{Invocation: d.turn(local.Agent), agent: local.Agent, model: local.ModelName}
	t.ctx, t.span = d.tracer.Start(d.root, spanName(semconv.GenAIOperationNameInvokeAgent, t.agent), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(t.agent)),
		trace.WithAttributes(t.attributes()...), trace.WithAttributes(d.place(path)...))
	d.turns[path] = t
	return t
}

// spanName is how the conventions name a span.
func spanName(operation attribute.KeyValue, of string) string {
	return strings.TrimSpace(operation.Value.AsString() + " " + of)
}

// attributes are those of the model that a turn asks.
func (of *turnSpan) attributes() []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.GenAIProviderNameKey.String(of.Provider), semconv.GenAIRequestModel(of.model)}
	if of.Conversation != "" {
		list = append(list, semconv.GenAIConversationID(of.Conversation))
	}
	if of.Host != "" {
		list = append(list, semconv.ServerAddress(of.Host), semconv.ServerPort(of.Port))
	}
	return list
}

func (d *drive) place(path string) []attribute.KeyValue {
	return []attribute.KeyValue{runKey.String(d.run), pathKey.String(path)}
}

// attempt runs an attempt in the span of its call. start begins that with the first
// attempt (nil: there is none); succeeded describes what an attempt brought back.
// Both are called with mu held.
//
// Whether the call is over is for the engine to say, except of class once: that is
// never tried again without somebody's decision.
func (d *drive) attempt(ctx context.Context, a flow.Attempt, run runFunc, start func(flow.Attempt) *callSpan, succeeded func(*callSpan, flow.Done)) (flow.Done, error) {
	d.mu.Lock()
	s := d.calls[a.Path]
	if s == nil {
		s = start(a)
	}
	if s == nil {
		d.mu.Unlock()
		return run(withSpanOf(ctx, d.root), a)
	}
	s.running, s.failure = true, nil
	if !d.over {
		d.calls[a.Path] = s
	}
	d.mu.Unlock()
	if a.Name == agent.ModelActivity {
		a.Tell = firstWord(s.span, a.Tell)
	}
	done, err := run(trace.ContextWithSpan(ctx, s.span), a)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls[a.Path] != s {
		return done, err // nobody waited for it
	}
	s.running, s.failure = false, err
	s.span.SetAttributes(attemptsKey.Int(a.N))
	if err == nil {
		succeeded(s, done)
	}
	if a.Class == flow.Once {
		d.finish(a.Path, s.code())
	}
	return done, err
}

// firstWord measures how long the model takes, in an attempt, to say something.
func firstWord(span trace.Span, tell func(flow.Event)) func(flow.Event) {
	began, said := time.Now(), false
	return func(e flow.Event) {
		if !said { // a model tells from one goroutine
			said = true
			span.SetAttributes(semconv.GenAIResponseTimeToFirstChunk(time.Since(began).Seconds()))
		}
		tell(e)
	}
}

// startChat begins the span of a model call.
func (d *drive) startChat(a flow.Attempt) *callSpan {
	s := d.chat(a, time.Now())
	if s == nil {
		return nil
	}
	r := a.Local.(*agent.Local).Request
	s.span.SetAttributes(requested(r)...)
	if d.content {
		s.span.SetAttributes(d.said(requestContent(r)...)...)
	}
	return s
}

// chat is the span of a call to a model that began at a time; nil: there is no turn.
func (d *drive) chat(a flow.Attempt, at time.Time) *callSpan {
	t := d.begin(a)
	if t == nil {
		return nil
	}
	_, span := d.tracer.Start(t.ctx, spanName(semconv.GenAIOperationNameChat, t.model), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(at),
		trace.WithAttributes(semconv.GenAIOperationNameChat), trace.WithAttributes(t.attributes()...), trace.WithAttributes(d.place(a.Path)...))
	return &callSpan{span: span, turn: t}
}

// answered describes what a model said.
func (d *drive) answered(s *callSpan, done flow.Done) {
	var said agent.Response
	if json.Unmarshal(done.Value, &said) != nil {
		return
	}
	s.use(said.Usage)
	s.span.SetAttributes(semconv.GenAIResponseFinishReasons(said.Reason))
	if said.Model != "" {
		s.span.SetAttributes(semconv.GenAIResponseModel(said.Model))
	}
	if d.content {
		s.span.SetAttributes(d.said(answerContent(said))...)
	}
}

// route runs an attempt of a router. It has a span if it has asked a model, which
// shows afterwards.
func (d *drive) route(ctx context.Context, a flow.Attempt, run runFunc) (flow.Done, error) {
	d.mu.Lock()
	above := d.root
	if t := d.begin(a); t != nil {
		above = t.ctx
	}
	d.mu.Unlock()
	began := time.Now()
	done, err := run(withSpanOf(ctx, above), a)
	var s agent.Selection
	if err != nil || json.Unmarshal(done.Value, &s) != nil || s.Usage == nil && s.Fallback == "" {
		return done, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.chat(a, began)
	switch {
	case c == nil:
	case s.Usage == nil: // a router does not tell what became of its call
		endSpan(c.span, semconv.ErrorTypeOther.Value.AsString())
	default:
		c.use(s.Usage)
		endSpan(c.span, "")
	}
	return done, err
}

// use adds up what a call has used. Called with mu held.
func (s *callSpan) use(u *agent.Usage) {
	if u == nil {
		return
	}
	s.turn.input += u.InputTokens
	s.turn.output += u.OutputTokens
	s.span.SetAttributes(semconv.GenAIUsageInputTokens(int(u.InputTokens)), semconv.GenAIUsageOutputTokens(int(u.OutputTokens)))
	for _, part := range []struct {
		key attribute.Key
		n   int64
	}{{semconv.GenAIUsageCacheReadInputTokensKey, u.CacheReadTokens}, {semconv.GenAIUsageCacheCreationInputTokensKey, u.CacheWriteTokens},
		{semconv.GenAIUsageReasoningOutputTokensKey, u.ReasoningTokens}} {
		if part.n > 0 {
			s.span.SetAttributes(part.key.Int64(part.n))
		}
	}
}

// startTool begins the span of a tool call: of a turn, or of a program itself.
func (d *drive) startTool(a flow.Attempt) *callSpan {
	var in tool.Input
	if json.Unmarshal(a.Input, &in) != nil {
		return nil // the activity refuses it
	}
	short := in.URI
	if u, err := tipstaff.ParseToolURI(in.URI); err == nil {
		short = u.Tool
	}
	list := append(d.place(a.Path), semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(short), semconv.GenAIToolType("function"),
		toolURIKey.String(in.URI))
	s, above := &callSpan{}, d.root
	if in.Turn != nil {
		s.turn = d.begin(a)
	}
	if t := s.turn; t != nil {
		above = t.ctx
		list = append(list, semconv.GenAIAgentName(t.agent))
		if l, ok := a.Local.(*agent.Local); ok && l.CallID != "" {
			list = append(list, semconv.GenAIToolCallID(l.CallID))
		}
		if t.Conversation != "" {
			list = append(list, semconv.GenAIConversationID(t.Conversation))
		}
	}
	list = append(list, d.said(spanContent{semconv.GenAIToolCallArgumentsKey, in.Args})...)
	_, s.span = d.tracer.Start(above, spanName(semconv.GenAIOperationNameExecuteTool, short), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(list...))
	return s
}

// appended sees from what is recorded that a call or a turn is over.
func (d *drive) appended(r flow.Draft) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch tipstaff.Kind(r.Kind) {
	case tipstaff.KindEffectFinished:
		if s := d.calls[r.Path]; s != nil {
			d.finish(r.Path, s.recorded(r))
		}
	case tipstaff.KindAgentFinish:
		var b agent.Finish
		if t := d.turns[r.Path]; t != nil && json.Unmarshal(r.Body, &b) == nil {
			t.span.SetAttributes(semconv.GenAIResponseFinishReasons(b.Reason))
			d.finishTurn(r.Path, "")
		}
	case tipstaff.KindAgentError:
		var b agent.Failed
		if d.turns[r.Path] != nil && json.Unmarshal(r.Body, &b) == nil {
			d.finishTurn(r.Path, b.Code)
		}
	}
}

// recorded is the code with which a call ended, as the record has it: what the
// engine found out counts, a timeout before what came of it.
func (s *callSpan) recorded(r flow.Draft) string {
	var b tipstaff.Effect
	if s.failure == nil {
		return ""
	}
	if json.Unmarshal(r.Body, &b) != nil || b.Error == nil || b.Error.Code == "" {
		return s.code()
	}
	return b.Error.Code
}

// code is that of the last attempt; "": it went well.
func (s *callSpan) code() string {
	var failed *flow.Error
	var stopped *flow.Stop
	switch {
	case s.running:
		return agent.CodeCancelled
	case s.failure == nil:
		return ""
	case errors.As(s.failure, &failed):
		return failed.Code
	case errors.Is(s.failure, flow.ErrCancelled), errors.Is(s.failure, context.Canceled), errors.As(s.failure, &stopped):
		return agent.CodeCancelled
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

// finish ends the span of a call. Called with mu held.
func (d *drive) finish(path, code string) {
	endSpan(d.calls[path].span, code)
	delete(d.calls, path)
}

func endSpan(span trace.Span, code string) {
	if code != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(code))
		span.SetStatus(codes.Error, "") // what is told beside it may be content
	}
	span.End()
}

// finishTurn ends the span of a turn, and those of its calls that were broken off.
// Called with mu held.
func (d *drive) finishTurn(path, code string) {
	t := d.turns[path]
	for at, s := range d.calls {
		if s.turn == t {
			d.finish(at, s.code())
		}
	}
	if t.input+t.output > 0 {
		t.span.SetAttributes(semconv.GenAIUsageInputTokens(int(t.input)), semconv.GenAIUsageOutputTokens(int(t.output)))
	}
	endSpan(t.span, code)
	delete(d.turns, path)
}

// end ends what is still open: turns that wait, and what a stop has broken off.
func (d *drive) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	for path := range d.turns {
		d.finishTurn(path, "")
	}
	for path, s := range d.calls {
		d.finish(path, s.code())
	}
}

package agent

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
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// Telemetry tells of drives in spans, as the GenAI conventions of OpenTelemetry
// name them (version 1.41.0): invoke_agent for a turn in a drive, and below it chat
// for a model call and execute_tool for a tool call, each with all its attempts.
//
// Only what a drive does has spans: what it finds in the records has none. All
// drives of a run are in one trace. What was said is in no span, unless Content.
type Telemetry struct {
	tracer  trace.Tracer
	content bool
}

// TelemetryOptions may be nil.
type TelemetryOptions struct {
	Version string // of the program that makes the spans; "": it is not told
	Content bool   // spans hold messages, arguments and results
}

// spanScope is who makes the spans.
const spanScope = "github.com/tipstaff/tipstaff"

// NewTelemetry makes spans with a provider.
func NewTelemetry(p trace.TracerProvider, o *TelemetryOptions) *Telemetry {
	if o == nil {
		o = &TelemetryOptions{}
	}
	return &Telemetry{content: o.Content,
		tracer: p.Tracer(spanScope, trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))}
}

// Attributes of our own. All others are of the conventions.
const (
	runKey      = attribute.Key("tipstaff.run.id")
	pathKey     = attribute.Key("tipstaff.path")
	attemptsKey = attribute.Key("tipstaff.attempts")
	toolURIKey  = attribute.Key("tipstaff.tool.uri")
)

// Invocation is what spans tell of a turn besides its settings.
type Invocation struct {
	Provider     string // as the conventions call the vendor
	Host         string // where the model is reached; "": not known
	Port         int
	Conversation string // "": the turn belongs to none
}

// Watch makes spans of what the job does. parent is the span of whoever asked for
// the run; a zero one stands for a trace that is named after the run. turn tells of
// the turns of an agent. end must be called when the drive has ended.
//
// A nil Telemetry makes no spans; tools are told of parent all the same.
func (t *Telemetry) Watch(job flow.Job, parent trace.SpanContext, turn func(agent string) Invocation) (watched flow.Job, end func()) {
	if t == nil && !parent.IsValid() {
		return job, func() {}
	}
	if !parent.IsValid() {
		// Without a span it is no parent, but its trace is taken up all the same.
		parent = trace.NewSpanContext(trace.SpanContextConfig{TraceID: tool.TraceID(job.Run)})
	}
	w := &watch{Telemetry: t, run: job.Run, root: trace.ContextWithRemoteSpanContext(context.Background(), parent),
		turn: turn, redact: job.Redact, turns: map[string]*turnSpan{}, calls: map[string]*callSpan{}}
	acts := make(map[string]flow.Activity, len(job.Acts))
	for name, act := range job.Acts {
		acts[name] = w.activity(act)
	}
	job.Acts = acts
	if t == nil {
		return job, func() {}
	}
	next := job.Appended
	job.Appended = func(d flow.Draft) {
		w.appended(d)
		if next != nil {
			next(d)
		}
	}
	return job, w.end
}

// watch is a drive as it is watched.
type watch struct {
	*Telemetry
	run    string
	root   context.Context // above all spans
	turn   func(agent string) Invocation
	redact func([]byte) []byte

	mu    sync.Mutex
	turns map[string]*turnSpan // that are open, by path
	calls map[string]*callSpan // likewise
	over  bool
}

// turnSpan is a turn in this drive.
type turnSpan struct {
	Invocation
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

func (w *watch) activity(act flow.Activity) flow.Activity {
	run := act.Run
	act.Run = func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		switch {
		case w.Telemetry == nil:
		case a.Name == ModelActivity:
			return w.chat(ctx, a, run)
		case a.Name == RouterActivity:
			return w.route(ctx, a, run)
		case a.Name == tool.ActivityName:
			return w.execute(ctx, a, run)
		case a.Name == CatalogActivity:
			w.begin(a)
		}
		return run(withSpanOf(ctx, w.root), a)
	}
	return act
}

type runFunc = func(context.Context, flow.Attempt) (flow.Done, error)

// withSpanOf is a context with the span of another.
func withSpanOf(ctx, of context.Context) context.Context {
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(of))
}

// begin is the turn that an attempt belongs to; its span begins with the first thing
// that the drive does for it. nil: there is no turn.
func (w *watch) begin(a flow.Attempt) *turnSpan {
	path := ""
	if i := strings.LastIndexByte(a.Path, '/'); i >= 0 {
		path = a.Path[:i]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.turns[path]; t != nil || w.over {
		return t
	}
	local, ok := a.Local.(*Local)
	if !ok {
		return nil
	}
	t := &turnSpan{Invocation: w.turn(local.Agent), agent: local.Agent, model: local.ModelName}
	t.ctx, t.span = w.tracer.Start(w.root, spanName(semconv.GenAIOperationNameInvokeAgent, t.agent), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(t.agent)),
		trace.WithAttributes(t.attributes()...), trace.WithAttributes(w.place(path)...))
	w.turns[path] = t
	return t
}

// spanName is how the conventions name a span.
func spanName(operation attribute.KeyValue, of string) string {
	if of == "" {
		return operation.Value.AsString()
	}
	return operation.Value.AsString() + " " + of
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

func (w *watch) place(path string) []attribute.KeyValue {
	return []attribute.KeyValue{runKey.String(w.run), pathKey.String(path)}
}

// chat is an attempt of a model call.
func (w *watch) chat(ctx context.Context, a flow.Attempt, run runFunc) (flow.Done, error) {
	t := w.begin(a)
	if t == nil {
		return run(withSpanOf(ctx, w.root), a)
	}
	s := w.attempt(a, func() (trace.Span, *turnSpan) { return w.startChat(a.Path, t, time.Now()), t })
	if l, ok := a.Local.(*Local); ok {
		s.span.SetAttributes(requested(l.request)...)
		if w.content {
			s.span.SetAttributes(w.redacted(requestContent(l.request))...)
		}
	}
	a.Tell = firstWord(s.span, a.Tell)
	done, err := run(trace.ContextWithSpan(ctx, s.span), a)
	w.returned(s, a, done, err, func() {
		var said answer
		if json.Unmarshal(done.Value, &said) != nil {
			return
		}
		w.use(s, said.Usage)
		s.span.SetAttributes(semconv.GenAIResponseFinishReasons(string(said.Reason)))
		if said.Model != "" {
			s.span.SetAttributes(semconv.GenAIResponseModel(said.Model))
		}
		if w.content {
			s.span.SetAttributes(w.redacted(answerContent(said))...)
		}
	})
	return done, err
}

func (w *watch) startChat(path string, t *turnSpan, at time.Time) trace.Span {
	_, span := w.tracer.Start(t.ctx, spanName(semconv.GenAIOperationNameChat, t.model), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(at),
		trace.WithAttributes(semconv.GenAIOperationNameChat), trace.WithAttributes(t.attributes()...), trace.WithAttributes(w.place(path)...))
	return span
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

// route is an attempt of a router. It has a span if it has asked a model, which
// shows afterwards.
func (w *watch) route(ctx context.Context, a flow.Attempt, run runFunc) (flow.Done, error) {
	t := w.begin(a)
	if t == nil {
		return run(withSpanOf(ctx, w.root), a)
	}
	began := time.Now()
	done, err := run(withSpanOf(ctx, t.ctx), a)
	var s Selection
	if err != nil || json.Unmarshal(done.Value, &s) != nil || s.Usage == nil && s.Fallback == "" {
		return done, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &callSpan{span: w.startChat(a.Path, t, began), turn: t}
	w.use(c, s.Usage)
	if s.Usage == nil {
		c.failure = errNoAnswer
	}
	endSpan(c.span, c.code())
	return done, err
}

// errNoAnswer: a router does not tell what became of its call.
var errNoAnswer = errors.New("agent: the router was not answered")

// use adds up what a call has used. Called with mu held.
func (w *watch) use(s *callSpan, u *Usage) {
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

// execute is an attempt of a tool call: of a turn, or of a program itself.
func (w *watch) execute(ctx context.Context, a flow.Attempt, run runFunc) (flow.Done, error) {
	var in tool.Input
	if json.Unmarshal(a.Input, &in) != nil {
		return run(withSpanOf(ctx, w.root), a) // which refuses it
	}
	s := w.attempt(a, func() (trace.Span, *turnSpan) { return w.startTool(a, in) })
	done, err := run(trace.ContextWithSpan(ctx, s.span), a)
	w.returned(s, a, done, err, func() {
		if w.content {
			s.span.SetAttributes(w.redacted([]spanContent{{semconv.GenAIToolCallResultKey, done.Value}})...)
		}
	})
	return done, err
}

func (w *watch) startTool(a flow.Attempt, in tool.Input) (trace.Span, *turnSpan) {
	short := in.URI
	if u, err := tipstaff.ParseToolURI(in.URI); err == nil {
		short = u.Tool
	}
	list := append(w.place(a.Path), semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(short), semconv.GenAIToolType("function"),
		toolURIKey.String(in.URI))
	above := w.root
	var t *turnSpan
	if in.Turn != nil {
		t = w.begin(a)
	}
	if t != nil {
		above = t.ctx
		list = append(list, semconv.GenAIAgentName(t.agent))
		if l, ok := a.Local.(*Local); ok && l.CallID != "" {
			list = append(list, semconv.GenAIToolCallID(l.CallID))
		}
		if t.Conversation != "" {
			list = append(list, semconv.GenAIConversationID(t.Conversation))
		}
	}
	if w.content {
		list = append(list, w.redacted([]spanContent{{semconv.GenAIToolCallArgumentsKey, in.Args}})...)
	}
	_, span := w.tracer.Start(above, spanName(semconv.GenAIOperationNameExecuteTool, short), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(list...))
	return span, t
}

// attempt is the span of the call that an attempt belongs to. start begins it with
// the first attempt.
func (w *watch) attempt(a flow.Attempt, start func() (trace.Span, *turnSpan)) *callSpan {
	w.mu.Lock()
	s := w.calls[a.Path]
	w.mu.Unlock()
	if s == nil {
		s = new(callSpan)
		s.span, s.turn = start()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.running, s.failure = true, nil
	if !w.over {
		w.calls[a.Path] = s
	}
	return s
}

// returned takes in what an attempt brought back; succeeded tells of it where it
// went well. Whether the call is over is for the engine to say, except of class
// once: that is never tried again without somebody's decision.
func (w *watch) returned(s *callSpan, a flow.Attempt, done flow.Done, err error, succeeded func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[a.Path] != s {
		return // nobody waited for it
	}
	s.running, s.failure = false, err
	s.span.SetAttributes(attemptsKey.Int(a.N))
	if err == nil {
		succeeded()
	}
	if a.Class == flow.Once {
		w.finish(a.Path, s.code())
	}
}

// appended sees from what is recorded that a call or a turn is over.
func (w *watch) appended(d flow.Draft) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch d.Kind {
	case flow.KindEffectFinished:
		if s := w.calls[d.Path]; s != nil {
			w.finish(d.Path, s.recorded(d))
		}
	case TypeFinish.Kind():
		var b Finish
		if t := w.turns[d.Path]; t != nil && json.Unmarshal(d.Body, &b) == nil {
			t.span.SetAttributes(semconv.GenAIResponseFinishReasons(string(b.Reason)))
			w.finishTurn(d.Path, "")
		}
	case TypeError.Kind():
		var b Failed
		if w.turns[d.Path] != nil && json.Unmarshal(d.Body, &b) == nil {
			w.finishTurn(d.Path, b.Code)
		}
	}
}

// recorded is the code with which a call ended, as the record has it: what the
// engine found out counts, a timeout before what came of it.
func (s *callSpan) recorded(d flow.Draft) string {
	if s.failure == nil {
		return ""
	}
	var b tipstaff.Effect
	if json.Unmarshal(d.Body, &b) != nil || b.Error == nil || b.Error.Code == "" {
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
		return CodeCancelled
	case s.failure == nil:
		return ""
	case errors.As(s.failure, &failed):
		return failed.Code
	case errors.Is(s.failure, flow.ErrCancelled), errors.Is(s.failure, context.Canceled), errors.As(s.failure, &stopped):
		return CodeCancelled
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

// finish ends the span of a call. Called with mu held.
func (w *watch) finish(path, code string) {
	endSpan(w.calls[path].span, code)
	delete(w.calls, path)
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
func (w *watch) finishTurn(path, code string) {
	t := w.turns[path]
	for at, s := range w.calls {
		if s.turn == t {
			w.finish(at, s.code())
		}
	}
	if t.input+t.output > 0 {
		t.span.SetAttributes(semconv.GenAIUsageInputTokens(int(t.input)), semconv.GenAIUsageOutputTokens(int(t.output)))
	}
	endSpan(t.span, code)
	delete(w.turns, path)
}

// end ends what is still open: turns that wait, and what a stop has broken off.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for path := range w.turns {
		w.finishTurn(path, "")
	}
	for path, s := range w.calls {
		w.finish(path, s.code())
	}
}

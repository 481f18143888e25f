package tool

import (
	"context"
	"crypto/sha256"
	"strconv"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipstaff/tipstaff/flow"
)

// traceparent is the name of the W3C trace context, in a header and in _meta.
const traceparent = "traceparent"

// TraceID names the trace of a run that belongs to nobody else's: the first 16
// bytes of SHA-256 of its id, so that every process that has to do with the run gives
// it the same name without being told.
func TraceID(run string) trace.TraceID {
	sum := sha256.Sum256([]byte(run))
	return trace.TraceID(sum[:16])
}

// traceOf is the trace context that a server is told: the span that ctx carries.
// Where there is none, the trace of the run, with a span that is named after the
// attempt: the first 8 bytes of SHA-256 of run, path and its number, line by line.
func traceOf(ctx context.Context, t flow.Attempt) string {
	if s := Traceparent(ctx); s != "" {
		return s
	}
	sum := sha256.Sum256([]byte(t.Run + "\n" + t.Path + "\n" + strconv.Itoa(t.N)))
	return Traceparent(trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: TraceID(t.Run), SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled})))
}

// Traceparent is the W3C form of the span that ctx carries; "": it carries none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparent]
}

// ParseTraceparent is the span that the W3C form names; one that is not valid is
// none.
func ParseTraceparent(s string) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: s}))
}

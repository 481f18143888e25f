package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/tool"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// spansGrace is how long a process waits at its end for the last spans to be sent.
const spansGrace = 2 * time.Second

// spanSender sends spans to a collector, over OTLP and HTTP: to the one that the
// manifest names, else to that of the OTEL_EXPORTER_OTLP_ variables. Without either
// there are no spans. Nothing that goes wrong on the way is a run's concern: one
// line at the end says so.
type spanSender struct {
	stderr io.Writer

	mu        sync.Mutex
	asked     bool
	telemetry *agent.Telemetry // nil: there are no spans
	provider  *sdktrace.TracerProvider
	secrets   *tool.Redactor
	failure   error // the first
}

// open gives the telemetry of drives. What the manifest says when the first drive
// begins holds for all of this process.
func (s *spanSender) open(c ws.Telemetry) *agent.Telemetry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked {
		return s.telemetry
	}
	s.asked = true
	exporter, err := s.exporter(c)
	if err != nil {
		s.failure = err
	}
	if exporter == nil {
		return nil
	}
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(reporting{exporter, s.failed}), sdktrace.WithResource(ourselves()))
	s.telemetry = agent.NewTelemetry(s.provider, &agent.TelemetryOptions{Version: version, Content: c.Content})
	return s.telemetry
}

// ourselves is what a collector is told of this process.
func ourselves() *resource.Resource {
	own := resource.NewSchemaless(semconv.ServiceName("tipstaff"), semconv.ServiceVersion(version))
	if with, err := resource.Merge(own, resource.Environment()); err == nil {
		return with
	}
	return own
}

// exporter makes the way to the collector; nil: there is none.
func (s *spanSender) exporter(c ws.Telemetry) (sdktrace.SpanExporter, error) {
	options := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true,
		InitialInterval: 250 * time.Millisecond, MaxInterval: 5 * time.Second, MaxElapsedTime: 30 * time.Second})}
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), os.Getenv("OTEL_TRACES_EXPORTER") == "none":
		return nil, nil
	case c.Endpoint != "":
		resolved, refused := c.Resolve(os.Environ())
		if refused != nil {
			return nil, refused
		}
		s.secrets = tool.NewRedactor(resolved.Headers)
		// Its headers alone: those of the environment are meant for somebody else.
		options = append(options, otlptracehttp.WithEndpointURL(tracesURL(c.Endpoint)), otlptracehttp.WithHeaders(resolved.Headers),
			otlptracehttp.WithHTTPClient(&http.Client{Timeout: 10 * time.Second, CheckRedirect: stay}))
	case cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) == "":
		return nil, nil
	case cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")) == "grpc":
		return nil, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is grpc: spans are sent over HTTP (http/protobuf) alone")
	}
	return otlptracehttp.New(context.Background(), options...)
}

// stay: a collector that sends its clients elsewhere must be named as it is.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// tracesURL is where a collector takes spans; an endpoint without a path has them at
// the usual one.
func tracesURL(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		return u.JoinPath("v1", "traces").String()
	}
	return endpoint
}

func (s *spanSender) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = err
	}
}

// close sends what is left, and says if spans were lost.
func (s *spanSender) close() {
	s.mu.Lock()
	provider := s.provider
	s.mu.Unlock()
	if provider != nil {
		ctx, cancel := context.WithTimeout(context.Background(), spansGrace)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			s.failed(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		fmt.Fprintf(s.stderr, "spans could not be sent: %s\n", tipstaff.Printable(s.secrets.Text(s.failure.Error())))
		s.failure = nil
	}
}

// reporting is an exporter whose failures are told to us rather than to the log of
// the process.
type reporting struct {
	sdktrace.SpanExporter
	failed func(error)
}

func (r reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil {
		r.failed(err)
	}
	return nil
}

// withTrace is a context with the span of whoever started this process, if they
// tell of one: runs that are started in it belong to that trace.
func withTrace(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": os.Getenv("TRACEPARENT")})
}

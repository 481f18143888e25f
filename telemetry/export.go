package telemetry

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
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// exportGrace is how long a process waits at its end for the last spans to be sent.
const exportGrace = 2 * time.Second

// exporter sends spans to a collector, over OTLP and HTTP: to the one that the
// manifest names, else to that of the OTEL_EXPORTER_OTLP_ variables. Without either
// there are no spans. Nothing that goes wrong on the way is a run's concern: one
// line at the end says so.
type exporter struct {
	mu       sync.Mutex
	asked    bool
	tracing  *tracing // nil: there are no spans
	provider *sdktrace.TracerProvider
	secrets  *tool.Redactor
	failure  error // the first
}

// open gives the tracing of drives. What the manifest says when the first drive
// begins holds for all of this process.
func (e *exporter) open(version string, c workspace.Telemetry) *tracing {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked {
		return e.tracing
	}
	e.asked = true
	client, err := e.client(c)
	if err != nil {
		e.failure = err
	}
	if client == nil {
		return nil
	}
	process := resource.NewSchemaless(semconv.ServiceName("tipstaff"), semconv.ServiceVersion(version))
	if with, err := resource.Merge(process, resource.Environment()); err == nil {
		process = with
	}
	e.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(reporting{client, e.failed}), sdktrace.WithResource(process))
	e.tracing = newTracing(e.provider, version, c.Content)
	return e.tracing
}

// client is the way to the collector; nil: there is none.
func (e *exporter) client(c workspace.Telemetry) (sdktrace.SpanExporter, error) {
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
		e.secrets = tool.NewRedactor(resolved.Headers)
		// Its headers alone: those of the environment are meant for somebody else.
		options = append(options, otlptracehttp.WithEndpointURL(tracesURL(c.Endpoint)), otlptracehttp.WithHeaders(resolved.Headers),
			otlptracehttp.WithHTTPClient(&http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // a collector that sends its clients elsewhere must be named as it is
			}}))
	case cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) == "":
		return nil, nil
	case cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")) == "grpc":
		return nil, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is grpc: spans are sent over HTTP (http/protobuf) alone")
	}
	return otlptracehttp.New(context.Background(), options...)
}

// tracesURL is where a collector takes spans; an endpoint without a path has them at
// the usual one.
func tracesURL(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		return u.JoinPath("v1", "traces").String()
	}
	return endpoint
}

func (e *exporter) failed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure == nil {
		e.failure = err
	}
}

// close sends what is left, and says if spans were lost.
func (e *exporter) close(stderr io.Writer) {
	e.mu.Lock()
	provider := e.provider
	e.mu.Unlock()
	if provider != nil {
		ctx, cancel := context.WithTimeout(context.Background(), exportGrace)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			e.failed(err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure != nil {
		fmt.Fprintf(stderr, "spans could not be sent: %s\n", tipstaff.Printable(e.secrets.Text(e.failure.Error())))
		e.failure = nil
	}
}

// reporting is an exporter that reports its failures to us, not to the log of the
// process.
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

// WithCaller is a context with the span of whoever started this process, if
// TRACEPARENT names one: runs that are started in it belong to that trace.
func WithCaller(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": os.Getenv("TRACEPARENT")})
}

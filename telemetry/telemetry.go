// Package telemetry tells of runs while this process drives them: in spans of
// OpenTelemetry, in a log of tool calls, and in counters for Prometheus.
//
// All three follow the records that are appended through an observed store, so that
// a replay, which appends none, tells nothing. Spans also wrap the activities of a
// drive, which pass their context on. Nothing here decides anything: a run is the
// same without it.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
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
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
	"github.com/tipstaff/tipstaff/workspace"
)

// Variables that say where this process tells of its runs, beside those of
// OpenTelemetry.
const (
	logVariable     = "TIPSTAFF_LOG"     // a file, or - for standard error
	metricsVariable = "TIPSTAFF_METRICS" // an address to serve /metrics at
)

// observer takes in what this process records. One goroutine calls it.
type observer interface {
	// Appended takes in a record when it is durable.
	Appended(run string, d flow.Draft)
	// Recorded takes in one that was there before.
	Recorded(run string, d flow.Draft)
	// Forget: this process does nothing more for a run at present.
	Forget(run string)
}

// Telemetry is that of one process.
type Telemetry struct {
	version string
	stderr  io.Writer
	export  exporter

	observers []observer   // the log and the counters, where they are wanted
	log       *os.File     // nil: there is none, or it is standard error
	listener  net.Listener // of the counters; nil: they are not served
	counters  *metrics     // nil: nobody wants to know

	mu      sync.Mutex
	drives  map[string]*drive // that are watched, by run
	queue   []func()          // what observers are to take in
	working bool
	idle    sync.Cond // nothing is queued, and nobody works
}

// New tells nothing yet. version is that of the program; stderr is told what goes
// wrong.
func New(version string, stderr io.Writer) *Telemetry {
	t := &Telemetry{version: version, stderr: stderr, drives: map[string]*drive{}}
	t.idle.L = &t.mu
	return t
}

// Observe is a store whose records are followed. key is that of the hashes in the
// log: lines can be compared where it is the same. A log that cannot be written is an
// error, for somebody relies on it. An address that is taken is not: another process
// of the same environment may have it.
func (t *Telemetry) Observe(store flow.Store, key []byte) (flow.Store, error) {
	if name := os.Getenv(logVariable); name != "" {
		if err := t.openLog(name, key); err != nil {
			return nil, err
		}
	}
	if address := os.Getenv(metricsVariable); address != "" {
		m := newMetrics()
		listener, err := m.serve(address, t.flush)
		if err != nil {
			fmt.Fprintf(t.stderr, "metrics are not served: %v\n", err)
		} else {
			t.listener, t.counters, t.observers = listener, m, append(t.observers, m)
		}
	}
	return &observed{Store: store, telemetry: t}, nil
}

// openLog opens a log of tool calls, one JSON object a line: in a file, which it adds
// to, or for "-" on standard error.
func (t *Telemetry) openLog(name string, key []byte) error {
	to := t.stderr
	if name != "-" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			var at *fs.PathError
			if errors.As(err, &at) {
				err = at.Err
			}
			return tipstaff.Errorf(tipstaff.InvalidArgument, "the log %s cannot be written: %v", name, err).
				WithCommand("set TIPSTAFF_LOG to a file, or to - for standard error")
		}
		t.log, to = f, f
	}
	t.observers = append(t.observers, agent.NewCallLog(slog.New(slog.NewJSONHandler(to, nil)), key))
	return nil
}

// Address is where counters are served; nil: they are not.
func (t *Telemetry) Address() net.Addr {
	if t.listener == nil {
		return nil
	}
	return t.listener.Addr()
}

// appended follows records when they are durable.
func (t *Telemetry) appended(run string, drafts []flow.Draft) {
	t.mu.Lock()
	spans := t.drives[run]
	t.mu.Unlock()
	for _, d := range drafts {
		if spans != nil {
			spans.appended(d)
		}
		if t.observers == nil {
			continue
		}
		t.each(func(o observer) { o.Appended(run, d) })
		if kind := tipstaff.Kind(d.Kind); kind.Terminal() || kind == tipstaff.KindRunInterrupted {
			t.each(func(o observer) { o.Forget(run) })
		}
	}
}

// each has f called for every observer, by a goroutine that lives while there is
// something to do: nobody waits for a writer of the log.
func (t *Telemetry) each(f func(observer)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.observers {
		t.queue = append(t.queue, func() { f(o) })
	}
	if len(t.queue) > 0 && !t.working {
		t.working = true
		go t.work()
	}
}

func (t *Telemetry) work() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 {
		queue := t.queue
		t.queue = nil
		t.mu.Unlock()
		for _, f := range queue {
			f()
		}
		t.mu.Lock()
	}
	t.working = false
	t.idle.Broadcast()
}

// flush returns when observers have taken in everything so far.
func (t *Telemetry) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.working {
		t.idle.Wait()
	}
}

// Close tells what is left to tell.
func (t *Telemetry) Close() (err error) {
	t.export.close(t.stderr)
	t.flush()
	if t.log != nil {
		err = t.log.Close()
	}
	if t.listener != nil {
		err = errors.Join(err, t.listener.Close())
	}
	return err
}

// observed is a store that reports what is recorded through it.
type observed struct {
	flow.Store
	telemetry *Telemetry
}

// Load implements [flow.Log]: what a drive finds is what its own records build on.
func (o *observed) Load(ctx context.Context, run string) (flow.History, error) {
	h, err := o.Store.Load(ctx, run)
	if o.telemetry.observers == nil {
		return h, err
	}
	for _, list := range [][]flow.Record{h.Base, h.Records} {
		for _, r := range list {
			o.telemetry.each(func(to observer) { to.Recorded(run, r.Draft) })
		}
	}
	return h, err
}

func (o *observed) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	o.Store.Append(l, drafts, func(err error) {
		if err == nil {
			o.telemetry.appended(l.Run, drafts)
		}
		done(err)
	})
}

func (o *observed) Park(l flow.Lease, p flow.Parking) (bool, error) {
	parked, err := o.Store.Park(l, p)
	if parked {
		o.telemetry.each(func(to observer) { to.Forget(l.Run) })
	}
	return parked, err
}

func (o *observed) Create(ctx context.Context, run flow.NewRun, drafts []flow.Draft) error {
	err := o.Store.Create(ctx, run, drafts)
	if err == nil {
		o.telemetry.appended(run.ID, drafts)
	}
	return err
}

// Write implements [flow.Writer]. Whoever decides about a gate from outside has not
// loaded the run: the gates are reported first.
func (o *observed) Write(ctx context.Context, run string, f func(flow.Tx) ([]flow.Draft, error)) error {
	var written []flow.Draft
	var gates []flow.GateRow
	err := o.Store.Write(ctx, run, func(tx flow.Tx) (_ []flow.Draft, err error) {
		if written, err = f(tx); err == nil && o.telemetry.observers != nil {
			gates, err = tx.Gates(true)
		}
		return written, err
	})
	if err != nil {
		return err
	}
	for _, g := range gates {
		d := flow.Draft{Kind: string(tipstaff.KindPolicyGate), Path: g.Key, Body: g.Body}
		o.telemetry.each(func(to observer) { to.Recorded(run, d) })
	}
	o.telemetry.appended(run, written)
	return nil
}

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
	secrets  *redact.Redactor
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
		e.secrets = redact.New(resolved.Headers)
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

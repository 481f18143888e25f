// Package telemetry tells of runs while this process drives them: in spans of
// OpenTelemetry, in a log of tool calls, and in counters for Prometheus.
//
// All three follow the records that are appended through an observed store
// (store.go), so that a replay, which appends none, tells nothing. Spans also wrap
// the activities of a drive, which pass their context on. Nothing here decides
// anything: a run is the same without it.
package telemetry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// Variables that say where this process tells of its runs, beside those of
// OpenTelemetry.
const (
	logVariable     = "TIPSTAFF_LOG"     // a file, or - for standard error
	metricsVariable = "TIPSTAFF_METRICS" // an address to serve /metrics at
)

// Telemetry is that of one process.
type Telemetry struct {
	version string
	stderr  io.Writer
	export  exporter

	log      *callLog // nil: there is none
	metrics  *metrics // nil: they are not served
	listener net.Listener

	mu     sync.Mutex
	drives map[string]*drive // that have spans, by run
}

// New tells nothing yet. version is that of the program; stderr is told what goes
// wrong.
func New(version string, stderr io.Writer) *Telemetry {
	return &Telemetry{version: version, stderr: stderr, drives: map[string]*drive{}}
}

// Observe is a store whose records are followed. key is that of the hashes in the
// log: lines can be compared where it is the same. A log that cannot be written is an
// error, for somebody relies on it. An address that is taken is not: another process
// of the same environment may have it.
func (t *Telemetry) Observe(store flow.Store, key []byte) (flow.Store, error) {
	if name := os.Getenv(logVariable); name != "" {
		var err error
		if t.log, err = openLog(name, key, t.stderr); err != nil {
			return nil, err
		}
	}
	if address := os.Getenv(metricsVariable); address != "" {
		m := newMetrics()
		listener, err := m.serve(address)
		if err != nil {
			fmt.Fprintf(t.stderr, "metrics are not served: %v\n", err)
		} else {
			t.listener, t.metrics = listener, m
		}
	}
	return &observed{Store: store, telemetry: t}, nil
}

// Address is where metrics are served; nil: they are not.
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
		if t.metrics != nil {
			t.metrics.appended(run, d)
		}
		if t.log != nil {
			t.log.do(func() { t.log.calls.Appended(run, d) })
		}
		if kind := tipstaff.Kind(d.Kind); kind.Terminal() || kind == tipstaff.KindRunInterrupted {
			t.forget(run)
		}
	}
}

// recorded takes in a record that was there before.
func (t *Telemetry) recorded(run string, d flow.Draft) {
	if t.metrics != nil {
		t.metrics.recorded(run, d)
	}
	if t.log != nil {
		t.log.do(func() { t.log.calls.Recorded(run, d) })
	}
}

// forget: this process does nothing more for a run at present.
func (t *Telemetry) forget(run string) {
	if t.metrics != nil {
		t.metrics.forget(run)
	}
	if t.log != nil {
		t.log.do(func() { t.log.calls.Forget(run) })
	}
}

// Close tells what is left to tell.
func (t *Telemetry) Close() (err error) {
	t.export.close(t.stderr)
	if t.log != nil {
		err = t.log.close()
	}
	if t.listener != nil {
		err = errors.Join(err, t.listener.Close())
	}
	return err
}

// callLog is the log of tool calls that TIPSTAFF_LOG names. It never makes anybody
// wait for its writer: a goroutine lives while there is something to write.
type callLog struct {
	calls *agent.CallLog // of the goroutine
	file  *os.File       // nil: it is standard error

	mu      sync.Mutex
	queue   []func()
	writing bool
	idle    sync.Cond // nothing is queued, and nobody writes
}

// openLog opens a log, one JSON object a line: in a file, which it adds to, or for
// "-" on standard error.
func openLog(name string, key []byte, stderr io.Writer) (*callLog, error) {
	if name == "-" {
		return newCallLog(slog.NewJSONHandler(stderr, nil), key), nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the log %s cannot be written: %v", name, err).
			WithHint("set TIPSTAFF_LOG to a file, or to - for standard error")
	}
	l := newCallLog(slog.NewJSONHandler(f, nil), key)
	l.file = f
	return l, nil
}

func newCallLog(h slog.Handler, key []byte) *callLog {
	l := &callLog{calls: agent.NewCallLog(slog.New(h), key)}
	l.idle.L = &l.mu
	return l
}

func (l *callLog) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue = append(l.queue, f); !l.writing {
		l.writing = true
		go l.write()
	}
}

func (l *callLog) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		queue := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, f := range queue {
			f()
		}
		l.mu.Lock()
	}
	l.writing = false
	l.idle.Broadcast()
}

// close writes what is left.
func (l *callLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing {
		l.idle.Wait()
	}
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Package telemetry tells of runs while this process drives them: in spans of
// OpenTelemetry, in a log of tool calls, and in counters for Prometheus.
//
// All three follow the records that are appended through an observed store, so that
// a replay, which appends none, tells nothing. Spans also wrap the activities of a
// drive, which pass their context on. Nothing here decides anything: a run is the
// same without it.
package telemetry

import (
	"context"
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
			t.listener, t.observers = listener, append(t.observers, m)
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
				WithHint("set TIPSTAFF_LOG to a file, or to - for standard error")
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

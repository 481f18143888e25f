package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/sqlite"
)

// Variables that say where this process tells of its runs, beside those of
// OpenTelemetry.
const (
	logVariable     = "TIPSTAFF_LOG"     // a file, or - for standard error
	metricsVariable = "TIPSTAFF_METRICS" // an address to serve /metrics at
)

// telemetry is how this process tells of its runs while it drives them.
type telemetry struct {
	stderr   io.Writer
	spans    *spanSender
	log      *callLog     // nil: there is none
	listener net.Listener // of the metrics; nil: they are not served
}

func newTelemetry(stderr io.Writer) *telemetry {
	return &telemetry{stderr: stderr, spans: &spanSender{stderr: stderr}}
}

// observe has log and metrics told of what is recorded, where they are wanted. A log
// that cannot be written is an error, for somebody relies on it. An address that is
// taken is not: another process of the same environment may have it.
func (t *telemetry) observe(store *sqlite.Store) (flow.Store, error) {
	var observers []observer
	if name := os.Getenv(logVariable); name != "" {
		log, err := openLog(name, store.Secret("log of tool calls"), t.stderr)
		if err != nil {
			return nil, err
		}
		t.log = log
		observers = append(observers, log)
	}
	if address := os.Getenv(metricsVariable); address != "" {
		m := newMetrics()
		listener, err := m.serve(address)
		if err != nil {
			fmt.Fprintf(t.stderr, "metrics are not served: %v\n", err)
		} else {
			t.listener = listener
			observers = append(observers, m)
		}
	}
	if observers == nil {
		return store, nil
	}
	return &observed{Store: store, observers: observers}, nil
}

// close tells what is left to tell.
func (t *telemetry) close() (err error) {
	t.spans.close()
	if t.log != nil {
		err = t.log.close()
	}
	if t.listener != nil {
		err = errors.Join(err, t.listener.Close())
	}
	return err
}

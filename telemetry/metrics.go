package telemetry

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// metrics counts what this process records. It is an [observer].
type metrics struct {
	registry   *prometheus.Registry
	modelCalls *prometheus.CounterVec
	tokens     *prometheus.CounterVec
	cost       prometheus.Counter
	toolCalls  *prometheus.CounterVec
	runs       *prometheus.CounterVec
	gates      *prometheus.CounterVec
	open       map[string]*openRun
}

// openRun is what must be known of a run to count what follows.
type openRun struct {
	inputs map[string]json.RawMessage // of calls that have begun, by path
	routed map[string]*agent.Usage    // of routers whose turn has not asked its model yet, by the turn's path
	gates  map[string]string          // kinds of open gates, by id
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), open: map[string]*openRun{}}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	m.modelCalls = counters("tipstaff_model_calls_total", "Model calls by outcome: ok, or the code of the failure.", "model", "outcome")
	m.tokens = counters("tipstaff_tokens_total", "Tokens that models counted, in and out.", "model", "direction")
	m.toolCalls = counters("tipstaff_tool_calls_total", "Tool calls by outcome: ok, or the code of the failure.", "server", "tool", "outcome")
	m.runs = counters("tipstaff_runs_total", "Runs that ended, by state.", "state")
	m.gates = counters("tipstaff_gates_total", "Gates that were closed, by what was decided.", "kind", "action")
	m.cost = prometheus.NewCounter(prometheus.CounterOpts{Name: "tipstaff_cost_usd_total", Help: "What model calls cost, where the price is known."})
	m.registry.MustRegister(m.cost)
	return m
}

// serve answers GET /metrics at an address until the listener is closed, after it has
// called flush. Without a host it is that of this machine alone.
func (m *metrics) serve(address string, flush func()) (net.Listener, error) {
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.handler(flush))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(l) // ends with the listener
	return l, nil
}

// handler tells the counters, after it has called flush.
func (m *metrics) handler(flush func()) http.Handler {
	answer := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush()
		answer.ServeHTTP(w, r)
	})
}

// Number is one that somebody else knows.
type Number struct {
	Name, Help string
	Total      bool // it only grows
	Now        func() float64
}

// Counters answers with what this process has counted since, and with numbers of others. It
// is to be called before runs are driven.
func (t *Telemetry) Counters(others ...Number) http.Handler {
	if t.counters == nil {
		t.counters = newMetrics()
		t.observers = append(t.observers, t.counters)
	}
	for _, n := range others {
		if n.Total {
			t.counters.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: n.Name, Help: n.Help}, n.Now))
		} else {
			t.counters.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: n.Name, Help: n.Help}, n.Now))
		}
	}
	return t.counters.handler(t.flush)
}

func (m *metrics) Appended(run string, d flow.Draft) {
	of := m.run(run)
	of.take(d)
	switch tipstaff.Kind(d.Kind) {
	case tipstaff.KindEffectFinished:
		m.finished(of, d)
	case tipstaff.KindAgentStepStarted:
		// What a router has used is counted once it is known which model it asked: that
		// of its turn.
		var b agent.StepStarted
		if u := of.routed[above(d.Path)]; u != nil && json.Unmarshal(d.Body, &b) == nil {
			delete(of.routed, above(d.Path))
			m.used(b.Model, u)
		}
	case tipstaff.KindPolicyGateResolve:
		var b tipstaff.GateResolved
		if json.Unmarshal(d.Body, &b) == nil {
			m.gates.WithLabelValues(of.gates[b.Gate], b.Action).Inc()
			delete(of.gates, b.Gate)
		}
	case tipstaff.KindIntentAttest:
		m.runs.WithLabelValues(string(tipstaff.Completed)).Inc()
	case tipstaff.KindIntentFail:
		m.runs.WithLabelValues(string(tipstaff.Failed)).Inc()
	case tipstaff.KindIntentCancel:
		m.runs.WithLabelValues(string(tipstaff.Cancelled)).Inc()
	}
}

func (m *metrics) Recorded(run string, d flow.Draft) { m.run(run).take(d) }
func (m *metrics) Forget(run string)                 { delete(m.open, run) }

func (m *metrics) run(run string) *openRun {
	if m.open[run] == nil {
		m.open[run] = &openRun{inputs: map[string]json.RawMessage{}, routed: map[string]*agent.Usage{}, gates: map[string]string{}}
	}
	return m.open[run]
}

// take keeps what later records do not repeat. One that cannot be read says nothing.
func (of *openRun) take(d flow.Draft) {
	switch tipstaff.Kind(d.Kind) {
	case tipstaff.KindEffectIntended:
		var b tipstaff.Effect
		if json.Unmarshal(d.Body, &b) == nil && b.Input != nil { // it stands in the first record of a call alone
			of.inputs[d.Path] = b.Input
		}
	case tipstaff.KindPolicyGate:
		var b tipstaff.GateOpened
		if json.Unmarshal(d.Body, &b) == nil {
			of.gates[b.Gate] = b.Kind
		}
	}
}

// finished counts a call that is over.
func (m *metrics) finished(of *openRun, d flow.Draft) {
	var b tipstaff.Effect
	if json.Unmarshal(d.Body, &b) != nil {
		return
	}
	if b.Input == nil {
		b.Input = of.inputs[d.Path]
	}
	delete(of.inputs, d.Path)
	outcome := "ok"
	if b.Error != nil {
		outcome = b.Error.Code
	}
	switch b.Name {
	case agent.ModelActivity:
		var in struct{ Model string }
		var said struct{ Usage *agent.Usage }
		_ = json.Unmarshal(b.Input, &in)
		_ = json.Unmarshal(b.Value, &said)
		m.modelCalls.WithLabelValues(in.Model, outcome).Inc()
		m.used(in.Model, said.Usage)
	case agent.RouterActivity:
		var s agent.Selection
		if json.Unmarshal(b.Value, &s) == nil && s.Usage != nil {
			of.routed[above(d.Path)] = s.Usage
		}
	case tool.ActivityName:
		var in tool.Input
		_ = json.Unmarshal(b.Input, &in)
		u, _ := tipstaff.ParseToolURI(in.URI)
		m.toolCalls.WithLabelValues(u.Server, u.Tool, outcome).Inc()
	}
}

func (m *metrics) used(model string, u *agent.Usage) {
	if u == nil {
		return
	}
	m.tokens.WithLabelValues(model, "input").Add(float64(u.InputTokens))
	m.tokens.WithLabelValues(model, "output").Add(float64(u.OutputTokens))
	if u.CostUSD != nil {
		m.cost.Add(float64(*u.CostUSD) / 1e9)
	}
}

// above is the path without its last segment.
func above(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

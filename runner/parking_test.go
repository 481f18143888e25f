package runner_test

import (
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
)

// lingering is a store whose answer to the first park of a run takes a while.
type lingering struct {
	*sqlite.Store
	parked, goOn chan struct{}
}

func (l *lingering) Park(lease flow.Lease, p flow.Parking) (bool, error) {
	parked, err := l.Store.Park(lease, p)
	select {
	case <-l.parked:
	default:
		close(l.parked)
		<-l.goOn
	}
	return parked, err
}

// A decision that comes when a run has parked, and before its driver knows, has the run go on:
// whoever decides is told nothing but that it is driven.
func TestADecisionJustAfterTheParkHasTheRunGoOn(t *testing.T) {
	for name, start := range map[string]func(p *pool, store *lingering) *bed{
		"a server": func(p *pool, store *lingering) *bed {
			return p.serverIn("a", 4, func(c *runner.Config) { c.Store = store }).bed
		},
		"the daemon of a folder": func(p *pool, store *lingering) *bed {
			config := p.Config
			config.Store, config.Origin = store, tipstaff.OriginDaemon
			b := p.beside(config)
			p.t.Cleanup(b.Drain)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t)
			store := &lingering{p.store, make(chan struct{}), make(chan struct{})}
			a := start(p, store)
			s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" + gated)})
			p.check(err)
			<-store.parked
			control := tipstaff.Control{Runs: a.Runner}
			gate := a.get(s.Run).OpenGates[0]
			_, err = control.Answer(cli(), tipstaff.Answer{Resume: true, DecideRequest: tipstaff.DecideRequest{Run: s.Run, Gate: gate.ID.String(), Action: "approve"}})
			close(store.goOn)
			p.check(err)
			p.awaits(s.Run, "ends", ended)
		})
	}
}

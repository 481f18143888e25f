package telemetry

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

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

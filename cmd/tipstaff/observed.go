package main

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// observer is told what this process records. It must neither block nor use the
// store.
type observer interface {
	// Appended is told of a record when it is durable.
	Appended(run string, d flow.Draft)
	// Recorded is told of one that was there before.
	Recorded(run string, d flow.Draft)
	// Forget is told that this process does nothing more for a run at present.
	Forget(run string)
}

// observed is a store that tells observers what is recorded through it. A replay
// records nothing, so that nobody is told of one.
type observed struct {
	flow.Store
	observers []observer
}

func (o *observed) each(f func(observer)) {
	for _, who := range o.observers {
		f(who)
	}
}

func (o *observed) appended(run string, drafts []flow.Draft) {
	for _, d := range drafts {
		o.each(func(who observer) { who.Appended(run, d) })
		if kind := tipstaff.Kind(d.Kind); kind.Terminal() || kind == tipstaff.KindRunInterrupted {
			o.each(func(who observer) { who.Forget(run) })
		}
	}
}

// Load implements [flow.Log]: what a drive finds is what its own records build on.
func (o *observed) Load(ctx context.Context, run string) (flow.History, error) {
	h, err := o.Store.Load(ctx, run)
	for _, list := range [][]flow.Record{h.Base, h.Records} {
		for _, r := range list {
			o.each(func(who observer) { who.Recorded(run, r.Draft) })
		}
	}
	return h, err
}

func (o *observed) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	o.Store.Append(l, drafts, func(err error) {
		if err == nil {
			o.appended(l.Run, drafts)
		}
		done(err)
	})
}

func (o *observed) Park(l flow.Lease, p flow.Parking) (bool, error) {
	parked, err := o.Store.Park(l, p)
	if parked {
		o.each(func(who observer) { who.Forget(l.Run) })
	}
	return parked, err
}

func (o *observed) Create(ctx context.Context, run flow.NewRun, drafts []flow.Draft) error {
	err := o.Store.Create(ctx, run, drafts)
	if err == nil {
		o.appended(run.ID, drafts)
	}
	return err
}

// Write implements [flow.Writer]. Whoever decides about a gate from outside has not
// loaded the run: the gates are shown first.
func (o *observed) Write(ctx context.Context, run string, f func(flow.Tx) ([]flow.Draft, error)) error {
	var written []flow.Draft
	var gates []flow.GateRow
	err := o.Store.Write(ctx, run, func(tx flow.Tx) (_ []flow.Draft, err error) {
		if written, err = f(tx); err == nil {
			gates, err = tx.Gates(true)
		}
		return written, err
	})
	if err != nil {
		return err
	}
	for _, g := range gates {
		o.each(func(who observer) {
			who.Recorded(run, flow.Draft{Kind: string(tipstaff.KindPolicyGate), Path: g.Key, Body: g.Body})
		})
	}
	o.appended(run, written)
	return nil
}

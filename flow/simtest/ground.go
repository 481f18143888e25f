package simtest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/flowtest"
)

// Log is what runs are simulated on.
type Log interface {
	flow.Log
	Write(run string, d flow.Draft) error
	Decide(run, gate string, d flow.Decision) error
	Records(run string) []flow.Record
}

// Ground makes a log, or a place in one, for each schedule, and names the run there.
type Ground func() (log Log, run string)

// Memory is the log in memory.
func Memory() (Log, string) { return flow.NewMem(), "run" }

// Outside is the log of a bed. A process that acquires a run there must get it, whoever else
// holds it.
//
// A store has goroutines, timers and connections that must not belong to a bubble, and may
// not touch what does. So its calls are made by a goroutine outside; as long as one lasts the
// bubble is not at rest, so that no time passes in it. News of foreign records are not left to
// the store, which tells them when it pleases: whoever writes tells them, as in memory.
func Outside(t testing.TB, bed flowtest.Bed) Ground {
	o := &outside{bed: bed, calls: make(chan func()), done: make(chan struct{})}
	go func() {
		for call := range o.calls {
			call()
			o.done <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(o.calls) })
	return func() (Log, string) {
		l := &stored{o: o, watchers: map[int]func(flow.Record){}}
		var err error
		if o.do(func() { l.run, err = bed.NewRun() }); err != nil {
			panic(err)
		}
		return l, l.run
	}
}

type outside struct {
	bed   flowtest.Bed
	mu    sync.Mutex // one call at a time
	calls chan func()
	done  chan struct{}
}

func (o *outside) do(call func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls <- call
	<-o.done
}

// stored is the log as far as one run is concerned.
type stored struct {
	o   *outside
	run string

	mu       sync.Mutex
	watchers map[int]func(flow.Record)
	next     int
	told     int64 // up to this record
}

func (l *stored) Acquire(_ context.Context, run string, owner flow.Owner) (lease flow.Lease, err error) {
	l.o.do(func() { lease, err = l.o.bed.Log().Acquire(context.Background(), run, owner) })
	return lease, err
}

func (l *stored) Load(_ context.Context, run string) (h flow.History, err error) {
	l.o.do(func() { h, err = l.o.bed.Log().Load(context.Background(), run) })
	return h, err
}

func (l *stored) Append(lease flow.Lease, drafts []flow.Draft, done func(error)) {
	var err error
	l.o.do(func() {
		heard := make(chan error, 1)
		l.o.bed.Log().Append(lease, drafts, func(err error) { heard <- err })
		err = <-heard
	})
	if slices.ContainsFunc(drafts, func(d flow.Draft) bool { return d.Kind == flow.KindGateResolved }) {
		l.tell()
	}
	done(err)
}

func (l *stored) Park(lease flow.Lease, p flow.Parking) (parked bool, err error) {
	l.o.do(func() { parked, err = l.o.bed.Log().Park(lease, p) })
	return parked, err
}

func (l *stored) Watch(_ string, f func(flow.Record)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.next
	l.next++
	l.watchers[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, id)
	}
}

func (l *stored) Write(run string, d flow.Draft) (err error) {
	l.o.do(func() { err = l.o.bed.Write(run, d) })
	l.tell()
	return err
}

func (l *stored) Decide(run, gate string, d flow.Decision) (err error) {
	l.o.do(func() { err = l.o.bed.Decide(run, gate, d) })
	l.tell()
	return err
}

func (l *stored) Records(run string) (records []flow.Record) {
	var err error
	if l.o.do(func() { records, err = l.o.bed.Records(run) }); err != nil {
		panic(err)
	}
	return records
}

// tell hands what others than the owner have written, and closings of gates, to the watchers.
func (l *stored) tell() {
	records := l.Records(l.run)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		if r.Seq <= l.told || r.Epoch > 0 && r.Kind != flow.KindGateResolved {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(l.watchers)) {
			l.watchers[id](r)
		}
	}
	l.told = records[len(records)-1].Seq
}

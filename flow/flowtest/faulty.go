package flowtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// ErrKilled is what a dead process would never have lived to see: the answer of
// a [Faulty] log after its death, so that the drive over it ends.
var ErrKilled = errors.New("flowtest: the process was killed here")

// Write is something a drive wants stored.
type Write struct {
	N      int    // counted over the log, from 1
	Op     string // acquire, append or park
	Run    string
	Drafts []flow.Draft // of an append
}

// Has reports whether the write holds a record of this kind.
func (w Write) Has(kind string) bool {
	return slices.ContainsFunc(w.Drafts, func(d flow.Draft) bool { return d.Kind == kind })
}

// HasAt reports whether the write holds a record of this kind at this path.
func (w Write) HasAt(kind, path string) bool {
	return slices.ContainsFunc(w.Drafts, func(d flow.Draft) bool { return d.Kind == kind && d.Path == path })
}

// Fault is what becomes of a write.
type Fault int

// Faults.
const (
	Pass       Fault = iota // it is stored and acknowledged
	KillBefore              // the process dies and the write is lost
	KillAfter               // it is stored, and the process dies before it learns so
	Full                    // it is refused with flow.ErrStoreFull; the process lives on
	Down                    // it is refused with flow.ErrStoreDown
	Fenced                  // it is refused with flow.ErrLeaseLost
)

// Faulty is a log that can fail at any write. It stores the writes of a run one
// by one and asynchronously, as a log on a disk does: what is queued and not yet
// stored is lost by a kill.
type Faulty struct {
	log flow.Log

	// Before is asked about each write, and may block to delay it. After is told
	// when a write is stored and not yet acknowledged. Either may be nil; both
	// are set before the log is used.
	Before func(Write) Fault
	After  func(Write)
	// Lag delays what Watch delivers, as between processes.
	Lag time.Duration

	mu     sync.Mutex
	cond   *sync.Cond
	n      int
	held   bool
	sealed bool
	late   []Write
	queues map[string][]op // by run: order is kept within a run alone
	busy   map[string]bool // runs whose queue somebody works on
	dead   chan struct{}
}

// op is a queued write: how it is stored and who hears of it.
type op struct {
	Write
	store func() error
	done  func(error)
}

// NewFaulty wraps a log. Without faults it only makes it slower.
func NewFaulty(log flow.Log) *Faulty {
	f := &Faulty{log: log, queues: map[string][]op{}, busy: map[string]bool{}, dead: make(chan struct{})}
	f.cond = sync.NewCond(&f.mu)
	return f
}

// Dead is closed when the process is dead.
func (f *Faulty) Dead() <-chan struct{} { return f.dead }

// Hold stops the storing; writes pile up until Release or Kill.
func (f *Faulty) Hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = true
}

// Release goes on storing.
func (f *Faulty) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = false
	f.cond.Broadcast()
}

// Seal says that the drive over this log has returned: Late are the writes that
// it nevertheless wants afterwards.
func (f *Faulty) Seal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sealed = true
}

// Late are the writes since Seal.
func (f *Faulty) Late() []Write {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.late
}

// Pending are the writes that are queued.
func (f *Faulty) Pending(run string) []Write {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ws []Write
	for _, o := range f.queues[run] {
		ws = append(ws, o.Write)
	}
	return ws
}

// Kill ends the process: nothing that is not stored will be.
func (f *Faulty) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kill()
}

// KillKeeping ends the process while its writes are held, and lets only the
// first keep of a run's pending ones reach the log.
func (f *Faulty) KillKeeping(run string, keep int) error {
	f.mu.Lock()
	kept := append([]op(nil), f.queues[run][:keep]...)
	f.mu.Unlock()
	for _, o := range kept {
		if err := o.store(); err != nil {
			return err
		}
	}
	f.Kill()
	return nil
}

func (f *Faulty) kill() {
	if !f.killed() {
		close(f.dead)
	}
	f.held = false
	f.cond.Broadcast()
}

func (f *Faulty) killed() bool {
	select {
	case <-f.dead:
		return true
	default:
		return false
	}
}

// Acquire is a write.
func (f *Faulty) Acquire(ctx context.Context, run string, owner flow.Owner) (flow.Lease, error) {
	var lease flow.Lease
	err := f.wait(Write{Op: "acquire", Run: run}, func() (err error) {
		lease, err = f.log.Acquire(ctx, run, owner)
		return err
	})
	return lease, err
}

// Load reads, and fails only in a dead process.
func (f *Faulty) Load(ctx context.Context, run string) (flow.History, error) {
	if f.killed() {
		return flow.History{}, ErrKilled
	}
	return f.log.Load(ctx, run)
}

// Append is a write.
func (f *Faulty) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	store := func() error {
		stored := make(chan error, 1)
		f.log.Append(l, drafts, func(err error) { stored <- err })
		return <-stored
	}
	f.enqueue(op{Write{Op: "append", Run: l.Run, Drafts: drafts}, store, done})
}

// Park is a write.
func (f *Faulty) Park(l flow.Lease, p flow.Parking) (bool, error) {
	var parked bool
	err := f.wait(Write{Op: "park", Run: l.Run}, func() (err error) {
		parked, err = f.log.Park(l, p)
		return err
	})
	return parked, err
}

// Watch delivers until the process is dead, and everything twice: at least once
// is all that a log promises.
func (f *Faulty) Watch(run string, notify func(flow.Record)) (stop func()) {
	w := &watch{notify: notify, dead: f.dead, lag: f.Lag}
	unwatch := f.log.Watch(run, w.take)
	return func() {
		unwatch()
		w.stop()
	}
}

// watch hands records on in order, never while it is stopped.
type watch struct {
	notify func(flow.Record)
	dead   <-chan struct{}
	lag    time.Duration

	mu      sync.Mutex
	waiting []flow.Record
	stopped bool
}

func (w *watch) take(r flow.Record) {
	if w.lag == 0 {
		w.deliver(r)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, r)
	time.AfterFunc(w.lag, w.next)
}

func (w *watch) next() {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.waiting[0]
	w.waiting = w.waiting[1:]
	if !w.stopped {
		w.deliver(r)
	}
}

func (w *watch) deliver(r flow.Record) {
	select {
	case <-w.dead:
	default:
		w.notify(r)
		w.notify(r)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

func (f *Faulty) wait(w Write, store func() error) error {
	answer := make(chan error, 1)
	f.enqueue(op{w, store, func(err error) { answer <- err }})
	return <-answer
}

func (f *Faulty) enqueue(o op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sealed {
		f.late = append(f.late, o.Write)
	}
	f.queues[o.Run] = append(f.queues[o.Run], o)
	if !f.busy[o.Run] {
		f.busy[o.Run] = true
		go f.work(o.Run)
	}
}

// work stores a run's writes until none is queued.
func (f *Faulty) work(run string) {
	f.mu.Lock()
	for {
		for f.held {
			f.cond.Wait()
		}
		if len(f.queues[run]) == 0 {
			break
		}
		o := f.queues[run][0]
		f.queues[run] = f.queues[run][1:]
		f.n++
		o.N = f.n
		f.mu.Unlock()
		o.done(f.perform(o))
		f.mu.Lock()
	}
	f.busy[run] = false
	f.mu.Unlock()
}

func (f *Faulty) perform(o op) error {
	fault := Pass
	if f.Before != nil && !f.killed() {
		fault = f.Before(o.Write)
	}
	if fault == KillBefore {
		f.Kill()
	}
	if f.killed() {
		return ErrKilled
	}
	switch fault {
	case Full:
		return flow.ErrStoreFull
	case Down:
		return flow.ErrStoreDown
	case Fenced:
		return flow.ErrLeaseLost
	}
	err := o.store()
	if fault == KillAfter {
		f.Kill()
		return ErrKilled
	}
	if f.After != nil {
		f.After(o.Write)
	}
	return err
}

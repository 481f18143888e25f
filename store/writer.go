package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// What one transaction takes at most.
const (
	batchDrafts = 512
	batchBytes  = 1 << 20
)

const heartbeatEvery = 5 * time.Second

// Driver is the writing connection of a database, as a [Writer] uses it: by one
// goroutine at a time.
type Driver interface {
	// Begin begins a transaction. moved says that others have written since the last
	// one in a way that what is remembered of runs may no longer hold.
	Begin() (c Conn, moved bool, err error)
	// Commit makes the transaction durable; after an error nothing of it is.
	Commit(*Tx) error
	// Rollback undoes what is left of a transaction that has failed.
	Rollback()
	// News says whether others may have written since the last time, and whether what is
	// remembered of runs may no longer hold because of it. It is asked at every poll.
	News() (c Conn, news, moved bool, err error)
	// Fault says what a failure means; Ordinary for one of an op alone.
	Fault(error) Fault
	// Wait reports whether to try again after a fault that may pass, first seen at since,
	// and waits until that makes sense, or until the store is to be closed.
	Wait(fault Fault, since time.Time, closing <-chan struct{}) bool
	// Explain says which database failed, and what to do.
	Explain(error) error
	// Beat is called with every heartbeat.
	Beat()
	// Close ends the connection; down is why nothing was written any more, if so.
	Close(down error) error
}

// Fault is what a failed statement means for a store.
type Fault int

// Faults.
const (
	NoFault  Fault = iota
	Ordinary       // of the statement alone: a constraint, bad SQL
	Passing        // another process holds what is needed, or was faster
	Full           // no space left on the disk
	Broken         // reading, writing or syncing failed: nothing more is written
)

// ErrClosed: the store is closed.
var ErrClosed = errors.New("the store is closed")

// queued is an op on its way through the writer.
type queued struct {
	*Op
	done   func(error) // called by the notifier
	result chan error  // for whoever waits; watchers do not hold it up
	taken  atomic.Bool // by the writer, or by a caller who gave up
	err    error
	doubt  bool // it failed by itself, after others whose work was undone with it
}

// Writer writes, one transaction at a time. While a commit syncs, the next batch
// gathers for the goroutine of the writer; when nothing is under way a lone
// append is committed at once, by whoever brings it.
type Writer struct {
	pollEvery time.Duration

	turn     sync.Mutex // held while anything below is used
	rules    *Store
	driver   Driver
	queue    *Mailbox[*queued]
	notifier *notifier
	inbox    *Inbox
	down     error         // why nothing is written any more
	fallen   chan struct{} // closed from then on
	polled   time.Time     // when it was last asked for news
	beaten   time.Time     // when leases were last renewed
	nudged   chan struct{}
	closing  chan struct{}
	ended    chan struct{}
	closeErr error

	commits atomic.Int64
	took    atomic.Int64 // nanoseconds that they took
}

// WriterStats are what a store has committed since it was opened.
type WriterStats struct {
	Commits int64
	Took    time.Duration // all of them together
	Untold  int64         // whose callers are yet to be told
}

// Stats tells. A store that is open for reading has no writer, and has written nothing.
func (w *Writer) Stats() WriterStats {
	if w == nil {
		return WriterStats{}
	}
	return WriterStats{w.commits.Load(), time.Duration(w.took.Load()), w.notifier.pending.Load()}
}

// NewWriter returns a writer whose inbox begins after what is there. It must be Run.
func (s *Store) NewWriter(d Driver, in *Inbox, pollEvery time.Duration) *Writer {
	n := &notifier{rules: s, queue: NewMailbox[callback](), ended: make(chan struct{})}
	return &Writer{pollEvery: pollEvery, rules: s, driver: d, queue: NewMailbox[*queued](), notifier: n, inbox: in, polled: time.Now(), beaten: time.Now(),
		fallen: make(chan struct{}), nudged: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
}

// Run writes until Close.
func (w *Writer) Run() {
	defer close(w.ended)
	poll := time.NewTicker(w.pollEvery)
	defer poll.Stop()
	go w.notifier.run()
	for {
		worked, open := w.takeTurn()
		if worked {
			continue
		}
		if !open {
			break
		}
		select {
		case <-w.queue.Wake:
		case <-w.nudged:
			w.Poll()
		case <-poll.C:
			w.Poll()
		}
	}
	w.notifier.queue.Close()
	w.closeErr = w.driver.Close(w.down)
}

// takeTurn renews the leases, if it is time to, and commits what is queued, if
// anything is.
func (w *Writer) takeTurn() (worked, open bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	if time.Since(w.beaten) >= heartbeatEvery {
		w.beaten = time.Now()
		w.commit([]*queued{{Op: &Op{Apply: (*Tx).Heartbeat}}})
		w.driver.Beat()
	}
	batch, open := w.nextBatch()
	if len(batch) > 0 {
		w.commit(batch)
		w.prune()
		if time.Since(w.polled) >= w.pollEvery {
			w.poll()
		}
	}
	return len(batch) > 0, open
}

// direct commits a lone op on the goroutine that brings it, if nobody writes and
// nobody waits: handing it over would cost more than writing it.
func (w *Writer) direct(o *queued) bool {
	if !w.turn.TryLock() {
		return false
	}
	defer w.turn.Unlock()
	batch := []*queued{o}
	if w.down != nil || !w.queue.quiet() || w.attempt(batch) != nil {
		return false // what needs patience is for the writer's own goroutine
	}
	w.answer(batch)
	w.prune()
	return true
}

// nextBatch takes what is queued, without those whose callers have given up.
func (w *Writer) nextBatch() (batch []*queued, open bool) {
	drafts, bytes := 0, 0
	taken, open := w.queue.Take(func(o *queued) bool {
		drafts, bytes = drafts+o.Drafts, bytes+o.Bytes
		return drafts <= batchDrafts && bytes <= batchBytes
	})
	batch = taken[:0]
	for _, o := range taken {
		if o.taken.CompareAndSwap(false, true) {
			batch = append(batch, o)
		}
	}
	return batch, open
}

// commit stores a batch and tells everybody.
func (w *Writer) commit(batch []*queued) {
	if err := w.persist(batch); err != nil {
		for _, o := range batch {
			o.err = err
		}
	}
	w.answer(batch)
}

func (w *Writer) answer(batch []*queued) {
	for _, o := range batch {
		switch {
		case o.result != nil:
			o.result <- o.err
		case o.done != nil && len(batch) == 1 && w.notifier.pending.Load() == 0:
			o.done(o.err) // a lone step need not wait for another goroutine, and overtakes nothing
		case o.done != nil:
			w.notifier.put(callback{done: o.done, err: o.err})
		}
	}
}

// persist is attempt, with patience for what may pass. What will not pass ends the
// writing for good.
func (w *Writer) persist(batch []*queued) error {
	for start := time.Now(); w.down == nil; {
		err := w.attempt(batch)
		switch fault := w.driver.Fault(err); fault {
		case NoFault:
			w.settleDoubts(batch)
			return nil
		case Ordinary:
			if len(batch) > 1 { // of one op, which is found by itself
				for _, o := range batch {
					if err := w.persist([]*queued{o}); err != nil {
						o.err = err
					}
				}
				return nil
			}
			return err
		case Broken:
			w.down = w.driver.Explain(err)
			close(w.fallen)
		default:
			if !w.driver.Wait(fault, start, w.closing) {
				return w.driver.Explain(err)
			}
		}
	}
	return w.down
}

// settleDoubts has ops that failed by themselves tried alone: what they failed for may be the
// work of others of their batch, and of that nothing may have been stored.
func (w *Writer) settleDoubts(batch []*queued) {
	for _, o := range batch {
		if !o.doubt {
			continue
		}
		if err := w.persist([]*queued{o}); err != nil {
			o.err = err
		}
	}
}

// attempt stores a batch in one transaction, except for ops that fail by themselves:
// those keep their error, and the others are tried without them. Any other failure
// leaves nothing of the batch.
func (w *Writer) attempt(batch []*queued) error {
	for _, o := range batch {
		o.err, o.doubt = nil, false
	}
	for {
		failed, err := w.try(batch)
		if failed == nil {
			return err
		}
		failed.err = err
	}
}

// try runs those ops of a batch that have not failed in one transaction. It returns
// the first that fails by itself, or the fault of the transaction.
func (w *Writer) try(batch []*queued) (failed *queued, err error) {
	began := time.Now()
	c, moved, err := w.driver.Begin()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.driver.Rollback()
			w.rules.RolledBack()
		}
	}()
	if moved {
		if err = w.collect(c); w.driver.Fault(err) == Ordinary {
			err = nil // a record that cannot be read is found by whoever loads it
		}
		if err != nil {
			return nil, err
		}
	}
	t := w.rules.Begin(c, moved)
	performed := false
	for _, o := range batch {
		if o.err != nil {
			continue
		}
		if err := t.Perform(o.Op); w.driver.Fault(err) == Ordinary {
			o.doubt = performed
			return o, err
		} else if err != nil {
			return nil, err
		}
		performed = true
	}
	if err = t.Finish(w.inbox); err == nil {
		err = w.driver.Commit(t)
	}
	if err != nil {
		return nil, err
	}
	w.commits.Add(1)
	w.took.Add(int64(time.Since(began)))
	w.notifier.tell(t.Committed(w.inbox))
	return nil, nil
}

// collect tells of what other processes wrote.
func (w *Writer) collect(c Conn) error {
	notices, err := w.inbox.Collect(c)
	w.notifier.tell(notices)
	return err
}

// Poll delivers what other processes wrote while this one was idle.
func (w *Writer) Poll() {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.poll()
}

// poll: a failure here shows again, and is handled, with the next batch.
func (w *Writer) poll() {
	w.polled = time.Now()
	if w.down != nil || !w.rules.Listening() {
		return
	}
	c, news, moved, err := w.driver.News()
	if err != nil || !news {
		return
	}
	if moved {
		w.rules.RolledBack()
	}
	_ = w.collect(c)
}

// Nudge has the writer look for what others wrote, soon.
func (w *Writer) Nudge() {
	select {
	case w.nudged <- struct{}{}:
	default:
	}
}

func (w *Writer) prune() {
	if w.inbox.Crowded() {
		w.commit([]*queued{{Op: &Op{Apply: (*Tx).Prune}}})
	}
}

// Fallen returns why nothing is written any more, as soon as that is so or ctx has ended; nil:
// it is not. A process that serves has nothing more to do then: its runs are interrupted. A
// store that is open for reading has no writer, and none that can fall.
func (w *Writer) Fallen(ctx context.Context) error {
	if w == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-w.fallen:
	case <-ctx.Done():
	}
	w.turn.Lock()
	defer w.turn.Unlock()
	return w.down
}

// Close writes what is queued and ends the goroutines.
func (w *Writer) Close() error {
	w.queue.Close()
	close(w.closing)
	<-w.ended
	<-w.notifier.ended
	return w.closeErr
}

// Submit is that of [DB].
func (w *Writer) Submit(o *Op, done func(error)) {
	q := &queued{Op: o, done: done}
	if !w.direct(q) && !w.queue.Put(q) {
		done(w.driver.Explain(ErrClosed))
	}
}

// Do is that of [DB].
func (w *Writer) Do(ctx context.Context, o *Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q := &queued{Op: o, result: make(chan error, 1)}
	if !w.queue.Put(q) {
		return w.driver.Explain(ErrClosed)
	}
	select {
	case err := <-q.result:
		return err
	case <-ctx.Done():
		if q.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-q.result
	}
}

// notifier calls back on a goroutine of its own: the next batch need not wait for
// two hundred calls, nor for a watcher that takes its time.
type notifier struct {
	rules   *Store
	queue   *Mailbox[callback]
	ended   chan struct{}
	pending atomic.Int64 // what is yet to be told
}

type callback struct {
	done    func(error)
	err     error
	notices []Notice
}

func (n *notifier) put(c callback) {
	n.pending.Add(1)
	n.queue.Put(c)
}

func (n *notifier) tell(notices []Notice) {
	if len(notices) > 0 {
		n.put(callback{notices: notices})
	}
}

func (n *notifier) run() {
	defer close(n.ended)
	for {
		calls, open := n.queue.Take(func(callback) bool { return true })
		for _, c := range calls {
			n.rules.Deliver(c.notices)
			if c.done != nil {
				c.done(c.err)
			}
			n.pending.Add(-1)
		}
		switch {
		case len(calls) > 0:
		case !open:
			return
		default:
			<-n.queue.Wake
		}
	}
}

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// What one transaction takes at most.
const (
	batchDrafts = 512
	batchBytes  = 1 << 20
)

// op is something to be done in a transaction, all or nothing.
type op struct {
	apply  func(*tx) error // may be called again, in another transaction
	drafts int
	bytes  int
	plain  bool        // only inserts records, after checks: it needs no savepoint
	done   func(error) // called by the notifier; nil: result is waited for
	result chan error
	taken  atomic.Bool // by the writer, or by a caller who gave up
	err    error
}

// writer writes, one transaction at a time. While a commit syncs, the next batch
// gathers for the goroutine of the writer; when nothing is under way a lone
// append is committed at once, by whoever brings it.
type writer struct {
	turn     sync.Mutex // held while anything below is used
	s        *Store
	c        *conn
	queue    *mailbox[*op]
	notifier *notifier
	poller   *poller
	states   map[string]*runState // as of the last commit, or of this transaction
	memory   memoryHead           // likewise
	place    *place
	down     error // why nothing is written any more
	wasFull  bool  // a full disk has been waited for in vain
	commits  int
	inboxed  int64 // the inbox's last row when it was pruned
	closing  chan struct{}
	ended    chan struct{}
	closeErr error
}

// cachedStates bounds the memory of idle runs.
const cachedStates = 20_000

func newWriter(s *Store, c *conn) (*writer, error) {
	w := &writer{
		s: s, c: c, queue: newMailbox[*op](), notifier: newNotifier(s.hub), poller: newPoller(s.hub, c), place: newPlace(s.dir),
		states: map[string]*runState{}, closing: make(chan struct{}), ended: make(chan struct{}),
	}
	if s.opts.BusyLimit < 5*time.Second {
		if err := c.script(fmt.Sprintf(`PRAGMA busy_timeout = %d`, s.opts.BusyLimit.Milliseconds())); err != nil {
			return nil, err
		}
	}
	if err := w.poller.start(); err != nil {
		return nil, err
	}
	return w, w.place.look() // a reader has opened the log as well
}

func (w *writer) run() {
	defer close(w.ended)
	beat, poll := time.NewTicker(heartbeatEvery), time.NewTicker(pollEvery)
	defer beat.Stop()
	defer poll.Stop()
	go w.notifier.run()
	for {
		select {
		case <-beat.C:
			w.inTurn(func() { w.commit([]*op{{apply: w.heartbeat}}) })
		default:
		}
		worked, open := w.takeTurn()
		if worked {
			continue
		}
		if !open {
			break
		}
		select {
		case <-w.queue.wake:
		case <-poll.C:
			w.inTurn(w.poll)
		case <-beat.C:
			w.inTurn(func() { w.commit([]*op{{apply: w.heartbeat}}) })
		}
	}
	w.notifier.close()
	w.closeErr = errors.Join(w.checkpoint(), w.c.close())
}

func (w *writer) inTurn(f func()) {
	w.turn.Lock()
	defer w.turn.Unlock()
	f()
}

// takeTurn commits what is queued, if anything is.
func (w *writer) takeTurn() (worked, open bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	batch, open := w.nextBatch()
	if len(batch) > 0 {
		w.commit(batch)
		w.pruneInTime()
	}
	return len(batch) > 0, open
}

// direct commits a lone op on the goroutine that brings it, if nobody writes and
// nobody waits: handing it over would cost more than writing it.
func (w *writer) direct(o *op) bool {
	if !w.turn.TryLock() {
		return false
	}
	defer w.turn.Unlock()
	batch := []*op{o}
	if w.down != nil || !w.queue.quiet() || w.attempt(batch) != nil {
		return false // what needs patience is for the writer's own goroutine
	}
	o.taken.Store(true)
	w.answer(batch, nil)
	w.pruneInTime()
	return true
}

// nextBatch takes what is queued, without those whose callers have given up.
func (w *writer) nextBatch() (batch []*op, open bool) {
	drafts, bytes := 0, 0
	queued, open := w.queue.take(func(o *op) bool {
		drafts, bytes = drafts+o.drafts, bytes+o.bytes
		return drafts <= batchDrafts && bytes <= batchBytes
	})
	batch = queued[:0]
	for _, o := range queued {
		if o.taken.CompareAndSwap(false, true) {
			batch = append(batch, o)
		}
	}
	return batch, open
}

// commit stores a batch and tells everybody. A fault of one op is its own: its
// neighbours are then tried without it.
func (w *writer) commit(batch []*op) {
	err := w.persist(batch)
	if err != nil && len(batch) > 1 && faultOf(err) == ordinary && w.down == nil {
		for _, o := range batch {
			w.commit([]*op{o})
		}
		return
	}
	w.answer(batch, err)
}

func (w *writer) answer(batch []*op, err error) {
	for _, o := range batch {
		if err != nil {
			o.err = err
		}
		switch {
		case o.done != nil && len(batch) == 1 && w.notifier.idle():
			o.done(o.err) // a lone step need not wait for another goroutine
		case o.done != nil:
			w.notifier.done(o.done, o.err)
		case o.result != nil:
			o.result <- o.err
		}
	}
}

// persist is attempt, with patience for what may pass: other processes and a
// full disk. What will not pass ends the writing for good.
func (w *writer) persist(batch []*op) error {
	if w.down != nil {
		return w.down
	}
	path, start := w.s.dir.database(), time.Now()
	for {
		err := w.attempt(batch)
		switch faultOf(err) {
		case noFault:
			w.wasFull = false
			return nil
		case ordinary:
			return err
		case busy:
			if time.Since(start) >= w.s.opts.BusyLimit {
				return explain(path, err)
			}
		case full:
			if w.wasFull || time.Since(start) >= w.s.opts.FullLimit || !w.pause() {
				w.wasFull = true
				return explain(path, err)
			}
		default:
			w.down = explain(path, err)
			return w.down
		}
	}
}

// pause waits for space on the disk; false if the store is being closed.
func (w *writer) pause() bool {
	t := time.NewTimer(w.s.opts.FullPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.closing:
		return false
	}
}

// attempt runs a batch in one transaction. Ops that fail by themselves keep
// their error and leave nothing; any other failure leaves nothing of the batch.
func (w *writer) attempt(batch []*op) (err error) {
	if err := w.c.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.c.exec(`ROLLBACK`) // fails if SQLite has rolled back by itself
			w.forgetStates()
		}
	}()
	if err := w.refresh(); err != nil {
		return err
	}
	t := &tx{w: w, c: w.c}
	for _, o := range batch {
		if err := t.perform(o); err != nil {
			return err
		}
	}
	if err := w.c.exec(`COMMIT`); err != nil {
		return err
	}
	if w.down = w.place.look(); w.down != nil {
		return w.down // what was written is in a file that is not the store's: it is not tried again
	}
	_ = w.poller.settle() // if it fails, this commit is taken for another's: that costs a little time
	w.committed(t)
	return nil
}

// committed tells of what is now durable.
func (w *writer) committed(t *tx) {
	w.poller.passed(t.inbox)
	w.notifier.notices(t.notices)
	w.s.files.write(t.files, t.rested)
	if len(w.states) > cachedStates {
		clear(w.states)
	}
	w.commits++
	if w.commits%256 == 0 {
		w.shrink()
	}
}

// refresh drops what is remembered if another process has written since.
func (w *writer) refresh() error {
	return w.catchUp(w.poller.moved())
}

func (w *writer) catchUp(moved bool, err error) error {
	if err != nil || !moved {
		return err
	}
	w.forgetStates()
	notices, err := w.poller.collect()
	w.notifier.notices(notices)
	return err
}

// forgetStates drops what may no longer be so.
func (w *writer) forgetStates() {
	clear(w.states)
	w.memory = memoryHead{}
}

// poll delivers what other processes wrote while this one was idle. A failure
// here shows again, and is handled, with the next batch.
func (w *writer) poll() {
	if w.down == nil && w.s.hub.listening() {
		_ = w.catchUp(w.poller.look())
	}
}

// heartbeat renews all leases of this store with one statement.
func (w *writer) heartbeat(t *tx) error {
	return t.c.exec(`UPDATE runs SET heartbeat = ? WHERE holder = ?`, w.s.opts.Now().UnixNano(), w.s.holder)
}

// The inbox is pruned when so many rows have come, of those so old.
const (
	pruneEvery = 1000
	pruneAge   = time.Minute
)

// prune removes rows of the inbox that nobody can be waiting for: whoever polls
// has seen them long ago, save owners that were stopped; a later owner loads the
// records themselves.
func (w *writer) prune(t *tx) error {
	return t.c.exec(`DELETE FROM inbox WHERE at < ? AND run NOT IN (SELECT n FROM runs WHERE holder IS NOT NULL)`,
		w.s.opts.Now().Add(-pruneAge).UnixNano())
}

func (w *writer) pruneInTime() {
	if w.poller.seen-w.inboxed >= pruneEvery {
		w.inboxed = w.poller.seen
		w.commit([]*op{{apply: w.prune}})
	}
}

// shrink cuts a log that has grown because readers held it. It waits for them
// only a moment and tries again later.
func (w *writer) shrink() {
	info, err := os.Stat(w.s.dir.database() + "-wal")
	if err != nil || info.Size() < w.s.opts.walLimit {
		return
	}
	_ = w.c.script(`PRAGMA busy_timeout = 100`)
	_ = w.checkpoint()
	_ = w.c.script(fmt.Sprintf(`PRAGMA busy_timeout = %d`, min(5*time.Second, w.s.opts.BusyLimit).Milliseconds()))
}

// checkpoint moves the log into the database. Of a store that was lost this makes the
// file complete that somebody has moved away, or whose log was removed.
func (w *writer) checkpoint() error {
	if w.down != nil && !errors.Is(w.down, flow.ErrStoreLost) {
		return nil
	}
	err := w.c.query(context.Background(), func(row) error { return nil }, `PRAGMA wal_checkpoint(TRUNCATE)`)
	switch faultOf(err) {
	case busy, full:
		return nil // the log stays as it is, and nothing in it is lost
	}
	return err
}

// close writes what is queued and ends the goroutines.
func (w *writer) close() error {
	w.queue.close()
	close(w.closing)
	<-w.ended
	<-w.notifier.ended
	if w.closeErr != nil {
		return fmt.Errorf("closing %s: %w", w.s.dir.database(), w.closeErr)
	}
	return nil
}

// submit queues an op whose done is called later.
func (s *Store) submit(o *op) {
	switch {
	case s.writer == nil:
		o.done(s.refusal)
	case s.writer.direct(o):
	case !s.writer.queue.put(o):
		o.done(fmt.Errorf("%s: %w", s.dir, errClosed))
	}
}

// do queues an op and waits for it. When ctx ends first the op is left out, or,
// if it has been taken already, awaited.
func (s *Store) do(ctx context.Context, o *op) error {
	if s.writer == nil {
		return s.refusal
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	o.result = make(chan error, 1)
	if !s.writer.queue.put(o) {
		return fmt.Errorf("%s: %w", s.dir, errClosed)
	}
	select {
	case err := <-o.result:
		return err
	case <-ctx.Done():
		if o.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-o.result
	}
}

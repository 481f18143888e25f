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
	"github.com/tipstaff/tipstaff/store"
)

// What one transaction takes at most.
const (
	batchDrafts = 512
	batchBytes  = 1 << 20
)

const (
	heartbeatEvery = 5 * time.Second
	pollEvery      = 50 * time.Millisecond
)

// op is a store's op on its way through the writer.
type op struct {
	*store.Op
	done   func(error) // called by the notifier
	result chan error  // for whoever waits; watchers do not hold it up
	taken  atomic.Bool // by the writer, or by a caller who gave up
	err    error
}

// writer writes, one transaction at a time. While a commit syncs, the next batch
// gathers for the goroutine of the writer; when nothing is under way a lone
// append is committed at once, by whoever brings it.
type writer struct {
	turn     sync.Mutex // held while anything below is used
	db       *database
	c        *conn
	queue    *mailbox[*op]
	notifier *notifier
	poller   *poller
	place    *place
	down     error // why nothing is written any more
	wasFull  bool  // a full disk has been waited for in vain
	commits  int
	beaten   time.Time // when leases were last renewed
	closing  chan struct{}
	ended    chan struct{}
	closeErr error
}

func newWriter(db *database, c *conn) (*writer, error) {
	if err := setBusyTimeout(c, min(busyTimeout, db.opts.BusyLimit)); err != nil {
		return nil, err
	}
	p, err := newPoller(db.rules, c)
	if err != nil {
		return nil, err
	}
	n := &notifier{rules: db.rules, queue: newMailbox[callback](), ended: make(chan struct{})}
	w := &writer{db: db, c: c, queue: newMailbox[*op](), notifier: n, poller: p, place: &place{names: [2]string{db.dir.database(), db.dir.database() + "-wal"}},
		beaten: time.Now(), closing: make(chan struct{}), ended: make(chan struct{})}
	return w, w.place.look() // a reader has opened the log as well
}

func setBusyTimeout(c *conn, d time.Duration) error {
	return c.script(fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.Milliseconds()))
}

func (w *writer) run() {
	defer close(w.ended)
	poll := time.NewTicker(pollEvery)
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
		case <-w.queue.wake:
		case <-poll.C:
			w.poll()
		}
	}
	w.notifier.queue.close()
	w.closeErr = errors.Join(w.checkpoint(), w.c.close())
}

// takeTurn renews the leases, if it is time to, and commits what is queued, if
// anything is.
func (w *writer) takeTurn() (worked, open bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	if time.Since(w.beaten) >= heartbeatEvery {
		w.beaten = time.Now()
		w.commit([]*op{{Op: &store.Op{Apply: (*store.Tx).Heartbeat}}})
		w.db.readers.shrink()
	}
	batch, open := w.nextBatch()
	if len(batch) > 0 {
		w.commit(batch)
		w.prune()
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
	w.answer(batch)
	w.prune()
	return true
}

// nextBatch takes what is queued, without those whose callers have given up.
func (w *writer) nextBatch() (batch []*op, open bool) {
	drafts, bytes := 0, 0
	queued, open := w.queue.take(func(o *op) bool {
		drafts, bytes = drafts+o.Drafts, bytes+o.Bytes
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

// commit stores a batch and tells everybody.
func (w *writer) commit(batch []*op) {
	if err := w.persist(batch); err != nil {
		for _, o := range batch {
			o.err = err
		}
	}
	w.answer(batch)
}

func (w *writer) answer(batch []*op) {
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

// persist is attempt, with patience for what may pass: other processes and a
// full disk. What will not pass ends the writing for good.
func (w *writer) persist(batch []*op) error {
	path, start := w.db.dir.database(), time.Now()
	for w.down == nil {
		err := w.attempt(batch)
		switch faultOf(err) {
		case noFault:
			w.wasFull = false
			return nil
		case ordinary:
			return err
		case busy:
			if time.Since(start) >= w.db.opts.BusyLimit {
				return explain(path, err)
			}
		case full:
			if w.wasFull || time.Since(start) >= w.db.opts.FullLimit || !w.pause() {
				w.wasFull = true
				return explain(path, err)
			}
		default:
			w.down = explain(path, err)
		}
	}
	return w.down
}

// pause waits for space on the disk; false if the store is being closed.
func (w *writer) pause() bool {
	t := time.NewTimer(w.db.opts.FullPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.closing:
		return false
	}
}

// attempt stores a batch in one transaction, except for ops that fail by themselves:
// those keep their error, and the others are tried without them. Any other failure
// leaves nothing of the batch.
func (w *writer) attempt(batch []*op) error {
	for _, o := range batch {
		o.err = nil
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
func (w *writer) try(batch []*op) (failed *op, err error) {
	if err := w.c.Exec(`BEGIN IMMEDIATE`); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = w.c.Exec(`ROLLBACK`) // fails if SQLite has rolled back by itself
			w.db.rules.RolledBack()
		}
	}()
	moved, err := w.poller.moved()
	if err == nil && moved {
		if err = w.collect(); faultOf(err) == ordinary {
			err = nil // a record that cannot be read is found by whoever loads it
		}
	}
	if err != nil {
		return nil, err
	}
	t := w.db.rules.Begin(w.c, moved)
	for _, o := range batch {
		if o.err != nil {
			continue
		}
		if err := t.Perform(o.Op); faultOf(err) == ordinary {
			return o, err
		} else if err != nil {
			return nil, err
		}
	}
	if err := w.c.Exec(`COMMIT`); err != nil {
		return nil, err
	}
	if w.down = w.place.look(); w.down != nil {
		return nil, w.down // what was written is in a file that is not the store's: it is not tried again
	}
	_, _ = w.poller.moved() // if it fails, this commit is taken for another's: that costs a little time
	w.notifier.tell(t.Committed(w.poller.inbox))
	if len(t.Envelopes) > 0 || len(t.Tasks) > 0 || len(t.Launches) > 0 || t.Rested {
		w.db.files.queue.put(fileJob{files: t.Envelopes, tasks: t.Tasks, launches: t.Launches, anchors: t.Rested})
	}
	w.commits++
	if w.commits%256 == 0 {
		w.shrink()
	}
	return nil, nil
}

// collect tells of what other processes wrote.
func (w *writer) collect() error {
	notices, err := w.poller.inbox.Collect(w.c)
	w.notifier.tell(notices)
	return err
}

// poll delivers what other processes wrote while this one was idle. A failure
// here shows again, and is handled, with the next batch.
func (w *writer) poll() {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.down != nil || !w.db.rules.Listening() {
		return
	}
	if moved, err := w.poller.look(); err == nil && moved {
		w.db.rules.RolledBack()
		_ = w.collect()
	}
}

func (w *writer) prune() {
	if w.poller.inbox.Crowded() {
		w.commit([]*op{{Op: &store.Op{Apply: (*store.Tx).Prune}}})
	}
}

// shrink cuts a log that has grown because readers held it, or tries again later.
func (w *writer) shrink() {
	info, err := os.Stat(w.db.dir.database() + "-wal")
	if err != nil || info.Size() < w.db.opts.walLimit {
		return
	}
	_ = w.checkpoint()
}

// checkpoint moves the log into the database. Of a store that was lost this makes the
// file complete that somebody has moved away, or whose log was removed. It waits for readers
// only a moment, for meanwhile no process can write.
func (w *writer) checkpoint() error {
	if w.down != nil && !errors.Is(w.down, flow.ErrStoreLost) {
		return nil
	}
	_ = setBusyTimeout(w.c, 100*time.Millisecond)
	_, err := w.c.number(context.Background(), `PRAGMA wal_checkpoint(TRUNCATE)`)
	_ = setBusyTimeout(w.c, min(busyTimeout, w.db.opts.BusyLimit))
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
		return fmt.Errorf("closing %s: %w", w.db.dir.database(), w.closeErr)
	}
	return nil
}

// Submit implements [store.DB].
func (db *database) Submit(o *store.Op, done func(error)) {
	queued := &op{Op: o, done: done}
	switch {
	case db.writer == nil:
		done(db.refusal)
	case db.writer.direct(queued):
	case !db.writer.queue.put(queued):
		done(fmt.Errorf("%s: %w", db.dir, errClosed))
	}
}

// Do implements [store.DB].
func (db *database) Do(ctx context.Context, o *store.Op) error {
	if db.writer == nil {
		return db.refusal
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	queued := &op{Op: o, result: make(chan error, 1)}
	if !db.writer.queue.put(queued) {
		return fmt.Errorf("%s: %w", db.dir, errClosed)
	}
	select {
	case err := <-queued.result:
		return err
	case <-ctx.Done():
		if queued.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-queued.result
	}
}

// notifier calls back on a goroutine of its own: the next batch need not wait for
// two hundred calls, nor for a watcher that takes its time.
type notifier struct {
	rules   *store.Store
	queue   *mailbox[callback]
	ended   chan struct{}
	pending atomic.Int64 // what is yet to be told
}

type callback struct {
	done    func(error)
	err     error
	notices []store.Notice
}

func (n *notifier) put(c callback) {
	n.pending.Add(1)
	n.queue.put(c)
}

func (n *notifier) tell(notices []store.Notice) {
	if len(notices) > 0 {
		n.put(callback{notices: notices})
	}
}

func (n *notifier) run() {
	defer close(n.ended)
	for {
		calls, open := n.queue.take(func(callback) bool { return true })
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
			<-n.queue.wake
		}
	}
}

// poller finds out whether other processes wrote, by the change counter of its
// connection.
type poller struct {
	c       *conn
	inbox   *store.Inbox
	version uint32
}

// newPoller begins after what is there.
func newPoller(rules *store.Store, c *conn) (*poller, error) {
	p := &poller{c: c}
	if _, err := p.look(); err != nil {
		return nil, err
	}
	var err error
	p.inbox, err = rules.OpenInbox(c)
	return p, err
}

// look is moved for a connection that is not in a transaction.
func (p *poller) look() (bool, error) {
	if err := p.c.Exec(`PRAGMA data_version`); err != nil { // it must read something to learn of others
		return false, err
	}
	return p.moved()
}

// moved reports whether the file has changed since the last call, by this connection
// or another.
func (p *poller) moved() (moved bool, err error) {
	before := p.version
	p.version, err = p.c.version()
	return p.version != before, err
}

// pollReading delivers what other processes write, for a store that cannot write,
// until stop. Failures show to its readers.
func (db *database) pollReading(p *poller, stop chan struct{}) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		if moved, err := p.look(); err == nil && moved && db.rules.Listening() {
			notices, _ := p.inbox.Collect(p.c)
			db.rules.Deliver(notices)
		}
	}
}

// mailbox is an unbounded queue for one receiver. Senders never wait: an owner
// holds its own lock while it appends.
type mailbox[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	wake   chan struct{} // holds a token while there may be something to take
}

func newMailbox[T any]() *mailbox[T] {
	return &mailbox[T]{wake: make(chan struct{}, 1)}
}

// quiet reports that nothing waits here and more may come.
func (m *mailbox[T]) quiet() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.items) == 0 && !m.closed
}

// put reports false if the mailbox is closed.
func (m *mailbox[T]) put(items ...T) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.items = append(m.items, items...)
	m.signal()
	return true
}

func (m *mailbox[T]) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// close lets the receiver take what is there and then end.
func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.signal()
}

// take removes the longest prefix that fits, at least one item if there is any.
// It reports false when the mailbox is empty and closed.
func (m *mailbox[T]) take(fits func(T) bool) (items []T, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(m.items) && (fits(m.items[n]) || n == 0) {
		n++
	}
	items = m.items[:n:n]
	m.items = m.items[n:]
	if len(m.items) == 0 {
		m.items = nil
	}
	return items, n > 0 || !m.closed
}

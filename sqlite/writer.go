package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

const pollEvery = 50 * time.Millisecond

// writer is the [store.Driver] of a folder's database: the one connection that writes.
type writer struct {
	db      *database
	c       *conn
	poller  *poller
	place   *place
	format  int64 // that this program knows
	lost    error // the database is no longer where it was, or no longer what this program can write
	wasFull bool  // a full disk has been waited for in vain
	commits int
}

func newWriter(db *database, c *conn, format int64) (*writer, *store.Inbox, error) {
	if err := setBusyTimeout(c, min(busyTimeout, db.opts.BusyLimit)); err != nil {
		return nil, nil, err
	}
	p, in, err := newPoller(db.rules, c)
	if err != nil {
		return nil, nil, err
	}
	w := &writer{db: db, c: c, poller: p, format: format, place: &place{names: [2]string{db.dir.database(), db.dir.database() + "-wal"}}}
	return w, in, errors.Join(w.place.look(), w.overtaken()) // a reader has opened the log as well
}

func setBusyTimeout(c *conn, d time.Duration) error {
	return c.script(fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.Milliseconds()))
}

// Begin implements [store.Driver].
func (w *writer) Begin() (store.Conn, bool, error) {
	if w.lost != nil {
		return nil, false, w.lost
	}
	if err := w.c.Exec(`BEGIN IMMEDIATE`); err != nil {
		return nil, false, err
	}
	moved, err := w.poller.moved()
	if err == nil && moved {
		err = w.overtaken()
	}
	if err != nil {
		w.Rollback()
	}
	return w.c, moved, err
}

// overtaken looks whether another process has brought the file to a newer format. Only where
// others have written there is anything to look at.
func (w *writer) overtaken() error {
	has, err := w.c.number(context.Background(), `PRAGMA user_version`)
	if err == nil && has > w.format {
		w.lost = store.Overtaken(w.db.dir.database(), w.format)
		err = w.lost
	}
	return err
}

// Commit implements [store.Driver].
func (w *writer) Commit(t *store.Tx) error {
	if err := w.c.Exec(`COMMIT`); err != nil {
		return err
	}
	if w.lost = w.place.look(); w.lost != nil {
		return w.lost // what was written is in a file that is not the store's: it is not tried again
	}
	_, _ = w.poller.moved() // if it fails, this commit is taken for another's: that costs a little time
	if len(t.Envelopes) > 0 || len(t.Tasks) > 0 || len(t.Launches) > 0 || t.Rested {
		w.db.files.queue.Put(fileJob{files: t.Envelopes, tasks: t.Tasks, launches: t.Launches, anchors: t.Rested})
	}
	w.wasFull = false
	w.commits++
	if w.commits%256 == 0 {
		w.shrink()
	}
	return nil
}

// Rollback implements [store.Driver].
func (w *writer) Rollback() {
	_ = w.c.Exec(`ROLLBACK`) // fails if SQLite has rolled back by itself
}

// News implements [store.Driver].
func (w *writer) News() (c store.Conn, news, moved bool, err error) {
	if moved, err = w.poller.look(); err == nil && moved {
		err = w.overtaken() // which the next Begin tells
	}
	return w.c, moved, moved, err
}

// Fault implements [store.Driver].
func (w *writer) Fault(err error) store.Fault {
	switch faultOf(err) {
	case noFault:
		return store.NoFault
	case ordinary:
		if w.lost != nil {
			return store.Broken
		}
		return store.Ordinary
	case busy:
		return store.Passing
	case full:
		return store.Full
	}
	return store.Broken
}

// Wait implements [store.Driver]. SQLite itself waits for others.
func (w *writer) Wait(fault store.Fault, since time.Time, closing <-chan struct{}) bool {
	if fault == store.Passing {
		return time.Since(since) < w.db.opts.BusyLimit
	}
	if w.wasFull || time.Since(since) >= w.db.opts.FullLimit {
		w.wasFull = true
		return false
	}
	t := time.NewTimer(w.db.opts.FullPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-closing:
		w.wasFull = true
	}
	return !w.wasFull
}

// Explain implements [store.Driver].
func (w *writer) Explain(err error) error {
	if errors.Is(err, store.ErrClosed) {
		return fmt.Errorf("%s: %w", w.db.dir, err)
	}
	return explain(w.db.dir.database(), err)
}

// Beat implements [store.Driver].
func (w *writer) Beat() { w.db.readers.shrink() }

// Close implements [store.Driver].
func (w *writer) Close(down error) error {
	var err error
	if down == nil || errors.Is(down, flow.ErrStoreLost) {
		err = w.checkpoint()
	}
	if err := errors.Join(err, w.c.close()); err != nil {
		return fmt.Errorf("closing %s: %w", w.db.dir.database(), err)
	}
	return nil
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
	_ = setBusyTimeout(w.c, 100*time.Millisecond)
	_, err := w.c.number(context.Background(), `PRAGMA wal_checkpoint(TRUNCATE)`)
	_ = setBusyTimeout(w.c, min(busyTimeout, w.db.opts.BusyLimit))
	switch faultOf(err) {
	case busy, full:
		return nil // the log stays as it is, and nothing in it is lost
	}
	return err
}

// Submit implements [store.DB].
func (db *database) Submit(o *store.Op, done func(error)) {
	if db.writer == nil {
		done(db.refusal)
		return
	}
	db.writer.Submit(o, done)
}

// Do implements [store.DB].
func (db *database) Do(ctx context.Context, o *store.Op) error {
	if db.writer == nil {
		return db.refusal
	}
	return db.writer.Do(ctx, o)
}

// poller finds out whether other processes wrote, by the change counter of its
// connection.
type poller struct {
	c       *conn
	version uint32
}

// newPoller begins after what is there.
func newPoller(rules *store.Store, c *conn) (*poller, *store.Inbox, error) {
	p := &poller{c: c}
	if _, err := p.look(); err != nil {
		return nil, nil, err
	}
	in, err := rules.OpenInbox(c)
	return p, in, err
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
func (db *database) pollReading(p *poller, in *store.Inbox, stop chan struct{}) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		if moved, err := p.look(); err == nil && moved && db.rules.Listening() {
			notices, _ := in.Collect(p.c)
			db.rules.Deliver(notices)
		}
	}
}

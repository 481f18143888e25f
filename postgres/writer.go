package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

// writer is the [store.Driver] of a database.
type writer struct {
	db        *database
	c         *conn
	holder    string
	tx        int64   // number of the present transaction of this process
	conflicts int     // in a row
	again     []int64 // locks that the last transaction asked for in vain
}

// Begin implements [store.Driver]. Nothing is sent yet.
func (w *writer) Begin() (store.Conn, bool, error) {
	if w.c.pg.IsClosed() {
		c, err := w.db.connect(context.Background())
		if err != nil {
			return nil, false, err
		}
		w.c = c
	}
	w.tx++
	err := w.c.Exec(`BEGIN`)
	w.c.locks.begin(w.again)
	w.again = nil
	return w.c, false, err
}

// Commit implements [store.Driver]. The mark is written only where the format is one that this
// program knows.
func (w *writer) Commit(t *store.Tx) error {
	err := w.c.Exec(`INSERT INTO marks (holder, tx, at) VALUES (CASE WHEN (SELECT version FROM format) <= ? THEN CAST(? AS text) END, ?, ?)
		ON CONFLICT (holder) DO UPDATE SET tx = excluded.tx, at = excluded.at`, w.db.format, w.holder, w.tx, w.db.opts.Now().UnixNano())
	if err == nil && t.Told() {
		err = w.c.Exec(`SELECT pg_notify(?, '')`, channel)
	}
	if err == nil {
		err = w.c.now(`COMMIT`)
	}
	if err != nil && w.c.pg.IsClosed() {
		err = w.resolve(err)
	}
	if err == nil {
		w.conflicts = 0
		if t.Rested {
			w.db.anchors.kick()
		}
	}
	return err
}

// isOvertaken reports whether a mark was refused because the format is newer.
func isOvertaken(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23502" && e.TableName == "marks"
}

// resolve finds out what became of a transaction whose connection was lost while it
// committed: its mark is there, or it is not and never will be.
func (w *writer) resolve(lost error) error {
	for since := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		c, err := w.db.connect(context.Background())
		if err == nil {
			w.c = c
			// Whoever waits for the row learns how the lost transaction ended.
			var tx int64
			err = c.now(`INSERT INTO marks (holder, tx, at) VALUES (?, 0, 0) ON CONFLICT (holder) DO UPDATE SET at = marks.at`, w.holder)
			if err == nil {
				tx, err = store.Number(context.Background(), c, `SELECT tx FROM marks WHERE holder = ?`, w.holder)
			}
			switch {
			case err == nil && tx == w.tx:
				return nil
			case err == nil:
				return lost
			}
		}
		if time.Since(since) > w.db.opts.DownLimit {
			return fmt.Errorf("%w: it is not known whether the last transaction was stored", lost)
		}
	}
}

// Rollback implements [store.Driver].
func (w *writer) Rollback() {
	if !w.c.pg.IsClosed() {
		w.again, w.c.records = w.c.locks.all(), nil
		w.c.locks.begin(nil)
		_ = w.c.settle(nil) // what was sent may have failed
		_ = w.c.now(`ROLLBACK`)
	}
}

// News implements [store.Driver]. What is remembered of runs holds until a key says
// otherwise.
func (w *writer) News() (store.Conn, bool, bool, error) {
	return w.c, !w.c.pg.IsClosed(), false, nil
}

// Fault implements [store.Driver].
func (w *writer) Fault(err error) store.Fault {
	var e *pgconn.PgError
	switch {
	case err == nil:
		return store.NoFault
	case isOvertaken(err):
		return store.Broken
	case !errors.As(err, &e):
		if w.c.pg.IsClosed() || pgconn.SafeToRetry(err) {
			return store.Passing
		}
		return store.Ordinary
	case e.Code == "23505": // somebody else was faster, unless it fails again and again
		if w.conflicts++; w.conflicts > 20 {
			w.conflicts = 0
			return store.Ordinary
		}
		return store.Passing
	case e.Code == "53100":
		return store.Full
	}
	for _, class := range []string{"08", "25006", "40", "53", "55P03", "57", "58"} {
		if strings.HasPrefix(e.Code, class) {
			return store.Passing
		}
	}
	return store.Ordinary
}

// Wait implements [store.Driver].
func (w *writer) Wait(_ store.Fault, since time.Time, closing <-chan struct{}) bool {
	// Those who got into each other's way do not come back at the same moment.
	pause := time.Duration(time.Now().UnixNano()) % min(time.Since(since)/4+time.Millisecond, time.Second)
	select {
	case <-time.After(pause):
		return time.Since(since) < w.db.opts.DownLimit
	case <-closing:
		return time.Since(since) < closeLimit
	}
}

// Explain implements [store.Driver].
func (w *writer) Explain(err error) error { return w.db.explain(err) }

// Beat implements [store.Driver].
func (w *writer) Beat() { _ = w.db.readClock(w.c) } // it is read again soon

// Close implements [store.Driver].
func (w *writer) Close(error) error {
	if !w.c.pg.IsClosed() { // its mark tells nobody anything any more, nor do those of processes that died long ago
		_ = w.c.now(`DELETE FROM marks WHERE holder = ? OR at < ?`, w.holder, w.db.opts.Now().AddDate(0, 0, -1).UnixNano())
	}
	return w.c.close()
}

// explain says which database failed, and what to do.
func (db *database) explain(err error) error {
	var e *pgconn.PgError
	var refused *pgconn.ConnectError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrClosed):
		return fmt.Errorf("%s: %w", db.name, err)
	case isOvertaken(err):
		return store.Overtaken(db.name, db.format)
	case errors.As(err, &e) && e.Code == "53300":
		return fmt.Errorf("%w: %s: it has no connection left: raise its max_connections, or have fewer servers and commands at once, each of which uses up to %d (%w)", flow.ErrStoreDown, db.name, connections, err)
	case errors.As(err, &refused):
		return fmt.Errorf("%w: %s: see that the server runs and that the address is right (%w)", flow.ErrStoreDown, db.name, err)
	case !errors.As(err, &e):
		if lost := net.Error(nil); errors.As(err, &lost) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %s: the connection was lost; what was acknowledged is safe (%w)", flow.ErrStoreDown, db.name, err)
		}
		return err
	case e.Code == "53100":
		return fmt.Errorf("%w: %s: make space on the server and resume; what was acknowledged is safe (%w)", flow.ErrStoreFull, db.name, err)
	case strings.HasPrefix(e.Code, "40"):
		return fmt.Errorf("%w: %s: others write to the same runs; try again (%w)", flow.ErrStoreBusy, db.name, err)
	case strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "57"), strings.HasPrefix(e.Code, "53"), strings.HasPrefix(e.Code, "58"):
		return fmt.Errorf("%w: %s: see what its log says, then resume; what was acknowledged is safe (%w)", flow.ErrStoreDown, db.name, err)
	case e.Code == "25006", e.Code == "42501":
		return fmt.Errorf("%w: %s: give this user the right to write (%w)", flow.ErrReadOnly, db.name, err)
	}
	return err
}

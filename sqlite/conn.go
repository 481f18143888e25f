package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"time"

	sqlite3 "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

// conn is one connection with its prepared statements. It is used by one
// goroutine at a time. It stands on the driver itself: the pool of database/sql
// would cost the writer a good part of its time and give it nothing.
type conn struct {
	c     driver.Conn
	stmts map[string]*stmt
}

type stmt struct {
	driver.Stmt
	args []driver.NamedValue // reused from call to call
}

const (
	readWrite = "rwc"
	readOnly  = "ro"
	// frozen reads the file alone, without its log and without locks. It is for a
	// store that cannot be written here, because its disk is full or its folder is not for
	// writing, and that has no log: nobody has it open.
	frozen = "frozen"
)

// busyTimeout is how long SQLite itself waits for another connection's lock.
const busyTimeout = 5 * time.Second

func connect(path, mode string) (*conn, error) {
	q := url.Values{"mode": {mode}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "foreign_keys(ON)", "cache_size(-16384)",
		"synchronous(FULL)", "wal_autocheckpoint(1000)"}}
	if mode == frozen {
		q.Set("mode", readOnly)
		q.Set("immutable", "1")
	}
	if mode != readWrite {
		q.Add("_pragma", "query_only(ON)")
	}
	connector, err := sqlite3.NewConnector((&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	return &conn{c: c, stmts: map[string]*stmt{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.c.Close())...)
}

// prepare returns the statement of a query, which is compiled once.
func (c *conn) prepare(query string) (*stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	ds, err := c.c.Prepare(query)
	if err != nil {
		return nil, err
	}
	s := &stmt{Stmt: ds}
	c.stmts[query] = s
	return s, nil
}

func (s *stmt) bind(args []any) []driver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

// Exec implements [store.Conn].
func (c *conn) Exec(query string, args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	_, err = s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(args))
	return err
}

// Lock implements [store.Conn]: whoever writes has the file for itself.
func (c *conn) Lock(string) (bool, error) { return false, nil }

// script runs statements that are needed once.
func (c *conn) script(sql string) error {
	_, err := c.c.(driver.ExecerContext).ExecContext(context.Background(), sql, nil)
	return err
}

// Query implements [store.Querier].
func (c *conn) Query(ctx context.Context, each func(store.Row) error, query string, args ...any) (err error) {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, s.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	r := make(store.Row, len(values))
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		for i, v := range values {
			r[i] = v
		}
		if err := each(r); err != nil {
			return err
		}
	}
}

func (c *conn) number(ctx context.Context, query string, args ...any) (int64, error) {
	return store.Number(ctx, c, query, args...)
}

// version changes with every commit, this connection's and, as of the last time
// it read, those of others. It is PRAGMA data_version without a statement.
func (c *conn) version() (uint32, error) {
	return c.c.(sqlite3.FileControl).FileControlDataVersion("main")
}

// pool holds the connections of readers.
type pool struct {
	path, mode string
	idle       chan *conn // of those that are not lent; nil: it is made when needed
}

const readers = 4

// use lends a connection to f.
func (p *pool) use(ctx context.Context, f func(*conn) error) (err error) {
	select {
	case c, open := <-p.idle:
		if !open {
			return store.ErrClosed
		}
		defer func() { p.idle <- c }()
		if c == nil {
			if c, err = connect(p.path, p.mode); err != nil {
				return err
			}
		}
		return f(c)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// shrink takes the pages from connections that nobody uses now: a process whose runs
// all wait must not hold what it read on the way.
func (p *pool) shrink() {
	for range readers {
		select {
		case c := <-p.idle:
			if c != nil {
				_ = c.Exec(`PRAGMA shrink_memory`) // if it cannot, it keeps them
			}
			p.idle <- c
		default:
		}
	}
}

// close waits for the readers and closes their connections.
func (p *pool) close() error {
	var errs []error
	for range readers {
		if c := <-p.idle; c != nil {
			errs = append(errs, c.close())
		}
	}
	close(p.idle)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing %s: %w", p.path, err)
	}
	return nil
}

// fault is what a failed statement means for the store.
type fault int

const (
	noFault  fault = iota
	ordinary       // of the statement alone: a constraint, bad SQL
	busy           // another process holds the file
	full           // no space left on the disk
	broken         // reading, writing or syncing failed: the page cache is no proof
	damaged        // what was read is no database, or not a whole one
	locked         // the file cannot be written for lack of permission
)

func faultOf(err error) fault {
	if err == nil {
		return noFault
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return full
	}
	var e *sqlite3.Error
	if !errors.As(err, &e) {
		return ordinary
	}
	switch code := e.Code(); code & 0xff { // the low byte is the class
	case lib.SQLITE_BUSY:
		return busy
	case lib.SQLITE_FULL:
		return full
	case lib.SQLITE_IOERR:
		if code == lib.SQLITE_IOERR_SHMSIZE { // no space for the shared memory file
			return full
		}
		return broken
	case lib.SQLITE_NOMEM, lib.SQLITE_CANTOPEN:
		return broken
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return damaged
	case lib.SQLITE_READONLY:
		return locked
	}
	return ordinary
}

// explain turns a failure of the database file into one that says which file it
// is and what to do. Other errors are returned as they are.
func explain(path string, err error) error {
	switch faultOf(err) {
	case busy:
		return fmt.Errorf("%w: %s: end the process that holds it, or try again (%w)", flow.ErrStoreBusy, path, err)
	case full:
		return fmt.Errorf("%w: %s: make space and resume; what was acknowledged is safe (%w)", flow.ErrStoreFull, path, err)
	case broken:
		return fmt.Errorf("%w: %s: check the disk, then start again; what was acknowledged is safe (%w)", flow.ErrStoreDown, path, err)
	case damaged:
		return fmt.Errorf("%w: %w: %s: tipstaff doctor says what is damaged; restore a copy made by tipstaff backup (%w)", flow.ErrReadOnly, store.ErrDamaged, path, err)
	case locked:
		return fmt.Errorf("%w: %s: give this user the right to write the file and its folder (%w)", flow.ErrReadOnly, path, err)
	}
	return err
}

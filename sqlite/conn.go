package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite"

	"github.com/tipstaff/tipstaff/flow"
)

// conn is one connection with its prepared statements. It is used by one
// goroutine at a time. It stands on the driver itself: the pool of database/sql
// would cost the writer a good part of its time and give it nothing.
type conn struct {
	c      driver.Conn
	stmts  map[string]*stmt
	runs   string // what reads a run; "": not asked for yet
	format int64  // of the store; 0: not asked for yet

	recent   map[string][]flow.Row // what was looked up at the version recentAt
	recentAt uint32

	used time.Time // when a reader gave it back; zero: it has no pages
}

type stmt struct {
	driver.Stmt
	args []driver.NamedValue // reused from call to call
}

// row is one row of a result.
type row []driver.Value

const (
	readWrite = "rwc"
	readOnly  = "ro"
	// frozen reads the file alone, without its log and without locks. It is for a
	// store that nobody can write, because its disk is full, and that has no log.
	frozen = "frozen"
)

func connect(path, mode string) (*conn, error) {
	q := url.Values{"mode": {mode}, "_pragma": {
		"busy_timeout(5000)", "foreign_keys(ON)", "cache_size(-16384)",
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

// exec runs a statement for its effect. Arguments are int64, string, []byte or
// nil.
func (c *conn) exec(query string, args ...any) error {
	_, err := c.change(query, args...)
	return err
}

// change is exec and what it changed.
func (c *conn) change(query string, args ...any) (driver.Result, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(args))
}

// script runs statements that are needed once.
func (c *conn) script(sql string) error {
	_, err := c.c.(driver.ExecerContext).ExecContext(context.Background(), sql, nil)
	return err
}

// query calls each with every row. The row is valid until each returns; the
// strings and byte slices in it are the callee's.
func (c *conn) query(ctx context.Context, each func(row) error, query string, args ...any) (err error) {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, s.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	r := make(row, len(rows.Columns()))
	for {
		switch err := rows.Next(r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := each(r); err != nil {
			return err
		}
	}
}

var errNoRow = errors.New("no row")

// one reads a single row, or errNoRow.
func (c *conn) one(ctx context.Context, each func(row) error, query string, args ...any) error {
	found := false
	err := c.query(ctx, func(r row) error { found = true; return each(r) }, query, args...)
	if err == nil && !found {
		return errNoRow
	}
	return err
}

// number reads a single number; 0 if there is none.
func (c *conn) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = c.query(ctx, func(r row) error { n = r.int(0); return nil }, query, args...)
	return n, err
}

// version changes with every commit, this connection's and, as of the last time
// it read, those of others. It is PRAGMA data_version without a statement.
func (c *conn) version() (uint32, error) {
	return c.c.(sqlite3.FileControl).FileControlDataVersion("main")
}

// versionNow is version for a connection that is not in a transaction: it must read
// something to learn of others.
func (c *conn) versionNow() (uint32, error) {
	if err := c.exec(`PRAGMA data_version`); err != nil {
		return 0, err
	}
	return c.version()
}

func (r row) int(i int) int64 { n, _ := r[i].(int64); return n }

func (r row) text(i int) string {
	switch v := r[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

func (r row) bytes(i int) []byte {
	switch v := r[i].(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	}
	return nil
}

func (r row) time(i int) time.Time {
	if n, ok := r[i].(int64); ok {
		return time.Unix(0, n).UTC()
	}
	return time.Time{}
}

// stamp is a time as columns hold it; NULL for none.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
}

// pool holds the connections of readers.
type pool struct {
	path  string
	mode  string
	slots chan struct{} // one for each connection that may be lent
	done  chan struct{}

	mu     sync.Mutex
	idle   []*conn       // the last one used is the next one lent: it remembers most
	linger time.Duration // after which one that nobody uses gives its pages back
	timer  *time.Timer   // that sees to it; nil: none is due
}

const (
	readers = 4
	linger  = 5 * time.Second
)

func newPool(path, mode string) *pool {
	p := &pool{path: path, mode: mode, slots: make(chan struct{}, readers), done: make(chan struct{}), linger: linger}
	for range readers {
		p.slots <- struct{}{}
	}
	return p
}

// use lends a connection to f.
func (p *pool) use(ctx context.Context, f func(*conn) error) error {
	select {
	case <-p.slots:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return errClosed
	}
	defer func() { p.slots <- struct{}{} }()
	c := p.take()
	if c == nil {
		fresh, err := connect(p.path, p.mode)
		if err != nil {
			return err
		}
		c = fresh
	}
	defer p.giveBack(c)
	return f(c)
}

// take is the connection that was used last; nil: all are in use, or none was made yet.
func (p *pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle = p.idle[:last]
	return c
}

func (p *pool) giveBack(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.used = time.Now()
	p.idle = append(p.idle, c)
	p.wind(p.linger)
}

// wind sees to it that connections are looked at after a while.
func (p *pool) wind(after time.Duration) {
	if p.timer == nil {
		p.timer = time.AfterFunc(after, p.rest)
	}
}

// rest takes the pages from connections that nobody uses: a process whose runs all wait
// must not hold what it read on the way.
func (p *pool) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	for _, c := range p.idle {
		left := p.linger - time.Since(c.used)
		switch {
		case c.used.IsZero():
		case left > 0:
			p.wind(left)
		default:
			_ = c.exec(`PRAGMA shrink_memory`) // if it cannot, it keeps them
			c.recent, c.used = nil, time.Time{}
		}
	}
}

// close waits for the readers and closes their connections.
func (p *pool) close() error {
	close(p.done)
	var errs []error
	for range readers {
		<-p.slots
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, c := range p.idle {
		errs = append(errs, c.close())
	}
	p.idle = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing %s: %w", p.path, err)
	}
	return nil
}

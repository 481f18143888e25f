package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/bucket"
	"github.com/tipstaff/tipstaff/store/files"
)

// Options of a store; nil means the defaults.
type Options struct {
	store.Options
	// Folder is where this machine keeps keys, which every machine must have, and what
	// belongs to it alone. It is made if need be.
	Folder string
	// UserKey loads the user's private key too; see package sqlite.
	UserKey bool
	// ReadOnly opens what is there, without making, migrating or signing anything.
	ReadOnly bool
	// Lives is Alive by the clock that the machines share; nil: as Alive.
	Lives func(owner flow.Owner, heartbeat, now time.Time) bool
	// Bucket is where large payloads are kept; nil: in the database.
	Bucket bucket.Bucket
	// DownLimit is how long a database or bucket that does not answer is waited for. 0: a minute.
	DownLimit time.Duration
}

const (
	closeLimit   = 5 * time.Second
	connectLimit = 10 * time.Second
	readLimit    = 10 * time.Second
	// pollEvery is how often it is asked whether followed runs have moved. Decisions and
	// cancels are notified at once.
	pollEvery = 200 * time.Millisecond
	readers   = 4
	// connections is how many a process that writes uses: one writes, one listens.
	connections = readers + 2
	// schema is where the tables are, unless the address names another search_path.
	schema = "tipstaff"
	// channel is what is notified when others wait for something that was written.
	channel = "tipstaff_inbox"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store keeps runs in a Postgres database. It is safe for concurrent use, by several
// processes too.
type Store struct {
	*store.Store
	db *database
}

// database is the [store.DB] of an address.
type database struct {
	config  *pgconn.Config
	schema  []string // that this program knows
	format  int64    // how many there are
	name    string   // of the database, without passwords, for messages
	opts    Options
	rules   *store.Store
	keys    *store.Keyring
	readers chan *conn    // those that are not lent; nil: it is made when needed
	writer  *store.Writer // nil: read-only; so are the next two
	listen  *listener
	anchors *anchorer
	skew    atomic.Int64 // by how much the server's clock is ahead of ours
}

// Open opens the store at a postgres:// address, and makes its tables if need be.
func Open(ctx context.Context, address string, o *Options) (*Store, error) {
	list, err := loadSchema()
	if err != nil {
		return nil, err
	}
	return openWith(ctx, address, o, list)
}

func openWith(ctx context.Context, address string, o *Options, list []string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("the address of a store is like postgres://user@host/name") // it may hold a password: it is not repeated
	}
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the store: %w", err)
	}
	if config.RuntimeParams["search_path"] == "" {
		config.RuntimeParams["search_path"] = schema
	}
	config.ConnectTimeout = connectLimit
	db := &database{config: config, schema: list, format: int64(len(list)), name: u.Redacted(), opts: *o, readers: make(chan *conn, readers)}
	if db.opts.ReadOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	if db.opts.DownLimit == 0 {
		db.opts.DownLimit = time.Minute
	}
	for range readers {
		db.readers <- nil
	}
	if db.opts.Now == nil {
		// The clocks of several machines differ, and leases must not depend on that.
		db.opts.Now = func() time.Time { return time.Now().Add(time.Duration(db.skew.Load())) }
	}
	if lives := db.opts.Lives; lives != nil {
		db.opts.Alive = func(owner flow.Owner, heartbeat time.Time) bool { return lives(owner, heartbeat, db.opts.Now()) }
	}
	db.opts.Options = db.opts.WithDefaults()
	c, err := db.connect(ctx)
	if err != nil {
		return nil, db.explain(err)
	}
	if err := db.prepare(c); err != nil {
		return nil, errors.Join(db.explain(err), c.close())
	}
	db.opts.Shared = true
	if db.opts.ReadOnly {
		db.keys = files.LoadPublic(filepath.Join(db.opts.Folder, "keys"))
		db.rules = store.New(db, db.keys, &db.opts.Options)
		<-db.readers
		db.readers <- c
		return &Store{db.rules, db}, nil
	}
	if db.keys, err = openKeys(ctx, db.opts.Folder, db.opts.UserKey); err == nil {
		err = errors.Join(db.keys.Remember(c), c.settle(nil))
	}
	if err != nil {
		return nil, errors.Join(db.explain(err), c.close())
	}
	db.rules = store.New(db, db.keys, &db.opts.Options)
	config.RuntimeParams["application_name"] = "tipstaff " + db.rules.Holder() // as leases name it
	if err := c.now(`SELECT set_config('application_name', ?, false)`, config.RuntimeParams["application_name"]); err != nil {
		return nil, errors.Join(db.explain(err), c.close())
	}
	in, err := db.rules.OpenInbox(c)
	if err != nil {
		return nil, errors.Join(db.explain(err), c.close())
	}
	db.writer = db.rules.NewWriter(&writer{db: db, c: c, holder: db.rules.Holder()}, in, pollEvery)
	db.listen = newListener(db)
	db.anchors = newAnchorer(files.Anchors{Rules: db.rules, File: db.opts.Anchor, Lock: filepath.Join(db.opts.Folder, "outbox.lock")})
	go db.writer.Run()
	go db.listen.run()
	go db.anchors.run()
	return &Store{db.rules, db}, nil
}

// openKeys makes the folder and the keys that are missing, with other processes of this
// machine locked out.
func openKeys(ctx context.Context, dir string, user bool) (ring *store.Keyring, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err := files.Lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return files.OpenKeys(filepath.Join(dir, "keys"), user)
}

// Now is the clock of records and leases: that of this machine, unless it differs from the
// server's by more than a second.
func (s *Store) Now() time.Time { return s.db.opts.Now() }

// Fill copies everything that another store holds into this one; see [store.Store.Fill].
func (s *Store) Fill(ctx context.Context, from *store.Store) (tipstaff.StoreCopy, error) {
	return s.Store.Fill(ctx, from, `SELECT setval(pg_get_serial_sequence('runs', 'n'), coalesce(max(n), 1), max(n) IS NOT NULL) FROM runs`)
}

// Name is the address without its password.
func (s *Store) Name() string { return s.db.name }

// Fallen is that of [store.Writer].
func (s *Store) Fallen(ctx context.Context) error { return s.db.writer.Fallen(ctx) }

// Stats are of what was committed.
func (s *Store) Stats() store.WriterStats { return s.db.writer.Stats() }

// Secret is a key for a purpose other than signing; see [files.Secret].
func (s *Store) Secret(purpose string) []byte { return files.Secret(s.db.keys, purpose) }

// loadSchema gives the migrations in the order of their numbers. The format of a database is the
// count of those it has seen.
func loadSchema() (list []string, err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted, and numbered from 0001
	for _, name := range names {
		text, rerr := migrations.ReadFile(name)
		err = errors.Join(err, rerr)
		list = append(list, string(text))
	}
	return list, err
}

// Format is the newest format of a database, to which one is brought when it is opened to write.
func Format() int {
	names, _ := fs.Glob(migrations, "migrations/*.sql") // fails only for a pattern that is malformed
	return len(names)
}

// prepare makes the tables, or brings them to the newest format, with other processes
// locked out.
func (db *database) prepare(c *conn) error {
	if err := db.readClock(c); err != nil {
		return err
	}
	have, err := format(context.Background(), c)
	switch {
	case err != nil || have == db.format:
		return err
	case have > db.format:
		return store.Newer(db.name, have, db.format)
	case db.opts.ReadOnly && have == 0:
		return fmt.Errorf("there is no store in schema %s of %s: see that the address is right", db.config.RuntimeParams["search_path"], db.name)
	case db.opts.ReadOnly:
		return fmt.Errorf("%w: %s has format %d, this program reads %d: let a command that may write bring it up to date, such as tipstaff ls", flow.ErrReadOnly, db.name, have, db.format)
	}
	for {
		err := db.migrate(c)
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != deadlock {
			return err
		}
		if err := errors.Join(c.settle(nil), c.now(`ROLLBACK`)); err != nil {
			return err
		}
	}
}

// deadlock: a migration and somebody who is writing waited for each other.
const deadlock = "40P01"

// duplicateTable: there is a table of that name.
const duplicateTable = "42P07"

// migrate applies what is missing, in one transaction. Whoever is about to commit is waited
// for, and whoever comes to that later finds the new format and gives up: see [writer.Commit].
func (db *database) migrate(c *conn) error {
	if err := c.now(`BEGIN`); err != nil {
		return err
	}
	if _, err := c.Lock("format"); err != nil {
		return err
	}
	have, err := format(context.Background(), c)
	switch {
	case err != nil:
		return err
	case have > db.format:
		return store.Newer(db.name, have, db.format)
	case have == 0:
		err = c.script(`CREATE SCHEMA IF NOT EXISTS ` + quoted(db.config.RuntimeParams["search_path"]) + `; CREATE TABLE IF NOT EXISTS format (version bigint NOT NULL);
			INSERT INTO format SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM format)`)
	case have < db.format:
		err = c.script(`LOCK TABLE marks IN EXCLUSIVE MODE; ` + store.MigratedTable)
		if err == nil {
			err = store.Migration{At: db.opts.Now(), From: have, To: db.format, ByVersion: db.opts.Version}.Note(c)
		}
	}
	for n := have; err == nil && n < db.format; n++ {
		if err = c.script(db.schema[n]); err != nil {
			err = fmt.Errorf("migration %d: %w", n+1, err)
		}
	}
	if e := (*pgconn.PgError)(nil); have == 0 && errors.As(err, &e) && e.Code == duplicateTable {
		schema := db.config.RuntimeParams["search_path"]
		return fmt.Errorf("schema %s of %s has tables of another program: use another, by search_path in the address (%w)", schema, db.name, err)
	}
	if err == nil {
		err = c.now(`UPDATE format SET version = ?`, db.format)
	}
	if err != nil {
		return err
	}
	return c.now(`COMMIT`)
}

// format is that of the tables; 0: there are none.
func format(ctx context.Context, c *conn) (int64, error) {
	there, err := store.Number(ctx, c, `SELECT count(*) FROM pg_class WHERE oid = to_regclass('format')`)
	if err != nil || there == 0 {
		return 0, err
	}
	return store.Number(ctx, c, `SELECT version FROM format`)
}

// readClock compares the server's clock with ours. Less than a second is nothing that a
// lease depends on, and within what a busy machine takes to answer.
func (db *database) readClock(c *conn) error {
	before := time.Now()
	now, err := store.Number(context.Background(), c, `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)`)
	if err == nil {
		middle := before.Add(time.Since(before) / 2)
		skew := time.UnixMicro(now).Sub(middle)
		if skew.Abs() < time.Second {
			skew = 0
		}
		db.skew.Store(int64(skew))
	}
	return err
}

// Close writes what is queued and ends the store. Leases it holds are not released: their
// drives are over or will be found interrupted.
func (s *Store) Close() error {
	var err error
	if s.db.writer != nil {
		err = s.db.anchors.close() // which are crossed off when they are written
		err = errors.Join(err, s.db.writer.Close())
		s.db.listen.close()
	}
	for range readers {
		if c := <-s.db.readers; c != nil {
			err = errors.Join(err, c.close())
		}
	}
	close(s.db.readers)
	return err
}

// use lends a reader's connection. What f does may be done again: a connection that is lost,
// or cannot be had, is waited for, though not for as long as a step is.
func (db *database) use(ctx context.Context, f func(*conn) error) (err error) {
	select {
	case c, open := <-db.readers:
		if !open {
			return store.ErrClosed
		}
		defer func() { db.readers <- c }()
		for since := time.Now(); ; {
			if c == nil || c.pg.IsClosed() {
				c, err = db.connect(ctx)
			}
			if err == nil {
				err = f(c)
			}
			if c != nil && !c.pg.IsClosed() || ctx.Err() != nil || time.Since(since) > min(readLimit, db.opts.DownLimit) {
				return db.explain(err)
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			err = nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Query implements [store.Querier]. The connection is given back before the first row is
// given on: what is done with it may need another.
func (db *database) Query(ctx context.Context, each func(store.Row) error, query string, args ...any) error {
	var rows []store.Row
	err := db.use(ctx, func(c *conn) error {
		rows = rows[:0]
		return c.Query(ctx, func(r store.Row) error { rows = append(rows, r); return nil }, query, args...)
	})
	for _, r := range rows {
		if err == nil {
			err = each(r)
		}
	}
	return err
}

// Read implements [store.DB].
func (db *database) Read(ctx context.Context, f func(store.Querier) error) error {
	return db.use(ctx, func(c *conn) error {
		if err := c.now(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`); err != nil {
			return err
		}
		return errors.Join(f(c), c.now(`COMMIT`))
	})
}

// Submit implements [store.DB].
func (db *database) Submit(o *store.Op, done func(error)) {
	if db.writer == nil {
		done(fmt.Errorf("%w: it was opened so", flow.ErrReadOnly))
		return
	}
	db.writer.Submit(o, done)
}

// Do implements [store.DB].
func (db *database) Do(ctx context.Context, o *store.Op) error {
	if db.writer == nil {
		return fmt.Errorf("%w: it was opened so", flow.ErrReadOnly)
	}
	return db.writer.Do(ctx, o)
}

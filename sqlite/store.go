package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// Options of a store; nil means the defaults.
type Options struct {
	store.Options
	// ReadOnly opens without making, migrating, repairing or signing anything.
	ReadOnly bool
	// UserKey loads the user's private key too. Without it drafts From user are
	// refused: only a program that the user runs in person should ask for it.
	UserKey bool
	// FullLimit is how long a full disk is waited for. 0: a minute.
	FullLimit time.Duration
	// FullPause is the time between two tries on a full disk. 0: a second.
	FullPause time.Duration
	// BusyLimit is how long other processes' transactions are waited for. 0: half
	// a minute.
	BusyLimit time.Duration

	walLimit int64 // size of the log above which it is cut; 0: 64 MiB
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	v.Options = v.Options.WithDefaults()
	v.FullLimit = positive(v.FullLimit, time.Minute)
	v.FullPause = positive(v.FullPause, time.Second)
	v.BusyLimit = positive(v.BusyLimit, 30*time.Second)
	v.walLimit = positive(v.walLimit, 64<<20)
	return v
}

func positive[T ~int64](n, otherwise T) T {
	if n > 0 {
		return n
	}
	return otherwise
}

// Store keeps runs in a folder. It is safe for concurrent use, by several
// processes too.
type Store struct {
	*store.Store
	db *database
}

// database is the [store.DB] of a folder.
type database struct {
	dir     folder
	opts    Options
	readers *pool
	rules   *store.Store
	keys    *store.Keyring
	files   *filer        // nil: read-only
	writer  *store.Writer // nil: likewise
	writing *writer       // what it writes with
	refusal error         // why, then
	older   error         // why it cannot be read either: nobody has migrated it
	stop    func() error
}

// Open opens the store in dir, the folder .tipstaff, and makes it if need be.
//
// A store of a newer format, or one that is damaged, is opened for reading as
// far as that goes: writing then returns an error that wraps flow.ErrReadOnly.
func Open(dir string, o *Options) (*Store, error) {
	list, err := loadSchema(embedded)
	if err != nil {
		return nil, err
	}
	return open(folder(dir), o.withDefaults(), list)
}

func open(dir folder, opts Options, list schema) (*Store, error) {
	if opts.ReadOnly {
		return openReading(dir, opts, list, fmt.Errorf("%w: it was opened so", flow.ErrReadOnly))
	}
	s, err := openWriting(dir, opts, list)
	switch {
	case errors.Is(err, store.ErrNewer), faultOf(err) == damaged:
		s, readErr := openReading(dir, opts, list, explain(dir.database(), err))
		if readErr != nil {
			return nil, explain(dir.database(), err)
		}
		return s, nil
	case err != nil:
		return nil, explain(dir.database(), err)
	}
	return s, nil
}

// prepare makes the folder, the file, its tables and the keys, with other
// processes locked out: two that switch a fresh file to WAL at once would both
// fail, however long they wait.
func prepare(dir folder, opts Options, list schema) (c *conn, ring *store.Keyring, err error) {
	if err := dir.make(); err != nil {
		return nil, nil, err
	}
	unlock, err := files.Lock(context.Background(), dir.lock())
	if err != nil {
		return nil, nil, fmt.Errorf("%w: locking %s: %w", flow.ErrReadOnly, dir.lock(), err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := dir.tighten(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", flow.ErrReadOnly, err)
	}
	c, err = connect(dir.database(), readWrite)
	if err != nil {
		return nil, nil, err
	}
	if err = setBusyTimeout(c, opts.BusyLimit); err == nil {
		ring, err = fill(c, dir, opts, list)
	}
	if err != nil {
		_ = c.close() // the first error tells more
		return nil, nil, err
	}
	return c, ring, nil
}

// fill brings the file to the newest format and gives it keys.
func fill(c *conn, dir folder, opts Options, list schema) (*store.Keyring, error) {
	if _, err := checkFormat(c, dir, list); err != nil {
		return nil, err
	}
	if err := c.script(`PRAGMA journal_mode = WAL`); err != nil {
		return nil, err
	}
	if err := list.apply(c, dir, opts.Version); err != nil {
		return nil, err
	}
	ring, err := files.OpenKeys(dir.keys(), opts.UserKey)
	if err != nil {
		return nil, err
	}
	return ring, ring.Remember(c)
}

// checkFormat returns the format of the file.
func checkFormat(c *conn, dir folder, list schema) (have int64, err error) {
	have, err = c.number(context.Background(), `PRAGMA user_version`)
	if err != nil {
		return have, err
	}
	id, err := c.number(context.Background(), `PRAGMA application_id`)
	if err != nil {
		return have, err
	}
	if id != applicationID && (id != 0 || have != 0) {
		return have, fmt.Errorf("%s is a database of another program: move it away", dir.database())
	}
	if have > int64(len(list)) {
		return have, store.Newer(dir.database(), have, int64(len(list)))
	}
	return have, nil
}

func newStore(dir folder, opts Options, keys *store.Keyring, mode string) *database {
	db := &database{dir: dir, opts: opts, keys: keys, readers: &pool{dir.database(), mode, make(chan *conn, readers)}}
	for range readers {
		db.readers.idle <- nil
	}
	opts.Kept = dir.lastFile
	db.rules = store.New(db, keys, &opts.Options)
	return db
}

func openWriting(dir folder, opts Options, list schema) (*Store, error) {
	c, keys, err := prepare(dir, opts, list)
	if err != nil {
		return nil, err
	}
	db := newStore(dir, opts, keys, readOnly)
	db.files = &filer{db: db, queue: store.NewMailbox[fileJob](), ended: make(chan struct{})}
	w, in, err := newWriter(db, c, int64(len(list)))
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	db.writing, db.writer = w, db.rules.NewWriter(w, in, pollEvery)
	go db.files.run()
	go db.writer.Run()
	return &Store{db.rules, db}, nil
}

func openReading(dir folder, opts Options, list schema, refusal error) (*Store, error) {
	if _, err := os.Stat(dir.database()); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no store in %s: run something first", flow.ErrReadOnly, dir)
	}
	mode := readOnly
	format, err := tryReading(dir, mode, list)
	if fault := faultOf(err); (fault == full || fault == locked) && noLog(dir) {
		mode = frozen
		format, err = tryReading(dir, mode, list)
	}
	if errors.Is(err, store.ErrNewer) {
		refusal, err = err, nil
	}
	if err != nil {
		return nil, explain(dir.database(), err)
	}
	c, err := connect(dir.database(), mode)
	if err != nil {
		return nil, explain(dir.database(), err)
	}
	db := newStore(dir, opts, files.LoadPublic(dir.keys()), mode)
	db.refusal = refusal
	if know := int64(len(list)); format < know {
		db.older = fmt.Errorf("%w: %s has format %d, this program reads %d: let a command that may write bring it up to date, such as tipstaff ls",
			flow.ErrReadOnly, dir.database(), format, know)
	}
	p, in, err := newPoller(db.rules, c)
	if err != nil {
		return nil, errors.Join(explain(dir.database(), err), c.close())
	}
	stop, ended := make(chan struct{}), make(chan error)
	db.stop = func() error { close(stop); return <-ended }
	go func() {
		db.pollReading(p, in, stop)
		ended <- c.close()
	}()
	return &Store{db.rules, db}, nil
}

// tryReading reads a little of the file, to see that it can be read at all, and its
// format.
func tryReading(dir folder, mode string, list schema) (format int64, err error) {
	c, err := connect(dir.database(), mode)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	format, err = checkFormat(c, dir, list)
	if err == nil || errors.Is(err, store.ErrNewer) {
		if _, err := c.number(context.Background(), `SELECT count(*) FROM runs WHERE n = 0`); err != nil {
			return 0, err
		}
	}
	return format, err
}

// noLog reports whether the file holds everything: whoever closed it last has
// removed the log, or left it empty.
func noLog(dir folder) bool {
	info, err := os.Stat(dir.database() + "-wal")
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// HasStore reports whether there is a store in dir.
func HasStore(dir string) bool { return !missing(folder(dir).database()) }

// Fill copies everything that another store holds into this one, with the files that follow
// from it; see [store.Store.Fill].
func (s *Store) Fill(ctx context.Context, from *store.Store) (tipstaff.StoreCopy, error) {
	made, err := s.Store.Fill(ctx, from)
	if err == nil {
		err = errors.Join(s.db.restoreAll(ctx), s.db.restoreTasks(ctx))
	}
	return made, err
}

// Close writes what is queued and ends the store. Leases it holds are not
// released: their drives are over or will be found interrupted.
func (s *Store) Close() error {
	var errs []error
	if s.db.writer != nil {
		_ = s.Flush(context.Background()) // so that anchors that are written can be crossed off; what fails is told below
		errs = append(errs, s.db.writer.Close(), s.db.files.close())
	} else {
		errs = append(errs, s.db.stop())
	}
	return errors.Join(append(errs, s.db.readers.close())...)
}

// Fallen is that of [store.Writer].
func (s *Store) Fallen(ctx context.Context) error { return s.db.writer.Fallen(ctx) }

// Stats are of what was committed.
func (s *Store) Stats() store.WriterStats { return s.db.writer.Stats() }

// Refusal is why nothing can be written; nil: something can.
func (s *Store) Refusal() error { return s.db.refusal }

// Secret is a key for a purpose other than signing; see [files.Secret].
func (s *Store) Secret(purpose string) []byte { return files.Secret(s.db.keys, purpose) }

// use lends a reader's connection for a short look.
func (db *database) use(ctx context.Context, f func(*conn) error) error {
	if db.older != nil {
		return db.older
	}
	err := db.readers.use(ctx, f)
	if faultOf(err) > ordinary {
		return explain(db.dir.database(), err)
	}
	return err
}

// Query implements [store.Querier].
func (db *database) Query(ctx context.Context, each func(store.Row) error, query string, args ...any) error {
	return db.use(ctx, func(c *conn) error { return c.Query(ctx, each, query, args...) })
}

// Read implements [store.DB].
func (db *database) Read(ctx context.Context, f func(store.Querier) error) error {
	return db.use(ctx, func(c *conn) error {
		if err := c.Exec(`BEGIN`); err != nil {
			return err
		}
		return errors.Join(f(c), c.Exec(`COMMIT`))
	})
}

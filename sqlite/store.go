package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Options of a store; nil means the defaults.
type Options struct {
	// Alive reports whether the process that holds a lease still lives, given its
	// last heartbeat. nil: a heartbeat under 30 s old is a sign of life.
	Alive func(owner flow.Owner, heartbeat time.Time) bool
	// Now is the clock of records and leases. nil: time.Now.
	Now func() time.Time
	// Projectors derive rows of other packages from records, by kind, in the
	// transaction that stores them.
	Projectors map[string]Projector
	// ReadOnly opens without making, migrating, repairing or signing anything.
	ReadOnly bool
	// UserKey loads the user's private key too. Without it drafts From user are
	// refused: only a program that the user runs in person should ask for it.
	UserKey bool
	// Anchor names the file that anchors are written to and resumed runs compared
	// with; "": there is none. nil: likewise.
	Anchor func() (string, error)
	// FullLimit is how long a full disk is waited for. 0: a minute.
	FullLimit time.Duration
	// FullPause is the time between two tries on a full disk. 0: a second.
	FullPause time.Duration
	// BusyLimit is how long other processes' transactions are waited for. 0: half
	// a minute.
	BusyLimit time.Duration

	walLimit int64 // size of the log above which it is cut; 0: 64 MiB
}

const (
	heartbeatEvery = 5 * time.Second
	heartbeatValid = 30 * time.Second
	pollEvery      = 50 * time.Millisecond
)

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Now == nil {
		v.Now = time.Now
	}
	if v.Alive == nil {
		now := v.Now
		v.Alive = func(_ flow.Owner, heartbeat time.Time) bool { return now().Sub(heartbeat) < heartbeatValid }
	}
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
	dir     folder
	opts    Options
	holder  string // names this open store in the leases it holds
	keys    *keyring
	readers *pool
	hub     *hub
	writer  *writer // nil: read-only
	refusal error   // why, then
	poller  *poller // nil: the writer polls
	files   *filer  // nil: read-only

	sound    heads    // of the runs, as far as this process knows
	acquired sync.Map // by run: the *loading that its drive will ask for
}

var _ flow.Store = (*Store)(nil)

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
	var newer *newerFormat
	switch {
	case errors.As(err, &newer), faultOf(err) == damaged:
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

// newerFormat is a file that a later version of this program has written.
type newerFormat struct {
	path       string
	have, know int64
}

func (e *newerFormat) Error() string {
	return fmt.Sprintf("%v: format_newer: %s has format %d, this program knows %d: use the newer program to write",
		flow.ErrReadOnly, e.path, e.have, e.know)
}

func (e *newerFormat) Unwrap() error { return flow.ErrReadOnly }

// prepare makes the folder, the file, its tables and the keys, with other
// processes locked out: two that switch a fresh file to WAL at once would both
// fail, however long they wait.
func prepare(dir folder, opts Options, list schema) (c *conn, ring *keyring, err error) {
	if err := dir.make(); err != nil {
		return nil, nil, err
	}
	unlock, err := lockFile(dir.lock())
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
	if ring, err = fill(c, dir, opts, list); err != nil {
		_ = c.close() // the first error tells more
		return nil, nil, err
	}
	return c, ring, nil
}

// fill brings the file to the newest format and gives it keys.
func fill(c *conn, dir folder, opts Options, list schema) (*keyring, error) {
	if err := checkFormat(c, dir, list); err != nil {
		return nil, err
	}
	if err := c.script(`PRAGMA journal_mode = WAL`); err != nil {
		return nil, err
	}
	if err := list.apply(c, dir); err != nil {
		return nil, err
	}
	ring, err := openKeys(dir.keys(), opts.UserKey)
	if err != nil {
		return nil, err
	}
	return ring, ring.remember(c)
}

func checkFormat(c *conn, dir folder, list schema) error {
	have, err := c.number(context.Background(), `PRAGMA user_version`)
	if err != nil {
		return err
	}
	id, err := c.number(context.Background(), `PRAGMA application_id`)
	if err != nil {
		return err
	}
	if id != applicationID && (id != 0 || have != 0) {
		return fmt.Errorf("%s is a database of another program: move it away", dir.database())
	}
	if have > int64(len(list)) {
		return &newerFormat{dir.database(), have, int64(len(list))}
	}
	return nil
}

func openWriting(dir folder, opts Options, list schema) (*Store, error) {
	c, ring, err := prepare(dir, opts, list)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, opts: opts, holder: rand.Text(), keys: ring, readers: newPool(dir.database(), readOnly), hub: newHub()}
	s.files = newFiler(s)
	s.writer, err = newWriter(s, c)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	go s.files.run()
	go s.writer.run()
	return s, nil
}

func openReading(dir folder, opts Options, list schema, refusal error) (*Store, error) {
	if _, err := os.Stat(dir.database()); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no store in %s: run something first", flow.ErrReadOnly, dir)
	}
	mode := readOnly
	newer, err := tryReading(dir, mode, list)
	if faultOf(err) == full && noLog(dir) {
		mode = frozen
		newer, err = tryReading(dir, mode, list)
	}
	if err != nil {
		return nil, explain(dir.database(), err)
	}
	if newer != nil {
		refusal = newer
	}
	c, err := connect(dir.database(), mode)
	if err != nil {
		return nil, explain(dir.database(), err)
	}
	s := &Store{dir: dir, opts: opts, refusal: refusal, keys: loadPublic(dir.keys()), readers: newPool(dir.database(), mode), hub: newHub()}
	s.poller = newPoller(s.hub, c)
	if err := s.poller.start(); err != nil {
		return nil, errors.Join(explain(dir.database(), err), c.close())
	}
	go s.poller.run()
	return s, nil
}

// tryReading reads a little of the file, to see that it can be read at all. newer:
// it has a format that is.
func tryReading(dir folder, mode string, list schema) (newer *newerFormat, err error) {
	c, err := connect(dir.database(), mode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err = checkFormat(c, dir, list); errors.As(err, &newer) {
		err = nil
	}
	if err == nil {
		_, err = c.number(context.Background(), `SELECT count(*) FROM runs WHERE n = 0`)
	}
	return newer, err
}

// noLog reports whether the file holds everything: whoever closed it last has
// removed the log, or left it empty.
func noLog(dir folder) bool {
	info, err := os.Stat(dir.database() + "-wal")
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// Close writes what is queued and ends the store. Leases it holds are not
// released: their drives are over or will be found interrupted.
func (s *Store) Close() error {
	var errs []error
	if s.writer != nil {
		_ = s.Flush(context.Background()) // so that anchors that are written can be crossed off; what fails is told below
		errs = append(errs, s.writer.close())
		errs = append(errs, s.files.close())
	}
	if s.poller != nil {
		errs = append(errs, s.poller.close())
	}
	errs = append(errs, s.readers.close())
	return errors.Join(errs...)
}

// read lends a connection for a short look.
func (s *Store) read(ctx context.Context, f func(*conn) error) error {
	err := s.readers.use(ctx, f)
	if faultOf(err) > ordinary {
		return explain(s.dir.database(), err)
	}
	return err
}

// Package store holds the rules of a store, once for every database: how drafts
// become records, who may append them, and which rows follow from them.
//
// [Store] implements [flow.Store] over a [DB], which a driver such as package
// sqlite provides. A driver opens, migrates and repairs its database, runs
// transactions and keeps blobs; it decides nothing about runs. The statements are
// written here, in the SQL that SQLite and Postgres share.
//
// The package keeps records and decides nothing about programs. It knows which
// kinds move the row of a run (lifecycle, ownership, gates) and no others. The
// memory is kept in the same transactions; what it means is in package cortex.
//
// Start reading at [DB], then tx.go (what one transaction writes), project.go
// (what follows from a record) and load.go (what a drive may rely on).
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// DB is a database with the tables of a store. Its methods may be called by
// several goroutines at once. Errors say which database failed and what to do;
// they wrap flow.ErrStoreBusy, ErrStoreFull, ErrStoreDown, ErrStoreLost or
// ErrReadOnly where one of them applies.
type DB interface {
	// Querier looks at what is committed, each statement for itself.
	Querier
	// Read lends f one look: everything it queries is as of one moment. It must be
	// short, for a database may have to keep what was overwritten meanwhile.
	Read(ctx context.Context, f func(Querier) error) error
	// Do performs an op and returns when it is durable or has failed. Its error is
	// that of the op, or of the transaction; in either case nothing of the op is
	// stored. When ctx ends before the op has begun, it is left out.
	Do(ctx context.Context, op *Op) error
	// Submit is Do without waiting: done is called once, when the op is durable or
	// has failed. Ops are performed in the order in which they were submitted.
	Submit(op *Op, done func(error))

	// PutBlob makes data durable under its digest. To put it again is no error. It is
	// called before the transaction that enters the blob, with a nil Conn, and once more in
	// it: somebody may have removed the blob in between. There it must be quick.
	PutBlob(Conn, journal.Hash, []byte) error
	// GetBlob returns what was put; flow.ErrNoBlob.
	GetBlob(journal.Hash) ([]byte, error)
	// RemoveBlob forgets a blob. It is called in the transaction that removes its
	// row; to remove one that is not there is no error.
	RemoveBlob(Conn, journal.Hash) error
}

// Querier runs statements that read. Their placeholders are question marks, and
// arguments are int64, string, []byte or nil.
type Querier interface {
	// Query calls each with every row. The row is valid until each returns; the
	// strings and byte slices in it belong to the callee. An error of each ends the
	// query and is returned as it is.
	Query(ctx context.Context, each func(Row) error, query string, args ...any) error
}

// Conn is the connection of a writer in an open transaction.
type Conn interface {
	Querier
	// Exec runs a statement for its effect. Its error may come with a later one, or with
	// the commit.
	Exec(query string, args ...any) error
	// Lock keeps other processes from what is called so, from the next statement on until the
	// transaction ends. moved: they may have changed it since this one last did. A database
	// with one writer at a time has nothing to lock.
	Lock(name string) (moved bool, err error)
}

// Op is something to be done in a transaction, all or nothing. A driver may perform
// several in one: it then calls Apply of each, in order, with the same Tx. If one
// fails the transaction is rolled back, and the others are performed without it.
type Op struct {
	Apply  func(*Tx) error // may be called again, in another transaction
	Drafts int             // how many records it is about to write
	Bytes  int             // how long they are together, more or less
}

// Row is one row of a result: int64, string, []byte, float64 or nil.
type Row []any

// Int is a number; 0 for NULL.
func (r Row) Int(i int) int64 { n, _ := r[i].(int64); return n }

// Text is a string; "" for NULL.
func (r Row) Text(i int) string {
	switch v := r[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// Bytes are those of a string, too; nil for NULL.
func (r Row) Bytes(i int) []byte {
	switch v := r[i].(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	}
	return nil
}

// Hash is the zero hash for NULL.
func (r Row) Hash(i int) (h journal.Hash) {
	copy(h[:], r.Bytes(i))
	return h
}

// Time is the zero time for NULL. Columns hold nanoseconds since 1970.
func (r Row) Time(i int) time.Time {
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

// Storable is a text that every database can keep: some know no zero byte and nothing that
// is not UTF-8. Rows are only indices of records, whose bytes are kept as they are.
func Storable(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// errNoRow: a row that was asked for is not there.
var errNoRow = errors.New("no row")

// one reads a single row, or errNoRow.
func one(ctx context.Context, q Querier, each func(Row) error, query string, args ...any) error {
	found := false
	err := q.Query(ctx, func(r Row) error { found = true; return each(r) }, query, args...)
	if err == nil && !found {
		return errNoRow
	}
	return err
}

// Number reads a single number; 0 if there is none.
func Number(ctx context.Context, q Querier, query string, args ...any) (n int64, err error) {
	err = q.Query(ctx, func(r Row) error { n = r.Int(0); return nil }, query, args...)
	return n, err
}

// ErrDamaged is wrapped by errors that say the database is not what was written to
// it. Such a store can be read as far as it goes, never written.
var ErrDamaged = errors.New("the database file is damaged")

// Options of a store; nil means the defaults.
type Options struct {
	// Alive reports whether the process that holds a lease still lives, given its
	// last heartbeat. nil: a heartbeat under 30 s old is a sign of life.
	Alive func(owner flow.Owner, heartbeat time.Time) bool
	// Now is the clock of records and leases. nil: time.Now.
	Now func() time.Time
	// Version is that of the program, for what is noted of migrations.
	Version string
	// Shared says that other processes write at the same time: what is remembered of runs
	// that are not driven here is not relied on.
	Shared bool
	// Anchor names the file that anchors are written to and resumed runs compared
	// with; "": there is none. nil: likewise.
	Anchor func() (string, error)
	// Kept is the last envelope of a run that has a file beside the database. Files are written
	// after the commits that make them true. nil: there are no files.
	Kept func(run string) KeptFile
}

// KeptFile is the file of an envelope; that with the number 0 is none.
type KeptFile struct {
	Seq        int64
	Kind, Name string
}

// heartbeatValid is how long a heartbeat is a sign of life.
const heartbeatValid = 30 * time.Second

// WithDefaults fills in what was left out.
func (o *Options) WithDefaults() Options {
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
	if v.Anchor == nil {
		v.Anchor = func() (string, error) { return "", nil }
	}
	if v.Kept == nil {
		v.Kept = func(string) KeptFile { return KeptFile{} }
	}
	return v
}

// Store keeps runs in a database. It is safe for concurrent use, by several
// processes too.
type Store struct {
	db     DB
	opts   Options
	holder string // names this open store in the leases it holds
	keys   *Keyring
	hub    hub

	sound    heads    // of the runs, as far as this process knows
	acquired sync.Map // by run: the *loading that its drive will ask for

	// What the writer knows as of the last commit, or of its present transaction.
	states map[string]*runState
	memory memoryHead
}

var _ flow.Store = (*Store)(nil)

// New returns the store in a database.
func New(db DB, keys *Keyring, o *Options) *Store {
	return &Store{db: db, opts: o.WithDefaults(), holder: rand.Text(), keys: keys, hub: hub{listeners: map[string]map[*listener]bool{}},
		states: map[string]*runState{}}
}

// Holder names this open store in the leases it holds.
func (s *Store) Holder() string { return s.holder }

// Keyring is what this process may sign with, by principal.
type Keyring struct {
	Private map[string]*journal.PrivateKey // without "user" unless it was asked for
	Public  map[string]journal.PublicKey
	Place   string // where they are kept, for messages
}

// signer is the private key that a draft's From names.
func (k *Keyring) signer(from string) (*journal.PrivateKey, error) {
	if key, ok := k.Private[from]; ok {
		return key, nil
	}
	if from == journal.User {
		return nil, errors.New("this process does not hold the user's key: sign as executor, on behalf of someone")
	}
	return nil, fmt.Errorf("%q signs nothing: user or executor does", from)
}

// Remember keeps the public keys in the database, where verify finds them even
// after the files have gone. Keys that are there already cost no transaction.
func (k *Keyring) Remember(c Conn) error {
	for name, pub := range k.Public {
		n, err := Number(context.Background(), c, `SELECT count(*) FROM keys WHERE id = ?`, pub.ID().String())
		if err == nil && n > 0 {
			continue
		}
		if err == nil {
			err = c.Exec(`INSERT INTO keys (id, name, public) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, pub.ID().String(), name, pub[:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Keys are the public keys of this store's user and executor.
func (s *Store) Keys() tipstaff.RunKeys {
	return tipstaff.RunKeys{User: s.keys.Public[journal.User], Executor: s.keys.Public[journal.Executor]}
}

func (s *Store) otherKeys() error {
	return fmt.Errorf("%w: the run was begun with other keys than those in %s: restore them, or fork the run", journal.ErrUnknownKey, s.keys.Place)
}

// PublicKeys are all that were ever made here, in a fixed order.
func (s *Store) PublicKeys(ctx context.Context) ([]journal.PublicKey, error) {
	return publicKeys(ctx, s.db)
}

func publicKeys(ctx context.Context, q Querier) (keys []journal.PublicKey, err error) {
	err = q.Query(ctx, func(r Row) error {
		if len(r.Bytes(0)) != len(journal.PublicKey{}) {
			return fmt.Errorf("%w: a stored key has the wrong size", ErrDamaged)
		}
		keys = append(keys, journal.PublicKey(r.Bytes(0)))
		return nil
	}, `SELECT public FROM keys ORDER BY id`)
	return keys, err
}

package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// copied is what a copy takes of a table. Rows are read by pages, in the order of the key.
type copied struct {
	table   string
	key     []string
	columns []string // beside the key
	renewed bool     // the key is given anew: nothing but the order depends on it
	given   bool     // a store that was just made has rows in it
}

// copies are the tables of a store without what belongs to processes: leases, claims and
// launches, and what processes tell each other.
var copies = []copied{
	{table: "keys", key: []string{"id"}, columns: []string{"name", "public"}, given: true},
	{table: "runs", key: []string{"n"}, columns: []string{"id", `"user"`, "kind", "origin", "title", "program", "base", "base_seq", "created", "state", "epoch", "owned",
		"cont", "cancel", "correction", "env", "envs", "head", "head_hash", "fold", "wake_at", "updated", "session", "envelope", "request", "thread", "anchor",
		"project", "request_key", "request_digest", "queued", "name", "parent", "ended", "cost", "host", "driver"}},
	{table: "records", key: []string{"run", "seq"}, columns: []string{"kind", "bytes", "hash"}}, // inserted by InsertRecord
	{table: "gates", key: []string{"run", "id"}, columns: []string{`"user"`, "kind", "key", "opened", "opened_at", "expires_at", "decided", "via"}},
	{table: "outbox", key: []string{"run", "seq"}, columns: []string{"hash", "at"}},
	{table: "blobs", key: []string{"digest"}, columns: []string{"size", "created"}},
	{table: "blob_refs", key: []string{"run", "digest"}},
	{table: "cortex_log", key: []string{"seq"}, columns: []string{"kind", "run", "bytes", "hash"}},
	{table: "cortex_items", key: []string{"seq"}, columns: []string{"type", "run", "skill", "verb", "server", "importance", "pinned", "created", "last_use", "accesses",
		"citations", "tombstone"}},
	{table: "cortex_weights", key: []string{"id"}, columns: []string{"r", "a", "c", "d", "v", "seq"}, given: true},
	{table: "tasks", key: []string{"id"}, columns: []string{"number", `"user"`, "status", "ended", "run", "alias", "path", "opened", "began", "revision", "doc"}},
	{table: "task_log", key: []string{"n"}, columns: []string{"task", "at", "level", "text"}, renewed: true},
	{table: "worker_sessions", key: []string{"id"}, columns: []string{"run", "path", "task", `"user"`, "state", "updated", "doc"}},
	{table: "run_labels", key: []string{"name", "value", "run"}},
	{table: "run_search", key: []string{"run"}, columns: []string{"text"}},
}

const (
	copyPage  = 200     // rows that are read at a time
	copyBytes = 1 << 20 // of blobs, after which what was written is waited for
)

// Fill copies everything that another store holds into this one, which must be empty, as of
// one moment and in one transaction, and commits it when what was read back is the same.
// finish are statements of the database that end the transaction.
func (s *Store) Fill(ctx context.Context, from *Store, finish ...string) (made tipstaff.StoreCopy, err error) {
	if err := from.signsHere(ctx); err != nil {
		return made, err
	}
	err = from.db.Read(ctx, func(q Querier) error {
		if err := from.refuseDriven(ctx, q); err != nil {
			return err
		}
		return s.db.Do(ctx, &Op{Apply: func(t *Tx) (err error) {
			c := copying{ctx: ctx, from: from, source: q, to: s, target: t.c, rows: map[string]int64{}, sums: map[string]string{}}
			err = c.perform()
			for _, statement := range finish {
				if err == nil {
					err = t.query(func(Row) error { return nil }, statement)
				}
			}
			made = c.made
			return err
		}})
	})
	return made, err
}

// signsHere refuses keys that never signed in this store: with them nobody could go on with
// its runs.
func (s *Store) signsHere(ctx context.Context) error {
	known, err := s.PublicKeys(ctx)
	if err != nil {
		return err
	}
	if own := s.Keys(); !slices.Contains(known, own.User) || !slices.Contains(known, own.Executor) {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "the keys in %s are not those of the runs that are to be copied", s.keys.Place).
			WithHint("put the keys there with which the runs were begun: user.key, user.pub, executor.key and executor.pub")
	}
	return nil
}

// refuseDriven refuses a store one of whose runs somebody drives, or is about to.
func (s *Store) refuseDriven(ctx context.Context, q Querier) error {
	return q.Query(ctx, func(r Row) error {
		launch, err := readLaunch(r.Bytes(1))
		if err != nil {
			return err
		}
		driven := launch.Lives(s.opts.Alive, r.Time(3), s.opts.Now())
		if !driven && r[2] != nil {
			owner, err := ReadOwner(r.Bytes(2))
			driven = err == nil && s.opts.Alive(*owner, r.Time(3)) // one that cannot be read counts as dead
		}
		if driven {
			return tipstaff.Errorf(tipstaff.Busy, "run %s is being driven: nothing was copied", r.Text(0)).
				WithHint("wait until it rests, or end the process that drives it: it can be resumed in the copy")
		}
		return nil
	}, `SELECT id, launch, owner, heartbeat FROM runs WHERE (launch IS NOT NULL OR holder IS NOT NULL) AND state NOT IN ('completed', 'failed', 'cancelled') ORDER BY n`)
}

// copying is one on its way.
type copying struct {
	ctx    context.Context
	from   *Store
	source Querier
	to     *Store
	target Conn
	made   tipstaff.StoreCopy
	rows   map[string]int64  // that were copied, by table
	sums   map[string]string // of them
	unsent int               // bytes of blobs that may not have left this process
}

func (c *copying) perform() error {
	for _, t := range copies {
		if err := c.prepare(t); err != nil {
			return err
		}
	}
	for _, t := range copies {
		if err := c.copy(t); err != nil {
			return fmt.Errorf("copying %s: %w", t.table, err)
		}
	}
	for _, t := range copies {
		if err := c.compare(t); err != nil {
			return err
		}
	}
	c.made.Runs, c.made.Records, c.made.Tasks, c.made.Memory = c.rows["runs"], c.rows["records"], c.rows["tasks"], c.rows["cortex_log"]
	c.made.Blobs = c.rows["blobs"] - c.made.Missing
	return c.checkRuns()
}

// prepare refuses a table that holds something, or takes out what every store begins with.
func (c *copying) prepare(t copied) error {
	if t.given {
		return c.target.Exec(`DELETE FROM ` + t.table)
	}
	n, err := Number(c.ctx, c.target, `SELECT count(*) FROM `+t.table)
	if err == nil && n > 0 {
		err = tipstaff.Errorf(tipstaff.WrongState, "the store to copy to is not empty: its table %[2]s has %[1]d rows", n, t.table).
			WithHint("name one in which nothing was ever run: a new folder, another database or another search_path")
	}
	return err
}

// rows reads those of a table.
func (t copied) rows(ctx context.Context, q Querier, each func(Row) error) error {
	keys := strings.Join(t.key, ", ")
	first := `SELECT ` + strings.Join(append(slices.Clone(t.key), t.columns...), ", ") + ` FROM ` + t.table
	next := first + ` WHERE (` + keys + `) > (` + places(len(t.key)) + `)`
	order := ` ORDER BY ` + keys + ` LIMIT ?`
	query, args := first+order, []any{int64(copyPage)}
	for {
		n, last := 0, []any(nil)
		err := q.Query(ctx, func(r Row) error {
			n, last = n+1, append(last[:0], r[:len(t.key)]...)
			return each(r)
		}, query, args...)
		if err != nil || n < copyPage {
			return errors.Join(err, ctx.Err())
		}
		query, args = next+order, append(last, int64(copyPage))
	}
}

func places(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

func (c *copying) copy(t copied) error {
	columns := append(slices.Clone(t.key), t.columns...)
	if t.renewed {
		columns = t.columns
	}
	insert := `INSERT INTO ` + t.table + ` (` + strings.Join(columns, ", ") + `) VALUES (` + places(len(columns)) + `)`
	sum, n := sha256.New(), int64(0)
	err := t.rows(c.ctx, c.source, func(r Row) error {
		values := slices.Clone(r[len(r)-len(columns):])
		addRow(sum, values)
		if err := c.target.Exec(insert, values...); err != nil {
			return err
		}
		if t.table == "blobs" {
			if err := c.blob(r.Text(0), r.Int(1)); err != nil {
				return err
			}
		}
		if n++; n%copyPage != 0 {
			return nil
		}
		return c.settle()
	})
	c.rows[t.table], c.sums[t.table] = n, string(sum.Sum(nil))
	return errors.Join(err, c.settle())
}

// settle waits for what was written.
func (c *copying) settle() error {
	c.unsent = 0
	_, err := Number(c.ctx, c.target, `SELECT 1`)
	return err
}

// blob copies what a blob holds, if it is there.
func (c *copying) blob(digest string, size int64) error {
	h, err := journal.ParseHash(digest)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	data, err := c.from.db.GetBlob(h)
	switch {
	case errors.Is(err, flow.ErrNoBlob):
		c.made.Missing++ // and so it is in the copy
		return nil
	case err != nil:
		return err
	case int64(len(data)) != size || journal.Sum(data) != h:
		return tipstaff.Errorf(tipstaff.Integrity, "blob %s is not what was stored: nothing was copied", digest).WithCommand("`tipstaff doctor` says more")
	}
	if c.unsent += len(data); c.unsent > copyBytes {
		if err := c.settle(); err != nil {
			return err
		}
	}
	return c.to.db.PutBlob(c.target, h, data)
}

// addRow adds the values of a row to the sum of a table.
func addRow(sum hash.Hash, values []any) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			fmt.Fprintf(sum, "%q,", Storable(v))
		case []byte:
			fmt.Fprintf(sum, "%x,", v)
		default:
			fmt.Fprintf(sum, "%v,", v)
		}
	}
	fmt.Fprintln(sum)
}

// compare reads back what was copied.
func (c *copying) compare(t copied) error {
	sum := sha256.New()
	var log journal.Hash
	err := t.rows(c.ctx, c.target, func(r Row) error {
		if t.renewed {
			addRow(sum, r[len(t.key):])
		} else {
			addRow(sum, r)
		}
		if t.table != "cortex_log" {
			return nil
		}
		if log = log.Next(r.Bytes(3)); log != r.Hash(4) {
			return tipstaff.Errorf(tipstaff.Integrity, "record %d of the memory is not what was written: nothing was copied", r.Int(0)).
				WithCommand("`tipstaff memory rebuild --check` says more")
		}
		return nil
	})
	if err == nil && string(sum.Sum(nil)) != c.sums[t.table] {
		err = fmt.Errorf("table %s does not read back as it was written: nothing was copied; make sure that nothing else writes to the target, and try again", t.table)
	}
	return err
}

// checkRuns checks every record of the copy as if it was about to be obeyed, and that each
// run ends where it ends in the source.
func (c *copying) checkRuns() error {
	known, err := publicKeys(c.ctx, c.target)
	if err != nil {
		return err
	}
	for after, more := int64(0), true; more && err == nil; {
		var runs []Row
		err = c.source.Query(c.ctx, func(r Row) error { runs = append(runs, slices.Clone(r)); return nil },
			`SELECT n, id, (SELECT hash FROM records WHERE run = n ORDER BY seq DESC LIMIT 1) FROM runs WHERE n > ? ORDER BY n LIMIT ?`, after, int64(copyPage))
		for _, r := range runs {
			after = r.Int(0)
			if err == nil {
				err = c.checkRun(r.Text(1), r.Int(0), r.Hash(2), known)
			}
		}
		more = len(runs) == copyPage
	}
	return err
}

func (c *copying) checkRun(run string, n int64, head journal.Hash, known []journal.PublicKey) error {
	got, err := checkJournal(c.ctx, c.target, run, n, c.from.keys, known)
	if err == nil && got.Hash != head {
		err = unsound(run, got.Seq, errors.New("it is not the last one of the source"))
	}
	if errors.Is(err, flow.ErrIntegrity) {
		return &tipstaff.Error{Code: tipstaff.Integrity, Message: fmt.Sprintf("%v: nothing was copied", err), Command: "`tipstaff verify " + run + "` says more", Err: err}
	}
	return err
}

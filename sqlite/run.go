package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Create implements [flow.Writer].
func (s *Store) Create(ctx context.Context, run flow.NewRun, drafts []flow.Draft) error {
	if _, err := tipstaff.ParseID(run.ID); err != nil {
		return err
	}
	drafts, blobs, err := s.prepare(drafts)
	if err != nil {
		return err
	}
	// A fork's draft is signed over its base: from then on that counts as sound.
	if _, _, err := s.base(ctx, flow.Row{ID: run.ID, Base: run.Base, BaseSeq: run.BaseSeq}, draftBody{}); err != nil {
		return err
	}
	return s.do(ctx, &op{drafts: len(drafts), apply: func(t *tx) error {
		if err := t.create(run); err != nil {
			return err
		}
		st, err := t.state(run.ID)
		if err != nil {
			return err
		}
		st.dirty = true
		if err := t.storeBlobs(blobs); err != nil {
			return err
		}
		for _, digest := range run.Blobs {
			if err := t.keepBlob(st, digest); err != nil {
				return err
			}
		}
		if err := t.appendAll(st, 0, drafts); err != nil {
			return err
		}
		return t.alone(run)
	}})
}

func (t *tx) create(run flow.NewRun) error {
	ctx := context.Background()
	there, err := t.c.number(ctx, `SELECT count(*) FROM runs WHERE id = ?`, run.ID)
	if err != nil {
		return err
	}
	if there > 0 {
		return fmt.Errorf("run %s exists already", run.ID)
	}
	if run.Base != "" {
		head, err := t.c.number(ctx, `SELECT max(seq) FROM records WHERE run = (SELECT n FROM runs WHERE id = ?)`, run.Base)
		if err != nil {
			return err
		}
		if run.BaseSeq < 1 || run.BaseSeq > head {
			return fmt.Errorf("%w: run %s has no record %d to fork at", flow.ErrNoRun, run.Base, run.BaseSeq)
		}
	}
	for _, digest := range run.Blobs {
		if err := t.needBlob(digest); err != nil {
			return err
		}
	}
	if err := t.follows(run); err != nil {
		return err
	}
	err = t.exec(`INSERT INTO runs (id, user, kind, origin, title, program, base, base_seq, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		run.ID, run.User, run.Kind, run.Origin, run.Title, run.Program, run.Base, run.BaseSeq, t.now.UnixNano(), t.now.UnixNano())
	if err != nil || run.Session+run.Envelope+run.Request+run.Thread == "" {
		return err
	}
	return t.exec(`UPDATE runs SET session = ?, envelope = ?, request = ?, thread = ? WHERE id = ?`, run.Session, run.Envelope, run.Request, run.Thread, run.ID)
}

// follows checks that a turn is the next one of its session: that which its maker
// took for the last still is, and has ended.
func (t *tx) follows(run flow.NewRun) error {
	if run.Session == "" {
		return nil
	}
	last, state := "", ""
	err := t.c.one(context.Background(), func(r row) error { last, state = r.text(0), r.text(1); return nil },
		`SELECT id, state FROM runs WHERE session = ? ORDER BY n DESC LIMIT 1`, run.Session)
	if err != nil && !errors.Is(err, errNoRow) {
		return err
	}
	if last != run.After || last != "" && !tipstaff.State(state).Terminal() {
		return fmt.Errorf("%w: run %s of it has not ended", flow.ErrSessionBusy, last)
	}
	return nil
}

// alone checks, when the records of a new run are stored, that its request has made
// no other Envelope, that it follows the last run of its Envelope, and that its
// thread has no other run that goes on: one that it takes the place of has been
// ended by now.
func (t *tx) alone(run flow.NewRun) error {
	if run.Request != "" {
		known, err := t.find(`request = ? AND request <> '' AND user = ? AND envelope <> ?`, run.Request, run.User, run.Envelope)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			return fmt.Errorf("%w: %s", flow.ErrRequestKnown, known[0])
		}
	}
	if run.Envelope != "" {
		line, err := t.find(`envelope = ? AND envelope <> '' AND id <> ?`, run.Envelope, run.ID)
		if err != nil {
			return err
		}
		if last := append([]string{""}, line...)[len(line)]; last != run.After {
			return fmt.Errorf("%w: %s has come after %s", flow.ErrThreadBusy, last, run.After)
		}
	}
	return t.unshared(run.Thread, run.User, run.ID)
}

// join puts a draft into the thread that it is started in, if its update names one.
func (t *tx) join(st *runState, update json.RawMessage) error {
	var u struct {
		Thread string `json:"thread_id"`
	}
	if json.Unmarshal(update, &u) != nil || u.Thread == "" {
		return nil
	}
	if err := t.exec(`UPDATE runs SET thread = ? WHERE id = ?`, u.Thread, st.id); err != nil {
		return err
	}
	user := ""
	err := t.c.one(context.Background(), func(r row) error { user = r.text(0); return nil }, `SELECT user FROM runs WHERE id = ?`, st.id)
	if err != nil {
		return err
	}
	return t.unshared(u.Thread, user, st.id)
}

// unshared checks that a user's thread has no other run that goes on.
func (t *tx) unshared(thread, user, run string) error {
	if thread == "" {
		return nil
	}
	others, err := t.find(`thread = ? AND thread <> '' AND user = ? AND id <> ? AND state NOT IN (?, ?, ?)`, thread, user, run,
		string(tipstaff.Completed), string(tipstaff.Failed), string(tipstaff.Cancelled))
	if err != nil {
		return err
	}
	for _, id := range others { // their rows are written when this transaction is through
		if st, ok := t.w.states[id]; !ok || !st.ended() {
			return fmt.Errorf("%w: %s", flow.ErrThreadBusy, id)
		}
	}
	return nil
}

// find gives the ids of runs, oldest first.
func (t *tx) find(where string, args ...any) (ids []string, err error) {
	err = t.c.query(context.Background(), func(r row) error { ids = append(ids, r.text(0)); return nil },
		`SELECT id FROM runs WHERE `+where+` ORDER BY n`, args...)
	return ids, err
}

// Write implements [flow.Writer]. f runs inside the store's one transaction and
// must not call the store.
func (s *Store) Write(ctx context.Context, run string, f func(flow.Tx) ([]flow.Draft, error)) error {
	return s.do(ctx, &op{drafts: 1, apply: func(t *tx) error { return t.write(run, f) }})
}

// write appends to a run what f says who looks at it.
func (t *tx) write(run string, f func(flow.Tx) ([]flow.Draft, error)) error {
	st, err := t.state(run)
	if err != nil {
		return err
	}
	row, err := readRun(context.Background(), t.c, run) // no caller may break the transaction off
	if err != nil {
		return err
	}
	drafts, err := f(&foreignTx{t: t, st: st, row: row})
	if err != nil {
		return err
	}
	drafts, blobs, err := t.w.s.prepare(drafts)
	if err != nil {
		return err
	}
	if err := t.storeBlobs(blobs); err != nil {
		return err
	}
	return t.appendAll(st, 0, drafts)
}

// foreignTx is what a writer without a lease sees.
type foreignTx struct {
	t   *tx
	st  *runState
	row flow.Row
}

func (f *foreignTx) Row() flow.Row  { return f.row }
func (f *foreignTx) Now() time.Time { return f.t.now }

func (f *foreignTx) Gates(open bool) ([]flow.GateRow, error) {
	return f.t.w.s.gates(context.Background(), f.t.c, flow.GateQuery{Run: f.st.id, Open: open})
}

// laterColumns are those that the first format of the store did not have, by the
// format that brought them.
var laterColumns = map[string]int64{"session": 3, "envelope": 4, "request": 4, "thread": 4, "anchor": anchorFormat}

// column is a column of runs, also of an old store that may only be read: there
// nothing stands in what came later.
func (c *conn) column(ctx context.Context, name string) (string, error) {
	if c.format == 0 {
		format, err := c.number(ctx, `PRAGMA user_version`)
		if err != nil {
			return "", err
		}
		c.format = format
	}
	if c.format < laterColumns[name] {
		return "''", nil
	}
	return name, nil
}

// selectRuns reads what scanRun takes.
func (c *conn) selectRuns(ctx context.Context) (string, error) {
	if c.runs == "" {
		var names []any
		for _, name := range []string{"session", "envelope", "request", "thread"} {
			column, err := c.column(ctx, name)
			if err != nil {
				return "", err
			}
			names = append(names, column)
		}
		c.runs = fmt.Sprintf(runColumns, names...)
	}
	return `SELECT ` + c.runs + ` FROM runs`, nil
}

const runColumns = `n, id, user, kind, state, origin, title, program, epoch, owner, heartbeat, owned, cont, head, head_hash, fold, cancel, wake_at, base, base_seq, created, updated, correction, %s, %s, %s, %s,
	(SELECT seq FROM records WHERE run = n ORDER BY seq DESC LIMIT 1),
	(SELECT hash FROM records WHERE run = n ORDER BY seq DESC LIMIT 1)`

func scanRun(r row) (run flow.Row, err error) {
	run = flow.Row{
		N: r.int(0), ID: r.text(1), User: r.text(2), Kind: r.text(3), State: r.text(4), Origin: r.text(5), Title: r.text(6), Program: r.text(7),
		Epoch: r.int(8), Heartbeat: r.time(10), Owned: r.text(11), Cont: r.int(12),
		Head: r.int(13), HeadHash: hashText(r.bytes(14)), FoldSeq: r.int(13), FoldHash: hashText(r.bytes(14)), Cancel: r.int(16) > 0, WakeAt: r.time(17),
		Base: r.text(18), BaseSeq: r.int(19), Created: r.time(20), Updated: r.time(21), Correction: r.int(22), Session: r.text(23), Envelope: r.text(24), Request: r.text(25), Thread: r.text(26),
	}
	if fold := r.bytes(15); len(fold) > 0 {
		run.Fold = json.RawMessage(fold)
	}
	// Records go on after the row. Where they end before it some were cut off: then
	// the row still tells what the head was, and verify sees the difference.
	if seq := r.int(27); seq >= run.Head {
		run.Head, run.HeadHash = seq, hashText(r.bytes(28))
	}
	if r[9] != nil {
		run.Owner, err = readOwner(r.bytes(9))
	}
	return run, err
}

func readRun(ctx context.Context, c *conn, id string) (run flow.Row, err error) {
	query, err := c.selectRuns(ctx)
	if err != nil {
		return run, err
	}
	err = c.one(ctx, func(r row) (err error) { run, err = scanRun(r); return err }, query+` WHERE id = ?`, id)
	if errors.Is(err, errNoRow) {
		err = fmt.Errorf("%w: %s", flow.ErrNoRun, id)
	}
	return run, err
}

// manyRecent is how many lookups a connection remembers before it forgets all.
const manyRecent = 256

// lookUp is a read of few rows that is asked for again and again, by clients that watch
// over a run: as long as nobody has committed anything, the answer is the last one. The
// version is asked for before the rows are read: they may be newer than it, and are then
// read again next time, but never older. Such a read is too short to be broken off: the
// driver would start a goroutine for that.
func (c *conn) lookUp(key string, read func(context.Context) ([]flow.Row, error)) ([]flow.Row, error) {
	at, err := c.versionNow()
	if err != nil {
		return nil, err
	}
	if rows, known := c.recent[key]; known && at == c.recentAt {
		return slices.Clone(rows), nil
	}
	rows, err := read(context.Background())
	if err != nil {
		return nil, err
	}
	if at != c.recentAt || c.recent == nil || len(c.recent) == manyRecent {
		c.recent, c.recentAt = map[string][]flow.Row{}, at
	}
	c.recent[key] = rows
	return slices.Clone(rows), nil
}

// Run implements [flow.Reader].
func (s *Store) Run(ctx context.Context, id string) (run flow.Row, err error) {
	err = s.read(ctx, func(c *conn) error {
		rows, err := c.lookUp(id, func(ctx context.Context) ([]flow.Row, error) {
			run, err := readRun(ctx, c, id)
			return []flow.Row{run}, err
		})
		if err == nil {
			run = rows[0]
		}
		return err
	})
	return run, err
}

// Runs implements [flow.Reader].
func (s *Store) Runs(ctx context.Context, q flow.Query) (runs []flow.Row, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		if q.Limit == 1 && q.Envelope != "" && q.States == nil && !q.Leased {
			key := strings.Join([]string{q.Envelope, q.User, q.Session, q.Request, q.Thread, q.Prefix, strconv.FormatInt(q.Before, 10)}, "\x00")
			runs, err = c.lookUp(key, func(ctx context.Context) ([]flow.Row, error) { return c.newestRun(ctx, q) })
			return err
		}
		query, args, err := c.whichRuns(ctx, q)
		if err == nil {
			runs, err = c.scanRuns(ctx, query, args...)
		}
		return err
	})
	return runs, err
}

func (c *conn) scanRuns(ctx context.Context, query string, args ...any) (runs []flow.Row, err error) {
	err = c.query(ctx, func(r row) error {
		run, err := scanRun(r)
		runs = append(runs, run)
		return err
	}, query, args...)
	return runs, err
}

// newestRun is the newest run of an Envelope. An ordered search by bound values is
// planned anew by SQLite each time, which costs more than the search; so the few runs
// that an Envelope has are looked through here.
func (c *conn) newestRun(ctx context.Context, q flow.Query) ([]flow.Row, error) {
	where, args, err := c.conditions(ctx, q)
	if err != nil {
		return nil, err
	}
	newest := int64(0)
	err = c.query(ctx, func(r row) error { newest = max(newest, r.int(0)); return nil }, `SELECT n FROM runs WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	head, err := c.selectRuns(ctx)
	if err != nil {
		return nil, err
	}
	return c.scanRuns(ctx, head+` WHERE n = ?`, newest)
}

// whichRuns is the statement for a query.
func (c *conn) whichRuns(ctx context.Context, q flow.Query) (string, []any, error) {
	where, args, err := c.conditions(ctx, q)
	if err != nil {
		return "", nil, err
	}
	head, err := c.selectRuns(ctx)
	query := head + ` WHERE ` + where + ` ORDER BY n DESC`
	if q.Limit > 0 {
		query += ` LIMIT ?`
		args = append(args, int64(q.Limit))
	}
	return query, args, err
}

// conditions are what a query asks of runs.
func (c *conn) conditions(ctx context.Context, q flow.Query) (string, []any, error) {
	where, args := []string{"true"}, []any{}
	add := func(condition string, values ...any) {
		where, args = append(where, condition), append(args, values...)
	}
	if q.Before > 0 {
		add("n < ?", q.Before)
	}
	if q.States != nil {
		values := make([]any, len(q.States))
		for i, state := range q.States {
			values[i] = state
		}
		add("state IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ")+")", values...)
	}
	if q.Prefix != "" {
		add("id >= ? AND id < ?", q.Prefix, q.Prefix+"\x7f")
	}
	for _, is := range [...]struct{ column, value string }{
		{"user", q.User}, {"session", q.Session}, {"envelope", q.Envelope}, {"request", q.Request}, {"thread", q.Thread},
	} {
		if is.value == "" {
			continue
		}
		column, err := c.column(ctx, is.column)
		if err != nil {
			return "", nil, err
		}
		add(column+" = ? AND "+column+" <> ''", is.value) // as the indices say
	}
	if q.Leased {
		add("holder IS NOT NULL")
	}
	return strings.Join(where, " AND "), args, nil
}

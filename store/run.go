package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Create implements [flow.Writer].
func (s *Store) Create(ctx context.Context, run flow.NewRun, drafts []flow.Draft) error {
	if _, err := tipstaff.ParseID(run.ID); err != nil {
		return err
	}
	if len(drafts) == 0 || drafts[0].Kind != string(tipstaff.KindIntentDraft) {
		return fmt.Errorf("run %s cannot be created: its first record must be its %s, with what it is to do, and where it is given its program the acceptance of that; without them it could be driven and never end", run.ID, tipstaff.KindIntentDraft)
	}
	drafts, blobs, err := s.detach(drafts)
	if err != nil {
		return err
	}
	// A fork's draft is signed over its base: from then on that counts as sound.
	if _, _, err := s.base(ctx, flow.Row{ID: run.ID, Base: run.Base, BaseSeq: run.BaseSeq}, tipstaff.IntentDraft{}); err != nil {
		return err
	}
	return s.db.Do(ctx, &Op{Drafts: len(drafts), Apply: func(t *Tx) error {
		if err := t.create(run); err != nil {
			return err
		}
		st, err := t.state(run.ID)
		if err != nil {
			return err
		}
		st.dirty = true
		if err := t.enlist(st, run); err != nil {
			return err
		}
		for _, digest := range run.Blobs {
			if err := t.keepBlob(st, digest); err != nil {
				return err
			}
		}
		if err := t.appendAll(st, 0, drafts, blobs); err != nil {
			return err
		}
		if err := t.assign(st, run); err != nil {
			return err
		}
		if err := t.copyTasks(run); err != nil {
			return err
		}
		return t.unrivalled(run)
	}})
}

func (t *Tx) create(run flow.NewRun) error {
	there, err := t.number(`SELECT count(*) FROM runs WHERE id = ?`, run.ID)
	if err != nil {
		return err
	}
	if there > 0 {
		return fmt.Errorf("run %s exists already", run.ID)
	}
	if run.Base != "" {
		head, err := t.number(`SELECT max(seq) FROM records WHERE run = (SELECT n FROM runs WHERE id = ?)`, run.Base)
		if err != nil {
			return err
		}
		if run.BaseSeq < 1 || run.BaseSeq > head {
			return fmt.Errorf("%w: run %s has no record %d to fork at", flow.ErrNoRun, run.Base, run.BaseSeq)
		}
	}
	for _, digest := range run.Blobs {
		if n, err := t.number(`SELECT count(*) FROM blobs WHERE digest = ?`, digest); err != nil {
			return err
		} else if n == 0 {
			return fmt.Errorf("%w: %s", flow.ErrNoBlob, digest)
		}
	}
	if err := t.unmade(run); err != nil {
		return err
	}
	if err := t.lonely(run); err != nil {
		return err
	}
	if err := t.follows(run); err != nil {
		return err
	}
	return t.exec(`INSERT INTO runs (id, "user", kind, origin, title, program, base, base_seq, session, envelope, request, thread, project, request_key, request_digest,
		name, parent, host, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		run.ID, run.User, run.Kind, run.Origin, run.Title, run.Program, run.Base, run.BaseSeq, run.Session, run.Envelope, run.Request, run.Thread,
		run.Project, run.Key, run.KeyDigest, run.Name, run.Parent, run.Host, t.now.UnixNano(), t.now.UnixNano())
}

// enlist makes a new run be found by its labels and by what is searched for.
func (t *Tx) enlist(st *runState, run flow.NewRun) error {
	text := run.Title + "\n" + run.Name
	for _, name := range slices.Sorted(maps.Keys(run.Labels)) {
		text += "\n" + name + "=" + run.Labels[name]
		if err := t.exec(`INSERT INTO run_labels (name, value, run) VALUES (?, ?, ?)`, name, run.Labels[name], st.n); err != nil {
			return err
		}
	}
	return t.exec(`INSERT INTO run_search (run, text) VALUES (?, ?)`, st.n, strings.ToLower(text+"\n"+run.ID))
}

// rename follows what the program of a run is called: one that is a draft may get another.
func (t *Tx) rename(st *runState, digest string) error {
	var program struct{ Name string }
	h, err := journal.ParseHash(digest)
	if err != nil {
		return nil // the update changes something else
	}
	text, err := t.s.db.GetBlob(h)
	if err != nil || json.Unmarshal(text, &program) != nil { // what cannot be read has no name
		return nil
	}
	if err := t.exec(`UPDATE runs SET name = ? WHERE n = ?`, program.Name, st.n); err != nil {
		return err
	}
	return t.exec(`UPDATE run_search SET text = text || ? WHERE run = ?`, "\n"+strings.ToLower(program.Name), st.n)
}

// unmade refuses a request whose key has made a run before.
func (t *Tx) unmade(run flow.NewRun) (err error) {
	if run.Key == "" {
		return nil
	}
	if err := t.alone("request key " + run.User + " " + run.Key); err != nil {
		return err
	}
	var known *flow.KnownKey
	err = t.query(func(r Row) error { known = &flow.KnownKey{Run: r.Text(0), Digest: r.Text(1)}; return nil },
		`SELECT id, request_digest FROM runs WHERE "user" = ? AND request_key = ? AND request_key <> ''`, run.User, run.Key)
	if err == nil && known != nil {
		err = known
	}
	return err
}

// lonely refuses a run whose user has one of that label under way: it is driven, waits for its
// turn, or was made a moment ago and comes to that.
func (t *Tx) lonely(run flow.NewRun) (err error) {
	if run.Alone == "" {
		return nil
	}
	if err := t.alone("label " + run.Alone + " of " + run.User); err != nil {
		return err
	}
	var before *flow.UnderWay
	err = t.query(func(r Row) error { before = &flow.UnderWay{Run: r.Text(0)}; return nil },
		`SELECT id FROM runs WHERE "user" = ? AND state NOT IN ('completed', 'failed', 'cancelled') AND (holder IS NOT NULL OR queued = 1 OR owned = '' AND created > ?)
			AND EXISTS (SELECT 1 FROM run_labels WHERE name = ? AND run = runs.n) ORDER BY n LIMIT 1`, run.User, t.s.unclaimed(t.now), run.Alone)
	if err == nil && before != nil {
		err = before
	}
	return err
}

// follows refuses a turn unless run.After is the last run of its session and has
// ended.
func (t *Tx) follows(run flow.NewRun) error {
	if run.Session == "" {
		return nil
	}
	if err := t.alone("session " + run.Session); err != nil {
		return err
	}
	last, state := "", ""
	err := t.query(func(r Row) error { last, state = r.Text(0), r.Text(1); return nil },
		`SELECT id, state FROM runs WHERE session = ? ORDER BY n DESC LIMIT 1`, run.Session)
	if err != nil {
		return err
	}
	if last != run.After || last != "" && !tipstaff.State(state).Terminal() {
		return fmt.Errorf("%w: run %s of it has not ended", flow.ErrSessionBusy, last)
	}
	return nil
}

// unrivalled checks, when the records of a new run are stored, that its request has made
// no other Envelope, that it follows the last run of its Envelope, and that its
// thread has no other run that goes on: one that it takes the place of has been
// ended by now.
func (t *Tx) unrivalled(run flow.NewRun) error {
	if run.Request != "" {
		if err := t.alone("request " + run.User + " " + run.Request); err != nil {
			return err
		}
		known, err := t.find(`request = ? AND request <> '' AND "user" = ? AND envelope <> ?`, run.Request, run.User, run.Envelope)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			return fmt.Errorf("%w: %s", flow.ErrRequestKnown, known[0])
		}
	}
	if run.Envelope != "" {
		if err := t.alone("envelope " + run.Envelope); err != nil {
			return err
		}
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
func (t *Tx) join(st *runState, update json.RawMessage) error {
	var u tipstaff.DraftUpdated
	if json.Unmarshal(update, &u) != nil || u.Thread == "" {
		return nil
	}
	user := ""
	err := t.query(func(r Row) error { user = r.Text(0); return nil }, `SELECT "user" FROM runs WHERE n = ?`, st.n)
	if err == nil {
		err = t.exec(`UPDATE runs SET thread = ? WHERE n = ?`, u.Thread, st.n)
	}
	if err != nil {
		return err
	}
	return t.unshared(u.Thread, user, st.id)
}

// unshared checks that a user's thread has no other run that goes on.
func (t *Tx) unshared(thread, user, run string) error {
	if thread == "" {
		return nil
	}
	if err := t.alone("thread " + user + " " + thread); err != nil {
		return err
	}
	others, err := t.find(`thread = ? AND thread <> '' AND "user" = ? AND id <> ? AND state NOT IN ('completed', 'failed', 'cancelled')`, thread, user, run)
	if err != nil {
		return err
	}
	for _, id := range others { // their rows are written when this op is through
		if st, ok := t.s.states[id]; !ok || !st.ended() {
			return fmt.Errorf("%w: %s", flow.ErrThreadBusy, id)
		}
	}
	return nil
}

// find gives the ids of runs, oldest first.
func (t *Tx) find(where string, args ...any) (ids []string, err error) {
	err = t.query(func(r Row) error { ids = append(ids, r.Text(0)); return nil }, `SELECT id FROM runs WHERE `+where+` ORDER BY n`, args...)
	return ids, err
}

// Write implements [flow.Writer]. f runs inside the store's one transaction and
// must not call the store.
func (s *Store) Write(ctx context.Context, run string, f func(flow.Tx) ([]flow.Draft, error)) error {
	return s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error { return t.write(run, f) }})
}

// write calls f with the run's present state and appends the drafts that it returns.
func (t *Tx) write(run string, f func(flow.Tx) ([]flow.Draft, error)) error {
	st, err := t.state(run)
	if err != nil {
		return err
	}
	row, err := readRun(context.Background(), t.c, run)
	if err != nil {
		return err
	}
	drafts, err := f(&foreignTx{t: t, row: row})
	if err != nil {
		return err
	}
	drafts, blobs, err := t.s.detach(drafts)
	if err != nil {
		return err
	}
	return t.appendAll(st, 0, drafts, blobs)
}

// foreignTx is what a writer without a lease sees.
type foreignTx struct {
	t   *Tx
	row flow.Row
}

func (f *foreignTx) Row() flow.Row  { return f.row }
func (f *foreignTx) Now() time.Time { return f.t.now }

func (f *foreignTx) Gates(open bool) ([]flow.GateRow, error) {
	return f.t.s.gates(context.Background(), f.t.c, flow.GateQuery{Run: f.row.ID, Open: open})
}

// selectRuns reads what scanRun takes.
const selectRuns = `SELECT n, id, "user", kind, state, origin, title, program, epoch, owner, heartbeat, owned, cont, head, head_hash, fold, cancel, wake_at,
	base, base_seq, created, updated, correction, session, envelope, request, thread, project, request_key, request_digest, launch, holder, host, driver, queued,
	(SELECT seq FROM records WHERE run = n ORDER BY seq DESC LIMIT 1),
	(SELECT hash FROM records WHERE run = n ORDER BY seq DESC LIMIT 1) FROM runs WHERE `

func scanRun(r Row) (run flow.Row, err error) {
	run = flow.Row{
		N: r.Int(0), ID: r.Text(1), User: r.Text(2), Kind: r.Text(3), State: r.Text(4), Origin: r.Text(5), Title: r.Text(6), Program: r.Text(7),
		Epoch: r.Int(8), Heartbeat: r.Time(10), Owned: r.Text(11), Cont: r.Int(12), Head: r.Int(13), HeadHash: hashText(r.Bytes(14)),
		FoldSeq: r.Int(13), FoldHash: hashText(r.Bytes(14)), Fold: r.Bytes(15), Cancel: r.Int(16) > 0, WakeAt: r.Time(17),
		Base: r.Text(18), BaseSeq: r.Int(19), Created: r.Time(20), Updated: r.Time(21), Correction: r.Int(22),
		Session: r.Text(23), Envelope: r.Text(24), Request: r.Text(25), Thread: r.Text(26),
		Project: r.Text(27), Key: r.Text(28), KeyDigest: r.Text(29), Holder: r.Text(31), Host: r.Text(32), Driver: r.Text(33), Queued: r.Int(34) > 0,
	}
	// Records go on after the row. Where they end before it some were cut off: then
	// the row still tells what the head was, and verify sees the difference.
	if seq := r.Int(35); seq >= run.Head {
		run.Head, run.HeadHash = seq, hashText(r.Bytes(36))
	}
	if r[9] != nil {
		run.Owner, err = ReadOwner(r.Bytes(9))
	}
	if err == nil {
		run.Launch, err = readLaunch(r.Bytes(30))
	}
	return run, err
}

func readRun(ctx context.Context, q Querier, id string) (run flow.Row, err error) {
	err = one(ctx, q, func(r Row) (err error) { run, err = scanRun(r); return err }, selectRuns+`id = ?`, id)
	if errors.Is(err, errNoRow) {
		err = fmt.Errorf("%w: %s", flow.ErrNoRun, id)
	}
	return run, err
}

// Run implements [flow.Reader].
func (s *Store) Run(ctx context.Context, id string) (flow.Row, error) {
	run, err := readRun(ctx, s.db, id)
	if err == nil {
		err = s.number(ctx, &run)
	}
	return run, err
}

// number finds out which turn of its session a run is. A transaction need not know.
func (s *Store) number(ctx context.Context, run *flow.Row) (err error) {
	if run.Session != "" {
		run.Turn, err = Number(ctx, s.db, `SELECT count(*) FROM runs WHERE session = ? AND session <> '' AND n <= ?`, run.Session, run.N)
	}
	return err
}

// whereRuns selects runs.
func whereRuns(q flow.Query) (where string, args []any) {
	where = "true"
	add := func(condition string, values ...any) {
		where, args = where+" AND "+condition, append(args, values...)
	}
	if q.Before > 0 {
		add("n < ?", q.Before)
	}
	if q.Open {
		add("state NOT IN ('completed', 'failed', 'cancelled')") // as its indices say
	}
	if q.Threads {
		add(`thread <> '' AND NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.thread = runs.thread AND later.thread <> '' AND later."user" = runs."user" AND later.n > runs.n)`)
	}
	if q.States != nil && len(q.States) == 0 {
		add("false")
	}
	if len(q.States) > 0 {
		add("state IN (" + strings.TrimSuffix(strings.Repeat("?, ", len(q.States)), ", ") + ")")
		for _, state := range q.States {
			args = append(args, state)
		}
	}
	named := "id"
	if q.Heads {
		named = "session"
		add("session <> '' AND NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.session = runs.session AND later.session <> '' AND later.n > runs.n)")
	}
	if q.Prefix != "" {
		add(named+" >= ? AND "+named+" < ?", q.Prefix, q.Prefix+"\x7f")
	}
	for _, is := range [...]struct{ column, value string }{
		{"kind", q.Kind}, {"name", q.Name}, {"parent", q.Parent}, {`"user"`, q.User}, {"session", q.Session}, {"envelope", q.Envelope}, {"request", q.Request}, {"thread", q.Thread}, {"request_key", q.Key},
	} {
		if is.value != "" {
			add(is.column+" = ? AND "+is.column+" <> ''", is.value) // as the indices say
		}
	}
	switch q.Project {
	case "":
	case ".":
		add("project = ''")
	default:
		add("project = ?", q.Project)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		if value := q.Labels[name]; value != "" {
			add("n IN (SELECT run FROM run_labels WHERE name = ? AND value = ?)", name, value)
		} else {
			add("n IN (SELECT run FROM run_labels WHERE name = ?)", name)
		}
	}
	if q.Text != "" {
		add("n IN (SELECT run FROM run_search WHERE run > (SELECT max(run) FROM run_search) - ? AND instr(text, ?) > 0)", int64(flow.SearchedRuns), strings.ToLower(q.Text))
	}
	if !q.Since.IsZero() { // rows are numbered in the order in which they are made
		add("n >= (SELECT coalesce(min(n), 9223372036854775807) FROM runs WHERE created >= ?)", q.Since.UnixNano())
	}
	if !q.EndedSince.IsZero() {
		add("ended >= ?", q.EndedSince.UnixNano())
	}
	if q.Launched {
		add("launch IS NOT NULL")
	}
	if q.Leased {
		add("holder IS NOT NULL")
	}
	if q.Holder != "" {
		add("holder = ?", q.Holder)
	}
	if q.Queued {
		add("queued = 1") // as its index says
	}
	return where, args
}

// CountRuns implements [flow.Reader].
func (s *Store) CountRuns(ctx context.Context, q flow.Query) (int, error) {
	where, args := whereRuns(q)
	if q.Limit > 0 {
		where, args = `n IN (SELECT n FROM runs WHERE `+where+` LIMIT ?)`, append(args, int64(q.Limit))
	}
	n, err := Number(ctx, s.db, `SELECT count(*) FROM runs WHERE `+where, args...)
	return int(n), err
}

// CountStates implements [flow.Reader].
func (s *Store) CountStates(ctx context.Context, q flow.Query) (map[string]int, error) {
	var each []string
	var all []any
	for _, state := range q.States {
		one := q
		one.States = []string{state}
		where, args := whereRuns(one)
		each = append(each, `SELECT ?, count(*) FROM (SELECT 1 FROM runs WHERE `+where+` LIMIT ?) AS some`)
		all = append(append(append(all, state), args...), int64(cmp.Or(q.Limit, math.MaxInt)))
	}
	counts := map[string]int{}
	err := s.db.Query(ctx, func(r Row) error {
		counts[r.Text(0)] = int(r.Int(1))
		return nil
	}, strings.Join(each, " UNION ALL "), all...)
	return counts, err
}

// CostOfRuns implements [flow.Reader].
func (s *Store) CostOfRuns(ctx context.Context, q flow.Query) (int64, error) {
	where, args := whereRuns(q)
	return Number(ctx, s.db, `SELECT coalesce(sum(cost), 0) FROM runs WHERE `+where, args...)
}

// Runs implements [flow.Reader].
func (s *Store) Runs(ctx context.Context, q flow.Query) (runs []flow.Row, err error) {
	where, args := whereRuns(q)
	if q.Limit > 0 { // to sort numbers is cheap, and rows are large
		where, args = "n IN (SELECT n FROM runs WHERE "+where+" ORDER BY n DESC LIMIT ?)", append(args, int64(q.Limit))
	}
	where += " ORDER BY n DESC"
	err = s.db.Query(ctx, func(r Row) error {
		run, err := scanRun(r)
		runs = append(runs, run)
		return err
	}, selectRuns+where, args...)
	for i := range runs {
		if err == nil {
			err = s.number(ctx, &runs[i])
		}
	}
	return runs, err
}

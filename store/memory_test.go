package store_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/flowtest"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// The rules of a store hold on any database: here on one of Go maps. It takes minutes
// under the race detector, and is asked for, as in package sqlite.
func TestFlow(t *testing.T) {
	if !strings.Contains(os.Getenv("TIPSTAFF_FLOWTEST"), "memory") {
		t.Skip("TIPSTAFF_FLOWTEST does not name memory")
	}
	keys := newKeyring(t)
	flowtest.RunStore(t, func(t *testing.T) flowtest.Bed {
		m := newMemory()
		open := func() *store.Store {
			m.rules = store.New(m, keys, &store.Options{Alive: func(flow.Owner, time.Time) bool { return true }})
			m.inbox, _ = m.rules.OpenInbox(m)
			return m.rules
		}
		return &storetest.Bed{Store: open(), Again: open}
	})
}

func newKeyring(t *testing.T) *store.Keyring {
	ring := &store.Keyring{Private: map[string]*journal.PrivateKey{}, Public: map[string]journal.PublicKey{}, Place: "memory"}
	for _, name := range []string{journal.User, journal.Executor} {
		key, err := journal.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		ring.Private[name], ring.Public[name] = key, key.Public()
	}
	return ring
}

type row map[string]any

// memory is a store.DB of tables in memory: one writer at a time, and what fails is
// undone. It understands the plain form of statements; joins are tables of their own.
type memory struct {
	mu     sync.Mutex // of a transaction, or of one look
	rules  *store.Store
	inbox  *store.Inbox
	tables map[string]*table
	undo   []func()
	told   sync.Mutex
	blobs  sync.Map
	commit func() // when a transaction has written, and others do not see it yet; nil: nothing
}

// table keeps its rows by the run that they belong to; 0: they belong to none.
type table struct {
	rows   map[int64][]row
	nextID int64
}

func newMemory() *memory {
	m := &memory{tables: map[string]*table{}}
	for _, name := range []string{"runs", "records", "gates", "inbox", "outbox", "blobs", "blob_refs", "keys", "tasks", "task_log", "worker_sessions", "cortex_log", "cortex_items", "cortex_weights", "run_labels", "run_search"} {
		m.tables[name] = &table{rows: map[int64][]row{}}
	}
	m.tables["cortex_weights"].rows[0] = []row{{"id": int64(1), "r": cortex.Cold[0], "a": cortex.Cold[1], "c": cortex.Cold[2], "d": cortex.Cold[3], "v": cortex.Cold[4]}}
	return m
}

func (m *memory) Query(_ context.Context, each func(store.Row) error, query string, args ...any) error {
	m.mu.Lock()
	found, err := m.run(query, args)
	m.mu.Unlock()
	return hand(found, each, err)
}

func hand(found []store.Row, each func(store.Row) error, err error) error {
	for _, r := range found {
		if err == nil {
			err = each(r)
		}
	}
	return err
}

func (m *memory) Read(ctx context.Context, f func(store.Querier) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f(memoryConn{m})
}

func (m *memory) Do(_ context.Context, op *store.Op) error {
	m.mu.Lock()
	m.undo = nil
	t := m.rules.Begin(memoryConn{m}, false)
	err := t.Perform(op)
	if err == nil {
		err = t.Finish(m.inbox)
	}
	if m.commit != nil {
		m.commit()
	}
	var notices []store.Notice
	if err == nil {
		notices = t.Committed(m.inbox)
	} else {
		for _, back := range slices.Backward(m.undo) {
			back()
		}
		m.rules.RolledBack()
	}
	m.told.Lock() // before the next transaction can be told of
	m.mu.Unlock()
	defer m.told.Unlock()
	m.rules.Deliver(notices)
	return err
}

func (m *memory) Submit(op *store.Op, done func(error)) { done(m.Do(context.Background(), op)) }

func (m *memory) PutBlob(_ store.Conn, h journal.Hash, data []byte) error {
	m.blobs.Store(h, slices.Clone(data))
	return nil
}

func (m *memory) GetBlob(h journal.Hash) ([]byte, error) {
	if data, ok := m.blobs.Load(h); ok {
		return data.([]byte), nil
	}
	return nil, fmt.Errorf("%w: %s", flow.ErrNoBlob, h)
}

func (m *memory) RemoveBlob(_ store.Conn, h journal.Hash) error {
	m.blobs.Delete(h)
	return nil
}

// memoryConn is the memory for whoever holds its lock.
type memoryConn struct{ *memory }

func (memoryConn) Lock(string) (bool, error) { return false, nil }

func (c memoryConn) Exec(query string, args ...any) error {
	_, err := c.run(query, args)
	return err
}

func (c memoryConn) Query(_ context.Context, each func(store.Row) error, query string, args ...any) error {
	found, err := c.run(query, args)
	return hand(found, each, err)
}

var (
	insertForm = regexp.MustCompile(`^INSERT INTO (\w+) \((.*?)\) VALUES \((.*?)\)( ON CONFLICT .*| RETURNING id)?$`)
	updateForm = regexp.MustCompile(`^UPDATE (\w+) SET (.*) WHERE (.*)$`)
	selectForm = regexp.MustCompile(`^SELECT (.*?) FROM (.*?)(?: WHERE (.*?))?(?: ORDER BY (.*?))?(?: LIMIT (\S+))?$`)
	lastRecord = regexp.MustCompile(`\(SELECT (\w+) FROM records WHERE run = n ORDER BY seq DESC LIMIT 1\)`)
	conditions = regexp.MustCompile(`^(\S+) (=|<>|<=|>=|<|>) (\?|'[^']*'|\d+|\(SELECT n FROM runs WHERE id = \?\))$`)
)

// run performs a statement. Its arguments stand in the order of their marks.
func (m *memory) run(query string, args []any) ([]store.Row, error) {
	query = strings.ReplaceAll(strings.Join(strings.Fields(query), " "), `"`, "")
	query = lastRecord.ReplaceAllString(query, "last_$1")
	a := &arguments{m: m, left: args}
	switch {
	case insertForm.MatchString(query):
		f := insertForm.FindStringSubmatch(query)
		return m.insert(f[1], strings.Split(f[2], ", "), strings.Split(f[3], ", "), f[4], a), nil
	case strings.HasPrefix(query, "INSERT INTO blob_refs"):
		run, digest := a.next(), a.next()
		for _, b := range m.tables["blobs"].rows[0] {
			if b["digest"] == digest {
				m.add("blob_refs", row{"run": run, "digest": digest})
			}
		}
		return nil, nil
	case updateForm.MatchString(query):
		f := updateForm.FindStringSubmatch(query)
		return nil, m.update(f[1], f[2], f[3], a)
	case selectForm.MatchString(query):
		f := selectForm.FindStringSubmatch(query)
		return m.find(f[1], f[2], f[3], f[4], f[5], a)
	}
	return nil, fmt.Errorf("memory: no such statement: %s", query)
}

// arguments are taken one after the other.
type arguments struct {
	m    *memory
	left []any
}

func (a *arguments) next() any {
	v := a.left[0]
	a.left = a.left[1:]
	if b, ok := v.([]byte); ok {
		return slices.Clone(b) // the caller's may be a buffer
	}
	return v
}

// value is what a mark or a literal stands for.
func (a *arguments) value(text string) any {
	switch {
	case text == "?":
		return a.next()
	case text == "NULL":
		return nil
	case text[0] == '\'':
		return strings.Trim(text, "'")
	case text[0] == '(' || strings.HasPrefix(text, "coalesce"): // the number of a run
		id := a.next()
		for n, rows := range a.m.tables["runs"].rows {
			if rows[0]["id"] == id {
				return n
			}
		}
		return int64(0)
	}
	var n int64
	_, _ = fmt.Sscan(text, &n)
	return n
}

func (m *memory) insert(name string, columns, values []string, end string, a *arguments) []store.Row {
	r := row{}
	for i, c := range columns {
		r[c] = a.value(values[i])
	}
	if strings.HasPrefix(end, " ON CONFLICT") {
		for _, rows := range m.tables[name].rows {
			for _, old := range rows {
				if old[columns[0]] == r[columns[0]] {
					return nil // the first column is the key; no test looks at what is updated then
				}
			}
		}
	}
	id := m.add(name, r)
	if end == " RETURNING id" {
		return []store.Row{{id}}
	}
	return nil
}

// home is the run whose rows of a table r belongs to.
func home(name string, r row) int64 {
	switch name {
	case "runs":
		return r["n"].(int64)
	case "records", "gates":
		return r["run"].(int64)
	}
	return 0
}

func (m *memory) add(name string, r row) int64 {
	t := m.tables[name]
	t.nextID++
	switch name {
	case "runs":
		r["n"] = t.nextID
		for _, c := range []string{"state", "owned"} {
			r[c] = ""
		}
	case "inbox":
		r["id"] = t.nextID
	case "gates":
		r["decided"], r["via"] = int64(0), ""
	}
	at := home(name, r)
	t.rows[at] = append(t.rows[at], r)
	m.undo = append(m.undo, func() {
		if t.rows[at] = t.rows[at][:len(t.rows[at])-1]; len(t.rows[at]) == 0 {
			delete(t.rows, at)
		}
	})
	return t.nextID
}

func (m *memory) update(name, set, where string, a *arguments) error {
	values := row{}
	for _, s := range strings.Split(set, ", ") {
		column, value, _ := strings.Cut(s, " = ")
		values[column] = a.value(value)
	}
	rows, err := m.where(name, where, a)
	for _, r := range rows {
		before := maps.Clone(r)
		m.undo = append(m.undo, func() { maps.Copy(r, before) })
		maps.Copy(r, values)
	}
	return err
}

func (m *memory) find(columns, from, where, order, limit string, a *arguments) ([]store.Row, error) {
	rows, err := m.where(from, where, a)
	if err != nil {
		return nil, err
	}
	for _, by := range slices.Backward(strings.Split(order, ", ")) {
		column, desc := strings.CutSuffix(by, " DESC")
		if order != "" {
			slices.SortStableFunc(rows, func(x, y row) int {
				c := compare(x[column], y[column])
				if desc {
					return -c
				}
				return c
			})
		}
	}
	if limit != "" {
		rows = rows[:min(len(rows), int(a.value(limit).(int64)))]
	}
	if strings.Contains(columns, "(") {
		return []store.Row{aggregates(columns, rows)}, nil
	}
	var found []store.Row
	for _, r := range rows {
		var out store.Row
		for _, c := range strings.Split(columns, ", ") {
			out = append(out, r[c])
		}
		found = append(found, out)
	}
	return found, nil
}

// aggregates are count(*), and max of a column.
func aggregates(columns string, rows []row) (out store.Row) {
	for _, c := range strings.Split(columns, ", ") {
		if c == "count(*)" {
			out = append(out, int64(len(rows)))
			continue
		}
		most := any(nil)
		for _, r := range rows {
			if v := r[strings.TrimSuffix(strings.TrimPrefix(c, "max("), ")")]; most == nil || compare(v, most) > 0 {
				most = v
			}
		}
		out = append(out, most)
	}
	return out
}

func compare(x, y any) int {
	a, ok := x.(int64)
	if b, both := y.(int64); ok && both {
		return cmp.Compare(a, b)
	}
	return strings.Compare(fmt.Sprint(x), fmt.Sprint(y))
}

// where are the rows of a table, or of a join, that meet all conditions.
func (m *memory) where(from, text string, a *arguments) ([]row, error) {
	var tests []func(row) bool
	only := int64(0) // the run whose rows are asked for
	text = strings.ReplaceAll(text, "BETWEEN ? AND ?", "BETWEEN ?")
	for _, c := range strings.Split(text, " AND ") {
		f := conditions.FindStringSubmatch(c)
		switch {
		case c == "" || c == "true":
		case f != nil:
			want := a.value(f[3])
			tests = append(tests, func(r row) bool { return holds(compare(r[f[1]], want), f[2]) })
			if n, ok := want.(int64); ok && f[2] == "=" && (f[1] == "run" || f[1] == "n" || f[1] == "g.run") {
				only = n
			}
		case c == "seq BETWEEN ?":
			low, high := a.next(), a.next()
			tests = append(tests, func(r row) bool { return compare(r["seq"], low) >= 0 && compare(r["seq"], high) <= 0 })
		case strings.HasSuffix(c, " IS NOT NULL"):
			tests = append(tests, func(r row) bool { return r[strings.TrimSuffix(c, " IS NOT NULL")] != nil })
		case c == "(kind LIKE 'policy.%' OR kind LIKE 'intent.%')":
			tests = append(tests, func(r row) bool { return journal.IsEnvelope(r["kind"].(string)) })
		default:
			return nil, fmt.Errorf("memory: no such condition: %s", c)
		}
	}
	all, err := m.rows(from, only)
	return slices.DeleteFunc(all, func(r row) bool {
		return slices.ContainsFunc(tests, func(holds func(row) bool) bool { return !holds(r) })
	}), err
}

func holds(c int, op string) bool {
	switch op {
	case "=":
		return c == 0
	case "<>":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// rows are those of a table, or of gates with their records. run names one run; 0: all.
func (m *memory) rows(from string, run int64) (all []row, err error) {
	name, _, join := strings.Cut(from, " ")
	t := m.tables[name]
	if t == nil || join && name != "gates" {
		return nil, fmt.Errorf("memory: no such table: %s", from)
	}
	if run > 0 && (name == "runs" || name == "records" || name == "gates") {
		all = slices.Clone(t.rows[run])
	} else {
		for _, n := range slices.Sorted(maps.Keys(t.rows)) {
			all = append(all, t.rows[n]...)
		}
	}
	for i, r := range all {
		switch {
		case name == "runs":
			if records := m.tables["records"].rows[r["n"].(int64)]; len(records) > 0 {
				last := records[len(records)-1]
				r["last_seq"], r["last_hash"] = last["seq"], last["hash"]
			}
		case join:
			all[i] = m.joined(r)
		}
	}
	return all, nil
}

// joined is a gate with its run and its records, under the names that statements have
// for them.
func (m *memory) joined(gate row) row {
	n := gate["run"].(int64)
	records := m.tables["records"].rows[n]
	r := row{"r.id": m.tables["runs"].rows[n][0]["id"], "k.bytes": records[gate["opened"].(int64)-1]["bytes"]}
	for c, v := range gate {
		r["g."+c] = v
	}
	if decided := gate["decided"].(int64); decided > 0 {
		r["d.bytes"] = records[decided-1]["bytes"]
	}
	return r
}

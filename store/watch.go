package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Notice says that a run has changed and, if there is one, by which record that
// its watchers want to see.
type Notice struct {
	run    string
	record *flow.Record
}

// hub knows who listens to which run in this process.
type hub struct {
	mu        sync.Mutex
	listeners map[string]map[*listener]bool
}

// listener watches the records of a run that its owner did not write, or follows it.
type listener struct {
	watch   func(flow.Record) // nil: it follows
	changed chan struct{}     // of one that follows
	stopped bool              // guarded by the hub
}

// Watch implements [flow.Log].
func (s *Store) Watch(run string, f func(flow.Record)) (stop func()) {
	return s.hub.add(run, &listener{watch: f})
}

// anyRun is followed by whoever wants to know that a run has come, or stands elsewhere.
const anyRun = ""

// Follow implements [flow.Reader].
func (s *Store) Follow(run string) (changed <-chan struct{}, stop func()) {
	l := &listener{changed: make(chan struct{}, 1)}
	return l.changed, s.hub.add(run, l)
}

// add enters a listener and returns what removes it.
func (h *hub) add(run string, l *listener) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners[run] == nil {
		h.listeners[run] = map[*listener]bool{}
	}
	h.listeners[run][l] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		l.stopped = true
		delete(h.listeners[run], l)
		if len(h.listeners[run]) == 0 {
			delete(h.listeners, run)
		}
	}
}

// watched reports whether anybody watches a run.
func (h *hub) watched(run string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners[run] {
		if l.watch != nil {
			return true
		}
	}
	return false
}

// wanted are the notices of runs that anybody listens to. It is asked after the commit: who
// began to listen before it has not seen what it wrote.
func (h *hub) wanted(notices []Notice) []Notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(notices, func(n Notice) bool { return h.listeners[n.run] == nil })
}

// followed are the runs that somebody follows.
func (h *hub) followed() (runs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for run, listeners := range h.listeners {
		for l := range listeners {
			if l.watch == nil {
				runs = append(runs, run)
				break
			}
		}
	}
	return runs
}

// Listening reports whether anybody in this process wants to know of anything.
func (s *Store) Listening() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return len(s.hub.listeners) > 0
}

// Deliver tells the listeners, in order. A watcher may take its time, and may stop
// itself.
func (s *Store) Deliver(notices []Notice) {
	for _, n := range notices {
		for _, l := range s.hub.signal(n) {
			s.hub.mu.Lock()
			stopped := l.stopped
			s.hub.mu.Unlock()
			if !stopped {
				l.watch(*n.record)
			}
		}
	}
}

// signal wakes those who follow and returns those who watch.
func (h *hub) signal(n Notice) (watching []*listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners[n.run] {
		switch {
		case l.watch == nil:
			select {
			case l.changed <- struct{}{}:
			default:
			}
		case n.record != nil:
			watching = append(watching, l)
		}
	}
	return watching
}

// tell notes what listeners may want to hear of after the commit, in this process and,
// through the inbox, in others.
func (t *Tx) tell(st *runState, foreign bool, r flow.Record) error {
	if journal.IsEnvelope(r.Kind) || strings.HasPrefix(r.Kind, "run.") {
		t.moved(anyRun)
	}
	if !foreign && r.Kind != string(tipstaff.KindPolicyGateResolve) {
		t.moved(st.id)
		return nil
	}
	record := r
	t.notices = append(t.notices, Notice{st.id, &record})
	t.letters = append(t.letters, letter{st.n, r.Seq, t.now.UnixNano()})
	return nil
}

// moved notes that a run has new records, once for those that follow each other.
func (t *Tx) moved(run string) {
	if n := len(t.notices); n == 0 || t.notices[n-1].run != run {
		t.notices = append(t.notices, Notice{run: run})
	}
}

// letter is a row of the inbox.
type letter struct{ run, seq, at int64 }

// Told reports whether other processes are to hear of the transaction.
func (t *Tx) Told() bool { return len(t.letters) > 0 }

// Finish writes what comes last in a transaction. Rows of the inbox become visible in their
// order: who reads them never has to look back.
func (t *Tx) Finish(in *Inbox) error {
	if err := t.rememberEvents(); err != nil {
		return err
	}
	if len(t.letters) == 0 {
		return nil
	}
	if err := t.alone("inbox"); err != nil {
		return err
	}
	t.inbox = in.seen
	for _, l := range t.letters {
		err := t.query(func(r Row) error {
			if t.inbox == r.Int(0)-1 {
				t.inbox++ // nobody has written in between that is yet to be read
			}
			return nil
		}, `INSERT INTO inbox (run, seq, at) VALUES (?, ?, ?) RETURNING id`, l.run, l.seq, l.at)
		if err != nil {
			return err
		}
	}
	return nil
}

// Inbox reads what other processes wrote. Its cost is by new rows, not by runs.
type Inbox struct {
	s      *Store
	seen   int64            // row of the inbox
	pruned int64            // its last row when it was pruned
	heads  map[string]int64 // of followed runs, as last seen
}

// OpenInbox begins after what is there.
func (s *Store) OpenInbox(q Querier) (in *Inbox, err error) {
	in = &Inbox{s: s, heads: map[string]int64{}}
	in.seen, err = Number(context.Background(), q, `SELECT max(id) FROM inbox`)
	return in, err
}

// Collect reads the inbox, and only then asks who listens: a row that was not yet
// there when somebody began to watch is read afterwards.
func (in *Inbox) Collect(q Querier) (notices []Notice, err error) {
	ctx := context.Background()
	type entry struct {
		n, seq int64
		run    string
	}
	var entries []entry
	err = q.Query(ctx, func(r Row) error {
		in.seen = r.Int(0)
		entries = append(entries, entry{r.Int(1), r.Int(2), r.Text(3)})
		return nil
	}, `SELECT i.id, i.run, i.seq, r.id FROM inbox i JOIN runs r ON r.n = i.run WHERE i.id > ? ORDER BY i.id`, in.seen)
	for _, e := range entries {
		if !in.s.hub.watched(e.run) {
			continue
		}
		err = errors.Join(err, q.Query(ctx, func(r Row) error {
			rec, err := ParseRecord(r.Bytes(0))
			if err == nil {
				notices = append(notices, Notice{e.run, &rec})
			}
			return err
		}, `SELECT bytes FROM records WHERE run = ? AND seq = ?`, e.n, e.seq))
	}
	moved, headErr := in.movedHeads(ctx, q)
	return append(notices, moved...), errors.Join(err, headErr)
}

// movedHeads are the followed runs that have new records, of whatever kind.
func (in *Inbox) movedHeads(ctx context.Context, q Querier) (notices []Notice, err error) {
	heads := map[string]int64{}
	for _, run := range in.s.hub.followed() {
		query, args := `SELECT max(seq) FROM records WHERE run = (SELECT n FROM runs WHERE id = ?)`, []any{run}
		if run == anyRun { // a row changes when its run does
			query, args = `SELECT max(updated) FROM (SELECT updated FROM runs ORDER BY n DESC LIMIT 500) AS newest`, nil
		}
		head, err := Number(ctx, q, query, args...)
		if err != nil {
			return nil, err
		}
		if before, known := in.heads[run]; !known || head != before {
			notices = append(notices, Notice{run: run})
		}
		heads[run] = head
	}
	in.heads = heads
	return notices, nil
}

// The inbox is pruned when so many rows have come, of those so old.
const (
	pruneEvery = 1000
	pruneAge   = time.Minute
)

// Crowded reports whether it is time to Prune.
func (in *Inbox) Crowded() bool {
	crowded := in.seen-in.pruned >= pruneEvery
	if crowded {
		in.pruned = in.seen
	}
	return crowded
}

// Prune removes rows of the inbox that nobody can be waiting for: whoever polls
// has seen them long ago, save owners that were stopped; a later owner loads the
// records themselves.
func (t *Tx) Prune() error {
	return t.exec(`DELETE FROM inbox WHERE at < ? AND run NOT IN (SELECT n FROM runs WHERE holder IS NOT NULL)`, t.now.Add(-pruneAge).UnixNano())
}

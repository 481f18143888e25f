package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// notice says that a run has changed and, if there is one, by which record that
// its watchers want to see.
type notice struct {
	run    string
	record *flow.Record
}

// hub knows who listens to which run in this process.
type hub struct {
	mu        sync.Mutex
	watchers  map[string]map[*watcher]bool
	followers map[string]map[*follower]bool
}

type watcher struct {
	f       func(flow.Record)
	stopped bool // guarded by the hub
}

type follower struct{ changed chan struct{} }

func newHub() *hub {
	return &hub{watchers: map[string]map[*watcher]bool{}, followers: map[string]map[*follower]bool{}}
}

// Watch implements [flow.Log].
func (s *Store) Watch(run string, f func(flow.Record)) (stop func()) {
	w := &watcher{f: f}
	return register(s.hub, s.hub.watchers, run, w, func() { w.stopped = true })
}

// Follow implements [flow.Reader].
func (s *Store) Follow(run string) (changed <-chan struct{}, stop func()) {
	f := &follower{make(chan struct{}, 1)}
	return f.changed, register(s.hub, s.hub.followers, run, f, func() {})
}

// register enters a listener and returns what removes it.
func register[T comparable](h *hub, all map[string]map[T]bool, run string, listener T, stopped func()) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if all[run] == nil {
		all[run] = map[T]bool{}
	}
	all[run][listener] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		stopped()
		delete(all[run], listener)
		if len(all[run]) == 0 {
			delete(all, run)
		}
	}
}

// listening reports whether anybody wants to know of anything.
func (h *hub) listening() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers) > 0 || len(h.followers) > 0
}

func (h *hub) watched(run string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers[run]) > 0
}

func (h *hub) heard(run string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers[run]) > 0 || len(h.followers[run]) > 0
}

func (h *hub) followedBy(run string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.followers[run]) > 0
}

func (h *hub) followed() (runs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for run := range h.followers {
		runs = append(runs, run)
	}
	return runs
}

// deliver tells the listeners, in order. A watcher may stop itself.
func (h *hub) deliver(notices []notice) {
	for _, n := range notices {
		h.mu.Lock()
		for f := range h.followers[n.run] {
			select {
			case f.changed <- struct{}{}:
			default:
			}
		}
		var watchers []*watcher
		if n.record != nil {
			for w := range h.watchers[n.run] {
				watchers = append(watchers, w)
			}
		}
		h.mu.Unlock()
		for _, w := range watchers {
			h.call(w, *n.record)
		}
	}
}

func (h *hub) call(w *watcher, r flow.Record) {
	h.mu.Lock()
	stopped := w.stopped
	h.mu.Unlock()
	if !stopped {
		w.f(r)
	}
}

// notifier calls back on a goroutine of its own: the next batch need not wait for
// two hundred calls, nor for a watcher that takes its time.
type notifier struct {
	hub   *hub
	queue *mailbox[callback]
	ended chan struct{}

	pending atomic.Int64
}

type callback struct {
	done    func(error)
	err     error
	notices []notice
}

func newNotifier(h *hub) *notifier {
	return &notifier{hub: h, queue: newMailbox[callback](), ended: make(chan struct{})}
}

// idle reports whether everything that was to be told has been told: then
// nothing is overtaken by telling something elsewhere.
func (n *notifier) idle() bool { return n.pending.Load() == 0 }

func (n *notifier) done(f func(error), err error) { n.put(callback{done: f, err: err}) }

func (n *notifier) put(c callback) {
	n.pending.Add(1)
	n.queue.put(c)
}

func (n *notifier) notices(list []notice) {
	if len(list) > 0 {
		n.put(callback{notices: list})
	}
}

func (n *notifier) close() { n.queue.close() }

func (n *notifier) run() {
	defer close(n.ended)
	for {
		calls, open := n.queue.take(func(callback) bool { return true })
		for _, c := range calls {
			n.hub.deliver(c.notices)
			if c.done != nil {
				c.done(c.err)
			}
			n.pending.Add(-1)
		}
		if len(calls) > 0 {
			continue
		}
		if !open {
			return
		}
		<-n.queue.wake
	}
}

// poller finds what other processes wrote, by the change counter of its
// connection and the inbox. Its cost is by new rows, not by runs.
type poller struct {
	hub     *hub
	c       *conn
	version uint32
	seen    int64            // row of the inbox
	heads   map[string]int64 // of followed runs, as last seen
	stop    chan struct{}
	ended   chan error
}

func newPoller(h *hub, c *conn) *poller {
	return &poller{hub: h, c: c, heads: map[string]int64{}, stop: make(chan struct{}), ended: make(chan error, 1)}
}

// start begins after what is there.
func (p *poller) start() (err error) {
	if _, err = p.look(); err != nil {
		return err
	}
	p.seen, err = p.c.number(context.Background(), `SELECT max(id) FROM inbox`)
	return err
}

// look is moved for a connection that is not in a transaction.
func (p *poller) look() (bool, error) {
	if _, err := p.c.versionNow(); err != nil {
		return false, err
	}
	return p.moved()
}

// moved reports whether the file has changed since the last call, by another
// connection unless this one has changed it and did not call settle.
func (p *poller) moved() (bool, error) {
	before := p.version
	err := p.settle()
	return p.version != before, err
}

// settle takes note of the present state of the file.
func (p *poller) settle() (err error) {
	p.version, err = p.c.version()
	return err
}

// passed leaves out rows of this connection's own.
func (p *poller) passed(id int64) { p.seen = max(p.seen, id) }

// collect reads the inbox, and only then asks who listens: a row that was not
// yet there when somebody began to watch is read afterwards.
func (p *poller) collect() (notices []notice, err error) {
	ctx := context.Background()
	type entry struct {
		n, seq int64
		run    string
	}
	var entries []entry
	err = p.c.query(ctx, func(r row) error {
		p.seen = r.int(0)
		entries = append(entries, entry{r.int(1), r.int(2), r.text(3)})
		return nil
	}, `SELECT i.id, i.run, i.seq, r.id FROM inbox i JOIN runs r ON r.n = i.run WHERE i.id > ? ORDER BY i.id`, p.seen)
	for _, e := range entries {
		if !p.hub.watched(e.run) {
			continue
		}
		err = errors.Join(err, p.c.query(ctx, func(r row) error {
			rec, err := parseRecord(r.bytes(0))
			if err == nil {
				notices = append(notices, notice{e.run, &rec})
			}
			return err
		}, `SELECT bytes FROM records WHERE run = ? AND seq = ?`, e.n, e.seq))
	}
	moved, headErr := p.movedHeads(ctx)
	return append(notices, moved...), errors.Join(err, headErr)
}

// movedHeads are the followed runs that have new records, of whatever kind.
func (p *poller) movedHeads(ctx context.Context) (notices []notice, err error) {
	heads := map[string]int64{}
	for _, run := range p.hub.followed() {
		head, err := p.c.number(ctx, `SELECT max(seq) FROM records WHERE run = (SELECT n FROM runs WHERE id = ?)`, run)
		if err != nil {
			return nil, err
		}
		if before, known := p.heads[run]; !known || head != before {
			notices = append(notices, notice{run: run})
		}
		heads[run] = head
	}
	p.heads = heads
	return notices, nil
}

// run polls for a store that cannot write. Failures show to its readers.
func (p *poller) run() {
	defer func() { p.ended <- p.c.close() }()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-p.stop:
			return
		}
		if moved, err := p.look(); err != nil || !moved || !p.hub.listening() {
			continue
		}
		notices, _ := p.collect()
		p.hub.deliver(notices)
	}
}

func (p *poller) close() error {
	close(p.stop)
	if err := <-p.ended; err != nil {
		return fmt.Errorf("closing a reader: %w", err)
	}
	return nil
}

// tell notes what listeners must hear of after the commit, in this process and,
// through the inbox, in others.
func (t *tx) tell(st *runState, foreign bool, r flow.Record) error {
	hub := t.w.s.hub
	if !foreign && r.Kind != string(tipstaff.KindPolicyGateResolve) {
		if n := len(t.notices); hub.followedBy(st.id) && (n == 0 || t.notices[n-1].run != st.id) {
			t.notices = append(t.notices, notice{run: st.id})
		}
		return nil
	}
	if hub.heard(st.id) {
		t.notices = append(t.notices, notice{st.id, &r})
	}
	t.wrote++
	res, err := t.c.change(`INSERT INTO inbox (run, seq, at) VALUES (?, ?, ?)`, st.n, r.Seq, t.now.UnixNano())
	if err != nil {
		return err
	}
	t.inbox, err = res.LastInsertId()
	return err
}

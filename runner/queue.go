package runner

import (
	"cmp"
	"container/list"
	"context"
	"math"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// maxQueue is how many runs may wait for their turn. One user has half of that.
const maxQueue = 1024

// queue lets so many runs be driven at once, and the others wait. It is fair between
// users: a place that comes free goes round those who wait; nobody holds more than
// three quarters of the places, nor half of them while others wait; and the last places go
// only to those who have none. So nobody can keep others out for good, however long
// their own runs take. Nothing is taken from a run that is driven.
type queue struct {
	mu       sync.Mutex
	places   int
	free     int // of them
	reserved int // of them, for users who have none
	lines    map[string]*line
	ring     *list.List       // of the *line of every user who waits; the first is served next
	waiting  map[string]*turn // by run
	freed    chan struct{}    // one place: somebody has left
}

// line is one user's part of the queue.
type line struct {
	user    string
	held    int           // places
	waiting *list.List    // of *turn, in the order in which they came
	at      *list.Element // in the ring; nil: nothing waits
}

// turn is that of a run to be driven. A nil turn has come.
type turn struct {
	queue *queue
	line  *line
	run   string
	come  chan struct{} // closed when it has a place, or needs none
	free  bool          // it came without a place
	at    *list.Element // in its line; nil: it has, or had, a place
}

// newQueue is a queue with so many places, 0: with room for all, for a number of
// users that are known beforehand, 0: nobody knows.
func newQueue(places, users int) *queue {
	if places <= 0 {
		places = math.MaxInt
	}
	return &queue{places: places, free: places, reserved: reserve(places, users),
		lines: map[string]*line{}, ring: list.New(), waiting: map[string]*turn{}, freed: make(chan struct{}, 1)}
}

// reserve is how many places are for users who have none: one for each but one of
// those who are known, and an eighth at least for others in whose name they act.
// Half of the places are always for everybody.
func reserve(places, users int) int {
	return min(max(places/8, users-1), places/2)
}

// place is that of a run that waits for its turn here, from 1; 0: it does not. Lines are
// served in turn: before the third of a line stand two of its own and at most two of each
// other.
func (q *queue) place(run string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.waiting[run]
	if t == nil {
		return 0
	}
	before := 0
	for e := t.at.Prev(); e != nil; e = e.Prev() {
		before++
	}
	place := before + 1
	for _, l := range q.lines {
		if l != t.line {
			place += min(before, l.waiting.Len())
		}
	}
	return place
}

// sizes are how many runs have a place here, and how many wait for one.
func (q *queue) sizes() (driven, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.places - q.free, len(q.waiting)
}

// room refuses one more where as many wait as may.
func (q *queue) room(user string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := 0
	if l := q.lines[user]; l != nil {
		own = l.waiting.Len()
	}
	return crowded(user, own, len(q.waiting), maxQueue)
}

// crowded refuses one more of a user, where so many of theirs and of all wait already.
func crowded(user string, own, all, most int) error {
	switch {
	case own >= most/2:
		return tipstaff.Errorf(tipstaff.QueueFull, "%d runs of %s wait for their turn already: that is half of the queue", own, user).WithHint("try again when some have ended")
	case all >= most:
		return tipstaff.Errorf(tipstaff.QueueFull, "%d runs wait for their turn already", most).WithHint("try again when some have ended")
	}
	return nil
}

// roomFor refuses a run that the queue has no room for. One with a process of its own does
// not wait here.
func (r *Runner) roomFor(ctx context.Context, user string, detach bool) error {
	switch {
	case detach || r.pooled() && r.queue.hasPlace():
		return nil
	case !r.pooled():
		return r.queue.room(user)
	}
	own, err := r.Store.CountRuns(ctx, flow.Query{Queued: true, User: user, Limit: maxShared})
	all := 0
	if err == nil {
		all, err = r.Store.CountRuns(ctx, flow.Query{Queued: true, Limit: maxShared})
	}
	return cmp.Or(err, crowded(user, own, all, maxShared))
}

// take gives a run a place if its user can have one now; nil: it can not.
func (q *queue) take(run, user string) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.line(user)
	if q.free == 0 || !q.may(l) {
		q.forget(l)
		return nil
	}
	q.free--
	l.held++
	return &turn{queue: q, line: l, run: run}
}

// hasPlace reports whether a place is free.
func (q *queue) hasPlace() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.free > 0
}

// held is how many places a user has.
func (q *queue) held(user string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[user]; l != nil {
		return l.held
	}
	return 0
}

// line is that of a user. Called with mu held.
func (q *queue) line(user string) *line {
	l := q.lines[user]
	if l == nil {
		l = &line{user: user, waiting: list.New()}
		q.lines[user] = l
	}
	return l
}

// may reports whether a user who waits may have one more place.
func (q *queue) may(l *line) bool {
	most := max(1, q.places/4*3+q.places%4*3/4)
	if q.ring.Len() > 1 { // others wait
		most = max(1, q.places/2)
	}
	return l.held < most && (l.held == 0 || q.free > q.reserved)
}

// enter gives a run a place or, where its user can have none, has it wait behind the
// user's others: from now on it is known to.
func (q *queue) enter(run, user string) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.line(user)
	t := &turn{queue: q, line: l, run: run, come: make(chan struct{})}
	t.at = l.waiting.PushBack(t)
	q.waiting[run] = t
	if l.at == nil {
		l.at = q.ring.PushBack(l)
	}
	q.serve()
	return t
}

// serve gives away the places that somebody may have.
func (q *queue) serve() {
	for e := q.ring.Front(); e != nil && q.free > 0; {
		l := e.Value.(*line)
		if !q.may(l) {
			e = e.Next()
			continue
		}
		t := l.waiting.Front().Value.(*turn)
		q.withdraw(t)
		if l.at != nil { // whoever was served waits for all others
			q.ring.MoveToBack(l.at)
		}
		q.free--
		l.held++
		close(t.come)
		e = q.ring.Front()
	}
}

// withdraw takes a turn out of its line.
func (q *queue) withdraw(t *turn) {
	l := t.line
	l.waiting.Remove(t.at)
	t.at = nil
	delete(q.waiting, t.run)
	if l.waiting.Len() == 0 {
		q.ring.Remove(l.at)
		l.at = nil
	}
}

// forget drops the line of a user who has nothing here any more.
func (q *queue) forget(l *line) {
	if l.held == 0 && l.waiting.Len() == 0 {
		delete(q.lines, l.user)
	}
}

// waits tells how many places its user holds, of a turn that has not come.
func (t *turn) waits() (held int, waits bool) {
	if t == nil {
		return 0, false
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.line.held, t.at != nil
}

// await returns when the turn has come, or not before ctx ends.
func (t *turn) await(ctx context.Context) bool {
	if t == nil {
		return true
	}
	select {
	case <-t.come:
		return true
	case <-ctx.Done():
	}
	q := t.queue
	q.mu.Lock()
	waited := t.at != nil
	if waited {
		q.withdraw(t)
		q.forget(t.line)
	}
	q.mu.Unlock()
	if !waited { // it has come all the same
		t.leave()
	}
	return false
}

// leave gives the place to who is next.
func (t *turn) leave() {
	if t == nil {
		return
	}
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.free {
		return
	}
	q.free++
	t.line.held--
	q.serve()
	q.forget(t.line)
	q.look()
}

// look has the queue that servers share looked at: there may be a place for what waits there.
func (q *queue) look() {
	select {
	case q.freed <- struct{}{}:
	default: // somebody is going to look
	}
}

// excuse lets a run go on without a place: it was cancelled, and only comes to its end.
func (q *queue) excuse(run string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.waiting[run]; t != nil {
		q.withdraw(t)
		q.forget(t.line)
		t.free = true
		close(t.come)
	}
}

// noteQueued records that a run waits, with so many others of its user driven, so that
// everybody can see why nothing happens. What cannot be recorded is no reason not to drive
// it: if the store is at fault, the drive says so.
func (r *Runner) noteQueued(run, user string, held int) {
	self := r.Self(r.Origin, "")
	body := tipstaff.RunQueued{Driven: held, Places: r.MaxDriving, Principal: user, Host: self.Host,
		Daemon: tipstaff.ProcessIdentity{Pid: self.Pid, Start: self.Start, Boot: self.Boot, PidNS: self.PidNS}}
	_ = r.Store.Write(context.WithoutCancel(r.Stop), run, func(tx flow.Tx) ([]flow.Draft, error) {
		if tipstaff.State(tx.Row().State).Terminal() {
			return nil, nil
		}
		return []flow.Draft{queuedDraft(body)}, nil
	})
}

package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// backlog is how much is kept for a subscriber that does not keep up.
const backlog = 256

// hub carries what drives of this process tell without recording it to those who
// follow their runs here. It never holds a drive up: a subscriber that does not keep
// up misses some.
type hub struct {
	mu          sync.Mutex
	subscribers map[string]map[chan tipstaff.Event]bool // by run
	// fresh is, by run, what calls have told that are still under way: whoever subscribes
	// a moment after a run was started has missed none of it.
	fresh map[string][]tipstaff.Event
}

// subscribe delivers what is told of a run until stop, and what was told by calls that
// are under way.
func (h *hub) subscribe(run string) (told <-chan tipstaff.Event, stop func()) {
	to := make(chan tipstaff.Event, backlog)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscribers == nil {
		h.subscribers = map[string]map[chan tipstaff.Event]bool{}
	}
	if h.subscribers[run] == nil {
		h.subscribers[run] = map[chan tipstaff.Event]bool{}
	}
	h.subscribers[run][to] = true
	for _, e := range h.fresh[run] { // they fit: no more are kept
		to <- e
	}
	return to, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subscribers[run], to)
		if len(h.subscribers[run]) == 0 {
			delete(h.subscribers, run)
		}
	}
}

// tell passes on what may be told: of a kind that belongs in journals, readers
// would wait for the record.
func (h *hub) tell(run string, d flow.Draft, at time.Time) {
	kind := tipstaff.Kind(d.Kind)
	if !kind.Transient() {
		return
	}
	e := tipstaff.Event{V: 1, Kind: kind, At: at.UTC(), Run: idOf(run), Path: d.Path, Body: d.Body}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.fresh[run]) < backlog {
		if h.fresh == nil {
			h.fresh = map[string][]tipstaff.Event{}
		}
		h.fresh[run] = append(h.fresh[run], e)
	}
	for to := range h.subscribers[run] {
		select {
		case to <- e:
		default:
		}
	}
}

// appended takes note of a record: what a call has told is past when it has ended.
func (h *hub) appended(run string, d flow.Draft) {
	if !endsCalls(tipstaff.Kind(d.Kind)) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.fresh[run], func(e tipstaff.Event) bool { return e.Path == d.Path || d.Path == "" })
	if len(left) == 0 {
		delete(h.fresh, run)
		return
	}
	h.fresh[run] = left
}

// over forgets a run that is no longer driven here.
func (h *hub) over(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.fresh, run)
}

// subscription is a subscriber's side of the hub: what is on its way, and what was taken
// and not yet passed on. What a call tells stands between the records of its
// beginning and of its end, for whoever reads them.
type subscription struct {
	told  <-chan tipstaff.Event
	queue []queuedEvent
}

type queuedEvent struct {
	tipstaff.Event
	due bool // the records before it have been read
}

// take queues what was told so far.
func (h *subscription) take() {
	for range len(h.told) {
		h.queue = append(h.queue, queuedEvent{Event: <-h.told})
	}
}

// reading: all records up to now are about to be read. What was told before came
// after its call's beginning was written, so that it is due when they have been.
func (h *subscription) reading() {
	for i := range h.queue {
		h.queue[i].due = true
	}
}

// read yields what is due, and reports whether the reader wants more.
func (h *subscription) read(yield func(tipstaff.Event, error) bool) bool {
	return h.pass(func(e *queuedEvent) bool { return e.due }, yield)
}

// ended yields what the call at a path has told ("": what all have), whose end is
// read next.
func (h *subscription) ended(path string, yield func(tipstaff.Event, error) bool) bool {
	h.take()
	return h.pass(func(e *queuedEvent) bool { return path == "" || e.Path == path }, yield)
}

func (h *subscription) pass(which func(*queuedEvent) bool, yield func(tipstaff.Event, error) bool) bool {
	queued := h.queue
	h.queue = nil
	more := true
	for i := range queued {
		switch e := &queued[i]; {
		case !which(e):
			h.queue = append(h.queue, *e)
		case more:
			more = yield(e.Event, nil)
		}
	}
	return more
}

// endsCalls reports whether a call, or all that were in flight, ended before a
// record of this kind was written.
func endsCalls(k tipstaff.Kind) bool {
	switch k {
	case tipstaff.KindEffectFailed, tipstaff.KindEffectFinished, tipstaff.KindEffectSuspended,
		tipstaff.KindRunContinued, tipstaff.KindRunInterrupted, tipstaff.KindRunParked:
		return true
	}
	return k.Terminal()
}

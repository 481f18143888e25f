package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// transientBuffer is how many events are kept for a subscriber that does not keep up.
const transientBuffer = 256

// transientHub carries the events that drives of this process do not record to those
// who follow their runs here. It never holds a drive up: a subscriber that does not
// keep up misses some.
type transientHub struct {
	mu          sync.Mutex
	subscribers map[chan tipstaff.Event]string // to which run
	// recent is, by run, what calls have published that are still under way: whoever
	// subscribes a moment after a run was started has missed none of it.
	recent map[string][]tipstaff.Event
}

// subscribe gives what is published of a run until stop, and what calls that are
// under way have published.
func (h *transientHub) subscribe(run string) (events <-chan tipstaff.Event, stop func()) {
	to := make(chan tipstaff.Event, transientBuffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscribers == nil {
		h.subscribers = map[chan tipstaff.Event]string{}
	}
	h.subscribers[to] = run
	for _, e := range h.recent[run] { // they fit: no more are kept
		to <- e
	}
	return to, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subscribers, to)
	}
}

// publish passes an event on, if it is transient: for one of a kind that belongs in
// journals, readers would wait for the record.
func (h *transientHub) publish(run string, d flow.Draft, at time.Time) {
	kind := tipstaff.Kind(d.Kind)
	if !kind.Transient() {
		return
	}
	e := tipstaff.Event{V: 1, Kind: kind, At: at.UTC(), Run: idOf(run), Path: d.Path, Body: d.Body}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.recent[run]) < transientBuffer {
		if h.recent == nil {
			h.recent = map[string][]tipstaff.Event{}
		}
		h.recent[run] = append(h.recent[run], e)
	}
	for to, follows := range h.subscribers {
		if follows != run {
			continue
		}
		select {
		case to <- e:
		default:
		}
	}
}

// appended takes note of a record: what a call has published is past when it has
// ended.
func (h *transientHub) appended(run string, d flow.Draft) {
	if !endsCalls(tipstaff.Kind(d.Kind)) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.recent[run], func(e tipstaff.Event) bool { return e.Path == d.Path || d.Path == "" })
	if len(left) == 0 {
		delete(h.recent, run)
		return
	}
	h.recent[run] = left
}

// forget drops what is kept of a run that is no longer driven here.
func (h *transientHub) forget(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.recent, run)
}

// subscription is a subscriber's side: events that are on their way, and those that
// were taken and not yet passed on. What a call publishes stands between the records
// of its beginning and of its end, for whoever reads them.
type subscription struct {
	events <-chan tipstaff.Event
	held   []heldEvent
}

type heldEvent struct {
	tipstaff.Event
	due bool // the records before it have been read
}

// reading: all records up to now are about to be read. What was published before
// came after its call's beginning was written, so that it is due when they have been.
func (s *subscription) reading() {
	for i := range s.held {
		s.held[i].due = true
	}
}

// read yields what is due, and reports whether the reader wants more.
func (s *subscription) read(yield func(tipstaff.Event, error) bool) bool {
	return s.pass(func(e *heldEvent) bool { return e.due }, yield)
}

// ended yields what the call at a path has published ("": what all have), whose end
// is read next.
func (s *subscription) ended(path string, yield func(tipstaff.Event, error) bool) bool {
	for range len(s.events) {
		s.held = append(s.held, heldEvent{Event: <-s.events})
	}
	return s.pass(func(e *heldEvent) bool { return path == "" || e.Path == path }, yield)
}

func (s *subscription) pass(which func(*heldEvent) bool, yield func(tipstaff.Event, error) bool) bool {
	held := s.held
	s.held = nil
	more := true
	for i := range held {
		switch e := &held[i]; {
		case !which(e):
			s.held = append(s.held, *e)
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

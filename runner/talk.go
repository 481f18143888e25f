package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// heldTalk is how much is kept for a listener that does not keep up.
const heldTalk = 256

// talk carries what drives of this process tell without recording it to those who
// follow their runs here. It never holds a drive up: a listener that does not keep
// up misses some.
type talk struct {
	mu   sync.Mutex
	ears map[string]map[chan tipstaff.Event]bool // by run
	// fresh is, by run, what calls have told that are still under way: whoever begins
	// to listen a moment after a run was started has missed none of it.
	fresh map[string][]tipstaff.Event
}

// listen hears what is told of a run until stop, and what was told by calls that
// are under way.
func (t *talk) listen(run string) (told <-chan tipstaff.Event, stop func()) {
	ear := make(chan tipstaff.Event, heldTalk)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ears == nil {
		t.ears = map[string]map[chan tipstaff.Event]bool{}
	}
	if t.ears[run] == nil {
		t.ears[run] = map[chan tipstaff.Event]bool{}
	}
	t.ears[run][ear] = true
	for _, e := range t.fresh[run] { // they fit: no more are kept
		ear <- e
	}
	return ear, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.ears[run], ear)
		if len(t.ears[run]) == 0 {
			delete(t.ears, run)
		}
	}
}

// tell passes on what may be told: of a kind that belongs in journals, readers
// would wait for the record.
func (t *talk) tell(run string, d flow.Draft, at time.Time) {
	kind := tipstaff.Kind(d.Kind)
	if !kind.Transient() {
		return
	}
	e := tipstaff.Event{V: 1, Kind: kind, At: at.UTC(), Run: idOf(run), Path: d.Path, Body: d.Body}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.fresh[run]) < heldTalk {
		if t.fresh == nil {
			t.fresh = map[string][]tipstaff.Event{}
		}
		t.fresh[run] = append(t.fresh[run], e)
	}
	for ear := range t.ears[run] {
		select {
		case ear <- e:
		default:
		}
	}
}

// appended takes note of a record: what a call has told is past when it has ended.
func (t *talk) appended(run string, d flow.Draft) {
	if !endsCalls(tipstaff.Kind(d.Kind)) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	left := slices.DeleteFunc(t.fresh[run], func(e tipstaff.Event) bool { return e.Path == d.Path || d.Path == "" })
	if len(left) == 0 {
		delete(t.fresh, run)
		return
	}
	t.fresh[run] = left
}

// over forgets a run that is no longer driven here.
func (t *talk) over(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.fresh, run)
}

// hearing is a listener's side of the talk: what is on its way, and what was taken
// and not yet passed on. What a call tells stands between the records of its
// beginning and of its end, for whoever reads them.
type hearing struct {
	told <-chan tipstaff.Event
	held []heldEvent
}

type heldEvent struct {
	tipstaff.Event
	due bool // the records before it have been read
}

// take holds what was told so far.
func (h *hearing) take() {
	for range len(h.told) {
		h.held = append(h.held, heldEvent{Event: <-h.told})
	}
}

// reading: all records up to now are about to be read. What was told before came
// after its call's beginning was written, so that it is due when they have been.
func (h *hearing) reading() {
	for i := range h.held {
		h.held[i].due = true
	}
}

// read yields what is due, and reports whether the reader wants more.
func (h *hearing) read(yield func(tipstaff.Event, error) bool) bool {
	return h.pass(func(e *heldEvent) bool { return e.due }, yield)
}

// ended yields what the call at a path has told ("": what all have), whose end is
// read next.
func (h *hearing) ended(path string, yield func(tipstaff.Event, error) bool) bool {
	h.take()
	return h.pass(func(e *heldEvent) bool { return path == "" || e.Path == path }, yield)
}

func (h *hearing) pass(which func(*heldEvent) bool, yield func(tipstaff.Event, error) bool) bool {
	held := h.held
	h.held = nil
	more := true
	for i := range held {
		switch e := &held[i]; {
		case !which(e):
			h.held = append(h.held, *e)
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

package flow

import (
	"encoding/json"
	"strings"
	"time"
)

// branch is one goroutine of a flow: the root, or a member of a group.
type branch struct {
	d      *drive
	scope  *scope
	parked bool // sticky: nothing more is answered or recorded in this drive
	silent bool // by Emit or Now, which cannot say so
	// busy is the method that is under way without the lock: nobody else may use its
	// Contexts meanwhile. "": none is.
	busy  string
	ended bool
}

// place counts what numbers itself at one path.
type place struct {
	emits, nows, sleeps, gos int
	branches                 map[string]bool // names taken, by all groups here
}

// fctx is a Context: a branch at a path.
type fctx struct {
	b     *branch
	path  string
	place *place
	bad   string // what is wrong with the path, found by At and told by the next method
}

func (c *fctx) Path() string { return c.path }

func (c *fctx) At(segment string) Context {
	next := &fctx{b: c.b, path: join(c.path, segment), bad: c.bad}
	if next.bad == "" {
		next.bad = pathFault(next.path, segment)
	}
	return next
}

func pathFault(path, segment string) string {
	if fault := segmentFault(segment); fault != "" {
		return fault
	}
	if reserved(segment) {
		return "the segment " + segment + " is reserved"
	}
	if len(path) > maxPath {
		return "a path has at most 1,024 bytes"
	}
	return ""
}

// The methods that may leave the lock.
const (
	methodDo    = "Do"
	methodWait  = "Wait"
	methodGo    = "Go"
	methodSleep = "Sleep"
)

// enter is the first thing every method does. Called with mu held.
func (c *fctx) enter() error {
	d := c.b.d
	switch {
	case d.ending == fatal:
		return d.failure
	case d.ending == down:
		c.b.parked = true
		return ErrParked
	case c.b.busy == methodGo:
		return d.failLocked(fatal, &Misuse{c.path, "a Context was used while its Go was under way: a branch uses the one that it is given"})
	case c.b.busy != "":
		return d.failLocked(fatal, &Misuse{c.path, "a Context was used while its " + c.b.busy + " was under way: what runs at the same time is a branch of Go"})
	case c.b.parked:
		return ErrParked
	case c.bad != "":
		return d.failLocked(fatal, &Misuse{c.path, c.bad})
	case c.b.ended:
		return d.failLocked(fatal, &Misuse{c.path, "a Context was used after its branch had ended"})
	}
	return nil
}

// keyed is the path of something with a key of its own.
func (c *fctx) keyed(key string) (string, error) {
	if key == "" {
		return c.path, nil
	}
	path := join(c.path, key)
	if fault := pathFault(path, key); fault != "" {
		return "", c.b.d.failLocked(fatal, &Misuse{path, fault})
	}
	return path, nil
}

func (c *fctx) counts() *place {
	if c.place == nil {
		d := c.b.d
		c.place = d.places[c.path]
		if c.place == nil {
			c.place = &place{}
			d.places[c.path] = c.place
		}
	}
	return c.place
}

// park answers ErrParked, from now on. A branch that has ended is not parked any more by
// what it has left running. Called with mu held.
func (c *fctx) park() error {
	if !c.b.ended {
		c.b.parked = true
	}
	return ErrParked
}

// cancelledNow answers ErrCancelled. It counts for a cancel of the run if that
// is known by now, whatever else has closed the scope.
func (c *fctx) cancelledNow() error {
	c.b.d.cancelled = c.b.d.cancelled || c.b.d.root.cancelled
	return ErrCancelled
}

// unrecorded decides about something that no record answers: nil means that it
// may be performed now. What was asked is told in words. Called with mu held.
func (c *fctx) unrecorded(path string, asked ...string) error {
	if c.b.scope.isClosed() {
		return c.cancelledNow()
	}
	return c.missing(path, asked...)
}

// missing is unrecorded without regard to closed scopes.
func (c *fctx) missing(path string, asked ...string) error {
	d := c.b.d
	switch {
	case d.mode == auditing:
		return d.failLocked(fatal, &NonDeterminism{Path: path, Asked: strings.Join(asked, " ")})
	case d.mode == replaying, d.ending != notEnding:
		return c.park()
	}
	return nil
}

// mismatch ends the drive because the program does not fit what is recorded.
func (c *fctx) mismatch(path, recorded, asked string, input json.RawMessage) error {
	return c.b.d.misfit(&NonDeterminism{Path: path, Recorded: recorded, Asked: asked, Input: input})
}

func (c *fctx) Now() time.Time {
	d := c.b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.enter() != nil {
		return d.past.latest
	}
	p := c.counts()
	p.nows++
	path := join(c.path, numbered("now", p.nows))
	if r := d.past.clocks[path]; r != nil {
		r.asked = true
		return r.t
	}
	if !c.mayRecord(path, "a reading of the clock", nil) {
		return d.past.latest
	}
	t := d.clock()
	d.put(Draft{Kind: KindClockRead, Path: path, Body: JSON(TimerFired{Time{t}})})
	return t
}

func (c *fctx) Emit(e Event) {
	d := c.b.d
	body := JSON(e.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.enter() != nil {
		return
	}
	p := c.counts()
	p.emits++
	if m := d.past.emits[emitKey{c.path, p.emits}]; m != nil {
		m.asked = true
		if sum := digest(e.Kind, body); m.digest != sum {
			c.mismatch(c.path, m.kind+" "+m.digest, e.Kind+" "+sum, body)
		}
		return
	}
	if !c.mayRecord(c.path, e.Kind, body) {
		return
	}
	d.put(Draft{Kind: e.Kind, Path: c.path, N: p.emits, Body: body, From: e.From})
}

// mayRecord tells whether Emit and Now can write. What they say follows from
// records, so they still do in a closed scope and while the drive ends in good
// order; a replay has nothing to write to.
func (c *fctx) mayRecord(path, asked string, body []byte) bool {
	d := c.b.d
	switch d.mode {
	case auditing:
		if body != nil {
			asked += " " + digest(asked, body)
		}
		d.failLocked(fatal, &NonDeterminism{Path: path, Asked: asked})
		return false
	case performing:
		if d.ending < parked {
			return true
		}
	}
	c.b.silent = c.park() != nil
	return false
}

package flow

import (
	"context"
	"strings"
	"time"
)

// Replay returns an engine that drives a flow on the records of h alone. It
// writes nothing and performs nothing. If the run ended completed or failed,
// whatever is not recorded does not fit (NonDeterminism); else it is the end of
// what is known, and the outcome is parked. A record that the flow owns and did
// not ask for does not fit either.
func Replay(h History) Engine { return &replayer{history: h} }

// Verify is Replay for a program that was frozen into its run, with all that decides
// about the classes of its calls: each call must have been recorded with the class that
// the program asks for. A resume takes the recorded one and Replay either, because the
// class is not part of what identifies a call.
func Verify(h History) Engine { return &replayer{history: h, classes: true} }

type replayer struct {
	history History
	classes bool // are compared
}

func (r *replayer) Drive(ctx context.Context, job Job) (Outcome, error) {
	e := &engine{now: time.Now, newID: newULID, newLock: newMutex}
	d := newDrive(e, job, Lease{})
	d.mode = replaying
	if r.history.Ended == Completed || r.history.Ended == Failed {
		d.mode = auditing
	}
	d.given = r.history
	if err := d.begin(r.history); err != nil {
		return Outcome{}, err
	}
	out := d.run()
	if out.Status != Interrupted {
		if left := d.unfit(r.classes); left != nil {
			out = Outcome{Status: Interrupted, Err: left, Reason: reasonOf(left), Replayed: out.Replayed}
		}
	}
	return out, nil
}

// unfit tells what was recorded and does not follow from the program; nil: all of it does.
func (d *drive) unfit(classes bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.unasked(); len(left) > 0 {
		e := d.leftBehind(left)
		e.tell(d.given)
		return e
	}
	if classes {
		return d.misclassed()
	}
	return nil
}

// misclassed finds the first call, in order of path, whose records are not those of
// the class that the flow asked for. What is once or reserves something is intended,
// unless it was refused before anything was sent. Called with mu held.
func (d *drive) misclassed() error {
	var found []NonDeterminism
	for path, c := range d.past.calls {
		recorded := ""
		switch refused := c.attempt == 1 && c.err != nil && c.err.NotSent; {
		case c.class != "" && c.class != c.as:
			recorded = " as " + string(c.class)
		case c.reclassed:
			recorded = " with several classes"
		case c.intends && c.class == "" && c.attempt > 0 && !refused:
			recorded = " without an intent"
		default:
			continue
		}
		found = append(found, NonDeterminism{Path: path, Recorded: c.name + recorded, Asked: c.name + " as " + string(c.as)})
	}
	return first(found)
}

// first is the one that comes first in order of path; nil if there is none.
func first(found []NonDeterminism) error {
	if len(found) == 0 {
		return nil
	}
	return &sortedBy(found, func(n NonDeterminism) string { return n.Path + "\x00" + n.Recorded })[0]
}

// insideCall reports whether a gate was opened by a Do: it goes with its call.
func (p *past) insideCall(key string) bool {
	c := p.calls[parent(key)]
	return c != nil && c.asked && reserved(key[strings.LastIndexByte(key, '/')+1:])
}

package tipstaff

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Life is what a run has been through, in short: what its life line draws. The fold keeps
// it in the run's row, so that a list has it without reading records.
type Life struct {
	DrivenMs      int64 `json:"driven_ms"` // in all drives
	Drives        int   `json:"drives"`
	Waits         int   `json:"waits,omitempty"`         // times it was parked
	Kills         int   `json:"kills,omitempty"`         // drives whose process was gone without a word
	Interruptions int   `json:"interruptions,omitempty"` // drives that were stopped
	Corrections   int   `json:"corrections,omitempty"`

	Segments []LifeSegment `json:"segments"` // the newest, oldest first

	From time.Time `json:"from,omitzero"` // when the last segment began, which goes on; zero: it has ended
}

// LifeSegment is a stretch of a run's life or, of kinds that have no length, a mark.
type LifeSegment struct {
	Kind  LifeKind `json:"kind"`
	Ms    int64    `json:"ms,omitempty"`
	Gates int      `json:"gates,omitempty"` // that it is parked for
}

// LifeKind says what a segment is. The list is closed.
type LifeKind string

const (
	LifeQueued      LifeKind = "queued" // for its turn
	LifeDriven      LifeKind = "driven"
	LifeParked      LifeKind = "parked"
	LifeKilled      LifeKind = "killed"      // and how long nobody took it up
	LifeInterrupted LifeKind = "interrupted" // likewise, by a signal or a fault
	LifeCorrected   LifeKind = "corrected"   // a mark
	LifeCompleted   LifeKind = "completed"   // a mark, like the other ends
	LifeFailed      LifeKind = "failed"
	LifeCancelled   LifeKind = "cancelled"
)

// lifeSegments is how many a life keeps.
const lifeSegments = 32

// apply takes in a record. last is the last record of the drive under way: when nobody saw
// its end, that is the last sign of life.
func (l *Life) apply(e *Event, last time.Time) {
	switch e.Kind {
	case KindRunQueued:
		l.begin(LifeQueued, e.At)
	case KindRunStarted, KindRunResumed:
		l.lose(last)
		l.begin(LifeDriven, e.At)
		l.Drives++
	case KindRunParked:
		l.begin(LifeParked, e.At)
		l.Segments[len(l.Segments)-1].Gates = len(BodyOf[RunParked](e).Gates)
		l.Waits++
	case KindRunInterrupted:
		switch {
		case e.Epoch == 0: // others say so: its owner was found dead
			l.lose(last)
		case l.driven():
			l.begin(LifeInterrupted, e.At)
			l.Interruptions++
		}
	case KindIntentCorrect:
		before, open := l.last(), !l.From.IsZero()
		l.end(LifeCorrected, e.At)
		l.Corrections++
		if open { // what was going on goes on
			l.begin(before.Kind, e.At)
		}
	case KindIntentAttest:
		l.end(LifeCompleted, e.At)
	case KindIntentFail:
		l.end(LifeFailed, e.At)
	case KindIntentCancel: // which anyone may have written, later
		if l.driven() {
			l.close(last)
		}
		l.end(LifeCancelled, e.At)
	}
}

func (l *Life) last() LifeSegment {
	if len(l.Segments) == 0 {
		return LifeSegment{}
	}
	return l.Segments[len(l.Segments)-1]
}

func (l *Life) driven() bool { return !l.From.IsZero() && l.last().Kind == LifeDriven }

// lose ends a drive of which nothing was heard after a moment.
func (l *Life) lose(last time.Time) {
	if l.driven() {
		l.begin(LifeKilled, last)
		l.Kills++
	}
}

// close ends the last segment.
func (l *Life) close(at time.Time) {
	if l.From.IsZero() {
		return
	}
	s := &l.Segments[len(l.Segments)-1]
	s.Ms = max(0, at.Sub(l.From).Milliseconds())
	if s.Kind == LifeDriven {
		l.DrivenMs = saturated(l.DrivenMs, s.Ms)
	}
	l.From = time.Time{}
}

// begin ends the last segment and begins another.
func (l *Life) begin(kind LifeKind, at time.Time) {
	l.close(at)
	if len(l.Segments) == lifeSegments {
		l.Segments = slices.Delete(l.Segments, 0, 1)
	}
	l.Segments, l.From = append(l.Segments, LifeSegment{Kind: kind}), at
}

// end ends the last segment with a mark.
func (l *Life) end(kind LifeKind, at time.Time) {
	l.begin(kind, at)
	l.From = time.Time{}
}

// life is the one of a run at a moment. What goes on while the run rests stays open: a run
// to which nothing happens is the same whenever somebody looks. Nobody may have recorded yet
// that its owner is gone.
func (f *Fold) life(c Condition, now time.Time) *Life {
	l := f.Life
	l.Segments = slices.Clone(l.Segments)
	switch c {
	case Interrupted:
		if len(l.Segments) == 0 { // its process was gone before it could take the run
			l.begin(LifeDriven, f.At)
		}
		l.lose(cmp.Or(f.DriveTo, f.At))
	case Running:
		l.close(now)
	}
	return &l
}

// Until is a life whose last segment has lasted until now.
func (l Life) Until(now time.Time) Life {
	l.Segments = slices.Clone(l.Segments)
	l.close(now)
	return l
}

// String is what the life line says to who cannot see it: "driven 4 minutes in 3 drives,
// waited twice, killed once, completed".
func (l Life) String() string {
	text := "never driven"
	if l.Drives > 0 {
		text = fmt.Sprintf("driven %s in %s", DurationWords(time.Duration(l.DrivenMs)*time.Millisecond), Plural(l.Drives, "drive"))
	}
	for _, c := range []struct {
		word string
		n    int
	}{{"waited", l.Waits}, {"killed", l.Kills}, {"interrupted", l.Interruptions}, {"corrected", l.Corrections}} {
		if c.n > 0 {
			text += ", " + c.word + " " + times(c.n)
		}
	}
	return Joined(", ", text, string(l.ended()))
}

// ended is how the run ended; "": it has not.
func (l *Life) ended() LifeKind {
	switch k := l.last().Kind; k {
	case LifeCompleted, LifeFailed, LifeCancelled:
		return k
	}
	return ""
}

// times is how often, in words.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// DurationWords is how long something took, in the largest unit of which it was at least
// one, and words.
func DurationWords(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d >= u.unit {
			return Plural(int(d/u.unit), u.name)
		}
	}
	return Plural(int(max(0, d).Milliseconds()), "millisecond")
}

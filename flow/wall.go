package flow

import (
	"encoding/json"
	"time"
)

// Wall is how long the drives of h took, with those of a fork's base or, where
// its run.forked says so, of all its source.
func Wall(h History) time.Duration {
	w := wallFold{}
	for _, r := range h.Base {
		w.add(r)
	}
	for _, r := range h.Records {
		w.add(r)
	}
	return w.total()
}

// wallFold sums the time that drives took: from a drive's first record to its
// park or its last record. What others write while nobody drives is not in it.
type wallFold struct {
	sum         time.Duration
	start, last time.Time
}

func (w *wallFold) add(r Record) {
	switch r.Kind {
	case KindRunStarted, KindRunResumed:
		w.end()
		w.start, w.last = r.At, r.At
	case KindRunParked, KindRunContinued, KindRunForked:
		w.end()         // which holds where no sum is given
		var b RunParked // of the other two it is the same member
		if json.Unmarshal(r.Body, &b) == nil && b.WallMs != nil {
			w.sum = ms(*b.WallMs)
		}
		if r.Kind == KindRunContinued {
			w.start, w.last = r.At, r.At // the drive goes on
		}
	default:
		if r.Epoch > 0 && !w.start.IsZero() {
			w.last = r.At
		}
	}
}

func (w *wallFold) end() {
	if !w.start.IsZero() && w.last.After(w.start) {
		w.sum += w.last.Sub(w.start)
	}
	w.start = time.Time{}
}

func (w *wallFold) total() time.Duration {
	w.end()
	return w.sum
}

package flow

import (
	"encoding/json"
	"math"
	"time"
)

// Wall is how long the drives of h took, with those of a fork's base or, where
// its run.forked says so, of all its source.
func Wall(h History) time.Duration {
	var t DriveTime
	for _, records := range [][]Record{h.Base, h.Records} {
		for _, r := range records {
			t.Apply(r.Kind, r.Epoch, r.At, r.Body)
		}
	}
	t.End(t.DriveTo)
	return ms(t.WallMs) + time.Duration(t.WallNs)
}

// DriveTime sums the time that drives took: from a drive's first record to its
// park or its last record. What others write while nobody drives is not in it.
// Taken as JSON it can be continued at any record.
type DriveTime struct {
	WallMs    int64     `json:"wall_ms,omitempty"`   // of ended drives
	WallNs    int64     `json:"wall_ns,omitempty"`   // and their part of a millisecond
	DriveFrom time.Time `json:"drive_from,omitzero"` // of the present drive; zero: there is none
	DriveTo   time.Time `json:"drive_to,omitzero"`   // its last record
}

// Apply adds one record.
func (t *DriveTime) Apply(kind string, epoch int64, at time.Time, body json.RawMessage) {
	// A new owner's first record does not lengthen the drive of the one before.
	if epoch > 0 && !t.DriveFrom.IsZero() && kind != KindRunStarted && kind != KindRunResumed {
		t.DriveTo = at
	}
	switch kind {
	case KindRunInterrupted:
		t.End(t.DriveTo)
	case KindRunStarted, KindRunResumed:
		t.End(t.DriveTo) // of an owner that was lost without a word
		t.DriveFrom, t.DriveTo = at, at
	case KindRunParked, KindRunContinued, KindRunForked:
		t.End(t.DriveTo) // which holds where no sum is given
		var b RunParked  // of the other two it is the same member
		if json.Unmarshal(body, &b) == nil && b.WallMs != nil && *b.WallMs >= 0 {
			t.WallMs, t.WallNs = *b.WallMs, 0
		}
		if kind == KindRunContinued {
			t.DriveFrom, t.DriveTo = at, at // the drive goes on
		}
	}
}

// End ends the present drive, if there is one, at a moment.
func (t *DriveTime) End(at time.Time) {
	if took := at.Sub(t.DriveFrom); !t.DriveFrom.IsZero() && took > 0 {
		took += time.Duration(t.WallNs)
		t.WallMs += min(took.Milliseconds(), math.MaxInt64-t.WallMs)
		t.WallNs = int64(took % time.Millisecond)
	}
	t.DriveFrom, t.DriveTo = time.Time{}, time.Time{}
}

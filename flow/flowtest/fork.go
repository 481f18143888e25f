package flowtest

import (
	"context"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// base is what a fork inherits: the records of its source's segment, and how
// many segments came before it there.
type base struct {
	records journal
	segment int
}

// log is what drives of this run go over: of a fork, with its base.
func (r *rig) log() flow.Log {
	if r.base == nil {
		return r.bed.Log()
	}
	return forked{r.bed.Log(), r.base}
}

// forked is a log whose runs begin with the records of another.
type forked struct {
	flow.Log
	base *base
}

func (f forked) Load(ctx context.Context, run string) (flow.History, error) {
	h, err := f.Log.Load(ctx, run)
	if h.Segment == 0 {
		h.Base = f.base.records
	}
	h.Segment += f.base.segment
	return h, err
}

// fork is a new run of the same program that inherits this one's present segment
// up to record n (0: its head), with counters and wall as its run.forked has
// them; without them (nil, 0) there is none.
func (r *rig) fork(t tb, n int64, counters flow.Use, wall time.Duration) *rig {
	t.Helper()
	next := newRun(t, r.bed, r.job.Flow)
	next.job.Limits, next.job.Holds = r.job.Limits, r.job.Holds
	h := r.history()
	own := journal(h.Records)
	if n > 0 {
		own = own.where(func(rec flow.Record) bool { return rec.Seq <= n })
	}
	next.base = &base{records: append(append(journal{}, h.Base...), own...), segment: h.Segment}
	if counters == nil {
		return next
	}
	body := map[string]any{"from_run": r.run, "seq": n, "counters": counters, "held": flow.Totals(h, r.job.Limits).Held, "by": "local:cli"}
	if wall > 0 {
		body["wall_ms"] = wall.Milliseconds()
	}
	next.write("run.forked", body)
	return next
}

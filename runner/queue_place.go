package runner

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// A run that waits for its turn says so in the store, with the daemon that has it wait. So
// every process can tell where it stands, and that nothing is to be waited for when that
// daemon is gone.

// queued is where a run stands that waits for its turn; nil: it does not, or its daemon
// is gone.
func (r *Runner) queued(ctx context.Context, row flow.Row, fold *tipstaff.Fold) (*tipstaff.Queued, error) {
	q := &tipstaff.Queued{Place: r.queue.place(row.ID), Since: fold.At}
	if fold.Queue != nil {
		q.Since = fold.Queue.At
	}
	if q.Place > 0 || fold.Queue != nil {
		q.Lacks = r.Untrusted()
	}
	if q.Place > 0 || fold.Queue == nil {
		return standingAt(q), nil
	}
	places, err := r.queues.at(ctx, r)
	q.Place = places[row.ID]
	if r.pooled() {
		q.Lacks = cmp.Or(q.Lacks, r.declines(row.ID))
	}
	if r.Pool != nil { // else a server has taken it meanwhile, and is about to drive it
		q.Place = max(q.Place, 1)
	}
	return standingAt(q), err
}

// standingAt is nil for what has no place.
func standingAt(q *tipstaff.Queued) *tipstaff.Queued {
	if q.Place == 0 {
		return nil
	}
	return q
}

// queueView is where all runs stand, as it was a moment ago: a list of many asks for each.
type queueView struct {
	mu     sync.Mutex
	until  time.Time
	places map[string]int // by run, from 1
}

// freshFor is how long one look at the queue serves.
const freshFor = 50 * time.Millisecond

func (v *queueView) at(ctx context.Context, r *Runner) (map[string]int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); v.places == nil || now.After(v.until) {
		places, err := r.lookAtQueue(ctx)
		if err != nil {
			return nil, err
		}
		v.places, v.until = places, now.Add(freshFor)
	}
	return v.places, nil
}

// standing is a run in its line.
type standing struct {
	run string
	at  time.Time
}

// lookAtQueue finds the places of all runs whose daemon lives, by what is recorded of them.
// Lines are served in turn: before the third of a line stand two of its own and at most
// two of each other.
func (r *Runner) lookAtQueue(ctx context.Context) (map[string]int, error) {
	rows, err := r.Store.Runs(ctx, flow.Query{Queued: true})
	if err != nil || len(rows) == 0 {
		return map[string]int{}, err
	}
	leased, err := r.Store.Runs(ctx, flow.Query{Leased: true})
	if err != nil {
		return nil, err
	}
	lines, lives := map[string][]standing{}, map[flow.Owner]bool{}
	for _, row := range rows {
		fold, _, err := r.foldAt(ctx, row)
		if err != nil {
			return nil, err
		}
		if fold.Queue == nil || tipstaff.State(row.State).Terminal() {
			continue
		}
		q, d := fold.Queue, fold.Queue.Daemon
		daemon := flow.Owner{Host: q.Host, Boot: d.Boot, PidNS: d.PidNS, Pid: d.Pid, Start: d.Start}
		alive, asked := lives[daemon]
		if !asked {
			alive = d.Pid == 0 && r.Pool != nil || d.Pid != 0 && r.Alive(daemon, lastBeat(leased, daemon, q.At), r.Now())
			lives[daemon] = alive
		}
		if alive {
			lines[q.Principal] = append(lines[q.Principal], standing{row.ID, q.At})
		}
	}
	places := map[string]int{}
	for principal, line := range lines {
		slices.SortFunc(line, func(a, b standing) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.run, b.run)) })
		for i, s := range line {
			places[s.run] = i + 1
			for other, theirs := range lines {
				if other != principal {
					places[s.run] += min(i, len(theirs))
				}
			}
		}
	}
	return places, nil
}

// lastBeat is when a daemon last gave a sign of life, of which its leases tell: what waits
// does so because others are driven.
func lastBeat(leased []flow.Row, daemon flow.Owner, queuedAt time.Time) time.Time {
	last := queuedAt
	for _, row := range leased {
		o := *row.Owner
		o.Kind, o.Launch = "", ""
		if o == daemon && row.Heartbeat.After(last) {
			last = row.Heartbeat
		}
	}
	return last
}

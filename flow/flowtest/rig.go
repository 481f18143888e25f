package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// patience is how long a drive may take before it counts as hanging. No test
// waits this long unless it fails.
const patience = 30 * time.Second

// tb is what a test and a property have in common.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// rig is one run with everything around it.
type rig struct {
	t     tb
	bed   Bed
	world *World
	clock *Clock
	run   string
	job   flow.Job     // what each drive starts from
	base  *base        // of a fork: what it inherits
	opts  flow.Options // what each engine is made with

	beside *flow.Beside // what the end of the run brings to another; nil: nothing

	recall func(context.Context, flow.Attempt) (flow.Done, error) // that of every activity; nil: none has one

	reclassed bool // the program asks with other classes than when it was recorded

	// answer decides an open gate; it may leave it open.
	answer func(gate) (flow.Decision, bool)

	bell bell // rings when the journal grows or the program sees something

	mu   sync.Mutex
	seen map[string]string // what the program saw in the current drive, by place
}

func newRig(t *testing.T, open opener, f flow.Func) *rig {
	t.Helper()
	return newRun(t, open(t), f)
}

// newRun is another run in the same bed.
func newRun(t tb, bed Bed, f flow.Func) *rig {
	t.Helper()
	run, err := bed.NewRun()
	if err != nil {
		t.Fatalf("creating a run: %v", err)
	}
	r := &rig{t: t, bed: bed, world: NewWorld(), clock: &Clock{}, run: run, seen: map[string]string{}}
	r.job = flow.Job{Run: run, Root: "root", Owner: bed.Owner(), Flow: f, Input: json.RawMessage(`{}`)}
	r.opts.Now = r.clock.Now
	r.answer = r.sensibly
	return r
}

// see notes what the program was told at a place, to be compared with what a
// replay is told there.
func (r *rig) see(place string, what ...any) {
	defer r.bell.ring()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[place] += fmt.Sprintln(what...)
}

// forget drops what the program saw in an earlier segment of the same drive: a
// replay has the records of one segment alone.
func (r *rig) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = map[string]string{}
}

func (r *rig) sights() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen)
}

// journal are the run's records.
func (r *rig) journal() journal {
	records, err := r.bed.Records(r.run)
	if err != nil {
		r.t.Fatalf("reading the records: %v", err)
	}
	return records
}

// history is what a drive would load.
func (r *rig) history() flow.History {
	r.t.Helper()
	h, err := r.log().Load(context.Background(), r.run)
	if err != nil {
		r.t.Fatalf("loading: %v", err)
	}
	h.Holds = r.job.Holds
	return h
}

// answerAll decides the open gates and tells how many it decided.
func (r *rig) answerAll() int {
	r.t.Helper()
	n := 0
	for _, g := range r.journal().open() {
		if d, ok := r.answer(g); ok {
			r.decide(g.Gate, d)
			n++
		}
	}
	return n
}

func (r *rig) decide(id string, d flow.Decision) {
	r.t.Helper()
	if err := r.bed.Decide(r.run, id, d); err != nil {
		r.t.Fatalf("deciding gate %s: %v%v", id, err, r.journal())
	}
}

// decideKey decides the gate at this path.
func (r *rig) decideKey(key string, d flow.Decision) {
	r.t.Helper()
	g, ok := r.journal().gate(key)
	if !ok {
		r.t.Fatalf("no gate %s%v", key, r.journal())
	}
	r.decide(g.Gate, d)
}

// sensibly answers as a careful person would: who is asked about a call in doubt
// goes and looks whether it was done.
func (r *rig) sensibly(g gate) (flow.Decision, bool) {
	d := flow.Decision{Action: g.Actions[0], By: "local:cli", Via: "command"}
	if g.GateKind == "in_doubt" {
		d.Action = "retry"
		if v := r.world.Value(g.asker()); v != nil {
			d.Action, d.Answer = "use_result", v
		}
	}
	return d, true
}

// write appends a foreign record.
func (r *rig) write(kind string, body any) {
	r.t.Helper()
	if err := r.bed.Write(r.run, flow.Draft{Kind: kind, Body: flow.JSON(body)}); err != nil {
		r.t.Fatalf("writing %s: %v", kind, err)
	}
}

// cancel asks for the end of the run; once calls are awaited that long.
func (r *rig) cancel(grace time.Duration) {
	r.t.Helper()
	r.write("run.cancel_requested", map[string]any{
		"actor": "local:cli", "mode": "graceful", "reason": "test",
		"deadline": r.clock.Now().Add(grace).Format(time.RFC3339Nano),
	})
}

// until waits for the journal, or what the program saw, to be as asked.
func (r *rig) until(what string, ok func(journal) bool) {
	r.t.Helper()
	if !r.came(ok) {
		r.t.Fatalf("never came: %s%v\n%s", what, r.journal(), stacks())
	}
}

// came is until for activities, which must not end the test.
func (r *rig) came(ok func(journal) bool) bool {
	late := time.After(patience)
	for {
		changed := r.bell.next()
		if records, err := r.bed.Records(r.run); err == nil && ok(records) {
			return true
		}
		select {
		case <-changed:
		case <-late:
			return false
		}
	}
}

// await waits for effects.
func (r *rig) await(n int, paths ...string) {
	r.t.Helper()
	if !r.world.Await(n, paths...) {
		r.t.Fatalf("of %d effects at %.80v only some happened%v\n%s", n, paths, r.journal(), stacks())
	}
}

func (r *rig) untilKind(kind, path string) {
	r.t.Helper()
	r.until(kind+" at "+path, func(j journal) bool { return len(j.of(kind).at(path)) > 0 })
}

// coded is the code of a recorded failure, "parked", "cancelled", or "ok".
func coded(err error) string {
	var e *flow.Error
	switch {
	case err == nil:
		return "ok"
	case flow.Parked(err):
		return "parked"
	case errors.Is(err, flow.ErrCancelled):
		return "cancelled"
	case errors.As(err, &e):
		return e.Code
	}
	return err.Error()
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

func clipped(j journal) journal { return j[max(0, len(j)-60):] }

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
	opts  flow.Options // what each engine is made with

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
	h, err := r.bed.Log().Load(context.Background(), r.run)
	if err != nil {
		r.t.Fatalf("loading: %v", err)
	}
	return h
}

// drive is one drive, in a process that may die.
type drive struct {
	r    *rig
	stop context.CancelCauseFunc
	done chan struct{}
	out  flow.Outcome
	err  error
}

// start begins a drive in a process of its own, over log.
func (r *rig) start(log flow.Log) *drive {
	opts := r.opts
	engine := r.bed.Engine(belled{log, &r.bell}, &opts)
	f, ok := log.(*Faulty)
	if !ok {
		return r.begin(engine, r.world.Activity(nil))
	}
	d := r.begin(engine, r.world.Activity(f.Dead()))
	// A dead process does nothing more: what is left of it here must not linger.
	go func() {
		select {
		case <-f.Dead():
			d.stop(ErrKilled)
		case <-d.done:
		}
	}()
	return d
}

func (r *rig) begin(engine flow.Engine, act flow.Activity) *drive {
	r.forget()
	job := r.job
	job.Acts = map[string]flow.Activity{"work": act, "other": act}
	job.Finish = r.finish
	ctx, stop := context.WithCancelCause(context.Background())
	d := &drive{r: r, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.out, d.err = engine.Drive(ctx, job)
	}()
	return d
}

// wait returns the outcome; a drive that could not be driven fails the test.
func (d *drive) wait() flow.Outcome {
	d.r.t.Helper()
	if err := d.settle(); err != nil {
		d.r.t.Fatalf("the run could not be driven: %v%v", err, d.r.journal())
	}
	return d.out
}

// settle waits for a drive whose process may be dead.
func (d *drive) settle() error {
	d.r.t.Helper()
	select {
	case <-d.done:
	case <-time.After(patience):
		d.r.t.Fatalf("the drive hangs%v\n%s", d.r.journal(), stacks())
	}
	d.stop(nil)
	return d.err
}

// drive drives once over the log itself.
func (r *rig) drive() flow.Outcome {
	r.t.Helper()
	return r.start(r.bed.Log()).wait()
}

// want drives once and checks how it ended.
func (r *rig) want(s flow.Status) flow.Outcome {
	r.t.Helper()
	out := r.drive()
	r.check(out, s)
	return out
}

func (r *rig) check(out flow.Outcome, s flow.Status) {
	r.t.Helper()
	if out.Status != s {
		r.t.Fatalf("the drive ended %s (%s, %v), want %s%v", out.Status, out.Reason, out.Err, s, r.journal())
	}
}

// crash drives in a process that dies as the faulty log was told, and recovers.
func (r *rig) crash(f *Faulty) {
	r.t.Helper()
	d := r.start(f)
	_ = d.settle() // a dead process reports nothing
	r.reopen()
}

func (r *rig) reopen() {
	r.t.Helper()
	if err := r.bed.Reopen(); err != nil {
		r.t.Fatalf("reopening: %v", err)
	}
}

// toEnd drives, answers gates and lets time pass until the run is over.
func (r *rig) toEnd() flow.Outcome {
	r.t.Helper()
	for range 200 {
		out := r.drive()
		if out.Terminal() {
			return out
		}
		r.check(out, flow.ParkedRun)
		if r.answerAll() == 0 {
			if out.WakeAt.IsZero() {
				r.t.Fatalf("parked with nothing to wait for%v", r.journal())
			}
			r.clock.StepTo(out.WakeAt)
		}
	}
	r.t.Fatalf("the run does not end%v", clipped(r.journal()))
	return flow.Outcome{}
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

// finish writes what a runner writes when a run ends.
func (r *rig) finish(out flow.Outcome) []flow.Draft {
	var drafts []flow.Draft
	records, _ := r.bed.Records(r.run)
	for _, g := range journal(records).open() {
		drafts = append(drafts, flow.Draft{Kind: "policy.gate.resolve", Path: g.Key, From: "executor", Body: flow.JSON(map[string]any{
			"gate": g.Gate, "action": g.Deny, "subject_digest": g.Digest, "via": "run_ended", "on_behalf_of": "system:run_ended",
		})})
	}
	evidence := map[string]any{
		"program_digest": flow.Digest(nil), "revision": 1, "counts": map[string]int{}, "skipped": []string{}, "continued": []string{},
		"in_doubt": append([]string{}, out.InDoubt...), "tools": []string{}, "lifecycle": []string{},
		"bounds": map[string]any{"used": some(out.Used), "limit": some(out.Limit)},
	}
	body := map[string]any{"cited": []string{}, "evidence": evidence}
	end := flow.Draft{From: "executor"}
	switch out.Status {
	case flow.Completed:
		end.Kind = "intent.attest"
		body["outcome"], body["outputs_digest"] = "success", flow.Digest(out.Value)
	case flow.Failed:
		end.Kind = "intent.fail"
		body["reason"], body["message"] = "internal", out.Err.Error()
	case flow.Cancelled:
		end.Kind = "intent.cancel"
		body["reason"], body["via"], body["on_behalf_of"] = "test", "command", "local:cli"
	}
	end.Body = flow.JSON(body)
	return append(drafts, end)
}

func some(u flow.Use) flow.Use {
	if u == nil {
		return flow.Use{}
	}
	return u
}

// replay drives the program on the records alone. Nothing may be performed.
func (r *rig) replay(h flow.History) flow.Outcome {
	r.t.Helper()
	forbidden := flow.Activity{Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		return flow.Done{}, fmt.Errorf("replay performed %s", a.Path)
	}}
	return r.begin(flow.Replay(h), forbidden).wait()
}

// agree checks that a replay of the ended run takes the same way as its last
// drive, and that the journal keeps the engine's rules.
func (r *rig) agree(live flow.Outcome) {
	r.t.Helper()
	seen := r.sights()
	again := r.replay(r.history())
	if got, want := describe(again), describe(live); got != want {
		r.t.Fatalf("replay ended %s, the run %s%v", got, want, r.journal())
	}
	if now := r.sights(); !maps.Equal(seen, now) {
		r.t.Fatalf("replay saw other things than the drive:\n%s%v", difference(seen, now), r.journal())
	}
	r.audit()
}

// describe is all of an outcome that a replay must reproduce.
func describe(out flow.Outcome) string {
	s := string(out.Status) + " " + string(out.Value)
	if out.Err != nil {
		s += " " + out.Err.Error()
	}
	return s
}

func difference(want, got map[string]string) string {
	var b strings.Builder
	places := slices.Sorted(maps.Keys(want))
	for k := range got {
		if _, ok := want[k]; !ok {
			places = append(places, k)
		}
	}
	for _, k := range places {
		if want[k] != got[k] {
			fmt.Fprintf(&b, "\t%s: live %q, replayed %q\n", k, want[k], got[k])
		}
	}
	return b.String()
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

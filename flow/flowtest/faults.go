package flowtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// faults: a store that fails.
func faults(t *testing.T, open opener) {
	t.Run("a full store starts no effect and loses nothing", func(t *testing.T) { full(t, open) })
	t.Run("a store that is down at any write is resumed from", func(t *testing.T) { down(t, open) })
	t.Run("one failed append leaves no hole", func(t *testing.T) { noHole(t, open) })
	t.Run("a fenced owner stops and stores nothing more", func(t *testing.T) { fenced(t, open) })
	t.Run("a failing append leaves other runs alone", func(t *testing.T) { neighbours(t, open) })
	t.Run("an effect is visible when its call returns", func(t *testing.T) { visible(t, open) })
	t.Run("once waits for its intent and others do not", func(t *testing.T) { waitsForIntent(t, open) })
	t.Run("an ended run is not driven", func(t *testing.T) { endedRun(t, open) })
}

// failingFrom fails every write from the n-th on; the flag tells whether any was.
func failingFrom(r *rig, n int, fault Fault) (*Faulty, *atomic.Bool) {
	f, failed := NewFaulty(r.bed.Log()), &atomic.Bool{}
	f.Before = func(w Write) Fault {
		if w.N < n {
			return Pass
		}
		failed.Store(true)
		return fault
	}
	return f, failed
}

func full(t *testing.T, open opener) {
	bed := open(t)
	calls := []flow.Call{call(flow.Once, "a", 1), call(flow.Once, "b", 2), reserving(flow.Read, "c", "tool_calls"), call(flow.Once, "d", 4)}
	for at := 2; ; at++ { // the first write is the run's beginning
		r := newRun(t, bed, inOrder(calls...))
		f, failed := failingFrom(r, at, Full)
		out := r.start(f).wait()
		if !failed.Load() {
			r.check(out, flow.Completed)
			return
		}
		r.check(out, flow.Interrupted)
		if !errors.Is(out.Err, flow.ErrStoreFull) {
			t.Errorf("write %d: interrupted by %v, want the full store", at, out.Err)
		}
		if fault := r.overdone(r.journal()); fault != "" {
			t.Fatalf("write %d: %s%v", at, fault, r.journal())
		}
		r.reopen()
		out = r.toEnd()
		r.check(out, flow.Completed)
		for _, c := range calls {
			n, most := r.world.Count("root/"+c.Key), 1
			if c.Class != flow.Once {
				most = 2
			}
			if n < 1 || n > most {
				t.Fatalf("write %d: %s happened %d times%v", at, c.Key, n, r.journal())
			}
		}
		r.agree(out)
	}
}

func down(t *testing.T, open opener) {
	bed := open(t)
	var logs []*Faulty
	for at := 2; ; at++ {
		r := newEverything(t, bed)
		f, failed := failingFrom(r, at, Down)
		logs = append(logs, f)
		out := r.start(f).wait()
		f.Seal()
		if !failed.Load() {
			r.check(out, flow.ParkedRun)
			break
		}
		r.check(out, flow.Interrupted)
		r.reopen()
		r.endsAlike(r.toEnd(), nil, 1)
	}
	for _, f := range logs {
		if late := f.Late(); len(late) > 0 {
			t.Errorf("a drive that has returned wants to store %+v", late)
		}
	}
}

// noHole fails one write and no other, while the next is already on its way.
// What was refused must not be followed by what came after it.
func noHole(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		now := fc.Now()
		if len(r.journal().of("run.resumed")) == 0 {
			<-time.After(15 * time.Millisecond) // the reading is written by itself meanwhile
		}
		return do(fc, call(flow.Once, "a", now.UnixNano()))
	}))
	f := NewFaulty(r.bed.Log())
	f.Before = func(w Write) Fault {
		if !w.Has("clock.read") {
			return Pass
		}
		// Wait for the next write, or for a drive that keeps one at a time.
		for end := time.Now().Add(100 * time.Millisecond); len(f.Pending(r.run)) == 0 && time.Now().Before(end); runtime.Gosched() {
		}
		return Full
	}
	r.check(r.start(f).wait(), flow.Interrupted)
	r.reopen()
	out := r.toEnd()
	r.check(out, flow.Completed)
	r.agree(out)
}

func fenced(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1), call(flow.Once, "b", 1)))
	f := NewFaulty(r.bed.Log())
	var refused bool
	f.Before = func(w Write) Fault {
		if refused || w.HasAt("effect.intended", "root/b") {
			refused = true
			return Fenced
		}
		return Pass
	}
	out := r.start(f).wait()
	r.check(out, flow.Interrupted)
	if !errors.Is(out.Err, flow.ErrLeaseLost) || r.world.Count("root/b") != 0 {
		t.Fatalf("interrupted by %v, want a lost lease%v", out.Err, r.journal())
	}
	r.reopen()
	r.agree(r.want(flow.Completed))
}

func neighbours(t *testing.T, open opener) {
	bed := open(t)
	f := NewFaulty(bed.Log())
	n := times(200)
	rigs := make([]*rig, n)
	for i := range rigs {
		rigs[i] = newRun(t, bed, inOrder(call(flow.Once, "a", i), call(flow.Read, "b", i)))
	}
	bad := rigs[n/2]
	f.Before = func(w Write) Fault {
		if w.Run == bad.run && w.Has("effect.finished") {
			return Down
		}
		return Pass
	}
	var wg sync.WaitGroup
	outs := make([]flow.Outcome, n)
	errs := make([]error, n)
	for i, r := range rigs {
		d := r.start(f)
		wg.Go(func() {
			<-d.done
			outs[i], errs[i] = d.out, d.err
		})
	}
	wg.Wait()
	for i, r := range rigs {
		want := flow.Completed
		if r == bad {
			want = flow.Interrupted
		}
		if errs[i] != nil || outs[i].Status != want {
			t.Fatalf("run %d of %d ended %s, %v, %v, want %s", i, n, outs[i].Status, outs[i].Err, errs[i], want)
		}
		if r != bad {
			r.audit()
		}
	}
}

func visible(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		for k, class := range []flow.Class{flow.Read, flow.Idempotent, flow.Once} {
			key := fmt.Sprint("c", k)
			if err := do(fc, call(class, key, k)); err != nil {
				return err
			}
			if _, ok := r.journal().finished("root/" + key); !ok {
				return fmt.Errorf("%s is acknowledged and not visible", key)
			}
		}
		return nil
	}))
	r.agree(r.want(flow.Completed))
}

func waitsForIntent(t *testing.T, open opener) {
	bed := open(t)
	for _, class := range []flow.Class{flow.Read, flow.Once} {
		t.Run(string(class), func(t *testing.T) {
			r := newRun(t, bed, inOrder(reserving(class, "a", "tool_calls")))
			f := NewFaulty(r.bed.Log())
			f.After = func(w Write) {
				if w.Op == "acquire" {
					f.Hold()
				}
			}
			durable := false
			r.world.On("root/a", Act{Before: func(context.Context, flow.Attempt) {
				durable = len(r.journal().of("effect.intended").at("root/a")) > 0
				f.Release()
			}})
			d := r.start(f)
			if class == flow.Once {
				r.untilPending(f, "root/a")
				f.Release() // a read needs nobody to release it
			}
			out := d.wait()
			r.check(out, flow.Completed)
			if durable != (class == flow.Once) {
				t.Errorf("when the effect came its intent was durable: %v%v", durable, r.journal())
			}
			r.agree(out)
		})
	}
}

// untilPending waits until the intent of a call is queued and not stored.
func (r *rig) untilPending(f *Faulty, path string) {
	r.t.Helper()
	r.until("an intent for "+path+" in the queue", func(journal) bool {
		return slices.ContainsFunc(f.Pending(r.run), func(w Write) bool { return w.HasAt("effect.intended", path) })
	})
}

func endedRun(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	r.want(flow.Completed)
	before := len(r.journal())
	if err := r.start(r.bed.Log()).settle(); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("driving an ended run: %v, want ErrEnded", err)
	}
	if n := len(r.journal()); n != before || r.world.Count("root/a") != 1 {
		t.Errorf("an ended run was driven%v", r.journal())
	}
}

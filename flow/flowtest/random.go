package flowtest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"pgregory.net/rapid"
)

// random: programs nobody thought of, crashed at places nobody chose.
func random(t *testing.T, open opener) {
	t.Run("a disturbed program ends like an undisturbed one", func(t *testing.T) {
		bed := open(t)
		rapid.Check(t, func(t *rapid.T) { disturbed(t, bed) })
	})
	t.Run("a failing program replays as it was driven", func(t *testing.T) {
		bed := open(t)
		rapid.Check(t, func(t *rapid.T) { failingProgram(t, bed) })
	})
}

// trouble is what happens to one drive, by the number of a write or a call; 0 is
// never.
type trouble struct {
	Kill   int // the process dies at this write,
	After  bool
	Call   int // or in this call
	Decide int // all open gates are decided
	Stop   int // the process is told to stop
	Cancel int // the run is cancelled
}

func drawTrouble(t *rapid.T, cancels bool) []trouble {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) trouble {
		point := rapid.IntRange(0, 14)
		tr := trouble{
			Kill: point.Draw(t, "kill"), After: rapid.Bool().Draw(t, "after"), Call: rapid.IntRange(0, 6).Draw(t, "call"),
			Decide: point.Draw(t, "decide"), Stop: rapid.IntRange(0, 40).Draw(t, "stop"),
		}
		if cancels {
			tr.Cancel = rapid.IntRange(0, 60).Draw(t, "cancel")
		}
		return tr
	}), 0, 5).Draw(t, "trouble")
}

// befall starts a drive to which this trouble happens.
func (r *rig) befall(tr trouble) (*Faulty, *drive) {
	f := NewFaulty(r.bed.Log())
	stop := make(chan struct{})
	f.Before = func(w Write) Fault {
		if w.N == tr.Decide {
			for _, g := range r.journal().open() {
				d, _ := r.sensibly(g)
				_ = r.bed.Decide(r.run, g.Gate, d) // it may be closed by now
			}
		}
		if w.N == tr.Stop {
			close(stop)
		}
		if w.N == tr.Cancel {
			r.cancel(patience)
		}
		switch {
		case w.N != tr.Kill:
			return Pass
		case tr.After:
			return KillAfter
		}
		return KillBefore
	}
	var calls atomic.Int64
	r.world.Else(Act{
		Before: func(context.Context, flow.Attempt) {
			if int(calls.Add(1)) == tr.Call {
				f.Kill()
			}
		},
		Do: answerWork,
	})
	d := r.start(f)
	go func() {
		select {
		case <-stop:
			d.stop(sigterm)
		case <-d.done:
		}
	}()
	return f, d
}

// endure drives through all trouble and then to the end. It returns how often
// the process ended before its time, and no outcome if it died when the end was
// already stored.
func (r *rig) endure(troubles []trouble) (out flow.Outcome, deaths int) {
	r.t.Helper()
	for _, tr := range troubles {
		f, d := r.befall(tr)
		err := d.settle()
		switch {
		case f.killed():
			deaths++
			r.reopen()
			if r.journal().ended() != "" {
				return flow.Outcome{}, deaths
			}
			continue
		case err != nil:
			r.t.Fatalf("the run could not be driven: %v%v", err, r.journal())
		case d.out.Terminal():
			return d.out, deaths
		case d.out.Status == flow.Interrupted && d.out.Reason == sigterm.Reason:
			deaths++
			continue
		}
		r.check(d.out, flow.ParkedRun)
		if r.answerAll() == 0 && !d.out.WakeAt.IsZero() {
			r.clock.StepTo(d.out.WakeAt)
		}
	}
	r.world.Else(Act{Do: answerWork})
	return r.toEnd(), deaths
}

// disturbed is a program whose end is known beforehand.
func disturbed(t *rapid.T, bed Bed) {
	s := shape{}.segments(t)
	troubles := drawTrouble(t, false)
	r := newRun(t, bed, nil)
	r.job.Flow = s.flow(r)
	r.job.Limits = flow.Use{"tool_calls": 1000}
	out, deaths := r.endure(troubles)
	j := r.journal()
	if j.ended() != "intent.attest" {
		t.Fatalf("%v\nended %s%v", s, j.ended(), j)
	}
	if out.Terminal() && string(out.Value) != s.value() {
		t.Fatalf("%v\nthe value is %s, want %s%v", s, out.Value, s.value(), j)
	}
	said := 0
	s.each(func(path string, n node) {
		if n.Emit {
			said++
		}
		if n.Call == nil {
			return
		}
		done, most := r.world.Count(path), 1
		if n.Call.Class != flow.Once {
			most += n.Call.Fails + deaths
		}
		if done < 1 || done > most {
			t.Fatalf("%v\n%s happened %d times, want 1 to %d%v", s, path, done, most, j)
		}
	})
	if n := len(j.of("agent.said")); n != said {
		t.Fatalf("%v\n%d events, want %d%v", s, n, said, j)
	}
	if out.Terminal() {
		r.agree(out)
	}
}

// failingProgram is a program whose end depends on what is faster; that end, at
// least, it must keep to.
func failingProgram(t *rapid.T, bed Bed) {
	s := shape{fatal: true}.segments(t)
	troubles := drawTrouble(t, true)
	r := newRun(t, bed, nil)
	r.job.Flow = s.flow(r)
	r.job.Limits = flow.Use{"tool_calls": int64(rapid.IntRange(0, 6).Draw(t, "limit"))}
	out, _ := r.endure(troubles)
	if out.Terminal() {
		r.agree(out)
	} else {
		r.audit()
	}
	s.each(func(path string, n node) {
		if n.Call != nil && n.Call.Class == flow.Once && r.world.Count(path) > 1 {
			t.Fatalf("%v\n%s happened %d times%v", s, path, r.world.Count(path), r.journal())
		}
	})
}

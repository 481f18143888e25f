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

// trouble is what happens to one drive.
type trouble struct {
	Write  int // the write at which the process dies; 0: none
	After  bool
	Call   int // the call in which it dies; 0: none
	Decide int // the write at which all open gates are decided; 0: none
}

func drawTrouble(t *rapid.T) []trouble {
	point := rapid.IntRange(0, 14)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) trouble {
		return trouble{point.Draw(t, "write"), rapid.Bool().Draw(t, "after"), rapid.IntRange(0, 6).Draw(t, "call"), point.Draw(t, "decide")}
	}), 0, 5).Draw(t, "trouble")
}

// befall makes a log, and the world, so that this trouble happens to a drive.
func (r *rig) befall(tr trouble) *Faulty {
	f := NewFaulty(r.bed.Log())
	f.Before = func(w Write) Fault {
		if w.N == tr.Decide {
			for _, g := range r.journal().open() {
				d, _ := r.sensibly(g)
				_ = r.bed.Decide(r.run, g.Gate, d) // it may be closed by now
			}
		}
		switch {
		case w.N != tr.Write:
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
	return f
}

// endure drives through all trouble and then to the end. It returns how often
// the process died, and no outcome if it died after the end was stored.
func (r *rig) endure(troubles []trouble) (out flow.Outcome, deaths int) {
	r.t.Helper()
	for _, tr := range troubles {
		f := r.befall(tr)
		d := r.start(f)
		err := d.settle()
		if f.killed() {
			deaths++
			r.reopen()
			if r.journal().ended() != "" {
				return flow.Outcome{}, deaths
			}
			continue
		}
		if err != nil {
			r.t.Fatalf("the run could not be driven: %v%v", err, r.journal())
		}
		if out = d.out; out.Terminal() {
			return out, deaths
		}
		r.check(out, flow.ParkedRun)
		if r.answerAll() == 0 && !out.WakeAt.IsZero() {
			r.clock.StepTo(out.WakeAt)
		}
	}
	r.world.Else(Act{Do: answerWork})
	return r.toEnd(), deaths
}

func disturbed(t *rapid.T, bed Bed) {
	p := shape{}.draw(t, 2)
	troubles := drawTrouble(t)
	r := newRun(t, bed, nil)
	r.job.Flow = p.flow(r)
	r.job.Limits = flow.Use{"tool_calls": 1000}
	out, deaths := r.endure(troubles)
	j := r.journal()
	if j.ended() != "intent.attest" {
		t.Fatalf("%v\nended %s%v", p, j.ended(), j)
	}
	want := string(flow.JSON(p.value()))
	if out.Terminal() && string(out.Value) != want {
		t.Fatalf("%v\nthe value is %s, want %s%v", p, out.Value, want, j)
	}
	said := 0
	p.each("root", func(path string, n node) {
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
			t.Fatalf("%v\n%s happened %d times, want 1 to %d%v", p, path, done, most, j)
		}
	})
	if n := len(j.of("agent.said")); n != said {
		t.Fatalf("%v\n%d events, want %d%v", p, n, said, j)
	}
	if out.Terminal() {
		r.agree(out)
	}
}

func failingProgram(t *rapid.T, bed Bed) {
	p := shape{fatal: true}.draw(t, 2)
	troubles := drawTrouble(t)
	r := newRun(t, bed, nil)
	r.job.Flow = p.flow(r)
	r.job.Limits = flow.Use{"tool_calls": int64(rapid.IntRange(0, 6).Draw(t, "limit"))}
	out, _ := r.endure(troubles)
	if out.Terminal() {
		r.agree(out)
	} else {
		r.audit()
	}
	p.each("root", func(path string, n node) {
		if n.Call != nil && n.Call.Class == flow.Once && r.world.Count(path) > 1 {
			t.Fatalf("%v\n%s happened %d times%v", p, path, r.world.Count(path), r.journal())
		}
	})
}

package flowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// waiting: gates, decisions and parking.
func waiting(t *testing.T, open opener) {
	t.Run("a run parks once with all its gates", func(t *testing.T) { parksOnce(t, open) })
	t.Run("an answered branch goes on while its siblings run", func(t *testing.T) { answeredGoesOn(t, open) })
	t.Run("a decision before the park transaction is used", func(t *testing.T) { decidedBeforePark(t, open) })
	t.Run("a decision after the park transaction waits for a resume", func(t *testing.T) { decidedAfterPark(t, open) })
	t.Run("a decision that is heard of late is used", func(t *testing.T) { decidedLate(t, open) })
	t.Run("a decision against parking needs one resume at most", func(t *testing.T) { decisionAgainstParking(t, open) })
	t.Run("a run does not park while a woken branch works", func(t *testing.T) { wakeIsCounted(t, open) })
	t.Run("a decision is stored once", func(t *testing.T) { decidedOnce(t, open) })
	t.Run("of many decisions at once one is stored", func(t *testing.T) { decidedAtOnce(t, open) })
	t.Run("a decision starts nothing", func(t *testing.T) { decisionStartsNothing(t, open) })
	t.Run("a decision arrives whole", func(t *testing.T) { decisionWhole(t, open) })
	t.Run("a gate that expires is denied once", func(t *testing.T) { expires(t, open) })
	t.Run("a lingering drive takes the answer", func(t *testing.T) { lingers(t, open) })
	t.Run("a lingering drive parks in the end", func(t *testing.T) { lingersInVain(t, open) })
	t.Run("a suspended call is entered again", func(t *testing.T) { suspended(t, open) })
}

// waiters waits in n branches at once.
func waiters(n int) flow.Func {
	return program(func(fc flow.Context) error {
		var list []flow.Branch
		for k := range n {
			list = append(list, flow.Branch{Run: func(fc flow.Context) error {
				if _, err := fc.Wait(question("g")); err != nil {
					return err
				}
				return do(fc, call(flow.Once, "x", k))
			}})
		}
		return fc.Go(flow.Group{}, list...)
	})
}

func parksOnce(t *testing.T, open opener) {
	bed := open(t)
	for name, order := range map[string][]int{"in order": {0, 1, 2}, "in reverse": {2, 1, 0}} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, waiters(3))
			out := r.want(flow.ParkedRun)
			parked := r.journal().of("run.parked")
			if len(parked) != 1 || len(out.Gates) != 3 || !sameSet(read(parked[0]).Gates, out.Gates) {
				t.Fatalf("parked on %v%v", out.Gates, r.journal())
			}
			for i, k := range order {
				r.decideKey(fmt.Sprintf("root/%d/g", k), yes)
				out = r.drive()
				if n := r.world.Count(fmt.Sprintf("root/%d/x", k)); n != 1 {
					t.Fatalf("the answered branch was performed %d times%v", n, r.journal())
				}
				if i < 2 && (out.Status != flow.ParkedRun || len(out.Gates) != 2-i) {
					t.Fatalf("ended %s on %v%v", out.Status, out.Gates, r.journal())
				}
			}
			r.check(out, flow.Completed)
			if n := len(r.journal().of("policy.gate")); n != 3 {
				t.Fatalf("%d gates were opened, want 3", n)
			}
			r.agree(out)
		})
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func answeredGoesOn(t *testing.T, open opener) {
	entries := 0
	release := make(chan struct{})
	r := newRig(t, open, program(func(fc flow.Context) error {
		entries++
		return fc.Go(flow.Group{},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error {
				if _, err := fc.Wait(question("g")); err != nil {
					return err
				}
				return do(fc, call(flow.Once, "x", 1))
			}},
			flow.Branch{Name: "runner", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 2)) }})
	}))
	r.world.Answer("root/runner/x", onceReleased(release))
	d := r.start(r.bed.Log())
	r.await(1, "root/runner/x")
	r.untilKind("policy.gate", "root/waiter/g")
	r.decideKey("root/waiter/g", yes)
	r.await(1, "root/waiter/x") // while the other is in flight
	close(release)
	out := d.wait()
	r.check(out, flow.Completed)
	if entries != 1 {
		t.Errorf("the program was entered %d times, want once", entries)
	}
	r.agree(out)
}

// aroundPark decides the gate at root/g around the first park transaction.
func aroundPark(r *rig, before bool) *Faulty {
	f := NewFaulty(r.bed.Log())
	once := sync.Once{}
	decide := func(w Write) {
		if w.Op == "park" {
			once.Do(func() {
				g, _ := r.journal().gate("root/g")
				_ = r.bed.Decide(r.run, g.Gate, yes) // the test fails if the gate stays open
				<-time.After(time.Millisecond)       // so that the drive hears of it meanwhile
			})
		}
	}
	if before {
		f.Before = func(w Write) Fault { decide(w); return Pass }
	} else {
		f.After = decide
	}
	return f
}

func decidedBeforePark(t *testing.T, open opener) {
	bed := open(t)
	for range times(100) {
		r := newRun(t, bed, steps(asking(question("g")), calling(call(flow.Once, "x", 1))))
		out := r.start(aroundPark(r, true)).wait()
		r.check(out, flow.Completed)
		if n := len(r.journal().of("run.parked")); n != 0 {
			t.Fatalf("the run parked although its gate was decided%v", r.journal())
		}
		r.agree(out)
	}
}

// decidedLate decides before the park transaction, which therefore does nothing,
// and lets the drive hear of the decision only later.
func decidedLate(t *testing.T, open opener) {
	bed := open(t)
	for range times(20) {
		r := newRun(t, bed, steps(asking(question("g")), calling(call(flow.Once, "x", 1))))
		f := aroundPark(r, true)
		f.Lag = 10 * time.Millisecond
		out := r.start(f).wait()
		r.check(out, flow.Completed)
		if j := r.journal(); len(j.of("run.parked")) != 0 || len(j.of("gate.taken")) != 1 {
			t.Fatalf("the run parked although its gate was decided%v", j)
		}
		r.agree(out)
	}
}

func decidedAfterPark(t *testing.T, open opener) {
	bed := open(t)
	for range times(100) {
		var r *rig
		r = newRun(t, bed, program(func(fc flow.Context) error {
			_, err := fc.Wait(question("g"))
			r.see("wait", coded(err))
			if err != nil {
				return err
			}
			return do(fc, call(flow.Once, "x", 1))
		}))
		out := r.start(aroundPark(r, false)).wait()
		r.check(out, flow.ParkedRun)
		j := r.journal()
		if r.sights()["wait"] != "parked\n" || r.world.Count("root/x") != 0 || len(j.of("gate.taken")) != 0 {
			t.Fatalf("a parked run went on%v", j)
		}
		out = r.want(flow.Completed)
		r.agree(out)
	}
}

func decisionAgainstParking(t *testing.T, open opener) {
	bed := open(t)
	resumed := 0
	n := times(1000)
	for i := range n {
		r := newRun(t, bed, steps(asking(question("g")), calling(call(flow.Once, "x", 1))))
		log := flow.Log(bed.Log())
		if i%2 == 1 { // a log that answers later opens the window wider
			f := NewFaulty(bed.Log())
			f.Before = func(Write) Fault { spin(i % 30); return Pass }
			log = f
		}
		d := r.start(log)
		r.untilKind("policy.gate", "root/g")
		spin(i % 50)
		r.decideKey("root/g", yes)
		out := d.wait()
		if out.Status == flow.ParkedRun {
			resumed++
			out = r.drive()
		}
		r.check(out, flow.Completed)
		if i%10 == 0 {
			r.agree(out)
		}
	}
	t.Logf("%d of %d runs needed a resume", resumed, n)
}

// wakeIsCounted wakes one of two waiting branches again and again. Between the
// wake and the woken branch's first step nothing runs, and nothing may park.
func wakeIsCounted(t *testing.T, open opener) {
	bed := open(t)
	t.Run("when the last branch begins to wait", func(t *testing.T) {
		var deciding sync.WaitGroup
		defer deciding.Wait()
		n := 0
		woken(t, bed, func(r *rig, f *Faulty, decide func()) {
			n++
			before := n%5 == 0 // by chance it may come too late every time
			f.After = func(w Write) {
				switch {
				case !w.Has("policy.gate") || len(r.journal().of("policy.gate")) < 2:
				case before:
					decide()
				default:
					deciding.Go(func() { spin(10); decide() })
					spin(10)
				}
			}
		})
	})
	t.Run("when the park transaction begins", func(t *testing.T) {
		woken(t, bed, func(_ *rig, f *Faulty, decide func()) {
			var once sync.Once
			f.Before = func(w Write) Fault {
				if w.Op == "park" {
					once.Do(decide)
				}
				return Pass
			}
		})
	})
}

// woken drives one of two branches on, at a moment that in chooses.
func woken(t *testing.T, bed Bed, in func(*rig, *Faulty, func())) {
	n, all := 0, times(500)
	for i := range all {
		r := newRun(t, bed, oneOfTwo)
		f := NewFaulty(bed.Log())
		in(r, f, func() {
			g, _ := r.journal().gate("root/first/g")
			_ = bed.Decide(r.run, g.Gate, yes)
		})
		out := r.start(f).wait()
		r.check(out, flow.ParkedRun)
		if r.workedBeforeParking(i) {
			n++
		}
		if i%10 == 0 {
			out = r.toEnd()
			r.check(out, flow.Completed)
			r.agree(out)
		}
	}
	if n == 0 {
		t.Errorf("no branch was ever woken")
	}
	t.Logf("a branch was woken %d of %d times", n, all)
}

// oneOfTwo waits in two branches, of which the first works when it is woken.
var oneOfTwo = program(func(fc flow.Context) error {
	return fc.Go(flow.Group{},
		flow.Branch{Name: "first", Run: func(fc flow.Context) error {
			if _, err := fc.Wait(question("g")); err != nil {
				return err
			}
			for k := range 2 {
				if err := do(fc, call(flow.Read, fmt.Sprint("x", k), k)); err != nil {
					return err
				}
			}
			return nil
		}},
		flow.Branch{Name: "second", Run: func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }},
	)
})

// workedBeforeParking reports whether the first branch was woken, and checks that
// it then came to its end before the run parked.
func (r *rig) workedBeforeParking(round int) bool {
	r.t.Helper()
	j := r.journal()
	calls := r.world.Count("root/first/x0") + r.world.Count("root/first/x1")
	_, finished := j.finished("root/first/x1")
	woken := len(j.of("gate.taken")) > 0 || calls > 0
	if woken && (calls != 2 || !finished) || !woken && calls != 0 {
		r.t.Fatalf("round %d: the run parked while a branch worked, %d calls%v", round, calls, j)
	}
	return woken
}

func decidedOnce(t *testing.T, open opener) {
	r := newRig(t, open, steps(asking(question("g"))))
	r.want(flow.ParkedRun)
	g, _ := r.journal().gate("root/g")
	r.decide(g.Gate, yes)
	before := r.journal()
	if err := r.bed.Decide(r.run, g.Gate, yes); err != nil {
		t.Errorf("the same decision again: %v", err)
	}
	for name, other := range map[string]flow.Decision{
		"action": {Action: "no", By: yes.By, Via: yes.Via},
		"note":   {Action: "yes", Note: "but", By: yes.By, Via: yes.Via},
		"answer": {Action: "yes", Answer: json.RawMessage(`1`), By: yes.By, Via: yes.Via},
	} {
		if err := r.bed.Decide(r.run, g.Gate, other); err == nil {
			t.Errorf("a decision with another %s was accepted", name)
		}
	}
	if err := r.bed.Decide(r.run, "no-such-gate", yes); err == nil {
		t.Errorf("a gate that does not exist was decided")
	}
	if !slices.EqualFunc(before, r.journal(), sameRecord) {
		t.Errorf("the journal was changed%v", r.journal())
	}
	r.agree(r.want(flow.Completed))
}

func decidedAtOnce(t *testing.T, open opener) {
	r := newRig(t, open, steps(asking(question("g"))))
	r.want(flow.ParkedRun)
	g, _ := r.journal().gate("root/g")
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := map[string]int{}
	for i := range 50 {
		wg.Go(func() {
			d := yes
			d.Action = []string{"yes", "no"}[i%2]
			if r.bed.Decide(r.run, g.Gate, d) == nil {
				mu.Lock()
				defer mu.Unlock()
				accepted[d.Action]++
			}
		})
	}
	wg.Wait()
	stored := r.journal().of("policy.gate.resolve")
	if len(stored) != 1 {
		t.Fatalf("%d decisions are stored, want 1%v", len(stored), r.journal())
	}
	action := read(stored[0]).Action
	if len(accepted) != 1 || accepted[action] != 25 {
		t.Errorf("accepted were %v, stored is %s: want the same 25 times and conflicts", accepted, action)
	}
}

func decisionStartsNothing(t *testing.T, open opener) {
	r := newRig(t, open, steps(asking(question("g")), calling(call(flow.Once, "x", 1))))
	r.want(flow.ParkedRun)
	r.decideKey("root/g", yes)
	last := r.journal()[len(r.journal())-1]
	if last.Kind != "policy.gate.resolve" || r.world.Count("root/x") != 0 {
		t.Fatalf("a decision started something%v", r.journal())
	}
	r.want(flow.Completed)
}

func decisionWhole(t *testing.T, open opener) {
	want := flow.Decision{
		Action: "no", Answer: json.RawMessage(`{"why":["ü<>&"]}`), Feedback: "do better",
		Note: "a note", FailReason: "x:slug", By: "token:ann", Via: "http",
	}
	var r *rig
	var got flow.Decision
	r = newRig(t, open, program(func(fc flow.Context) (err error) {
		got, err = fc.Wait(question("g"))
		r.see("g", fmt.Sprintf("%+v", got))
		return err
	}))
	r.want(flow.ParkedRun)
	g, _ := r.journal().gate("root/g")
	want.Gate = g.Gate
	r.decide(g.Gate, want)
	out := r.want(flow.Completed)
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("the program got %+v, want %+v", got, want)
	}
	r.agree(out)
}

func expires(t *testing.T, open opener) {
	bed := open(t)
	soon := question("g")
	soon.Expires = 50 * time.Millisecond
	check := func(t *testing.T, r *rig, out flow.Outcome) {
		t.Helper()
		r.check(out, flow.Completed)
		if got := r.sights()["g"]; got != "no expiry\n" {
			t.Errorf("the program got %q, want no by expiry", got)
		}
		resolved := r.journal().of("policy.gate.resolve")
		if len(resolved) != 1 || read(resolved[0]).Via != "expiry" || read(resolved[0]).Action != "no" {
			t.Errorf("the gate was not denied once%v", r.journal())
		}
		r.agree(out)
	}
	build := func(t *testing.T, g flow.Gate) (r *rig) {
		r = newRun(t, bed, program(func(fc flow.Context) error {
			d, err := fc.Wait(g)
			r.see("g", d.Action, d.Via)
			return err
		}))
		return r
	}
	t.Run("noticed by the owner's timer", func(t *testing.T) {
		r := build(t, soon)
		r.job.Linger = -1
		check(t, r, r.drive())
	})
	t.Run("noticed by the next drive", func(t *testing.T) {
		later := soon
		later.Expires = time.Minute // long after it has parked, however slow the machine is
		for range times(100) {      // it must not park first
			r := build(t, later)
			r.want(flow.ParkedRun)
			r.clock.Step(time.Hour)
			check(t, r, r.drive())
		}
	})
}

func lingers(t *testing.T, open opener) {
	r := newRig(t, open, waiters(2))
	r.job.Linger = -1
	d := r.start(r.bed.Log())
	for k := range 2 {
		key := fmt.Sprintf("root/%d/g", k)
		r.untilKind("policy.gate", key)
		r.decideKey(key, yes)
		r.await(1, fmt.Sprintf("root/%d/x", k))
	}
	out := d.wait()
	r.check(out, flow.Completed)
	if n := len(r.journal().of("run.parked")); n != 0 {
		t.Errorf("a lingering run parked%v", r.journal())
	}
	r.agree(out)
}

func lingersInVain(t *testing.T, open opener) {
	r := newRig(t, open, waiters(2))
	r.job.Linger = 30 * time.Millisecond
	begin := time.Now()
	out := r.want(flow.ParkedRun)
	if took := time.Since(begin); took < r.job.Linger {
		t.Errorf("it parked after %v, want to linger for %v", took, r.job.Linger)
	}
	if len(out.Gates) != 2 {
		t.Errorf("parked on %v", out.Gates)
	}
	r.answerAll()
	r.agree(r.want(flow.Completed))
}

func suspended(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(reserving(flow.Idempotent, "child", "tool_calls"), call(flow.Once, "x", 1)))
	r.job.Limits = flow.Use{"tool_calls": 1}
	var attempts []int
	r.world.Answer("root/child", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		attempts = append(attempts, a.N)
		if len(attempts) < 3 {
			return flow.Done{}, fmt.Errorf("the child waits: %w", flow.ErrParked)
		}
		return flow.Done{Value: a.Input}, nil
	})
	r.want(flow.ParkedRun)
	r.want(flow.ParkedRun)
	out := r.want(flow.Completed)
	if !slices.Equal(attempts, []int{1, 1, 1}) || out.Used["tool_calls"] != 1 {
		t.Fatalf("attempts %v, used %v: want the same attempt thrice and one reservation%v", attempts, out.Used, r.journal())
	}
	r.agree(out)
}

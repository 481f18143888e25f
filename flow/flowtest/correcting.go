package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// correcting: a job that knows how to go on after a cut, or with a state, begins
// another segment under another root, in one transaction.
func correcting(t *testing.T, open opener) {
	t.Run("a cut segment is followed by the next", func(t *testing.T) { cutAndOn(t, open) })
	t.Run("a kill on either side of the passage", func(t *testing.T) { cutKilled(t, open) })
	t.Run("what had begun is asked for before the passage", func(t *testing.T) { cutAtLoad(t, open) })
	t.Run("a correction races with parking", func(t *testing.T) { cutOrParked(t, open) })
	t.Run("a cancel goes before a correction", func(t *testing.T) { cutOrCancelled(t, open) })
	t.Run("a correction that comes too late changes nothing", func(t *testing.T) { cutTooLate(t, open) })
	t.Run("Continue may go on elsewhere", func(t *testing.T) { continueElsewhere(t, open) })
	t.Run("a job that does not know how to go on writes nothing", func(t *testing.T) { nextFails(t, open) })
	t.Run("what is lost in a cut is charged", func(t *testing.T) { cutCharges(t, open) })
	t.Run("a program asks about an earlier doubt", func(t *testing.T) { earlierDoubt(t, open) })
}

// revised makes the rig's run one that can be corrected: revision n stands under
// root@n, and gets n as its input.
func (r *rig) revised() {
	r.job.Input = json.RawMessage(`1`)
	r.job.Next = func(state json.RawMessage, cut bool) (flow.Segment, error) {
		n := r.revision() + 1
		return flow.Segment{
			Before: []flow.Draft{{Kind: "agent.said", Note: true, Body: flow.JSON(map[string]any{"cut": cut, "state": string(state)})}},
			State:  flow.JSON(n), Root: fmt.Sprintf("root@%d", n), Limits: r.job.Limits,
		}, nil
	}
}

// revision is the one that the journal says is under way.
func (r *rig) revision() int {
	n := 1
	for _, c := range r.journal().of("run.continued") {
		var b struct{ State int }
		if json.Unmarshal(c.Body, &b) == nil {
			n = b.State
		}
	}
	return n
}

// placed gives the next drive what the present segment was begun with, as whoever
// drives a corrected run must.
func (r *rig) placed() *rig {
	if n := r.revision(); n > 1 {
		r.job.Root = fmt.Sprintf("root@%d", n)
	}
	return r
}

func (r *rig) correct() {
	r.t.Helper()
	r.write("run.correction_requested", map[string]any{"reason": "test"})
}

// passage checks that segments follow each other in one piece: what the job wrote,
// then run.continued.
func (r *rig) passage(n int) {
	r.t.Helper()
	j := r.journal()
	cont := j.of("run.continued")
	if len(cont) != n {
		r.t.Fatalf("%d segments were begun, want %d%v", len(cont), n, j)
	}
	for _, c := range cont {
		if before := j[c.Seq-2]; before.Kind != "agent.said" {
			r.t.Fatalf("%s stands before run.continued%v", before.Kind, j)
		}
	}
}

// inTwo does something once in each revision; the first also waits.
func inTwo(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
	if err := do(fc, call(flow.Once, "a", in)); err != nil {
		return nil, err
	}
	if string(in) == `1` {
		if _, err := fc.Wait(question("g")); err != nil {
			return nil, err
		}
	}
	return in, do(fc, call(flow.Once, "b", in))
}

func cutAndOn(t *testing.T, open opener) {
	var r *rig
	first := besideWaiter(&r, func(fc flow.Context) error {
		if err := do(fc, call(flow.Once, "a", 1)); err != nil {
			return err
		}
		return do(fc, call(flow.Once, "b", 1))
	})
	r = newRig(t, open, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) == `1` {
			return first(fc, in)
		}
		return inTwo(fc, in)
	})
	r.revised()
	release := make(chan struct{})
	r.world.Answer("root/w/a", cutOr(release))
	d := r.start(r.bed.Log())
	r.await(1, "root/w/a")
	r.untilKind("policy.gate", "root/waiter/g")
	r.correct()
	r.untilSeen("x")
	close(release)
	out := d.wait()
	r.check(out, flow.Completed)
	r.passage(1)
	j := r.journal()
	if _, ok := j.finished("root/w/a"); !ok || r.world.Count("root/w/b") != 0 || !j.gates()[0].Done {
		t.Fatalf("the call in flight was not recorded, another was begun after the cut, or the gate was left%v", j)
	}
	if r.world.Count("root@2/a") != 1 || r.world.Count("root@2/b") != 1 || string(out.Value) != `2` {
		t.Fatalf("the next revision was not run, value %s%v", out.Value, j)
	}
	r.forget()
	r.placed().agree(out)
}

func cutKilled(t *testing.T, open opener) {
	bed := open(t)
	for name, fault := range map[string]Fault{"before": KillBefore, "after": KillAfter} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, inTwo)
			r.revised()
			r.want(flow.ParkedRun)
			r.correct()
			r.crash(killAt(r, fault, func(w Write) bool { return w.Has("run.continued") }))
			out := r.placed().want(flow.Completed)
			r.passage(1)
			for _, path := range []string{"root/a", "root@2/a", "root@2/b"} {
				if n := r.world.Count(path); n != 1 {
					t.Errorf("%s happened %d times%v", path, n, r.journal())
				}
			}
			if g := r.journal().gates(); len(g) != 1 || !g[0].Done {
				t.Errorf("the gate of the former revision was not closed%v", r.journal())
			}
			r.placed().agree(out)
		})
	}
}

// cutAtLoad corrects a run that waits inside branches. The drive that takes the
// correction up begins no branch, but comes by those that had begun: what they
// were told is told again.
func cutAtLoad(t *testing.T, open opener) {
	told := make(chan string, 10)
	r := newRig(t, open, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) == `2` {
			return in, nil
		}
		return nil, fc.Go(flow.Group{Limit: 2},
			flow.Branch{Name: "done", Run: func(fc flow.Context) error {
				res, err := fc.Do(call(flow.Once, "x", 7))
				if err == nil {
					told <- string(res.Value)
				}
				return err
			}},
			flow.Branch{Name: "waits", Run: func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }},
			flow.Branch{Name: "waits-too", Run: func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }},
			flow.Branch{Name: "never", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "y", 1)) }})
	})
	r.revised()
	r.want(flow.ParkedRun)
	if v := <-told; v != `7` {
		t.Fatalf("the first drive was told %s", v)
	}
	r.correct()
	out := r.want(flow.Completed)
	select {
	case v := <-told:
		if v != `7` {
			t.Errorf("the drive that was cut was told %s", v)
		}
	default:
		t.Errorf("the drive that was cut never came by what was done%v", r.journal())
	}
	if r.world.Count("root/done/x") != 1 || r.world.Count("root/never/y") != 0 {
		t.Errorf("something was done again, or begun after the cut%v", r.journal())
	}
	r.placed().agree(out)
}

func cutOrParked(t *testing.T, open opener) {
	bed := open(t)
	for range times(200) {
		r := newRun(t, bed, inTwo)
		r.revised()
		d := r.start(bed.Log())
		r.untilKind("policy.gate", "root/g")
		r.correct()
		out := d.wait()
		if out.Status == flow.ParkedRun { // before the correction was there: one resume, never two
			out = r.placed().drive()
		}
		r.check(out, flow.Completed)
		r.passage(1)
		r.placed().agree(out)
	}
}

func cutOrCancelled(t *testing.T, open opener) {
	bed := open(t)
	for name, ask := range map[string]func(*rig){
		"correction first": func(r *rig) { r.correct(); r.cancel(patience) },
		"cancel first":     func(r *rig) { r.cancel(patience); r.correct() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, inTwo)
			r.revised()
			r.want(flow.ParkedRun)
			ask(r)
			out := r.want(flow.Cancelled)
			if r.world.Count("root/b")+r.world.Count("root@2/a") != 0 {
				t.Errorf("a cancelled run went on%v", r.journal())
			}
			r.placed().agree(out)
		})
	}
}

func cutTooLate(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	r.revised()
	release := make(chan struct{})
	r.world.Answer("root/a", cutOr(release))
	d := r.start(r.bed.Log())
	r.await(1, "root/a")
	r.correct()
	close(release)
	out := d.wait()
	r.check(out, flow.Completed)
	r.passage(0)
	r.agree(out)
}

func continueElsewhere(t *testing.T, open opener) {
	bed := open(t)
	for name, fault := range map[string]Fault{"undisturbed": Pass, "killed before": KillBefore, "killed after": KillAfter} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
				if err := do(fc, call(flow.Once, "a", in)); err != nil {
					return nil, err
				}
				if string(in) == `1` {
					return nil, flow.Continue(json.RawMessage(`"on"`))
				}
				return in, nil
			})
			r.revised()
			if fault != Pass {
				r.crash(killAt(r, fault, func(w Write) bool { return w.Has("run.continued") }))
			}
			out := r.placed().want(flow.Completed)
			r.passage(1)
			said := r.journal().of("agent.said")[0]
			if string(said.Body) != `{"cut":false,"state":"\"on\""}` || string(out.Value) != `2` {
				t.Errorf("the job was asked with %s, the value is %s", said.Body, out.Value)
			}
			if r.world.Count("root/a") != 1 || r.world.Count("root@2/a") != 1 {
				t.Errorf("each segment must do its own%v", r.journal())
			}
			r.placed().agree(out)
		})
	}
}

func nextFails(t *testing.T, open opener) {
	r := newRig(t, open, inTwo)
	r.revised()
	next := r.job.Next
	r.want(flow.ParkedRun)
	r.correct()
	broken := errors.New("the revision is not there")
	r.job.Next = func(json.RawMessage, bool) (flow.Segment, error) { return flow.Segment{}, broken }
	out := r.want(flow.Interrupted)
	if !errors.Is(out.Err, broken) {
		t.Errorf("interrupted by %v", out.Err)
	}
	r.passage(0)
	if len(r.journal().open()) != 1 {
		t.Errorf("the gate was closed although nothing follows%v", r.journal())
	}
	r.job.Next = next
	out = r.want(flow.Completed)
	r.passage(1)
	r.placed().agree(out)
}

// cutCharges cuts a run with a call of which nobody knows the end: it may have
// cost what was reserved.
func cutCharges(t *testing.T, open opener) {
	r := newRig(t, open, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) == `2` {
			return in, do(fc, reserving(flow.Once, "b", "tool_calls"))
		}
		return nil, do(fc, reserving(flow.Once, "a", "tool_calls"))
	})
	r.revised()
	r.job.Limits = flow.Use{"tool_calls": 1}
	next := r.job.Next
	r.job.Next = func(state json.RawMessage, cut bool) (flow.Segment, error) {
		s, err := next(state, cut)
		s.Limits = flow.Use{"tool_calls": 2}
		return s, err
	}
	r.world.Answer("root/a", lost)
	r.want(flow.ParkedRun)
	r.correct()
	out := r.want(flow.Completed)
	if out.Used["tool_calls"] != 2 || out.Limit["tool_calls"] != 2 {
		t.Errorf("used %v of %v%v", out.Used, out.Limit, r.journal())
	}
	whole := flow.History{Records: r.journal()}
	if found := flow.Conform(whole, flow.Use{"tool_calls": 1}, flow.Use{"tool_calls": 2}); len(found) > 0 {
		t.Errorf("the journal does not conform: %v", found)
	}
	if found := flow.Conform(whole, flow.Use{"tool_calls": 1}); len(found) == 0 {
		t.Error("a limit that nobody raised was not found")
	}
}

func earlierDoubt(t *testing.T, open opener) {
	var known json.RawMessage
	r := newRig(t, open, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) == `1` {
			return nil, do(fc, call(flow.Once, "a", 7))
		}
		d, err := fc.At("a").Wait(flow.EarlierDoubt(flow.Attempt{Path: "root/a", Name: "work", N: 1, Input: json.RawMessage(`7`)}, known))
		if err != nil {
			return nil, err
		}
		return flow.JSON(d.Action), do(fc, call(flow.Once, "a", 7))
	})
	r.revised()
	r.world.Answer("root/a", lost)
	r.want(flow.ParkedRun)
	known = r.journal().of("effect.lost")[0].Body
	r.correct()
	r.world.Answer("root@2/a", func(context.Context, flow.Attempt) (flow.Done, error) { panic("activity") })
	r.want(flow.ParkedRun)
	asked, _ := r.journal().gate("root@2/a/in_doubt#0")
	former, _ := r.journal().gate("root/a/in_doubt")
	if asked.Digest == "" || asked.Digest != former.Digest {
		t.Fatalf("it is not the same question%v", r.journal())
	}
	r.decide(asked.Gate, flow.Decision{Action: "retry", By: "local:cli", Via: "command"})
	// The call that was tried again is in doubt by itself.
	r.placed().want(flow.ParkedRun)
	if _, ok := r.journal().gate("root@2/a/in_doubt"); !ok {
		t.Fatalf("the new call is not asked about%v", r.journal())
	}
	out := r.placed().toEnd()
	r.check(out, flow.Completed)
	r.agree(out)
}

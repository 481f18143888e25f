package sqlite

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

// nobodyLives is the options of a store in which every owner counts as dead.
func nobodyLives() *Options {
	return &Options{Options: store.Options{Alive: func(flow.Owner, time.Time) bool { return false }}}
}

func TestAcquire(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	l := b.acquire(run)
	if l.Epoch != 1 {
		t.Fatalf("first epoch is %d", l.Epoch)
	}
	if _, err := b.Acquire(t.Context(), run, me); !errors.Is(err, flow.ErrBusy) {
		t.Fatalf("second owner of a living one: %v", err)
	}
	row := b.row(run)
	if row.Owner == nil || *row.Owner != me || row.Owned != "run.started" || row.Epoch != 1 || row.Heartbeat.IsZero() {
		t.Fatalf("row: %+v", row)
	}
	if parked, err := b.Park(l, flow.Parking{}); err != nil || !parked {
		t.Fatalf("park: %v %v", parked, err)
	}
	if row := b.row(run); row.Owner != nil || row.Owned != "run.parked" {
		t.Fatalf("row of a parked run: %+v", row)
	}
	if l := b.acquire(run); l.Epoch != 2 {
		t.Fatalf("second epoch is %d", l.Epoch)
	}
	want := []string{"intent.draft", "intent.compiled", "intent.accept", "plan.proposed", "run.started", "run.parked", "run.resumed"}
	if got := b.kinds(run); !slices.Equal(got, want) {
		t.Fatalf("kinds: %v", got)
	}
	if _, err := b.Acquire(t.Context(), tipstaff.NewID(time.Now()).String(), me); !errors.Is(err, flow.ErrNoRun) {
		t.Fatalf("unknown run: %v", err)
	}
}

func TestSecondOwnerFencesTheFirst(t *testing.T) {
	b := newBench(t, nobodyLives())
	run := b.create()
	first := b.acquire(run)
	b.append(first, step("root/a"))
	second := b.acquire(run)
	head := b.row(run).Head
	if err := appendErr(b, first, step("root/b"), step("root/c")); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("append of the first: %v", err)
	}
	if _, err := b.Park(first, flow.Parking{}); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("park of the first: %v", err)
	}
	if got := b.row(run).Head; got != head {
		t.Fatalf("the fenced owner moved the head from %d to %d", head, got)
	}
	b.append(second, step("root/b"))
}

func TestNothingFollowsTheEnd(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	l := b.acquire(run)
	b.append(l, gate("G1", "root/ok"), attest())
	head := b.row(run).Head
	if err := appendErr(b, l, step("root/a")); !errors.Is(err, flow.ErrEnded) || !errors.Is(err, flow.ErrLeaseLost) {
		t.Errorf("append: %v", err)
	}
	if err := b.writeErr(run, flow.Draft{Kind: "run.cancel_requested"}); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("write: %v", err)
	}
	if _, err := b.Acquire(t.Context(), run, me); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("acquire: %v", err)
	}
	row := b.row(run)
	if row.Head != head || row.State != "completed" || row.Owner != nil {
		t.Errorf("row: %+v", row)
	}
	if open, err := b.Gates(t.Context(), flow.GateQuery{Run: run, Open: true}); err != nil || len(open) > 0 {
		t.Errorf("open gates of an ended run: %v %v", open, err)
	}
	h, err := b.Load(t.Context(), run)
	if err != nil || h.Ended != flow.Completed {
		t.Errorf("history ended %q: %v", h.Ended, err)
	}
}

func TestAppendRefuses(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	l := b.acquire(run)
	head := b.row(run).Head
	for name, d := range map[string]flow.Draft{
		"an unknown kind":                 {Kind: "effect.imagined"},
		"an unsigned envelope":            {Kind: "policy.gate", Body: gate("G", "p").Body},
		"a signed plain record":           {Kind: "plan.step", From: "executor"},
		"a body that is no JSON":          {Kind: "plan.step", Body: []byte("{")},
		"a body of two lines":             {Kind: "plan.step", Body: []byte("{\n}")},
		"a second draft":                  b.begun()[0],
		"a transition that is not legal":  {Kind: "intent.compiled", From: "executor", Body: body(`{"attempts":0}`)},
		"an ownership record":             {Kind: "run.resumed"},
		"a signer that does not exist":    {Kind: "policy.gate", From: "nobody", Body: gate("G", "p").Body},
		"an envelope with a wrong body":   {Kind: "policy.gate", From: "executor", Body: body(`{"gate":"G"}`)},
		"the executor for the user":       {Kind: "intent.cancel", From: "executor", Body: body(`{"reason":"r","via":"command","cited":[],"evidence":{}}`)},
		"a decision of a gate never open": resolve("G9", "approve", "command"),
		"an id that is none":              {Kind: "policy.gate", From: "executor", ID: "x", Body: gate("G", "p").Body},
		"an id of a plain record":         {Kind: "plan.step", ID: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"},
	} {
		if err := appendErr(b, l, step("root/a"), d); err == nil {
			t.Errorf("%s was stored", name)
		}
		if got := b.row(run); got.Head != head || got.State != "executing" {
			t.Fatalf("%s left head %d, state %s", name, got.Head, got.State)
		}
	}
	b.append(l, step("root/a"))
	b.verify(run)
}

func TestPark(t *testing.T) {
	t.Parallel()
	wake := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, c := range []struct {
		name    string
		foreign []flow.Draft
		parked  bool
	}{
		{"nothing happened", nil, true},
		{"the gate was decided", []flow.Draft{resolve("G1", "approve", "command")}, false},
		{"another gate was decided", []flow.Draft{resolve("G2", "approve", "command")}, true},
		{"a cancel is stored", []flow.Draft{{Kind: "run.cancel_requested"}}, false},
		{"a correction is stored", []flow.Draft{{Kind: "run.correction_requested"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nil)
			run := b.create()
			l := b.acquire(run)
			b.append(l, gate("G1", "root/a"), gate("G2", "root/b"))
			if c.foreign != nil {
				b.write(run, c.foreign...)
			}
			head := b.row(run).Head
			parked, err := b.Park(l, flow.Parking{Gates: []string{"G1"}, WakeAt: wake, Wall: 1500 * time.Millisecond})
			if err != nil || parked != c.parked {
				t.Fatalf("parked %v: %v", parked, err)
			}
			row := b.row(run)
			if !parked {
				if row.Head != head || row.Owner == nil {
					t.Fatalf("a park that did not happen left %+v", row)
				}
				b.append(l, step("root/c"))
				return
			}
			if row.Owner != nil || !row.WakeAt.Equal(wake) {
				t.Fatalf("row of a parked run: %+v", row)
			}
			h, err := b.Load(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if last := string(h.Records[len(h.Records)-1].Body); last != `{"gates":["G1"],"wake_at":"2030-01-02T03:04:05.000000006Z","wall_ms":1500}` {
				t.Fatalf("run.parked says %s", last)
			}
			b.acquire(run)
			if row := b.row(run); !row.WakeAt.IsZero() {
				t.Fatalf("a driven run still wakes at %v", row.WakeAt)
			}
		})
	}
}

// A correction that a continued segment has honoured does not keep it from
// parking; a cancel does, whenever it came.
func TestParkAfterContinue(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	l := b.acquire(run)
	b.write(run, flow.Draft{Kind: "run.correction_requested"})
	b.append(l, flow.Draft{Kind: "run.continued", Body: body(`{"state":{},"used":{},"limit":{},"wall_ms":0}`)})
	if parked, err := b.Park(l, flow.Parking{}); err != nil || !parked {
		t.Fatalf("parked %v: %v", parked, err)
	}
	l = b.acquire(run)
	b.write(run, flow.Draft{Kind: "run.cancel_requested"})
	b.append(l, flow.Draft{Kind: "run.continued", Body: body(`{"state":{},"used":{},"limit":{},"wall_ms":0}`)})
	if parked, err := b.Park(l, flow.Parking{}); err != nil || parked {
		t.Fatalf("a cancelled run parked %v: %v", parked, err)
	}
}

// A decision that arrives while its run parks is either found by the park or
// comes after it: never both, never neither.
func TestDecisionRacesWithPark(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	parkedOnce, foundOnce := false, false
	for range 40 {
		run := b.createDraft()
		l := b.acquire(run)
		b.append(l, gate("G1", "root/a"))
		seen := make(chan flow.Record, 10)
		stop := b.Watch(run, func(r flow.Record) { seen <- r })
		decided := make(chan error, 1)
		go func() { decided <- b.writeErr(run, resolve("G1", "approve", "command")) }()
		parked, err := b.Park(l, flow.Parking{Gates: []string{"G1"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-decided; err != nil {
			t.Fatal(err)
		}
		if r := <-seen; r.Kind != "policy.gate.resolve" {
			t.Fatalf("watched %s", r.Kind)
		}
		stop()
		kinds := b.kinds(run)
		last := kinds[len(kinds)-1]
		if parked != (last == "policy.gate.resolve" && kinds[len(kinds)-2] == "run.parked") {
			t.Fatalf("parked %v, but %v", parked, kinds)
		}
		parkedOnce, foundOnce = parkedOnce || parked, foundOnce || !parked
	}
	t.Logf("parked first: %v, decided first: %v", parkedOnce, foundOnce)
}

func TestForeignInterruptionReleases(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	l := b.acquire(run)
	err := b.Write(t.Context(), run, func(tx flow.Tx) ([]flow.Draft, error) {
		if tx.Row().Epoch != l.Epoch || tx.Row().Owner == nil {
			return nil, errors.New("another owner")
		}
		return []flow.Draft{{Kind: "run.interrupted", Body: body(`{"reason":"killed"}`)}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := appendErr(b, l, step("root/a")); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("append after the interruption: %v", err)
	}
	if row := b.row(run); row.Owned != "run.interrupted" || row.Owner != nil {
		t.Fatalf("row: %+v", row)
	}
}

func TestHeartbeatRenewsOwnLeases(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := make(chan time.Time, 1)
	clock <- now
	o := &Options{Options: store.Options{Now: func() time.Time { at := <-clock; clock <- at; return at }}}
	b := newBench(t, o)
	held, free := b.create(), b.create()
	b.acquire(held)
	<-clock
	clock <- now.Add(time.Minute)
	if err := b.db.Do(context.Background(), &store.Op{Apply: (*store.Tx).Heartbeat}); err != nil {
		t.Fatal(err)
	}
	if got := b.row(held).Heartbeat; !got.Equal(now.Add(time.Minute)) {
		t.Errorf("heartbeat at %v", got)
	}
	if got := b.row(free).Heartbeat; !got.IsZero() {
		t.Errorf("a run nobody holds has heartbeat %v", got)
	}
}

func TestWriteReturnsTheErrorOfItsFunction(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	head, mine := b.row(run).Head, errors.New("mine")
	err := b.Write(t.Context(), run, func(flow.Tx) ([]flow.Draft, error) {
		return []flow.Draft{{Kind: "run.cancel_requested"}}, mine
	})
	if err != mine || b.row(run).Head != head {
		t.Fatalf("err %v, head %d", err, b.row(run).Head)
	}
	if err := b.Write(t.Context(), run, func(flow.Tx) ([]flow.Draft, error) { panic("mine") }); err == nil {
		t.Fatal("a panic was no error")
	}
	b.write(run, flow.Draft{Kind: "run.cancel_requested"})
	if row := b.row(run); !row.Cancel {
		t.Fatal("the cancel is not in the row")
	}
}

package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

// NobodyLives is the options of a store in which every owner counts as dead.
func NobodyLives() *store.Options {
	return &store.Options{Alive: func(flow.Owner, time.Time) bool { return false }}
}

func testAcquire(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	if l.Epoch != 1 {
		t.Fatalf("first epoch is %d", l.Epoch)
	}
	for who, s := range map[string]*Bench{"this store": b, "another": b.Second(nil)} {
		if _, err := s.Acquire(t.Context(), run, Me); !errors.Is(err, flow.ErrBusy) {
			t.Fatalf("second owner, by %s, of a living one: %v", who, err)
		}
	}
	row := b.MustRun(run)
	if row.Owner == nil || *row.Owner != Me || row.Owned != "run.started" || row.Epoch != 1 || row.Heartbeat.IsZero() {
		t.Fatalf("row: %+v", row)
	}
	if parked, err := b.Park(l, flow.Parking{}); err != nil || !parked {
		t.Fatalf("park: %v %v", parked, err)
	}
	if row := b.MustRun(run); row.Owner != nil || row.Owned != "run.parked" {
		t.Fatalf("row of a parked run: %+v", row)
	}
	if l := b.MustAcquire(run); l.Epoch != 2 {
		t.Fatalf("second epoch is %d", l.Epoch)
	}
	want := []string{"intent.draft", "intent.compiled", "intent.accept", "plan.proposed", "run.started", "run.parked", "run.resumed"}
	if got := b.Kinds(run); !slices.Equal(got, want) {
		t.Fatalf("kinds: %v", got)
	}
	if _, err := b.Acquire(t.Context(), tipstaff.NewID(time.Now()).String(), Me); !errors.Is(err, flow.ErrNoRun) {
		t.Fatalf("unknown run: %v", err)
	}
}

func testSecondOwnerFencesTheFirst(t *testing.T, place Place) {
	b := place.Bench(t, NobodyLives())
	run := b.MustCreate()
	first := b.MustAcquire(run)
	b.MustAppend(first, Step("root/a"))
	second := b.MustAcquire(run)
	head := b.MustRun(run).Head
	if err := AppendErr(b, first, Step("root/b"), Step("root/c")); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("append of the first: %v", err)
	}
	if _, err := b.Park(first, flow.Parking{}); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("park of the first: %v", err)
	}
	if got := b.MustRun(run).Head; got != head {
		t.Fatalf("the fenced owner moved the head from %d to %d", head, got)
	}
	b.MustAppend(second, Step("root/b"))
}

func testNothingFollowsTheEnd(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	b.MustAppend(l, Gate("G1", "root/ok"), attest())
	head := b.MustRun(run).Head
	if err := AppendErr(b, l, Step("root/a")); !errors.Is(err, flow.ErrEnded) || !errors.Is(err, flow.ErrLeaseLost) {
		t.Errorf("append: %v", err)
	}
	if err := b.WriteDrafts(run, flow.Draft{Kind: "run.cancel_requested"}); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("write: %v", err)
	}
	if _, err := b.Acquire(t.Context(), run, Me); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("acquire: %v", err)
	}
	row := b.MustRun(run)
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

func testAppendRefuses(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	head := b.MustRun(run).Head
	for name, d := range map[string]flow.Draft{
		"an unknown kind":                 {Kind: "effect.imagined"},
		"an unsigned envelope":            {Kind: "policy.gate", Body: Gate("G", "p").Body},
		"a signed plain record":           {Kind: "plan.step", From: "executor"},
		"a body that is no JSON":          {Kind: "plan.step", Body: []byte("{")},
		"a body of two lines":             {Kind: "plan.step", Body: []byte("{\n}")},
		"a second draft":                  Begun(b.Keys())[0],
		"a transition that is not legal":  {Kind: "intent.compiled", From: "executor", Body: Body(`{"attempts":0}`)},
		"an ownership record":             {Kind: "run.resumed"},
		"a signer that does not exist":    {Kind: "policy.gate", From: "nobody", Body: Gate("G", "p").Body},
		"an envelope with a wrong body":   {Kind: "policy.gate", From: "executor", Body: Body(`{"gate":"G"}`)},
		"the executor for the user":       {Kind: "intent.cancel", From: "executor", Body: Body(`{"reason":"r","via":"command","cited":[],"evidence":{}}`)},
		"a decision of a gate never open": Resolve("G9", "approve", "command"),
		"an id that is none":              {Kind: "policy.gate", From: "executor", ID: "x", Body: Gate("G", "p").Body},
		"an id of a plain record":         {Kind: "plan.step", ID: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"},
	} {
		if err := AppendErr(b, l, Step("root/a"), d); err == nil {
			t.Errorf("%s was stored", name)
		}
		if got := b.MustRun(run); got.Head != head || got.State != "executing" {
			t.Fatalf("%s left head %d, state %s", name, got.Head, got.State)
		}
	}
	b.MustAppend(l, Step("root/a"))
	b.MustVerify(run)
}

func testPark(t *testing.T, place Place) {
	t.Parallel()
	wake := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, c := range []struct {
		name    string
		foreign []flow.Draft
		parked  bool
	}{
		{"nothing happened", nil, true},
		{"the gate was decided", []flow.Draft{Resolve("G1", "approve", "command")}, false},
		{"another gate was decided", []flow.Draft{Resolve("G2", "approve", "command")}, true},
		{"a cancel is stored", []flow.Draft{{Kind: "run.cancel_requested"}}, false},
		{"a correction is stored", []flow.Draft{{Kind: "run.correction_requested"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := place.Bench(t, nil)
			run := b.MustCreate()
			l := b.MustAcquire(run)
			b.MustAppend(l, Gate("G1", "root/a"), Gate("G2", "root/b"))
			if c.foreign != nil {
				b.MustWrite(run, c.foreign...)
			}
			head := b.MustRun(run).Head
			parked, err := b.Park(l, flow.Parking{Gates: []string{"G1"}, WakeAt: wake, Wall: 1500 * time.Millisecond})
			if err != nil || parked != c.parked {
				t.Fatalf("parked %v: %v", parked, err)
			}
			row := b.MustRun(run)
			if !parked {
				if row.Head != head || row.Owner == nil {
					t.Fatalf("a park that did not happen left %+v", row)
				}
				b.MustAppend(l, Step("root/c"))
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
			b.MustAcquire(run)
			if row := b.MustRun(run); !row.WakeAt.IsZero() {
				t.Fatalf("a driven run still wakes at %v", row.WakeAt)
			}
		})
	}
}

// A correction that a continued segment has honoured does not keep it from
// parking; a cancel does, whenever it came.
func testParkAfterContinue(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	b.MustWrite(run, flow.Draft{Kind: "run.correction_requested"})
	b.MustAppend(l, flow.Draft{Kind: "run.continued", Body: Body(`{"state":{},"used":{},"limit":{},"wall_ms":0}`)})
	if parked, err := b.Park(l, flow.Parking{}); err != nil || !parked {
		t.Fatalf("parked %v: %v", parked, err)
	}
	l = b.MustAcquire(run)
	b.MustWrite(run, flow.Draft{Kind: "run.cancel_requested"})
	b.MustAppend(l, flow.Draft{Kind: "run.continued", Body: Body(`{"state":{},"used":{},"limit":{},"wall_ms":0}`)})
	if parked, err := b.Park(l, flow.Parking{}); err != nil || parked {
		t.Fatalf("a cancelled run parked %v: %v", parked, err)
	}
}

// A decision that arrives while its run parks is either found by the park or
// comes after it: never both, never neither.
func testDecisionRacesWithPark(t *testing.T, place Place) {
	t.Parallel()
	b := place.Bench(t, nil)
	parkedOnce, foundOnce := false, false
	for range 40 {
		run := b.MustCreateDraft()
		l := b.MustAcquire(run)
		b.MustAppend(l, Gate("G1", "root/a"))
		seen := make(chan flow.Record, 10)
		stop := b.Watch(run, func(r flow.Record) { seen <- r })
		decided := make(chan error, 1)
		go func() { decided <- b.WriteDrafts(run, Resolve("G1", "approve", "command")) }()
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
		kinds := b.Kinds(run)
		last := kinds[len(kinds)-1]
		if parked != (last == "policy.gate.resolve" && kinds[len(kinds)-2] == "run.parked") {
			t.Fatalf("parked %v, but %v", parked, kinds)
		}
		parkedOnce, foundOnce = parkedOnce || parked, foundOnce || !parked
	}
	t.Logf("parked first: %v, decided first: %v", parkedOnce, foundOnce)
}

func testForeignInterruptionReleases(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	err := b.Write(t.Context(), run, func(tx flow.Tx) ([]flow.Draft, error) {
		if tx.Row().Epoch != l.Epoch || tx.Row().Owner == nil {
			return nil, errors.New("another owner")
		}
		return []flow.Draft{{Kind: "run.interrupted", Body: Body(`{"reason":"killed"}`)}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := AppendErr(b, l, Step("root/a")); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("append after the interruption: %v", err)
	}
	if row := b.MustRun(run); row.Owned != "run.interrupted" || row.Owner != nil {
		t.Fatalf("row: %+v", row)
	}
}

func testHeartbeatRenewsOwnLeases(t *testing.T, place Place) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := make(chan time.Time, 1)
	clock <- now
	o := &store.Options{Now: func() time.Time { at := <-clock; clock <- at; return at }}
	b := place.Bench(t, o)
	held, free := b.MustCreate(), b.MustCreate()
	b.MustAcquire(held)
	<-clock
	clock <- now.Add(time.Minute)
	if err := b.DB.Do(context.Background(), &store.Op{Apply: (*store.Tx).Heartbeat}); err != nil {
		t.Fatal(err)
	}
	if got := b.MustRun(held).Heartbeat; !got.Equal(now.Add(time.Minute)) {
		t.Errorf("heartbeat at %v", got)
	}
	if got := b.MustRun(free).Heartbeat; !got.IsZero() {
		t.Errorf("a run nobody holds has heartbeat %v", got)
	}
}

func testWriteReturnsTheErrorOfItsFunction(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	head, mine := b.MustRun(run).Head, errors.New("mine")
	err := b.Write(t.Context(), run, func(flow.Tx) ([]flow.Draft, error) {
		return []flow.Draft{{Kind: "run.cancel_requested"}}, mine
	})
	if err != mine || b.MustRun(run).Head != head {
		t.Fatalf("err %v, head %d", err, b.MustRun(run).Head)
	}
	if err := b.Write(t.Context(), run, func(flow.Tx) ([]flow.Draft, error) { panic("mine") }); err == nil {
		t.Fatal("a panic was no error")
	}
	b.MustWrite(run, flow.Draft{Kind: "run.cancel_requested"})
	if row := b.MustRun(run); !row.Cancel {
		t.Fatal("the cancel is not in the row")
	}
}

// What fails because of what others do in the same transaction fails only if that is stored.
func testAFailureIsOfWhatIsStored(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	first, known := errors.New("somebody was faster"), errors.New("it is cancelled already")
	for try, together := 0, false; !together; try++ {
		if try == 1000 {
			t.Fatal("they never met in one transaction")
		}
		run, busy, release := b.MustCreate(), make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { // while this one is written the others gather
			_ = b.Write(t.Context(), run, func(flow.Tx) ([]flow.Draft, error) { close(busy); <-release; return nil, nil })
		})
		<-busy
		times := 0
		all.Go(func() {
			if err := b.Write(t.Context(), run, func(flow.Tx) ([]flow.Draft, error) {
				if times++; times > 1 {
					return nil, first
				}
				return []flow.Draft{{Kind: "run.cancel_requested"}}, nil
			}); times > 1 && err != first {
				t.Errorf("the first: %v", err)
			}
		})
		all.Go(func() {
			err := b.Write(t.Context(), run, func(tx flow.Tx) ([]flow.Draft, error) {
				if tx.Row().Cancel {
					return nil, known
				}
				return nil, nil
			})
			if stored := b.MustRun(run).Cancel; err != nil && !stored {
				t.Errorf("it fails for what was never stored: %v", err)
			}
		})
		close(release)
		all.Wait()
		together = times > 1
	}
}

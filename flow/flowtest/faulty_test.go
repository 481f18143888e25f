package flowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// events are drafts that can be told apart.
func event(n int) flow.Draft {
	return flow.Draft{Kind: fmt.Sprintf("event.%d", n), N: n, Path: "root", Body: flow.JSON(n)}
}

func acquire(t *testing.T, log flow.Log) flow.Lease {
	t.Helper()
	l, err := log.Acquire(context.Background(), "run", flow.Owner{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// stored are the kinds of a run's records but the first, its beginning.
func stored(mem *flow.Mem) []string { return journal(mem.Records("run")).kinds()[1:] }

func TestFaultyStoresInOrder(t *testing.T) {
	mem := flow.NewMem()
	f := NewFaulty(mem)
	l := acquire(t, f)
	done := make(chan error, 20)
	var want []string
	for n := range 20 {
		f.Append(l, []flow.Draft{event(n + 1)}, func(err error) { done <- err })
		want = append(want, event(n+1).Kind)
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if got := stored(mem); !slices.Equal(got, want) {
		t.Fatalf("stored %v, want %v", got, want)
	}
}

func TestFaultyFailsAtTheChosenWrite(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  []error // of three appends, the second faulty
		kept  []string
	}{
		{Pass, []error{nil, nil, nil}, []string{"event.1", "event.2", "event.3"}},
		{KillBefore, []error{nil, ErrKilled, ErrKilled}, []string{"event.1"}},
		{KillAfter, []error{nil, ErrKilled, ErrKilled}, []string{"event.1", "event.2"}},
		{Full, []error{nil, flow.ErrStoreFull, nil}, []string{"event.1", "event.3"}},
		{Down, []error{nil, flow.ErrStoreDown, nil}, []string{"event.1", "event.3"}},
		{Fenced, []error{nil, flow.ErrLeaseLost, nil}, []string{"event.1", "event.3"}},
	} {
		mem := flow.NewMem()
		f := NewFaulty(mem)
		f.Before = func(w Write) Fault {
			if w.Has("event.2") {
				return c.fault
			}
			return Pass
		}
		l := acquire(t, f)
		for n, want := range c.want {
			if err := appendNow(f, l, event(n+1)); !errors.Is(err, want) {
				t.Errorf("fault %d: append %d answered %v, want %v", c.fault, n+1, err, want)
			}
		}
		if got := stored(mem); !slices.Equal(got, c.kept) {
			t.Errorf("fault %d: stored %v, want %v", c.fault, got, c.kept)
		}
	}
}

func TestFaultyIsSilentWhenDead(t *testing.T) {
	mem := flow.NewMem()
	f := NewFaulty(mem)
	l := acquire(t, f)
	told := 0
	defer f.Watch("run", func(flow.Record) { told++ })()
	f.Kill()
	if err := mem.Write("run", flow.Draft{Kind: "run.cancel_requested", Body: flow.JSON(nil)}); err != nil {
		t.Fatal(err)
	}
	if told != 0 {
		t.Errorf("a dead process was told of a record")
	}
	if _, err := f.Park(l, flow.Parking{}); !errors.Is(err, ErrKilled) {
		t.Errorf("park answered %v", err)
	}
	if _, err := f.Load(context.Background(), "run"); !errors.Is(err, ErrKilled) {
		t.Errorf("load answered %v", err)
	}
	if _, err := f.Acquire(context.Background(), "run", flow.Owner{}); !errors.Is(err, ErrKilled) {
		t.Errorf("acquire answered %v", err)
	}
}

func TestFaultyCutsAnySuffix(t *testing.T) {
	for keep := range 5 {
		mem := flow.NewMem()
		f := NewFaulty(mem)
		l := acquire(t, f)
		f.Hold()
		done := make(chan error, 4)
		var want []string
		for n := range 4 {
			f.Append(l, []flow.Draft{event(n + 1)}, func(err error) { done <- err })
			if n < keep {
				want = append(want, event(n+1).Kind)
			}
		}
		if n := len(f.Pending("run")); n != 4 {
			t.Fatalf("%d writes are pending, want 4", n)
		}
		if err := f.KillKeeping("run", keep); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := <-done; !errors.Is(err, ErrKilled) {
				t.Errorf("keeping %d: an append answered %v", keep, err)
			}
		}
		if got := stored(mem); !slices.Equal(got, want) {
			t.Errorf("keeping %d: stored %v", keep, got)
		}
	}
}

func TestFaultyKnowsLateWrites(t *testing.T) {
	f := NewFaulty(flow.NewMem())
	l := acquire(t, f)
	f.Seal()
	_ = appendNow(f, l, event(1))
	if late := f.Late(); len(late) != 1 || !late[0].Has("event.1") {
		t.Errorf("late are %v", late)
	}
}

package flowtest

import (
	"context"
	"errors"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// beside: what is written to another run is stored with the record that brings it,
// or neither is.
func beside(t *testing.T, open opener) {
	t.Run("both are stored, each in its own journal", func(t *testing.T) { besideStored(t, open) })
	t.Run("one that refuses fails the whole append", func(t *testing.T) { besideRefused(t, open) })
	t.Run("a run that has ended, or is none, takes nothing", func(t *testing.T) { besideEnded(t, open) })
	t.Run("a kill on either side of the end of a run", func(t *testing.T) { besideKilled(t, open) })
}

const besideKind = "draft.updated"

// twoRuns are a run that writes and one that is written to. The other one exists.
func twoRuns(t *testing.T, open opener) (r, other *rig) {
	bed := open(t)
	r = newRun(t, bed, program(calling(call(flow.Read, "a", 1))))
	other = newRun(t, bed, nil)
	other.write(besideKind, map[string]any{"version": 1})
	return r, other
}

// updating writes one record to the other run.
func (r *rig) updating() *flow.Beside {
	return &flow.Beside{Run: r.run, Write: func(flow.Tx) ([]flow.Draft, error) {
		return []flow.Draft{{Kind: besideKind, Body: flow.JSON(map[string]any{"version": 2})}}, nil
	}}
}

func (r *rig) acquire() flow.Lease {
	r.t.Helper()
	l, err := r.bed.Log().Acquire(context.Background(), r.run, r.bed.Owner())
	if err != nil {
		r.t.Fatalf("acquiring: %v", err)
	}
	return l
}

func said(text string, b *flow.Beside) flow.Draft {
	return flow.Draft{Kind: "agent.said", Path: "root", Note: true, Body: flow.JSON(map[string]any{"text": text}), Beside: b}
}

func besideStored(t *testing.T, open opener) {
	r, other := twoRuns(t, open)
	l := r.acquire()
	own, had := len(r.journal()), len(other.journal())
	b := other.updating()
	write := b.Write
	b.Write = func(tx flow.Tx) ([]flow.Draft, error) {
		if row := tx.Row(); row.ID != other.run || row.Head != int64(had) {
			t.Errorf("it sees run %s up to record %d, want %s up to %d", row.ID, row.Head, other.run, had)
		}
		return write(tx)
	}
	if err := appendNow(r.bed.Log(), l, said("one", nil), said("two", b), said("three", nil)); err != nil {
		t.Fatal(err)
	}
	if got := r.journal()[own:]; len(got) != 3 || got[1].Epoch != l.Epoch || got[2].Seq != int64(own+3) {
		t.Errorf("of the run itself:%v", got)
	}
	got := other.journal()[had:]
	if len(got) != 1 || got[0].Kind != besideKind || got[0].Seq != int64(had+1) || got[0].Epoch != 0 {
		t.Errorf("of the other run:%v", got)
	}
}

func besideRefused(t *testing.T, open opener) {
	r, other := twoRuns(t, open)
	l := r.acquire()
	own, had := len(r.journal()), len(other.journal())
	refusal := errors.New("not now")
	refused := &flow.Beside{Run: other.run, Write: func(flow.Tx) ([]flow.Draft, error) { return nil, refusal }}
	err := appendNow(r.bed.Log(), l, said("one", other.updating()), said("two", refused))
	if !errors.Is(err, refusal) {
		t.Errorf("the append says %v", err)
	}
	if len(r.journal()) != own || len(other.journal()) != had {
		t.Errorf("something was stored:%v\n%v", r.journal()[own:], other.journal()[had:])
	}
	if err := appendNow(r.bed.Log(), l, said("three", other.updating())); err != nil {
		t.Errorf("the owner cannot go on: %v", err)
	}
	if len(r.journal()) != own+1 || len(other.journal()) != had+1 {
		t.Errorf("after that:%v\n%v", r.journal()[own:], other.journal()[had:])
	}
}

func besideEnded(t *testing.T, open opener) {
	r, _ := twoRuns(t, open)
	other := newRun(t, r.bed, program(calling(call(flow.Read, "a", 1))))
	other.want(flow.Completed)
	l := r.acquire()
	own, had := len(r.journal()), len(other.journal())
	if err := appendNow(r.bed.Log(), l, said("one", other.updating())); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("the append says %v", err)
	}
	missing := &flow.Beside{Run: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Write: func(flow.Tx) ([]flow.Draft, error) { return nil, nil }}
	if err := appendNow(r.bed.Log(), l, said("one", missing)); !errors.Is(err, flow.ErrNoRun) {
		t.Errorf("of a run that does not exist, the append says %v", err)
	}
	if len(r.journal()) != own || len(other.journal()) != had {
		t.Errorf("something was stored:%v\n%v", r.journal()[own:], other.journal()[had:])
	}
}

func besideKilled(t *testing.T, open opener) {
	for name, fault := range map[string]Fault{"before": KillBefore, "after": KillAfter} {
		t.Run(name, func(t *testing.T) {
			r, other := twoRuns(t, open)
			r.beside = other.updating()
			had := len(other.journal())
			r.crash(killAt(r, fault, func(w Write) bool { return w.Has("intent.attest") }))
			ended := r.journal().ended() != ""
			if told := len(other.journal()) > had; told != ended || ended != (fault == KillAfter) {
				t.Fatalf("the run has ended: %v, the other one was told: %v%v", ended, told, r.journal())
			}
			if !ended {
				r.want(flow.Completed)
			}
			if n := len(other.journal()) - had; n != 1 {
				t.Errorf("the other one was told %d times%v", n, other.journal())
			}
		})
	}
}

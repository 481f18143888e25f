package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// pipeline makes a run that belongs where the row says.
func (b *Bench) pipeline(row flow.NewRun, drafts ...flow.Draft) (string, error) {
	row.ID, row.Kind = tipstaff.NewID(time.Now()).String(), "pipeline"
	return row.ID, b.Create(context.Background(), row, append(Begun(b.Keys()), drafts...))
}

// MustPipeline makes a run of a pipeline.
func (b *Bench) MustPipeline(row flow.NewRun) string {
	b.Helper()
	id, err := b.pipeline(row)
	if err != nil {
		b.Fatal(err)
	}
	return id
}

func (b *Bench) find(q flow.Query) (ids []string) {
	b.Helper()
	rows, err := b.Runs(context.Background(), q)
	if err != nil {
		b.Fatal(err)
	}
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids
}

// endOf ends another run in the transaction of the record that carries it.
func endOf(run string) *flow.Beside {
	return &flow.Beside{Run: run, Write: func(flow.Tx) ([]flow.Draft, error) {
		return []flow.Draft{{Kind: "intent.cancel", From: "executor",
			Body: Body(`{"reason":"","via":"rollback","cited":[],"on_behalf_of":"local:cli","evidence":{}}`)}}, nil
	}}
}

func testThreadHasOneUnfinishedRun(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	first := b.MustPipeline(flow.NewRun{User: "ann", Envelope: "env_1", Thread: "t"})
	if _, err := b.pipeline(flow.NewRun{User: "ann", Envelope: "env_2", Thread: "t"}); !errors.Is(err, flow.ErrThreadBusy) {
		t.Errorf("a second run of the thread: %v", err)
	}
	b.MustPipeline(flow.NewRun{User: "bob", Envelope: "env_3", Thread: "t"}) // whose thread is another
	if got := b.find(flow.Query{User: "ann", Thread: "t"}); !slices.Equal(got, []string{first}) {
		t.Errorf("the thread has the runs %v", got)
	}
	b.MustAppend(b.MustAcquire(first), attest())
	second := b.MustPipeline(flow.NewRun{User: "ann", Envelope: "env_2", Thread: "t"})
	if got := b.find(flow.Query{User: "ann", Thread: "t"}); !slices.Equal(got, []string{second, first}) {
		t.Errorf("the thread has the runs %v", got)
	}
	b.MustVerify(first)
}

func testRunTakesTheThreadOver(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	first := b.MustPipeline(flow.NewRun{User: "ann", Envelope: "env_1", Request: "r", Thread: "t"})
	moved := flow.NewRun{User: "ann", Envelope: "env_1", Request: "r", Thread: "t", Base: first, BaseSeq: 1, After: first}
	forked := flow.Draft{Kind: "run.forked", Body: Body(`{}`)}
	if _, err := b.pipeline(moved, forked); !errors.Is(err, flow.ErrThreadBusy) {
		t.Errorf("beside one that goes on: %v", err)
	}
	if state := b.MustRun(first).State; state != "executing" {
		t.Fatalf("what was refused left the first run %s", state)
	}
	forked.Beside = endOf(first)
	second, err := b.pipeline(moved, forked)
	if err != nil {
		t.Fatal(err)
	}
	if state := b.MustRun(first).State; state != "cancelled" {
		t.Errorf("the first run is %s", state)
	}
	forked.Beside = endOf(second)
	if _, err := b.pipeline(moved, forked); !errors.Is(err, flow.ErrThreadBusy) {
		t.Errorf("after a run that is no longer the last: %v", err)
	}
	if got := b.find(flow.Query{Envelope: "env_1"}); !slices.Equal(got, []string{second, first}) {
		t.Errorf("the Envelope has the runs %v", got)
	}
	b.MustVerify(first)
	b.MustVerify(second)
}

// What a run is to end beside it must be there to be ended, or there is no run.
func testBesideRefusesARun(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	first := b.MustPipeline(flow.NewRun{User: "ann", Envelope: "env_1", Thread: "t"})
	refusal := errors.New("it has moved")
	id, err := b.pipeline(flow.NewRun{User: "ann", Envelope: "env_1", Thread: "t", Base: first, BaseSeq: 1, After: first},
		flow.Draft{Kind: "run.forked", Body: Body(`{}`), Beside: &flow.Beside{Run: first, Write: func(tx flow.Tx) ([]flow.Draft, error) {
			if row := tx.Row(); row.ID != first || row.Thread != "t" {
				t.Errorf("it was shown %+v", row)
			}
			return nil, refusal
		}}})
	if err != refusal {
		t.Errorf("creating: %v", err)
	}
	if _, err := b.Run(t.Context(), id); !errors.Is(err, flow.ErrNoRun) {
		t.Errorf("there is a run: %v", err)
	}
}

func testRequestMakesOneEnvelope(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	first := b.MustPipeline(flow.NewRun{User: "ann", Envelope: "env_1", Request: "r"})
	b.MustAppend(b.MustAcquire(first), attest())
	if _, err := b.pipeline(flow.NewRun{User: "ann", Envelope: "env_2", Request: "r"}); !errors.Is(err, flow.ErrRequestKnown) {
		t.Errorf("the same request again: %v", err)
	}
	b.MustPipeline(flow.NewRun{User: "bob", Envelope: "env_2", Request: "r"})
	if got := b.find(flow.Query{User: "ann", Request: "r"}); !slices.Equal(got, []string{first}) {
		t.Errorf("the request has the runs %v", got)
	}
	if row := b.MustRun(first); row.Envelope != "env_1" || row.Request != "r" || row.Thread != "" {
		t.Errorf("the row is %+v", row)
	}
}

// Only one of those who come at the same time gets the thread.
func testThreadRace(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	const rivals = 20
	errs := make(chan error, rivals)
	for range rivals {
		go func() {
			_, err := b.pipeline(flow.NewRun{User: "ann", Envelope: tipstaff.NewID(time.Now()).String(), Thread: "t"})
			errs <- err
		}()
	}
	won := 0
	for range rivals {
		switch err := <-errs; {
		case err == nil:
			won++
		case !errors.Is(err, flow.ErrThreadBusy):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d have got it", won)
	}
}

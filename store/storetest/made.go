package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// A run that has none of its intent records could be driven and never end.
func testCreateWithoutADraft(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	for name, drafts := range map[string][]flow.Draft{"nothing": nil, "an acceptance alone": Begun(b.Keys())[2:]} {
		id := tipstaff.NewID(time.Now()).String()
		err := b.Create(t.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, drafts)
		if err == nil || !strings.Contains(err.Error(), "intent.draft") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.Run(t.Context(), id); err == nil {
			t.Errorf("%s: the run is there", name)
		}
	}
}

// A run that can never complete does nothing: it is driven when it has the records that it
// lacks, or to its end when it was cancelled.
func testDriveOfARunThatCannotComplete(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	for n, lacks := range map[int]string{1: "no intent.compiled, no intent.accept, no plan.proposed", 2: "no intent.accept, no plan.proposed", 3: "no plan.proposed"} {
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d records, cancelled %v", n, cancelled), func(t *testing.T) {
				id, drafts, calls := tipstaff.NewID(time.Now()).String(), Begun(b.Keys()), 0
				if err := b.Create(t.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, drafts[:n]); err != nil {
					t.Fatal(err)
				}
				write := func(drafts ...flow.Draft) {
					t.Helper()
					if err := b.Store.Write(t.Context(), id, func(flow.Tx) ([]flow.Draft, error) { return drafts, nil }); err != nil {
						t.Fatal(err)
					}
				}
				drive := func() flow.Outcome {
					t.Helper()
					out, err := flow.New(b, nil).Drive(t.Context(), flow.Job{Run: id, Root: "root", Owner: Me,
						Acts: map[string]flow.Activity{"pay": {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
							calls++
							return flow.Done{Value: json.RawMessage(`1`)}, nil
						}}},
						Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
							r, err := fc.Do(flow.Call{Key: "pay", Name: "pay", Class: flow.Once})
							return r.Value, err
						}})
					if err != nil {
						t.Fatal(err)
					}
					return out
				}
				if cancelled {
					write(flow.Draft{Kind: flow.KindRunCancelRequested, Body: json.RawMessage(`{}`)})
					if out := drive(); out.Status != flow.Cancelled || calls != 0 {
						t.Errorf("%+v after %d calls", out, calls)
					}
					return
				}
				if out := drive(); out.Status != flow.Interrupted || out.Reason != "misuse" || calls != 0 || !strings.Contains(out.Err.Error(), "it has "+lacks+", and") {
					t.Fatalf("%+v after %d calls", out, calls)
				}
				write(drafts[n:]...)
				if out := drive(); out.Status != flow.Completed || calls != 1 {
					t.Errorf("%+v after %d calls", out, calls)
				}
			})
		}
	}
}

// What a job without a Finish comes to is stored with its end, and the run can be exported.
func testExportOfAPlainEnd(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	program, err := b.PutBlob(t.Context(), []byte(`{"kind":"plan"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]json.RawMessage{"a value": json.RawMessage(`{"tx":"7"}`), "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			id := tipstaff.NewID(time.Now()).String()
			drafts := Begun(b.Keys())
			for i := range drafts {
				drafts[i].Body = json.RawMessage(strings.ReplaceAll(string(drafts[i].Body), `"program_digest":"`+ZeroDigest, `"program_digest":"`+program))
			}
			if err := b.Create(t.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan", Program: program}, drafts); err != nil {
				t.Fatal(err)
			}
			out, err := flow.New(b, nil).Drive(t.Context(), flow.Job{Run: id, Root: "root", Owner: Me,
				Flow: func(flow.Context, json.RawMessage) (json.RawMessage, error) { return value, nil }})
			if err != nil || out.Status != flow.Completed {
				t.Fatalf("%+v, %v", out, err)
			}
			dir := filepath.Join(t.TempDir(), "proof")
			if err := journal.Export(dir, b.source(id)); err != nil {
				t.Fatal(err)
			}
			res, err := journal.VerifyExport(dir, &journal.Options{Trusted: []journal.PublicKey{b.Keys().User, b.Keys().Executor}})
			if err != nil || len(res.Faults) > 0 {
				t.Errorf("%v, %v", res.Faults, err)
			}
		})
	}
}

// All of the text that a run without a Finish of its own failed with is kept with its end.
func testTextOfAPlainFailure(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	id, text := tipstaff.NewID(time.Now()).String(), strings.Repeat("x", 5<<20)
	if err := b.Create(t.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, Begun(b.Keys())); err != nil {
		t.Fatal(err)
	}
	out, err := flow.New(b, nil).Drive(t.Context(), flow.Job{Run: id, Root: "root", Owner: Me,
		Keep: func(text []byte) (string, error) { return b.PutBlob(context.Background(), text) },
		Flow: func(flow.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New(text) }})
	if err != nil || out.Status != flow.Failed {
		t.Fatalf("%s, %v", out.Status, err)
	}
	records, err := b.Store.Records(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	end, whole := records[len(records)-1], flow.Digest([]byte(text))
	if len(end.Bytes) > 2*flow.MostMessage || !strings.Contains(string(end.Bytes), whole) {
		t.Errorf("%s has %d bytes", end.Kind, len(end.Bytes))
	}
	if kept, err := b.Keeps(t.Context(), id, whole); err != nil || !kept {
		t.Errorf("the run keeps its text: %v, %v", kept, err)
	}
}

// source is what an export of a run is made from.
func (b *Bench) source(run string) journal.Source {
	return journal.Source{Run: run,
		Records: func(run string, _ int64) iter.Seq2[[]byte, error] {
			return func(yield func([]byte, error) bool) {
				records, err := b.Store.Records(context.Background(), run, 0, 1000)
				if err != nil {
					yield(nil, err)
				}
				for _, r := range records {
					if !yield(r.Bytes, nil) {
						return
					}
				}
			}
		},
		Blob: func(h journal.Hash) ([]byte, error) { return b.Blob(context.Background(), h.String()) }}
}

package storetest

import (
	"context"
	"encoding/json"
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

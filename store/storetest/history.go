package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func continued() flow.Draft {
	return flow.Draft{Kind: "run.continued", Body: Body(`{"state":{},"used":{},"limit":{},"wall_ms":0}`)}
}

func (b *Bench) load(run string) flow.History {
	b.Helper()
	h, err := b.Load(b.Context(), run)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// paths are those of the steps in records.
func paths(records []flow.Record) (paths string) {
	for _, r := range records {
		switch r.Kind {
		case "effect.finished":
			paths += r.Path + " "
		case "run.continued":
			paths += "| "
		}
	}
	return strings.TrimSpace(paths)
}

func (b *Bench) fork(source string, at int64) string {
	b.Helper()
	id := tipstaff.NewID(time.Now()).String()
	if err := b.Create(b.Context(), flow.NewRun{ID: id, User: "local", Base: source, BaseSeq: at}, Begun(b.Keys())); err != nil {
		b.Fatal(err)
	}
	return id
}

func testLoadGivesThePresentSegment(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	b.MustAppend(l, Step("a"))
	if h := b.load(run); h.Segment != 0 || paths(h.Records) != "a" || len(h.Records) != 6 {
		t.Fatalf("segment %d: %s", h.Segment, paths(h.Records))
	}
	b.MustAppend(l, continued(), Step("b"))
	b.MustAppend(l, continued(), Step("c"), Step("d"))
	h := b.load(run)
	if h.Segment != 2 || paths(h.Records) != "| c d" || h.Base != nil {
		t.Fatalf("segment %d: %s", h.Segment, paths(h.Records))
	}
	if row := b.MustRun(run); row.Cont != h.Records[0].Seq {
		t.Fatalf("the row says %d, the segment begins at %d", row.Cont, h.Records[0].Seq)
	}
}

// A cancel is seen by every segment, for it holds until the run ends.
func testLoadGivesACancelOfAnEarlierSegment(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	b.MustWrite(run, flow.Draft{Kind: "run.cancel_requested"})
	b.MustAppend(l, Step("a"), continued(), Step("b"))
	h := b.load(run)
	var kinds []string
	for _, r := range h.Records {
		kinds = append(kinds, fmt.Sprint(r.Seq, " ", r.Kind))
	}
	if want := []string{"8 run.continued", "6 run.cancel_requested", "9 effect.finished"}; !slices.Equal(kinds, want) {
		t.Fatalf("records: %v", kinds)
	}
}

func testEnvelopesKeepTheIDTheyAreGiven(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	d := Gate("G1", "root/ok")
	d.ID = tipstaff.NewID(time.Now()).String()
	b.MustAppend(b.MustAcquire(run), d)
	records := b.load(run).Records
	if got := records[len(records)-1].ID; got != d.ID {
		t.Fatalf("id %s, want %s", got, d.ID)
	}
	if made := records[0].ID; made == "" || made == d.ID {
		t.Fatalf("the store made the id %q", made)
	}
	b.MustVerify(run)
}

func testLoadGivesRecordsAsTheyWereDrafted(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	drafts := []flow.Draft{
		{Kind: "plan.step", Path: "root/a", N: 3, Body: Body(`{"node":"a"}`)},
		{Kind: "worker.event", Path: "root/a", Note: true, Body: Body(`{"line":"é\u0000 \"quoted\""}`)},
		{Kind: "clock.read", Path: "root", Body: Body(`{"t":"2026-01-01T00:00:00.000000000Z"}`)},
	}
	b.MustAppend(l, drafts...)
	records := b.load(run).Records[5:]
	for i, want := range drafts {
		if diff := cmp.Diff(want, records[i].Draft); diff != "" {
			t.Errorf("record %d (-drafted +loaded):\n%s", i, diff)
		}
		if records[i].Epoch != l.Epoch || records[i].At.IsZero() || records[i].Seq != int64(6+i) {
			t.Errorf("record %d: %+v", i, records[i])
		}
	}
}

func testForksInherit(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	source := b.MustCreate()
	l := b.MustAcquire(source)
	b.MustAppend(l, Step("a"), continued(), Step("b"), Step("c")) // seq 6 to 9

	fork := b.fork(source, 8)
	if h := b.load(fork); paths(h.Base) != "| b" || paths(h.Records) != "" || h.Segment != 1 {
		t.Fatalf("fork: base %q, own %q, segment %d", paths(h.Base), paths(h.Records), h.Segment)
	}
	fl := b.MustAcquire(fork)
	b.MustAppend(fl, Step("d"), Step("e")) // seq 6 and 7

	second := b.fork(fork, 6)
	if h := b.load(second); paths(h.Base) != "| b d" || h.Segment != 1 {
		t.Fatalf("fork of a fork: base %q, segment %d", paths(h.Base), h.Segment)
	}
	b.MustAppend(fl, continued(), Step("f")) // seq 8 and 9
	if h := b.load(fork); h.Base != nil || paths(h.Records) != "| f" || h.Segment != 2 {
		t.Fatalf("continued fork: base %q, own %q, segment %d", paths(h.Base), paths(h.Records), h.Segment)
	}
	third := b.fork(fork, 9)
	if h := b.load(third); paths(h.Base) != "| f" || h.Segment != 2 {
		t.Fatalf("fork of a continued fork: base %q, segment %d", paths(h.Base), h.Segment)
	}
	early := b.fork(source, 6)
	if h := b.load(early); paths(h.Base) != "a" || h.Segment != 0 {
		t.Fatalf("early fork: base %q, segment %d", paths(h.Base), h.Segment)
	}
	for _, at := range []int64{0, 10, 99} {
		err := b.Create(t.Context(), flow.NewRun{ID: tipstaff.NewID(time.Now()).String(), Base: source, BaseSeq: at}, Begun(b.Keys()))
		if err == nil {
			t.Errorf("forked at record %d of 9", at)
		}
	}
}

func testPayloadsAreKeptAsBlobs(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	value := fmt.Sprintf("%q", strings.Repeat("v", 64<<10))
	b.MustAppend(b.MustAcquire(run), flow.Draft{Kind: "effect.finished", Path: "a", Body: Body(`{"value":%s}`, value)})
	h := b.load(run)
	var got struct {
		Value struct {
			Blob string `json:"$blob"`
			Size int    `json:"size"`
		} `json:"value"`
	}
	if err := json.Unmarshal(h.Records[5].Body, &got); err != nil || got.Value.Size != len(value) {
		t.Fatalf("%s: %v", h.Records[5].Body, err)
	}
	blob, err := h.Blob(got.Value.Blob)
	if err != nil || string(blob) != value {
		t.Fatalf("blob of %d bytes: %v", len(blob), err)
	}
	if _, err := b.PutBlob(t.Context(), make([]byte, 16<<20+1)); err == nil || !strings.Contains(err.Error(), "result_too_large") {
		t.Fatalf("a blob over the limit: %v", err)
	}
}

// The fold in the row, and the records after it, give what folding them all
// gives.
func testRowTakesTheFold(t *testing.T, place Place) {
	t.Parallel()
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	var many []flow.Draft
	for i := range 1000 + 10 {
		many = append(many, flow.Draft{Kind: "plan.step", Path: fmt.Sprintf("root/%d", i), N: 1, Body: Body(`{"node":"n","status":"completed"}`)})
	}
	b.MustAppend(l, many...)
	row := b.MustRun(run)
	if row.Head-row.FoldSeq >= 1000 {
		t.Fatalf("the fold is of record %d, the head %d", row.FoldSeq, row.Head)
	}
	b.MustAppend(l, Gate("G1", "root/ok"), Step("root/x"))
	row = b.MustRun(run)
	var stored, whole tipstaff.Fold
	if err := json.Unmarshal(row.Fold, &stored); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.MustRecords(run) {
		e, err := tipstaff.ParseEvent(r.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		whole.Apply(&e)
		if r.Seq > row.FoldSeq {
			stored.Apply(&e)
		}
	}
	if diff := cmp.Diff(whole, stored, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-all records +row and the rest)\n%s", diff)
	}
	if whole.Steps["completed"] != 1000+10 || stored.State != "executing" {
		t.Errorf("fold: %+v", stored)
	}
}

func testRunsArePagedNewestFirst(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	var ids []string
	for range 5 {
		ids = append(ids, b.MustCreate())
	}
	b.MustAppend(b.MustAcquire(ids[1]), attest())
	b.MustAcquire(ids[3])
	list := func(q flow.Query) (got []string) {
		runs, err := b.Runs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			got = append(got, r.ID)
		}
		return got
	}
	for name, c := range map[string]struct {
		query flow.Query
		want  []string
	}{
		"all":          {flow.Query{}, []string{ids[4], ids[3], ids[2], ids[1], ids[0]}},
		"first page":   {flow.Query{Limit: 2}, []string{ids[4], ids[3]}},
		"second page":  {flow.Query{Limit: 2, Before: b.MustRun(ids[3]).N}, []string{ids[2], ids[1]}},
		"by state":     {flow.Query{States: []string{"completed", "failed"}}, []string{ids[1]}},
		"by no state":  {flow.Query{States: []string{}}, nil},
		"leased":       {flow.Query{Leased: true}, []string{ids[3]}},
		"by prefix":    {flow.Query{Prefix: ids[2]}, []string{ids[2]}},
		"other prefix": {flow.Query{Prefix: "7ZZ"}, nil},
	} {
		if got := list(c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// LeafEnd is the record of a leaf that has ended, with what is remembered of it.
func LeafEnd(path string) flow.Draft {
	return flow.Draft{Kind: "plan.step", Path: path, N: 1, Body: Body(`{"node":"x","status":"completed"}`), Memo: &flow.Memo{
		Kind: "tool_call", Tool: "mcp://files/read@1.0.0", Outcome: "completed", Summary: path + " completed", Digest: ZeroDigest,
		Skill: "skill://s@1.0.0", Verb: "build", Server: "files"}}
}

// Terminals are the three ways in which a run ends.
var Terminals = map[string]flow.Draft{
	"completed": {Kind: "intent.attest", From: "executor", Body: Body(`{"outcome":"success","outputs_digest":%q,"cited":[],"evidence":{}}`, ZeroDigest)},
	"failed":    {Kind: "intent.fail", From: "executor", Body: Body(`{"reason":"tool_error","message":"m","cited":[],"evidence":{}}`)},
	"cancelled": {Kind: "intent.cancel", From: "executor", Body: Body(`{"reason":"r","via":"command","cited":[],"evidence":{},"on_behalf_of":"local:cli"}`)},
}

// Citing is an end that cites items.
func Citing(kind string, cited ...string) flow.Draft {
	d := Terminals[kind]
	d.Body = json.RawMessage(strings.Replace(string(d.Body), `"cited":[]`, `"cited":`+string(flow.JSON(cited)), 1))
	return d
}

// MustMemoryLog is the whole log of the memory.
func (b *Bench) MustMemoryLog() (records []cortex.Record) {
	b.Helper()
	stored, err := b.MemoryLog(context.Background(), 0, 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range stored {
		r, err := cortex.ParseRecord(s.Bytes)
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// MemoryKinds are those of its records.
func (b *Bench) MemoryKinds() (kinds []string) {
	for _, r := range b.MustMemoryLog() {
		kinds = append(kinds, r.Kind())
	}
	return kinds
}

// CheckMemory compares the memory with its log.
func (b *Bench) CheckMemory() tipstaff.MemoryReport {
	b.Helper()
	report, err := b.RebuildMemory(context.Background(), true)
	if err != nil {
		b.Fatal(err)
	}
	return report
}

// MemorySound fails unless the memory is what follows from its log.
func (b *Bench) MemorySound() {
	b.Helper()
	if report := b.CheckMemory(); !report.OK() {
		b.Errorf("the memory: %+v", report)
	}
}

func (b *Bench) item(u string) tipstaff.MemoryItem {
	b.Helper()
	parsed, err := cortex.ParseURI(u)
	if err != nil {
		b.Fatal(err)
	}
	m, ok, err := b.MemoryItem(context.Background(), parsed)
	if err != nil || !ok {
		b.Fatalf("%s is not there: %v", u, err)
	}
	return m
}

// RememberFact keeps an item, and returns its name.
func (b *Bench) RememberFact(text string) string {
	b.Helper()
	u, err := b.Remember(context.Background(), "fact", cortex.Remember{By: "local:cli", Importance: 5, Text: text})
	if err != nil {
		b.Fatal(err)
	}
	return u.String()
}

// ending is what the last record of a run says about the memory.
type ending struct {
	Cited    []string `json:"cited"`
	Evidence struct {
		Cortex cortex.Place `json:"cortex"`
	} `json:"evidence"`
}

func (b *Bench) ending(run string) (e ending) {
	b.Helper()
	records := b.MustRecords(run)
	r, err := journal.Parse(records[len(records)-1].Bytes)
	if err == nil {
		err = json.Unmarshal(r.Body, &e)
	}
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func testLeavesAndEndsAreRemembered(t *testing.T, place Place) {
	t.Parallel()
	outcomes := map[string]string{"completed": cortex.Success, "failed": cortex.Failure, "cancelled": cortex.Cancelled}
	for name, end := range Terminals {
		t.Run(name, func(t *testing.T) {
			b := place.Bench(t, nil)
			run := b.MustCreate()
			l := b.MustAcquire(run)
			b.MustAppend(l, Step("root/a"), LeafEnd("root/a"))
			b.MustAppend(l, LeafEnd("root/b"), end)
			b.MustVerify(run)
			if got, want := b.MemoryKinds(), []string{"remember", "remember", "attest", "learn_weights"}; !slices.Equal(got, want) {
				t.Fatalf("the log has %v", got)
			}
			log := b.MustMemoryLog()
			a := log[2].Body.(*cortex.Attest)
			if a.Outcome != outcomes[name] || log[2].Run != run || !time.Time(a.Began).Equal(b.MustRun(run).Created) {
				t.Errorf("attested: %+v", a)
			}
			first, _ := log[0].Item()
			second, _ := log[1].Item()
			e := b.ending(run)
			if e.Evidence.Cortex != (cortex.Place{AttestSeq: 3, LearnSeq: 4}) || !slices.Equal(e.Cited, []string{first.Item, second.Item}) {
				t.Errorf("the envelope says %+v", e)
			}
			want := tipstaff.MemoryItem{Item: first.Item, Type: "event", Text: "root/a completed", Importance: 3, By: "executor", Seq: 1, CreatedAt: log[0].At,
				Skill: "skill://s@1.0.0", Verb: "build", Server: "files", Run: mustParse(t, run), Path: "root/a", Kind: "tool_call",
				Tool: "mcp://files/read@1.0.0", Outcome: "completed", Digest: ZeroDigest, LastUsedAt: log[0].At}
			if got := b.item(first.Item); got != want {
				t.Errorf("remembered %+v\nwant %+v", got, want)
			}
			b.MemorySound()
		})
	}
}

func mustParse(t *testing.T, run string) tipstaff.ID {
	t.Helper()
	id, err := tipstaff.ParseID(run)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A run that nobody drives is ended by a writer without a lease.
func testEndsWithoutAnOwnerAreRemembered(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	b.MustWrite(run, Terminals["cancelled"])
	if e := b.ending(run); e.Evidence.Cortex.AttestSeq != 1 {
		t.Errorf("the envelope says %+v", e)
	}
	if err := b.WriteDrafts(run, Terminals["failed"]); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("a second end: %v", err)
	}
	if got := b.MemoryKinds(); len(got) != 2 {
		t.Errorf("the log has %v", got)
	}
	b.MemorySound()
}

func testARunLearnsFromWhatItWasGiven(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	fact := b.RememberFact("it rains on Mondays")
	before := b.item(fact)
	good, bad, neutral := b.MustCreate(), b.MustCreate(), b.MustCreate()
	b.MustWrite(good, Citing("completed", fact))
	raised := b.item(fact)
	if raised.Citations != 1 || raised.Accesses != 1 || !raised.LastUsedAt.After(before.LastUsedAt) {
		t.Errorf("after a success: %+v", raised)
	}
	w, err := b.MemoryWeights(t.Context())
	if err != nil || w == cortex.Cold || w[4] != cortex.Cold[4] {
		t.Errorf("weights %v: %v", w, err)
	}
	b.MustWrite(neutral, Citing("failed", fact))
	if w2, _ := b.MemoryWeights(t.Context()); w2 != w {
		t.Errorf("a tool_error moved the weights to %v", w2)
	}
	if m := b.item(fact); m.Citations != 1 || !m.LastUsedAt.After(raised.LastUsedAt) {
		t.Errorf("after a tool_error: %+v", m)
	}
	d := Citing("failed", fact)
	d.Body = json.RawMessage(strings.Replace(string(d.Body), "tool_error", "wrong_assumption", 1))
	b.MustWrite(bad, d)
	if m := b.item(fact); m.Citations != 0 || m.Accesses != 1 {
		t.Errorf("after a wrong assumption: %+v", m)
	}
	b.MemorySound()
}

// What a run's children leave behind, it cites too.
func testChildrensEventsAreCited(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	parent, child := b.MustCreate(), b.MustCreate()
	l := b.MustAcquire(parent)
	b.MustAppend(l, flow.Draft{Kind: "intent.dispatch", From: "executor", Path: "root/sub",
		Body: Body(`{"child":%q,"skill":"skill://s@1.0.0","skill_digest":%q,"bounds":{}}`, child, ZeroDigest)})
	cl := b.MustAcquire(child)
	b.MustAppend(cl, LeafEnd("root/x"), Terminals["completed"])
	b.MustAppend(l, LeafEnd("root/sub"), Terminals["completed"])
	if e := b.ending(parent); len(e.Cited) != 2 || e.Cited[1] != b.ending(child).Cited[0] {
		t.Errorf("the parent cites %v, the child %v", e.Cited, b.ending(child).Cited)
	}
	b.MemorySound()
}

func testForget(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	fact := b.RememberFact("it rains on Mondays")
	u, _ := cortex.ParseURI(fact)
	for range 2 { // the second time changes nothing
		if ok, err := b.Forget(t.Context(), u, "local:cli"); !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
	}
	if got := b.MemoryKinds(); !slices.Equal(got, []string{"remember", "tombstone"}) {
		t.Errorf("the log has %v", got)
	}
	if items, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{}); len(items) != 0 || err != nil {
		t.Errorf("listed: %v, %v", items, err)
	}
	if !b.item(fact).Forgotten {
		t.Error("the item is not marked")
	}
	if ok, err := b.Forget(t.Context(), cortex.NewURI("fact", time.Now(), 99), "local:cli"); ok || err != nil {
		t.Errorf("an unknown item: %v, %v", ok, err)
	}
	b.MemorySound()
}

// Two stores on one folder, as two processes have them, share one log.
func testTwoStoresShareTheMemory(t *testing.T, place Place) {
	t.Parallel()
	b := place.Bench(t, nil)
	other := b.Second(nil)
	var all sync.WaitGroup
	for _, s := range []*Bench{b, other} {
		all.Go(func() {
			for range 10 {
				run := s.MustCreate()
				l := s.MustAcquire(run)
				s.MustAppend(l, LeafEnd("root/a"))
				s.MustAppend(l, LeafEnd("root/b"), Terminals["completed"])
			}
		})
	}
	all.Wait()
	if got := len(b.MustMemoryLog()); got != 80 {
		t.Errorf("the log has %d records", got)
	}
	b.MemorySound()
}

// Of all that is remembered only a part is looked at: it must be the right one.
func testRecollectMissesNothing(t *testing.T, place Place) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	var passed atomic.Int64 // minutes; whoever keeps the lease looks at the clock, too
	begun := time.Now()
	at := func(minutes int64) time.Time { return begun.Add(time.Duration(minutes) * time.Minute) }
	b := place.Bench(t, &store.Options{Now: func() time.Time { return at(passed.Add(1)) }})
	pick := func(names ...string) string { return names[dice.IntN(len(names))] }
	var cited []string
	for range 12 {
		l := b.MustAcquire(b.MustCreate())
		for i := range 8 {
			d := LeafEnd(fmt.Sprintf("root/%d", i))
			d.Memo.Skill, d.Memo.Verb, d.Memo.Server = pick("", "s"), pick("", "v", "w"), pick("", "files", "other")
			b.MustAppend(l, d)
		}
		u, err := b.Remember(t.Context(), "fact", cortex.Remember{By: "me", Text: "x", Importance: dice.IntN(11), Pinned: dice.IntN(8) == 0, Server: pick("", "files", "other")})
		if err != nil {
			t.Fatal(err)
		}
		cited = append(cited, u.String(), cortex.NewURI("event", at(passed.Load()), 0).String())
		items, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{Type: "event"})
		if err != nil {
			t.Fatal(err)
		}
		cited = append(cited, items[dice.IntN(len(items))].Item)
		b.MustAppend(l, Terminals["failed"])
		b.MustWrite(b.MustCreate(), Citing(pick("completed", "failed"), cited[dice.IntN(len(cited)):]...))
	}
	all, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.MemoryWeights(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []tipstaff.RecallRequest{{}, {Server: "files"}, {Verb: "w"}, {Skill: "s"}, {Skill: "s", Verb: "v", Server: "other"}, {Server: "none"}} {
		some, err := b.Recollect(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		now := at(passed.Load())
		if got, want := w.Recall(some, req, now), w.Recall(all, req, now); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%+v: recalled %v\nwant %v", req, got, want)
		}
	}
	b.MemorySound()
}

// Every item has its row from the moment it is remembered.
func testEventsAreThereAtOnce(t *testing.T, place Place) {
	t.Parallel()
	b := place.Bench(t, nil)
	fact := b.RememberFact("older than all of them")
	l := b.MustAcquire(b.MustCreate())
	b.MustAppend(l, LeafEnd("root/0"), LeafEnd("root/1"), LeafEnd("root/2"))
	b.MemorySound()
	all, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
	if err != nil || len(all) != 4 || all[0].Path != "root/2" || all[2].Path != "root/0" || all[3].Item != fact {
		t.Errorf("listed: %+v, %v", all, err)
	}
	for _, c := range []struct {
		query tipstaff.MemoryQuery
		want  int
	}{{tipstaff.MemoryQuery{Limit: 2}, 2}, {tipstaff.MemoryQuery{Type: "event"}, 3}, {tipstaff.MemoryQuery{Type: "fact", Limit: 1}, 1}} {
		if some, err := b.MemoryItems(t.Context(), c.query); len(some) != c.want || err != nil {
			t.Errorf("%+v lists %+v, %v", c.query, some, err)
		}
	}
	if m := b.item(all[1].Item); m != all[1] {
		t.Errorf("looked up: %+v, want %+v", m, all[1])
	}
	found, err := b.Recollect(t.Context(), tipstaff.RecallRequest{Verb: "build"})
	if err != nil || len(found) != 4 {
		t.Errorf("recollected: %+v, %v", found, err)
	}
	b.MustAppend(l, Terminals["completed"])
	after, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{Type: "event"})
	if err != nil || len(after) != 3 || after[1] != all[1] {
		t.Errorf("listed: %+v, %v", after, err)
	}
	b.MemorySound()
}

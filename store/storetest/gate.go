package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func testOneOfFiftyDecisionsIsStored(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	b.MustAppend(b.MustAcquire(run), Gate("G1", "root/ok"))
	var all sync.WaitGroup
	var stored, conflicts atomic.Int32
	for i := range 50 {
		all.Go(func() {
			err := b.WriteDrafts(run, Resolve("G1", []string{"approve", "deny"}[i%2], "command"))
			switch {
			case err == nil:
				stored.Add(1)
			case tipstaff.CodeOf(err) == tipstaff.DecisionConflict && errors.Is(err, flow.ErrDecided):
				conflicts.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if stored.Load() != 1 || conflicts.Load() != 49 {
		t.Fatalf("%d stored, %d conflicts", stored.Load(), conflicts.Load())
	}
	b.MustVerify(run)
}

func testLateClosingsAreLeftOut(t *testing.T, place Place) {
	t.Parallel()
	for _, via := range []string{"expiry", "superseded", "run_ended"} {
		t.Run(via, func(t *testing.T) {
			b := place.Bench(t, nil)
			run := b.MustCreate()
			l := b.MustAcquire(run)
			b.MustAppend(l, Gate("G1", "root/a"), Gate("G2", "root/b"))
			b.MustWrite(run, Resolve("G1", "approve", "command"))
			b.MustAppend(l, Resolve("G1", "deny", via), Resolve("G2", "deny", via), attest())
			gates, err := b.Gates(t.Context(), flow.GateQuery{Run: run})
			if err != nil || len(gates) != 2 {
				t.Fatalf("%d gates: %v", len(gates), err)
			}
			if gates[0].Via != "command" || gates[1].Via != via {
				t.Fatalf("closed via %s and %s", gates[0].Via, gates[1].Via)
			}
			if got := strings.Count(strings.Join(b.Kinds(run), " "), "policy.gate.resolve"); got != 2 {
				t.Fatalf("%d closings were stored", got)
			}
			b.MustVerify(run)
		})
	}
}

func testGateRowsAreWhatTheRecordsSay(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	first, second := b.MustCreate(), b.MustCreate()
	large := strings.Repeat("x", 70<<10)
	opened := Gate("G1", "root/ok")
	opened.Body = Body(`{"gate":"G1","gate_kind":"approval","question":"?","subject":%q,"actions":["allow","deny"],"deny":"deny","digest":%q,"expires_at":"2030-01-02T03:04:05.000000000Z"}`, large, ZeroDigest)
	b.MustAppend(b.MustAcquire(first), opened)
	b.MustAppend(b.MustAcquire(second), Gate("G2", "root/x"))

	open, err := b.Gates(t.Context(), flow.GateQuery{Open: true})
	if err != nil || len(open) != 2 || open[0].ID != "G1" || open[1].ID != "G2" {
		t.Fatalf("open gates: %v %v", open, err)
	}
	g := open[0]
	if g.Run != first || g.Kind != "approval" || g.Key != "root/ok" || g.Opened != 6 || g.Decided != 0 || g.ExpiresAt.Year() != 2030 || g.OpenedAt.IsZero() {
		t.Errorf("gate: %+v", g)
	}
	if !strings.Contains(string(g.Body), large) {
		t.Error("the subject was not attached")
	}
	if stored := b.MustRecords(first)[5].Bytes; len(stored) > 2000 || !strings.Contains(string(stored), "$blob") {
		t.Error("the subject was not detached")
	}
	b.MustWrite(first, Resolve("G1", "allow", "command"))
	open, err = b.Gates(t.Context(), flow.GateQuery{Run: first, Open: true})
	if err != nil || len(open) != 0 {
		t.Fatalf("open gates: %v %v", open, err)
	}
	err = b.Write(t.Context(), first, func(tx flow.Tx) ([]flow.Draft, error) {
		gates, err := tx.Gates(false)
		if err != nil || len(gates) != 1 {
			return nil, fmt.Errorf("%d gates: %w", len(gates), err)
		}
		want := flow.GateResolved{Gate: "G1", Action: "allow", SubjectDigest: ZeroDigest, Via: "command"}
		if g := gates[0]; g.Decided != 7 || g.Via != "command" || !reflect.DeepEqual(g.Decision, want) {
			return nil, fmt.Errorf("decided gate: %+v", g)
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Before acceptance a clarification is opened and answered by envelopes of its
// own, and a confirmation is closed by the acceptance.
func testGatesBeforeAcceptance(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	id := tipstaff.NewID(time.Now()).String()
	begun := Begun(b.Keys())
	err := b.Create(t.Context(), flow.NewRun{ID: id, User: "local"}, begun[:2])
	if err != nil {
		t.Fatal(err)
	}
	openIDs := func() (ids string) {
		gates, err := b.Gates(t.Context(), flow.GateQuery{Run: id, Open: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range gates {
			ids += g.ID + ":" + g.Kind + " "
		}
		return ids
	}
	b.MustWrite(id, flow.Draft{Kind: "intent.clarify", From: "executor", Body: Body(`{"gate":"G1","round":1,"questions":[]}`)})
	if got := openIDs(); got != "G1:clarification " {
		t.Fatalf("open: %s", got)
	}
	b.MustWrite(id, flow.Draft{Kind: "intent.answer", From: "user", Body: Body(`{"gate":"G1","answers":{},"via":"command"}`)})
	b.MustWrite(id, Gate("G2", ""))
	if got := openIDs(); got != "G2:question " {
		t.Fatalf("open: %s", got)
	}
	b.MustWrite(id, flow.Draft{Kind: "intent.accept", From: "user",
		Body: Body(`{"intent_hash":%q,"program_digest":%q,"revision":1,"bounds":{},"via":"command","gate":"G2"}`, ZeroDigest, ZeroDigest)})
	if got := openIDs(); got != "" {
		t.Fatalf("open: %s", got)
	}
	if got := b.MustRun(id).State; got != "accepted" {
		t.Fatalf("state %s", got)
	}
}

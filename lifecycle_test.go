package tipstaff

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var states = []State{Drafting, Proposed, Clarifying, Accepted, Executing, Completed, Failed, Cancelled}

func testID(n byte) ID { return ID{0, 1, 2, 15: n} }

// legal spells the edges out a second time, by hand.
var legal = map[[2]State]bool{
	{Drafting, Proposed}: true, {Drafting, Failed}: true, {Drafting, Cancelled}: true,
	{Proposed, Clarifying}: true, {Proposed, Accepted}: true, {Proposed, Failed}: true, {Proposed, Cancelled}: true,
	{Clarifying, Proposed}: true, {Clarifying, Failed}: true, {Clarifying, Cancelled}: true,
	{Accepted, Executing}: true, {Accepted, Failed}: true, {Accepted, Cancelled}: true,
	{Executing, Completed}: true, {Executing, Accepted}: true, {Executing, Executing}: true,
	{Executing, Failed}: true, {Executing, Cancelled}: true,
}

func TestOf64PairsExactly18AreLegal(t *testing.T) {
	count := 0
	for _, from := range states {
		for _, to := range states {
			if Transition(from, to) {
				count++
			}
			if Transition(from, to) != legal[[2]State{from, to}] {
				t.Errorf("Transition(%s, %s) = %v", from, to, Transition(from, to))
			}
		}
	}
	if count != 18 {
		t.Errorf("%d legal pairs, want 18", count)
	}
}

func TestUnknownStatesMoveNowhere(t *testing.T) {
	for _, s := range append(states, "", "paused") {
		if Transition("paused", s) || Transition(s, "paused") || Transition("", s) || Transition(s, "") {
			t.Errorf("a transition between %q and an unknown state", s)
		}
	}
}

func TestOnlyTerminalStatesAreNeverLeft(t *testing.T) {
	for _, from := range states {
		left := slices.ContainsFunc(states, func(to State) bool { return Transition(from, to) })
		if left == from.Terminal() {
			t.Errorf("%s: terminal %v, left %v", from, from.Terminal(), left)
		}
	}
}

// targets says where each of the fifteen kinds of a plan's life leads; "" is
// nowhere.
var targets = []struct {
	kind Kind
	body string
	to   State
}{
	{KindIntentDraft, `{}`, ""},
	{KindIntentCompiled, `{}`, Proposed},
	{KindIntentClarify, `{}`, Clarifying},
	{KindIntentAnswer, `{}`, Proposed},
	{KindIntentAccept, `{}`, Accepted},
	{KindPlanProposed, `{"material":true}`, Executing},
	{KindPlanStep, `{}`, ""},
	{KindPlanOutput, `{}`, ""},
	{KindIntentCorrect, `{"material":false}`, Executing},
	{KindIntentCorrect, `{"material":true}`, Accepted},
	{KindIntentCorrect, `{"material":"yes"}`, Accepted},
	{KindIntentDispatch, `{}`, ""},
	{KindIntentAttest, `{}`, Completed},
	{KindIntentFail, `{}`, Failed},
	{KindIntentCancel, `{}`, Cancelled},
	{KindPolicyGate, `{}`, ""},
	{KindPolicyGateResolve, `{}`, ""},
}

func TestEachKindDrivesItsTargetOrNothing(t *testing.T) {
	run := testID(1)
	for _, c := range targets {
		for _, from := range states {
			t.Run(fmt.Sprintf("%s %s from %s", c.kind, c.body, from), func(t *testing.T) {
				m := Machine{run, from}
				err := m.Apply(&Event{Run: run, Kind: c.kind, Body: json.RawMessage(c.body)})
				var want error
				switch {
				case c.to == "":
					want = ErrUnknownKind
				case from.Terminal():
					want = ErrTerminal
				case !legal[[2]State{from, c.to}]:
					want = ErrInvalidTransition
				}
				if !errors.Is(err, want) {
					t.Fatalf("error %v, want %v", err, want)
				}
				after := from
				if want == nil {
					after = c.to
				}
				if m != (Machine{run, after}) {
					t.Errorf("machine %v, want %s", m, after)
				}
			})
		}
	}
}

func TestChecksComeInOrder(t *testing.T) {
	run, other := testID(1), testID(2)
	for _, c := range []struct {
		name  string
		state State
		event *Event
		want  error
	}{
		{"nil before all", Completed, nil, ErrNoEnvelope},
		{"other run before the kind", Completed, &Event{Run: other, Kind: "x"}, ErrEnvelopeMismatch},
		{"kind before the end", Completed, &Event{Run: run, Kind: "x"}, ErrUnknownKind},
		{"not driving before the end", Completed, &Event{Run: run, Kind: KindPolicyGate}, ErrUnknownKind},
		{"end before the edge", Completed, &Event{Run: run, Kind: KindPlanProposed}, ErrTerminal},
		{"the edge last", Drafting, &Event{Run: run, Kind: KindPlanProposed}, ErrInvalidTransition},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Machine{run, c.state}
			if err := m.Apply(c.event); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if m != (Machine{run, c.state}) {
				t.Errorf("the machine moved to %v", m)
			}
		})
	}
}

func TestDraftMakesTheRun(t *testing.T) {
	run, other := testID(1), testID(2)
	var m Machine
	if err := m.Apply(&Event{Run: run, Kind: KindIntentCompiled}); err == nil {
		t.Error("a run began without a draft")
	}
	if err := m.Apply(&Event{Run: run, Kind: KindIntentDraft}); err != nil || m != (Machine{run, Drafting}) {
		t.Errorf("%v, %v", m, err)
	}
	if err := m.Apply(&Event{Run: run, Kind: KindIntentDraft}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("a second draft: %v", err)
	}
	named := Machine{Run: run}
	if err := named.Apply(&Event{Run: other, Kind: KindIntentDraft}); !errors.Is(err, ErrEnvelopeMismatch) {
		t.Errorf("another run's draft: %v", err)
	}
	if err := named.Apply(&Event{Run: run, Kind: KindIntentCompiled}); !errors.Is(err, ErrInvalidTransition) {
		t.Errorf("compiled before draft: %v", err)
	}
	if err := named.Apply(&Event{Run: run, Kind: KindIntentDraft}); err != nil || named.State != Drafting {
		t.Errorf("%v, %v", named, err)
	}
}

func TestLifecycleText(t *testing.T) {
	run := testID(1)
	var events []Event
	for _, k := range []Kind{KindIntentDraft, KindIntentCompiled, KindIntentAccept, KindPlanProposed, KindRunStarted,
		KindPolicyGate, KindIntentCompiled /* illegal here */, KindPolicyGateResolve, KindIntentAttest, KindIntentFail /* too late */} {
		events = append(events, Event{Run: run, Kind: k})
	}
	const want = "drafting --[intent.compiled]--> proposed --[intent.accept]--> accepted --[plan.proposed]--> executing --[intent.attest]--> completed"
	if got := Lifecycle(events); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Lifecycle(nil); got != "" {
		t.Errorf("no events: %q", got)
	}
}

// Whatever is applied, a machine only walks legal edges and never leaves an end.
func TestMachineNeverLeavesTheEdges(t *testing.T) {
	all := make([]Kind, 0, len(kinds))
	for k := range kinds {
		all = append(all, k)
	}
	slices.Sort(all)
	rapid.Check(t, func(t *rapid.T) {
		run := testID(1)
		m := Machine{run, Drafting}
		for range rapid.IntRange(1, 30).Draw(t, "length") {
			before := m.State
			body := rapid.SampledFrom([]string{`{"material":true}`, `{"material":false}`, `[`, ``}).Draw(t, "body")
			err := m.Apply(&Event{Run: run, Kind: rapid.SampledFrom(all).Draw(t, "kind"), Body: json.RawMessage(body)})
			if err == nil && !legal[[2]State{before, m.State}] {
				t.Fatalf("from %s to %s", before, m.State)
			}
			if err != nil && m.State != before {
				t.Fatalf("moved from %s to %s in spite of %v", before, m.State, err)
			}
		}
	})
}

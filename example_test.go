package tipstaff_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
)

// A run's state is the fold of its envelopes.
func ExampleMachine() {
	run := tipstaff.NewID(time.Now())
	var m tipstaff.Machine
	for _, kind := range []tipstaff.Kind{tipstaff.KindIntentDraft, tipstaff.KindIntentCompiled, tipstaff.KindPlanProposed} {
		if err := m.Apply(&tipstaff.Event{Run: run, Kind: kind}); errors.Is(err, tipstaff.ErrInvalidTransition) {
			fmt.Println("refused:", kind)
		}
		fmt.Println(m.State, "may be accepted:", tipstaff.Transition(m.State, tipstaff.Accepted))
	}
	// Output:
	// drafting may be accepted: false
	// proposed may be accepted: true
	// refused: plan.proposed
	// proposed may be accepted: true
}

// Bounds are exact: money is never a float.
func ExampleBounds() {
	var program tipstaff.Bounds
	if err := json.Unmarshal([]byte(`{"tool_calls": 20, "cost_usd": "0.50", "wall_time": "90m"}`), &program); err != nil {
		panic(err)
	}
	manifest := tipstaff.Bounds{tipstaff.BoundToolCalls: 10}
	fmt.Println("above the manifest:", program.Above(manifest))

	doc, _ := json.Marshal(tipstaff.Min(manifest, program))
	fmt.Println(string(doc))

	fmt.Println(json.Unmarshal([]byte(`{"cost_usd": 0.5}`), &program))
	// Output:
	// above the manifest: [tool_calls]
	// {"cost_usd":"0.50","tool_calls":10,"wall_time":"1h30m"}
	// cost_usd: 0.5 must be a decimal in quotes, like "5.00"
}

// What surfaces show of a run is derived from its records and from who owns it.
func ExampleStatus() {
	at := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	run := tipstaff.NewID(at)
	var fold tipstaff.Fold
	for i, e := range []tipstaff.Event{
		{Kind: tipstaff.KindIntentDraft, Body: json.RawMessage(`{"program_kind":"plan","bounds":{"tool_calls":5},"user":"local"}`)},
		{Kind: tipstaff.KindIntentCompiled},
		{Kind: tipstaff.KindIntentAccept},
		{Kind: tipstaff.KindPlanProposed},
		{Kind: tipstaff.KindRunStarted, Epoch: 1},
		{Kind: tipstaff.KindEffectIntended, Epoch: 1, Path: "root/read", Body: json.RawMessage(`{"reserve":{"tool_calls":1}}`)},
	} {
		e.Seq, e.Run, e.At = int64(i+1), run, at
		fold.Apply(&e)
	}
	owner := &tipstaff.Owner{Kind: "foreground", Pid: 7, Alive: true}
	for range 2 {
		r := tipstaff.Status(tipstaff.Facts{ID: run, Owner: owner}, &fold, nil, at)
		fmt.Println(r.State, r.Status, r.Step, r.Bounds["tool_calls"])
		owner.Alive = false
	}
	// Output:
	// executing running root/read {5 true 0 0 0 1}
	// executing interrupted root/read {5 true 0 0 0 1}
}

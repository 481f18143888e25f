package tipstaff

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDefaultBoundsAsPeopleReadThem(t *testing.T) {
	want := map[string]string{
		"iterations": "3", "model_calls": "50", "tool_calls": "200", "agent_hops": "50",
		"tokens": "1000000", "cost_usd": "5.00", "wall_time": "1h",
	}
	got := map[string]string{}
	for name, limit := range DefaultBounds() {
		got[name] = FormatBound(name, limit)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if names := slices.Sorted(maps.Keys(DefaultBounds())); !slices.Equal(names, BoundNames()) {
		t.Errorf("BoundNames = %v, defaults have %v", BoundNames(), names)
	}
}

func TestParseBound(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
		want  int64
	}{
		{"tool_calls", json.Number("20"), 20},
		{"tool_calls", json.Number("0"), 0},
		{"tokens", json.Number("9223372036854775807"), math.MaxInt64},
		{"cost_usd", "5.00", 5_000_000_000},
		{"cost_usd", "0.50", 500_000_000},
		{"cost_usd", "12", 12_000_000_000},
		{"cost_usd", "0.000000001", 1},
		{"cost_usd", "9223372036.854775807", math.MaxInt64},
		{"wall_time", "10m", 600_000},
		{"wall_time", "1h30m", 5_400_000},
		{"wall_time", "1.5s", 1500},
		{"wall_time", "0s", 0},
	} {
		got, err := ParseBound(c.name, c.value)
		if err != nil || got != c.want {
			t.Errorf("ParseBound(%s, %v) = %d, %v, want %d", c.name, c.value, got, err, c.want)
		}
	}
}

func TestParseBoundRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
		code  string
	}{
		{"calls", 5, "field_unknown"},
		{BoundStages, 5, "field_unknown"}, // in documents: it is a pipeline's own
		{"", 5, "field_unknown"},
		{"tool_calls", json.Number("-1"), "range"},
		{"tool_calls", json.Number("1.5"), "range"},
		{"tool_calls", "5", "range"},
		{"tool_calls", nil, "range"},
		{"tool_calls", true, "range"},
		{"tool_calls", json.Number("1e3"), "range"},
		{"tool_calls", json.Number("9223372036854775808"), "range"},
		{"cost_usd", 5, "range"},
		{"cost_usd", 0.5, "range"},
		{"cost_usd", "", "range"},
		{"cost_usd", "-1", "range"},
		{"cost_usd", "+1", "range"},
		{"cost_usd", "1e3", "range"},
		{"cost_usd", ".5", "range"},
		{"cost_usd", "5.", "range"},
		{"cost_usd", "05", "range"},
		{"cost_usd", " 5", "range"},
		{"cost_usd", "$5", "range"},
		{"cost_usd", "1.0000000000", "range"},
		{"cost_usd", "9223372036.854775808", "range"},
		{"wall_time", 60, "range"},
		{"wall_time", "60", "range"},
		{"wall_time", "-1s", "range"},
		{"wall_time", "1500us", "range"},
		{"wall_time", "300000h0.1ms", "range"},
	} {
		_, err := ParseBound(c.name, c.value)
		var be *BoundError
		if !errors.As(err, &be) || be.Code != c.code || be.Name != c.name {
			t.Errorf("ParseBound(%s, %v): %v, want code %s", c.name, c.value, err, c.code)
		}
	}
}

func TestBoundsReportEveryFault(t *testing.T) {
	err := new(Bounds).UnmarshalJSON([]byte(`{"tokens": -1, "calls": 1, "cost_usd": 5, "tool_calls": 7}`))
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("error %v", err)
	}
	var names []string
	for _, e := range joined.Unwrap() {
		var be *BoundError
		if !errors.As(e, &be) {
			t.Fatalf("error %v", e)
		}
		names = append(names, be.Name)
	}
	if !slices.Equal(names, []string{"calls", "cost_usd", "tokens"}) {
		t.Errorf("faults in %v", names)
	}
}

func TestFormatBound(t *testing.T) {
	for _, c := range []struct {
		name   string
		amount int64
		want   string
	}{
		{"tokens", 0, "0"},
		{"cost_usd", 0, "0.00"},
		{"cost_usd", 1, "0.000000001"},
		{"cost_usd", 1_230_000_000, "1.23"},
		{"cost_usd", 1_234_000_000, "1.234"},
		{"cost_usd", 100_000_000_000, "100.00"},
		{"wall_time", 0, "0s"},
		{"wall_time", 10 * time.Minute.Milliseconds(), "10m"},
		{"wall_time", time.Hour.Milliseconds(), "1h"},
		{"wall_time", 90 * time.Minute.Milliseconds(), "1h30m"},
		{"wall_time", time.Hour.Milliseconds() + 5000, "1h0m5s"},
		{"wall_time", 20_000, "20s"},
		{"wall_time", 62_345, "1m2.345s"},
	} {
		if got := FormatBound(c.name, c.amount); got != c.want {
			t.Errorf("FormatBound(%s, %d) = %s, want %s", c.name, c.amount, got, c.want)
		}
	}
}

func TestEffectiveBounds(t *testing.T) {
	manifest := Bounds{BoundToolCalls: 300, BoundCostUSD: 2_000_000_000}
	program := Bounds{BoundToolCalls: 250, BoundTokens: 2_000_000}
	flags := Bounds{BoundTokens: 1_500_000, BoundModelCalls: 80, BoundIterations: 1}
	want := DefaultBounds()
	want[BoundToolCalls] = 250         // the program's, above the default: someone said so
	want[BoundCostUSD] = 2_000_000_000 // the manifest's
	want[BoundTokens] = 1_500_000      // the flag tightens the program's
	want[BoundIterations] = 1          // the flag tightens the default
	// model_calls: a flag above the default loosens nothing
	if got := EffectiveBounds(manifest, program, flags); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := EffectiveBounds(nil, nil, nil); !maps.Equal(got, DefaultBounds()) {
		t.Errorf("without any: %v", got)
	}
	if _, changed := manifest[BoundTokens]; changed {
		t.Error("an argument was changed")
	}
}

func TestAbove(t *testing.T) {
	ceiling := Bounds{BoundToolCalls: 10, BoundTokens: 100}
	for _, c := range []struct {
		b    Bounds
		want []string
	}{
		{Bounds{BoundToolCalls: 10, BoundTokens: 99}, nil},
		{Bounds{BoundToolCalls: 11}, []string{BoundToolCalls}},
		{Bounds{BoundTokens: 101, BoundToolCalls: 11}, []string{BoundTokens, BoundToolCalls}},
		{Bounds{BoundCostUSD: math.MaxInt64}, nil},
		{nil, nil},
	} {
		if got := c.b.Above(ceiling); !slices.Equal(got, c.want) {
			t.Errorf("%v is above in %v, want %v", c.b, got, c.want)
		}
	}
}

// What was lost of a bound survives the way to another process.
func TestLostMoneyInJSON(t *testing.T) {
	want := BoundsStatus{BoundCostUSD: {Limit: 5_000_000_000, Limited: true, Used: 131_000_000, Lost: 127_000_000}}
	data, err := json.Marshal(want)
	if err != nil || string(data) != `{"cost_usd":{"limit":"5.00","used":"0.131","lost":"0.127","reserved":"0.00"}}` {
		t.Fatalf("%s, %v", data, err)
	}
	var got BoundsStatus
	if err := json.Unmarshal(data, &got); err != nil || got[BoundCostUSD] != want[BoundCostUSD] {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBoundsInJSON(t *testing.T) {
	const doc = `{"cost_usd":"0.50","stages":2,"tokens":9223372036854775807,"wall_time":"10m"}`
	var b Bounds
	if err := json.Unmarshal([]byte(doc), &b); err != nil {
		t.Fatal(err)
	}
	if want := (Bounds{BoundCostUSD: 500_000_000, BoundStages: 2, BoundTokens: math.MaxInt64, BoundWallTime: 600_000}); !maps.Equal(b, want) {
		t.Errorf("got %v", b)
	}
	if again, err := json.Marshal(b); err != nil || string(again) != doc {
		t.Errorf("%s, %v", again, err)
	}
	for _, bad := range []string{`[]`, `{"tokens":"5"}`, `{"x":1}`, `{"cost_usd":0.5}`, `{"stages":-1}`, `{"stages":"2"}`} {
		if err := json.Unmarshal([]byte(bad), &b); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestMinIsBelowAllAndFromOne(t *testing.T) {
	bounds := rapid.MapOf(rapid.SampledFrom(BoundNames()), rapid.Int64Range(0, 100))
	rapid.Check(t, func(t *rapid.T) {
		a, b := Bounds(bounds.Draw(t, "a")), Bounds(bounds.Draw(t, "b"))
		least := Min(a, b)
		for _, name := range BoundNames() {
			x, inA := a[name]
			y, inB := b[name]
			got, ok := least[name]
			switch {
			case ok != (inA || inB):
				t.Fatalf("%s: present %v", name, ok)
			case inA && got > x, inB && got > y:
				t.Fatalf("%s: %d of %d and %d", name, got, x, y)
			case ok && !(inA && got == x) && !(inB && got == y):
				t.Fatalf("%s: %d is neither %d nor %d", name, got, x, y)
			}
		}
		if len(least.Above(a))+len(least.Above(b)) > 0 {
			t.Fatal("the least is above one of them")
		}
	})
}

// Whatever can be read as a bound is written in a form that reads the same.
func FuzzBounds(f *testing.F) {
	for _, text := range []string{"5.00", "0.000000001", "9223372036.854775807", "1h30m", "1.5s", "90s", "50", "00", "-0", "1e9", "0x1p4s"} {
		for i := range BoundNames() {
			f.Add(i, text)
		}
	}
	f.Fuzz(func(t *testing.T, which int, text string) {
		names := BoundNames()
		name := names[uint(which)%uint(len(names))]
		var value any = text
		if name != BoundCostUSD && name != BoundWallTime {
			value = json.Number(text)
		}
		n, err := ParseBound(name, value)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("%s %q is %d", name, text, n)
		}
		var again Bounds
		doc, err := json.Marshal(Bounds{name: n})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(doc, &again); err != nil || again[name] != n {
			t.Fatalf("%s %q is %d, written %s, read as %d (%v)", name, text, n, doc, again[name], err)
		}
	})
}

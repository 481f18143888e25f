package e2e

import (
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// The table has as many definitions as there must be, each with a name and a fault of its
// own; the report of three runs of which nothing is known has 75 failures.
func TestDefinitions(t *testing.T) {
	each, across, seen := 0, 0, map[string]bool{}
	for _, d := range definitions {
		if (d.each == nil) == (d.across == nil) || d.spoil == nil || d.fault == "" || seen[d.name] || seen[d.fault] {
			t.Errorf("%q, under %q, is not whole or not alone", d.name, d.fault)
		}
		seen[d.name], seen[d.fault] = true, true
		if d.each != nil {
			each++
		} else {
			across++
		}
	}
	if each != 23 || across != 6 || 3*each+across != assertions || assertions != 75 {
		t.Errorf("%d definitions of each run and %d of all", each, across)
	}
	nothing := []*evidence{{}, {}, {}}
	r := judge(nothing, nil)
	if r.OK() || r.Total != 75 || r.Passed != 0 {
		for _, a := range r.Assertions {
			if a.OK {
				t.Errorf("%q holds of nothing", a.Name)
			}
		}
	}
}

// A definition that holds whatever it is shown is found, and so is one that expects
// nothing; neither another number of assertions nor a fault that is not found passes.
func TestVacuousDefinitions(t *testing.T) {
	whatever := definition{each: func(*evidence) (any, any) { return true, true }, spoil: func(e *evidence) { e.Lifecycle = "" }}
	none := definition{each: func(*evidence) (any, any) { return []string{}, []string{} }, spoil: whatever.spoil}
	defer func(all []definition) { definitions = all }(definitions)
	definitions = []definition{whatever, none}
	faults := sabotage([]*evidence{{}, {}, {}})
	if faults[0].Found || !faults[1].Found {
		t.Errorf("%+v", faults)
	}
	whole := Report{Passed: 75, Total: 75}
	for name, r := range map[string]Report{"one more": {Passed: 76, Total: 76}, "one failed": {Passed: 74, Total: 75}, "not found": {Passed: 75, Total: 75, Faults: faults}} {
		var text strings.Builder
		r.Text(&text)
		if r.OK() || !whole.OK() {
			t.Errorf("%s: %s", name, text.String())
		}
	}
}

// The formula by hand: of two items, used now, with importance 10 and 0, R is worth 2 and D
// is worth 1; the targets are 600000000 and 300000000.
func TestLearned(t *testing.T) {
	cold := [5]int64{250_000_000, 150_000_000, 300_000_000, 200_000_000, 100_000_000}
	got := learned(cold, []tipstaff.MemoryItem{{Importance: 10}, {Importance: 0}}, tipstaff.MemoryItem{}.LastUsedAt)
	if want := [5]int64{267_500_000, 142_500_000, 285_000_000, 205_000_000, 100_000_000}; got != want {
		t.Errorf("%v, not %v", got, want)
	}
}

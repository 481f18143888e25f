package simtest

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Programs that ask everything of a Context, under schedules that nobody thought of: first
// those that have found something before.
func TestSchedules(t *testing.T) {
	if _, failure := Seeds(t, Memory, Generate, seeds(t)...); failure != nil {
		t.Fatal(failure)
	}
	Simulate(t, Memory, Generate, 4*time.Second)
}

// seeds reads the list of what has found something.
func seeds(t *testing.T) (list []uint64) {
	t.Helper()
	text, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		number, what, _ := strings.Cut(line, " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil || strings.TrimSpace(what) == "" {
			t.Fatalf("testdata/seeds.txt: %q is not a seed and what it is for", line)
		}
		list = append(list, seed)
	}
	if len(list) == 0 {
		t.Fatal("testdata/seeds.txt has no seeds")
	}
	return list
}

// What is recorded may be renamed or removed, whatever it is, and something new may stand
// before it, or where nothing is recorded yet.
func TestEditsComeToEverything(t *testing.T) {
	missing := map[string]bool{}
	for _, do := range []string{"call", "gate", "sleep", "nap", "now", "emit", "group"} {
		missing[do+" is renamed"], missing[do+" is removed"] = true, true
	}
	for _, do := range []string{"call", "gate"} {
		missing[do+" before what is recorded"], missing[do+" before anything is"], missing[do+" at the end"] = true, true, true
	}
	watched := func(pick *Choices) *Case {
		c := Generate(pick)
		edit := c.Edit
		c.Edit = func(pick *Choices, recorded map[string]bool) *Edit {
			e := edit(pick, recorded)
			_, what, changed := strings.Cut(e.Text, " (")
			added, where, _ := strings.Cut(strings.TrimPrefix(e.Text, "a "), " is ")
			switch {
			case where == "added at the end":
				delete(missing, added+" at the end")
			case strings.HasPrefix(where, "put before") && e.Fits:
				delete(missing, added+" before anything is")
			case strings.HasPrefix(where, "put before"):
				delete(missing, added+" before what is recorded")
			case changed:
				delete(missing, strings.Replace(what, ")", "", 1))
			}
			return e
		}
		return c
	}
	for seed := uint64(1); len(missing) > 0 && seed < 5000; seed += programs {
		if _, failure := Explore(t, Memory, watched, seed, 1, time.Minute); failure != nil {
			t.Fatal(failure)
		}
	}
	if len(missing) > 0 {
		t.Errorf("never tried: %v", slices.Sorted(maps.Keys(missing)))
	}
}

// A failure can be looked into only if the same choices give the same schedule.
func TestTheSameChoicesGiveTheSameSchedule(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes the runtime choose by chance whom it runs next")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would run others, too
	compared := 0
	for seed := range uint64(150) {
		// Attempts that the wall time of a run ends do so at the same moment, and of timers that
		// are due at once a bubble fires any first.
		if Generate(Seeded(seed)).Limits[flow.WallTime] > 0 {
			continue
		}
		run := func() (trace []string, end Ending) {
			bubble(t, func() {
				c := Generate(Seeded(seed))
				s := simulate(Memory, c, Seeded(seed), nil, true)
				trace, end = s.trace, s.ending()
			})
			return trace, end
		}
		once, end, undisturbed := alone(run)
		again, same, undisturbed2 := alone(run)
		if !undisturbed || !undisturbed2 {
			continue
		}
		compared++
		if !reflect.DeepEqual(once, again) || !reflect.DeepEqual(end, same) {
			t.Fatalf("seed %d went\n\t%s\nand then\n\t%s", seed, strings.Join(once, "\n\t"), strings.Join(again, "\n\t"))
		}
	}
	if compared == 0 {
		t.Skip("nothing ran for ten milliseconds without being interrupted")
	}
	t.Logf("compared %d schedules", compared)
}

// alone tries to run a schedule that the runtime does not interrupt. It interrupts whoever has
// run for ten milliseconds, also where another program had the processor for most of them;
// then those who wait take their turns in another order, which nobody has chosen.
func alone(run func() ([]string, Ending)) (trace []string, end Ending, undisturbed bool) {
	for range 50 {
		runtime.Gosched() // the ten milliseconds begin here
		began := time.Now()
		if trace, end = run(); time.Since(began) < 10*time.Millisecond {
			return trace, end, true
		}
	}
	return trace, end, false
}

// A program that depends on more than its Context is found, and shrunk to what
// matters: one call, and a reason to run it again.
func TestFindsAProgramThatIsNotDeterministic(t *testing.T) {
	var turns atomic.Int64
	generate := func(pick *Choices) *Case {
		calls := 1 + pick.Of(5)
		return &Case{Text: "calls that differ", Root: "root", Acts: []string{"work"}, Behave: func(string) Behaviour { return Behaviour{} },
			Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				for i := range calls {
					if _, err := fc.Do(flow.Call{Key: string(rune('a' + i)), Name: "work", Class: flow.Read, Input: flow.JSON(turns.Add(1))}); err != nil {
						return nil, err
					}
				}
				return nil, nil
			}}
	}
	n, failure := Explore(t, Memory, generate, 1, 1000, time.Minute)
	if failure == nil {
		t.Fatalf("not found in %d schedules", n)
	}
	if !strings.Contains(failure.Rule, "does not fit its history") || len(failure.Trace) == 0 || len(failure.Records) == 0 {
		t.Errorf("it is said to be: %v", failure)
	}
}

// A log that forgets what it acknowledged is found.
func TestFindsALogThatForgets(t *testing.T) {
	forgetful := func(pick *Choices) *Case {
		c := Generate(pick)
		c.forget = "effect.finished"
		return c
	}
	if n, failure := Explore(t, Memory, forgetful, 1, 2000, time.Minute); failure == nil {
		t.Errorf("not found in %d schedules", n)
	}
}

// A branch that two goroutines use is told so, under every schedule in which they meet: the
// run parked while one of them worked.
func TestFindsTwoGoroutinesOnOneBranch(t *testing.T) {
	generate := func(*Choices) *Case {
		return &Case{Text: "a gate beside a call", Root: "root", Acts: []string{"work"}, Behave: func(string) Behaviour { return Behaviour{} },
			Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				go func() { _, _ = fc.Wait(flow.Gate{Key: "g", Kind: "question", Actions: []string{"yes"}, Deny: "yes"}) }()
				_, err := fc.Do(flow.Call{Key: "a", Name: "work", Class: flow.Read})
				return nil, err
			}}
	}
	n, failure := Explore(t, Memory, generate, 1, 100, time.Minute)
	if failure == nil || !strings.Contains(failure.Rule, "misuse") {
		t.Errorf("after %d schedules: %v", n, failure)
	}
}

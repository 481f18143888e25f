package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain makes this test binary the child as well: see child.go.
func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(child(role))
	}
	_ = os.Setenv("TIPSTAFF_TRUST", "1") // as main does
	os.Exit(m.Run())
}

func TestOnlyABrokenLimitFails(t *testing.T) {
	for _, c := range []struct {
		bound   bound
		verdict string
		kept    bool
		says    string
	}{
		{limit("≥ 0.5 ×", true), "yes", true, "2 of 2 limits are kept\n"},
		{limit("≥ 0.5 ×", false), "NO", false, "1 of 2 limits are kept\n  broken: it: 7 s, limit ≥ 0.5 ×\n"},
		{goal("< 9 ms", true), "yes", true, "1 of 1 goals are reached\n1 of 1 limits are kept\n"},
		{goal("< 9 ms", false), "not yet", true, "0 of 1 goals are reached\n  not yet reached: it: 7 s, goal < 9 ms\n1 of 1 limits are kept\n"},
		{unjudged("+5 MB"), "", true, "1 of 1 limits are kept\n"},
		{bound{}, "", true, "1 of 1 limits are kept\n"},
	} {
		var says strings.Builder
		kept := summarize(&says, []row{{bound: limit("1", true)}, {figure: "it", measured: "7 s", bound: c.bound}})
		if kept != c.kept || says.String() != c.says || c.bound.verdict() != c.verdict {
			t.Errorf("%+v: verdict %q, all limits kept: %v, says %q", c.bound, c.bound.verdict(), kept, says.String())
		}
	}
}

// The peak of memory is judged on any machine, and its row never left out.
func TestPeakOfMemory(t *testing.T) {
	for _, c := range []struct {
		few, all float64
		verdict  string
		measured string
	}{
		{20e6, 84e6, "yes", "84.0 MB resident"},
		{20e6, 84.1e6, "NO", "84.1 MB resident"},
		{0, 84e6, "", untold},
		{20e6, 0, "", untold},
	} {
		if r := peakRow(c.few, c.all); r.verdict() != c.verdict || r.measured != c.measured {
			t.Errorf("from %v to %v: %+v", c.few, c.all, r)
		}
	}
}

// In flight is what had begun and not ended when the last call began that was let
// through. Calls of tools, and those that the bound refused, are none.
func TestWhatWasInFlight(t *testing.T) {
	begin, end := func(path string) mark { return mark{path, false} }, func(path string) mark { return mark{path, true} }
	m := &meter{tokens: map[string]int64{"a": 1, "b": 20, "c": 300, "d": 4000},
		marks: []mark{begin("a"), begin("b"), end("a"), end("tool"), begin("c"), begin("refused"), begin("d"), begin("late"), end("b"), end("d"), end("c")}}
	if calls, tokens := m.inFlight(); calls != 3 || tokens != 4320 {
		t.Errorf("%d calls of %d tokens", calls, tokens)
	}
	if used := m.used(); used != 4321 {
		t.Errorf("%d tokens in all", used)
	}
	if calls, tokens := new(meter).inFlight(); calls != 0 || tokens != 0 {
		t.Errorf("of nothing: %d calls of %d tokens", calls, tokens)
	}
}

func TestOnlyCompletedCallsAreCounted(t *testing.T) {
	const step = `{"kind":"plan.step","path":"root/%[1]s","body":{"node":"%[1]s","status":"%[2]s"}}` + "\n"
	records := `{"kind":"run.started"}` + "\n" + fmt.Sprintf(step, "s0", "completed") + fmt.Sprintf(step, "s1", "failed") +
		fmt.Sprintf(step, "s2", "completed") + fmt.Sprintf(step, "", "completed")
	if n, err := completedCalls(records); n != 2 || err != nil {
		t.Errorf("%d completed: %v", n, err)
	}
	if _, err := completedCalls("no record"); err == nil {
		t.Error("what is no record was read as one")
	}
}

func TestMedian(t *testing.T) {
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("of three: %v", m)
	}
	if m := median([]float64{8, 1, 5, 2}); m != 3.5 {
		t.Errorf("of four: %v", m)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999.4: "999", 999.6: "1,000", 1234567: "1,234,567", -12345: "-12,345", -123: "-123"} {
		if got := count(n); got != want {
			t.Errorf("%v: %s, not %s", n, got, want)
		}
	}
}

func TestInvocation(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, 0, "-short"},
		{[]string{"-fast"}, 2, "not defined"},
		{[]string{"-run", "("}, 2, "missing closing"},
		{[]string{"-run", "nothing"}, 2, "there are steps, concurrent, plan"},
		{[]string{"-against", "HEAD", "-run", "^page$"}, 2, "there are steps, concurrent, plan, memory log, turn, loop, site\n"},
		{[]string{"-effort", "rounds=0"}, 2, "a number above 0 is needed"},
		{[]string{"-effort", "round=1"}, 2, "a duration above 0 is needed"},
		{[]string{"-effort", "haste=1"}, 2, "there are asks, calls, crowding"},
		{[]string{"-dir", filepath.Join(t.TempDir(), "none")}, 3, "no such file"},
		{[]string{"-against", "no-such-commit"}, 3, "is no commit of this repository"},
	} {
		var out, errs bytes.Buffer
		if code := run(c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%v: exit code %d: %s%s", c.args, code, &out, &errs)
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Whichever way round is better, the best new round is held against the median old one.
func TestJudging(t *testing.T) {
	for _, c := range []struct {
		name, unit string
		decimals   int
		old, new   []float64
		slower     bool
		ratio      string
	}{
		{"a rate as it was", "steps/s", 0, []float64{5000, 4800, 5200}, []float64{4900, 5000, 5100}, false, "1.02"},
		{"one good round saves it", "steps/s", 0, []float64{5000, 4800, 5200}, []float64{3000, 3000, 4600}, false, "0.92"},
		{"the median of the old counts, not its best", "steps/s", 0, []float64{5000, 9000, 5000}, []float64{4600, 4500, 4400}, false, "0.92"},
		{"no round reaches nine tenths", "steps/s", 0, []float64{5000, 4800, 5200}, []float64{4400, 4300, 4200}, true, "0.88"},
		{"a third of the speed", "steps/s", 0, []float64{250000, 240000, 260000}, []float64{86000, 84000, 88000}, true, "0.35"},
		{"starts a second", "", 0, []float64{100, 100}, []float64{80, 85}, true, "0.86"},
		{"a rate that doubled", "MB/s", 1, []float64{50, 50}, []float64{100, 90}, false, "2.00"},
		{"a time as it was", "µs", 1, []float64{100, 90, 110}, []float64{150, 108, 120}, false, "0.93"},
		{"a time that grew", "µs", 1, []float64{100, 90, 110}, []float64{150, 118, 120}, true, "0.85"},
		{"a time that shrank", "ms", 1, []float64{10, 10}, []float64{5, 6}, false, "2.02"},
		{"bytes that grew", "MB resident", 1, []float64{40, 40}, []float64{50, 51}, true, "0.80"},
		{"what rounding hides counts for the new", "ms", 1, []float64{0.8, 0.8}, []float64{0.9, 0.9}, false, "1.00"},
		{"and hides no more than that", "ms", 1, []float64{0.8, 0.8}, []float64{1.1, 1.1}, true, "0.82"},
		{"nothing at all", "ms", 1, []float64{0.8}, []float64{0}, false, "+Inf"},
	} {
		p := pair{figure: c.name, old: c.old, new: c.new, units: [2]string{c.unit, c.unit}, decimals: [2]int{c.decimals, c.decimals}}
		if p.slower() != c.slower || fmt.Sprintf("%.2f", p.ratio()) != c.ratio {
			t.Errorf("%s: slower %v, ratio %.4f", c.name, p.slower(), p.ratio())
		}
	}
}

// A slow-down can hide where the old rounds lie far apart: the verdict says so.
func TestNoiseIsTold(t *testing.T) {
	for _, c := range []struct {
		old  []float64
		want string
	}{{[]float64{80, 100, 130}, "ok"}, {[]float64{75, 100, 130}, "ok, noisy"}, {[]float64{300, 400, 900}, "slower"}} {
		p := pair{figure: "steps", old: c.old, new: []float64{100, 101}, units: [2]string{"steps/s", "steps/s"}}
		if got := p.verdict(); got != c.want {
			t.Errorf("%v: %q, not %q", c.old, got, c.want)
		}
	}
	table := new(strings.Builder)
	c := &comparison{ref: "0123abcd", table: table}
	c.conclude(nil, []float64{0.7, 0.1, 0.6, 0.2}, time.Minute)
	if want := "Noisy rows: 2."; !strings.Contains(table.String(), want) || !strings.Contains(table.String(), "Rows compared: 4, in 1m0s. The rounds of 0123abcd spread by 40 % of their median, of the calmest row by 10 %, of the wildest by 70 %.") {
		t.Errorf("%q is not in, or the spreads are not:\n%s", want, table)
	}
}

func TestRowsOfOneSideAreNotJudged(t *testing.T) {
	for want, p := range map[string]pair{
		"only old":    {old: []float64{9}},
		"only new":    {new: []float64{9}},
		"other units": {old: []float64{9}, new: []float64{1}, units: [2]string{"steps/s", "µs"}},
	} {
		if p.verdict() != want || p.slower() {
			t.Errorf("%s: verdict %q, slower %v", want, p.verdict(), p.slower())
		}
	}
}

// The sample is what the bench of commit 540f50a1 printed, whole: earlier benches print so.
func TestReadingEarlierTables(t *testing.T) {
	sample, err := os.ReadFile("testdata/540f50a1.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := []reading{
		{"durable `read` steps, one run", 348, 0, "steps/s"},
		{"durable `read` steps, 200 runs at once", 1748, 0, "steps/s"},
		{"a whole plan of 1,000 `builtin` calls", 374, 0, "calls/s"},
		{"`verify` of that run, integrity and conformance", 375, 0, "ms"},
		{"steps on the memory log, one run", 28640, 0, "steps/s"},
		{"a step in a turn of 1,000 on the memory log", 603.4, 1, "µs"},
		{"a turn of 1,000 steps beside one of 100", 8.47, 2, "× the time"},
		{"a loop of 10,000 iterations of two stages, memory log", 1725, 0, "µs an iteration"},
		{"the daemon, idle", 58.8, 1, "MB resident"},
		{"a record of the daemon, until an SSE client has it", 2.2, 1, "ms"},
		{"a record of another process, until an SSE client has it", 36.3, 1, "ms"},
		{"a run that 1,000 follow over SSE, a tenth of them reading nothing", 2.90, 2, "×"},
		{"1,000 starts over HTTP, starts a second", 26, 0, ""},
		{"one user's 64 runs hang: another's is driven to its end after", 166, 0, "ms"},
	}
	if got := readTable(string(sample)); !slices.Equal(got, want) {
		t.Errorf("read\n%v, not\n%v", got, want)
	}
}

// What is printed is read back, and as many rows as were printed.
func TestReadingOwnTable(t *testing.T) {
	var out strings.Builder
	printHeader(&out)
	for _, r := range []row{
		{figure: "steps", measured: "12,345 steps/s", beside: "bare SQLite 9/s", bound: limit("≥ 0.5 ×", false)},
		{figure: "delay", measured: "0.84 ms, p99 1.3 ms", bound: goal("< 5 ms", true)},
		{figure: "memory", measured: untold, bound: unjudged("+5 MB")},
	} {
		r.print(&out)
	}
	want := []reading{{"steps", 12345, 0, "steps/s"}, {"delay", 0.84, 2, "ms"}}
	if got := readTable(out.String()); !slices.Equal(got, want) {
		t.Errorf("read %v, not %v, from\n%s", got, want, &out)
	}
	if !brokenLimit.MatchString(out.String()) {
		t.Errorf("no broken limit is seen in\n%s", &out)
	}
}

// A bench may end with 1 for a limit that is broken, and in earlier commits for anything else.
func TestWhatABenchEndsWith(t *testing.T) {
	const kept, broken, older = "| steps | 9 | limit 5 | yes     | |\n", "| steps | 3 | limit 5 | NO      | |\n", "| steps | 3 | bare | 5 | NO |\n"
	exit := errors.New("exit status")
	for _, c := range []struct {
		out, said string
		code      int
		err       error
		want      string
		fails     bool
	}{
		{kept, "steps …", 0, nil, kept, false},
		{broken, "steps …", 1, exit, broken, false},
		{older, "steps …", 1, exit, older, false},
		{kept, "steps … disk full", 1, exit, "", true},
		{"", "steps … disk full", 1, exit, "", true},
		{broken, "steps … disk full", 3, exit, "", true},
		{"", noFigure + ` "^loop$": there are steps`, 2, exit, "", false},
		{"", "flag provided but not defined", 2, exit, "", true},
		{broken, "", -1, exit, "", true},
	} {
		got, err := benchOutput(c.out, c.said, c.code, c.err)
		if got != c.want || (err != nil) != c.fails || c.fails && !strings.Contains(err.Error(), c.said) {
			t.Errorf("code %d, %q: %q, %v", c.code, c.said, got, err)
		}
	}
}

// played is a comparison whose benches print what a test says, and counts what was asked of
// them.
func played(asked map[string]int, table *strings.Builder, rate func(s side, figure string, round int) int) *comparison {
	return &comparison{ref: "0123abcd", figures: []string{"steps", "loop"}, table: table, progress: new(strings.Builder),
		take: func(_ context.Context, s side, figure string) (string, error) {
			key := s.String() + " " + figure
			asked[key]++
			n := rate(s, figure, asked[key])
			if n == 0 {
				return "", nil
			}
			if n < 0 {
				return "", errors.New("the disk is full")
			}
			return fmt.Sprintf("| %s | %d steps/s |  |  |  |\n", figure, n), nil
		}}
}

// A row must be slower twice, and only what is slower is measured again.
func TestComparing(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  func(s side, figure string, round int) int
		code  int
		fails string
		asked map[string]int
		says  []string
	}{
		{"equal code", func(side, string, int) int { return 1000 }, exitKept, "",
			map[string]int{"old steps": 5, "new steps": 5, "old loop": 5, "new loop": 5}, []string{"No row is slower than 0123abcd"}},
		{"slower twice", func(s side, figure string, _ int) int {
			if s == newSide && figure == "steps" {
				return 500
			}
			return 1000
		}, exitBroken, "", map[string]int{"old steps": 10, "new steps": 10, "old loop": 5, "new loop": 5}, []string{"SLOWER, twice", "\nslower than 0123abcd: steps\n"}},
		{"slower once", func(s side, _ string, round int) int {
			if s == newSide && round <= 5 {
				return 500
			}
			return 1000
		}, exitKept, "", map[string]int{"old steps": 10, "new steps": 10, "old loop": 10, "new loop": 10}, []string{"not slower", "No row is slower than 0123abcd"}},
		{"a figure that only the new side has", func(s side, figure string, _ int) int {
			if s == oldSide && figure == "loop" {
				return 0
			}
			return 1000
		}, exitKept, "", map[string]int{"old steps": 5, "new steps": 5, "old loop": 5, "new loop": 5}, []string{"only new"}},
		{"nothing in common", func(s side, _ string, _ int) int { return 1000 * int(s) }, 0, "no row that could be compared",
			map[string]int{"old steps": 5, "new steps": 5, "old loop": 5, "new loop": 5}, []string{"only new"}},
		{"a bench that fails", func(s side, _ string, round int) int {
			if s == newSide && round == 2 { // it is the first in that round
				return -1
			}
			return 1000
		}, 0, "steps of the new side: the disk is full", map[string]int{"old steps": 1, "new steps": 2}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, table := map[string]int{}, new(strings.Builder)
			code, err := played(asked, table, c.rate).run(t.Context())
			if code != c.code || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("exit code %d, %v, and\n%s", code, err, table)
			}
			if fmt.Sprint(asked) != fmt.Sprint(c.asked) {
				t.Errorf("measured %v", asked)
			}
			for _, want := range c.says {
				if !strings.Contains(table.String(), want) {
					t.Errorf("%q is not in\n%s", want, table)
				}
			}
		})
	}
}

// The file that is added to an earlier bench sets what -effort sets here.
func TestSettingsOfAnEarlierBench(t *testing.T) {
	text, err := settingsFile("rounds=3,round=300ms,loops=7")
	if err != nil {
		t.Fatal(err)
	}
	const want = "package main\n\nfunc init() {\n\tfull.loops = 7\n\tfull.rounds = 3\n\tfull.round = 300000000\n}\n"
	if text != want {
		t.Errorf("%s", text)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", text, 0); err != nil {
		t.Error(err)
	}
	e := full
	if err := e.set("rounds=3,round=300ms,loops=7"); err != nil || e.rounds != 3 || e.round != 300*time.Millisecond || e.loops != 7 || e.calls != full.calls {
		t.Errorf("%+v: %v", e, err)
	}
	if err := new(effort).set(comparedEffort); err != nil {
		t.Error(err)
	}
}

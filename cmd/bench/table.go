package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is one figure as it is printed.
type row struct {
	figure   string
	value    float64 // what was measured; 0: it cannot be here, or would take too long
	measured string
	beside   string
	bound
}

// bound is what a figure is held to; the zero value: to nothing.
type bound struct {
	kind string // kindLimit, kindGoal; "": it is shown, and could not be judged
	text string
	met  bool
}

const (
	kindLimit = "limit"
	kindGoal  = "goal"
)

// limit is what the docs promise whatever the machine: a ratio to a peer that is measured in
// turns with ours, memory, bytes, a count. A figure beyond it is a regression.
func limit(text string, kept bool) bound { return bound{kindLimit, text, kept} }

// goal is what a figure should reach: a time that a slow or busy machine may miss, or
// something that the docs say is not met yet.
func goal(text string, reached bool) bound { return bound{kindGoal, text, reached} }

// unjudged shows a bound where the figure could not be measured.
func unjudged(text string) bound { return bound{text: text} }

// broken says that a limit does not hold. Verdicts of comparisons read it in tables of
// earlier commits, too.
const broken = "NO"

func (b bound) verdict() string {
	switch {
	case b.kind == "":
		return ""
	case b.met:
		return "yes"
	case b.kind == kindLimit:
		return broken
	default:
		return "not yet"
	}
}

func (b bound) String() string {
	if b.kind == "" {
		return b.text
	}
	return b.kind + " " + b.text
}

// columns of the table: figures are long, and what is beside them is longer.
var columns = []struct {
	name  string
	width int
}{{"figure", 62}, {"measured", 22}, {"limit or goal", 28}, {"kept", 7}, {"beside it", 0}}

// printLine prints one line of the table.
func printLine(w io.Writer, cells ...string) {
	for i, c := range columns {
		fmt.Fprintf(w, "| %-*s ", c.width, cells[i])
	}
	fmt.Fprintln(w, "|")
}

func printHeader(w io.Writer) {
	var names, rules []string
	for _, c := range columns {
		names, rules = append(names, c.name), append(rules, strings.Repeat("-", max(3, c.width)))
	}
	printLine(w, names...)
	printLine(w, rules...)
}

func (r row) print(w io.Writer) {
	printLine(w, r.figure, r.measured, r.bound.String(), r.verdict(), r.beside)
}

// summarize prints how the rows stand to their bounds, and returns whether all limits are
// kept.
func summarize(w io.Writer, rows []row) bool {
	judged, unmet := map[string]int{}, map[string][]string{}
	for _, r := range rows {
		if r.kind == "" {
			continue
		}
		judged[r.kind]++
		if !r.met {
			unmet[r.kind] = append(unmet[r.kind], fmt.Sprintf("%s: %s, %s", r.figure, r.measured, r.bound))
		}
	}
	for _, k := range []struct{ kind, most, not string }{{kindGoal, "goals are reached", "not yet reached"}, {kindLimit, "limits are kept", "broken"}} {
		if judged[k.kind] == 0 {
			continue
		}
		fmt.Fprintf(w, "%d of %d %s\n", judged[k.kind]-len(unmet[k.kind]), judged[k.kind], k.most)
		for _, text := range unmet[k.kind] {
			fmt.Fprintf(w, "  %s: %s\n", k.not, text)
		}
	}
	return len(unmet[kindLimit]) == 0
}

// median of at least one number. The slice is left sorted.
func median(all []float64) float64 {
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

// count writes a number with commas, without decimals.
func count(n float64) string {
	digits := strconv.FormatInt(int64(math.Round(n)), 10)
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func times(r float64) string { return fmt.Sprintf("%.2f ×", r) }

func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return count(ms) + " ms"
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.1f MB", bytes/1e6) }

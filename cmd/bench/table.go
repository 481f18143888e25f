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
	limit    string
	ok       verdict
}

// verdict says how a figure stands to its limit.
type verdict string

const (
	noLimit verdict = ""
	kept    verdict = "yes"
	below   verdict = "below" // on this machine, today
	missed  verdict = "NO"    // on any machine
)

// ratio judges a figure by its peer, measured beside it: whatever the machine
// is, this must hold.
func ratio(r, least float64) verdict {
	if r >= least {
		return kept
	}
	return missed
}

// absolute judges a figure that a slow machine may miss.
func absolute(within bool) verdict {
	if within {
		return kept
	}
	return below
}

// steady judges a figure that does not depend on how fast the machine is:
// whatever it is, this must hold.
func steady(within bool) verdict {
	if within {
		return kept
	}
	return missed
}

func failed(rows []row) bool {
	return slices.ContainsFunc(rows, func(r row) bool { return r.ok == missed })
}

func printTable(w io.Writer, rows []row) {
	fmt.Fprintln(w, "| figure | measured | beside it | limit | ok |")
	fmt.Fprintln(w, "|---|---|---|---|---|")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", r.figure, r.measured, r.beside, r.limit, r.ok)
	}
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

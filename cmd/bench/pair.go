package main

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// slowerBelow is the ratio of the best new round to the median old one below which a row is
// slower: the best of five is rarely below the median of its like, whatever the noise.
const slowerBelow = 0.9

// noisyAbove is the spread of old rounds above which a slow-down may hide in the noise.
const noisyAbove = 0.5

// reading is what a table tells of one row.
type reading struct {
	figure   string
	value    float64
	decimals int    // with which it was printed
	unit     string // what follows the number
}

var firstNumber = regexp.MustCompile(`^-?[\d,]+(?:\.(\d+))?`)

// readTable finds the figures in what a bench prints, now or in an earlier commit: figure and
// measured are its first columns. Rows without a number were not measured.
func readTable(out string) (all []reading) {
	for line := range strings.Lines(out) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		figure, measured := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		number := firstNumber.FindStringSubmatch(measured)
		if number == nil {
			continue
		}
		value, err := strconv.ParseFloat(strings.ReplaceAll(number[0], ",", ""), 64)
		if err != nil {
			continue
		}
		unit, _, _ := strings.Cut(measured[len(number[0]):], ",")
		all = append(all, reading{figure: figure, value: value, decimals: len(number[1]), unit: strings.TrimSpace(unit)})
	}
	return all
}

// pair is a row as both sides measured it, round by round.
type pair struct {
	figure   string
	old, new []float64
	units    [2]string
	decimals [2]int
}

func addReading(pairs []pair, s side, r reading) []pair {
	i := slices.IndexFunc(pairs, func(p pair) bool { return p.figure == r.figure })
	if i < 0 {
		i = len(pairs)
		pairs = append(pairs, pair{figure: r.figure})
	}
	p := &pairs[i]
	p.units[s], p.decimals[s] = r.unit, r.decimals
	if s == oldSide {
		p.old = append(p.old, r.value)
	} else {
		p.new = append(p.new, r.value)
	}
	return pairs
}

// comparable says whether both sides measured the row, and in one unit.
func (p pair) comparable() bool {
	return len(p.old) > 0 && len(p.new) > 0 && p.units[oldSide] == p.units[newSide]
}

// rate says whether more is better. What is no rate is a time, a size or a ratio of times.
func (p pair) rate() bool {
	unit := p.units[oldSide]
	if len(p.old) == 0 {
		unit = p.units[newSide]
	}
	return strings.HasSuffix(unit, "/s") || strings.HasSuffix(unit, "a second") || unit == "" && strings.HasSuffix(p.figure, "a second")
}

// ratio is how well the best new round does beside the median old one, whichever way round is
// better: below 1 it does worse. What rounding hides counts for the new side.
func (p pair) ratio() float64 {
	hidden := math.Pow10(-p.decimals[oldSide])/2 + math.Pow10(-p.decimals[newSide])/2
	middle := median(slices.Clone(p.old))
	better, worse := slices.Max(p.new)+hidden, middle
	if !p.rate() {
		better, worse = middle+hidden, slices.Min(p.new)
	}
	if worse <= 0 {
		return math.Inf(1)
	}
	return better / worse
}

func (p pair) slower() bool { return p.comparable() && p.ratio() < slowerBelow }

func (p pair) verdict() string {
	switch {
	case len(p.new) == 0:
		return "only old"
	case len(p.old) == 0:
		return "only new"
	case !p.comparable():
		return "other units"
	case p.slower():
		return "slower"
	case spread(p.old) > noisyAbove:
		return "ok, noisy"
	default:
		return "ok"
	}
}

// spread is how far rounds lie apart, as a part of their median.
func spread(rounds []float64) float64 {
	middle := median(slices.Clone(rounds))
	if middle == 0 {
		return 0
	}
	return (slices.Max(rounds) - slices.Min(rounds)) / math.Abs(middle)
}

// print prints the pair as a line of the table.
func (p pair) print(w io.Writer, name, verdict string) {
	ratio, apart := "", ""
	if p.comparable() {
		ratio, apart = fmt.Sprintf("%.2f", p.ratio()), fmt.Sprintf("%.0f %%", 100*spread(p.old))
	}
	printCompared(w, name, p.rounds(oldSide, p.old), p.rounds(newSide, p.new), apart, ratio, verdict)
}

// rounds are the worst, the median and the best, with their unit.
func (p pair) rounds(s side, all []float64) string {
	if len(all) == 0 {
		return "-"
	}
	sorted := slices.Clone(all)
	middle := median(sorted)
	worst, best := sorted[0], sorted[len(sorted)-1]
	if !p.rate() {
		worst, best = best, worst
	}
	show := func(v float64) string {
		if p.decimals[s] == 0 {
			return count(v)
		}
		return strconv.FormatFloat(v, 'f', p.decimals[s], 64)
	}
	return strings.TrimSpace(fmt.Sprintf("%s, %s, %s %s", show(worst), show(middle), show(best), p.units[s]))
}

// printCompared prints one line of the table.
func printCompared(w io.Writer, row, old, new, spread, ratio, verdict string) {
	fmt.Fprintf(w, "%-64s  %-42s  %-42s  %-6s  %-5s  %s\n", row, old, new, spread, ratio, verdict)
}

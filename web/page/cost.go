package page

import (
	"cmp"
	"slices"

	"github.com/tipstaff/tipstaff"
)

// costPage is what a run has used, from its metrics alone.
type costPage struct {
	*runView
	Metrics tipstaff.RunMetrics
}

// cost shows what the run has used, by step and by agent.
func (v *view) cost() error {
	m, err := v.s.control.Metrics(v.ctx(), tipstaff.RunRequest{Run: v.run.ID})
	if err != nil {
		return err
	}
	return v.show("cost", "Cost · "+nameOf(v.run), costPage{v.about(), m})
}

// costMost is how many lines a table has: those that cost most, if there are more.
const costMost = 150

// costLines are the lines of a table, and what those came to that it leaves out.
type costLines struct {
	Rows   []tipstaff.MetricRow
	Others int
	Rest   tipstaff.Metric
}

func costliest(all []tipstaff.MetricRow) costLines {
	lines := 0
	for _, m := range all {
		lines += 1 + len(m.Parts)
	}
	if lines <= costMost {
		return costLines{Rows: all}
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b tipstaff.MetricRow) int {
		return cmp.Or(cmp.Compare(b.CostUSD, a.CostUSD), cmp.Compare(b.ModelCalls+b.ToolCalls, a.ModelCalls+a.ToolCalls))
	})
	l := costLines{Rest: tipstaff.Metric{Exact: true}}
	lines = 0
	for _, m := range all {
		if lines += 1 + len(m.Parts); lines <= costMost {
			l.Rows = append(l.Rows, m)
		} else {
			l.Rest.Add(m.Metric)
			l.Others++
		}
	}
	return l
}

// costShare is a part of a cost in thousandths; 0 where nothing costs anything.
func costShare(part, total tipstaff.USD) int64 {
	if total <= 0 {
		return 0
	}
	return int64(part) * 1000 / int64(total)
}

// costText is a cost of which some may not be known: that is never 0, and a sum with an
// unknown part is at least what is known.
func costText(m tipstaff.Metric, sum bool) string {
	switch {
	case m.Exact:
		return "$" + m.CostUSD.String()
	case m.CostUSD == 0 && !sum:
		return "unknown"
	}
	return "≥ $" + m.CostUSD.String()
}

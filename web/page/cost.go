package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
)

// costPage is what a run has used, from its metrics alone.
type costPage struct {
	aboutRun
	Metrics tipstaff.RunMetrics
	Steps   []costRow
	Agents  []costRow
	Total   costRow
}

// costRow is a line of the bill.
type costRow struct {
	Name string
	tipstaff.Metric
	Cost   string
	Share  int64 // of the total, in thousandths; 0 where nothing costs anything
	Parts  []costRow
	Others int // rows that it stands for; 0: it is one
}

// costMost is how many lines a table has: those that cost most, if there are more.
const costMost = 150

// cost shows what the run has used, by step and by agent.
func (v *view) cost() error {
	run, err := v.find()
	if err != nil {
		return err
	}
	m, err := v.s.control.Metrics(v.ctx(), tipstaff.RunRequest{Run: run.ID})
	if err != nil {
		return err
	}
	page := costPage{aboutRun: v.about(run), Metrics: m, Steps: costRows(m.Steps, m.CostUSD), Agents: costRows(m.Agents, m.CostUSD),
		Total: costRow{Name: "Total", Metric: m.Metric, Cost: costText(m.Metric, true)}}
	return v.show("cost", "Cost · "+nameOf(run), page)
}

func costRows(all []tipstaff.MetricRow, total tipstaff.USD) (rows []costRow) {
	lines := 0
	for _, m := range all {
		lines += 1 + len(m.Parts)
	}
	rest := costRow{Metric: tipstaff.Metric{Exact: true}}
	if lines > costMost {
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b tipstaff.MetricRow) int {
			return cmp.Or(cmp.Compare(b.CostUSD, a.CostUSD), cmp.Compare(b.ModelCalls+b.ToolCalls, a.ModelCalls+a.ToolCalls))
		})
	}
	lines = 0
	for _, m := range all {
		if lines += 1 + len(m.Parts); lines > costMost {
			rest.Add(m.Metric)
			rest.Others++
			continue
		}
		row := costRow{Name: m.Name, Metric: m.Metric, Cost: costText(m.Metric, false), Parts: costRows(m.Parts, 0)}
		if total > 0 {
			row.Share = int64(m.CostUSD) * 1000 / int64(total)
		}
		rows = append(rows, row)
	}
	if rest.Others > 0 {
		rest.Cost = costText(rest.Metric, true)
		rows = append(rows, rest)
	}
	return rows
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

// Time is a number of seconds as a duration.
func (p costPage) Time(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}

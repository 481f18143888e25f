package page

import (
	"time"

	"github.com/tipstaff/tipstaff"
)

// costPage is what a run has used, from its metrics alone.
type costPage struct {
	*runView
	Metrics tipstaff.RunMetrics
	Steps   []costRow
	Agents  []costRow
	Total   costRow
}

// costRow is a line of the bill.
type costRow struct {
	Name string
	tipstaff.Metric
	Cost  string
	Share int64 // of the total, in thousandths; 0 where nothing costs anything
	Parts []costRow
}

// cost shows what the run has used, by step and by agent.
func (v *view) cost() error {
	m, err := v.s.control.Metrics(v.ctx(), tipstaff.RunRequest{Run: v.run.ID})
	if err != nil {
		return err
	}
	page := costPage{runView: v.about(), Metrics: m, Steps: costRows(m.Steps, m.CostUSD), Agents: costRows(m.Agents, m.CostUSD),
		Total: costRow{Name: "Total", Metric: m.Metric, Cost: costText(m.Metric, true)}}
	return v.show("cost", "Cost · "+nameOf(v.run), page)
}

func costRows(all []tipstaff.MetricRow, total tipstaff.USD) (rows []costRow) {
	for _, m := range all {
		row := costRow{Name: m.Name, Metric: m.Metric, Cost: costText(m.Metric, false), Parts: costRows(m.Parts, 0)}
		if total > 0 {
			row.Share = int64(m.CostUSD) * 1000 / int64(total)
		}
		rows = append(rows, row)
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

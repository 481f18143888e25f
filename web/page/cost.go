package page

import "github.com/tipstaff/tipstaff"

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

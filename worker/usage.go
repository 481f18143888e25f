package worker

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/tipstaff/tipstaff"
)

// summed is u with its total.
func summed(u tipstaff.ModelUsage) tipstaff.ModelUsage {
	for _, n := range []*int64{&u.InputTokens, &u.OutputTokens, &u.CacheReadTokens, &u.CacheWriteTokens, &u.ReasoningTokens} {
		*n = min(max(*n, 0), 1<<50) // what a CLI prints may be anything
	}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return u
}

func plus(a, b tipstaff.ModelUsage) tipstaff.ModelUsage {
	a.CostUSD, b.CostUSD = nil, nil
	a.Add(&b)
	return a
}

func minus(a, b tipstaff.ModelUsage) tipstaff.ModelUsage {
	return plus(a, tipstaff.ModelUsage{InputTokens: -b.InputTokens, OutputTokens: -b.OutputTokens, CacheReadTokens: -b.CacheReadTokens,
		CacheWriteTokens: -b.CacheWriteTokens, ReasoningTokens: -b.ReasoningTokens, TotalTokens: -b.TotalTokens})
}

// below reports whether some count of a is less than that of b.
func below(a, b tipstaff.ModelUsage) bool {
	d := minus(a, b)
	return min(d.InputTokens, d.OutputTokens, d.CacheReadTokens, d.CacheWriteTokens, d.ReasoningTokens) < 0
}

// dollars reads an amount that a CLI prints as a number of JSON.
func dollars(n json.Number) (tipstaff.USD, bool) {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1e9 {
		return 0, false
	}
	return tipstaff.USD(math.Round(f * 1e9)), true
}

// spent is what an invocation used.
type spent struct {
	usage      tipstaff.ModelUsage
	usageKnown bool
	cost       tipstaff.USD
	costKnown  bool
	totals     tipstaff.SessionTotals // of the session, as the CLI counts
	warnings   []string
}

// spend works out what an invocation used: the totals of a CLI that counts over its whole
// session are taken less what they were before it. Without an end what was seen is a
// part, so that nothing is known.
func spend(counts counted, before tipstaff.SessionTotals, seen tipstaff.ModelUsage, e *ending, model string, price Price) spent {
	s := spent{usage: seen, totals: before}
	if e != nil && e.usage != nil {
		s.usage, s.usageKnown = *e.usage, true
		if counts.usage {
			s.totals.Usage = *e.usage
			if below(*e.usage, before.Usage) {
				s.warnings = append(s.warnings, "the CLI counts fewer tokens than when its session last ended: they are counted from zero")
			} else {
				s.usage = minus(*e.usage, before.Usage)
			}
		}
	}
	if !counts.usage {
		s.totals.Usage = plus(before.Usage, s.usage)
	}
	switch {
	case e != nil && e.cost != nil:
		s.cost, s.costKnown = *e.cost, true
		if counts.cost {
			s.totals.CostUSD = *e.cost
			if *e.cost < before.CostUSD {
				s.warnings = append(s.warnings, "the CLI reports a lower cost than when its session last ended: it is counted from zero")
			} else {
				s.cost -= before.CostUSD
			}
		}
	case s.usageKnown && price != nil:
		if cost, ok := price(model, s.usage); ok {
			s.cost, s.costKnown = cost, true
		}
	}
	if !counts.cost || e == nil || e.cost == nil {
		s.totals.CostUSD = before.CostUSD + s.cost
	}
	if s.costKnown {
		cost := s.cost
		s.usage.CostUSD = &cost
	}
	return s
}

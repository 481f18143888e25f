package agent

import (
	"math"
	"math/big"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// perMillion is of how many tokens a price is.
const perMillion = 1_000_000

// Cost is what a call costs, rounded up to 10⁻⁹ USD. Of its input tokens the cached
// ones have prices of their own.
func (p Price) Cost(u Usage) USD {
	fresh := max(u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens, 0)
	parts := [...][2]int64{{fresh, p.Input}, {u.OutputTokens, p.Output}, {u.CacheReadTokens, p.CacheRead}, {u.CacheWriteTokens, p.CacheWrite}}
	sum := new(big.Int)
	for _, part := range parts {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	sum.Add(sum, big.NewInt(perMillion-1))
	sum.Div(sum, big.NewInt(perMillion))
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return USD(sum.Int64())
}

// most is what a request of that size can cost at most: its input may be written
// to a cache, which can be dearer than to read it plain.
func (p Price) most(input, output int64) USD {
	p.Input = max(p.Input, p.CacheWrite)
	return p.Cost(Usage{InputTokens: input, OutputTokens: output})
}

// priced is a usage with its cost, where that is known and not yet told.
func priced(u *Usage, p *Price) *Usage {
	if u == nil || u.CostUSD != nil || p == nil {
		return u
	}
	with, cost := *u, p.Cost(*u)
	with.CostUSD = &cost
	return &with
}

// noUsage is the sum of nothing.
func noUsage() Usage { return Usage{CostUSD: new(USD)} }

// reserve is what a model call may use at most.
func reserve(input, output int64, p *Price) flow.Use {
	use := flow.Use{tipstaff.BoundModelCalls: 1, tipstaff.BoundTokens: input + output}
	if p != nil {
		use[tipstaff.BoundCostUSD] = int64(p.most(input, output))
	}
	return use
}

// used is what a model call used; nil: that is not known, and its reservation is
// charged.
func used(u *Usage) flow.Use {
	if u == nil {
		return nil
	}
	use := flow.Use{tipstaff.BoundModelCalls: 1, tipstaff.BoundTokens: u.TotalTokens}
	if u.CostUSD != nil {
		use[tipstaff.BoundCostUSD] = int64(*u.CostUSD)
	}
	return use
}

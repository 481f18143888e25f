package agent

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// String is the amount as people write it: 0.0123.
func (u USD) String() string { return tipstaff.FormatBound(tipstaff.BoundCostUSD, int64(u)) }

// MarshalJSON writes a decimal string: money is never a float on its way.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(`"` + u.String() + `"`), nil }

// UnmarshalJSON reads a decimal string.
func (u *USD) UnmarshalJSON(data []byte) error {
	var text any
	if inner, ok := plainString(data); ok {
		text = inner
	} else if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	n, err := tipstaff.ParseBound(tipstaff.BoundCostUSD, text)
	*u = USD(n)
	return err
}

// plainString is a JSON string that stands for itself, as amounts do.
func plainString(data []byte) (string, bool) {
	if len(data) < 2 || data[0] != '"' || bytes.IndexByte(data, '\\') >= 0 {
		return "", false
	}
	return string(data[1 : len(data)-1]), true
}

// perMillion is of how many tokens a price is.
const perMillion = 1_000_000

// Cost is what a call costs, rounded up to 10⁻⁹ USD. Of its input tokens the cached
// ones have prices of their own.
func (p Price) Cost(u Usage) USD {
	fresh := max(u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens, 0)
	parts := [...][2]int64{{fresh, p.Input}, {u.OutputTokens, p.Output}, {u.CacheReadTokens, p.CacheRead}, {u.CacheWriteTokens, p.CacheWrite}}
	const small = 1 << 30 // four products of which, and the rounding, fit
	plain, fits := int64(perMillion-1), true
	for _, part := range parts {
		plain += part[0] * part[1]
		fits = fits && 0 <= part[0] && part[0] < small && 0 <= part[1] && part[1] < small
	}
	if fits {
		return USD(plain / perMillion)
	}
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

// add sums up. What costs an unknown amount makes the sum unknown.
func (u *Usage) add(v *Usage) {
	if v == nil {
		return
	}
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.ReasoningTokens += v.ReasoningTokens
	u.TotalTokens += v.TotalTokens
	if u.CostUSD == nil || v.CostUSD == nil {
		u.CostUSD = nil
		return
	}
	sum := *u.CostUSD + *v.CostUSD
	u.CostUSD = &sum
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

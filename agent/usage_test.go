package agent

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
)

// 3 USD and 15 USD a million, a cache at a tenth and at a quarter more.
var aPrice = Price{Input: 3_000_000_000, Output: 15_000_000_000, CacheRead: 300_000_000, CacheWrite: 3_750_000_000}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		usage Usage
		price Price
		want  string
	}{
		{Usage{}, aPrice, "0.00"},
		{Usage{InputTokens: 1_000_000, OutputTokens: 1_000_000}, aPrice, "18.00"},
		{Usage{InputTokens: 1000, OutputTokens: 100}, aPrice, "0.0045"},
		// 200 plain, 700 read, 100 written: 0.0006 + 0.00021 + 0.000375
		{Usage{InputTokens: 1000, CacheReadTokens: 700, CacheWriteTokens: 100}, aPrice, "0.001185"},
		// A third of 10⁻⁹ USD is rounded up, once a call.
		{Usage{InputTokens: 1}, Price{Input: 333_333}, "0.000000001"},
		{Usage{InputTokens: 3}, Price{Input: 333_333}, "0.000000001"},
		{Usage{InputTokens: 4}, Price{Input: 333_333}, "0.000000002"},
		{Usage{InputTokens: 10, CacheReadTokens: 20}, Price{Input: 1_000_000, CacheRead: 1_000_000}, "0.00000002"},
		{Usage{InputTokens: math.MaxInt64}, Price{Input: math.MaxInt64}, "9223372036.854775807"},
	} {
		if got := c.price.Cost(c.usage).String(); got != c.want {
			t.Errorf("%+v costs %s, want %s", c.usage, got, c.want)
		}
	}
}

func TestMoneyIsADecimalString(t *testing.T) {
	cost := USD(1_185_000)
	if got := string(flow.JSON(Usage{CostUSD: &cost})); got != `{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"total_tokens":0,"cost_usd":"0.001185"}` {
		t.Error(got)
	}
	for data, want := range map[string]USD{`"0.001185"`: cost, `"2"`: 2_000_000_000} {
		var u USD
		if err := json.Unmarshal([]byte(data), &u); err != nil || u != want {
			t.Errorf("%s is %d: %v", data, u, err)
		}
	}
	for _, data := range []string{`0.5`, `"x"`, `"-1"`, `"0.0000000001"`} {
		var u USD
		if json.Unmarshal([]byte(data), &u) == nil {
			t.Errorf("%s was read as %s", data, u)
		}
	}
}

func TestSumOfUsage(t *testing.T) {
	cost := func(n int64) *USD { u := USD(n); return &u }
	sum := Usage{CostUSD: new(USD)}
	sum.Add(nil)
	sum.Add(&Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4, ReasoningTokens: 5, TotalTokens: 6, CostUSD: cost(7)})
	sum.Add(&Usage{InputTokens: 10, OutputTokens: 20, CacheReadTokens: 30, CacheWriteTokens: 40, ReasoningTokens: 50, TotalTokens: 60, CostUSD: cost(70)})
	if diff := cmp.Diff(Usage{InputTokens: 11, OutputTokens: 22, CacheReadTokens: 33, CacheWriteTokens: 44, ReasoningTokens: 55, TotalTokens: 66, CostUSD: cost(77)}, sum); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sum.Add(&Usage{InputTokens: 1})
	sum.Add(&Usage{CostUSD: cost(1)})
	if sum.CostUSD != nil || sum.InputTokens != 12 {
		t.Errorf("what costs nobody knows how much costs %v", sum.CostUSD)
	}
}

func TestReservations(t *testing.T) {
	// Input may be written to a cache: 1000 at 3.75 a million, 100 at 15.
	want := flow.Use{"model_calls": 1, "tokens": 1100, "cost_usd": 3_750_000 + 1_500_000}
	if diff := cmp.Diff(want, reserve(1000, 100, &aPrice)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(flow.Use{"model_calls": 1, "tokens": 1100}, reserve(1000, 100, nil)); diff != "" {
		t.Errorf("without a price (-want +got):\n%s", diff)
	}
	u := priced(&Usage{InputTokens: 1000, OutputTokens: 100, TotalTokens: 1100}, &aPrice)
	if diff := cmp.Diff(flow.Use{"model_calls": 1, "tokens": 1100, "cost_usd": 4_500_000}, used(u)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

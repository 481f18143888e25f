package policy

import (
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/tipstaff/tipstaff"
)

const (
	assetUSD   = "USD" // what the bound cost_usd counts
	nanosInUSD = 1_000_000_000
)

// How far a limit may rise before it is another one.
var (
	mostFactor = big.NewRat(11, 10)
	mostUnits  = big.NewRat(5, 1) // of an asset
)

// limit is the most of something that may be used.
type limit struct {
	amount *big.Rat // nil: the text cannot be read
	text   string
	set    bool // by the program itself, not by default
}

// budgetDelta finds limits that were removed or have risen too far.
func (c change) budgetDelta() []string {
	var details []string
	add := func(detail string) {
		if detail != "" {
			details = append(details, detail)
		}
	}
	for _, name := range tipstaff.BoundNames() {
		if name != tipstaff.BoundCostUSD {
			add(rise(name, c.old.bound(name), c.new.bound(name), nil))
		}
	}
	old, new := c.usd()
	add(rise(tipstaff.BoundCostUSD, old, new, mostUnits))
	before, after := c.old.budget(), c.new.budget()
	for _, asset := range slices.Sorted(maps.Keys(before)) {
		if asset != assetUSD {
			add(rise("budget "+briefly(asset), before[asset], after[asset], mostUnits))
		}
	}
	return details
}

// usd is what may be spent, before and after. The bound goes before the intent's
// budget: the one is enforced, the other declared. So a bound that gives way to
// a budget was removed, whatever the budget says.
func (c change) usd() (old, new *limit) {
	old, new = c.old.bound(tipstaff.BoundCostUSD), c.new.bound(tipstaff.BoundCostUSD)
	if old != nil && old.set {
		return old, new
	}
	if declared := c.old.budget()[assetUSD]; declared != nil {
		old = declared
	}
	if declared := c.new.budget()[assetUSD]; declared != nil && (new == nil || !new.set) {
		new = declared
	}
	return old, new
}

// bound is the limit of a bound: the program's, else the default, else nil.
func (t Terms) bound(name string) *limit {
	amount, set := t.Bounds[name]
	if !set {
		var implied bool
		if amount, implied = t.Defaults[name]; !implied {
			return nil
		}
	}
	unit := int64(1)
	if name == tipstaff.BoundCostUSD {
		unit = nanosInUSD
	}
	return &limit{big.NewRat(amount, unit), tipstaff.FormatBound(name, amount), set}
}

// budget is the least limit of each asset in the intent's budget.
func (t Terms) budget() map[string]*limit {
	limits := map[string]*limit{}
	for _, a := range t.Budget {
		l := &limit{parseDecimal(a.Amount), a.Amount, true}
		if least := limits[a.Asset]; least == nil || l.tighter(least) {
			limits[a.Asset] = l
		}
	}
	return limits
}

// tighter: what cannot be read is tightest, so that it is never hidden by
// something that can.
func (l *limit) tighter(than *limit) bool {
	switch {
	case than.amount == nil:
		return l.amount == nil && l.text < than.text
	case l.amount == nil:
		return true
	}
	return l.amount.Cmp(than.amount) < 0
}

// rise says how a limit was loosened; "" if it was not. units is by how much it
// may rise at most, besides the factor; nil: the factor alone counts.
func rise(what string, old, new *limit, units *big.Rat) string {
	switch {
	case old == nil, !old.set && (new == nil || !new.set):
		return ""
	case new == nil, old.set && !new.set:
		return fmt.Sprintf("%s is no longer limited (it was %s)", what, briefly(old.text))
	case old.amount == nil || new.amount == nil:
		if old.text == new.text {
			return ""
		}
		return became(what, old.text, new.text) + ", which cannot be compared"
	case !tooFar(old.amount, new.amount, units):
		return ""
	}
	from := briefly(old.text)
	if !old.set {
		from += ", the default,"
	}
	return fmt.Sprintf("%s rises from %s to %s", what, from, briefly(new.text))
}

func tooFar(from, to, units *big.Rat) bool {
	if to.Cmp(new(big.Rat).Mul(from, mostFactor)) > 0 {
		return true
	}
	return units != nil && new(big.Rat).Sub(to, from).Cmp(units) > 0
}

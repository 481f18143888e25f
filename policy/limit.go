package policy

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

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

// hardConstraintRelaxed finds what was ruled out and is so no longer: by a constraint,
// by what was said of calls that cannot be taken back, or by a gate.
func (c change) hardConstraintRelaxed() []string {
	var details []string
	before, after, soft := c.old.byKey(true), c.new.byKey(true), c.new.byKey(false)
	for key, old := range before {
		new, ok := after[key]
		name := "the hard constraint " + briefly(key)
		switch {
		case ok:
			if how := loosened(old, new); how != "" {
				details = append(details, name+" "+how)
			}
		case len(soft[key]) > 0:
			details = append(details, name+" is soft now")
		default:
			details = append(details, name+" is missing")
		}
	}
	if c.old.ByID {
		return append(details, c.otherArguments()...)
	}
	details = append(details, c.newCalls()...)
	return append(details, c.weakerGates()...)
}

// byKey are the constraints that must hold, or those that should.
func (t Terms) byKey(hard bool) map[string][]Constraint {
	list := slices.DeleteFunc(slices.Clone(t.Constraints), func(c Constraint) bool { return c.Hard != hard })
	return grouped(list, Constraint.Key)
}

// loosened says how the constraints of one key, taken together, demand less than
// before; "" if they do not.
func loosened(old, new []Constraint) string {
	switch old[0].Type {
	case "budget":
		return looserLimit(old, new, parseDecimal)
	case "deadline":
		return looserLimit(old, new, parseMoment)
	case "quality":
		return looserLimit(old, new, func(text string) *big.Rat {
			if least := parseDecimal(text); least != nil {
				return least.Neg(least) // the highest minimum is the tightest
			}
			return nil
		})
	case "jurisdiction":
		return looserPlaces(old, new)
	}
	// What a rule means only its reader knows: any change may loosen it.
	data := func(c Constraint) string { return string(c.Data) }
	if gone, added := differ(texts(old, data), texts(new, data)); len(gone)+len(added) > 0 {
		return "has changed"
	}
	return ""
}

// looserLimit compares limits of which the lowest counts, as read reads them.
// Those that it cannot read must stay as they are.
func looserLimit(old, new []Constraint, read func(string) *big.Rat) string {
	before, puzzling := tightest(old, read)
	after, others := tightest(new, read)
	if gone, added := differ(puzzling, others); len(gone)+len(added) > 0 {
		return "cannot be compared: " + became("it", limits(old), limits(new))
	}
	if before != nil && (after == nil || after.Cmp(before) > 0) {
		return "is looser: " + became("it", limits(old), limits(new))
	}
	return ""
}

// tightest is the lowest limit that can be read, and the texts that cannot.
func tightest(constraints []Constraint, read func(string) *big.Rat) (least *big.Rat, puzzling []string) {
	for _, c := range constraints {
		l := read(c.Limit)
		switch {
		case l == nil:
			puzzling = append(puzzling, c.Limit)
		case least == nil || l.Cmp(least) < 0:
			least = l
		}
	}
	return least, puzzling
}

func limits(constraints []Constraint) string {
	return listed(slices.Sorted(slices.Values(texts(constraints, func(c Constraint) string { return c.Limit }))))
}

// looserPlaces compares jurisdictions.
func looserPlaces(old, new []Constraint) string {
	before, after := placesOf(old), placesOf(new)
	var how []string
	switch {
	case !before.only:
	case !after.only:
		how = append(how, "allows all places")
	case len(before.allow) > 0 && len(after.allow) == 0:
		how = append(how, "has an empty list of allowed places")
	default:
		if more := beyond(after.allow, before.allow); len(more) > 0 {
			how = append(how, "also allows "+listed(more))
		}
	}
	if fewer := beyond(before.deny, after.deny); len(fewer) > 0 {
		how = append(how, "no longer denies "+listed(fewer))
	}
	return strings.Join(how, " and ")
}

// places is the conjunction of jurisdictions, its lists sorted.
type places struct {
	only        bool // those in allow
	allow, deny []string
}

func placesOf(constraints []Constraint) places {
	var p places
	for _, c := range constraints {
		switch {
		case c.Allow == nil:
		case p.only:
			p.allow = slices.DeleteFunc(p.allow, func(s string) bool { return !slices.Contains(c.Allow, s) })
		default:
			p.only, p.allow = true, slices.Clone(c.Allow)
		}
		p.deny = append(p.deny, c.Deny...)
	}
	p.allow, p.deny = set(p.allow), set(p.deny)
	return p
}

func set(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// decimalGrammar admits what documents write as numbers or amounts. The length of
// an exponent is limited: 1e999999999 is short to write and long to compute.
var decimalGrammar = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$`)

const longestDecimal = 1000

// parseDecimal is the exact value of a decimal, nil if the text is none.
func parseDecimal(text string) *big.Rat {
	if len(text) > longestDecimal || !decimalGrammar.MatchString(text) {
		return nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

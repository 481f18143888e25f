package policy

import (
	"math/big"
	"slices"
	"strings"
)

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
	groups := map[string][]Constraint{}
	for _, c := range t.Constraints {
		if c.Hard == hard {
			groups[c.Key()] = append(groups[c.Key()], c)
		}
	}
	return groups
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
	if gone, added := differ(data(old), data(new)); len(gone)+len(added) > 0 {
		return "has changed"
	}
	return ""
}

func data(constraints []Constraint) []string {
	list := make([]string, len(constraints))
	for i, c := range constraints {
		list[i] = string(c.Data)
	}
	return list
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
	texts := make([]string, len(constraints))
	for i, c := range constraints {
		texts[i] = c.Limit
	}
	slices.Sort(texts)
	return listed(texts)
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

package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// subAgent is who does a child run, by which skill.
type subAgent struct{ agent, skill string }

func (s subAgent) String() string {
	name := briefly(s.skill)
	if s.agent != "" {
		name += " by " + briefly(s.agent)
	}
	return name
}

// scopes are the folders that the child runs of each sub-agent are kept to,
// sorted, as often as they occur.
func (t Terms) scopes() map[subAgent][]string {
	scopes := map[subAgent][]string{}
	for _, d := range t.Dispatches {
		who := subAgent{d.Agent, d.Skill}
		scopes[who] = append(scopes[who], d.Scope)
	}
	for _, list := range scopes {
		slices.Sort(list)
	}
	return scopes
}

func (c change) newSubAgent() []string {
	var details []string
	known := c.old.scopes()
	for who := range maps.Keys(c.new.scopes()) {
		if _, ok := known[who]; !ok {
			details = append(details, who.String()+" is a new sub-agent")
		}
	}
	return details
}

// scopeExpansion finds child runs that may do more than before. Of scopes it takes
// every difference for an expansion: whether one folder lies in another is known only
// where the folders are.
func (c change) scopeExpansion() []string {
	var details []string
	before := c.old.scopes()
	for who, after := range c.new.scopes() {
		if old, ok := before[who]; ok && !slices.Equal(old, after) {
			details = append(details, became("the scope of "+who.String(), folders(old), folders(after)))
		}
	}
	return append(details, c.widerDispatches()...)
}

// widerDispatches finds child runs that were not agreed to as they are. Every one must
// have a counterpart among the old ones of its sub-agent that was given the same and
// allowed no less; no two have the same.
func (c change) widerDispatches() []string {
	before, after := c.old.children(), c.new.children()
	var details []string
	for who, list := range after {
		old := before[who]
		// The equal ones go first, so that none of them is taken by another.
		for _, fits := range []func(o, d Dispatch) bool{
			func(o, d Dispatch) bool { return o.text() == d.text() },
			func(o, d Dispatch) bool { return o.Scope == d.Scope && len(o.widened(d)) == 0 },
		} {
			list = slices.DeleteFunc(list, func(d Dispatch) bool {
				i := slices.IndexFunc(old, func(o Dispatch) bool { return fits(o, d) })
				if i >= 0 {
					old = slices.Delete(old, i, i+1)
				}
				return i >= 0
			})
		}
		for _, d := range list {
			alike := slices.DeleteFunc(slices.Clone(old), func(o Dispatch) bool { return o.Scope != d.Scope })
			if len(alike) == 0 {
				continue // then the scopes differ, which is told already
			}
			nearest := slices.MinFunc(alike, func(a, b Dispatch) int { return cmp.Compare(len(a.widened(d)), len(b.widened(d))) })
			for _, how := range nearest.widened(d) {
				details = append(details, "the child run of "+who.String()+" "+how)
			}
		}
	}
	slices.Sort(details)
	return slices.Compact(details)
}

// children are the child runs of each sub-agent, in an order of their own.
func (t Terms) children() map[subAgent][]Dispatch {
	groups := map[subAgent][]Dispatch{}
	for _, d := range t.Dispatches {
		groups[subAgent{d.Agent, d.Skill}] = append(groups[subAgent{d.Agent, d.Skill}], d)
	}
	for _, list := range groups {
		slices.SortFunc(list, func(a, b Dispatch) int { return strings.Compare(a.text(), b.text()) })
	}
	return groups
}

func (d Dispatch) text() string {
	return fmt.Sprintf("%q %t %t %v %s", d.Scope, d.Auto, d.Continue, d.Bounds, d.Inputs)
}

// widened says in what a child run is allowed, or given, something that d is not. Its
// scope has a rule of its own.
func (d Dispatch) widened(new Dispatch) []string {
	var how []string
	if new.Auto && !d.Auto {
		how = append(how, "is accepted without asking now")
	}
	if new.Continue && !d.Continue {
		how = append(how, "may fail now without ending the run")
	}
	if string(d.Inputs) != string(new.Inputs) {
		how = append(how, became("is given something else: it", string(d.Inputs), string(new.Inputs)))
	}
	for _, name := range tipstaff.BoundNames() {
		old, limited := d.Bounds[name]
		now, still := new.Bounds[name]
		switch {
		case limited && !still:
			how = append(how, fmt.Sprintf("has no bound on %s any more", name))
		case limited && now > old:
			how = append(how, fmt.Sprintf("may use more: %s rises from %s to %s", name, tipstaff.FormatBound(name, old), tipstaff.FormatBound(name, now)))
		}
	}
	return how
}

// folders makes the scope that is absent visible.
func folders(scopes []string) string {
	shown := make([]string, len(scopes))
	for i, s := range scopes {
		shown[i] = orNone(s)
	}
	return listed(shown)
}

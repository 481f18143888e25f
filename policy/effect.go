package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// newCalls finds calls that cannot be taken back and were not agreed to: to another
// tool, with other arguments, or once more. Ids do not count: under which name a node
// makes a call changes nothing in the world.
func (c change) newCalls() []string {
	type told struct{ agent, tool, args string }
	once := func(t Terms) (calls []Effect, tell []told) {
		for _, call := range t.Calls {
			if known(call.Class) == flow.Once && !call.Made {
				calls = append(calls, call)
				tell = append(tell, told{call.Agent, call.Tool, string(call.Args)})
			}
		}
		return calls, tell
	}
	before, had := once(c.old)
	after, has := once(c.new)
	more := map[told]int{}
	for _, e := range beyond(has, had) {
		more[e]++
	}
	var details []string
	for i := len(after) - 1; i >= 0; i-- { // of equal ones the last are the new ones
		if more[has[i]] == 0 {
			continue
		}
		more[has[i]]--
		call, tool := after[i], briefly(after[i].Tool)
		known := slices.ContainsFunc(before, func(old Effect) bool {
			return old.ID == call.ID && old.Tool == call.Tool && old.Agent == call.Agent && string(old.Args) != string(call.Args)
		})
		switch {
		case call.Agent != "":
			details = append(details, fmt.Sprintf("the step %s tells %s something else or anew, who may call %s", call.ID, briefly(call.Agent), tool))
		case known:
			details = append(details, fmt.Sprintf("the once call %s has other arguments (%s)", call.ID, tool))
		default:
			details = append(details, fmt.Sprintf("the once call %s is new (%s)", call.ID, tool))
		}
	}
	return details
}

// otherArguments finds once calls of the same node that would be told something else:
// all that [Terms.Earlier] knows of calls.
func (c change) otherArguments() []string {
	type node struct{ id, tool string }
	before := map[node]string{}
	for _, call := range c.old.Calls {
		before[node{call.ID, call.Tool}] = string(call.Args)
	}
	var details []string
	for _, call := range c.new.Calls {
		if args, ok := before[node{call.ID, call.Tool}]; ok && args != string(call.Args) {
			details = append(details, fmt.Sprintf("the once call %s has other arguments (%s)", call.ID, briefly(call.Tool)))
		}
	}
	return details
}

// act is something that changes the world, as far as gates are concerned.
type act struct {
	name  string
	kind  string // who does it, by what
	exact string // that, and with what
	gates []int  // that stand before it, by their numbers, ascending
}

// numbering gives gates numbers. The second of two equal gates before one call is
// another one: to be asked twice is more than to be asked once.
type numbering struct {
	first map[Gate]int // number of the first of its kind; the others follow
	gates []Gate       // by number
}

// number counts the gates that stand before anything in either terms, in an order of
// its own: that of lists never matters.
func number(terms ...Terms) *numbering {
	most := map[Gate]int{}
	count := func(gates []Gate) {
		seen := map[Gate]int{}
		for _, g := range gates {
			seen[g]++
			most[g] = max(most[g], seen[g])
		}
	}
	for _, t := range terms {
		for _, c := range t.Calls {
			count(c.Gates)
		}
		for _, d := range t.Dispatches {
			count(d.Gates)
		}
	}
	n := &numbering{first: map[Gate]int{}}
	for _, g := range slices.SortedFunc(maps.Keys(most), func(a, b Gate) int {
		return cmp.Or(strings.Compare(a.Question, b.Question), strings.Compare(a.Show, b.Show), strings.Compare(a.Actions, b.Actions))
	}) {
		n.first[g] = len(n.gates)
		n.gates = append(n.gates, slices.Repeat([]Gate{g}, most[g])...)
	}
	return n
}

func (n *numbering) of(gates []Gate) []int {
	seen := map[Gate]int{}
	list := make([]int, 0, len(gates))
	for _, g := range gates {
		list = append(list, n.first[g]+seen[g])
		seen[g]++
	}
	slices.Sort(list)
	return list
}

func (t Terms) acts(n *numbering) []act {
	var acts []act
	for _, c := range t.Calls {
		kind := fmt.Sprintf("call %q %q", c.Agent, c.Tool)
		acts = append(acts, act{fmt.Sprintf("%s (%s)", c.ID, briefly(c.Tool)), kind, kind + " " + string(c.Args), n.of(c.Gates)})
	}
	for _, d := range t.Dispatches {
		kind := fmt.Sprintf("dispatch %q %q", d.Agent, d.Skill)
		acts = append(acts, act{"the child run of " + subAgent{d.Agent, d.Skill}.String(), kind, kind + " " + string(d.Inputs), n.of(d.Gates)})
	}
	return acts
}

// weakerGates finds gates that stopped something and do so no longer.
func (c change) weakerGates() []string {
	n := number(c.old, c.new)
	before, after := c.old.acts(n), c.new.acts(n)
	all := union(before)
	var details []string
	guarding := map[Gate]bool{}
	for _, number := range all {
		guarding[n.gates[number]] = true
	}
	gone := map[Gate]bool{} // told once, not for each call
	for _, g := range beyond(c.old.Gates, c.new.Gates) {
		if guarding[g] && !gone[g] {
			gone[g] = true
			details = append(details, g.String()+" is gone, or asks, shows or offers something else")
		}
	}
	for _, by := range []func(act) string{
		func(a act) string { return a.exact }, // the same call must be guarded as well as it was
		func(a act) string { return a.kind },  // and one with other arguments as well as those of its kind
	} {
		old, new := grouped(before, by), grouped(after, by)
		for key, acts := range new {
			guards := union(old[key])
			if len(old[key]) == 0 {
				guards = all // nobody said that it may happen without any of them
			}
			for _, a := range unguarded(old[key], acts) {
				missing := slices.DeleteFunc(beyond(guards, a.gates), func(number int) bool { return gone[n.gates[number]] })
				if len(missing) > 0 && (len(old[key]) > 0 || a.exact != key) {
					details = append(details, fmt.Sprintf("%s does not stand before %s", n.gates[missing[0]], a.name))
				}
			}
		}
	}
	slices.Sort(details)
	return slices.Compact(details)
}

func grouped(acts []act, by func(act) string) map[string][]act {
	groups := map[string][]act{}
	for _, a := range acts {
		groups[by(a)] = append(groups[by(a)], a)
	}
	return groups
}

// union are the gates that stand before any of these.
func union(acts []act) []int {
	var all []int
	for _, a := range acts {
		all = append(all, a.gates...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unguarded are the new acts for which there is no old one, of its own for each, before
// which no other gates stood. Where several fit, the best guarded is taken: the others
// are left for those that are guarded worse.
func unguarded(old, new []act) []act {
	old, new = slices.Clone(old), slices.Clone(new)
	byGates := func(a, b act) int {
		return cmp.Or(cmp.Compare(len(a.gates), len(b.gates)), slices.Compare(a.gates, b.gates))
	}
	slices.SortFunc(old, byGates)
	slices.SortStableFunc(new, byGates)
	var left []act
	for _, a := range new {
		taken := false
		for i := len(old) - 1; i >= 0 && !taken; i-- {
			if subset(old[i].gates, a.gates) {
				old, taken = slices.Delete(old, i, i+1), true
			}
		}
		if !taken {
			left = append(left, a)
		}
	}
	return left
}

// subset: both are ascending.
func subset(a, b []int) bool {
	if len(a) > len(b) {
		return false
	}
	for _, x := range a {
		i, ok := slices.BinarySearch(b, x)
		if !ok {
			return false
		}
		b = b[i+1:]
	}
	return true
}

package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// toolName is a tool, whatever its pin.
type toolName struct{ server, tool string }

func (n toolName) String() string { return n.server + "/" + n.tool }

// access is what terms give of one tool: the strictest class under which it is
// called, and its pins.
type access struct {
	class flow.Class
	pins  []string
}

func (t Terms) tools() map[toolName]access {
	tools := map[toolName]access{}
	for _, tool := range t.Tools {
		name := toolName{tool.Server, tool.Name}
		a, ok := tools[name]
		if class := known(tool.Class); !ok || Stricter(class, a.class) {
			a.class = class
		}
		if !slices.Contains(a.pins, tool.Pin) {
			a.pins = append(a.pins, tool.Pin)
			slices.Sort(a.pins)
		}
		tools[name] = a
	}
	return tools
}

// known replaces an unknown class by the strictest.
func known(c flow.Class) flow.Class {
	if c != flow.Read && c != flow.Idempotent {
		return flow.Once
	}
	return c
}

// Stricter reports whether a class is stricter than another. An unknown one is as strict
// as can be.
func Stricter(a, b flow.Class) bool {
	order := []flow.Class{flow.Read, flow.Idempotent, flow.Once}
	return slices.Index(order, known(a)) > slices.Index(order, known(b))
}

// newToolNamespace finds servers and ways to change the world that were not
// there before. Further reading from a server that is known already is no new
// matter.
func (c change) newToolNamespace() []string {
	var details []string
	before := c.old.tools()
	servers := map[string]bool{}
	for name := range before {
		servers[name.server] = true
	}
	for name, now := range c.new.tools() {
		old, had := before[name]
		switch {
		case !servers[name.server]:
			details = append(details, fmt.Sprintf("server %s is new", name.server))
		case had:
			details = append(details, old.widened(name, now)...)
		case now.class != flow.Read:
			details = append(details, fmt.Sprintf("tool %s (%s) is new", name, now.class))
		}
	}
	details = append(details, c.newReach()...)
	slices.Sort(details)
	return slices.Compact(details) // a server with several tools is new once
}

func (a access) widened(name toolName, now access) []string {
	var details []string
	if Stricter(now.class, a.class) {
		details = append(details, fmt.Sprintf("the class of %s rises from %s to %s", name, a.class, now.class))
	}
	unknown := beyond(now.pins, a.pins)
	if len(unknown) > 0 && (a.class != flow.Read || now.class != flow.Read) {
		details = append(details, became(fmt.Sprintf("the pin of %s (%s)", name, now.class), listed(a.pins), listed(now.pins)))
	}
	return details
}

// newReach finds agents that may call what they could not call before.
func (c change) newReach() []string {
	type reach struct{ agent, tool string }
	before := map[reach]bool{}
	for _, call := range c.old.Calls {
		before[reach{call.Agent, call.Tool}] = true
	}
	var details []string
	for _, call := range c.new.Calls {
		if call.Agent != "" && !before[reach{call.Agent, call.Tool}] {
			details = append(details, fmt.Sprintf("the agent %s may call %s now", briefly(call.Agent), briefly(call.Tool)))
		}
	}
	return details
}

// subAgent is who does a child run, by which skill.
type subAgent struct{ agent, skill string }

func (s subAgent) String() string {
	name := briefly(s.skill)
	if s.agent != "" {
		name += " by " + briefly(s.agent)
	}
	return name
}

func (d Dispatch) who() subAgent { return subAgent{d.Agent, d.Skill} }

// scopes are the folders that the child runs of each sub-agent are kept to,
// sorted, as often as they occur.
func (t Terms) scopes() map[subAgent][]string {
	scopes := map[subAgent][]string{}
	for who, list := range grouped(t.Dispatches, Dispatch.who) {
		scopes[who] = slices.Sorted(slices.Values(texts(list, func(d Dispatch) string { return d.Scope })))
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
				continue // the scopes differ, which was reported already
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
	groups := grouped(t.Dispatches, Dispatch.who)
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
func folders(scopes []string) string { return listed(texts(scopes, orNone)) }

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
		acts = append(acts, act{"the child run of " + d.who().String(), kind, kind + " " + string(d.Inputs), n.of(d.Gates)})
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
	gone := map[Gate]bool{} // reported once, not for each call
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
				guards = all // it was never accepted without any of them
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

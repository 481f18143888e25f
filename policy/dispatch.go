package policy

import (
	"maps"
	"slices"
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

// scopeExpansion takes every difference for an expansion: whether one folder lies
// in another is known only where the folders are.
func (c change) scopeExpansion() []string {
	var details []string
	before := c.old.scopes()
	for who, after := range c.new.scopes() {
		if old, ok := before[who]; ok && !slices.Equal(old, after) {
			details = append(details, became("the scope of "+who.String(), folders(old), folders(after)))
		}
	}
	return details
}

// folders makes the scope that is absent visible.
func folders(scopes []string) string {
	shown := make([]string, len(scopes))
	for i, s := range scopes {
		shown[i] = orNone(s)
	}
	return listed(shown)
}

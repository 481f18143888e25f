package policy

import (
	"fmt"
	"slices"

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
		if class := known(tool.Class); !ok || strictness(class) > strictness(a.class) {
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

// known takes a class that nobody knows for the strictest.
func known(c flow.Class) flow.Class {
	if c != flow.Read && c != flow.Idempotent {
		return flow.Once
	}
	return c
}

func strictness(c flow.Class) int {
	return slices.Index([]flow.Class{flow.Read, flow.Idempotent, flow.Once}, c)
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
	if strictness(now.class) > strictness(a.class) {
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

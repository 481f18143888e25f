package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// agentWork is what a node's agent is doing.
type agentWork struct {
	step   int
	model  string
	said   int               // bytes of the text that it is writing
	tokens int64             // so far
	names  map[string]string // of the tools that it has asked for, by the path of the call
	calls  []string          // that run, by their paths
}

// text is what stands beside the node.
func (w *agentWork) text() string {
	doing := w.model
	switch {
	case len(w.calls) > 0:
		doing = w.names[w.calls[0]]
		if more := len(w.calls) - 1; more > 0 {
			doing += fmt.Sprintf(" and %d more", more)
		}
	case w.said > 0:
		doing += fmt.Sprintf(" writes, %s", plural(w.said, "byte"))
	}
	used := ""
	if w.tokens > 0 {
		used = plural(int(w.tokens), "token")
	}
	return joined("  ", fmt.Sprintf("step %d", w.step), doing, used)
}

// ownAffairs begin the last segments of what an agent, or who drafts a plan, does
// within its node: its calls and questions are no nodes themselves.
var ownAffairs = []string{"model#", "tool#", "limit#", "try#", "check#", "clarify#"}

// ownActivities are calls of the same sort whose places have plain names.
var ownActivities = []string{"tool.catalog", "router.narrow", "memory.recall", "plan.check"}

func ownAffair(path string) bool {
	last := lastSegment(path)
	return slices.ContainsFunc(ownAffairs, func(prefix string) bool { return strings.HasPrefix(last, prefix) })
}

func ownActivity(ev tipstaff.Event, b recordBody) bool {
	return slices.Contains(ownActivities, b.Name) && parentOf(ev.Path) != ""
}

// work takes in what an agent tells of itself.
func (t *tree) work(ev tipstaff.Event) {
	b, ok := agentBodyOf(ev)
	if !ok {
		return
	}
	n := t.at(ev.Path)
	if n.branch() {
		return
	}
	if ev.Kind == tipstaff.KindAgentTextDelta {
		if n.agent != nil && n.state == running {
			n.agent.said = b.Offset + len(b.Text)
			n.note = n.agent.text()
		}
		return
	}
	if n.agent == nil {
		n.agent = &agentWork{names: map[string]string{}}
	}
	w := n.agent
	switch ev.Kind {
	case tipstaff.KindAgentStepStarted:
		w.step, w.model, w.said = b.Step, b.Model, 0
		t.begin(ev)
	case tipstaff.KindAgentMessage:
		w.tokens, w.said = w.tokens+b.Usage.Total, 0
	case tipstaff.KindAgentToolCallRequest:
		w.names[ev.Path] = b.tool()
	}
	if n.state == running {
		n.note = w.text()
	}
}

// called notes that a call of the node's agent began or ended, and reports whether
// it was one.
func (n *node) called(path string, runs bool) bool {
	if n.agent == nil || n.path == path {
		return false
	}
	w := n.agent
	w.calls = slices.DeleteFunc(w.calls, func(p string) bool { return p == path })
	if runs && w.names[path] != "" {
		w.calls = append(w.calls, path)
	}
	if n.state == running {
		n.note = w.text()
	}
	return true
}

// Package agenttest has what tests need that look at turns from outside: the rules
// about the order of their events.
package agenttest

import (
	"fmt"

	"github.com/tipstaff/tipstaff/agent"
)

// Order says which rule the events of one turn break. ended tells whether the turn
// has come to its end: one that waits has no terminal event yet.
//
//  1. Steps are 1, 2, 3 …; what the router decided precedes them; step_started
//     precedes everything else of its step.
//  2. Deltas of a step lie before its message, and add up to its text.
//  3. All requests of a step follow its message, in their order, before the first
//     approval or result of that step.
//  4. Every request has exactly one result, in their order; at most one decision
//     about it comes before that, and none unasked.
//  5. There is exactly one terminal event, and nothing follows it.
func Order(events []agent.Event, ended bool) error {
	o := &order{ids: map[string]bool{}}
	for i, e := range events {
		if o.over {
			return fmt.Errorf("event %d, %s, follows the terminal one", i+1, e.Type())
		}
		if fault := o.see(e.Body); fault != "" {
			return fmt.Errorf("event %d, %s at %s: %s", i+1, e.Type(), e.Path, fault)
		}
	}
	switch {
	case ended && !o.over:
		return fmt.Errorf("there is no terminal event after %d others", len(events))
	case o.over && !ended:
		return fmt.Errorf("a turn that waits has a terminal event")
	}
	return nil
}

// order is how far a turn has come.
type order struct {
	step     int
	said     bool // the message of the step was seen
	calls    int  // that it announced
	asked    []*call
	answered int
	text     string // of the deltas
	gap      bool   // some of them were lost
	ids      map[string]bool
	over     bool
}

type call struct {
	id                 string
	requested, decided bool
}

// see takes in the next event and says what is wrong with it, if anything.
func (o *order) see(body agent.Body) string {
	switch b := body.(type) {
	case *agent.RouterDecided:
		if o.step > 0 {
			return "the first step has begun"
		}
	case *agent.StepStarted:
		return o.start(b)
	case *agent.TextDelta:
		return o.delta(b)
	case *agent.MessageDone:
		return o.message(b)
	case *agent.ToolCallRequest:
		return o.request(b)
	case *agent.ApprovalRequested:
		return o.approval(b.ID, func(c *call) string {
			if c.requested || c.decided {
				return "it was requested or decided before"
			}
			c.requested = true
			return ""
		})
	case *agent.ApprovalDecided:
		return o.approval(b.ID, func(c *call) string {
			if c.decided {
				return "it was decided before"
			}
			c.decided = true
			return ""
		})
	case *agent.ToolCallResult:
		return o.result(b)
	case *agent.Finish:
		return o.end(o.said)
	case *agent.Failed:
		return o.end(true)
	default:
		return "it is of an unknown type"
	}
	return ""
}

func (o *order) open() bool { return len(o.asked) < o.calls || o.answered < len(o.asked) }

func (o *order) end(answered bool) string {
	o.over = true
	switch {
	case !answered:
		return "the model has not answered"
	case o.said && o.open():
		return "calls have no results yet"
	}
	return ""
}

func (o *order) start(b *agent.StepStarted) string {
	switch {
	case b.Step != o.step+1:
		return fmt.Sprintf("step %d follows step %d", b.Step, o.step)
	case o.said && o.open():
		return "calls of the step before have no results yet"
	}
	*o = order{step: b.Step, ids: o.ids}
	return ""
}

func (o *order) delta(b *agent.TextDelta) string {
	switch {
	case b.Step != o.step:
		return fmt.Sprintf("it is of step %d, in step %d", b.Step, o.step)
	case o.said:
		return "the message of its step is complete"
	case b.Channel != agent.ChannelAnswer:
		return ""
	case b.Offset == 0:
		o.text, o.gap = "", false
	case b.Offset != int64(len(o.text)):
		o.gap = true
	}
	o.text += b.Text
	return ""
}

func (o *order) message(b *agent.MessageDone) string {
	switch {
	case b.Step != o.step || o.said:
		return fmt.Sprintf("step %d has none, or has one already", b.Step)
	case o.text != "" && !o.gap && o.text != b.Text:
		return fmt.Sprintf("its deltas add up to %q, not to %q", o.text, b.Text)
	}
	o.said, o.calls = true, b.Calls
	return ""
}

func (o *order) request(b *agent.ToolCallRequest) string {
	switch {
	case !o.said || b.Step != o.step:
		return fmt.Sprintf("it is of step %d, whose message is not there", b.Step)
	case b.Index != len(o.asked)+1:
		return fmt.Sprintf("call %d follows call %d", b.Index, len(o.asked))
	case b.Index > o.calls:
		return fmt.Sprintf("the message has %d calls", o.calls)
	case o.ids[b.ID] || b.ID == "":
		return fmt.Sprintf("the id %q is not new", b.ID)
	case o.answered > 0:
		return "a call of the step has its result"
	}
	for _, c := range o.asked {
		if c.requested || c.decided {
			return "a call of the step was decided"
		}
	}
	o.ids[b.ID] = true
	o.asked = append(o.asked, &call{id: b.ID})
	return ""
}

func (o *order) approval(id string, check func(*call) string) string {
	if len(o.asked) < o.calls {
		return "not all calls of the step were requested yet"
	}
	for i, c := range o.asked {
		if c.id != id {
			continue
		}
		if i < o.answered {
			return "its call has a result"
		}
		return check(c)
	}
	return fmt.Sprintf("the step has no call %q", id)
}

func (o *order) result(b *agent.ToolCallResult) string {
	switch {
	case len(o.asked) < o.calls:
		return "not all calls of the step were requested yet"
	case o.answered >= len(o.asked):
		return "every call of the step has its result"
	}
	c := o.asked[o.answered]
	if c.id != b.ID {
		return fmt.Sprintf("it is of %q, and %q comes first", b.ID, c.id)
	}
	if c.requested && !c.decided {
		return "its approval was requested and is not decided"
	}
	o.answered++
	return ""
}

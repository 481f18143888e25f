package agent

import (
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// gateQueue holds the gates of a turn that wait for an answer, and what is known of
// the calls they are about.
type gateQueue struct {
	gates     []*openGate
	calls     map[string]*ToolCallRequest // of the turn, by path
	reached   map[string]bool             // paths of calls that are past the question whether to ask
	untrusted bool                        // a result of the turn came from an open world
}

// openGate is a gate that waits for an answer.
type openGate struct {
	tipstaff.Gate
	call  *ToolCallRequest // of an approval; nil: it is another gate
	index int              // of the call; 0: it is another gate
	due   bool             // no gate can open any more that comes before it
}

func newGateQueue() *gateQueue {
	return &gateQueue{calls: map[string]*ToolCallRequest{}, reached: map[string]bool{}}
}

// see takes in an event of the turn.
func (q *gateQueue) see(e Event) {
	switch b := e.Body.(type) {
	case *ToolCallRequest:
		q.calls[e.Path] = b
	case *ApprovalDecided:
		q.reached[e.Path] = true
	case *ToolCallResult:
		q.reached[e.Path] = true
		q.untrusted = q.untrusted || b.Untrusted
	}
}

// open adds a gate. Those about calls stand in the order of the calls, behind the
// others: calls of two steps never wait at once.
func (q *gateQueue) open(r flow.Record) {
	opened, err := tipstaff.OpenedGate(tipstaff.Kind(r.Kind), r.Path, r.Seq, r.At, r.Body)
	if err != nil {
		panic("agent: a gate cannot be read: " + err.Error()) // the engine has just written it
	}
	g := &openGate{Gate: opened}
	if asked := q.calls[g.Path]; g.Kind == tipstaff.Approval && asked != nil {
		call := *asked
		call.Untrusted = q.untrusted
		if seen, err := RequestOf(g.Gate); err == nil { // what was decided by, which may have changed since the model asked
			call.Rule, call.Effect, call.Destructive, call.OpenWorld, call.Facts = seen.Rule, seen.Effect, seen.Destructive, seen.OpenWorld, seen.Facts
		}
		g.call, g.index = &call, call.Index
	}
	q.reached[g.Path] = true
	q.gates = append(q.gates, g)
	slices.SortStableFunc(q.gates, func(a, b *openGate) int { return a.index - b.index })
}

func (q *gateQueue) close(id string) {
	q.gates = slices.DeleteFunc(q.gates, func(g *openGate) bool { return g.ID.String() == id })
}

// rest: the turn does nothing but wait, so that every gate is there.
func (q *gateQueue) rest() {
	for _, g := range q.gates {
		g.due = true
	}
}

// next takes out the gate to be asked about; nil: there is none yet. Gates of calls
// that are made together open in any order, and are asked about in that of the
// calls: one waits while a call before it may still come to be asked about.
func (q *gateQueue) next() *openGate {
	if len(q.gates) == 0 {
		return nil
	}
	g := q.gates[0]
	if g.call != nil && !g.due {
		for path, c := range q.calls {
			if c.Step == g.call.Step && c.Index < g.index && !q.reached[path] {
				return nil
			}
		}
	}
	q.gates = q.gates[1:]
	return g
}

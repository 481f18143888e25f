package agent

import (
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// waiting are the gates of a turn that wait for an answer, and what is known of the
// calls they are about.
type waiting struct {
	gates     []*openGate
	calls     map[string]*ToolCallRequest // of the turn, by path
	reached   map[string]bool             // paths of calls that are past the question whether to ask
	untrusted bool                        // a result of the turn came from an open world
}

// openGate is a gate that waits for an answer.
type openGate struct {
	tipstaff.Gate
	call *ToolCallRequest // of an approval; nil: it is another gate
	due  bool             // no gate can open any more that comes before it
}

func newWaiting() *waiting {
	return &waiting{calls: map[string]*ToolCallRequest{}, reached: map[string]bool{}}
}

// see takes in an event of the turn.
func (w *waiting) see(e Event) {
	switch b := e.Body.(type) {
	case *ToolCallRequest:
		w.calls[e.Path] = b
	case *ApprovalDecided:
		w.reached[e.Path] = true
	case *ToolCallResult:
		w.reached[e.Path] = true
		w.untrusted = w.untrusted || b.Untrusted
	}
}

// open takes in a gate's record.
func (w *waiting) open(r flow.Record) {
	opened, err := tipstaff.OpenedGate(tipstaff.Kind(r.Kind), r.Path, r.Seq, r.At, r.Body)
	if err != nil {
		panic("agent: a gate cannot be read: " + err.Error()) // the engine has just written it
	}
	g := &openGate{Gate: opened}
	if asked := w.calls[g.Path]; g.Kind == tipstaff.Approval && asked != nil {
		call := *asked
		call.Untrusted = w.untrusted
		if seen, err := RequestOf(g.Gate); err == nil { // what was decided by, which may have changed since the model asked
			call.Rule, call.Effect, call.Destructive, call.OpenWorld, call.Facts = seen.Rule, seen.Effect, seen.Destructive, seen.OpenWorld, seen.Facts
		}
		g.call = &call
	}
	w.reached[g.Path] = true
	w.gates = append(w.gates, g)
	slices.SortStableFunc(w.gates, func(a, b *openGate) int { return a.place() - b.place() })
}

// place orders gates: those about calls by the calls' index, behind the others.
// Calls of two steps never wait at once.
func (g *openGate) place() int {
	if g.call == nil {
		return 0
	}
	return g.call.Index
}

// close takes a gate out.
func (w *waiting) close(id string) {
	w.gates = slices.DeleteFunc(w.gates, func(g *openGate) bool { return g.ID.String() == id })
}

// rest: the turn does nothing but wait, so that every gate is there.
func (w *waiting) rest() {
	for _, g := range w.gates {
		g.due = true
	}
}

// next takes out the gate to be asked about; nil: there is none yet. Gates of calls
// that are made together open in any order, and are asked about in that of the
// calls.
func (w *waiting) next() *openGate {
	if len(w.gates) == 0 {
		return nil
	}
	g := w.gates[0]
	if g.call != nil && !g.due && w.earlier(g.call) {
		return nil
	}
	w.gates = w.gates[1:]
	return g
}

// earlier reports whether a call before this one may still come to be asked about.
func (w *waiting) earlier(call *ToolCallRequest) bool {
	for path, c := range w.calls {
		if c.Step == call.Step && c.Index < call.Index && !w.reached[path] {
			return true
		}
	}
	return false
}

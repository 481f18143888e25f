package pipeline

import (
	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// emit appends an event at the root.
func (x *executor) emit(kind tipstaff.Kind, body any) {
	x.fc.Emit(flow.Event{Kind: string(kind), Body: body})
	x.records++
}

// emitAt appends an event at the path of a stage.
func (x *executor) emitAt(path string, kind tipstaff.Kind, body any) {
	x.fc.At(path).Emit(flow.Event{Kind: string(kind), Body: body})
	x.records++
}

// emitTransition numbers a transition and says where the run stands.
func (x *executor) emitTransition(t tipstaff.Transitioned) {
	x.Transitions++
	t.N, t.Iteration, t.Epoch, t.Turn = x.Transitions, x.env.Iteration, x.env.Epoch, x.Turn
	x.emit(tipstaff.KindTransition, t)
}

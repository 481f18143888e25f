// Package agent is the model loop: a model is asked, what it wants done passes the
// gate and is done, it is told what came of it, until it has nothing more to ask
// for or a bound is met.
//
// [Turn] is the loop. It is deterministic over a flow.Context: every model call and
// every tool call is one Do, so that a turn is resumed, replayed and verified like
// any other program. It reads no clock, starts nothing and logs nothing. [Run] is
// the same loop for programs that want no store: on the engine in memory, with an
// [Approver] to answer and a channel of events.
//
// Start reading at turn.go, then step.go and call.go. window.go decides what of a
// long conversation is sent, tools.go how tools are named to models, router.go
// which of them are offered. run.go, approver.go, log.go and dispatch.go (the program's
// own tools) belong to the host: the loop calls none of them.
package agent

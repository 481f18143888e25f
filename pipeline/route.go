package pipeline

import (
	"cmp"
	"fmt"

	"cel.dev/cel-go/common/types"

	"github.com/tipstaff/tipstaff"
)

// target is where a stage leads, and why.
type target struct {
	to       string // a stage, end, clarification, confirmation; "": nowhere
	then     string // of an interrupt
	rule     int    // its number, from 1; 0: no rule
	reason   string // of the transition; "": as the edge has it
	feedback string
	err      *StageError // what the next stage sees as error
	granted  bool        // a person allowed this edge beyond its limits
	asked    *question   // of an answered interrupt: what was asked
}

// route leads on from a stage that succeeded.
func (x *executor) route(v *visit) error {
	t, err := x.choose(v, v.output)
	if err != nil {
		return x.unroutable(v, err)
	}
	if v.agent.Handoff == HandoffOnReject && contractOf(v).rejected() && !x.takes(v, t) {
		return x.handoff(v)
	}
	return x.follow(v, t)
}

// choose finds the first rule that applies, or the default.
func (x *executor) choose(v *visit, output map[string]any) (target, error) {
	t := target{to: v.agent.DefaultNext, feedback: v.control.Feedback}
	if len(v.agent.Rules) == 0 {
		return t, nil
	}
	s := x.scope(v, output)
	for i := range v.agent.Rules {
		r := &v.agent.Rules[i]
		applies, err := r.matches(s)
		if err != nil {
			return target{}, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if applies {
			t.to, t.then, t.rule = r.Target, r.Then, i+1
			break
		}
	}
	return t, nil
}

// unroutable fails a stage whose rules nobody can evaluate: unjudged is not "no".
func (x *executor) unroutable(v *visit, err error) error {
	return x.overturn(v, &StageError{Code: codeRouting, Message: err.Error()})
}

// overturn leads on from a visit that had succeeded as from one that failed.
func (x *executor) overturn(v *visit, e *StageError) error {
	x.fail(v, e)
	x.recordFailure(v)
	x.closeHistory(v)
	return x.routeFailure(v)
}

// fail turns a visit that had succeeded into one that failed, and says so.
func (x *executor) fail(v *visit, e *StageError) {
	v.status, v.failure = statusError, e
	x.emitAt(v.path, tipstaff.KindStageFinished, v.finished())
}

// routeFailure leads on from a stage that failed, or ends the run.
func (x *executor) routeFailure(v *visit) error {
	if v.agent.ErrorNext != "" {
		return x.follow(v, target{to: v.agent.ErrorNext, reason: tipstaff.TransitionError, err: v.failure})
	}
	r := tipstaff.TerminalStageFailed
	switch {
	case v.failure.Denied:
		r = tipstaff.TerminalPolicy
	case v.agent.Way == WayModel:
		r = tipstaff.TerminalLLMFailed
	case v.agent.Way == WayTool:
		r = tipstaff.TerminalToolFailed
	}
	return x.end(r, fmt.Sprintf("%s failed: %s", v.path, v.failure.Error()), where{visit: v, code: v.failure.Code})
}

// follow goes where a target says.
func (x *executor) follow(v *visit, t target) error {
	switch {
	case t.to == "" && x.p.depends:
		return nil // its completion releases its dependents
	case t.to == "" || t.to == End:
		x.close(v)
		x.emitTransition(tipstaff.Transitioned{From: v.agent.Name, To: End, Reason: cmp.Or(t.reason, tipstaff.TransitionComplete), Rule: t.rule})
		return nil
	case interrupts(t.to):
		return x.hold(v, InterruptRequest{Kind: t.to, Data: v.output,
			Question: fmt.Sprintf("%s asks for a %s.", v.agent.Name, t.to)}, t)
	}
	return x.takeEdge(v, t)
}

// close ends the branch of a stage: nobody is released by it.
func (x *executor) close(v *visit) {
	if s := &x.stages[v.agent.Index]; s.mark == completed {
		s.mark = closed
	}
}

// takes reports whether a target is a cycle edge that no limit refuses.
func (x *executor) takes(v *visit, t target) bool {
	return x.isStage(t.to) && x.p.IsCycle(v.agent.Name, t.to) && x.edgeRefusal(v, t) == nil
}

func (x *executor) isStage(name string) bool { return name != "" && !reserved(name) }

// takeEdge takes an edge to a stage, if its limits permit.
func (x *executor) takeEdge(v *visit, t target) error {
	for {
		r := x.edgeRefusal(v, t)
		if r == nil {
			break
		}
		if r.transition != "" {
			x.emitTransition(tipstaff.Transitioned{From: v.agent.Name, To: t.to, Reason: r.transition, Rule: t.rule})
		}
		if err := x.refuse(r); err != nil {
			return err
		}
	}
	to := x.p.Agent(t.to)
	cycle := x.p.IsCycle(v.agent.Name, t.to)
	tr := tipstaff.Transitioned{From: v.agent.Name, To: t.to, Rule: t.rule, Reason: t.reason}
	if cycle {
		tr.Checkpoint = x.checkpoint(v)
	}
	tr.EdgeCount = x.countEdge(Edge{v.agent.Name, t.to}, cycle)
	round := false
	if cycle {
		x.env.Iteration++
		x.Owed++
		round = x.beginRound(v)
		x.jump(to)
	}
	if t.feedback != "" {
		x.env.Feedback = newest(append(x.env.Feedback, Feedback{From: v.agent.Name, To: t.to, Iteration: x.env.Iteration, Text: t.feedback}))
	}
	if cycle || !x.reset[v.agent.Index] || !x.reset[to.Index] {
		e := entry{Feedback: t.feedback, Error: t.err, Granted: t.granted}
		if t.asked != nil {
			e.Response = t.asked.response
		}
		x.enter(to, e)
	}
	if tr.Reason == "" {
		tr.Reason = edgeReason(t, cycle, round)
	}
	x.emitTransition(tr)
	return nil
}

func edgeReason(t target, cycle, round bool) string {
	switch {
	case round:
		return tipstaff.TransitionNextStage
	case cycle:
		return tipstaff.TransitionReintent
	case t.rule > 0:
		return tipstaff.TransitionRouting
	}
	return tipstaff.TransitionDefault
}

// addEdge counts an edge more often, and gives the new count.
func addEdge(counts []EdgeCount, from, to string, by int64) ([]EdgeCount, int64) {
	for i := range counts {
		if c := &counts[i]; c.From == from && c.To == to {
			c.Count += by
			return counts, c.Count
		}
	}
	return append(counts, EdgeCount{From: from, To: to, Count: by}), by
}

// countEdge counts an edge that is taken, and begins a new pass of what a jump back leads
// around.
func (x *executor) countEdge(taken Edge, jumps bool) (count int64) {
	x.env.EdgeCounts, count = addEdge(x.env.EdgeCounts, taken.From, taken.To, 1)
	for i := range x.env.EdgeCounts {
		c := &x.env.EdgeCounts[i]
		edge := Edge{c.From, c.To}
		switch {
		case !x.p.perPass[edge]:
		case edge == taken:
			c.Pass++
		case jumps && x.p.around(taken, edge):
			c.Pass = 0
		}
	}
	return count
}

// limitedCount is how often an edge was taken, as its limit counts.
func (x *executor) limitedCount(edge Edge) int64 {
	if !x.p.perPass[edge] {
		return x.edgeCount(edge.From, edge.To)
	}
	for _, c := range x.env.EdgeCounts {
		if c.From == edge.From && c.To == edge.To {
			return c.Pass
		}
	}
	return 0
}

func (x *executor) edgeCount(from, to string) int64 { return countOf(x.env.EdgeCounts, from, to) }

func countOf(counts []EdgeCount, from, to string) int64 {
	for _, c := range counts {
		if c.From == from && c.To == to {
			return c.Count
		}
	}
	return 0
}

// matches reports whether the rule applies to what the stage has brought. An error
// means that nobody can say: that is not "no".
func (r *Rule) matches(s *scope) (bool, error) {
	if r.when == nil {
		v, present := s.output()[r.Condition]
		return present && Equal(v, r.Value), nil
	}
	v, err := r.when.eval(s)
	if err != nil {
		return false, fmt.Errorf("when %q: %w", r.When, err)
	}
	yes, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("when %q: it yields a %s, not a boolean", r.When, v.Type().TypeName())
	}
	return bool(yes), nil
}

// label says in one line when the rule applies.
func (r *Rule) label() string {
	if r.when != nil {
		return r.When
	}
	return r.Condition + " = " + string(EncodeValue(r.Value))
}

// interrupts reports whether a target is a question to a person.
func interrupts(target string) bool { return target == Clarification || target == Confirmation }

// reserved reports whether a name cannot be a stage's.
func reserved(name string) bool { return name == End || name == Start || interrupts(name) }

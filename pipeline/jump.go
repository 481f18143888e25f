package pipeline

import "slices"

// jump begins a new epoch at a stage: it, all of its index or a higher one, and all
// that depend on these, have not run; what they had brought is what they brought
// before. The stage and the entry stages among them are in the frontier.
func (x *executor) jump(to *Agent) {
	x.env.Epoch++
	if x.reset == nil {
		x.reset = map[int]bool{}
	}
	for _, a := range x.after(to) {
		x.reset[a.Index] = true
		x.unmark(a)
		if output, ok := x.env.Outputs[a.OutputKey]; ok {
			x.env.Prior[a.OutputKey] = output
			delete(x.env.Outputs, a.OutputKey)
		}
		x.stages[a.Index].frontier = false
		delete(x.Entries, a.Name)
		if a.Entry {
			x.enter(a, entry{})
		}
	}
	x.enter(to, entry{})
}

// after are the stages that a jump to a stage begins anew, in index order.
func (x *executor) after(to *Agent) (all []*Agent) {
	in := make([]bool, len(x.p.Agents))
	for _, a := range x.p.Agents[to.Index:] {
		in[a.Index] = true
		for _, d := range x.p.dependents(a) {
			in[d.Index] = true
		}
	}
	for i, a := range x.p.Agents {
		if in[i] {
			all = append(all, a)
		}
	}
	return all
}

// startsRound reports whether a cycle edge from a visit would begin a round: it has
// satisfied a goal, and others remain.
func (x *executor) startsRound(v *stint) bool {
	return len(v.gained) > 0 && slices.ContainsFunc(x.env.Goals, func(g Goal) bool { return g.Status == GoalPending })
}

// beginRound counts a round, if the edge begins one.
func (x *executor) beginRound(v *stint) bool {
	if !x.startsRound(v) {
		return false
	}
	e := x.env
	e.Rounds = newest(append(e.Rounds, Round{Number: e.CurrentStageNumber, Satisfied: v.gained, Summary: v.control.Summary}))
	e.CurrentStageNumber++
	return true
}

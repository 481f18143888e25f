package pipeline

import (
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// enter puts a stage into the frontier. What became of it before in this epoch no
// longer counts, so that a route to it runs it again.
func (x *executor) enter(a *Agent, e entry) {
	x.unmark(a)
	x.stages[a.Index].frontier = true
	x.Entries[a.Name] = x.Entries[a.Name].and(e)
}

// unmark forgets what became of a stage.
func (x *executor) unmark(a *Agent) {
	delete(x.env.FailedStages, a.Name)
	delete(x.env.SkippedStages, a.Name)
	x.stages[a.Index].mark = unmarked
}

// runnable are the stages that may start, in index order.
func (x *executor) runnable() (ready []*Agent) {
	live := x.livingStages()
	for i, a := range x.p.Agents {
		s := x.stages[i]
		released := s.frontier || len(a.Requires) > 0
		if released && s.mark == unmarked && !s.active && x.released(a) && !waits(a, x.p, live) {
			ready = append(ready, a)
		}
	}
	return ready
}

// released reports whether the stages that a requires have completed.
func (x *executor) released(a *Agent) bool {
	return len(a.Requires) == 0 || x.enough(a, func(i int) bool { return x.stages[i].mark == completed })
}

// enough asks of all that a stage requires, or of one of them if it joins any.
func (x *executor) enough(a *Agent, holds func(int) bool) bool {
	one := a.Join == joinAny
	for _, name := range a.Requires {
		if holds(x.p.index[name]) == one {
			return one
		}
	}
	return !one
}

// releasers are the stages whose completion let a start; nil: it was in the frontier.
func (x *executor) releasers(a *Agent) (names []string) {
	if x.stages[a.Index].frontier {
		return nil
	}
	for _, name := range a.Requires {
		if x.stages[x.p.index[name]].mark == completed {
			names = append(names, name)
		}
	}
	return names
}

// livingStages tells, by index, which stages may still come to run in this epoch:
// those that are about to, and those that only wait for such ones.
func (x *executor) livingStages() []bool {
	known, live := make([]bool, len(x.stages)), make([]bool, len(x.stages))
	var of func(int) bool
	of = func(i int) bool {
		if known[i] {
			return live[i]
		}
		known[i] = true // what is required is acyclic
		switch s, a := x.stages[i], x.p.Agents[i]; {
		case s.frontier, s.active, s.held:
			live[i] = true
		case s.mark == unmarked && len(a.Requires) > 0:
			live[i] = x.enough(a, func(r int) bool { return x.stages[r].mark == completed || of(r) })
		}
		return live[i]
	}
	for i := range x.stages {
		of(i)
	}
	return live
}

// waits reports whether a stage gives way to one that is still live.
func waits(a *Agent, p *Pipeline, live []bool) bool {
	for _, name := range a.After {
		if live[p.index[name]] {
			return true
		}
	}
	return false
}

// missing says what keeps a stage of the frontier from running.
func (x *executor) missing(a *Agent) (names []string) {
	for _, name := range a.Requires {
		if x.stages[x.p.index[name]].mark != completed {
			names = append(names, name+" ("+x.describe(name)+")")
		}
	}
	live := x.livingStages()
	for _, name := range a.After {
		if live[x.p.index[name]] {
			names = append(names, name+" (it comes after it)")
		}
	}
	return names
}

func (x *executor) describe(name string) string {
	switch s := x.stages[x.p.index[name]]; {
	case s.frontier:
		return "waiting itself"
	case s.mark == closed:
		return "it ended its branch"
	case s.mark == failed:
		return "failed"
	case s.mark == skipped:
		return "skipped"
	}
	return "never reached"
}

// skip marks stages that can no longer run in this epoch, because what they require
// has failed, has ended its branch or was skipped itself. It spreads.
func (x *executor) skip() {
	for again := true; again; {
		again = false
		for i, a := range x.p.Agents {
			s := &x.stages[i]
			if len(a.Requires) == 0 || s.mark != unmarked || s.active || s.held || x.enough(a, func(i int) bool { return !x.lost(i) }) {
				continue
			}
			s.mark, s.frontier, again = skipped, false, true
			delete(x.Entries, a.Name)
			x.recordSkip(a)
		}
	}
}

func (x *executor) lost(i int) bool {
	m := x.stages[i].mark
	return m == closed || m == failed || m == skipped
}

func (x *executor) recordSkip(a *Agent) {
	var unmet []string
	for _, name := range a.Requires {
		if x.lost(x.p.index[name]) {
			unmet = append(unmet, name)
		}
	}
	text := "unmet: " + strings.Join(unmet, ", ")
	x.env.SkippedStages[a.Name] = text
	x.addHistory(ProcessingRecord{Agent: a.Name, Visit: x.env.Visits[a.Name], StartedAt: x.now, Status: statusSkipped, Error: text})
	x.emit(tipstaff.KindStageSkipped, tipstaff.StageSkipped{Stage: a.Name, Unmet: unmet})
}

// jump begins a new epoch at a stage: it, all of its index or a higher one, and all
// that depend on these, have not run; what they had brought is what they brought
// before. The stage and the entry stages among them are in the frontier.
func (x *executor) jump(to *Agent) {
	x.env.Epoch++
	if x.reset == nil {
		x.reset = map[int]bool{}
	}
	for _, a := range x.p.after(to) {
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
func (p *Pipeline) after(to *Agent) (all []*Agent) {
	in := make([]bool, len(p.Agents))
	var add func(*Agent)
	add = func(a *Agent) {
		if in[a.Index] {
			return
		}
		in[a.Index] = true
		for _, d := range p.releases[a.Name] {
			add(d)
		}
	}
	for _, a := range p.Agents[to.Index:] {
		add(a)
	}
	for i, a := range p.Agents {
		if in[i] {
			all = append(all, a)
		}
	}
	return all
}

// startsRound reports whether a cycle edge from a visit would begin a round: it has
// satisfied a goal, and others remain.
func (x *executor) startsRound(v *visit) bool {
	return len(v.gained) > 0 && slices.ContainsFunc(x.env.Goals, func(g Goal) bool { return g.Status == GoalPending })
}

// beginRound counts a round, if the edge begins one.
func (x *executor) beginRound(v *visit) bool {
	if !x.startsRound(v) {
		return false
	}
	e := x.env
	e.Rounds = newest(append(e.Rounds, Round{Number: e.CurrentStageNumber, Satisfied: v.gained, Summary: v.control.Summary}))
	e.CurrentStageNumber++
	return true
}

package page

import (
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// What is counted for a sentence, in the order in which it is told.
var sayCounts = []string{"step finished", "step failed", "gate opened", "gate closed"}

// count takes a record in, for the next sentence.
func (f *feed) count(e *tipstaff.Event) {
	what := ""
	switch e.Kind {
	case tipstaff.KindPolicyGate:
		what = "gate opened"
	case tipstaff.KindPolicyGateResolve:
		what = "gate closed"
	case tipstaff.KindStageFinished:
		if what = "step finished"; sentence(e).Bad {
			what = "step failed"
		}
	case tipstaff.KindPlanStep:
		switch tipstaff.BodyOf[tipstaff.PlanStep](e).Status {
		case tipstaff.StepCompleted:
			what = "step finished"
		case tipstaff.StepFailed, tipstaff.StepRefused, tipstaff.StepUncertain:
			what = "step failed"
		}
	}
	if what != "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tally[what]++
	}
}

// say sums up in one sentence what has happened since the last one, if that was long enough
// ago; the end is told at once. The first drawing says nothing: it is what the page shows
// anyhow. moved: the run has another status.
func (f *feed) say(old, d *drawing, moved bool) bool {
	if old.parts == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch more := d.waiting - old.waiting; {
	case !f.run.IsZero():
		if moved {
			f.tally["status"] = 1
		}
	case more > 0:
		f.tally["gate opened"] += more
	case more < 0:
		f.tally["gate closed"] -= more
	}
	now := f.s.now()
	if len(f.tally) == 0 || !d.final && now.Sub(f.saidAt) < sayEvery {
		return false
	}
	var all []string
	for _, what := range sayCounts {
		if n := f.tally[what]; n == 1 {
			all = append(all, "1 "+what)
		} else if n > 1 {
			noun, verb, _ := strings.Cut(what, " ")
			all = append(all, fmt.Sprintf("%d %ss %s", n, noun, verb))
		}
	}
	if f.tally["status"] > 0 {
		all = append(all, "the run is "+words(f.status))
	}
	f.tally = map[string]int{}
	d.say, d.said, f.saidAt = strings.Join(all, ", "), old.said+1, now
	return true
}

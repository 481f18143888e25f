package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func (c contract) trigger() string {
	if len(c.incomplete) > 0 {
		return tipstaff.TriggerIncomplete
	}
	return c.verdict
}

// handoff hands what a stage has brought to a person, and goes on as they say. What
// is stored stays as the stage gave it.
func (x *executor) handoff(v *visit) error {
	c := contractOf(v)
	subject := tipstaff.HandoffSubject{Stage: v.agent.Name, Visit: v.n, Trigger: c.trigger(), Round: v.n, MaxRounds: v.n + x.roundsLeft(v),
		Summary: c.summary, Findings: c.findings, Incomplete: c.incomplete}
	actions := subject.Offer()
	x.stages[v.agent.Index].held = true
	d, err := x.wait(v.agent.Name, v.path, flow.Gate{Key: string(tipstaff.Handoff), Kind: string(tipstaff.Handoff), Subject: flow.JSON(subject),
		Question: fmt.Sprintf("%s hands over: %s. What now?", v.agent.Name, c.trigger()), Actions: actions, Deny: tipstaff.ActionHalt})
	if err != nil {
		return err
	}
	x.stages[v.agent.Index].held = false
	switch d.Action {
	case tipstaff.ActionRetry:
		return x.sendBack(v, d.Feedback)
	case tipstaff.ActionWaive:
		w := tipstaff.Waiver{Stage: v.agent.Name, Visit: v.n, FindingIDs: []string{}, Reason: d.Feedback, Actor: d.By}
		for _, f := range c.findings {
			w.FindingIDs = append(w.FindingIDs, f.ID)
		}
		x.env.Waivers = newest(append(x.env.Waivers, w))
		x.emitAt(v.path, tipstaff.KindWaiverRecorded, tipstaff.WaiverRecorded{Waiver: w, Gate: d.Gate})
		return x.letPass(v)
	case tipstaff.ActionContinue:
		if c.rejected() {
			x.emitAt(v.path, tipstaff.KindHandoffOverridden,
				tipstaff.HandoffOverridden{Stage: v.agent.Name, Visit: v.n, Gate: d.Gate, Action: d.Action, Actor: d.By, Note: d.Note})
		}
		return x.letPass(v)
	}
	text := v.path + " was halted at its handoff"
	if d.Note != "" {
		text += ": " + d.Note
	}
	return x.end(tipstaff.TerminalHalted, text, where{visit: v, halted: &d})
}

// roundsLeft is how many more rounds the limits allow a stage that rejects.
func (x *executor) roundsLeft(v *visit) int64 {
	left := max(0, x.env.MaxIterations-x.env.Iteration)
	t, err := x.choose(v, withVerdict(v.output, rejected))
	if err != nil || !x.isStage(t.to) || !x.p.IsCycle(v.agent.Name, t.to) {
		return 0
	}
	if limit := x.p.limits[Edge{v.agent.Name, t.to}]; limit > 0 {
		left = min(left, max(0, limit+countOf(x.MoreEdges, v.agent.Name, t.to)-x.limitedCount(Edge{v.agent.Name, t.to})))
	}
	if to := x.p.Agent(t.to); to.MaxVisits > 0 {
		left = min(left, max(0, to.MaxVisits+x.MoreVisits[to.Name]-x.env.Visits[to.Name]))
	}
	return left
}

// sendBack routes as if the stage had rejected, over one cycle edge that no limit
// refuses. Without such an edge the same stage runs again.
func (x *executor) sendBack(v *visit, feedback string) error {
	t, err := x.choose(v, withVerdict(v.output, rejected))
	if err != nil {
		return x.unroutable(v, err)
	}
	if !x.isStage(t.to) || !x.p.IsCycle(v.agent.Name, t.to) {
		t = target{to: v.agent.Name}
	}
	t.granted, t.feedback = true, feedback
	return x.follow(v, t)
}

// letPass routes as if the stage had approved. Then no edge leads back.
func (x *executor) letPass(v *visit) error {
	t, err := x.choose(v, withVerdict(v.output, approved))
	if err != nil {
		return x.unroutable(v, err)
	}
	if x.isStage(t.to) && x.p.IsCycle(v.agent.Name, t.to) {
		t = target{to: End, rule: t.rule}
	}
	return x.follow(v, t)
}

func withVerdict(output map[string]any, verdict string) map[string]any {
	said := maps.Clone(output)
	if said == nil {
		said = map[string]any{}
	}
	said[verdictKey] = verdict
	return said
}

// Verdicts of a stage with a handoff. Whatever is not the first is the second.
const (
	verdictKey = "verdict"
	approved   = tipstaff.VerdictApproved
	rejected   = tipstaff.VerdictRejected
)

// contract is what the output of a stage with a handoff says to people.
type contract struct {
	verdict    string
	summary    string
	findings   []tipstaff.StageFinding
	incomplete []string
}

// OpenFindings are what the stages' last visits found and nobody has let pass.
func OpenFindings(s *State) (open []tipstaff.FindingRecorded) {
	waived := map[string]bool{}
	for _, w := range s.Waivers {
		for _, id := range w.FindingIDs {
			waived[id] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Outputs)) {
		v := &visit{path: key, output: s.Outputs[key]}
		if n := s.Visits[key]; n > 0 {
			v.path = fmt.Sprintf("%s#%d", key, n)
		}
		for _, f := range contractOf(v).findings {
			if !waived[f.ID] {
				open = append(open, tipstaff.FindingRecorded{Stage: key, Visit: s.Visits[key], StageFinding: f})
			}
		}
	}
	return open
}

// contractOf reads an output. What does not fit is left out; only a plain approval
// of something complete counts as one.
func contractOf(v *visit) contract {
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	c := contract{verdict: rejected, summary: text(v.output, "summary"), incomplete: []string{}, findings: []tipstaff.StageFinding{}}
	if v.output[verdictKey] == approved {
		c.verdict = approved
	}
	switch incomplete := v.output["incomplete"].(type) {
	case []any:
		for _, item := range incomplete {
			c.incomplete = append(c.incomplete, textOf(item))
		}
	case nil:
	default: // it says that something is, in a way of its own
		c.incomplete = append(c.incomplete, textOf(incomplete))
	}
	list, _ := v.output["findings"].([]any)
	for i, item := range list {
		f := tipstaff.StageFinding{ID: fmt.Sprintf("%s.f%d", v.path, i+1)}
		switch m := item.(type) {
		case map[string]any:
			f.Severity, f.Title, f.Body = text(m, "severity"), text(m, "title"), text(m, "body")
			f.RequiredFix, f.File = text(m, "required_fix"), text(m, "file")
			if line, ok := m["line"].(int64); ok && 0 < line && line <= maxSafe {
				f.Line = line
			}
		default:
			f.Title = textOf(item)
		}
		c.findings = append(c.findings, f)
	}
	return c
}

func (c contract) rejected() bool { return c.verdict != approved || len(c.incomplete) > 0 }

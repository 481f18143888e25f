package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// pipelineKind is the kind of an outline whose children are stages.
const pipelineKind = "pipeline"

// stageWork is what a stage has come to. However often it is visited, it is one node.
type stageWork struct {
	visit, attempt int64
	calls          int64 // of models, in all visits
	cost           int64 // in 10⁻⁹ USD, in all visits
	asked          nodeState
}

// text is what stands beside the stage: critic#3.2 is its third visit's second
// attempt.
func (w *stageWork) text() string {
	if w.visit == 0 {
		return ""
	}
	visit := fmt.Sprintf("#%d", w.visit)
	if w.attempt > 1 {
		visit += fmt.Sprintf(".%d", w.attempt)
	}
	return visit
}

// used is what the stage has consumed.
func (w *stageWork) used() string {
	calls, cost := "", ""
	if w.calls > 0 {
		calls = plural(int(w.calls), "model call")
	}
	if w.cost > 0 {
		cost = "$" + amount(tipstaff.BoundCostUSD, w.cost)
	}
	return joined("  ", calls, cost)
}

// stageBody has the members of all bodies that tell of stages.
type stageBody struct {
	Stage       string   `json:"stage"`
	Visit       int64    `json:"visit"`
	Attempt     int64    `json:"attempt"`
	NextAttempt int64    `json:"next_attempt"`
	Outcome     string   `json:"outcome"`
	DurationMs  int64    `json:"duration_ms"`
	DelayMs     int64    `json:"delay_ms"`
	Code        string   `json:"code"`
	Error       string   `json:"error"`
	Next        string   `json:"next"`
	Unmet       []string `json:"unmet"`
	Usage       struct {
		LLMCalls int64  `json:"llm_calls"`
		CostUSD  string `json:"cost_usd"`
	} `json:"usage"`

	From       string   `json:"from"`
	To         string   `json:"to"`
	Reason     string   `json:"reason"`
	Iteration  int64    `json:"iteration"`
	Checkpoint string   `json:"checkpoint"`
	ID         string   `json:"id"`
	Labels     []string `json:"labels"`
	Severity   string   `json:"severity"`
	Title      string   `json:"title"`
}

// stageBodyOf reads what it can.
func stageBodyOf(ev tipstaff.Event) (b stageBody) {
	_ = json.Unmarshal(ev.Body, &b) // what has another form is not shown
	return b
}

func (b *stageBody) took() time.Duration { return time.Duration(b.DurationMs) * time.Millisecond }

func (b *stageBody) cost() int64 {
	n, err := tipstaff.ParseBound(tipstaff.BoundCostUSD, b.Usage.CostUSD)
	if err != nil {
		return 0
	}
	return n
}

// failure is why a stage failed, and where that leads.
func (b *stageBody) failure() string {
	text := joined(": ", b.Code, b.Error)
	if b.Next != "" {
		text += " → " + b.Next
	}
	return text
}

// back reports whether a transition leads back, over an edge that counts as an
// iteration.
func (b *stageBody) back() bool { return b.Reason == "reintent" || b.Reason == "next_stage" }

// refused reports whether a limit stood in the way of a transition.
func (b *stageBody) refused() bool {
	return b.Reason == "edge_limit" || b.Reason == "visit_limit" || b.Reason == "iteration_limit"
}

// place is a path without the visit of its stage. Names of stages have no #.
func (t *tree) place(path string) string {
	if !t.pipeline {
		return path
	}
	first, rest, deeper := strings.Cut(path, "/")
	name, _, visited := strings.Cut(first, "#")
	if !visited || t.byPath[name] == nil && (name == "now" || name == "go") { // the engine's own
		return path
	}
	t.stage(name)
	if deeper {
		return name + "/" + rest
	}
	return name
}

// stage is the node of a stage. Whoever looks at the run of another has no outline:
// then stages appear as they start.
func (t *tree) stage(name string) *node {
	if n := t.byPath[name]; n != nil {
		return n
	}
	root := t.roots[0]
	n := &node{path: name, name: name, kind: "stage", outlined: true, stage: &stageWork{}}
	t.byPath[name] = n
	root.children = append(root.children, n)
	return n
}

// foldStage takes in what an executor tells of stages, and reports whether it was
// that.
func (t *tree) foldStage(ev tipstaff.Event) bool {
	if !t.pipeline {
		return false
	}
	b := stageBodyOf(ev)
	switch ev.Kind {
	case tipstaff.KindStageStarted:
		t.stage(b.Stage).visit(b, ev.At)
	case tipstaff.KindStageRetrying:
		n := t.stage(b.Stage)
		n.stage.attempt, n.note = b.NextAttempt, "retrying: "+b.failure()
	case tipstaff.KindStageFinished:
		t.stage(b.Stage).leave(b, ev.At)
	case tipstaff.KindStageSkipped:
		n := t.stage(b.Stage)
		n.state, n.note = skipped, "without "+strings.Join(b.Unmet, ", ")
	case tipstaff.KindTransition:
		if b.back() || b.Reason == "resume" {
			t.epoch(b.From, b.To)
		}
	default:
		return false
	}
	return true
}

// visit begins the stage, or an attempt of it, anew.
func (n *node) visit(b stageBody, at time.Time) {
	if n.stage.visit != b.Visit || n.started.IsZero() {
		n.started = at
		for _, c := range n.children {
			c.walk(func(c *node) { c.state, c.started, c.ended, c.took, c.note = pending, time.Time{}, time.Time{}, 0, "" })
		}
	}
	n.stage.visit, n.stage.attempt = b.Visit, b.Attempt
	n.state, n.ended, n.took, n.note, n.agent = running, time.Time{}, 0, "", nil
}

var stageOutcomes = map[string]nodeState{"success": done, "error": failed, "cancelled": cancelled}

// leave ends a visit. One whose rules cannot be evaluated ends twice, and is counted
// once.
func (n *node) leave(b stageBody, at time.Time) {
	state, ok := stageOutcomes[b.Outcome]
	if !ok {
		return
	}
	if n.state == running || n.state == pending {
		n.stage.calls += b.Usage.LLMCalls
		n.stage.cost += b.cost()
	}
	n.state, n.ended, n.took, n.note = state, at, b.took(), b.failure()
}

// epoch is what a new epoch does: the stages from the one it begins at are to run
// again.
func (t *tree) epoch(from, to string) {
	stages := t.roots[0].children
	index := func(name string) int { return slices.IndexFunc(stages, func(n *node) bool { return n.path == name }) }
	at := index(to)
	if at < 0 || at > index(from) {
		return
	}
	for _, n := range stages[at:] {
		if n.state != running {
			n.state, n.note = pending, ""
		}
	}
}

// loop is an edge that leads back, and the iteration in which it was taken last.
type loop struct {
	from, to  string
	iteration int64
	refused   string // by what, at last; "": it was taken
}

// turnBack notes a transition that leads back, or would have.
func (v *view) turnBack(ev tipstaff.Event) {
	b := stageBodyOf(ev)
	if !b.back() && !b.refused() {
		return
	}
	l := loop{from: b.From, to: b.To, iteration: b.Iteration}
	if b.refused() {
		l.refused = b.Reason
	}
	v.loops = slices.DeleteFunc(v.loops, func(had loop) bool { return had.from == l.from && had.to == l.to })
	v.loops = append(v.loops, l)
	if len(v.loops) > loopsShown {
		v.loops = v.loops[1:]
	}
}

// loopsShown is how many loops stand below the stages: the latest.
const loopsShown = 3

// loopLines show the loops, as ↺ critic → intent 2/3.
func (v *view) loopLines() (lines []line) {
	for _, l := range v.loops {
		text := fmt.Sprintf("%s → %s ", l.from, l.to) + joined("/", fmt.Sprint(l.iteration), v.spent.limit[tipstaff.BoundIterations])
		shown := line{say(yellow, "↺ "), say(plain, text)}
		if l.refused != "" {
			shown = append(shown, say(red, "  refused: "+l.refused))
		}
		lines = append(lines, shown)
	}
	return lines
}

// stageWords are what a plain line says of a record about stages.
func stageWords(ev tipstaff.Event) (what, detail string) {
	b := stageBodyOf(ev)
	switch ev.Kind {
	case tipstaff.KindStageStarted:
		if b.Attempt > 1 {
			return "started", fmt.Sprintf("attempt %d", b.Attempt)
		}
		return "started", ""
	case tipstaff.KindStageFinished:
		used := stageWork{calls: b.Usage.LLMCalls, cost: b.cost()}
		return stageEnds[b.Outcome], joined("  ", human(b.took()), used.used(), b.failure())
	case tipstaff.KindStageRetrying:
		return "retrying", joined("  ", fmt.Sprintf("attempt %d in %s", b.NextAttempt, human(time.Duration(b.DelayMs)*time.Millisecond)), b.failure())
	case tipstaff.KindStageSkipped:
		return "skipped", joined("  ", b.Stage, "without "+strings.Join(b.Unmet, ", "))
	case tipstaff.KindTransition:
		return "route", transitionText(b)
	case tipstaff.KindCheckpointCreated:
		return "checkpoint", joined("  ", b.ID, strings.Join(b.Labels, ", "))
	case tipstaff.KindFindingRecorded:
		return "finding", joined("  ", b.Severity, b.Title)
	case tipstaff.KindWaiverRecorded:
		return "waived", ""
	case tipstaff.KindHandoffOverridden:
		return "overridden", ""
	}
	return "", ""
}

var stageEnds = map[string]string{"success": "completed", "error": "failed", "cancelled": "cancelled"}

func transitionText(b stageBody) string {
	text := b.From + " → " + b.To
	switch {
	case b.back():
		return fmt.Sprintf("↺ %s  %s  iteration %d", text, b.Reason, b.Iteration)
	case b.refused():
		return text + "  refused: " + b.Reason
	}
	return text + "  " + b.Reason
}

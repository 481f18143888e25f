package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// view is a run as its records tell it, for drawing. It is a pure fold: the
// same records give the same view, whoever drives the run. What is told and not
// recorded only adds to the note of a call in flight.
type view struct {
	run   tipstaff.ID
	name  string
	state string // running, waiting, interrupted, completed, failed, cancelled; "" before the first owner
	why   string // reason of an end or an interruption
	tree  *tree
	spent ledger
	loops []loop // of a pipeline, the latest last

	drivenSince time.Time     // zero: nobody drives it
	driven      time.Duration // by former owners
}

// newView shows a program before its first record. Without an outline the tree
// grows as records name places in it.
func newView(run tipstaff.ID, name string, o *tipstaff.Outline) *view {
	return &view{run: run, name: name, tree: newTree(o), spent: newLedger()}
}

// recordBody has the members of all bodies that a view looks at.
type recordBody struct {
	Name      string                     `json:"name"`
	Subject   json.RawMessage            `json:"subject"`
	Questions []question                 `json:"questions"`
	Attempt   int                        `json:"attempt"`
	Attempts  int                        `json:"attempts"`
	Reserve   map[string]int64           `json:"reserve"`
	Use       map[string]int64           `json:"use"`
	Ms        int64                      `json:"ms"`
	Error     *recordError               `json:"error"`
	Status    string                     `json:"status"`
	LatencyMs *int64                     `json:"latency_ms"`
	Gate      string                     `json:"gate"`
	Question  string                     `json:"question"`
	GateKind  tipstaff.GateKind          `json:"gate_kind"`
	Action    string                     `json:"action"`
	Via       string                     `json:"via"`
	Reason    string                     `json:"reason"`
	Message   string                     `json:"message"`
	Bound     string                     `json:"bound"`
	Outcome   string                     `json:"outcome"`
	Skipped   []string                   `json:"skipped"`
	Bounds    map[string]json.RawMessage `json:"bounds"`
	Title     string                     `json:"title"`
	Used      map[string]int64           `json:"used"`
	Counters  map[string]int64           `json:"counters"`
	Limit     map[string]int64           `json:"limit"`
	Revision  int                        `json:"revision"`
	Material  bool                       `json:"material"`
	Reasons   []tipstaff.Reason          `json:"reasons"`
	Progress  float64                    `json:"progress"`
	Total     float64                    `json:"total"`
}

// progress is how far a call says it has come.
func (b recordBody) progress() string {
	far := count(b.Progress)
	if b.Total > 0 {
		far += " of " + count(b.Total)
	}
	return joined("  ", far, b.Message)
}

// count is a number for people: whole if it is, and never longer than a row.
func count(n float64) string {
	if math.Abs(n) >= 1e15 {
		return fmt.Sprintf("%.3g", n)
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
}

type recordError struct {
	Reason  string `json:"reason"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Bound   string `json:"bound"`
}

func (e *recordError) text() string {
	code := e.Code
	if code == "" {
		code = e.Reason
	}
	if e.Bound != "" {
		code += " (" + e.Bound + ")"
	}
	return joined(": ", code, e.Message)
}

// joined joins the parts that are there.
func joined(sep string, parts ...string) string {
	var present []string
	for _, p := range parts {
		if p != "" {
			present = append(present, p)
		}
	}
	return strings.Join(present, sep)
}

// bodyOf reads what a view needs. A member of another form than expected leaves
// the rest readable: a view shows what it can.
func bodyOf(ev tipstaff.Event) recordBody {
	var b recordBody
	if json.Unmarshal(ev.Body, &b) == nil {
		return b
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(ev.Body, &members) != nil {
		return b
	}
	for name, raw := range members {
		one, err := json.Marshal(map[string]json.RawMessage{name: raw})
		if err != nil {
			continue
		}
		try := b
		if json.Unmarshal(one, &try) == nil {
			b = try
		}
	}
	return b
}

// fold takes in one event.
func (v *view) fold(ev tipstaff.Event) {
	b := bodyOf(ev)
	v.spent.fold(ev, b)
	switch ev.Kind {
	case "intent.draft":
		if b.Title != "" {
			v.name = b.Title
		}
	case "run.started", "run.resumed":
		v.state, v.why, v.drivenSince = "running", "", ev.At
	case "run.parked":
		v.rest(ev.At, "waiting", "")
		v.tree.breakOff("")
	case "run.interrupted":
		v.rest(ev.At, "interrupted", b.Reason)
		v.tree.breakOff("interrupted")
	case "intent.attest":
		v.end(ev.At, "completed", b.Outcome)
	case "intent.fail":
		v.end(ev.At, "failed", joined(": ", joined(" ", b.Reason, b.Bound), b.Message))
	case "intent.cancel":
		v.end(ev.At, "cancelled", b.Reason)
	case "policy.gate":
		v.tree.wait(b.GateKind, ev.Path, ev.At, b.Question)
		if d := draftOf(tipstaff.Gate{Kind: b.GateKind, Subject: b.Subject}); d != nil {
			v.tree.plan(d.Outline)
		}
	case "intent.clarify":
		v.tree.wait(tipstaff.Clarification, ev.Path, ev.At, plural(len(b.Questions), "question"))
	case "intent.answer":
		v.tree.decided(ev.Path, "answer")
	case "intent.accept":
		v.tree.decided(ev.Path, "accept")
	case "policy.gate.resolve":
		v.tree.decided(ev.Path, b.Action)
	case "run.continued":
		if !v.tree.pipeline { // which only begins its history afresh
			v.tree.leave()
		}
	default:
		if ev.Kind == tipstaff.KindTransition {
			v.turnBack(ev)
		}
		v.tree.fold(ev, b)
	}
}

// rest ends a drive.
func (v *view) rest(at time.Time, state, why string) {
	v.state, v.why = state, why
	v.driven = v.drivenAt(at)
	v.drivenSince = time.Time{}
}

func (v *view) end(at time.Time, state, why string) {
	v.rest(at, state, why)
	v.tree.settle(at)
}

// drivenAt is how long the run was driven up to now, all owners together.
func (v *view) drivenAt(now time.Time) time.Duration {
	if v.drivenSince.IsZero() || now.Before(v.drivenSince) {
		return v.driven
	}
	return v.driven + now.Sub(v.drivenSince)
}

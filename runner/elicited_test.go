package runner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// undecided is a client on this machine that may decide nothing.
func undecided() context.Context {
	c := tipstaff.CallerFrom(stdio())
	c.Scopes = []string{tipstaff.ScopeRead, tipstaff.ScopeRun, tipstaff.ScopeSubmit}
	return tipstaff.WithCaller(context.Background(), c)
}

// A client that may not decide is told who does, and how it could.
func TestStdioDecidesNothingByItself(t *testing.T) {
	b := newBed(t)
	run, _ := b.run("root: {id: ok, kind: gate, question: \"Go?\"}\n")
	gate := b.get(run).OpenGates[0]
	_, err := b.control().DecideGate(undecided(), tipstaff.GateDecision{Run: run, Gate: gate.ID, Action: "approve"})
	e, _ := err.(*tipstaff.Error)
	if e == nil || e.Code != tipstaff.Forbidden || !strings.Contains(e.Hint, "scope decide") || !strings.Contains(e.Hint, "--decide") || !strings.Contains(e.Hint, "tipstaff decide") {
		t.Errorf("%+v", err)
	}
	if left := b.get(run).OpenGates; len(left) != 1 {
		t.Errorf("%d gates are open", len(left))
	}
}

// What a client reports that its person has answered is recorded as that, and counts as far as
// the manifest says.
func TestElicitedDecisions(t *testing.T) {
	for mode, code := range map[string]tipstaff.Code{"": "", "mcp: {elicitation: on}\n": "", "mcp: {elicitation: off}\n": tipstaff.Forbidden} {
		b := newBed(t)
		b.write("tipstaff.yaml", manifest+mode)
		run, _ := b.run("root: {id: ok, kind: gate, question: \"Go?\"}\n")
		gate := b.get(run).OpenGates[0]
		d := tipstaff.GateDecision{Run: run, Gate: gate.ID, Action: "approve", SubjectDigest: gate.Digest}
		got, err := b.control().DecideElicited(undecided(), d)
		if tipstaff.CodeOf(err) != code {
			t.Errorf("%q: %v", mode, err)
		}
		if code != "" {
			continue
		}
		if text := string(got.Decision); !strings.Contains(text, `"via":"elicitation"`) || !strings.Contains(text, `"client":"tester/1"`) || !strings.Contains(text, `"principal":"local:mcp"`) {
			t.Errorf("%q: the record is %s", mode, text)
		}
		if again, err := b.control().DecideElicited(undecided(), d); err != nil || !again.Replayed || string(again.Decision) != string(got.Decision) {
			t.Errorf("%q: the same again is %+v, %v", mode, again, err)
		}
		d.Action = "deny"
		if _, err := b.control().DecideElicited(undecided(), d); tipstaff.CodeOf(err) != tipstaff.DecisionConflict {
			t.Errorf("%q: another answer is %v", mode, err)
		}
		b.resume(run)
		if report := b.verified(run); !report.Integrity.OK || !report.Conformance.OK {
			t.Errorf("%q: %+v", mode, report)
		}
	}
}

// A client decides neither by an action that is not offered nor about another subject.
func TestElicitedDecisionsAreChecked(t *testing.T) {
	b := newBed(t)
	run, _ := b.run("root: {id: ok, kind: gate, question: \"Go?\"}\n")
	gate := b.get(run).OpenGates[0]
	for code, d := range map[tipstaff.Code]tipstaff.GateDecision{
		tipstaff.ActionNotOffered: {Run: run, Gate: gate.ID, Action: "destroy"},
		tipstaff.SubjectChanged:   {Run: run, Gate: gate.ID, Action: "approve", SubjectDigest: "sha256:" + strings.Repeat("0", 64)},
		tipstaff.GateNotFound:     {Run: run, Gate: run, Action: "approve"},
	} {
		if _, err := b.control().DecideElicited(undecided(), d); tipstaff.CodeOf(err) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
}

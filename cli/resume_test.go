package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func revisedPlan(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(name, []byte("kind: plan\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// A correction for a run that others drive is handed in: nothing is driven here.
func TestResumeHandsACorrectionIn(t *testing.T) {
	name := revisedPlan(t)
	handed := tipstaff.Corrected{Run: runA, Program: tipstaff.Program{Kind: "plan", Name: "notes", Digest: "sha256:p", Revision: 2}, Outline: notesOutline(),
		Revision: 2, Classification: tipstaff.Classification{Material: true, Reasons: []tipstaff.Reason{
			{Rule: "budget_delta", Detail: "tool_calls rises from 1 to 2"}, {Rule: "anchor_flip", Detail: "no longer anchored"}}}}
	for _, c := range []struct {
		name   string
		args   []string
		out    string
		stderr string
	}{
		{"for people", nil, "run         01JCQ8R4T5V6W7X8Y9Z0A1B2C3\n" +
			"program     plan notes  revision 2  sha256:p\n" +
			"correction  revision 2, material: budget_delta, tool_calls rises from 1 to 2; anchor_flip, no longer anchored\n",
			"the process that drives the run takes it up; to follow it:\n  tipstaff watch 01JCQ8R4T5V6W7X8Y9Z0A1B2C3\n"},
		{"for programs", []string{"--json"}, `{"run_id":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3","program":{"kind":"plan","name":"notes","digest":"sha256:p","revision":2},` +
			`"revision":2,"material":true,"reasons":[{"rule":"budget_delta","detail":"tool_calls rises from 1 to 2"},{"rule":"anchor_flip","detail":"no longer anchored"}]}` + "\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.svc.runs = []tipstaff.Run{waitingRun()}
			var got tipstaff.CorrectRequest
			b.svc.amend = func(r tipstaff.CorrectRequest) (tipstaff.Corrected, error) {
				got = r
				return handed, nil
			}
			b.svc.resume = func(context.Context, tipstaff.ResumeRequest) (tipstaff.Started, error) {
				return tipstaff.Started{}, tipstaff.Errorf(tipstaff.Busy, "another process drives it")
			}
			b.run(t, 0, append([]string{"resume", "@", "--with", name, "--reason", "more room"}, c.args...)...)
			equal(t, "stdout", b.out.String(), c.out)
			equal(t, "stderr", b.err.String(), c.stderr)
			if got.Run != runA || got.Name != name || got.Reason != "more room" || string(got.Program) != "kind: plan\n" {
				t.Errorf("handed in %+v", got)
			}
		})
	}
}

func TestResumeNeedsAPlanAndAReasonTogether(t *testing.T) {
	name := revisedPlan(t)
	for _, args := range [][]string{
		{"resume", "@", "--with", name},
		{"resume", "@", "--with", name, "--reason", " \t"},
		{"resume", "@", "--reason", "better"},
		{"resume", "@", "--with", name + ".missing", "--reason", "better"},
	} {
		b := newBench(t)
		b.svc.runs = []tipstaff.Run{waitingRun()}
		b.svc.resume = func(context.Context, tipstaff.ResumeRequest) (tipstaff.Started, error) {
			t.Error("the run was resumed")
			return tipstaff.Started{}, nil
		}
		b.run(t, 2, args...)
	}
}

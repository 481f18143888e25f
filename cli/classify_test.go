package cli

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// fakeClassifier answers as scripted and keeps what it was asked.
type fakeClassifier struct {
	answer    tipstaff.Classification
	err       error
	asked     tipstaff.ClassifyRequest
	workspace string
}

func (c *fakeClassifier) Classify(_ context.Context, req tipstaff.ClassifyRequest) (tipstaff.Classification, error) {
	c.asked = req
	return c.answer, c.err
}

// newClassifyBench is a bench beside two plans, a.yaml and b.yaml.
func newClassifyBench(t *testing.T) (*bench, *fakeClassifier) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.yaml", "b.yaml", "m.yaml"} {
		if err := os.WriteFile(name, []byte("text of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, c := newBench(t), &fakeClassifier{answer: tipstaff.Classification{Reasons: []tipstaff.Reason{}}}
	b.env.Classifier = func(workspace string) (tipstaff.Classifier, error) {
		c.workspace = workspace
		return c, nil
	}
	return b, c
}

func material() tipstaff.Classification {
	return tipstaff.Classification{Material: true, Reasons: []tipstaff.Reason{
		{Rule: "budget_delta", Detail: "cost_usd rises from 1.00 to 2.50"},
		{Rule: "success_criteria_changed", Detail: "the verb changes from build to \x1b[2J"},
	}}
}

func TestClassifyMaterial(t *testing.T) {
	b, c := newClassifyBench(t)
	c.answer = material()
	b.run(t, 9, "classify", "a.yaml", "b.yaml")
	equal(t, "stdout", b.out.String(), `material
  budget_delta: cost_usd rises from 1.00 to 2.50
  success_criteria_changed: the verb changes from build to \u001b[2J
`)
	equal(t, "stderr", b.err.String(), "")
	b.out.Reset()
	b.run(t, 9, "classify", "a.yaml", "b.yaml", "--json")
	equal(t, "stdout", b.out.String(), `{"material":true,"reasons":[{"rule":"budget_delta","detail":"cost_usd rises from 1.00 to 2.50"},`+
		`{"rule":"success_criteria_changed","detail":"the verb changes from build to \u001b[2J"}]}`+"\n")
}

func TestClassifyNotMaterial(t *testing.T) {
	b, c := newClassifyBench(t)
	b.run(t, 0, "classify", "a.yaml", "b.yaml", "--workspace", "/w")
	equal(t, "stdout", b.out.String(), "not material\n")
	b.out.Reset()
	b.run(t, 0, "classify", "a.yaml", "b.yaml", "--json", "--workspace", "/w")
	equal(t, "stdout", b.out.String(), `{"material":false,"reasons":[]}`+"\n")
	equal(t, "workspace", c.workspace, "/w")
	if len(b.opened) > 0 {
		t.Error("the runs of the workspace were opened")
	}
}

func TestClassifyHandsOverWhatIsNamed(t *testing.T) {
	b, c := newClassifyBench(t)
	b.env.Stdin = strings.NewReader("from a pipe")
	b.run(t, 0, "classify", "-", "b.yaml", "--manifest", "m.yaml", "--now", "2026-01-31T18:00:00+01:00")
	equal(t, "old", c.asked.Old.Name+": "+string(c.asked.Old.Text), "stdin: from a pipe")
	equal(t, "new", c.asked.New.Name+": "+string(c.asked.New.Text), "b.yaml: text of b.yaml")
	equal(t, "manifest", c.asked.Manifest.Name+": "+string(c.asked.Manifest.Text), "m.yaml: text of m.yaml")
	if want := time.Date(2026, 1, 31, 17, 0, 0, 0, time.UTC); !c.asked.Now.Equal(want) {
		t.Errorf("now is %v, want %v", c.asked.Now, want)
	}
	b.run(t, 0, "classify", "a.yaml", "b.yaml")
	if c.asked.Manifest != nil || !c.asked.Now.IsZero() {
		t.Errorf("manifest %v and now %v were made up", c.asked.Manifest, c.asked.Now)
	}
}

func TestClassifyMisused(t *testing.T) {
	for _, args := range [][]string{
		{}, {"a.yaml"}, {"a.yaml", "b.yaml", "c.yaml"}, {"a.yaml", "nowhere.yaml"}, {"nowhere.yaml", "b.yaml"},
		{"a.yaml", "b.yaml", "--manifest", "nowhere.yaml"}, {"-", "-"}, {"-", "b.yaml", "--manifest", "-"},
		{"a.yaml", "b.yaml", "--now", "tomorrow"}, {"a.yaml", "b.yaml", "--now", "2026-01-31"},
	} {
		b, c := newClassifyBench(t)
		b.run(t, 2, append([]string{"classify"}, args...)...)
		contains(t, strings.Join(args, " "), b.err.String(), "error: ")
		if c.asked.New.Text != nil {
			t.Errorf("%v: it was asked all the same", args)
		}
	}
}

func TestClassifyOfInvalidPlansShowsEveryProblem(t *testing.T) {
	b, c := newClassifyBench(t)
	c.err = &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "they cannot be compared", Problems: []tipstaff.Problem{
		{Code: "field_unknown", File: "a.yaml", Line: 3, Column: 1, Message: "no"},
		{Code: "ref_unknown", File: "b.yaml", Line: 7, Column: 5, Message: "nobody"},
	}}
	b.run(t, 2, "classify", "a.yaml", "b.yaml")
	equal(t, "stdout", b.out.String(), "")
	contains(t, "stderr", b.err.String(), "a.yaml:3:1: field_unknown: no", "b.yaml:7:5: ref_unknown: nobody")
}

func TestClassifyWithoutAWorkspace(t *testing.T) {
	b, _ := newClassifyBench(t)
	b.env.Classifier = func(string) (tipstaff.Classifier, error) {
		return nil, tipstaff.Errorf(tipstaff.WorkspaceUnresolved, "no folder")
	}
	b.run(t, 2, "classify", "a.yaml", "b.yaml")
	contains(t, "stderr", b.err.String(), "no folder")
}

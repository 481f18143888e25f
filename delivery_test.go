package tipstaff_test

import (
	"testing"

	. "github.com/tipstaff/tipstaff"
)

// The expected names are digests that other programs make of the canonical lists.
func TestFindingsHaveNamesThatLast(t *testing.T) {
	a := FindingRecorded{Stage: "review", Visit: 1, StageFinding: StageFinding{ID: "1", Severity: "P1", Title: " No\n TESTS ", File: "a.go", Line: 3, Body: "x"}}
	if got := FindingID(a); got != "f_e0f1fb583932" {
		t.Error(got)
	}
	a.Visit, a.ID, a.Line, a.Body = 2, "2", 9, "y"
	if got := FindingID(a); got != "f_e0f1fb583932" {
		t.Errorf("it has another name in another visit: %s", got)
	}
	for i, change := range []func(f *FindingRecorded){func(f *FindingRecorded) { f.Stage = "x" }, func(f *FindingRecorded) { f.Severity = "P2" },
		func(f *FindingRecorded) { f.Title = "x" }, func(f *FindingRecorded) { f.File = "b.go" }} {
		b := a
		if change(&b); FindingID(b) == FindingID(a) {
			t.Errorf("change %d: two findings have one name", i)
		}
	}
}

func TestFixpoints(t *testing.T) {
	finding := func(title string) FindingRecorded {
		return FindingRecorded{Stage: "s", StageFinding: StageFinding{Title: title}}
	}
	base := FixpointOf("t", []FindingRecorded{finding("a"), finding("b")}, []Receipt{{Name: "x", Tree: "t", ExitCode: 1}, {Name: "y", Tree: "t"}})
	for name, c := range map[string]struct {
		of   Fixpoint
		same bool
	}{
		"in another order":           {FixpointOf("t", []FindingRecorded{finding("b"), finding("A"), finding("a")}, []Receipt{{Name: "y", Tree: "t"}, {Name: "x", Tree: "t", ExitCode: 2}}), true},
		"another tree":               {FixpointOf("u", []FindingRecorded{finding("a"), finding("b")}, []Receipt{{Name: "x", Tree: "u", ExitCode: 1}, {Name: "y", Tree: "u"}}), false},
		"one finding less":           {FixpointOf("t", []FindingRecorded{finding("a")}, []Receipt{{Name: "x", Tree: "t", ExitCode: 1}, {Name: "y", Tree: "t"}}), false},
		"another check":              {FixpointOf("t", []FindingRecorded{finding("a"), finding("b")}, []Receipt{{Name: "x", Tree: "t"}, {Name: "y", Tree: "t", ExitCode: 1}}), false},
		"a check that could not run": {FixpointOf("t", []FindingRecorded{finding("a"), finding("b")}, []Receipt{{Name: "x", Tree: "t", Code: "timeout"}, {Name: "y", Tree: "t"}}), true},
	} {
		if c.of.Equal(base) != c.same {
			t.Errorf("%s: %+v", name, c.of)
		}
	}
}

func TestGatesOfDeliveriesAreAskedByTheProgram(t *testing.T) {
	for key, want := range map[string]string{"delivery#1": "", "root/delivery#2": "root"} {
		if got := AskerPath(Delivery, key); got != want {
			t.Errorf("AskerPath(%q) = %q", key, got)
		}
	}
}

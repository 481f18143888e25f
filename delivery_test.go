package tipstaff_test

import (
	"encoding/json"
	"slices"
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

// A set-up of the worktree that has failed is told at the delivery, whatever it says of its
// place; one of the checks fails them, which tells it.
func TestViewTellsSetupsOfTheWorktree(t *testing.T) {
	for in, want := range map[string]string{"": "setup failed: npm ci", InWorktree: "setup failed: npm ci", InClean: ""} {
		v := NewView("", nil)
		failed, err := json.Marshal(SetupFinished{Phase: PhaseSetup, Receipt: Receipt{Argv: []string{"npm", "ci"}, Tree: "t", ExitCode: 1, In: in}})
		if err != nil {
			t.Fatal(err)
		}
		v.Apply(&Event{Seq: 1, Kind: KindSetupFinished, Path: "deliver", Body: failed})
		got := ""
		for _, n := range v.Roots {
			got += n.Note
		}
		if got != want {
			t.Errorf("in %q: %q", in, got)
		}
	}
}

// The name of a file that is obeyed cannot look like what is said of it, or like two names.
func TestNamesOfObeyedFiles(t *testing.T) {
	files := []ObeyedFile{{Path: "a/plain-name_1.go"}, {Path: "a b"}, {Path: "a\nb"}, {Path: "a, b"}, {Path: `"a"`}, {Path: "a  (apply never changes it)"}, {Path: "x\x1b[2K\u202e"}}
	want := []string{"a/plain-name_1.go", `"a b"`, `"a\nb"`, `"a, b"`, `"\"a\""`, `"a  (apply never changes it)"`, `"x\x1b[2K\u202e"`}
	for i := range files {
		files[i].Kind, files[i].Reason, files[i].Apply = ObeyedDecides, "why", ApplyAsks
		if got := files[i].String(); got != "decides  "+want[i]+"  why  (apply asks once more)" {
			t.Errorf("%q is shown as %s", files[i].Path, got)
		}
	}
	subject, err := json.Marshal(DeliverySubject{Tree: "t", Obeyed: files})
	if err != nil {
		t.Fatal(err)
	}
	if got := AsksAgain(Gate{Kind: Delivery, Subject: subject}, DeliverApply); !slices.Equal(got, want) {
		t.Errorf("asked about are %q", got)
	}
}

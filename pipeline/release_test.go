package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestReleaseExpressions(t *testing.T) {
	const outputs = `{"review":{"verdict":"approved","score":7}}`
	waivers := []tipstaff.Waiver{{Stage: "review", FindingIDs: []string{"f_1"}, Reason: "known"}}
	for source, want := range map[string]string{
		`outputs.review.verdict == "approved"`:              "true",
		`outputs.review.score > 8`:                          "false",
		`outputs.tests.passed`:                              "no such key: tests",
		`outputs.review.verdict`:                            "not a boolean",
		`waivers.exists(w, "f_1" in w.finding_ids)`:         "true",
		`waivers.all(w, w.stage == "x")`:                    "false",
		`size(waivers) == 0 || waivers[0].reason != ""`:     "true",
		`outputs.review.score / (outputs.review.score - 7)`: "not a boolean",
	} {
		r, err := CompileRelease(source)
		got := ""
		if err == nil {
			var is bool
			if is, err = r.Allows(json.RawMessage(outputs), waivers); is {
				got = "true"
			} else if err == nil {
				got = "false"
			}
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
	if r, err := CompileRelease("size(waivers) == 0"); err != nil {
		t.Error(err)
	} else if is, err := r.Allows(json.RawMessage("{}"), nil); !is || err != nil {
		t.Errorf("without waivers: %v, %v", is, err)
	}
}

// A host that cannot do what a document asks of it says so where it stands.
func TestFeaturesOfTheHost(t *testing.T) {
	poor := Resolver{Feature: func(name string) Trouble { return Trouble{Code: "field_invalid", Message: "there is no " + name} }}
	for src, places := range map[string]int{"files: none": 0, "files: worktree": 1, "deliver: {}": 1, "files: worktree\ndeliver: {}": 2} {
		_, problems := Check("p.yaml", []byte("name: p\nagents: []\n"+src+"\n"), poor)
		if len(problems) != places {
			t.Errorf("%s: %+v", src, problems)
		}
		for i, p := range problems {
			if p.Line != 3+i || p.Column < 8 {
				t.Errorf("%s: %+v", src, p)
			}
		}
	}
	p, problems := Check("p.yaml", []byte("name: p\nfiles: worktree\ndeliver: {correct_at: a, paths: [src/**], release: 'true', checks: [{name: t, run: [go, test]}]}\nagents: [{name: a, remote: {}}]\n"), Resolver{})
	if len(problems) > 0 || p.Deliver.Base != "HEAD" || !p.Deliver.Checks[0].Required || p.Files.Mode != "worktree" {
		t.Fatalf("%+v", problems)
	}
	again, err := Load(p.Canonical())
	if err != nil || again.Deliver.CorrectAt != "a" || again.Deliver.Checks[0].Timeout != p.Deliver.Checks[0].Timeout {
		t.Errorf("%+v: %v", again, err)
	}
}

package cortex

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

func TestEndings(t *testing.T) {
	given, own := NewURI("fact", noon, 1).String(), NewURI("event", noon, 2)
	for name, c := range map[string]struct {
		draft                          flow.Draft
		outcome, reason, by, wantCited string
	}{
		"success": {flow.Draft{Kind: "intent.attest", From: "executor", Body: json.RawMessage(`{"outcome":"success","cited":["` + given + `"]}`)}, Success, "", "executor", given},
		"partial": {flow.Draft{Kind: "intent.attest", From: "executor", Body: json.RawMessage(`{"outcome":"partial","cited":[]}`)}, Partial, "", "executor", ""},
		"failure": {flow.Draft{Kind: "intent.fail", From: "executor", Body: json.RawMessage(`{"reason":"timeout","cited":[]}`)}, Failure, "timeout", "executor", ""},
		"cancel": {flow.Draft{Kind: "intent.cancel", From: "executor", Body: json.RawMessage(`{"reason":"no need","on_behalf_of":"local:cli","cited":[]}`)},
			Cancelled, "", "local:cli", ""},
	} {
		a, err := Ending(c.draft, noon, []URI{own, own})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []string{own.String()}
		if c.wantCited != "" {
			want = slices.Insert(want, 0, c.wantCited)
		}
		if a.Outcome != c.outcome || a.Reason != c.reason || a.CreatedBy != c.by || !slices.Equal(a.Cited, want) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if _, err := Ending(flow.Draft{Kind: "intent.draft", Body: json.RawMessage(`{}`)}, noon, nil); err == nil {
		t.Error("a draft ended a run")
	}
}

func TestSign(t *testing.T) {
	a := &Attest{Cited: []string{"x"}}
	got, err := a.Sign(json.RawMessage(`{"outcome":"success","cited":[],"evidence":{"revision":1}}`), 41)
	want := `{"cited":["x"],"evidence":{"cortex":{"attest_seq":41,"learn_seq":42},"revision":1},"outcome":"success"}`
	if err != nil || string(got) != want {
		t.Errorf("%s: %v", got, err)
	}
	for _, body := range []string{`[]`, `{}`, `{"evidence":null}`, `{"evidence":1}`} {
		if got, err := a.Sign(json.RawMessage(body), 41); err == nil {
			t.Errorf("%s became %s", body, got)
		}
	}
}

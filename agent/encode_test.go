package agent

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/flowtest"
)

// amounts are not negative.
var amounts = map[reflect.Type]*rapid.Generator[any]{
	reflect.TypeFor[USD](): rapid.Map(rapid.Int64Min(0), func(n int64) USD { return USD(n) }).AsAny(),
}

// What is not read back must be what would have been read.
func TestAnswersThatSurvive(t *testing.T) {
	kept := 0
	rapid.Check(t, func(t *rapid.T) {
		a := flowtest.Arbitrary[answer](amounts).Draw(t, "answer")
		if !a.survives() {
			return
		}
		kept++
		var back answer
		if err := json.Unmarshal(flow.JSON(&a), &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
	if kept == 0 {
		t.Error("no answer was tried")
	}
	for _, a := range []answer{{Text: "\xff"}, {Model: "\xff"}, {Reason: "\xff"}, {Calls: []Call{{ID: "\xff"}}}, {Calls: []Call{{Name: "\xff"}}},
		{Calls: []Call{{Arguments: "\xff"}}}, {Opaque: json.RawMessage(`[ ]`)}} {
		if a.survives() {
			t.Errorf("%+v", a)
		}
	}
}

// Whatever a message holds, its document is its canonical form.
func TestDocumentsOfMessagesAreCanonical(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<&>", "\u2028", "\x00\x1f\x7f", "é\U0001F600", `"\\/`, "\t\n\r\b\f"}))
	raws := rapid.SampledFrom([]string{"", `{"b":1,"a":2}`, `{"a":1.0}`, `["\u0041","\/"]`, ` [ 1e3 ] `, `{"a":{"z":null,"b":[]}}`})
	rapid.Check(t, func(t *rapid.T) {
		m := Message{Role: Assistant, Text: texts.Draw(t, "text"), Model: texts.Draw(t, "model"), Partial: rapid.Bool().Draw(t, "partial"),
			Calls:   []Call{{ID: texts.Draw(t, "id"), Name: texts.Draw(t, "name"), Arguments: texts.Draw(t, "arguments")}},
			Content: []Content{{Type: ContentText, Text: texts.Draw(t, "content")}},
			Usage:   &Usage{InputTokens: rapid.Int64Range(0, 1<<53).Draw(t, "tokens")}}
		if raw := raws.Draw(t, "opaque"); raw != "" {
			m.Opaque = json.RawMessage(raw)
		}
		want, err := jcs.Transform(flow.JSON(m))
		if err != nil {
			t.Fatal(err)
		}
		if got := messageBlob(m); string(got.Data) != string(want) {
			t.Fatalf("document:\n%s\ncanonical:\n%s", got.Data, want)
		}
	})
}

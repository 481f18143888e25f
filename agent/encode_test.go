package agent

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

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
		want, err := canon.Form(flow.JSON(m))
		if err != nil {
			t.Fatal(err)
		}
		if got := messageBlob(m); string(got.Data) != string(want) {
			t.Fatalf("document:\n%s\ncanonical:\n%s", got.Data, want)
		}
	})
}

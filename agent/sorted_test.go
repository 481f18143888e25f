package agent

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// fill gives every field a value that is not its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`[{"a":1}]`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Int64:
		v.SetInt(7)
	default:
		panic("a message has a field of type " + v.Type().String())
	}
}

// A field that is added to a message must be added to its sorted form too.
func TestNoFieldOfAMessageIsLeftOutOfItsDigest(t *testing.T) {
	var m Message
	fill(reflect.ValueOf(&m).Elem())
	want, err := jcs.Transform(flow.JSON(m))
	if err != nil {
		t.Fatal(err)
	}
	got := flow.JSON(sorted(m))
	if string(got) != string(want) {
		t.Errorf("sorted:\n%s\ncanonical:\n%s", got, want)
	}
	if !journal.IsCanonical(got) {
		t.Errorf("the short way is not taken for %s", got)
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

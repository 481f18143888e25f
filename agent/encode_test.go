package agent

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	case reflect.Int64, reflect.Int:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.7)
	default:
		panic("a message has a field of type " + v.Type().String())
	}
}

// arbitrary draws any value of a type: of raw JSON some that is laid out in one way
// or another.
func arbitrary[T any]() *rapid.Generator[T] {
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<&>", "\u2028", "\x00\x1f\x7f", "\xff", "é\U0001F600", `"\\/{`, "\t\n\r\b\f"}))
	return rapid.MakeCustom[T](rapid.MakeConfig{
		Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.String: texts.AsAny()},
		Types: map[reflect.Type]*rapid.Generator[any]{
			reflect.TypeFor[json.RawMessage](): rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{}`), json.RawMessage(" { \"a\" : [ 1.50, \"\\u0041<\" ] }\n"),
				json.RawMessage("\"\u2028\"")}).AsAny(),
			reflect.TypeFor[USD]():     rapid.Map(rapid.Int64Min(0), func(n int64) USD { return USD(n) }).AsAny(),
			reflect.TypeFor[float64](): rapid.SampledFrom([]float64{0, 0.7, 1e-9, 1e21, -2}).AsAny(),
		},
	})
}

// writesItself checks that what a type writes is what encoding/json makes of it.
func writesItself[T any, P interface {
	*T
	flow.Appender
}](t *testing.T) {
	t.Run(reflect.TypeFor[T]().Name(), func(t *testing.T) {
		var full T
		fill(reflect.ValueOf(&full).Elem())
		asTheStandard(t, P(&full))
		rapid.Check(t, func(rt *rapid.T) {
			v := arbitrary[T]().Draw(rt, "value")
			asTheStandard(rt, P(&v))
		})
	})
}

func asTheStandard(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, v flow.Appender) {
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	if got := flow.JSON(v); string(got) != strings.TrimSuffix(want.String(), "\n") {
		t.Fatalf("got  %s\nwant %s", got, want.String())
	}
	if got := v.AppendJSON([]byte("before{")); !strings.HasPrefix(string(got), "before{{") {
		t.Fatalf("not at the end of what was there: %s", got)
	}
}

func TestTypesThatWriteThemselves(t *testing.T) {
	writesItself[StepStarted](t)
	writesItself[MessageDone](t)
	writesItself[ToolCallRequest](t)
	writesItself[ApprovalDecided](t)
	writesItself[ToolCallResult](t)
	writesItself[Usage](t)
	writesItself[answer](t)
	writesItself[modelInput](t)
}

// What is not read back must be what would have been read.
func TestAnswersThatSurvive(t *testing.T) {
	kept := 0
	rapid.Check(t, func(t *rapid.T) {
		a := arbitrary[answer]().Draw(t, "answer")
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

// A field that is added to a message must be added to its sorted form too.
func TestNoFieldOfAMessageIsLeftOutOfItsDigest(t *testing.T) {
	var m Message
	fill(reflect.ValueOf(&m).Elem())
	want, err := jcs.Transform(flow.JSON(m))
	if err != nil {
		t.Fatal(err)
	}
	got := flow.JSON((*sorted)(&m))
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

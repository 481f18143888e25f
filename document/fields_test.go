package document

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// everything reads one field of each kind.
func everything(f *Fields) map[string]any {
	got := map[string]any{
		"text": f.Text("text"), "word": f.Word("word", "first", "second"), "boolean": f.Boolean("boolean", true),
		"integer": f.Integer("integer", 7, 1, 10), "duration": f.Duration("duration"), "texts": f.Texts("texts"),
	}
	decoded := struct {
		Number float64 `doc:"number,min=0,max=1"`
		Each   []struct {
			Inner string `doc:"inner"`
		} `doc:"each"`
	}{Number: 0.5}
	f.Decode(&decoded)
	got["number"] = decoded.Number
	for _, e := range decoded.Each {
		got["each"] = e.Inner
	}
	f.Object("object", func(o *Fields) { got["object"] = o.Text("inner") })
	f.End()
	return got
}

func TestFieldsAreRead(t *testing.T) {
	const src = "{text: a, word: second, boolean: false, integer: 1e1, number: 0.25, duration: 90s, texts: [b, c], object: {inner: d}, each: [{inner: e}]}"
	var ps Problems
	got := everything(FieldsOf(&ps, mustRead(t, src), ""))
	want := map[string]any{"text": "a", "word": "second", "boolean": false, "integer": int64(10), "number": 0.25, "duration": 90 * time.Second,
		"texts": []string{"b", "c"}, "object": "d", "each": "e"}
	if diff := cmp.Diff(want, got); diff != "" || len(ps) > 0 {
		t.Errorf("%v (-want +got):\n%s", ps, diff)
	}
}

func TestAbsentFieldsHaveTheirDefaults(t *testing.T) {
	absent := map[string]any{"text": "", "word": "first", "boolean": true, "integer": int64(7), "number": 0.5, "duration": time.Duration(0), "texts": []string(nil)}
	for _, c := range []struct {
		src  string
		want []string // told of it
	}{
		{"{}", []string{}},
		{"[]", []string{"1:1 field_type o"}},
		{"{text: 1, word: third, boolean: 'true', integer: 11, number: 2, duration: soon, texts: a, object: [], each: {}}", []string{
			"1:8 field_type o.text", "1:17 field_invalid o.word", "1:33 field_type o.boolean", "1:50 range o.integer", "1:62 range o.number",
			"1:75 field_invalid o.duration", "1:88 field_type o.texts", "1:99 field_type o.object", "1:109 field_type o.each"}},
		{"{integer: 1.5, duration: -1s, number: -1e999}", []string{"1:11 range o.integer", "1:26 range o.duration", "1:39 range o.number"}},
	} {
		var ps Problems
		f := FieldsOf(&ps, mustRead(t, c.src), "o")
		f.Dotted = true
		if diff := cmp.Diff(absent, everything(f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.src, diff)
		}
		if diff := cmp.Diff(c.want, told(ps)); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", c.src, diff)
		}
	}
}

func TestUnknownFieldsAreReported(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"{max_iteration: 1}", `"max_iteration" is not a field here; did you mean max_iterations?`},
		{"{Max_Iterations: 1}", `"Max_Iterations" is not a field here; did you mean max_iterations?`},
		{"{max_iterations: 1, max_iteration: 2}", `"max_iteration" is not a field here; the fields are id, max_iterations`}, // it stands there already
		{"{color: red}", `"color" is not a field here; the fields are id, max_iterations`},
		{"{ix: red}", `"ix" is not a field here; did you mean id?`},
		{"{xx: red}", `"xx" is not a field here; the fields are id, max_iterations`}, // all of it differs
	} {
		var ps Problems
		f := FieldsOf(&ps, mustRead(t, c.src), "")
		f.Integer("max_iterations", 0, 0, 9)
		f.Ignore("id")
		f.End()
		if len(ps) != 1 || ps[0].Code != CodeFieldUnknown || ps[0].Message != c.want {
			t.Errorf("%s: %+v", c.src, ps)
		}
		if f.IgnoreRest(); len(f.Known()) != 2 {
			t.Errorf("known are %v", f.Known())
		}
		if f.End(); len(ps) != 1 {
			t.Errorf("%s: reported although everything is welcome", c.src)
		}
	}
}

func TestRequiredFields(t *testing.T) {
	var ps Problems
	f := FieldsOf(&ps, mustRead(t, "a: 1\nb: 2"), "o")
	if v := f.Required("a", Number); v == nil || v.Text != "1" {
		t.Errorf("a is %v", v)
	}
	if f.Required("b", Text) != nil || f.Required("c", Text) != nil {
		t.Error("what is of another type, or absent, was read")
	}
	if diff := cmp.Diff([]string{"1:1 field_missing o", "2:4 field_type o"}, told(ps)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPathsOfNestedObjects(t *testing.T) {
	var ps Problems
	f := FieldsOf(&ps, mustRead(t, "a:\n  - b: {x: 1}\n"), "")
	f.Dotted = true
	var into struct {
		A []struct {
			B struct{} `doc:"b"`
		} `doc:"a"`
	}
	f.Decode(&into)
	if diff := cmp.Diff([]string{"2:9 field_unknown a[0].b.x"}, told(ps)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBriefCutsBetweenCharacters(t *testing.T) {
	if got := Brief(strings.Repeat("a", 59) + "éé"); got != strings.Repeat("a", 59)+"…" {
		t.Errorf("%q", got)
	}
	if got := Brief(strings.Repeat("a", 60)); len(got) != 60 {
		t.Errorf("%q", got)
	}
}

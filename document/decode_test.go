package document

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type color string

type part struct {
	Name  string `doc:"name,required"`
	Count int    `doc:"count,min=1,max=3"`
}

// CheckDocument has its own opinion, and its own member.
func (p *part) CheckDocument(f *Fields) {
	if v := f.Get("twice"); v != nil && p.Count > 1 {
		f.Report("twice_too_much", v.At, "twice", "%s is too much", f.Name)
	}
}

func (p *part) CheckKey(key string) error {
	if strings.ContainsRune(key, ' ') {
		return errors.New("a part has no blank in its name")
	}
	return nil
}

// secret reads itself.
type secret string

func (s *secret) ReadDocument(f *Fields, name string, v *Value) {
	*s = secret(f.PathOf(name) + "=" + v.Text)
}

type level int

func (l *level) UnmarshalText(text []byte) error {
	if *l = level(len(text)); len(text) > 3 {
		return errors.New("a level has three letters")
	}
	return nil
}

type common struct {
	Shared string `doc:"shared"`
}

type thing struct {
	common
	Text    string          `doc:"text"`
	Named   bool            `json:"in_json,omitempty" doc:""`
	Whole   int64           `doc:"whole,min=-5,max=5"`
	Real    float64         `doc:"real,min=0,max=1"`
	Perhaps *int            `doc:"perhaps"`
	Wait    time.Duration   `doc:"wait"`
	Within  Duration        `doc:"within,min=1s,max=1m"`
	Color   color           `doc:"color,in=red|green|blue"`
	Colors  []color         `doc:"colors,one,in=red|green|blue"`
	Part    *part           `doc:"part"`
	Parts   []part          `doc:"parts"`
	ByName  map[string]part `doc:"by_name"`
	Raw     json.RawMessage `doc:"raw"`
	Any     *Value          `doc:"any"`
	Secret  secret          `doc:"secret"`
	Level   level           `doc:"level"`
	Unset   []string        `doc:"unset,null"`
	Unread  string
	Default string `doc:"default"`
}

func decodeThing(t *testing.T, src string) (thing, []string) {
	t.Helper()
	var ps Problems
	f := FieldsOf(&ps, mustRead(t, src), "")
	f.Dotted = true
	x := thing{Default: "as before"}
	f.Decode(&x)
	f.End()
	var problems []string
	for _, p := range ps.Public("") {
		problems = append(problems, p.Code+" "+p.Path+": "+p.Message)
	}
	return x, problems
}

func TestEveryKindOfFieldIsDecoded(t *testing.T) {
	one := 1
	got, problems := decodeThing(t, `{shared: s, text: a, in_json: true, whole: -5, real: 0.5, perhaps: 1, wait: 1h, within: 1m, color: green, colors: red,
  part: {name: p, count: 3}, parts: [{name: q}], by_name: {k: {name: r}}, raw: {b: 1, a: 2}, secret: x, level: abc, unset: null}`)
	want := thing{common: common{"s"}, Text: "a", Named: true, Whole: -5, Real: 0.5, Perhaps: &one, Wait: time.Hour, Within: Duration(time.Minute), Color: "green", Colors: []color{"red"},
		Part: &part{"p", 3}, Parts: []part{{Name: "q"}}, ByName: map[string]part{"k": {Name: "r"}}, Raw: json.RawMessage(`{"a":2,"b":1}`), Secret: "secret=x", Level: 3, Default: "as before"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(thing{})); diff != "" || problems != nil {
		t.Error(diff, problems)
	}
	if got, _ := decodeThing(t, "{any: [1]}"); got.Any == nil || got.Any.Kind != List {
		t.Errorf("the value itself is %+v", got.Any)
	}
}

func TestEveryProblemOfADocumentIsTold(t *testing.T) {
	got, problems := decodeThing(t, `{text: 1, in_json: x, whole: 6, real: 2, perhaps: 0.5, wait: -1s, within: 2m, color: gren, colors: [red, pink, 3],
  part: {count: 0}, parts: [{name: q, count: 2, twice: 1}, 7], by_name: {"a b": {}, c: {nam: x, name: y}}, level: abcd, default: 1, unset: 1, shard: 1}`)
	want := []string{
		`field_type text: text must be a string, not a number; put it in quotes`,
		`field_type in_json: in_json must be a boolean, not a string`,
		`range whole: whole is 6; it must be a whole number from -5 to 5`,
		`range real: real is 2; it must be from 0 to 1`,
		`range perhaps: perhaps is 0.5; it must be a whole number from 0 to 9007199254740992`,
		`range wait: wait is -1s; it must be longer than nothing`,
		`range within: within is 2m; it must be a duration from 1s to 1m0s`,
		`field_invalid color: color is "gren"; it must be red, green or blue`,
		`field_invalid colors[1]: colors[1] is "pink"; it must be red, green or blue`,
		`field_type colors[2]: colors[2] must be a string, not a number; put it in quotes`,
		`field_missing part.name: name is missing`,
		`range part.count: count is 0; it must be a whole number from 1 to 3`,
		`twice_too_much parts[0].twice: parts[0] is too much`,
		`field_type parts[1]: an object belongs here, not a number`,
		`field_unknown by_name.a b: a part has no blank in its name`,
		`field_unknown by_name.c.nam: "nam" is not a field here; the fields are count, name, twice`,
		`field_invalid level: a level has three letters`,
		`field_type default: default must be a string, not a number; put it in quotes`,
		`field_type unset: unset must be a list, not a number`,
		`field_unknown shard: "shard" is not a field here; did you mean shared?`,
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Error(diff)
	}
	if got.Default != "as before" || got.Perhaps != nil || got.Part == nil || got.Part.Count != 0 || len(got.Parts) != 2 || len(got.ByName) != 1 {
		t.Errorf("what is wrong was read: %+v", got)
	}
}

func TestAWrongTagIsAPanic(t *testing.T) {
	for name, into := range map[string]any{
		"option": &struct {
			A int `doc:"a,most=3"`
		}{},
		"number": &struct {
			A int `doc:"a,max=many"`
		}{},
		"duration": &struct {
			A time.Duration `doc:"a,max=3"`
		}{},
		"type": &struct {
			A chan int `doc:"a"`
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("nobody minds")
				}
			}()
			src := "{a: 1}"
			if name == "duration" {
				src = "{a: 1s}"
			}
			FieldsOf(new(Problems), mustRead(t, src), "").Decode(into)
		})
	}
}

// shape has members that depend on its kind.
type shape struct {
	Kind   string          `doc:"kind,variant"`
	Radius int             `doc:"radius,required,of=circle,min=1,max=9,code=bad_radius,negative=below_zero"`
	Wait   time.Duration   `doc:"wait_seconds,of=circle|square,unit=1s,max=60,negative=below_zero"`
	Style  json.RawMessage `doc:"style,of=square,object"`
}

func TestMembersDependOnTheVariant(t *testing.T) {
	for _, c := range []struct {
		src  string
		into shape
		want []string
	}{
		{"{kind: circle, radius: 3, wait_seconds: 1.5}", shape{Kind: "circle", Radius: 3, Wait: 1500 * time.Millisecond}, []string{}},
		{"{kind: square, style: {b: 1, a: 2}}", shape{Kind: "square", Style: json.RawMessage(`{"a":2,"b":1}`)}, []string{}},
		{"{kind: circle}", shape{Kind: "circle"}, []string{"1:1 field_missing radius"}},
		{"{kind: circle, radius: 10, wait_seconds: -1}", shape{Kind: "circle"}, []string{"1:24 bad_radius radius", "1:42 below_zero wait_seconds"}},
		{"{kind: circle, radius: -1, wait_seconds: 61}", shape{Kind: "circle"}, []string{"1:24 below_zero radius", "1:42 range wait_seconds"}},
		{"{kind: square, style: [], radius: 1}", shape{Kind: "square"}, []string{"1:23 field_type style", "1:27 field_unknown radius"}},
		{"{radius: 1, wait_seconds: 1}", shape{}, []string{"1:2 field_unknown radius", "1:13 field_unknown wait_seconds"}},
	} {
		var ps Problems
		var got shape
		f := FieldsOf(&ps, mustRead(t, c.src), "")
		f.Dotted = true
		f.Decode(&got)
		f.End()
		if diff := cmp.Diff(c.into, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.src, diff)
		}
		if diff := cmp.Diff(c.want, told(ps)); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", c.src, diff)
		}
	}
}

// A duration that is written as a number has both bounds of its tag, and never becomes
// more than a duration can be.
func TestADurationInUnitsHasBounds(t *testing.T) {
	for src, want := range map[string]string{
		"{a: 1}":     "a is 1; it must be from 2 to 4611686018",
		"{a: 2}":     "",
		"{a: 1e300}": "a is 1e300; it must be from 2 to 4611686018",
		"{a: 1e10}":  "a is 1e10; it must be from 2 to 4611686018",
	} {
		into := struct {
			A time.Duration `doc:"a,unit=1s,min=2"`
		}{A: -1}
		var ps Problems
		FieldsOf(&ps, mustRead(t, src), "").Decode(&into)
		got := ""
		for _, p := range ps {
			got += p.Message
		}
		if got != want || (want == "") != (into.A == 2*time.Second) {
			t.Errorf("%s: %v and %q, want %q", src, into.A, got, want)
		}
	}
}

// A text that may be left blank is not told to be blank.
func TestABlankWordIsNoAdvice(t *testing.T) {
	into := struct {
		A string `doc:"a,in=|some|all"`
	}{}
	var ps Problems
	FieldsOf(&ps, mustRead(t, "{a: non}"), "").Decode(&into)
	if len(ps) != 1 || ps[0].Message != `a is "non"; it must be some or all` {
		t.Errorf("%+v", ps)
	}
}

func TestValuesAreFoundByTheirPlace(t *testing.T) {
	v := mustRead(t, `{a: [{b: 1}, {b: 2}], "0": x}`)
	if got := v.Find("a", "1", "b"); got == nil || got.Text != "2" {
		t.Errorf("found %+v", got)
	}
	if got := v.Find("0"); got == nil || got.Text != "x" {
		t.Errorf("found %+v", got)
	}
	for _, path := range [][]string{{"b"}, {"a", "2"}, {"a", "-1"}, {"a", "x"}, {"a", "0", "b", "c"}, {"b", "c"}} {
		if got := v.Find(path...); got != nil {
			t.Errorf("%v: found %+v", path, got)
		}
	}
}

func TestUnmarshalStrict(t *testing.T) {
	var into struct{ A int }
	if err := UnmarshalStrict([]byte(`{"a":1} `), &into); err != nil || into.A != 1 {
		t.Errorf("%+v, %v", into, err)
	}
	for _, bad := range []string{"", `{"b":1}`, `{"a":1}{}`, `{"a":"x"}`} {
		if UnmarshalStrict([]byte(bad), &into) == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// What encoding/json says of Go's types is told in the words of JSON.
func TestReadableErrors(t *testing.T) {
	var into struct {
		Content []struct {
			Text string `json:"text"`
			Size int    `json:"size"`
		} `json:"content"`
	}
	for data, want := range map[string]string{
		`{"content":7}`:                `"content" is a number where a list belongs`,
		`{"content":[{"text":true}]}`:  `"content.text" is true or false where a text belongs`,
		`{"content":[{"size":"big"}]}`: `"content.size" is a text where a whole number belongs`,
		`{"content":[{"size":1.5}]}`:   `"content.size" is a number where a whole number belongs`,
		`[]`:                           `the value is a list where an object belongs`,
		`{"other":1}`:                  `unknown field "other"`,
	} {
		if err := UnmarshalStrict([]byte(data), &into); err == nil || err.Error() != want {
			t.Errorf("%s: %v, not %s", data, err, want)
		}
	}
	if Readable(nil) != nil {
		t.Error("no error became one")
	}
}

package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
)

func TestNormalizeGivesNumbersTheirTypes(t *testing.T) {
	for _, test := range []struct{ in, want any }{
		{7, int64(7)},
		{1.0, 1.0},
		{json.Number("1"), int64(1)},
		{json.Number("1.0"), 1.0},
		{json.Number("9007199254740993"), int64(9007199254740993)},
		{json.Number("9007199254740993.0"), json.Number("9007199254740993.0")},
		{json.Number("123456789012345678901234567890"), json.Number("123456789012345678901234567890")},
		{json.Number("0.1"), 0.1},
		{json.Number("1e400"), json.Number("1e400")},
		{[]any{1, int64(2)}, []any{int64(1), int64(2)}},
		{map[string]any{"list": []any(nil), "object": map[string]any(nil)}, map[string]any{"list": nil, "object": nil}},
	} {
		got, err := Normalize(test.in)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%#v became %#v (%v), not %#v", test.in, got, err, test.want)
		}
	}
}

func TestNormalizeObject(t *testing.T) {
	if got, err := NormalizeObject(nil); got != nil || err != nil {
		t.Errorf("nothing became %v (%v)", got, err)
	}
	if got, err := NormalizeObject(map[string]any{}); got == nil || len(got) > 0 || err != nil {
		t.Errorf("an empty object became %v (%v)", got, err)
	}
}

func TestNormalizeDoesNotChangeWhatItIsGiven(t *testing.T) {
	in := map[string]any{"list": []any{1}}
	if _, err := Normalize(in); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, map[string]any{"list": []any{1}}) {
		t.Errorf("%#v", in)
	}
}

// nested is lists in lists, that many deep.
func nested(depth int) any {
	var v any
	for range depth {
		v = []any{v}
	}
	return v
}

func TestWhatIsNoValueIsRefusedWithItsPath(t *testing.T) {
	circle := []any{nil}
	circle[0] = circle
	for _, test := range []struct {
		in   any
		path string
	}{
		{map[string]any{"a": []any{1, math.NaN()}}, "a[1]"},
		{map[string]any{"a": map[string]any{"b": math.Inf(-1)}}, "a.b"},
		{[]any{nil, func() {}}, "[1]"},
		{map[string]any{"c": make(chan int)}, "c"},
		{map[string]any{"c": complex(1, 2)}, "c"},
		{map[string]any{"s": "caf\xe9"}, "s"},
		{map[string]any{"bytes": []byte("x")}, "bytes"},
		{map[string]any{"m": map[int]string{1: "x"}}, "m"},
		{map[string]any{"n": json.Number("0x10")}, "n"},
		{map[string]any{"n": json.Number("")}, "n"},
		{map[string]any{"a key": []any{time.Now()}}, `["a key"][0]`},
		{circle, strings.Repeat("[0]", MaxDepth)},
	} {
		_, err := Normalize(test.in)
		var refused *canon.Fault
		if !errors.As(err, &refused) || refused.Path.String() != test.path {
			t.Errorf("%.100T: %v, not at %s", test.in, err, test.path)
		}
	}
}

func TestDepthIsLimitedAtTheDoorAndInText(t *testing.T) {
	if _, err := Normalize(nested(MaxDepth)); err != nil {
		t.Error(err)
	}
	if _, err := Decode([]byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))); err != nil {
		t.Error(err)
	}
	deep := strings.Repeat("[0]", MaxDepth)
	for name, refuse := range map[string]func() error{
		"door": func() error { _, err := Normalize(nested(MaxDepth + 1)); return err },
		"text": func() error {
			_, err := Decode([]byte(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)))
			return err
		},
	} {
		var refused *canon.Fault
		if err := refuse(); !errors.As(err, &refused) || refused.Path.String() != deep {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeIsStrict(t *testing.T) {
	for _, test := range []struct{ src, path string }{
		{`{"a":{"b":1,"b":2}}`, "a.b"},
		{`{"a":1,"\u0061":2}`, "a"},
		{`{"a":["\ud800"]}`, "a[0]"},
		{`{"\udc00x":1}`, ""},
		{"{\"a\":\"\xff\"}", "a"},
		{`{"a":NaN}`, "a"},
		{`{"a":1} 2`, ""},
		{`{"a":01}`, ""},
		{``, ""},
	} {
		_, err := Decode([]byte(test.src))
		var refused *canon.Fault
		if !errors.As(err, &refused) || refused.Path.String() != test.path {
			t.Errorf("%s: %v", test.src, err)
		}
	}
	v, err := Decode([]byte(` { "a" : [ 1 , 1.0 , -0.0, 1e2 , 1e999, 100000000000000000000 ] , "😀\n" : "😀" , "e" : [ ] , "o" : { } } `))
	want := map[string]any{
		"a":   []any{int64(1), 1.0, math.Copysign(0, -1), 100.0, json.Number("1e999"), json.Number("100000000000000000000")},
		"😀\n": "😀", "e": []any{}, "o": map[string]any{},
	}
	if err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("%#v %v", v, err)
	}
}

func TestCanonicalEncoding(t *testing.T) {
	for _, test := range []struct {
		in   any
		want string
	}{
		{map[string]any{"b": int64(1), "a": 1.0, "Z": nil, "é": true}, `{"Z":null,"a":1.0,"b":1,"é":true}`},
		{[]any{0.1, 1e21, 1e-7, 123456789012.0, -0.5, math.MaxFloat64}, `[0.1,1e+21,1e-07,123456789012.0,-0.5,1.7976931348623157e+308]`},
		{int64(9007199254740993), `9007199254740993`},
		{json.Number("1.10e+400"), `1.10e+400`},
		{"a\"b\\c\n\t\r\b\f\x01</é\u2028", "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001</é\u2028\""},
		{[]any{}, `[]`}, {map[string]any{}, `{}`},
	} {
		if got := string(EncodeValue(test.in)); got != test.want {
			t.Errorf("%v: %s, not %s", test.in, got, test.want)
		}
	}
}

func TestEqualityOfRules(t *testing.T) {
	const beyond = int64(1) << 53
	same := [][2]any{
		{"a", "a"}, {true, true}, {nil, nil},
		{int64(1), 1.0}, {int64(1), json.Number("1.000")}, {json.Number("1e2"), int64(100)},
		{beyond, float64(beyond)}, {beyond + 1, json.Number("9007199254740993.0")},
		{0.1, json.Number("0.10")}, {int64(0), math.Copysign(0, -1)},
		{[]any{int64(1), "x"}, []any{1.0, "x"}}, {[]any{}, []any{}},
		{map[string]any{"a": int64(1), "b": nil}, map[string]any{"b": nil, "a": 1.0}},
	}
	different := [][2]any{
		{"a", "A"}, {"1", int64(1)}, {true, "true"}, {true, int64(1)}, {nil, false}, {nil, ""}, {nil, int64(0)},
		{beyond + 1, float64(beyond)}, {beyond + 1, beyond}, {beyond + 1, json.Number("9007199254740992")},
		{0.1, json.Number("0.1000000000000000055511151231257827")}, {int64(1), int64(-1)},
		{[]any{int64(1)}, []any{int64(1), int64(1)}}, {[]any{"a", "b"}, []any{"b", "a"}}, {[]any{}, map[string]any{}},
		{map[string]any{"a": nil}, map[string]any{}}, {map[string]any{"a": nil}, map[string]any{"b": nil}},
		{math.NaN(), math.NaN()}, {func() {}, nil}, {json.Number("x"), json.Number("x")},
	}
	for _, pair := range same {
		if !Equal(pair[0], pair[1]) || !Equal(pair[1], pair[0]) {
			t.Errorf("%#v and %#v differ", pair[0], pair[1])
		}
	}
	for _, pair := range different {
		if Equal(pair[0], pair[1]) || Equal(pair[1], pair[0]) {
			t.Errorf("%#v and %#v are equal", pair[0], pair[1])
		}
	}
}

func TestMoney(t *testing.T) {
	for text, want := range map[string]string{"0": "0.00", "5": "5.00", "0.000000001": "0.000000001", "12.3400": "12.34"} {
		m, err := tipstaff.ParseUSD(text)
		if err != nil || m.String() != want {
			t.Errorf("%s: %s %v", text, m, err)
		}
		raw, err := json.Marshal(m)
		var back tipstaff.USD
		if err != nil || string(raw) != fmt.Sprintf("%q", want) || json.Unmarshal(raw, &back) != nil || back != m {
			t.Errorf("%s: %s %v %v", text, raw, back, err)
		}
	}
	for _, text := range []string{"", "-1", "1e3", "0.0000000001", "99999999999", ".5", "1.", "01"} {
		if m, err := tipstaff.ParseUSD(text); err == nil {
			t.Errorf("%q is %s", text, m)
		}
	}
	var m tipstaff.USD
	if json.Unmarshal([]byte(`0.5`), &m) == nil {
		t.Error("a number is taken for an amount")
	}
}

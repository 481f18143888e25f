package canon

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// neighbours gives a text, all that it begins with, and what it becomes when one
// byte is left out, replaced or put in, of those that mean something in JSON, or stand beside
// such a byte.
func neighbours(text string, try func(b []byte)) {
	const alphabet = "\x00\x08\t\n\x0b\r\x1f !\"+,-./0129:;@AEFG[\\]`abefgnrtuxz{}~\x7f\x80\xff"
	for i := range len(text) {
		try([]byte(text[:i]))
		try([]byte(text[:i] + text[i+1:]))
		for _, c := range []byte(alphabet) {
			changed := []byte(text)
			changed[i] = c
			try(changed)
			try(slices.Insert([]byte(text), i, c))
		}
	}
	try([]byte(text))
}

var edgeTexts = []string{
	` { "a" : [ 1 , -20.5e+3 , 1E-2 , 0 , true ] , "\u00aF\n" : { } , "c" : [ ] , "d" : null , "" : false } `,
	"\t[\r\n\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u09aA\",{\"é\":\"😀\"}]",
	`[0.10,-0,10e9,"x"]`, `true`, `-1`, `""`,
}

// Check takes what encoding/json takes, and UTF-8 alone.
func TestCheckAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range edgeTexts {
		neighbours(text, func(b []byte) {
			if want, got := json.Valid(b) && utf8.Valid(b), Check(b) == nil; got != want {
				t.Errorf("%q is JSON: %v, want %v", b, got, want)
			}
		})
	}
}

// A value that is seen to end at a glance ends where the grammar says.
func TestPlainEnds(t *testing.T) {
	glances := 0
	for _, text := range append([]string{`"ab",`, `12,`, `12}`, `"a"`, `1`}, edgeTexts...) {
		neighbours(text, func(b []byte) {
			n := plainEnd(b)
			if n == 0 {
				return
			}
			glances++
			d := open(b, lenient)
			defer d.close()
			if _, err := d.ReadValue(); err != nil || int(d.InputOffset()) != n {
				t.Errorf("%q ends at %d, want %d, %v", b, n, d.InputOffset(), err)
			}
		})
	}
	if glances < 100 {
		t.Errorf("only %d were plain", glances)
	}
}

// What bytes stop being JSON is said by their place.
func TestCheckNamesThePlace(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,}`: "no valid JSON at byte 7", `[1,2`: "no valid JSON at byte 4", `{"a" 1}`: "no valid JSON at byte 5", `{} x`: "no valid JSON at byte 3",
		"\"\\u12": "no valid JSON at byte 1", "\xff": "no valid UTF-8",
	} {
		if err := Check([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func nested(open, inner, end string, n int) []byte {
	return []byte(strings.Repeat(open, n) + inner + strings.Repeat(end, n))
}

// Ten thousand levels are read, as encoding/json does, and not one more; siblings do
// not add up.
func TestDepthIsBoundedAlike(t *testing.T) {
	for _, c := range []struct{ open, inner, end string }{{`[`, `[]`, `]`}, {`{"a":`, `{}`, `}`}, {`[`, `{}`, `]`}, {`{"a":`, `[]`, `}`}, {`[`, `[0]`, `]`}, {`{"a":`, `{"a":0}`, `}`}} {
		for n, ok := range map[int]bool{MaxDepth - 1: true, MaxDepth: false} {
			b := nested(c.open, c.inner, c.end, n)
			if got := json.Valid(b); got != ok {
				t.Fatalf("encoding/json takes %d levels of %s: %v", n+1, c.open, got)
			}
			if got := Check(b) == nil; got != ok {
				t.Errorf("%d levels of %s are read: %v", n+1, c.open, got)
			}
		}
	}
	for _, one := range []string{`[]`, `{}`, `[0]`, `{"a":0}`} {
		if err := Check([]byte("[" + strings.Repeat(one+",", MaxDepth) + "0]")); err != nil {
			t.Errorf("many %s side by side: %v", one, err)
		}
	}
}

func TestMembersAndElements(t *testing.T) {
	for text, want := range map[string]string{
		` { "a" : 1 , "\u0062" : [2, 3] } `: `a=1 b=[2, 3]`, `{}`: ``, `[1]`: ``, ``: ``, ` `: ``, `7`: ``, `{"a":{}}`: `a={}`,
	} {
		var got []string
		for m, err := range Members([]byte(text)) {
			if err == nil {
				got = append(got, m.Name+"="+text[m.Start:m.End])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("members of %q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		` [ 1 , [2] , "x" ] `: `1 [2] "x"`, `[]`: ``, `{"a":1}`: ``, ``: ``, ` `: ``, `7`: ``,
	} {
		var got []string
		for e := range Elements([]byte(text)) {
			got = append(got, string(e))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("elements of %q: %q, want %q", text, got, want)
		}
	}
	for range Members([]byte(`{"a":1,"b":2}`)) {
		break // must be possible
	}
	for range Elements([]byte(`[1,2]`)) {
		break
	}
}

// Whatever is left of a torn text is read, and nothing beyond its end; its fault comes
// last.
func TestTornTextsEnd(t *testing.T) {
	for _, text := range []string{` { "a" : 1 , "b" : { } } `, ` [ 1 , "x" , { } ] `} {
		for i := range len(text) - 1 {
			torn := slices.Clip([]byte(text[:i]))
			names, values, faults := 0, 0, 0
			for _, err := range Members(torn) {
				if err != nil {
					faults++
				} else if names++; faults > 0 {
					t.Errorf("%q has a member after its fault", torn)
				}
			}
			for range Elements(torn) {
				values++
			}
			if names > 2 || values > 3 || faults != 1 {
				t.Errorf("%q has %d members, %d elements and %d faults", torn, names, values, faults)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	got, err := Decode([]byte(` {"a":[1,1.0,-0,9007199254740993,true,null,"\ud83d\ude00"],"":{}} `), 2)
	want := map[string]any{"a": []any{json.Number("1"), json.Number("1.0"), json.Number("-0"), json.Number("9007199254740993"), true, nil, "😀"}, "": map[string]any{}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for in, want := range map[string]string{
		``:                            "the JSON ends too early",
		`{"a":[1,{"b c":"\ud800x"}]}`: `a[1]["b c"]: the text has half a surrogate pair, \ud800`,
		`{"a":{"b":1,"\u0062":2}}`:    "a.b: the name stands twice in one object",
		`[[[[]]]]`:                    "[0][0][0]: it is more than 3 lists and objects deep",
		"[\"\xff\"]":                  "[0]: the text is not valid UTF-8",
		`{"a":1} {}`:                  "there is text after the JSON value",
		`{"a":x}`:                     "a: no valid JSON: 'x' is out of place",
	} {
		if _, err := Decode([]byte(in), 3); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

// FuzzRead compares our eyes for JSON with each other and with the standard library's.
func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,"x\u00e9\n",true,false,null]}`, `01`, `[1,]`, `{"a"}`, `"\x"`, " [ ] ", `-`, `1e`, `nul`, "\"\t\"", `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if ours, theirs := Check(in) == nil, json.Valid(in) && utf8.Valid(in); ours != theirs {
			t.Fatalf("%q: ours %v, encoding/json %v", in, ours, theirs)
		}
		_, err := Decode(in, MaxDepth)
		_, canonical := Form(in)
		var beyond *UnsafeNumber
		if refused := canonical != nil && !errors.As(canonical, &beyond); (err != nil) != refused {
			t.Fatalf("%q: Decode says %v, Form %v", in, err, canonical)
		}
	})
}

package pb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
)

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestCheckJSONTakes(t *testing.T) {
	for _, raw := range []string{
		`null`, ` true `, `""`, `-0.0e-1`, `1e400`, `9007199254740993`, `{}`, "\t[ ]\n", `{"a":{"a":1},"b":{"a":1}}`,
		`"\ud83d\ude00 \\ud83d \" é"`, nested(MaxDepth), `{"a":` + nested(MaxDepth-1) + `}`, `{"\u0061":1,"\\u0061":2}`, `"\ufffd"`,
	} {
		if err := checkJSON([]byte(raw), nil); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// An object with many names is looked up in another way.
func TestCheckJSONFindsANameTwiceAmongMany(t *testing.T) {
	object := func(names ...string) string { return `{"` + strings.Join(names, `":0,"`) + `":0}` }
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("n", i))
		if err := checkJSON([]byte(object(names...)), nil); err != nil {
			t.Fatalf("%d names: %v", len(names), err)
		}
		for _, again := range []string{names[0], names[i]} {
			requireFault(t, again, checkJSON([]byte(object(append(names, again)...)), nil), again, "twice")
		}
	}
}

func TestCheckJSONRefuses(t *testing.T) {
	for _, c := range []struct{ raw, path, message string }{
		{``, "", "too early"},
		{` `, "", "too early"},
		{`[1,`, "[1]", "too early"},
		{`[1,{"a":`, "[1].a", "too early"},
		{`1 2`, "", "after the JSON value"},
		{`{}}`, "", "after the JSON value"},
		{`{}x`, "", "after the JSON value"},
		{`{"a":[NaN]}`, "a[0]", "no valid JSON"},
		{`{"a":[1,-Infinity]}`, "a[1]", "no valid JSON"},
		{`[01]`, "[1]", "no valid JSON"},
		{`[1,]`, "[1]", "no valid JSON"},
		{`{"a":1,}`, "", "no valid JSON"},
		{`{1:1}`, "", "no valid JSON"},
		{`[1 2]`, "[1]", "no valid JSON"},
		{`{"a" 1}`, "a", "no valid JSON"},
		{`{"a":1 "b":2}`, "", "no valid JSON"},
		{`["abc`, "[0]", "too early"},
		{`["abc\`, "[0]", "too early"},
		{`["\x"]`, "[0]", `'\\' is out of place`},
		{`["\u12g4"]`, "[0]", "no valid JSON"},
		{`["\u+123"]`, "[0]", "no valid JSON"},
		{`["\u12`, "[0]", "too early"},
		{"[\"two\nlines\"]", "[0]", "no valid JSON"},
		{`[-]`, "[0]", "no valid JSON"},
		{`[1.]`, "[0]", "no valid JSON"},
		{`[1e+]`, "[0]", "no valid JSON"},
		{`[nul]`, "[0]", "no valid JSON"},
		{`{"a":1,"b":{"c":1,"c":1}}`, "b.c", "twice"},
		{`{"a":1,"\u0061":2}`, "a", "twice"},
		{`{"two words":["` + "\xff" + `"]}`, `["two words"][0]`, "UTF-8"},
		{`{"a":{"` + "\xed\xa0\x80" + `":1}}`, "a", "UTF-8"},
		{`["\ud83d"]`, "[0]", `half a surrogate pair, \ud83d`},
		{`["\ude00\ud83d"]`, "[0]", `half a surrogate pair, \ude00`},
		{`["\\\ud83d\\ude00"]`, "[0]", `half a surrogate pair, \ud83d`},
		{`{"a":{"\ud83dx":1}}`, "a", "half a surrogate pair"},
		{nested(MaxDepth + 1), strings.Repeat("[0]", MaxDepth), "more than 64"},
		{`{"a":` + nested(MaxDepth) + `}`, "a" + strings.Repeat("[0]", MaxDepth-1), "more than 64"},
		{strings.Repeat("[", 1_000_000), strings.Repeat("[0]", MaxDepth), "more than 64"},
	} {
		input := c.raw[:min(len(c.raw), 80)]
		requireFault(t, input, checkJSON([]byte(c.raw), nil), c.path, c.message)
	}
}

// Two readers that were written apart agree: the one of the standard library about
// what JSON is, the journal's about names and characters.
func FuzzCheckJSON(f *testing.F) {
	for _, raw := range []string{
		`{"a":[1.0,null,"\ud83d\ude00"]}`, `{"a":1,"\u0061":2}`, `["\ud83d"]`, `[1,]`, `1e400`, "\"\xff\"", `{} {}`, nested(70), `"\ufffd\\"`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := checkJSON(raw, nil)
		if err == nil && !(json.Valid(raw) && utf8.Valid(raw)) {
			t.Fatalf("took %q, which is no JSON", raw)
		}
		if err == nil {
			if _, canonical := canon.Form(quiet(raw)); canonical != nil {
				t.Fatalf("took %q, which the journal refuses: %v", raw, canonical)
			}
			return
		}
		if _, canonical := canon.Form(raw); canonical == nil && !deep(raw) {
			t.Fatalf("refused %q, which the journal takes: %v", raw, err)
		}
	})
}

// quiet has a 0 for every number: whether a number has a canonical form is not asked
// here.
func quiet(raw []byte) []byte {
	var out []byte
	inText, inNumber := false, false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case inText:
			out = append(out, c)
			if c == '\\' {
				i++
				out = append(out, raw[i])
			}
			inText = c != '"'
			continue
		case strings.IndexByte("0123456789+-.", c) >= 0, inNumber && (c == 'e' || c == 'E'):
			if !inNumber {
				out = append(out, '0')
			}
			inNumber = true
			continue
		}
		inNumber, inText = false, c == '"'
		out = append(out, c)
	}
	return out
}

// deep: enough brackets to be too deep.
func deep(raw []byte) bool {
	return bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) > MaxDepth
}

func BenchmarkCheckJSON(b *testing.B) {
	raw := []byte("[" + strings.Repeat(`{"title":"a finding","severity":"P1","line":12,"tags":["x",null,true]},`, 1000) + "0]")
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if err := checkJSON(raw, nil); err != nil {
			b.Fatal(err)
		}
	}
}

package journal

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
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

// Our own scanner takes what encoding/json takes, and UTF-8 alone.
func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range edgeTexts {
		neighbours(text, func(b []byte) {
			if want, got := json.Valid(b) && utf8.Valid(b), checkJSON(b) == nil; got != want {
				t.Errorf("%q is JSON: %v, want %v", b, got, want)
			}
		})
	}
}

// What bytes stop being JSON is said by their place.
func TestScannerNamesThePlace(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,}`: "no valid JSON at byte 7", `[1,2`: "no valid JSON at byte 4", `{"a" 1}`: "no valid JSON at byte 5", `{} x`: "no valid JSON at byte 3",
		"\"\\u12": "no valid JSON at byte 5", "\xff": "no valid UTF-8",
	} {
		if err := checkJSON([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Beyond names that are not ASCII, fractions, exponents and large numbers, IsCanonical
// knows every canonical text; the canonicaliser is the judge.
func TestIsCanonicalIsExactOnPlainTexts(t *testing.T) {
	for _, text := range []string{
		`{"":0,"A":[1,-20,999999999999999],"a b":{"x":"\"\\\b\f\n\r\t/é\u007f"},"b":[],"c":{},"d":[true,false,null]}`,
		`{"a":{"a":[[],[{}]]},"aa":"","ab":[0,10]}`, `[100,200]`, `[{"a":1}]`, `{"a":[1]}`, `-5`, `"😀"`,
	} {
		neighbours(text, func(b []byte) {
			want, err := jcs.Transform(b)
			same := err == nil && checkJSON(b) == nil && bytes.Equal(want, b)
			if got := IsCanonical(b); got && !same || !got && same && plainText(b) {
				t.Errorf("%q is canonical: %v, want %v", b, got, same)
			}
		})
	}
}

// plainText tells those of the texts above of which IsCanonical must be sure.
func plainText(b []byte) bool {
	var names func(v any) bool
	names = func(v any) bool {
		switch v := v.(type) {
		case map[string]any:
			for name, v := range v {
				if strings.ContainsFunc(name, func(r rune) bool { return r > '~' || r == '\\' || r == '"' || r < ' ' }) || !names(v) {
					return false
				}
			}
		case []any:
			return !slices.ContainsFunc(v, func(v any) bool { return !names(v) })
		case json.Number:
			return !strings.ContainsAny(v.String(), ".eE") && len(strings.TrimPrefix(v.String(), "-")) <= 15
		case string:
			return !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\b\f\n\r\t", r) })
		}
		return true
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	return d.Decode(&v) == nil && names(v)
}

func nested(open, inner, end string, n int) []byte {
	return []byte(strings.Repeat(open, n) + inner + strings.Repeat(end, n))
}

// Ten thousand levels are read, as encoding/json does, and not one more; siblings do
// not add up.
func TestDepthIsBoundedAlike(t *testing.T) {
	for _, c := range []struct{ open, inner, end string }{{`[`, `[]`, `]`}, {`{"a":`, `{}`, `}`}, {`[`, `{}`, `]`}, {`{"a":`, `[]`, `}`}, {`[`, `[0]`, `]`}, {`{"a":`, `{"a":0}`, `}`}} {
		for n, ok := range map[int]bool{maxDepth - 1: true, maxDepth: false} {
			b := nested(c.open, c.inner, c.end, n)
			if got := json.Valid(b); got != ok {
				t.Fatalf("encoding/json takes %d levels of %s: %v", n+1, c.open, got)
			}
			if got := checkJSON(b) == nil; got != ok {
				t.Errorf("%d levels of %s are read: %v", n+1, c.open, got)
			}
		}
		if b := nested(c.open, c.inner, c.end, maxDepth-1); !IsCanonical(b) {
			t.Errorf("%d levels of %s are not taken as they are", maxDepth, c.open)
		}
		if b := nested(c.open, c.inner, c.end, 2*maxDepth); IsCanonical(b) {
			t.Errorf("%d levels of %s are taken as they are", 2*maxDepth, c.open)
		}
	}
	for _, one := range []string{`[]`, `{}`, `[0]`, `{"a":0}`} {
		if err := checkJSON([]byte("[" + strings.Repeat(one+",", maxDepth) + "0]")); err != nil {
			t.Errorf("many %s side by side: %v", one, err)
		}
	}
}

func TestMembersAndElements(t *testing.T) {
	for text, want := range map[string]string{
		` { "a" : 1 , "\u0062" : [2, 3] } `: `a=1 b=[2, 3]`, `{}`: ``, `[1]`: ``, ``: ``, ` `: ``, `7`: ``, `{"a":{}}`: `a={}`,
	} {
		var got []string
		for name, m := range members([]byte(text)) {
			got = append(got, name+"="+text[m.start:m.end])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("members of %q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		` [ 1 , [2] , "x" ] `: `1 [2] "x"`, `[]`: ``, `{"a":1}`: ``, ``: ``, ` `: ``, `7`: ``,
	} {
		var got []string
		for e := range elements([]byte(text)) {
			got = append(got, string(e))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("elements of %q: %q, want %q", text, got, want)
		}
	}
	for range members([]byte(`{"a":1,"b":2}`)) {
		break // must be possible
	}
	for range elements([]byte(`[1,2]`)) {
		break
	}
}

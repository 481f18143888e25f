package provider

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// escaped writes a text as JSON with every UTF-16 unit escaped, cut into strings
// where cut says so.
func escaped(text string, cut func() bool) (pieces []json.RawMessage) {
	piece := `"`
	for _, unit := range utf16.Encode([]rune(text)) {
		piece += fmt.Sprintf(`\u%04x`, unit)
		if cut() {
			pieces = append(pieces, json.RawMessage(piece+`"`))
			piece = `"`
		}
	}
	return append(pieces, json.RawMessage(piece+`"`))
}

// cutBytes writes a text as JSON strings cut between any two bytes that are not
// part of an escape.
func cutBytes(text string, cut func() bool) (pieces []json.RawMessage) {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	inside := quoted[1 : len(quoted)-1]
	piece := []byte{'"'}
	for i := 0; i < len(inside); i++ {
		piece = append(piece, inside[i])
		if inside[i] == '\\' {
			n := 1
			if inside[i+1] == 'u' {
				n = 5
			}
			piece = append(piece, inside[i+1:i+1+n]...)
			i += n
		}
		if cut() {
			pieces = append(pieces, append(piece, '"'))
			piece = []byte{'"'}
		}
	}
	return append(pieces, append(piece, '"'))
}

func TestHoweverATextIsCutItIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		cut := func() bool { return rapid.Bool().Draw(t, "cut") }
		form := rapid.SampledFrom([]func(string, func() bool) []json.RawMessage{escaped, cutBytes}).Draw(t, "form")
		var j joiner
		got := ""
		for _, piece := range form(text, cut) {
			part, err := j.add(piece)
			if err != nil {
				t.Fatalf("%s: %v", piece, err)
			}
			if !utf8.ValidString(part) {
				t.Fatalf("%q is not UTF-8", part)
			}
			got += part
		}
		if got += j.end(); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	})
}

func TestWhatIsNoText(t *testing.T) {
	for _, raw := range []string{`1`, `{}`, `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"a`, `true`} {
		if text, err := new(joiner).add(json.RawMessage(raw)); err == nil {
			t.Errorf("%s is taken for %q", raw, text)
		}
	}
	for _, raw := range []string{``, `null`, `""`} {
		if text, err := new(joiner).add(json.RawMessage(raw)); err != nil || text != "" {
			t.Errorf("%s: %q, %v", raw, text, err)
		}
	}
}

// Whatever a server sends, what is given out is UTF-8, and one string alone gives
// what a JSON decoder makes of it.
func FuzzJoiner(f *testing.F) {
	f.Add([]byte(`"a\ud83d"`), []byte(`"\ude00b"`))
	f.Add([]byte("\"a\xf0\x9f\""), []byte("\"\x98\x80b\""))
	f.Add([]byte(`"\n\t\"\\\/"`), []byte(`"\udc00\ud800"`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var j joiner
		one, _ := j.add(first)
		two, _ := j.add(second)
		if all := one + two + j.end(); !utf8.ValidString(one) || !utf8.ValidString(two) || !utf8.ValidString(all) {
			t.Errorf("%q and %q are not UTF-8", one, two)
		}
		for _, raw := range [][]byte{first, second} {
			var want string
			if len(raw) == 0 || raw[0] != '"' || raw[len(raw)-1] != '"' || json.Unmarshal(raw, &want) != nil {
				continue
			}
			var alone joiner
			got, err := alone.add(raw)
			if err != nil {
				t.Errorf("%s: %v", raw, err)
			}
			got += alone.end()
			if utf8.Valid(raw) && got != want {
				t.Errorf("%s gives %q, a decoder says %q", raw, got, want)
			}
		}
	})
}

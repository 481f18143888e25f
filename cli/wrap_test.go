package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWordsAreNotBrokenAtTheEdge(t *testing.T) {
	const width = 30
	for name, c := range map[string]struct{ text, want string }{
		"words":             {"Ada asks for the notes by Friday; Charles is late again.", "Ada asks for the notes by\nFriday; Charles is late again."},
		"lines":             {"one\n\ntwo\n", "one\n\ntwo\n"},
		"indentation":       {"    four blanks, and then more text than fits", "    four blanks, and then more\ntext than fits"},
		"a long word":       {"look and see " + strings.Repeat("x", nearEdge) + " there", "look and see\n" + strings.Repeat("x", nearEdge) + " there"},
		"a longer word":     {strings.Repeat("x", 70) + " y", strings.Repeat("x", 70) + "\ny"},
		"code":              {"so:\n```sh\ntipstaff run plan.yaml --input file=notes.md\n```\nand that is all there is to say", "so:\n```sh\ntipstaff run plan.yaml --input file=notes.md\n```\nand that is all there is to\nsay"},
		"blanks at the end": {"a  ", "a  "},
		"wide":              {"漢字漢字漢字漢字漢字 漢字漢字漢字", "漢字漢字漢字漢字漢字\n漢字漢字漢字"},
	} {
		for size := 1; size < 9; size++ { // in whatever pieces it comes
			w, got := wrapper{width: width}, ""
			for rest := c.text; rest != ""; {
				n := 0
				for range min(size, utf8.RuneCountInString(rest)) {
					_, long := utf8.DecodeRuneInString(rest[n:])
					n += long
				}
				got, rest = got+w.add(rest[:n]), rest[n:]
			}
			equal(t, name, got+w.rest(), c.want)
		}
	}
	w := wrapper{width: 80}
	if got := w.add("Hel"); got != "Hel" {
		t.Errorf("far from the edge %q was written of Hel", got)
	}
	w = wrapper{}
	if long := strings.Repeat("word ", 50); w.add(long) != long {
		t.Error("without a width text was changed")
	}
}

// Wrapping adds and takes away nothing but where lines end.
func FuzzWrapper(f *testing.F) {
	f.Add("some words ``` and\n``` a fence\n", 10, 3)
	f.Fuzz(func(t *testing.T, text string, width, size int) {
		if !utf8.ValidString(text) || width < 1 || width > 200 || size < 1 {
			t.Skip()
		}
		w, got := wrapper{width: width}, ""
		for rest := []rune(text); len(rest) > 0; {
			n := min(size, len(rest))
			got, rest = got+w.add(string(rest[:n])), rest[n:]
		}
		got += w.rest()
		plain := strings.NewReplacer(" ", "", "\n", "")
		if plain.Replace(got) != plain.Replace(text) || strings.Count(got, "\n") < strings.Count(text, "\n") {
			t.Errorf("%q became %q", text, got)
		}
	})
}

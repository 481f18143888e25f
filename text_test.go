package tipstaff_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

func TestPrintableEscapesWhatDoesNotPrint(t *testing.T) {
	for in, want := range map[string]string{
		"plain text":                "plain text",
		"naïve 日本語 ✓":               "naïve 日本語 ✓",
		"\x1b[31mred":               `\u001b[31mred`,
		"\u009b31m":                 `\u009b31m`,
		"a\nb\tc\rd":                `a\nb\tc\rd`,
		"abc\u202edcba":             `abc\u202edcba`,
		"zero\u200bwidth":           `zero\u200bwidth`,
		"hangul\u3164filler":        `hangul\u3164filler`,
		"tag\U000e0041":             `tag\udb40\udc41`,
		"bad\xff":                   `bad\xff`,
		"nbsp\u00a0":                `nbsp\u00a0`,
		"heart❤\ufe0f":              "heart❤\ufe0f",
		"letter\ufe0f":              `letter\ufe0f`,
		"e\u0301":                   "e\u0301",
		"می\u200cخواهم":             "می\u200cخواهم",   // Persian: I want
		"क्\u200dष":                 "क्\u200dष",       // Hindi, a half form
		"שלום\u200f!":               "שלום\u200f!",     // Hebrew, with a mark behind it
		"👩\u200d👩\u200d👧":           "👩\u200d👩\u200d👧", // a family
		"❤\ufe0f\u200d🔥":            "❤\ufe0f\u200d🔥",
		"👍🏽\u200d":                  "👍🏽\u200d",
		"a\u200cb\u200dc\u200ed":    `a\u200cb\u200dc\u200ed`,
		"م\u200c\u200c":             "م\u200c" + `\u200c`,
		"👩\u200d\u200d":             "👩\u200d" + `\u200d`,
		"\u200f":                    `\u200f`,
		"م\u061c\u061c\u200c":       "م\u061c" + `\u061c\u200c`,
		strings.Repeat("\u0301", 6): strings.Repeat("\u0301", 4) + `\u0301` + "\u0301",
	} {
		if got := tipstaff.Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "abc", "\x1b]0;x\a", "日本\u202e", "\xff\xfe", "a\u0301\u0301\u0301\u0301\u0301\u0301", "❤\ufe0f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := tipstaff.Printable(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Printable(%q) = %q is not UTF-8", s, got)
		}
		for _, r := range got {
			kept := unicode.Is(unicode.Join_Control, r) || r == '\u200e' || r == '\u200f' || r == '\u061c'
			if !unicode.IsPrint(r) && !kept || unicode.Is(unicode.Bidi_Control, r) && !kept {
				t.Fatalf("Printable(%q) = %q holds %U", s, got, r)
			}
		}
		if again := tipstaff.Printable(got); again != got {
			t.Fatalf("Printable is not stable: %q, then %q", got, again)
		}
	})
}

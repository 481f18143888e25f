package cli

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestCleanEscapesWhatDoesNotPrint(t *testing.T) {
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
		strings.Repeat("\u0301", 6): strings.Repeat("\u0301", 4) + `\u0301` + "\u0301",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFitKeepsWithinCells(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"},
		{"日本語", 4, "日…"}, {"日本語", 1, "…"}, {"abc", 0, ""}, {"e\u0301x", 2, "e\u0301x"},
	} {
		if got := fit(c.in, c.n); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestHuman(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 0: "0ms", 12 * time.Millisecond: "12ms", 999 * time.Millisecond: "999ms",
		1250 * time.Millisecond: "1.2s", 59 * time.Second: "59s", 184 * time.Second: "3m04s", 125 * time.Minute: "2h05m",
	} {
		if got := human(d); got != want {
			t.Errorf("human(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{
		"root/ok":     "root/ok",
		"critic#3/go": "critic#3/go",
		"#x":          "'#x'",
		"":            "''",
		"two words":   "'two words'",
		"it's":        `'it'\''s'`,
		"$(rm -rf ~)": "'$(rm -rf ~)'",
		"esc\x1b[2J":  `'esc\u001b[2J'`,
	} {
		if got := shellWord(in); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "abc", "\x1b]0;x\a", "日本\u202e", "\xff\xfe", "a\u0301\u0301\u0301\u0301\u0301\u0301", "❤\ufe0f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if !utf8.ValidString(got) {
			t.Fatalf("clean(%q) = %q is not UTF-8", s, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("clean(%q) = %q holds %U", s, got, r)
			}
		}
		if again := clean(got); again != got {
			t.Fatalf("clean is not stable: %q, then %q", got, again)
		}
	})
}

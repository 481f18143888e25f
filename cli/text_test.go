package cli

import (
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

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
		if got := tipstaff.ShellWord(in); got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", in, got, want)
		}
	}
}

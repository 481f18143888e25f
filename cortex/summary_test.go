package cortex

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSummary(t *testing.T) {
	long := strings.Repeat("ä", 120)
	for in, want := range map[string]string{
		"":                                   "",
		"read completed":                     "read completed",
		"  two\r\n\tlines\u2028and\x00more ": "two lines and more",
		"bad \xff byte":                      "bad \ufffd byte",
		long:                                 long,
		long + "x":                           strings.Repeat("ä", 119) + "…",
	} {
		if got := Summary(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzSummary(f *testing.F) {
	f.Add("read completed")
	f.Add(strings.Repeat("日本 ", 60))
	f.Add("\xff\n\u2029")
	f.Fuzz(func(t *testing.T, s string) {
		got := Summary(s)
		switch {
		case utf8.RuneCountInString(got) > SummaryLimit:
			t.Errorf("%q has %d characters", got, utf8.RuneCountInString(got))
		case !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\u2028\u2029"):
			t.Errorf("%q is not one line of text", got)
		case Summary(got) != got:
			t.Errorf("%q is shortened again, to %q", got, Summary(got))
		}
	})
}

package document

import (
	"strings"
	"testing"
)

func TestScalarsOfTheCoreSchema(t *testing.T) {
	for src, want := range map[string]string{
		"yes": `"yes"`, "on": `"on"`, "No": `"No"`, "true": "true", "False": "false", "~": "null", "NULL": "null", "": "null",
		"12": "12", "+12": "12", "-0": "0", "007": "7", "0o17": "15", "0x1f": "31", "0b1": `"0b1"`, "1_000": `"1_000"`,
		"1.": "1", ".5": "0.5", "-.5e1": "-5", "1e3": "1000", "12e": `"12e"`, "1:30": `"1:30"`,
		"2026-01-02": `"2026-01-02"`, "2026-01-02T03:04:05Z": `"2026-01-02T03:04:05Z"`,
		`"12"`: `"12"`, `'it''s'`: `"it's"`, `"\u00e9\x41\t"`: "\"éA\\t\"", "[1, two]": `[1,"two"]`, "{a: }": `{"a":null}`,
		"a b  # comment": `"a b"`, "|\n  x\n  y\n": `"x\ny\n"`, ">-\n  x\n  y\n": `"x y"`, "- 1\n- 2": `[1,2]`,
		"x\u2028y": "\"x\u2028y\"",
	} {
		text := "a: b\nv: " + src
		if strings.HasPrefix(src, "- ") {
			text = "a: b\nv:\n" + src
		}
		v, p := Read([]byte(text), 1<<20)
		if p != nil {
			t.Errorf("%q: %s", src, p.Message)
			continue
		}
		if got := Raw(v.Get("v")); string(got) != want {
			t.Errorf("%q is %s, want %s", src, got, want)
		}
	}
}

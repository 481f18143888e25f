package document

import (
	"runtime"
	"strings"
	"testing"
)

// What is too deep, too much or out of place is found before much room is made for it.
func TestRefusedWhileItIsSmall(t *testing.T) {
	const size = 1 << 20
	for name, src := range map[string]string{
		"brackets": strings.Repeat("[", size), "braces": strings.Repeat("{", size), "brackets of a key": "a: " + strings.Repeat("[", size-3),
		"brackets and braces": strings.Repeat("[{a: ", size/5), "JSON without an end": strings.Repeat(`{"a":`, size/5), "brackets that close": strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"dashes": strings.Repeat("- ", size/2), "question marks": strings.Repeat("? ", size/2), "colons": strings.Repeat("a: ", size/3),
		"aliases": "[" + strings.Repeat("*a,", size/3-1) + "a]", "anchors": strings.Repeat("&a ", size/3), "tags": strings.Repeat("!!a ", size/4),
		"more than may be": strings.Repeat("[", 4*size), "keys": strings.Repeat("k: v\n", size/5),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, p := Read([]byte(src), size)
			runtime.ReadMemStats(&after)
			if p == nil {
				t.Fatal("it was read")
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 48 {
				t.Errorf("it took %d MiB to say %q", used, p.Message)
			}
		})
	}
}

// Where the text is cut to look at a part of it makes no difference.
func TestPartsAreNotSeen(t *testing.T) {
	body := "a: 'it''s & *one* [two] {three}: !!four'\nb: \"&x *y \\u00e9 \\\" [[[ {{{\"\nc: |\n  &x *y [[[ {{{ ? - !!z\n  é é é\nd: plain & text *with* these\n" +
		"e: {f: [1, 'é', \"é\"], g: {h: i}}\n# a comment & *this* [[[\ni:\n  - j: >-\n      folded & *text*\n  - k\n"
	for pad := range len(body) + 8 {
		src := "x: '" + strings.Repeat("y", firstPart-len(body)-8+pad) + "'\n" + body
		v, p := Read([]byte(src), 1<<20)
		if p != nil {
			t.Fatalf("with %d bytes before it: %v", pad, p)
		}
		if v.Get("e") == nil || v.Get("i") == nil || len(v.Members) != 7 {
			t.Fatalf("with %d bytes before it: %d members", pad, len(v.Members))
		}
	}
}

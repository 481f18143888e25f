package document

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const maxTest = 1 << 20 // bytes

// told is the problems as line:column code path.
func told(ps Problems) []string {
	list := []string{}
	for _, p := range ps.Public("") {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Code, p.Path)))
	}
	return list
}

func mustRead(t testing.TB, src string) *Value {
	t.Helper()
	v, p := Read([]byte(src), maxTest)
	if p != nil {
		t.Fatalf("%q: %+v", src, *p)
	}
	return v
}

func TestWhatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ name, src, want, says string }{
		{"byte order mark", "\xef\xbb\xbfa: b", "1:1 syntax", "byte order mark"},
		{"NUL", "a: b\nc: é\x00", "2:5 syntax", "NUL"},
		{"not UTF-8", "a: \xff", "1:4 syntax", "UTF-8"},
		{"nothing", "", "1:1 syntax", "empty"},
		{"a comment alone", "# nothing\n", "1:1 syntax", "empty"},
		{"a header alone", "---\n# nothing\n", "2:1 syntax", "empty"},
		{"anchor", "a: &x [b]\nc: *x", "1:4 syntax", "anchors"},
		{"alias", "a: *x", "1:4 syntax", "aliases"},
		{"tag", "a: !!int '1'", "1:4 syntax", "tags"},
		{"merge key", "a:\n  <<: {b: c}", "2:3 syntax", "merge"},
		{"directive", "%YAML 1.2\n---\na: b", "1:1 syntax", "directives"},
		{"complex key", "? [a]\n: b", "1:1 syntax", "question mark"},
		{"number as a key", "1: a", "1:1 syntax", "quotes"},
		{"list as a key", "[a]: b", "1:4 syntax", "key"},
		{"second document", "a: b\n---\nc: d", "2:1 syntax", "one document"},
		{"end marker", "a: b\n...", "2:1 syntax", "end marker"},
		{"tab", "a:\n\tb: c", "2:1 syntax", "tab"},
		{"carriage return", "a: b\rc: d", "1:5 syntax", "carriage return"},
		{"never closed", "a: [b", "1:4 syntax", "never closed"},
		{"closed by another", "a: [{b: 'c']", "1:12 syntax", "cannot close"},
		{"closed without a beginning", "a: b\n]", "2:1 syntax", "nothing is open"},
		{"infinity", "a: [b, -.inf]", "1:8 number_unsafe a.1", "not a number in JSON"},
		{"half a pair, JSON", "{\n \"a\": \"\\ud83d\"}", "2:7 syntax", `\ud83d`},
		{"half a pair in a key, JSON", `{"\uDE00": 1}`, "1:2 syntax", `\uDE00`},
		{"half a pair before another escape", `{"a": "\ud83d\n\ude00"}`, "1:7 syntax", `\ud83d`},
		{"too large", strings.Repeat("#", maxTest+1), "1:1 limit", "1048577 bytes"},
		{"too deep, YAML", strings.Repeat("[", MaxNesting+1) + "a" + strings.Repeat("]", MaxNesting+1), "1:129 limit", "128 levels"},
		{"too deep, JSON", strings.Repeat("[", MaxNesting+2) + strings.Repeat("]", MaxNesting+2), "1:130 limit", "128 levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, ps := ReadAll([]byte(c.src), maxTest)
			if diff := cmp.Diff([]string{c.want}, told(ps)); diff != "" || v != nil {
				t.Fatalf("%v (-want +got):\n%s%+v", v, diff, ps)
			}
			if !strings.Contains(ps[0].Message, c.says) {
				t.Errorf("%q does not say %q", ps[0].Message, c.says)
			}
			if empty := c.says == "empty"; errors.Is(ps[0].Cause, ErrEmpty) != empty {
				t.Errorf("the cause is %v", ps[0].Cause)
			}
		})
	}
}

// Every key that stands twice is told, and the first of them counts.
func TestKeysThatStandTwice(t *testing.T) {
	for _, c := range []struct {
		src, value string
		want       []string
	}{
		{"a: 1\nb: {c: 1, c: 2}\na: {d: 3, d: 4}", `{"a":1,"b":{"c":1}}`, []string{"2:11 syntax b.c", "3:1 syntax a", "3:11 syntax a.d"}},
		{`{"a": [{"b": 1, "b": 2}], "a": {"c": 1, "c": 2}}`, `{"a":[{"b":1}]}`, []string{"1:17 syntax a.0.b", "1:27 syntax a", "1:41 syntax a.c"}},
		{`{"a": 1, "\u0061": 2}`, `{"a":1}`, []string{"1:10 syntax a"}},
		{"\"a\": 1\na: 2", `{"a":1}`, []string{"2:1 syntax a"}},
	} {
		v, ps := ReadAll([]byte(c.src), maxTest)
		if diff := cmp.Diff(c.want, told(ps)); diff != "" || string(Raw(v)) != c.value {
			t.Errorf("%q: %s (-want +got):\n%s", c.src, Raw(v), diff)
		}
		for _, p := range ps {
			if !errors.Is(p.Cause, ErrDuplicate) {
				t.Errorf("%q: the cause is %v", c.src, p.Cause)
			}
		}
		if v, p := Read([]byte(c.src), maxTest); v != nil || p == nil || p.At != ps[0].At {
			t.Errorf("%q: Read gives %v, %+v", c.src, v, p)
		}
	}
	if v, ps := ReadAll([]byte("a: 1\na: 2\nb: .nan"), maxTest); v != nil || len(ps) != 1 || ps[0].Code != CodeNumberUnsafe {
		t.Errorf("beside what cannot be read: %v, %+v", v, ps)
	}
}

func TestYAMLAndJSONAreOne(t *testing.T) {
	y := mustRead(t, "a: [1, {b: ~}]\nc: |\n  é\nd: {}\n")
	j := mustRead(t, "{\"c\": \"é\\n\", \"d\": {},\n\"a\": [1, {\"b\": null}]}")
	if diff := cmp.Diff(string(Raw(y)), string(Raw(j))); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		v    *Value
		want Position
	}{
		{y, Position{1, 1}}, {y.Get("a"), Position{1, 4}}, {y.Get("a").Items[1], Position{1, 8}}, {y.Get("d"), Position{4, 4}},
		{j, Position{1, 1}}, {j.Get("d"), Position{1, 19}}, {j.Get("a"), Position{2, 6}}, {j.Get("a").Items[1], Position{2, 10}},
	} {
		if c.v.At != c.want {
			t.Errorf("%s stands at %v, want %v", Raw(c.v), c.v.At, c.want)
		}
	}
}

func TestSurrogatePairsAreRead(t *testing.T) {
	if got := mustRead(t, `"\ud83d\ude00 \\ud83d \u00e9"`).Text; got != "😀 \\ud83d é" {
		t.Errorf("%q", got)
	}
}

// Texts that make a trusting parser recurse or spin are refused, or read, in a
// time nobody notices.
func TestHostileText(t *testing.T) {
	const size = 1 << 17
	fill := func(pre, s string) string { return pre + strings.Repeat(s, (size-len(pre))/len(s)) }
	var keys strings.Builder
	for i := 0; keys.Len() < size-20; i++ {
		fmt.Fprintf(&keys, "k%d: v\n", i)
	}
	for name, src := range map[string]string{
		"brackets":             fill("", "["),
		"braces":               fill("", "{a: "),
		"closing":              fill("", "]"),
		"JSON brackets":        strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"dashes":               fill("", "- "),
		"question marks":       fill("", "? "),
		"keys on one line":     fill("", "a: "),
		"keys of one mapping":  keys.String(),
		"keys of a flow":       "{" + strings.ReplaceAll(keys.String(), "\n", ","),
		"items":                fill("", "- a\n"),
		"items of a flow":      fill("[", "a,"),
		"anchors":              fill("", "&a "),
		"tags":                 fill("", "! "),
		"quotes":               fill("", `"`),
		"quoted tabs":          fill(`a: "`, "\t"),
		"tabs between quotes":  fill("", "\"\t"),
		"tabs after letters":   fill(`a: "`, "x\t"),
		"line feeds":           fill("a: |\n  x\n", "\n"),
		"folded line feeds":    fill("a: >\n  x\n", "\n"),
		"blank lines":          fill("a: |\n  x\n", "   \n"),
		"block after block":    fill("", "|\n"),
		"folds":                fill("", ">\n"),
		"comments":             fill("", "#\n"),
		"directives":           fill("", "%a\n"),
		"documents":            fill("", "---\n"),
		"carriage returns":     fill("a: b", "\r"),
		"literal lines":        fill("a: |\n", "  xx\n"),
		"folded lines":         fill("a: >\n", "  xx\n"),
		"plain lines":          fill("a:\n", "  xx\n"),
		"quoted lines":         fill(`a: "`, "xx\n"),
		"escapes":              fill(`a: "`, `\n`),
		"at signs":             fill("", "\r@"),
		"colons":               fill("a: ", ":"),
		"blank lines and text": strings.Repeat("- |\n"+strings.Repeat("  x\n", 200)+strings.Repeat("\n", 99), 100),
		"deep indentation": func() string {
			var b strings.Builder
			for i := 0; b.Len() < size/2; i++ {
				b.WriteString(strings.Repeat(" ", i) + "a:\n")
			}
			return b.String()
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			ReadAll([]byte(src), 1<<20)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// FuzzRead: a text is read or has a problem that stands in it; what is read comes
// back from either of its JSON forms.
func FuzzRead(f *testing.F) {
	for _, src := range []string{
		"a: [1, {b: ~}]\nc: |\n  x\n  y\n", `{"a": {"b": [true, -1.5e3, "\ud83d\ude00"]}}`, "- a\n- - b\n  - c: d\n    e: 'f'\n", "---\na: >-\n  b\n\n  c\n",
		"a: 1\na: 2", "a: &b c", "{a: [}", "\ta", "a: .inf", "0x1F", "\"\\ud83d\"", "a: b: c", "{\"\\u0061\":1,\"a\":2}", "? a\n: b", "x: 9007199254740993",
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		v, ps := ReadAll(src, maxTest)
		for _, p := range ps {
			if p.Code == "" || p.Message == "" || p.At.Column < 1 || p.At.Line < 1 || p.At.Line > bytes.Count(src, []byte("\n"))+2 {
				t.Fatalf("%+v", p)
			}
			if v != nil && !errors.Is(p.Cause, ErrDuplicate) {
				t.Fatalf("a value stands beside %+v", p)
			}
		}
		if v == nil {
			if len(ps) != 1 {
				t.Fatalf("neither value nor problem: %v", ps)
			}
			return
		}
		var written bytes.Buffer
		v.AppendJSON(&written)
		again := mustRead(t, written.String())
		var twice bytes.Buffer
		if again.AppendJSON(&twice); !bytes.Equal(written.Bytes(), twice.Bytes()) {
			t.Fatalf("%s became %s", &written, &twice)
		}
		var unsafe Problems
		if CheckNumbers(v, &unsafe); len(unsafe) > 0 {
			return
		}
		want, err := Canonical(written.Bytes())
		if got := Raw(v); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s is not %s (%v)", got, want, err)
		}
	})
}

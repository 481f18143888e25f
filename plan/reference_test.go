package plan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/document"
)

func TestParseText(t *testing.T) {
	for src, want := range map[string]string{
		"":                       "",
		"plain $5 {x} }":         "plain $5 {x} }",
		"${input.a}":             "<${input.a}>",
		"a ${b.output} c":        "a <${b.output}> c",
		"${b.output.x.0.y-z}":    "<${b.output.x.0.y-z}>",
		"$${x}":                  "${x}",
		"$$${x}":                 "$${x}",
		"$${${input.a}":          "${<${input.a}>",
		"${input.a}${input.b.c}": "<${input.a}><${input.b.c}>",
		"$${input.a} ${input.a}": "${input.a} <${input.a}>",
		"${output.output}":       "<${output.output}>",
	} {
		parts, err := parseText(src)
		if err != nil {
			t.Errorf("%q: %v", src, err)
			continue
		}
		var got strings.Builder
		for _, p := range parts {
			got.WriteString(p.literal)
			if p.ref != nil {
				got.WriteString("<" + p.ref.String() + ">")
			}
		}
		if got.String() != want {
			t.Errorf("%q is %q, want %q", src, got.String(), want)
		}
	}
	for _, src := range []string{
		"${", "${}", "${input}", "${input.}", "${.a}", "${a}", "${a.outputs}", "${a.output.}", "${a.output..b}",
		"${ input.a }", "${input.a b}", "${input.é}", "x ${input.a", "${input.${input.a}}",
	} {
		if parts, err := parseText(src); err == nil {
			t.Errorf("%q was read as %v", src, parts)
		}
	}
}

func TestDescend(t *testing.T) {
	const raw = ` {"a": [10, {"b": null}], "0": "zero", "n": 9007199254740993} `
	for path, want := range map[string]string{
		"": strings.TrimSpace(raw), "a.0": "10", "a.1.b": "null", "0": `"zero"`, "n": "9007199254740993", "a.1": `{"b": null}`,
	} {
		got, err := descend(json.RawMessage(raw), segments(path))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%q is %s, %v; want %s", path, got, err, want)
		}
	}
	for _, path := range []string{"b", "a.2", "a.-1", "a.00", "a.+1", "a.x", "a.0.x", "a.1.b.c", "n.0"} {
		if got, err := descend(json.RawMessage(raw), segments(path)); !errors.Is(err, errUnresolved) {
			t.Errorf("%q is %s, %v", path, got, err)
		}
	}
}

func segments(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

func TestAnUnsafeNumberInsideTextIsAnError(t *testing.T) {
	find := func(reference) (json.RawMessage, error) { return json.RawMessage(`{"n":9007199254740993}`), nil }
	v := &document.Value{Kind: document.Text, Text: "have ${a.output}"}
	if got, err := render(v, find); !errors.Is(err, document.ErrUnsafe) {
		t.Errorf("rendered %s, %v", got, err)
	}
	alone := &document.Value{Kind: document.Text, Text: "${a.output}"}
	if got, err := render(alone, find); err != nil || string(got) != `{"n":9007199254740993}` {
		t.Errorf("alone it is passed on as it came: %s, %v", got, err)
	}
}

func TestPinnedURIs(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for uri, want := range map[string]string{
		"mcp://s/t@1.2.3": "", "mcp://s/t@1.2.3-rc.1+build.5": "", "mcp://s/t@" + digest: "", "mcp://s-1_x/A.b-c_d@0.0.0": "",
		"mcp://s/t": "unpinned_tool", "mcp://s/t@": "unpinned_tool", "mcp://s/t@latest": "unpinned_tool", "mcp://s/t@1": "unpinned_tool",
		"mcp://s/t@1.2": "unpinned_tool", "mcp://s/t@1.x": "unpinned_tool", "mcp://s/t@*": "unpinned_tool", "mcp://s/t@^1.2.3": "unpinned_tool",
		"mcp://s/t@~1.2.3": "unpinned_tool", "mcp://s/t@>=1.2.3": "unpinned_tool",
		"mcp://s/t@v1.2.3": "invalid_uri", "mcp://s/t@1.2.3.4": "invalid_uri", "mcp://s/t@01.2.3": "invalid_uri",
		"mcp://s/t@sha256:ABC": "invalid_uri", "mcp://S/t@1.2.3": "invalid_uri", "mcp://s@1.2.3": "invalid_uri", "http://s/t@1.2.3": "invalid_uri",
		"mcp://s/t/u@1.2.3": "invalid_uri", "mcp:///t@1.2.3": "invalid_uri", "mcp://s/t@1.2.3\n": "invalid_uri", "": "invalid_uri",
		"mcp://s/a@b@1.2.3": "invalid_uri", "mcp://" + strings.Repeat("s", 33) + "/t@1.2.3": "invalid_uri",
	} {
		var v validator
		requireCode(t, uri, v.uri(uri, document.Position{}, ""), v.ps, want)
	}
	for uri, want := range map[string]string{
		"skill://a-b@1.2.3": "", "skill://a@1": "unpinned_skill", "skill://a": "unpinned_skill", "skill://a-@1.2.3": "invalid_uri",
		"skill://../x@1.2.3": "invalid_uri", "skill://A@1.2.3": "invalid_uri", "skill://" + strings.Repeat("a", 65) + "@1.2.3": "invalid_uri",
		"skill://a@sha256:" + strings.Repeat("0", 64): "invalid_uri",
	} {
		var v validator
		requireCode(t, uri, v.skillURI(uri, document.Position{}, ""), v.ps, want)
	}
}

func requireCode(t *testing.T, uri string, ok bool, ps document.Problems, want string) {
	t.Helper()
	if ok != (want == "") || ok != (len(ps) == 0) || !ok && ps[0].Code != want {
		t.Errorf("%q: %v, %+v, want %q", uri, ok, ps, want)
	}
}

func FuzzReference(f *testing.F) {
	for _, s := range []string{"", "x", "${input.a}", "$${", "$$${a.output}", "${a.output.0.b} tail", "${", "$", "{}", "${input}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		// Any text can be written as a literal.
		escaped := strings.ReplaceAll(s, "${", "$${")
		parts, err := parseText(escaped)
		if err != nil {
			t.Fatalf("escaped %q: %v", escaped, err)
		}
		literal := ""
		for _, p := range parts {
			if p.ref != nil {
				t.Fatalf("escaped %q holds the reference %v", escaped, p.ref)
			}
			literal += p.literal
		}
		if literal != s {
			t.Errorf("%q came back as %q", s, literal)
		}
		// What is read can be written again, and means the same.
		parts, err = parseText(s)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, p := range parts {
			if p.ref != nil {
				again.WriteString(p.ref.String())
			} else {
				again.WriteString(strings.ReplaceAll(p.literal, "${", "$${"))
			}
		}
		if again.String() != s {
			t.Errorf("%q was written as %q", s, again.String())
		}
	})
}

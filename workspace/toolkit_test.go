package workspace_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/workspace"
)

func TestToolkitsAreRead(t *testing.T) {
	got, problems := workspace.ParseToolkits("toolkits.yaml", []byte(`version: 1
toolkits:
  - {name: db, description: databases, match: ["trino/*", "*/sql_?"]}
  - {name: Ops.2, always: true}
`))
	if problems != nil {
		t.Fatalf("%+v", problems)
	}
	if diff := cmp.Diff([]workspace.Toolkit{
		{Name: "db", Description: "databases", Match: []string{"trino/*", "*/sql_?"}},
		{Name: "Ops.2", Match: []string{}, Always: true},
	}, got); diff != "" {
		t.Error(diff)
	}
	if got, problems := workspace.ParseToolkits("t", nil); problems != nil || got == nil || len(got) != 0 {
		t.Errorf("nothing became %v, %v", got, problems)
	}
	if got, problems := workspace.ParseToolkits("t", []byte(prompts.Default().Toolkits)); problems != nil || len(got) == 0 {
		t.Errorf("the toolkits of Tipstaff became %v, %v", got, problems)
	}
}

func TestToolkitProblems(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		want      []string
		say       string
	}{
		{"list", "- {name: a}", []string{"1:1 field_type "}, "an object belongs here"},
		{"version", "version: 2", []string{"1:10 range version"}, "1 to 1"},
		{"field", "tools: []", []string{"1:1 field_unknown tools"}, "toolkits"},
		{"no name", "toolkits: [{match: [a/b]}]", []string{"1:12 field_missing toolkits[0]"}, "needs name"},
		{"name", "toolkits: [{name: 'a b'}]", []string{"1:19 range toolkits[0].name"}, "cannot name a toolkit"},
		{"same name", "toolkits: [{name: a}, {name: A}]", []string{"1:30 field_invalid toolkits[1].name"}, "already"},
		{"pattern", "toolkits: [{name: a, match: ['b', c/d, 'e/[f]']}]", []string{"1:30 range toolkits[0].match[0]", "1:40 range toolkits[0].match[2]"}, "exactly one"},
		{"types", "toolkits: [{name: 1, description: [], match: x, always: 2}]",
			[]string{"1:19 field_type toolkits[0].name", "1:35 field_type toolkits[0].description", "1:46 field_type toolkits[0].match", "1:57 field_type toolkits[0].always"}, "must be a string"},
		{"secret", "toolkits: [{name: a, description: sk-abcdefghijklmnop}]", []string{"1:35 literal_credential toolkits[0].description"}, "API key"},
		{"syntax", "toolkits: [", []string{"1:11 syntax "}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, problems := workspace.ParseToolkits("toolkits.yaml", []byte(c.doc))
			if list != nil {
				t.Error("a list was made")
			}
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Code, p.Path))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%+v", diff, problems)
			}
			if len(problems) > 0 {
				contains(t, problems[0].Message, c.say)
			}
		})
	}
}

// FuzzToolkits: whatever is accepted has names that differ and patterns that can
// be used.
func FuzzToolkits(f *testing.F) {
	f.Add([]byte(prompts.Default().Toolkits))
	f.Add([]byte("toolkits: [{name: a, match: ['*/*', 'b/c?']}, {name: b, always: true}]"))
	f.Add([]byte("toolkits: [{name: a}, {name: A}]"))
	f.Add([]byte("version: 1\ntoolkits:\n- name: |\n    x"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		list, problems := workspace.ParseToolkits("f", doc)
		if (list == nil) != (len(problems) > 0) {
			t.Fatalf("%v, %v", list, problems)
		}
		seen := map[string]bool{}
		for _, k := range list {
			if k.Name == "" || seen[k.Name] {
				t.Fatalf("the name %q", k.Name)
			}
			seen[k.Name] = true
			for _, m := range k.Match {
				if _, err := policy.ParsePattern(m); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

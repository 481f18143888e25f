package workspace_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

const policyFile = `version: 1
guards:
  - {id: sql, use: sql_guard, tool: "trino/*", arg: /sql, dialect: trino, functions: [my_pure], single: false}
rules:
  - {id: sql-read, tool: "trino/execute", when: 'facts.sql.access == "read"', do: allow}
  - {id: tainted, tool: "*/*", effect: once, when: turn.untrusted, do: ask, why: look}
`

func policyDocument() policy.Document {
	return policy.Document{
		Guards: []policy.GuardConfig{{ID: "sql", Use: policy.SQLGuard, Tool: "trino/*", Arg: "/sql", Dialect: "trino", Functions: []string{"my_pure"}}},
		Rules: []policy.Rule{
			{ID: "sql-read", Tool: "trino/execute", When: `facts.sql.access == "read"`, Do: policy.Allow},
			{ID: "tainted", Tool: "*/*", Effect: []flow.Class{flow.Once}, When: "turn.untrusted", Do: policy.Ask, Why: "look"},
		},
	}
}

// placesOf are where problems stand and what they are.
func placesOf(problems []tipstaff.Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, fmt.Sprintf("%s:%d:%d %s %s", p.File, p.Line, p.Column, p.Code, p.Path))
	}
	return all
}

func TestPolicyIsReadFromItsFile(t *testing.T) {
	p, problems := workspace.ParsePolicy("p.yaml", []byte(policyFile))
	if problems != nil {
		t.Fatal(problems)
	}
	if diff := cmp.Diff(policyDocument(), p.Document()); diff != "" {
		t.Error(diff)
	}
	dir := fstest.MapFS{"policies/p.yaml": {Data: []byte(policyFile)}}
	m, problems := workspace.ParseIn(dir, "tipstaff.yaml", []byte("policy: {file: policies/p.yaml, sub_dispatch: true}"))
	if problems != nil {
		t.Fatal(problems)
	}
	if m.Policy.Digest() != p.Digest() || !m.SubDispatch {
		t.Errorf("got %+v", m.Policy.Document())
	}
}

func TestPolicyMeansTheSameInAManifest(t *testing.T) {
	indented := bytes.ReplaceAll([]byte(policyFile)[len("version: 1\n"):], []byte("\n"), []byte("\n  "))
	m := parse(t, "policy:\n  "+string(indented))
	if diff := cmp.Diff(policyDocument(), m.Policy.Document()); diff != "" {
		t.Error(diff)
	}
	back, err := workspace.ParseFrozen(m.Frozen())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Policy.Document(), back.Policy.Document()); diff != "" || back.Policy.Digest() != m.Policy.Digest() {
		t.Errorf("frozen it is another: %s", diff)
	}
}

func TestGuardsTakeOneStatementUnlessTold(t *testing.T) {
	p, problems := workspace.ParsePolicy("p.yaml", []byte("version: 1\nguards: [{id: sql, use: sql_guard, tool: a/b, arg: /sql, dialect: mysql}]"))
	if problems != nil || !p.Document().Guards[0].Single {
		t.Errorf("got %+v, %v", p.Document(), problems)
	}
}

func TestPolicyProblems(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		want      []string
		say       string
	}{
		{"empty", "", []string{"p.yaml:0:0 field_missing "}, "empty"},
		{"no version", "rules: []", []string{"p.yaml:1:1 field_missing "}, "version: 1"},
		{"other version", "version: 2", []string{"p.yaml:1:10 range version"}, "1 to 1"},
		{"unknown field", "version: 1\nrule: []", []string{"p.yaml:2:1 field_unknown rule"}, "did you mean rules?"},
		{"field of a manifest", "version: 1\nauto_accept: true", []string{"p.yaml:2:1 field_unknown auto_accept"}, ""},
		{"unknown field of a rule", "version: 1\nrules: [{id: a, tool: a/b, do: ask, wen: x}]", []string{"p.yaml:2:37 field_unknown rules[0].wen"}, "did you mean when?"},
		{"unknown field of a guard", "version: 1\nguards:\n  - {id: a, use: sql_guard, tool: a/b, arg: /s, dialect: mysql, args: /x}", []string{"p.yaml:3:65 field_unknown guards[0].args"}, "the fields are arg"},
		{"condition", "version: 1\nrules:\n  - {id: a, tool: a/b, do: ask,\n     when: 'tool.nme == 1'}", []string{"p.yaml:4:12 rule_invalid rules[0].when"}, "did you mean 'tool.name'"},
		{"empty condition", "version: 1\nrules: [{id: a, tool: a/b, do: allow, when: ''}]", []string{"p.yaml:2:45 rule_invalid rules[0].when"}, "leave when out"},
		{"condition of another type", "version: 1\nrules: [{id: a, tool: a/b, do: allow, when: true}]", []string{"p.yaml:2:45 field_type rules[0].when"}, "must be a string"},
		{"glob without a slash", "version: 1\nrules: [{id: a, tool: 'delete_*', do: deny}]", []string{"p.yaml:2:23 rule_invalid rules[0].tool"}, "exactly one"},
		{"no id", "version: 1\nrules: [{tool: a/b, do: deny}]", []string{"p.yaml:2:9 rule_invalid rules[0]"}, "id is needed"},
		{"id of a guard", "version: 1\nguards: [{id: a, use: sql_guard, tool: a/b, arg: /s, dialect: mysql}]\nrules: [{id: a, tool: a/b, do: deny}]", []string{"p.yaml:3:14 rule_invalid rules[0].id"}, "entry 1 of guards"},
		{"use", "version: 1\nguards: [{id: a, use: file_guard, tool: a/b}]", []string{"p.yaml:2:23 rule_invalid guards[0].use"}, "sql_guard"},
		{"arg of a shell guard", "version: 1\nguards: [{id: a, use: shell_guard, tool: a/b, arg: command}]", []string{"p.yaml:2:52 rule_invalid guards[0].arg"}, "not a JSON pointer"},
		{"no use", "version: 1\nguards: [{id: a, tool: a/b}]", []string{"p.yaml:2:10 rule_invalid guards[0]"}, "sql_guard"},
		{"dialect", "version: 1\nguards: [{id: a, use: sql_guard, tool: a/b, arg: /s, dialect: oracle}]", []string{"p.yaml:2:63 rule_invalid guards[0].dialect"}, "oracle"},
		{"two for one tool", "version: 1\nguards:\n  - {id: a, use: sql_guard, tool: a/*, arg: /s, dialect: mysql}\n  - {id: b, use: sql_guard, tool: '*/b', arg: /s, dialect: mysql}", []string{"p.yaml:4:35 rule_invalid guards[1].tool"}, "may mean the same tool"},
		{"types", "version: 1\nguards: {}\nrules: 7", []string{"p.yaml:2:9 field_type guards", "p.yaml:3:8 field_type rules"}, "must be a list"},
		{"credential", "version: 1\nrules: [{id: a, tool: a/b, do: deny, when: 'args.k == \"ghp_abcdefghij0123456789\"'}]", []string{"p.yaml:2:44 literal_credential rules[0].when"}, "GitHub"},
		{"syntax", "version: [", []string{"p.yaml:1:10 syntax "}, ""},
		{"several", "version: 1\nrules:\n  - {id: a, tool: b, do: maybe, when: '1'}", []string{"p.yaml:3:19 rule_invalid rules[0].tool", "p.yaml:3:26 field_invalid rules[0].do", "p.yaml:3:39 rule_invalid rules[0].when"}, ""},
	} {
		p, problems := workspace.ParsePolicy("p.yaml", []byte(c.doc))
		if p != nil {
			t.Errorf("%s: a policy was made", c.name)
		}
		if diff := cmp.Diff(c.want, placesOf(problems)); diff != "" {
			t.Errorf("%s: %s\n%+v", c.name, diff, problems)
			continue
		}
		contains(t, problems[0].Message, c.say)
	}
}

func TestPolicyFileProblems(t *testing.T) {
	dir := fstest.MapFS{"p.yaml": {Data: []byte("version: 1\nrules: [{id: a, tool: b, do: ask}]")}}
	for _, c := range []struct {
		doc  string
		want []string
		say  string
	}{
		{"policy: {file: p.yaml}", []string{"p.yaml:2:23 rule_invalid rules[0].tool"}, "exactly one"},
		{"policy: {file: p.yaml}\nmax_timeout: x", []string{"tipstaff.yaml:2:14 field_invalid max_timeout", "p.yaml:2:23 rule_invalid rules[0].tool"}, "duration"},
		{"policy: {file: q.yaml}", []string{"tipstaff.yaml:1:16 range policy.file"}, "does not exist"},
		{"policy: {file: ../p.yaml}", []string{"tipstaff.yaml:1:16 range policy.file"}, "folder of the manifest"},
		{"policy: {file: /etc/p.yaml}", []string{"tipstaff.yaml:1:16 range policy.file"}, "folder of the manifest"},
		{"policy: {file: 7}", []string{"tipstaff.yaml:1:16 field_type policy.file"}, "must be a string"},
		{"policy: {file: p.yaml, rules: []}", []string{"tipstaff.yaml:1:16 range policy.file"}, "either here or in the file"},
		{"policy: {guards: [], file: p.yaml}", []string{"tipstaff.yaml:1:28 range policy.file"}, "either here or in the file"},
	} {
		m, problems := workspace.ParseIn(dir, "tipstaff.yaml", []byte(c.doc))
		if m != nil {
			t.Errorf("%s: a manifest was made", c.doc)
		}
		if diff := cmp.Diff(c.want, placesOf(problems)); diff != "" {
			t.Errorf("%s: %s\n%+v", c.doc, diff, problems)
			continue
		}
		contains(t, problems[0].Message, c.say)
	}
	if _, problems := workspace.Parse("tipstaff.yaml", []byte("policy: {file: p.yaml}")); len(problems) != 1 {
		t.Errorf("without the files beside it: %+v", problems)
	}
}

// TestShippedPolicy: the example does what it says.
func TestShippedPolicy(t *testing.T) {
	src, err := os.ReadFile("../docs/policies/sql.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, problems := workspace.ParsePolicy("sql.yaml", src)
	if problems != nil {
		t.Fatal(problems)
	}
	raw := flow.JSON(map[string]any{"name": "query", "inputSchema": map[string]any{}, "annotations": map[string]any{"readOnlyHint": true}})
	g, err := tool.NewGateFor([]tool.Entry{{URI: "mcp://warehouse/query@1.0.0", Server: "warehouse", Name: "query", Version: "1.0.0", Raw: raw}}, p)
	if err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"SELECT name FROM users":                                    "sql-reads",
		"SELECT password FROM auth.accounts":                        "private-tables",
		"SELECT * FROM mydb.auth.users":                             "private-tables",
		`SELECT * FROM mydb."AUTH"."a.b"`:                           "private-tables",
		"TABLE Auth . users":                                        "private-tables",
		"WITH x AS (SELECT * FROM mydb.auth.users) SELECT * FROM x": "private-tables",
		"UPDATE mydb.auth.users SET name = ''":                      "private-tables",
		`SELECT * FROM "auth.users"`:                                "sql-reads", // a table of that name
		"INSERT INTO notes VALUES (1)":                              "sql-writes",
		"DROP TABLE users":                                          "sql-structure",
		"SELECT pg_sleep(10)":                                       "sql-writes",
	} {
		v := g.Ask(tool.Request{URI: "mcp://warehouse/query@1.0.0", Args: flow.JSON(map[string]string{"sql": sql}), Agent: true})
		if v.Rule != want {
			t.Errorf("%s: decided by %s as %v, %v; facts %s", sql, v.Rule, v.Do, v.Err, v.Facts)
		}
	}
	v := g.Ask(tool.Request{URI: "mcp://warehouse/query@1.0.0", Args: flow.JSON(map[string]string{"sql": "SELECT 1; DROP TABLE users"}), Agent: true})
	if v.Err == nil || v.Err.Code != tool.CodeGuardRefused {
		t.Errorf("two statements: %+v", v)
	}
}

// FuzzPolicy: no document ends the process; one that is accepted says the same when
// it was frozen with a manifest; one that is refused says where.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(policyFile))
	f.Add([]byte("version: 1\nrules: [{id: a, tool: a/b, do: deny, when: 'args.x[0] == {\"a\": 1}.a'}]"))
	f.Add([]byte("version: 1\nguards: [{id: a, use: sql_guard, tool: '?/*', arg: '/a~1b/0', dialect: postgres}]"))
	f.Add([]byte("version: 1\nrules:\n- id: a\n  when: |\n    turn.step > 1 &&\n    turn.untrusted\n  do: ask\n  tool: '*/*'"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, problems := workspace.ParsePolicy("f", doc)
		if (p == nil) != (len(problems) > 0) {
			t.Fatalf("policy %v, problems %v", p, problems)
		}
		for _, x := range problems {
			if x.Line < 0 || x.Column < 0 || x.Message == "" || x.Code == "" || x.File != "f" {
				t.Fatalf("problem %+v", x)
			}
		}
		if p == nil {
			return
		}
		back, err := workspace.ParseFrozen((&workspace.Manifest{Policy: p}).Frozen())
		if err != nil || back.Policy.Digest() != p.Digest() {
			t.Fatalf("%+v does not come back: %v", p.Document(), err)
		}
		c := policy.Call{Server: "a", Tool: "b", Class: flow.Once, Args: []byte(`{"x":[1],"sql":"SELECT 1"}`)}
		c.Facts = p.Inspect(c).Seen()
		if a, b := p.Decide(c), back.Policy.Decide(c); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v decides %v, frozen %v", p.Document(), a, b)
		}
	})
}

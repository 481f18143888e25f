package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/policy/sqlguard"
)

var sqlGuard = policy.GuardConfig{ID: "sql", Use: policy.SQLGuard, Tool: "db/query", Arg: "/sql", Dialect: "trino", Single: true}

// guarded is a policy with a guard of db/query.
func guarded(t testing.TB, rules ...policy.Rule) *policy.Policy {
	t.Helper()
	p, problems := policy.New(policy.Document{Guards: []policy.GuardConfig{sqlGuard}, Rules: rules}, sqlguard.Kind)
	if problems != nil {
		t.Fatal(problems)
	}
	return p
}

func query(text string) policy.Call {
	return policy.Call{Server: "db", Tool: "query", Class: flow.Read, Args: flow.JSON(map[string]string{"sql": text})}
}

func TestGuardsFindFacts(t *testing.T) {
	found := guarded(t).Inspect(query("SELECT name FROM users"))
	if len(found) != 1 {
		t.Fatalf("got %+v", found)
	}
	var facts struct {
		SQL struct {
			Access     string
			Statements int
			Tables     []string
		}
	}
	if err := json.Unmarshal(found.Facts(), &facts); err != nil {
		t.Fatal(err)
	}
	if facts.SQL.Access != "read" || facts.SQL.Statements != 1 || len(facts.SQL.Tables) != 1 {
		t.Errorf("got %s", found.Facts())
	}
	if diff := cmp.Diff([]string{"sql:read"}, found.Classes()); diff != "" {
		t.Error(diff)
	}
	if found.Writes() {
		t.Error("a SELECT writes")
	}
	if f, ok := found.Refused(); ok {
		t.Errorf("a read is refused: %+v", f)
	}
}

func TestGuardsRaiseAndRefuse(t *testing.T) {
	found := guarded(t).Inspect(query("DROP TABLE users"))
	if !found.Writes() || found.Classes()[0] != "sql:write" {
		t.Errorf("got %+v", found)
	}
	found = guarded(t).Inspect(query("SELECT 1; DROP TABLE users"))
	if f, ok := found.Refused(); !ok || f.Guard != "sql" {
		t.Errorf("got %+v", found)
	}
}

func TestGuardsLookAtTheirToolsAlone(t *testing.T) {
	c := query("DROP TABLE users")
	c.Tool = "list"
	found := guarded(t).Inspect(c)
	if found != nil || found.Facts() != nil || found.Classes() != nil {
		t.Errorf("got %+v", found)
	}
	if found := (*policy.Policy)(nil).Inspect(c); found != nil {
		t.Errorf("no policy found %+v", found)
	}
}

// TestAnApprovedSelectIsNoDrop: rules decide by what a guard found.
func TestAnApprovedSelectIsNoDrop(t *testing.T) {
	p := guarded(t, policy.Rule{ID: "reads", Tool: "db/query", When: `facts.sql.access == "read"`, Do: policy.Allow})
	for text, want := range map[string]policy.Action{"SELECT 1": policy.Allow, "DELETE FROM users": policy.Ask} {
		c := query(text)
		c.Facts = p.Inspect(c).Facts()
		if got := p.Decide(c).Do; got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	if got := p.Decide(query("SELECT 1")).Do; got != policy.Ask {
		t.Errorf("without facts: %v", got)
	}
}

func TestGuardsThatCannotBe(t *testing.T) {
	with := func(change func(*policy.GuardConfig)) policy.GuardConfig {
		g := sqlGuard
		change(&g)
		return g
	}
	for name, c := range map[string]struct {
		guard policy.GuardConfig
		field string
		say   string
	}{
		"no id":     {with(func(g *policy.GuardConfig) { g.ID = "" }), "id", "needed"},
		"id taken":  {with(func(g *policy.GuardConfig) { g.ID = "taken" }), "id", "entry 1 of guards"},
		"no use":    {with(func(g *policy.GuardConfig) { g.Use = "" }), "use", "sql_guard"},
		"other use": {with(func(g *policy.GuardConfig) { g.Use = "shell_guard" }), "use", "sql_guard"},
		"pattern":   {with(func(g *policy.GuardConfig) { g.Tool = "query" }), "tool", "exactly one"},
		"dialect":   {with(func(g *policy.GuardConfig) { g.Dialect = "oracle" }), "dialect", "oracle"},
		"pointer":   {with(func(g *policy.GuardConfig) { g.Arg = "sql" }), "arg", ""},
		"same tool": {with(func(g *policy.GuardConfig) { g.Tool = "d?/*t" }), "tool", `may mean the same tool`},
	} {
		taken := with(func(g *policy.GuardConfig) { g.ID, g.Tool = "taken", "db/list" })
		_, problems := policy.New(policy.Document{Guards: []policy.GuardConfig{taken, c.guard}}, sqlguard.Kind)
		if len(problems) != 1 || problems[0].List != policy.InGuards || problems[0].Index != 1 || problems[0].Field != c.field || !strings.Contains(problems[0].Message, c.say) {
			t.Errorf("%s: got %+v", name, problems)
		}
	}
	_, problems := policy.New(policy.Document{Guards: []policy.GuardConfig{sqlGuard}, Rules: []policy.Rule{{ID: "sql", Tool: "a/b"}}}, sqlguard.Kind)
	if len(problems) != 1 || problems[0].List != policy.InRules || problems[0].Field != "id" {
		t.Errorf("a rule with the id of a guard: %+v", problems)
	}
}

func TestDocumentComesBack(t *testing.T) {
	d := policy.Document{
		Guards: []policy.GuardConfig{{ID: "sql", Use: policy.SQLGuard, Tool: "db/*", Arg: "/sql", Dialect: "mysql", Functions: []string{"my_pure"}}},
		Rules:  []policy.Rule{{ID: "r", Tool: "a/b", Effect: []flow.Class{flow.Read}, When: "turn.untrusted", Do: policy.Ask, Why: "w"}},
	}
	p, problems := policy.New(d, sqlguard.Kind)
	if problems != nil {
		t.Fatal(problems)
	}
	got := p.Document()
	if diff := cmp.Diff(d, got); diff != "" {
		t.Error(diff)
	}
	got.Guards[0].Functions[0], got.Rules[0].Effect[0] = "other", flow.Once
	if diff := cmp.Diff(d, p.Document()); diff != "" {
		t.Errorf("the policy changed: %s", diff)
	}
}

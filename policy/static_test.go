package policy_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

const always, maybe = "", "turn.untrusted"

func TestStatic(t *testing.T) {
	rule := func(id string, do policy.Action, when string, effect ...flow.Class) policy.Rule {
		return policy.Rule{ID: id, Tool: "a/*", Do: do, When: when, Effect: effect}
	}
	for name, c := range map[string]struct {
		rules   []policy.Rule
		want    policy.Action
		depends bool
	}{
		"no rules":                        {nil, policy.Ask, false},
		"allowed":                         {[]policy.Rule{rule("r", policy.Allow, always)}, policy.Allow, false},
		"denied, whatever else":           {[]policy.Rule{rule("r", policy.Deny, always), rule("s", policy.Ask, maybe)}, policy.Deny, false},
		"allowed if":                      {[]policy.Rule{rule("r", policy.Allow, maybe)}, policy.Ask, true},
		"asked either way":                {[]policy.Rule{rule("r", policy.Ask, maybe)}, policy.Ask, false},
		"denied if":                       {[]policy.Rule{rule("r", policy.Deny, maybe)}, policy.Ask, true},
		"allowed unless":                  {[]policy.Rule{rule("r", policy.Allow, always), rule("s", policy.Deny, maybe)}, policy.Allow, true},
		"asked, an allow changes nothing": {[]policy.Rule{rule("r", policy.Ask, always), rule("s", policy.Allow, maybe)}, policy.Ask, false},
		"of another class":                {[]policy.Rule{rule("r", policy.Allow, always), rule("s", policy.Deny, maybe, flow.Once)}, policy.Allow, false},
	} {
		v, depends := compile(t, c.rules...).Static("a", "b", flow.Read)
		if v.Do != c.want || depends != c.depends {
			t.Errorf("%s: got %v, %v", name, v.Do, depends)
		}
	}
	if v, depends := (*policy.Policy)(nil).Static("a", "b", flow.Read); v.Do != policy.Deny || depends {
		t.Errorf("no policy: got %v, %v", v, depends)
	}
}

func TestStaticOfAGuardedTool(t *testing.T) {
	deny := policy.Rule{ID: "no", Tool: "db/*", Do: policy.Deny}
	reads := policy.Rule{ID: "no-reads", Tool: "db/*", Effect: []flow.Class{flow.Read}, Do: policy.Deny}
	allow := policy.Rule{ID: "yes", Tool: "*/*", Do: policy.Allow}
	for name, c := range map[string]struct {
		rule    policy.Rule
		tool    string
		depends bool
	}{
		"denied in every class":          {deny, "query", false},
		"denied as long as it is a read": {reads, "query", true},
		"allowed, but may be refused":    {allow, "query", true},
		"allowed and not watched":        {allow, "list", false},
	} {
		p := guarded(t, c.rule)
		if _, depends := p.Static("db", c.tool, flow.Read); depends != c.depends {
			t.Errorf("%s: depends %v", name, depends)
		}
	}
}

// TestStaticForesees: where it does not depend, no call is decided otherwise.
func TestStaticForesees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := anyRules(t)
		p, problems := policy.New(policy.Document{Rules: rules})
		if problems != nil {
			t.Fatal(problems)
		}
		c := anyCall(t)
		v, depends := p.Static(c.Server, c.Tool, c.Class)
		if got := p.Decide(c); !depends && got.Do != v.Do {
			t.Fatalf("%v: foreseen was %v, %+v is decided %v", rules, v, c, got)
		}
	})
}

// anyCall has arguments of which conditions make something, or fail at.
func anyCall(t *rapid.T) policy.Call {
	return policy.Call{
		Server: rapid.StringMatching(`[ab]{1,4}`).Draw(t, "server"),
		Tool:   rapid.StringMatching(`[ab]{1,4}`).Draw(t, "tool"),
		Class:  rapid.SampledFrom([]flow.Class{flow.Read, flow.Idempotent, flow.Once}).Draw(t, "class"),
		Args:   json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"n":1}`, `{"n":"one"}`, `{"n":-1}`}).Draw(t, "args")),
		Turn:   policy.Turn{Untrusted: rapid.Bool().Draw(t, "untrusted")},
	}
}

func anyRules(t *rapid.T) []policy.Rule {
	var rules []policy.Rule
	for i := range rapid.IntRange(0, 8).Draw(t, "n") {
		rules = append(rules, anyRule(i).Draw(t, "rule"))
	}
	return rules
}

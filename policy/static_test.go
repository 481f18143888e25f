package policy_test

import (
	"encoding/json"
	"strings"
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
		by      string
	}{
		"no rules":                        {nil, policy.Ask, false, policy.NoMatch},
		"allowed":                         {[]policy.Rule{rule("r", policy.Allow, always)}, policy.Allow, false, "r"},
		"denied, whatever else":           {[]policy.Rule{rule("r", policy.Deny, always), rule("s", policy.Ask, maybe)}, policy.Deny, false, "r"},
		"allowed if":                      {[]policy.Rule{rule("r", policy.Allow, maybe)}, policy.Ask, true, "r"},
		"asked either way":                {[]policy.Rule{rule("r", policy.Ask, maybe)}, policy.Ask, false, policy.NoMatch},
		"denied if":                       {[]policy.Rule{rule("r", policy.Deny, maybe)}, policy.Ask, true, "r"},
		"allowed unless":                  {[]policy.Rule{rule("r", policy.Allow, always), rule("s", policy.Deny, maybe)}, policy.Allow, true, "s"},
		"asked, an allow changes nothing": {[]policy.Rule{rule("r", policy.Ask, always), rule("s", policy.Allow, maybe)}, policy.Ask, false, "r"},
		"allowed twice":                   {[]policy.Rule{rule("r", policy.Allow, always), rule("s", policy.Allow, always)}, policy.Allow, false, "r s"},
		"of another class":                {[]policy.Rule{rule("r", policy.Allow, always), rule("s", policy.Deny, maybe, flow.Once)}, policy.Allow, false, "r"},
	} {
		v, depends := compile(t, c.rules...).Static("a", "b", flow.Read)
		if v.Do != c.want || depends != c.depends || strings.Join(v.Rules, " ") != c.by {
			t.Errorf("%s: got %v, %v by %v", name, v.Do, depends, v.Rules)
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
		by      string
	}{
		"denied in every class":          {deny, "query", false, "no"},
		"denied as long as it is a read": {reads, "query", true, sqlGuard.ID},
		"allowed, but may be refused":    {allow, "query", true, sqlGuard.ID},
		"allowed and not watched":        {allow, "list", false, "yes"},
	} {
		p := guarded(t, c.rule)
		if v, depends := p.Static("db", c.tool, flow.Read); depends != c.depends || strings.Join(v.Rules, " ") != c.by {
			t.Errorf("%s: depends %v by %v", name, depends, v.Rules)
		}
	}
}

// TestStaticForesees: where it does not depend, no call is decided otherwise.
func TestStaticForesees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := policy.Document{Rules: anyRules(t)}
		for i := range doc.Rules {
			if rapid.Bool().Draw(t, "of every tool") {
				doc.Rules[i].Tool = "*/*"
			}
		}
		if rapid.Bool().Draw(t, "guarded") {
			tool := rapid.SampledFrom([]string{"*/*", "a*/*", "*/b*"}).Draw(t, "watched")
			doc.Guards = []policy.GuardConfig{{ID: "guard", Use: "moody", Tool: tool}}
			doc.Rules = append(doc.Rules[:len(doc.Rules)/2], policy.Rule{ID: "no", Tool: "*/*", Effect: []flow.Class{flow.Read}, Do: policy.Deny})
		}
		p, problems := policy.New(doc, policy.GuardKind{Name: "moody", New: func(policy.GuardConfig) (policy.Guard, error) { return moody{}, nil }})
		if problems != nil {
			t.Fatal(problems)
		}
		c := anyCall(t)
		v, depends := p.Static(c.Server, c.Tool, c.Class)
		if len(v.Rules) == 0 {
			t.Fatalf("%v: nothing decides %+v", doc, v)
		}
		if depends {
			return
		}
		for range 5 { // whatever it is called with, and in whatever turn
			other := anyCall(t)
			other.Server, other.Tool, other.Class = c.Server, c.Tool, c.Class
			if got := judged(p, other); got != v.Do {
				t.Fatalf("%v: foreseen was %v, %+v is decided %v", doc, v, other, got)
			}
		}
	})
}

// moody is a guard that refuses some calls and raises others.
type moody struct{}

func (moody) Find(args json.RawMessage) policy.Finding {
	f := policy.Finding{Name: "moody", Facts: args, Seen: args, Class: "read"}
	switch string(args) {
	case `{"n":-1}`:
		f.Refused = "too little"
	case `{"n":1}`:
		f.Writes = true
	}
	return f
}

// judged is a call as gates judge it: guards first, then the rules.
func judged(p *policy.Policy, c policy.Call) policy.Action {
	found := p.Inspect(c)
	if _, refused := found.Refused(); refused {
		return policy.Deny
	}
	if c.Facts = found.Seen(); found.Writes() {
		c.Class = flow.Once
	}
	return p.Decide(c).Do
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

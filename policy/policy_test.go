package policy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

func compile(t testing.TB, rules ...policy.Rule) *policy.Policy {
	t.Helper()
	p, problems := policy.New(policy.Document{Rules: rules})
	if problems != nil {
		t.Fatal(problems)
	}
	return p
}

func TestStrictestRuleWins(t *testing.T) {
	allow := policy.Rule{ID: "allow", Tool: "files/*", Do: policy.Allow}
	ask := policy.Rule{ID: "ask", Tool: "files/w*", Do: policy.Ask}
	deny := policy.Rule{ID: "deny", Tool: "*/*_secret", Do: policy.Deny, Why: "secrets stay"}
	p := compile(t, allow, ask, deny)
	for tool, want := range map[string]policy.Verdict{
		"read":         {Do: policy.Allow, Rule: "allow"},
		"write":        {Do: policy.Ask, Rule: "ask"},
		"read_secret":  {Do: policy.Deny, Rule: "deny", Why: "secrets stay"},
		"write_secret": {Do: policy.Deny, Rule: "deny", Why: "secrets stay"},
	} {
		want.PolicyDigest = p.Digest()
		got := p.Decide(policy.Call{Server: "files", Tool: tool, Class: flow.Read})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", tool, diff)
		}
	}
}

func TestAmongEqualsTheFirstNamesTheVerdict(t *testing.T) {
	one := policy.Rule{ID: "one", Tool: "a/*", Do: policy.Ask}
	two := policy.Rule{ID: "two", Tool: "*/b", Do: policy.Ask}
	call := policy.Call{Server: "a", Tool: "b", Class: flow.Read}
	if got := compile(t, one, two).Decide(call).Rule; got != "one" {
		t.Errorf("got %q", got)
	}
	if got := compile(t, two, one).Decide(call).Rule; got != "two" {
		t.Errorf("got %q", got)
	}
}

func TestNoMatchAsks(t *testing.T) {
	for name, p := range map[string]*policy.Policy{
		"zero":  {},
		"empty": compile(t),
		"other": compile(t, policy.Rule{ID: "x", Tool: "other/*", Do: policy.Allow}),
	} {
		got := p.Decide(policy.Call{Server: "a", Tool: "b", Class: flow.Read})
		want := policy.Verdict{Do: policy.Ask, Rule: policy.NoMatch, PolicyDigest: p.Digest()}
		if !cmp.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestWhatNobodyFilledInDenies(t *testing.T) {
	if got := (policy.Verdict{}).Do; got != policy.Deny {
		t.Errorf("the zero Verdict says %v", got)
	}
	if got := (*policy.Policy)(nil).Decide(policy.Call{Server: "a", Tool: "b"}); got.Do != policy.Deny {
		t.Errorf("the nil Policy says %v", got.Do)
	}
	if got := (policy.Rule{}).Do; got != policy.Deny {
		t.Errorf("the zero Rule says %v", got)
	}
	if got := policy.Action(9).String(); got != "deny" {
		t.Errorf("an unknown action is called %q", got)
	}
}

func TestEffectNarrowsARule(t *testing.T) {
	p := compile(t, policy.Rule{ID: "r", Tool: "*/*", Effect: []flow.Class{flow.Read, flow.Idempotent}, Do: policy.Allow})
	for class, want := range map[flow.Class]policy.Action{flow.Read: policy.Allow, flow.Idempotent: policy.Allow, flow.Once: policy.Ask, "": policy.Ask} {
		if got := p.Decide(policy.Call{Server: "a", Tool: "b", Class: class}).Do; got != want {
			t.Errorf("class %q: got %v, want %v", class, got, want)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, server, tool string
		want               bool
	}{
		{"a/b", "a", "b", true},
		{"a/b", "a", "B", false},
		{"a/b", "aa", "b", false},
		{"*/b", "anything", "b", true},
		{"*/*", "a", "b", true},
		{"a*/b", "a", "b", true},
		{"a/del*", "a", "delete_all", true},
		{"a/del*", "a", "undelete", false},
		{"a/*del*", "a", "undelete", true},
		{"a/?", "a", "b", true},
		{"a/?", "a", "bb", false},
		{"a/??*", "a", "b", false},
		{"a/*x*y", "a", "xxyxy", true},
		{"a/*x*y", "a", "xxyx", false},
		{"a/b.c", "a", "bxc", false},
		{"?/b", "", "b", false},
	} {
		p := compile(t, policy.Rule{ID: "r", Tool: c.glob, Do: policy.Allow})
		got := p.Decide(policy.Call{Server: c.server, Tool: c.tool}).Do == policy.Allow
		if got != c.want {
			t.Errorf("%s on %s/%s: got %v", c.glob, c.server, c.tool, got)
		}
	}
}

func TestProblemsNameRuleAndField(t *testing.T) {
	rules := []policy.Rule{
		{ID: "ok", Tool: "a/b"},
		{ID: "", Tool: "a/b"},
		{ID: "ok", Tool: "a/b"},
		{ID: "builtin/x", Tool: "a/b"},
		{ID: "two words", Tool: "a/b"},
		{ID: strings.Repeat("x", 65), Tool: "a/b"},
		{ID: "g1", Tool: "delete_*"},
		{ID: "g2", Tool: "a/b/c"},
		{ID: "g3", Tool: "/b"},
		{ID: "g4", Tool: "a/[bc]"},
		{ID: "e1", Tool: "a/b", Effect: []flow.Class{"write"}},
		{ID: "e2", Tool: "a/b", Effect: []flow.Class{}},
		{ID: "e3", Tool: "a/b", Effect: []flow.Class{flow.Read, flow.Read}},
		{ID: "", Tool: ""},
	}
	p, problems := policy.New(policy.Document{Rules: rules})
	if p != nil {
		t.Error("a policy was made of faulty rules")
	}
	type place struct {
		Rule  int
		Field string
	}
	var got []place
	for _, x := range problems {
		got = append(got, place{x.Index, x.Field})
		if x.Message == "" {
			t.Errorf("problem of rule %d says nothing", x.Index)
		}
	}
	want := []place{{1, "id"}, {2, "id"}, {3, "id"}, {4, "id"}, {5, "id"}, {6, "tool"}, {7, "tool"}, {8, "tool"}, {9, "tool"},
		{10, "effect"}, {11, "effect"}, {12, "effect"}, {13, "id"}, {13, "tool"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMatchingExplainsEveryRule(t *testing.T) {
	p := compile(t,
		policy.Rule{ID: "1", Tool: "a/*", Do: policy.Allow},
		policy.Rule{ID: "2", Tool: "b/*", Do: policy.Deny},
		policy.Rule{ID: "3", Tool: "*/x", Do: policy.Ask})
	var ids []string
	for _, v := range p.Matching(policy.Call{Server: "a", Tool: "x"}) {
		ids = append(ids, v.Rule+" "+v.Do.String())
	}
	if diff := cmp.Diff([]string{"1 allow", "3 ask"}, ids); diff != "" {
		t.Error(diff)
	}
}

func TestDigestFollowsTheDocument(t *testing.T) {
	a := policy.Rule{ID: "a", Tool: "a/*", Do: policy.Allow}
	b := policy.Rule{ID: "b", Tool: "b/*", Do: policy.Deny, Why: "no"}
	seen := map[string]string{}
	for name, p := range map[string]*policy.Policy{
		"none":        compile(t),
		"a":           compile(t, a),
		"ab":          compile(t, a, b),
		"ba":          compile(t, b, a),
		"other why":   compile(t, a, policy.Rule{ID: "b", Tool: "b/*", Do: policy.Deny, Why: "yes"}),
		"with when":   compile(t, a, policy.Rule{ID: "b", Tool: "b/*", Do: policy.Deny, Why: "no", When: "turn.untrusted"}),
		"with guard":  guarded(t, a, b),
		"with effect": compile(t, a, policy.Rule{ID: "b", Tool: "b/*", Do: policy.Deny, Why: "no", Effect: []flow.Class{flow.Once}}),
	} {
		if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(p.Digest()) {
			t.Errorf("%s: %q is not a digest", name, p.Digest())
		}
		if other, ok := seen[p.Digest()]; ok {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[p.Digest()] = name
	}
	if compile(t).Digest() != new(policy.Policy).Digest() {
		t.Error("a policy without rules has two digests")
	}
	once, again := compile(t, a, b).Digest(), compile(t, a, b).Digest()
	if once != again {
		t.Error("equal documents have different digests")
	}
}

func TestActionsHaveNames(t *testing.T) {
	for _, a := range []policy.Action{policy.Allow, policy.Ask, policy.Deny} {
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var back policy.Action
		if err := json.Unmarshal(text, &back); err != nil || back != a {
			t.Errorf("%v became %s and then %v, %v", a, text, back, err)
		}
	}
	if _, err := policy.ParseAction("Allow"); err == nil {
		t.Error("an unknown action was read")
	}
}

func anyRule(i int) *rapid.Generator[policy.Rule] {
	part := rapid.StringMatching(`[ab*?]{1,4}`)
	return rapid.Custom(func(t *rapid.T) policy.Rule {
		r := policy.Rule{
			ID:   string(rune('A' + i)),
			Tool: part.Draw(t, "server") + "/" + part.Draw(t, "tool"),
			Do:   rapid.SampledFrom([]policy.Action{policy.Allow, policy.Ask, policy.Deny}).Draw(t, "do"),
		}
		if rapid.Bool().Draw(t, "narrow") {
			r.Effect = rapid.SampledFrom([][]flow.Class{{flow.Read}, {flow.Idempotent}, {flow.Once}, {flow.Read, flow.Once}}).Draw(t, "effect")
		}
		r.When = rapid.SampledFrom([]string{"", "", "turn.untrusted", "args.n > 0", "!has(args.n)", "args.n"}).Draw(t, "when")
		return r
	})
}

func TestOrderNeverChangesTheDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, call := anyRules(t), anyCall(t)
		shuffled := rapid.Permutation(rules).Draw(t, "shuffled")
		p, problems := policy.New(policy.Document{Rules: rules})
		q, _ := policy.New(policy.Document{Rules: shuffled})
		if problems != nil {
			t.Fatal(problems)
		}
		a, b := p.Decide(call), q.Decide(call)
		if a.Do != b.Do {
			t.Fatalf("%v decides %v, %v decides %v", rules, a, shuffled, b)
		}
		if !cmp.Equal(a, p.Decide(call)) {
			t.Fatal("the same call has two verdicts")
		}
		for _, v := range p.Matching(call) {
			if v.Do < a.Do {
				t.Fatalf("%v is laxer than its own rule %v", a, v)
			}
		}
	})
}

// FuzzGlob compares the matcher with the same pattern as a regular expression.
func FuzzGlob(f *testing.F) {
	f.Add("a/*", "a", "b")
	f.Add("*/*b*?", "x", "abba")
	f.Add("a?/**", "aé", "")
	f.Fuzz(func(t *testing.T, glob, server, tool string) {
		if strings.ContainsAny(server+tool, "/\n") || len(glob) > 100 {
			return
		}
		p, problems := policy.New(policy.Document{Rules: []policy.Rule{{ID: "r", Tool: glob, Do: policy.Allow}}})
		if problems != nil {
			return
		}
		pattern := regexp.QuoteMeta(glob)
		pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, `\*`, `[^/]*`), `\?`, `[^/]`)
		want := regexp.MustCompile("^(?s:" + pattern + ")$").MatchString(server + "/" + tool)
		got := p.Decide(policy.Call{Server: server, Tool: tool}).Do == policy.Allow
		if got != want {
			t.Errorf("%q on %q/%q: got %v, want %v", glob, server, tool, got, want)
		}
	})
}

// TestDecidingIsCheap: a policy without conditions is asked on the way of every
// call, and leaves nothing behind.
func TestDecidingIsCheap(t *testing.T) {
	p := compile(t,
		policy.Rule{ID: "reads", Tool: "*/*", Effect: []flow.Class{flow.Read}, Do: policy.Allow},
		policy.Rule{ID: "exec", Tool: "*/exec", Do: policy.Ask})
	c := call()
	if n := testing.AllocsPerRun(100, func() { p.Decide(c) }); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { p.Inspect(c) }); n != 0 {
		t.Errorf("looking for guards allocates %v times", n)
	}
}

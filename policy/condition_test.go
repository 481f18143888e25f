package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// call is one of which a condition can see everything.
func call() policy.Call {
	return policy.Call{
		Server: "db", Tool: "query", URI: "mcp://db/query@1.2.3", Class: flow.Idempotent, Destructive: true, OpenWorld: true,
		Args:  json.RawMessage(`{"path":"/etc/passwd","n":5,"half":0.5,"tags":["a","b"],"deep":{"er":null},"yes":true}`),
		Facts: json.RawMessage(`{"sql":{"access":"read","tables":["users"]}}`),
		Turn:  policy.Turn{Untrusted: true, Step: 3},
		Run:   policy.Run{ID: "R", Path: "turn/tool#3.1", Principal: "user:ada"},
	}
}

// matches is whether a rule with this condition matches a call.
func matches(t testing.TB, do policy.Action, when string, c policy.Call) bool {
	t.Helper()
	return compile(t, policy.Rule{ID: "r", Tool: "*/*", When: when, Do: do}).Decide(c).Rule == "r"
}

func TestConditionsSeeTheCall(t *testing.T) {
	for when, want := range map[string]bool{
		`args.path.startsWith("/etc/")`:                       true,
		`args.path == "/etc/shadow"`:                          false,
		`args.n == 5 && args.n > 4 && args.half < 1`:          true,
		`"b" in args.tags`:                                    true,
		`args.tags.exists(t, t == "c")`:                       false,
		`has(args.deep.er) && args.deep.er == null`:           true,
		`has(args.absent)`:                                    false,
		`args.yes`:                                            true,
		`facts.sql.access == "read"`:                          true,
		`sets.contains(["users", "pets"], facts.sql.tables)`:  true,
		`"secrets" in facts.sql.tables`:                       false,
		`tool.server == "db" && tool.name == "query"`:         true,
		`tool.uri == "mcp://db/query@1.2.3"`:                  true,
		`tool.effect == "idempotent"`:                         true,
		`tool.destructive && tool.open_world`:                 true,
		`turn.untrusted && turn.step == 3`:                    true,
		`turn.step > 3`:                                       false,
		`run.id == "R" && run.path.startsWith("turn/")`:       true,
		`run.principal == "user:ada"`:                         true,
		`args.path.lowerAscii().matches("^/etc/p[a-z]+$")`:    true,
		`[{"id": "x"}].exists(run, run.id == "x")`:            true, // a name of their own hides ours
		"args.n == 5 // the number\n  && !(args.n in [1, 2])": true,
	} {
		for _, do := range []policy.Action{policy.Allow, policy.Ask, policy.Deny} {
			if got := matches(t, do, when, call()); got != want {
				t.Errorf("%s, %v: got %v", when, do, got)
			}
		}
	}
}

func TestOutsideOfATurnNothingIsUntrusted(t *testing.T) {
	if !matches(t, policy.Allow, `!turn.untrusted && turn.step == 0 && facts == {} && args == {}`, policy.Call{Server: "a", Tool: "b"}) {
		t.Error("a call without turn, facts and arguments is seen otherwise")
	}
}

func TestConditionThatFailsCountsAgainstTheCall(t *testing.T) {
	many := make([]int, 200)
	long := call()
	long.Args = flow.JSON(map[string]any{"list": many})
	for name, c := range map[string]struct {
		when string
		call policy.Call
	}{
		"absent argument":     {`args.absent == 1`, call()},
		"absent facts":        {`facts.shell.access == "read"`, call()},
		"of another type":     {`args.path > 3`, call()},
		"neither true nor no": {`args.path`, call()},
		"division by zero":    {`1 / int(args.n - 5.0) == 1`, call()},
		"too much work":       {`args.list.all(a, args.list.all(b, a == b))`, long},
		"bad expression":      {`args.path.matches(args.path + "(")`, call()},
		"arguments no object": {`args.n == 5`, policy.Call{Server: "a", Tool: "b", Args: json.RawMessage(`[1]`)}},
		"facts no object":     {`true`, policy.Call{Server: "a", Tool: "b", Facts: json.RawMessage(`{`)}},
	} {
		for do, want := range map[policy.Action]bool{policy.Deny: true, policy.Ask: true, policy.Allow: false} {
			if got := matches(t, do, c.when, c.call); got != want {
				t.Errorf("%s: a rule that says %v matched: %v", name, do, got)
			}
		}
	}
}

func TestConditionsThatCannotBe(t *testing.T) {
	for when, say := range map[string]string{
		`tool.nme == "x"`:          `did you mean 'tool.name'`,
		`tools.name == "x"`:        "undeclared reference to 'tools.name'",
		`turn.step == "three"`:     "no matching overload",
		`args.path.startsWith(`:    "Syntax error",
		`turn.step`:                "gives int, not true or false",
		`args.tags.map(t, t)`:      "gives list(dyn), not true or false",
		`now() > 3`:                "undeclared reference to 'now'",
		"true &&\n  tool.nme == 1": "line 2, column 7",
		`timestamp("2026-01-01T00:00:00Z").getHours("Europe/Berlin") == 1`: "undeclared reference to 'timestamp'",
		`duration("1h") == duration("60m")`:                                "undeclared reference to 'duration'",
		strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000):     "",
	} {
		_, problems := policy.New(policy.Document{Rules: []policy.Rule{{ID: "ok", Tool: "a/b"}, {ID: "r", Tool: "a/b", When: when}}})
		if len(problems) != 1 || problems[0].List != policy.InRules || problems[0].Index != 1 || problems[0].Field != "when" {
			t.Errorf("%.40s: got %+v", when, problems)
			continue
		}
		if !strings.Contains(problems[0].Message, say) {
			t.Errorf("%s: %s", when, problems[0].Message)
		}
	}
}

// TestPolicyIsShared: one policy answers all branches of a run.
func TestPolicyIsShared(t *testing.T) {
	p := compile(t, policy.Rule{ID: "odd", Tool: "*/*", When: `int(args.n) % 2 == 1`, Do: policy.Deny}, policy.Rule{ID: "all", Tool: "*/*", Do: policy.Allow})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := "all"
			if i%2 == 1 {
				want = "odd"
			}
			c := policy.Call{Server: "a", Tool: "b", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}
			for range 50 {
				if got := p.Decide(c).Rule; got != want {
					t.Errorf("%d: got %s", i, got)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzCondition: whatever compiles is decided about, always the same way, and
// never to the advantage of the call: a condition under which it would be allowed
// is one under which it would be denied.
func FuzzCondition(f *testing.F) {
	for _, when := range []string{`args.n == 5`, `args.x.y[0] < 1.5`, `"a" in facts.sql.tables`, `turn.untrusted || run.id.size() > args.n`, `args.tags.all(t, t.matches(t))`,
		`has(args.a) ? args.a : 1u == 2`, `tool.effect in ["read", b"x"]`, `optional`, `dyn(args).map(k, args[k]) == []`, `"%s".format([args]) != ""`} {
		f.Add(when, `{"n":5,"tags":["a"]}`)
	}
	f.Fuzz(func(t *testing.T, when, args string) {
		if len(when) > 2000 || when == "" {
			return
		}
		c := call()
		c.Args = json.RawMessage(args)
		verdict := map[policy.Action]policy.Verdict{}
		for _, do := range []policy.Action{policy.Allow, policy.Ask, policy.Deny} {
			p, problems := policy.New(policy.Document{Rules: []policy.Rule{{ID: "r", Tool: "db/*", When: when, Do: do}}})
			if problems != nil {
				return
			}
			verdict[do] = p.Decide(c)
			if again := p.Decide(c); !cmp.Equal(again, verdict[do]) {
				t.Fatalf("%q says %v and then %v", when, verdict[do], again)
			}
		}
		if (verdict[policy.Ask].Rule == "r") != (verdict[policy.Deny].Rule == "r") {
			t.Fatalf("%q asks and does not deny, or the other way round: %v", when, verdict)
		}
		if verdict[policy.Allow].Rule == "r" && verdict[policy.Deny].Rule != "r" {
			t.Fatalf("%q allows what it would not deny: %v", when, verdict)
		}
	})
}

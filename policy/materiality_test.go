package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// noon is when terms are compared, unless a test says otherwise.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pair is two terms and the rules that a change from one to the other meets.
type pair struct {
	name     string
	old, new policy.Terms
	rules    []string // nil: not material
}

func check(t *testing.T, pairs []pair) {
	t.Helper()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			found := policy.Classify(p.old, p.new, noon)
			var rules []string
			for _, r := range found.Reasons {
				rules = append(rules, r.Rule)
			}
			if diff := cmp.Diff(p.rules, rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s%v", diff, found.Reasons)
			}
			if found.Material != (len(p.rules) > 0) {
				t.Errorf("material is %v", found.Material)
			}
			if same := policy.Classify(p.new, p.new, noon); same.Material {
				t.Errorf("equal terms are material: %v", same.Reasons)
			}
		})
	}
}

// meets is a change that meets one rule, once.
func meets(rule string) []string { return []string{rule} }

func cost(usd string) policy.Terms {
	n, err := tipstaff.ParseBound(tipstaff.BoundCostUSD, usd)
	if err != nil {
		panic(err)
	}
	return bounds(tipstaff.Bounds{tipstaff.BoundCostUSD: n})
}

func budget(amounts ...policy.Amount) policy.Terms { return policy.Terms{Budget: amounts} }

func bounds(b tipstaff.Bounds) policy.Terms { return policy.Terms{Bounds: b} }

func calls(n int64) policy.Terms { return bounds(tipstaff.Bounds{tipstaff.BoundToolCalls: n}) }

func TestBudgetDelta(t *testing.T) {
	material := meets(policy.RuleBudgetDelta)
	eur := func(amount string) policy.Terms { return budget(policy.Amount{Asset: "EUR", Amount: amount}) }
	usd := func(amount string) policy.Terms { return budget(policy.Amount{Asset: "USD", Amount: amount}) }
	both := func(bound, declared string) policy.Terms {
		terms := cost(bound)
		terms.Budget = usd(declared).Budget
		return terms
	}
	check(t, []pair{
		{"10 to 11 is a tenth", cost("10"), cost("11"), nil},
		{"10 to 11.01 is more", cost("10"), cost("11.01"), material},
		{"10 to 11 and the least there is", cost("10"), cost("11.000000001"), material},
		{"100 to 105 is 5", cost("100"), cost("105"), nil},
		{"100 to 105.01 is more", cost("100"), cost("105.01"), material},
		{"less", cost("100"), cost("1"), nil},
		{"any rise from 0", cost("0"), cost("0.000000001"), material},
		{"0 stays 0", cost("0"), cost("0.00"), nil},
		{"removed", cost("10"), policy.Terms{}, material},
		{"added", policy.Terms{}, cost("1000"), nil},

		{"asset: 10 to 11", eur("10"), eur("11"), nil},
		{"asset: 10 to 11.01", eur("10"), eur("11.01"), material},
		{"asset: 100 to 105", eur("100"), eur("105.000000000"), nil},
		{"asset: 100 to 105.01", eur("100"), eur("105.01"), material},
		{"asset: from 0", eur("0"), eur("0.01"), material},
		{"asset: removed", eur("10"), policy.Terms{}, material},
		{"asset: added", policy.Terms{}, eur("10"), nil},
		{"asset: another", eur("10"), budget(policy.Amount{Asset: "CHF", Amount: "10"}), material},
		{"asset: more than any integer holds", eur("999999999999999999.999999999"), eur("1000000000000000004.999999999"), nil},
		{"asset: more than any integer holds, and more", eur("999999999999999999.999999999"), eur("1000000000000000005"), material},
		{"asset: the least of two", budget(policy.Amount{Asset: "EUR", Amount: "10"}, policy.Amount{Asset: "EUR", Amount: "20"}), eur("20"), material},
		{"asset: the least of two stays", budget(policy.Amount{Asset: "EUR", Amount: "20"}, policy.Amount{Asset: "EUR", Amount: "10"}), eur("10"), nil},
		{"asset: cannot be read", eur("10"), eur("ten"), material},
		{"asset: still cannot be read", eur("ten"), eur("ten"), nil},

		{"cost_usd overrides the budget", both("10", "1"), both("11", "900"), nil},
		{"cost_usd overrides the budget, rising", both("10", "900"), both("20", "900"), material},
		{"the budget alone", usd("10"), usd("11.01"), material},
		{"a bound above the budget", usd("10"), both("20", "10"), material},
		{"a bound within the budget", usd("10"), cost("10.50"), nil},
		{"a budget does not replace a bound", cost("10"), usd("10"), material},
		{"USD removed from the budget", usd("10"), policy.Terms{}, material},

		{"calls: 10 to 11", calls(10), calls(11), nil},
		{"calls: 10 to 12", calls(10), calls(12), material},
		{"calls: 100 to 110 is more than 5, but a tenth", calls(100), calls(110), nil},
		{"calls: 100 to 111", calls(100), calls(111), material},
		{"calls: from 0", calls(0), calls(1), material},
		{"calls: removed", calls(10), policy.Terms{}, material},
		{"calls: 2⁵³−1 and a tenth", calls(1<<53 - 1), calls((1<<53 - 1) / 10 * 11), nil},
		{"wall time: 10m to 11m", bounds(tipstaff.Bounds{"wall_time": 600_000}), bounds(tipstaff.Bounds{"wall_time": 660_000}), nil},
		{"wall time: and a millisecond", bounds(tipstaff.Bounds{"wall_time": 600_000}), bounds(tipstaff.Bounds{"wall_time": 660_001}), material},
	})
}

func TestEveryBoundIsLimited(t *testing.T) {
	for _, name := range tipstaff.BoundNames() {
		old, new := bounds(tipstaff.Bounds{name: 1000}), bounds(tipstaff.Bounds{name: 2000})
		if !policy.Classify(old, new, noon).Material {
			t.Errorf("%s may double", name)
		}
		if !policy.Classify(old, policy.Terms{}, noon).Material {
			t.Errorf("%s may go", name)
		}
	}
}

// A program that sets no bound has the default: setting it higher is a rise.
func TestABoundAboveTheDefaultRises(t *testing.T) {
	with := func(b tipstaff.Bounds) policy.Terms {
		return policy.Terms{Bounds: b, Defaults: tipstaff.Bounds{tipstaff.BoundToolCalls: 200, tipstaff.BoundCostUSD: 5_000_000_000}}
	}
	material := meets(policy.RuleBudgetDelta)
	check(t, []pair{
		{"a tenth above", with(nil), with(tipstaff.Bounds{"tool_calls": 220}), nil},
		{"further above", with(nil), with(tipstaff.Bounds{"tool_calls": 221}), material},
		{"below", with(nil), with(tipstaff.Bounds{"tool_calls": 20}), nil},
		{"a bound that equals it, removed", with(tipstaff.Bounds{"tool_calls": 200}), with(nil), material},
		{"cost above", with(nil), with(tipstaff.Bounds{"cost_usd": 5_500_000_001}), material},
		{"cost a tenth above", with(nil), with(tipstaff.Bounds{"cost_usd": 5_500_000_000}), nil},
	})
}

func dispatches(list ...policy.Dispatch) policy.Terms { return policy.Terms{Dispatches: list} }

func TestSubAgents(t *testing.T) {
	fresh, scope := meets(policy.RuleNewSubAgent), meets(policy.RuleScopeExpansion)
	d := func(agent, skill, scope string) policy.Dispatch {
		return policy.Dispatch{Agent: agent, Skill: skill, Scope: scope}
	}
	const notes, edit = "skill://notes@1.0.0", "skill://edit@1.0.0"
	check(t, []pair{
		{"a first one", policy.Terms{}, dispatches(d("", notes, "")), fresh},
		{"another skill", dispatches(d("", notes, "")), dispatches(d("", notes, ""), d("", edit, "")), fresh},
		{"another version", dispatches(d("", notes, "")), dispatches(d("", "skill://notes@1.0.1", "")), fresh},
		{"another agent", dispatches(d("", notes, "")), dispatches(d("coder", notes, "")), fresh},
		{"agent and skill crossed", dispatches(d("a", notes, ""), d("b", edit, "")), dispatches(d("a", edit, ""), d("b", edit, "")), fresh},
		{"removed", dispatches(d("", notes, ""), d("", edit, "")), dispatches(d("", notes, "")), nil},
		{"in another order", dispatches(d("", notes, "file:///a"), d("", edit, "file:///b")), dispatches(d("", edit, "file:///b"), d("", notes, "file:///a")), nil},

		{"another scope", dispatches(d("", notes, "file:///a")), dispatches(d("", notes, "file:///b")), scope},
		{"a narrower scope", dispatches(d("", notes, "file:///a")), dispatches(d("", notes, "file:///a/b")), scope},
		{"no scope", dispatches(d("", notes, "file:///a")), dispatches(d("", notes, "")), scope},
		{"a second scope", dispatches(d("", notes, "file:///a")), dispatches(d("", notes, "file:///a"), d("", notes, "file:///b")), scope},
		{"the same scope twice", dispatches(d("", notes, "file:///a")), dispatches(d("", notes, "file:///a"), d("", notes, "file:///a")), scope},
		{"scopes in another order", dispatches(d("", notes, "file:///a"), d("", notes, "file:///b")), dispatches(d("", notes, "file:///b"), d("", notes, "file:///a")), nil},
	})
}

func TestWiderDispatches(t *testing.T) {
	scope := meets(policy.RuleScopeExpansion)
	d := func(change ...func(*policy.Dispatch)) policy.Dispatch {
		d := policy.Dispatch{Skill: "skill://notes@1.0.0", Inputs: json.RawMessage(`{}`), Bounds: tipstaff.Bounds{"tool_calls": 10}}
		for _, c := range change {
			c(&d)
		}
		return d
	}
	auto := func(d *policy.Dispatch) { d.Auto = true }
	passing := func(d *policy.Dispatch) { d.Continue = true }
	given := func(inputs string) func(*policy.Dispatch) {
		return func(d *policy.Dispatch) { d.Inputs = json.RawMessage(inputs) }
	}
	within := func(b tipstaff.Bounds) func(*policy.Dispatch) { return func(d *policy.Dispatch) { d.Bounds = b } }
	check(t, []pair{
		{"equal", dispatches(d()), dispatches(d()), nil},
		{"accepted without asking", dispatches(d()), dispatches(d(auto)), scope},
		{"asked again", dispatches(d(auto)), dispatches(d()), nil},
		{"may fail", dispatches(d()), dispatches(d(passing)), scope},
		{"may no longer fail", dispatches(d(passing)), dispatches(d()), nil},
		{"other inputs", dispatches(d()), dispatches(d(given(`{"a":1}`))), scope},
		{"a bound rises by one", dispatches(d()), dispatches(d(within(tipstaff.Bounds{"tool_calls": 11}))), scope},
		{"a bound falls", dispatches(d()), dispatches(d(within(tipstaff.Bounds{"tool_calls": 9}))), nil},
		{"a bound goes", dispatches(d()), dispatches(d(within(nil))), scope},
		{"a bound comes", dispatches(d()), dispatches(d(within(tipstaff.Bounds{"tool_calls": 10, "tokens": 5}))), nil},
		{"another bound in its place", dispatches(d()), dispatches(d(within(tipstaff.Bounds{"tokens": 5}))), scope},
		{"two of them in another order", dispatches(d(auto), d(given("1"))), dispatches(d(given("1")), d(auto)), nil},
		{"the other one is accepted without asking", dispatches(d(auto), d(given("1"))), dispatches(d(), d(given("1"), auto)), scope},
		{"inputs and bounds exchanged", dispatches(d(given("1")), d(given("2"), within(nil))), dispatches(d(given("2")), d(given("1"), within(nil))), scope},
		{"of the same inputs the narrower one goes first", dispatches(d(auto), d()), dispatches(d(), d(auto)), nil},
		{"one narrows, its twin stays", dispatches(d(auto), d(auto)), dispatches(d(), d(auto)), nil},
	})
}

// uses are terms with tools written server/name@pin:class.
func uses(tools ...string) policy.Terms {
	var terms policy.Terms
	for _, text := range tools {
		name, class, _ := strings.Cut(text, ":")
		name, pin, _ := strings.Cut(name, "@")
		server, tool, _ := strings.Cut(name, "/")
		terms.Tools = append(terms.Tools, policy.Tool{Server: server, Name: tool, Pin: pin, Class: flow.Class(class)})
	}
	return terms
}

func TestNewToolNamespace(t *testing.T) {
	material := meets(policy.RuleNewToolNamespace)
	check(t, []pair{
		{"a new server", uses("a/x@1:read"), uses("a/x@1:read", "b/x@1:read"), material},
		{"a new server with two tools is one reason", uses(), uses("b/x@1:read", "b/y@1:once"), material},
		{"a new tool that reads", uses("a/x@1:read"), uses("a/x@1:read", "a/y@1:read"), nil},
		{"a new idempotent tool", uses("a/x@1:read"), uses("a/x@1:read", "a/y@1:idempotent"), material},
		{"from reading to writing on one server", uses("a/x@1:read"), uses("a/y@1:once"), material},
		{"a new tool of unknown class", uses("a/x@1:read"), uses("a/x@1:read", "a/y@1"), material},
		{"a new tool of a class nobody knows", uses("a/x@1:read"), uses("a/x@1:read", "a/y@1:maybe"), material},
		{"fewer tools", uses("a/x@1:read", "b/y@1:once"), uses("a/x@1:read"), nil},
		{"the class rises to idempotent", uses("a/x@1:read"), uses("a/x@1:idempotent"), material},
		{"the class rises to once", uses("a/x@1:idempotent"), uses("a/x@1:once"), material},
		{"the class is unknown now", uses("a/x@1:idempotent"), uses("a/x@1"), material},
		{"the class falls", uses("a/x@1:once"), uses("a/x@1:read"), nil},
		{"another pin of a tool that reads", uses("a/x@1:read"), uses("a/x@2:read"), nil},
		{"another pin of an idempotent tool", uses("a/x@1:idempotent"), uses("a/x@2:idempotent"), material},
		{"another pin of a once tool", uses("a/x@1:once"), uses("a/x@2:once"), material},
		{"another pin of a tool that no longer only reads", uses("a/x@1:once"), uses("a/x@2:read"), material},
		{"a further pin", uses("a/x@1:once"), uses("a/x@1:once", "a/x@2:once"), material},
		{"a pin less", uses("a/x@1:once", "a/x@2:once"), uses("a/x@1:once"), nil},
		{"another order", uses("a/x@1:once", "b/y@1:read"), uses("b/y@1:read", "a/x@1:once"), nil},
		{"class and pin are two reasons", uses("a/x@1:read"), uses("a/x@2:once"),
			[]string{policy.RuleNewToolNamespace, policy.RuleNewToolNamespace}},
	})
}

func constrained(list ...policy.Constraint) policy.Terms { return policy.Terms{Constraints: list} }

func TestHardConstraintRelaxed(t *testing.T) {
	material := meets(policy.RuleHardConstraintRelaxed)
	max := func(asset, amount string) policy.Constraint {
		return policy.Constraint{Type: "budget", Name: asset, Hard: true, Limit: amount}
	}
	by := func(text string) policy.Constraint {
		return policy.Constraint{Type: "deadline", Hard: true, Limit: text}
	}
	least := func(metric, min string) policy.Constraint {
		return policy.Constraint{Type: "quality", Name: metric, Hard: true, Limit: min}
	}
	places := func(allow, deny []string) policy.Constraint {
		return policy.Constraint{Type: "jurisdiction", Hard: true, Allow: allow, Deny: deny}
	}
	rule := func(text string) policy.Constraint {
		return policy.Constraint{Type: "rule", Name: text, Hard: true}
	}
	custom := func(data string) policy.Constraint {
		return policy.Constraint{Type: "x:tone", Hard: true, Data: json.RawMessage(data)}
	}
	soft := func(c policy.Constraint) policy.Constraint {
		c.Hard = false
		return c
	}
	de, deFr := []string{"DE"}, []string{"DE", "FR"}
	check(t, []pair{
		{"budget raised", constrained(max("USD", "10")), constrained(max("USD", "10.000000001")), material},
		{"budget lowered", constrained(max("USD", "10")), constrained(max("USD", "9")), nil},
		{"budget written otherwise", constrained(max("USD", "10")), constrained(max("USD", "10.00")), nil},
		{"budget removed", constrained(max("USD", "10")), policy.Terms{}, material},
		{"budget of another asset", constrained(max("USD", "10")), constrained(max("EUR", "10")), material},
		{"budget soft", constrained(max("USD", "10")), constrained(soft(max("USD", "10"))), material},
		{"budget cannot be read", constrained(max("USD", "10")), constrained(max("USD", "ten")), material},
		{"soft ones may change", constrained(soft(max("USD", "10"))), constrained(soft(max("USD", "99"))), nil},
		{"soft ones may go", constrained(soft(max("USD", "10"))), policy.Terms{}, nil},
		{"soft becomes hard", constrained(soft(max("USD", "10"))), constrained(max("USD", "99")), nil},
		{"a new one", policy.Terms{}, constrained(max("USD", "10")), nil},
		{"the lower of two goes", constrained(max("USD", "10"), max("USD", "20")), constrained(max("USD", "20")), material},
		{"the lower of two becomes soft", constrained(max("USD", "10"), max("USD", "20")), constrained(soft(max("USD", "10")), max("USD", "20")), material},
		{"the higher of two goes", constrained(max("USD", "10"), max("USD", "20")), constrained(max("USD", "10")), nil},
		{"the higher of two rises", constrained(max("USD", "10"), max("USD", "20")), constrained(max("USD", "30"), max("USD", "10")), nil},
		{"two keys do not hide each other", constrained(max("USD", "10"), max("EUR", "10")), constrained(max("USD", "5"), max("EUR", "20")), material},

		{"deadline later", constrained(by("2026-04-01T00:00:00Z")), constrained(by("2026-04-01T00:00:00.000000001Z")), material},
		{"deadline earlier", constrained(by("2026-04-01T00:00:00Z")), constrained(by("2026-03-31T23:59:59Z")), nil},
		{"deadline in another zone", constrained(by("2026-04-01T00:00:00Z")), constrained(by("2026-04-01T02:00:00+02:00")), nil},
		{"deadline cannot be read", constrained(by("2026-04-01T00:00:00Z")), constrained(by("soon")), material},
		{"one deadline of two cannot be read", constrained(by("2026-04-01T00:00:00Z")), constrained(by("2026-04-01T00:00:00Z"), by("soon")), material},
		{"the earlier deadline goes", constrained(by("2026-04-01T00:00:00Z"), by("2026-05-01")), constrained(by("2026-05-01")), material},
		{"the deadline that cannot be read goes", constrained(by("2026-05-01"), by("soon")), constrained(by("2026-05-01")), material},
		{"the deadline that can be read goes", constrained(by("2026-05-01"), by("soon")), constrained(by("soon")), material},
		{"a day is its last second", constrained(by("2026-05-01")), constrained(by("2026-05-01T23:59:59Z")), nil},
		{"and not the next one", constrained(by("2026-05-01")), constrained(by("2026-05-02T00:00:00Z")), material},

		{"minimum lower", constrained(least("f1", "0.9")), constrained(least("f1", "0.899999999999999999999")), material},
		{"minimum higher", constrained(least("f1", "0.9")), constrained(least("f1", "9e-1")), nil},
		{"minimum of another metric", constrained(least("f1", "0.9")), constrained(least("recall", "0.9")), material},
		{"the higher minimum goes", constrained(least("f1", "0.9"), least("f1", "0.5")), constrained(least("f1", "0.5")), material},
		{"the lower minimum goes", constrained(least("f1", "0.9"), least("f1", "0.5")), constrained(least("f1", "0.9")), nil},
		{"negative minimum", constrained(least("dB", "-3")), constrained(least("dB", "-4")), material},
		{"minimum in words changes", constrained(least("tone", "good")), constrained(least("tone", "better")), material},
		{"minimum in words stays", constrained(least("tone", "good")), constrained(least("tone", "good")), nil},
		{"a minimum that is long to compute", constrained(least("n", "1e999999999")), constrained(least("n", "1e999999998")), material},

		{"allow gained", constrained(places(de, nil)), constrained(places(deFr, nil)), material},
		{"allow lost", constrained(places(deFr, nil)), constrained(places(de, nil)), nil},
		{"allow emptied", constrained(places(de, nil)), constrained(places([]string{}, nil)), material},
		{"allow removed", constrained(places(de, nil)), constrained(places(nil, nil)), material},
		{"an empty allow removed", constrained(places([]string{}, nil)), constrained(places(nil, nil)), material},
		{"an empty allow filled", constrained(places([]string{}, nil)), constrained(places(de, nil)), material},
		{"allow added", constrained(places(nil, de)), constrained(places(deFr, de)), nil},
		{"allow reordered", constrained(places(deFr, nil)), constrained(places([]string{"FR", "DE"}, nil)), nil},
		{"allow intersected", constrained(places(deFr, nil), places(de, nil)), constrained(places(deFr, nil)), material},
		{"allow intersected, one goes", constrained(places(deFr, nil), places(de, nil)), constrained(places(de, nil)), nil},
		{"deny lost", constrained(places(nil, deFr)), constrained(places(nil, de)), material},
		{"deny gained", constrained(places(nil, de)), constrained(places(nil, deFr)), nil},
		{"deny united", constrained(places(nil, de), places(nil, deFr)), constrained(places(nil, deFr)), nil},
		{"allow and deny are one reason", constrained(places(de, de)), constrained(places(deFr, nil)), material},

		{"rule kept", constrained(rule("no weekends")), constrained(rule("no weekends"), rule("no nights")), nil},
		{"rule reworded", constrained(rule("no weekends")), constrained(rule("no Sundays")), material},
		{"rule twice", constrained(rule("no weekends")), constrained(rule("no weekends"), rule("no weekends")), material},
		{"policy gone", constrained(policy.Constraint{Type: "policy", Name: "gdpr", Hard: true}), policy.Terms{}, material},
		{"custom kept", constrained(custom(`{"a":1}`), custom(`2`)), constrained(custom(`2`), custom(`{"a":1}`)), nil},
		{"custom changed", constrained(custom(`{"a":1}`)), constrained(custom(`{"a":2}`)), material},
		{"custom added to its key", constrained(custom(`{"a":1}`)), constrained(custom(`{"a":1}`), custom(`2`)), material},
	})
}

func effect(id, tool, args string, gates ...policy.Gate) policy.Effect {
	return policy.Effect{ID: id, Tool: tool, Class: flow.Once, Args: json.RawMessage(args), Gates: gates}
}

// does are terms with effects, and all gates that stand before them.
func does(list ...policy.Effect) policy.Terms {
	terms := policy.Terms{Calls: list}
	for _, e := range list {
		for _, g := range e.Gates {
			if !slices.Contains(terms.Gates, g) {
				terms.Gates = append(terms.Gates, g)
			}
		}
	}
	return terms
}

func TestOnceCalls(t *testing.T) {
	material := meets(policy.RuleHardConstraintRelaxed)
	pay := effect("pay", "a", `{"n":1}`)
	made := pay
	made.Made = true
	check(t, []pair{
		{"other arguments", does(pay), does(effect("pay", "a", `{"n":2}`)), material},
		{"equal arguments", does(pay), does(pay), nil},
		{"another id", does(pay), does(effect("refund", "a", `{"n":1}`)), nil},
		{"another id, but it was made", does(made), does(effect("refund", "a", `{"n":1}`)), material},
		{"it was made, and is not made again", does(made), does(made), nil},
		{"another node with other arguments", does(pay), does(effect("refund", "a", `{"n":2}`)), material},
		{"another tool", does(pay), does(effect("pay", "b", `{"n":1}`)), material},
		{"a second one", does(pay), does(pay, effect("refund", "b", `{}`)), material},
		{"the same twice", does(pay), does(pay, effect("again", "a", `{"n":1}`)), material},
		{"one of two", does(pay, effect("again", "a", `{"n":1}`)), does(pay), nil},
		{"arguments exchanged", does(pay, effect("b", "a", `{"n":2}`)), does(effect("pay", "a", `{"n":2}`), effect("b", "a", `{"n":1}`)), nil},
		{"gone", does(pay), policy.Terms{}, nil},
	})
}

// What an agent may do in a step is compared like what the program does itself.
func TestCallsOfAgents(t *testing.T) {
	by := func(agent, tool, told string, class flow.Class) policy.Effect {
		return policy.Effect{ID: "think", Agent: agent, Tool: tool, Class: class, Args: json.RawMessage(told)}
	}
	relaxed, reach := meets(policy.RuleHardConstraintRelaxed), meets(policy.RuleNewToolNamespace)
	check(t, []pair{
		{"told something else", does(by("a", "t", `1`, flow.Once)), does(by("a", "t", `2`, flow.Once)), relaxed},
		{"told something else, but cannot do much", does(by("a", "t", `1`, flow.Idempotent)), does(by("a", "t", `2`, flow.Idempotent)), nil},
		{"may call one tool more", does(by("a", "t", `1`, flow.Idempotent)), does(by("a", "t", `1`, flow.Idempotent), by("a", "u", `1`, flow.Idempotent)), reach},
		{"another agent", does(by("a", "t", `1`, flow.Idempotent)), does(by("b", "t", `1`, flow.Idempotent)), reach},
		{"a call of the program is made by an agent", does(effect("x", "t", `1`)), does(by("a", "t", `1`, flow.Once)), append(reach, relaxed...)},
		{"a call of an agent is made by the program", does(by("a", "t", `1`, flow.Once)), does(effect("x", "t", `1`)), relaxed},
	})
}

func TestGates(t *testing.T) {
	material := meets(policy.RuleHardConstraintRelaxed)
	ask := policy.Gate{Question: "Pay?", Show: "{}", Actions: "[]"}
	look := policy.Gate{Question: "Looks good?", Show: "{}", Actions: "[]"}
	other := func(change func(*policy.Gate)) policy.Gate {
		g := ask
		change(&g)
		return g
	}
	pay := func(gates ...policy.Gate) policy.Effect { return effect("pay", "a", `1`, gates...) }
	put := func(args string, gates ...policy.Gate) policy.Effect {
		e := effect("put", "w", args, gates...)
		e.Class = flow.Idempotent
		return e
	}
	with := func(terms policy.Terms, gates ...policy.Gate) policy.Terms {
		terms.Gates = append(slices.Clone(terms.Gates), gates...)
		return terms
	}
	child := func(gates ...policy.Gate) policy.Terms {
		terms := does(pay(gates...))
		terms.Dispatches = []policy.Dispatch{{Skill: "s", Gates: gates}}
		terms.Calls = nil
		return terms
	}
	check(t, []pair{
		{"stays", does(pay(ask)), does(pay(ask)), nil},
		{"goes", does(pay(ask)), does(pay()), material},
		{"goes with what it guarded", does(pay(ask)), policy.Terms{}, material},
		{"stays without what it guarded", does(pay(ask)), with(policy.Terms{}, ask), nil},
		{"guarded nothing", with(does(pay()), ask), does(pay()), nil},
		{"stands behind the call", does(pay(ask)), with(does(pay()), ask), material},
		{"asks something else", does(pay(ask)), does(pay(other(func(g *policy.Gate) { g.Question = "Pay, please?" }))), material},
		{"shows something else", does(pay(ask)), does(pay(other(func(g *policy.Gate) { g.Show = `{"a":1}` }))), material},
		{"offers something else", does(pay(ask)), does(pay(other(func(g *policy.Gate) { g.Actions = `["yes"]` }))), material},
		{"a further one", does(pay(ask)), does(pay(ask, look)), nil},
		{"in another order", does(pay(ask, look)), does(pay(look, ask)), nil},
		{"asked once, not twice", with(does(pay(ask, ask)), ask), does(pay(ask)), material},
		{"another call is guarded in its place", does(pay(ask), effect("b", "a", `2`)), does(effect("b", "a", `2`, ask), pay()), material},
		{"guards are put together", does(pay(ask), pay(look)), does(pay(ask, look), pay()), material},
		{"one of two equal calls goes, the guarded one", does(pay(ask), pay()), with(does(pay()), ask), nil},

		{"an idempotent call with other arguments", does(put("1", ask)), does(put("2", ask)), nil},
		{"and unguarded", does(put("1", ask)), with(does(put("2")), ask), material},
		{"unguarded, beside one that always was", does(put("1"), put("2", ask)), with(does(put("3"), put("4")), ask), material},
		{"unguarded, one more", does(put("1"), put("2", ask)), does(put("1"), put("3"), put("2", ask)), material},
		{"guarded, one more", does(put("1"), put("2", ask)), does(put("1"), put("3", ask), put("2", ask)), nil},
		{"never guarded, one more", does(put("1")), does(put("1"), put("2")), nil},
		{"an idempotent call that nobody knew of", does(put("1", ask)), does(policy.Effect{Tool: "v", Class: flow.Idempotent}, put("1", ask)), material},
		{"an idempotent call that nobody knew of, guarded", does(put("1", ask)), does(policy.Effect{Tool: "v", Class: flow.Idempotent, Gates: []policy.Gate{ask}}, put("1", ask)), nil},

		{"of a child run stays", child(ask), child(ask), nil},
		{"of a child run goes", child(ask), with(child(), ask), material},
	})
}

// Runs that were made before gates and ids were looked at so are compared as they were.
func TestEarlierTerms(t *testing.T) {
	material := meets(policy.RuleHardConstraintRelaxed)
	ask := policy.Gate{Question: "Pay?"}
	earlier := func(list ...policy.Effect) policy.Terms { return does(list...).Earlier() }
	wide := dispatches(policy.Dispatch{Skill: "s", Auto: true, Inputs: json.RawMessage("1")}).Earlier()
	idempotent := policy.Effect{ID: "put", Tool: "w", Class: flow.Idempotent, Args: json.RawMessage("1")}
	agents := policy.Effect{ID: "step", Agent: "a", Tool: "w", Class: flow.Once, Args: json.RawMessage("1")}
	check(t, []pair{
		{"other arguments", earlier(effect("pay", "a", `1`)), earlier(effect("pay", "a", `2`)), material},
		{"another id", earlier(effect("pay", "a", `1`)), earlier(effect("b", "a", `2`)), nil},
		{"arguments exchanged", earlier(effect("a", "a", `1`), effect("b", "a", `2`)), earlier(effect("a", "a", `2`), effect("b", "a", `1`)), append(material, material...)},
		{"a gate less", earlier(effect("pay", "a", `1`, ask)), earlier(effect("pay", "a", `1`)), nil},
		{"an idempotent call", earlier(idempotent), earlier(policy.Effect{ID: "put", Tool: "w", Class: flow.Idempotent, Args: json.RawMessage("2")}), nil},
		{"an agent's call", earlier(), earlier(agents), nil},
		{"a wider child run", dispatches(policy.Dispatch{Skill: "s"}).Earlier(), wide, nil},
		{"another scope", dispatches(policy.Dispatch{Skill: "s"}).Earlier(), dispatches(policy.Dispatch{Skill: "s", Scope: "f"}).Earlier(), meets(policy.RuleScopeExpansion)},
	})
}

func TestPurpose(t *testing.T) {
	material := meets(policy.RuleSuccessCriteriaChanged)
	criteria := func(list ...string) policy.Terms {
		var terms policy.Terms
		for _, c := range list {
			terms.Criteria = append(terms.Criteria, json.RawMessage(c))
		}
		return terms
	}
	objects := func(list ...policy.Object) policy.Terms { return policy.Terms{Objects: list} }
	notes := policy.Object{Name: "notes", Value: "release notes", URI: "file:///n", Type: "text"}
	with := func(change func(*policy.Object)) policy.Terms {
		o := notes
		change(&o)
		return objects(o)
	}
	check(t, []pair{
		{"criterion added", criteria(`{"type":"delivered"}`), criteria(`{"type":"delivered"}`, `{"type":"signed_off"}`), material},
		{"criterion removed", criteria(`{"type":"delivered"}`), policy.Terms{}, material},
		{"criterion twice", criteria(`{"type":"delivered"}`), criteria(`{"type":"delivered"}`, `{"type":"delivered"}`), material},
		{"criteria reordered", criteria(`1`, `2`), criteria(`2`, `1`), nil},
		{"criterion replaced is two reasons", criteria(`1`), criteria(`2`), append(material, material...)},
		{"verb", policy.Terms{Verb: "build"}, policy.Terms{Verb: "modify"}, material},
		{"verb added", policy.Terms{}, policy.Terms{Verb: "modify"}, material},
		{"value", objects(notes), with(func(o *policy.Object) { o.Value = "poem" }), material},
		{"uri", objects(notes), with(func(o *policy.Object) { o.URI = "" }), material},
		{"type", objects(notes), with(func(o *policy.Object) { o.Type = "html" }), material},
		{"name is one gone and one new", objects(notes), with(func(o *policy.Object) { o.Name = "news" }), append(material, material...)},
		{"object added", objects(notes), objects(notes, policy.Object{Name: "b"}), material},
		{"object removed", objects(notes), policy.Terms{}, material},
		{"objects reordered", objects(notes, policy.Object{Name: "b"}), objects(policy.Object{Name: "b"}, notes), nil},
	})
}

func TestDeadlineShift(t *testing.T) {
	material := meets(policy.RuleDeadlineShift)
	at := func(d time.Duration) policy.Terms {
		return policy.Terms{Deadline: noon.Add(d).Format(time.RFC3339Nano)}
	}
	const left = 1000 * time.Minute
	text := func(s string) policy.Terms { return policy.Terms{Deadline: s} }
	check(t, []pair{
		{"added", policy.Terms{}, at(left), material},
		{"removed", at(left), policy.Terms{}, material},
		{"exactly a quarter later", at(left), at(1250 * time.Minute), nil},
		{"25.1 % later", at(left), at(1251 * time.Minute), material},
		{"a quarter and a nanosecond later", at(left), at(1250*time.Minute + 1), material},
		{"exactly a quarter earlier", at(left), at(750 * time.Minute), nil},
		{"25.1 % earlier", at(left), at(749 * time.Minute), material},
		{"unchanged and past", at(-time.Hour), at(-time.Hour), nil},
		{"past, written otherwise", text("2026-02-01T12:00:00Z"), text("2026-02-01T13:00:00+01:00"), nil},
		{"past, moved by a second", at(-time.Hour), at(-time.Hour + time.Second), material},
		{"past, moved into the future", at(-time.Hour), at(time.Hour), material},
		{"due now, moved by a nanosecond", at(0), at(1), material},
		{"moved into the past", at(left), at(-time.Hour), material},
		{"cannot be read", at(left), text("soon"), material},
		{"could not be read", text("soon"), at(left), material},
		{"cannot be read, unchanged", text("soon"), text("soon"), nil},
		{"a day is its last second", text("2026-03-31"), text("2026-03-31T23:59:59Z"), nil},
		{"millennia do not run over", text("9999-12-31T23:59:59Z"), text("9000-12-31T23:59:59Z"), nil},
	})
}

func TestAnchorFlip(t *testing.T) {
	check(t, []pair{
		{"on", policy.Terms{}, policy.Terms{Anchor: true}, meets(policy.RuleAnchorFlip)},
		{"off", policy.Terms{Anchor: true}, policy.Terms{}, meets(policy.RuleAnchorFlip)},
	})
}

func TestReasonsStandInTheOrderOfTheRules(t *testing.T) {
	old := policy.Terms{
		Verb: "build", Deadline: "2026-03-02",
		Bounds:      tipstaff.Bounds{tipstaff.BoundToolCalls: 10, tipstaff.BoundCostUSD: 1_000_000_000},
		Tools:       uses("builtin/read_file@1.0.0:read").Tools,
		Dispatches:  []policy.Dispatch{{Skill: "skill://a@1.0.0", Scope: "file:///a"}},
		Constraints: []policy.Constraint{{Type: "rule", Name: "quietly", Hard: true}, {Type: "policy", Name: "gdpr", Hard: true}},
	}
	new := policy.Terms{
		Verb: "modify", Anchor: true,
		Bounds:      tipstaff.Bounds{tipstaff.BoundToolCalls: 20, tipstaff.BoundCostUSD: 2_500_000_000},
		Tools:       uses("builtin/exec@1.0.0:once").Tools,
		Dispatches:  []policy.Dispatch{{Skill: "skill://a@1.0.0"}, {Agent: "coder", Skill: "skill://b@1.0.0"}},
		Constraints: []policy.Constraint{{Type: "rule", Name: "quietly"}},
	}
	want := tipstaff.Classification{Material: true, Reasons: []tipstaff.Reason{
		{Rule: "budget_delta", Detail: "cost_usd rises from 1.00 to 2.50"},
		{Rule: "budget_delta", Detail: "tool_calls rises from 10 to 20"},
		{Rule: "new_sub_agent", Detail: "skill://b@1.0.0 by coder is a new sub-agent"},
		{Rule: "scope_expansion", Detail: "the scope of skill://a@1.0.0 changes from file:///a to none"},
		{Rule: "new_tool_namespace", Detail: "tool builtin/exec (once) is new"},
		{Rule: "hard_constraint_relaxed", Detail: "the hard constraint policy:gdpr is missing"},
		{Rule: "hard_constraint_relaxed", Detail: "the hard constraint rule:quietly is soft now"},
		{Rule: "success_criteria_changed", Detail: "the verb changes from build to modify"},
		{Rule: "deadline_shift", Detail: "the deadline 2026-03-02 is removed"},
		{Rule: "anchor_flip", Detail: "the end of the run is anchored now"},
	}}
	if diff := cmp.Diff(want, policy.Classify(old, new, noon)); diff != "" {
		t.Error(diff)
	}
}

func TestClassificationAsJSON(t *testing.T) {
	for want, found := range map[string]tipstaff.Classification{
		`{"material":false,"reasons":[]}`: policy.Classify(policy.Terms{}, policy.Terms{}, noon),
		`{"material":true,"reasons":[{"rule":"anchor_flip","detail":"the end of the run is anchored now"}]}`: policy.Classify(
			policy.Terms{}, policy.Terms{Anchor: true}, noon),
	} {
		if got, err := json.Marshal(found); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}

// A detail is for a line, and goes into signed records: a document of a megabyte
// must not.
func TestDetailsAreShort(t *testing.T) {
	long := strings.Repeat("ü", 1<<16)
	old := policy.Terms{
		Verb: "build", Deadline: "2026-04-01", Bounds: tipstaff.Bounds{tipstaff.BoundCostUSD: 1},
		Objects: []policy.Object{{Name: "a", Value: "b"}}, Budget: []policy.Amount{{Asset: long, Amount: "1"}},
		Dispatches:  []policy.Dispatch{{Skill: "s", Scope: "a"}},
		Constraints: []policy.Constraint{{Type: "rule", Name: long, Hard: true}, {Type: "quality", Name: long, Limit: long, Hard: true}},
		Tools:       []policy.Tool{{Server: "a", Name: "b", Pin: "1"}},
		Calls:       []policy.Effect{{ID: "a", Tool: long, Args: json.RawMessage("{}"), Gates: []policy.Gate{{Question: long}, {Question: strings.Repeat("\x01", 1<<16)}}}},
		Gates:       []policy.Gate{{Question: long}, {Question: strings.Repeat("\x01", 1<<16)}},
	}
	new := policy.Terms{
		Verb: long, Deadline: long, Budget: []policy.Amount{{Asset: long, Amount: long}},
		Objects:     []policy.Object{{Name: "a", Value: long}, {Name: long}},
		Criteria:    []json.RawMessage{json.RawMessage(`"` + long + `"`)},
		Dispatches:  []policy.Dispatch{{Skill: "s", Scope: long}, {Agent: long, Skill: long}},
		Constraints: []policy.Constraint{{Type: "quality", Name: long, Limit: "1", Hard: true}},
		Tools:       []policy.Tool{{Server: "a", Name: "b", Pin: long}},
		Calls:       []policy.Effect{{ID: "a", Tool: long, Args: json.RawMessage("[]")}},
	}
	found := policy.Classify(old, new, noon)
	if len(found.Reasons) < 10 {
		t.Errorf("only %d reasons", len(found.Reasons))
	}
	for _, r := range found.Reasons {
		if n := len([]rune(r.Detail)); n > 300 {
			t.Errorf("a detail of %s has %d characters", r.Rule, n)
		}
	}
}

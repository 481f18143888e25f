package policy_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// order is that of the rules, as it is documented.
var order = []string{
	"budget_delta", "new_sub_agent", "scope_expansion", "new_tool_namespace",
	"hard_constraint_relaxed", "success_criteria_changed", "deadline_shift", "anchor_flip",
}

// few makes values meet often, so that a pair of terms differs a little.
func few(words ...string) *rapid.Generator[string] { return rapid.SampledFrom(words) }

func someOf[T any](t *rapid.T, name string, one func(*rapid.T) T) []T {
	return rapid.SliceOfN(rapid.Custom(one), 0, 3).Draw(t, name)
}

func anyTerms(t *rapid.T) policy.Terms {
	amount := few("0", "1", "1.1", "1.100000001", "6", "6.1", "many")
	moment := few("2026-03-01T12:00:00Z", "2026-03-05", "2026-03-06T00:00:00Z", "2026-02-01", "soon")
	place := rapid.SampledFrom([][]string{nil, {}, {"DE"}, {"DE", "FR"}})
	return policy.Terms{
		Verb:     few("", "build", "modify").Draw(t, "verb"),
		Deadline: rapid.OneOf(rapid.Just(""), moment).Draw(t, "deadline"),
		Anchor:   rapid.Bool().Draw(t, "anchor"),
		Bounds:   rapid.MapOfN(rapid.SampledFrom(tipstaff.BoundNames()), rapid.Int64Range(0, 20), 0, 3).Draw(t, "bounds"),
		Defaults: tipstaff.DefaultBounds(),
		Objects: someOf(t, "objects", func(t *rapid.T) policy.Object {
			return policy.Object{Name: few("a", "b").Draw(t, "name"), Value: few("", "v").Draw(t, "value"), URI: few("", "u").Draw(t, "uri")}
		}),
		Criteria: someOf(t, "criteria", func(t *rapid.T) json.RawMessage {
			return json.RawMessage(few(`{"type":"delivered"}`, `{"type":"external"}`).Draw(t, "criterion"))
		}),
		Budget: someOf(t, "budget", func(t *rapid.T) policy.Amount {
			return policy.Amount{Asset: few("USD", "EUR").Draw(t, "asset"), Amount: amount.Draw(t, "amount")}
		}),
		Constraints: someOf(t, "constraints", func(t *rapid.T) policy.Constraint {
			c := policy.Constraint{Hard: rapid.Bool().Draw(t, "hard"), Type: few("budget", "deadline", "quality", "jurisdiction", "rule", "x:a").Draw(t, "type")}
			switch c.Type {
			case "budget", "quality":
				c.Name, c.Limit = few("USD", "f1").Draw(t, "of"), amount.Draw(t, "limit")
			case "deadline":
				c.Limit = moment.Draw(t, "by")
			case "jurisdiction":
				c.Allow, c.Deny = place.Draw(t, "allow"), place.Draw(t, "deny")
			case "rule":
				c.Name = few("a", "b").Draw(t, "rule")
			default:
				c.Data = json.RawMessage(few("1", "2").Draw(t, "data"))
			}
			return c
		}),
		Tools: someOf(t, "tools", func(t *rapid.T) policy.Tool {
			return policy.Tool{Server: few("s", "r").Draw(t, "server"), Name: few("x", "y").Draw(t, "tool"), Pin: few("1", "2").Draw(t, "pin"),
				Class: rapid.SampledFrom([]flow.Class{"", flow.Read, flow.Idempotent, flow.Once}).Draw(t, "class")}
		}),
		Calls: someOf(t, "calls", func(t *rapid.T) policy.Effect {
			return policy.Effect{ID: few("a", "b").Draw(t, "id"), Agent: few("", "", "me").Draw(t, "agent"), Tool: few("x", "y").Draw(t, "tool"),
				Class: rapid.SampledFrom([]flow.Class{flow.Idempotent, flow.Once}).Draw(t, "class"), Args: json.RawMessage(few("{}", `{"n":1}`).Draw(t, "args")), Gates: anyGates(t)}
		}),
		Dispatches: someOf(t, "dispatches", func(t *rapid.T) policy.Dispatch {
			return policy.Dispatch{Agent: few("", "a").Draw(t, "agent"), Skill: few("s", "r").Draw(t, "skill"), Scope: few("", "f").Draw(t, "scope"),
				Auto: rapid.Bool().Draw(t, "auto"), Continue: rapid.Bool().Draw(t, "continue"), Inputs: json.RawMessage(few("{}", `{"n":1}`).Draw(t, "inputs")),
				Bounds: rapid.MapOfN(rapid.SampledFrom([]string{"tool_calls", "tokens"}), rapid.Int64Range(0, 2), 0, 2).Draw(t, "bounds"), Gates: anyGates(t)}
		}),
		Gates: anyGates(t),
	}
}

func anyGates(t *rapid.T) []policy.Gate {
	return someOf(t, "gates", func(t *rapid.T) policy.Gate {
		return policy.Gate{Question: few("Go?", "Pay?").Draw(t, "question"), Show: few("", "1").Draw(t, "show")}
	})
}

// reordered are the same terms, every list in another order.
func reordered(t *rapid.T, terms policy.Terms) policy.Terms {
	terms.Objects = shuffled(t, terms.Objects)
	terms.Criteria = shuffled(t, terms.Criteria)
	terms.Budget = shuffled(t, terms.Budget)
	terms.Constraints = shuffled(t, terms.Constraints)
	for i, c := range terms.Constraints {
		terms.Constraints[i].Allow, terms.Constraints[i].Deny = shuffled(t, c.Allow), shuffled(t, c.Deny)
	}
	terms.Tools = shuffled(t, terms.Tools)
	terms.Calls = shuffled(t, terms.Calls)
	for i, c := range terms.Calls {
		terms.Calls[i].Gates = shuffled(t, c.Gates)
	}
	terms.Dispatches = shuffled(t, terms.Dispatches)
	for i, d := range terms.Dispatches {
		terms.Dispatches[i].Gates = shuffled(t, d.Gates)
	}
	terms.Gates = shuffled(t, terms.Gates)
	return terms
}

func shuffled[T any](t *rapid.T, list []T) []T {
	if len(list) == 0 {
		return list
	}
	return rapid.Permutation(list).Draw(t, "shuffled")
}

// TestClassifyRandomTerms looks at ten pairs in each of rapid's hundred checks.
func TestClassifyRandomTerms(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pairs, material := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			old, new := anyTerms(t), anyTerms(t)
			found := policy.Classify(old, new, now)
			pairs++
			if found.Material {
				material++
			}
			if found.Material != (len(found.Reasons) > 0) {
				t.Fatalf("material is %v with %d reasons", found.Material, len(found.Reasons))
			}
			inOrder(t, found.Reasons)
			if diff := cmp.Diff(found, policy.Classify(old, new, now)); diff != "" {
				t.Fatalf("a second look finds something else: %s", diff)
			}
			sameRules(t, found, policy.Classify(reordered(t, old), reordered(t, new), now))
			for _, terms := range []policy.Terms{old, new} {
				if same := policy.Classify(terms, reordered(t, terms), now); same.Material {
					t.Fatalf("equal terms are material: %v", same.Reasons)
				}
			}
		}
	})
	if !t.Failed() && (!testing.Short() && pairs < 1000 || material == 0) {
		t.Errorf("%d pairs, %d of them material: the generator is broken", pairs, material)
	}
}

func inOrder(t *rapid.T, reasons []tipstaff.Reason) {
	for i := 1; i < len(reasons); i++ {
		a, b := reasons[i-1], reasons[i]
		before, after := slices.Index(order, a.Rule), slices.Index(order, b.Rule)
		if before < 0 || after < 0 || before > after || before == after && a.Detail > b.Detail {
			t.Fatalf("%v stands before %v", a, b)
		}
	}
}

// sameRules: which details pair up may depend on the order of a list, the rules
// that are met may not.
func sameRules(t *rapid.T, a, b tipstaff.Classification) {
	names := func(c tipstaff.Classification) (rules []string) {
		for _, r := range c.Reasons {
			rules = append(rules, r.Rule)
		}
		return slices.Compact(rules)
	}
	if diff := cmp.Diff(names(a), names(b)); diff != "" {
		t.Fatalf("the order of lists matters: %s\n%v\n%v", diff, a, b)
	}
}

// Whoever only gives up tools, child runs or calls needs no new acceptance for it.
func TestNarrowingIsNeverMaterial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := anyTerms(t)
		new := old
		new.Tools = old.Tools[:rapid.IntRange(0, len(old.Tools)).Draw(t, "tools")]
		new.Calls = old.Calls[:rapid.IntRange(0, len(old.Calls)).Draw(t, "calls")]
		new.Bounds = tipstaff.Bounds{}
		for name, n := range old.Bounds {
			new.Bounds[name] = n / 2
		}
		if found := policy.Classify(old, new, noon); found.Material {
			t.Fatalf("%v", found.Reasons)
		}
	})
}

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/policy"
)

// model is a plan as the oracle below sees it: what would happen, if certain gates
// were denied. It knows nothing of documents, terms and rules.
type model struct {
	kind     string // seq, par, read, put, pay, gate, step, child
	id, arg  string
	children []*model

	// Of a child run.
	scope, bound  string
	auto, lenient bool
}

func (s *model) clone() *model {
	c := *s
	c.children = slices.Clone(s.children)
	for i, child := range s.children {
		c.children[i] = child.clone()
	}
	return &c
}

// all are the nodes under s, s included.
func (s *model) all() []*model {
	list := []*model{s}
	for _, c := range s.children {
		list = append(list, c.all()...)
	}
	return list
}

// happens walks the plan with a person who denies some questions: it adds what is done
// and reports whether the walk goes on. Branches of a group all go as far as they can.
func (s *model) happens(denied map[string]bool, done map[string]int) bool {
	switch s.kind {
	case "seq":
		for _, c := range s.children {
			if !c.happens(denied, done) {
				return false
			}
		}
		return true
	case "par":
		on := true
		for _, c := range s.children {
			on = c.happens(denied, done) && on
		}
		return on
	case "gate":
		return !denied[s.arg]
	case "read":
		return true
	}
	done[s.kind+" "+s.arg]++
	return true
}

// yaml writes the plan down.
func (s *model) yaml(b *strings.Builder, indent string) {
	switch s.kind {
	case "seq", "par":
		fmt.Fprintf(b, "%s- kind: %s\n%s  children:\n", indent, map[string]string{"seq": "sequential", "par": "parallel"}[s.kind], indent)
		for _, c := range s.children {
			c.yaml(b, indent+"  ")
		}
	case "gate":
		fmt.Fprintf(b, "%s- {id: %s, kind: gate, question: %q}\n", indent, s.id, s.arg)
	case "step":
		fmt.Fprintf(b, "%s- {id: %s, kind: step, prompt: %q, tools: [mcp://t/once_pay@1.0.0]}\n", indent, s.id, s.arg)
	case "child":
		fmt.Fprintf(b, "%s- {id: %s, kind: sub_dispatch, skill: skill://notes@1.0.0, inputs: {n: %s}", indent, s.id, s.arg)
		if s.scope != "" {
			fmt.Fprintf(b, ", scope: %q", s.scope)
		}
		if s.bound != "" {
			fmt.Fprintf(b, ", bounds: {tool_calls: %s}", s.bound)
		}
		if s.auto {
			b.WriteString(", accept: auto")
		}
		if s.lenient {
			b.WriteString(", on_error: continue")
		}
		b.WriteString("}\n")
	default:
		tool := map[string]string{"read": "read", "put": "put_file", "pay": "once_pay"}[s.kind]
		fmt.Fprintf(b, "%s- {id: %s, kind: tool_call, tool: mcp://t/%s@1.0.0, args: {n: %s}}\n", indent, s.id, tool, s.arg)
	}
}

func (s *model) document(t *testing.T) *Document {
	var b strings.Builder
	b.WriteString("kind: plan\nversion: 1\ntools: [mcp://t/read@1.0.0, mcp://t/put_file@1.0.0, mcp://t/once_pay@1.0.0]\nroot:\n  kind: sequential\n  children:\n")
	s.yaml(&b, "    ")
	return mustCheck(t, b.String())
}

var ids int

func anyModel(t *rapid.T, depth int) *model {
	kinds := []string{"read", "put", "put", "pay", "pay", "gate", "gate", "gate", "step", "child"}
	if depth > 0 {
		kinds = append(kinds, "seq", "seq", "seq", "par", "par")
	}
	ids++
	s := &model{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), id: fmt.Sprint("n", ids), arg: fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "arg"))}
	if depth == 3 {
		s.kind = "seq"
	}
	if s.kind == "seq" || s.kind == "par" {
		for range rapid.IntRange(1, 4).Draw(t, "children") {
			s.children = append(s.children, anyModel(t, depth-1))
		}
	}
	return s
}

// revise changes a plan somewhere, as somebody with or without bad intentions would.
func (s *model) revise(t *rapid.T) string {
	nodes := s.all()
	n := rapid.SampledFrom(nodes).Draw(t, "node")
	into := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(nodes), func(n *model) bool { return n.children == nil })).Draw(t, "group")
	how := rapid.SampledFrom([]string{"nothing", "rename", "argument", "drop", "add", "swap", "move", "turn", "scope", "bound", "auto", "continue", "order"}).Draw(t, "how")
	switch at := rapid.IntRange(0, len(into.children)).Draw(t, "at"); how {
	case "rename":
		ids++
		n.id = fmt.Sprint("n", ids)
	case "argument":
		n.arg = fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "argument"))
	case "drop":
		if len(into.children) > 1 {
			i := min(at, len(into.children)-1)
			into.children = slices.Delete(into.children, i, i+1)
		}
	case "add":
		into.children = slices.Insert(into.children, at, anyModel(t, 1))
	case "swap":
		m := rapid.SampledFrom(nodes).Draw(t, "other")
		if n.children == nil && m.children == nil {
			*n, *m = *m, *n
		}
	case "move":
		if len(into.children) > 1 {
			c := into.children[len(into.children)-1]
			into.children = into.children[:len(into.children)-1]
			if to := rapid.SampledFrom(s.all()).Draw(t, "to"); to.children != nil && !slices.Contains(c.all(), to) {
				to.children = slices.Insert(to.children, min(at, len(to.children)), c)
			}
		}
	case "turn":
		into.kind = rapid.SampledFrom([]string{"seq", "par"}).Draw(t, "turned")
	case "scope":
		n.scope = rapid.SampledFrom([]string{"", "file:///a"}).Draw(t, "scope")
	case "bound":
		n.bound = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "bound")
	case "auto":
		n.auto = !n.auto
	case "continue":
		n.lenient = !n.lenient
	case "order":
		if into.kind == "par" {
			slices.Reverse(into.children)
		}
	}
	return how
}

// evaded says what a revision does that nobody has agreed to; "" if nothing.
func evaded(old, new *model) string {
	var questions []string
	for _, n := range slices.Concat(old.all(), new.all()) {
		if n.kind == "gate" && !slices.Contains(questions, n.arg) {
			questions = append(questions, n.arg)
		}
	}
	// Whatever a person denies, nothing must happen that did not happen then before.
	for set := range 1 << len(questions) {
		denied := map[string]bool{}
		for i, q := range questions {
			denied[q] = set&(1<<i) != 0
		}
		before, after, free := map[string]int{}, map[string]int{}, map[string]int{}
		old.happens(denied, before)
		new.happens(denied, after)
		old.happens(nil, free)
		puts, wasPuts, freePuts := 0, 0, 0
		for _, what := range slices.Sorted(maps.Keys(after)) {
			idempotent := strings.HasPrefix(what, "put ")
			switch n := after[what]; {
			case !idempotent && n > before[what]:
				return fmt.Sprintf("%q happens %d times instead of %d, denied %v", what, n, before[what], denied)
			case idempotent && free[what] > before[what] && n > before[what]:
				return fmt.Sprintf("%q happens although it was guarded, denied %v", what, denied)
			case idempotent:
				puts += n
			}
		}
		for what, n := range before {
			if strings.HasPrefix(what, "put ") {
				wasPuts += n
			}
		}
		for what, n := range free {
			if strings.HasPrefix(what, "put ") {
				freePuts += n
			}
		}
		if freePuts > wasPuts && puts > wasPuts {
			return fmt.Sprintf("a write was guarded and another happens now, denied %v", denied)
		}
	}
	if !counterparts(childRuns(old), childRuns(new)) {
		return "a child run is wider"
	}
	return ""
}

func childRuns(s *model) []*model {
	return slices.DeleteFunc(s.all(), func(n *model) bool { return n.kind != "child" })
}

// counterparts tries all ways to give each new child run an old one of its own that
// was allowed no less.
func counterparts(old, new []*model) bool {
	if len(new) == 0 {
		return true
	}
	n := new[0]
	for i, o := range old {
		if o.arg == n.arg && o.scope == n.scope && (o.auto || !n.auto) && (o.lenient || !n.lenient) &&
			(o.bound == "" || n.bound != "" && n.bound <= o.bound) &&
			counterparts(slices.Concat(old[:i], old[i+1:]), new[1:]) {
			return true
		}
	}
	return false
}

// No new effect, weaker gate or wider child run is ever "not material".
func TestMaterialityIsNotEvaded(t *testing.T) {
	seen, material := map[string]int{}, map[string]int{}
	revisions := 0
	rapid.Check(t, func(rt *rapid.T) {
		old := anyModel(rt, 3)
		terms := old.document(t).Terms(workspace{})
		for range 8 {
			new := old.clone()
			var how []string
			for range rapid.IntRange(1, 3).Draw(rt, "revisions") {
				how = append(how, new.revise(rt))
			}
			found := policy.Classify(terms, new.document(t).Terms(workspace{}), time.Time{})
			revisions++
			if why := evaded(old, new); why != "" {
				seen["evaded"]++
				if !found.Material {
					var a, b strings.Builder
					old.yaml(&a, "")
					new.yaml(&b, "")
					rt.Fatalf("%v is not material: %s\nold:\n%snew:\n%s", how, why, a.String(), b.String())
				}
			}
			if len(how) == 1 {
				seen[how[0]]++
				if found.Material {
					material[how[0]]++
				}
			}
		}
	})
	if t.Failed() {
		return
	}
	t.Logf("%d revisions: %v, of which material: %v", revisions, seen, material)
	for _, how := range []string{"nothing", "rename", "order"} {
		if material[how] > 0 {
			t.Errorf("%s was material %d times", how, material[how])
		}
	}
	for _, how := range []string{"evaded", "rename", "add", "drop"} {
		if !testing.Short() && (seen[how] == 0 || how != "evaded" && material[how] == seen[how]) {
			t.Errorf("%s: %d, %d of them material: the generator is broken", how, seen[how], material[how])
		}
	}
}

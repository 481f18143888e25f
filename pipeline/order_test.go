package pipeline

import (
	"strings"
	"testing"
)

func namesIn(agents []*Agent) string {
	var names []string
	for _, a := range agents {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

// entries of the first frontier.
func entryNames(p *Pipeline) string {
	var entries []*Agent
	for _, a := range p.Agents {
		if a.Entry {
			entries = append(entries, a)
		}
	}
	return namesIn(entries)
}

func TestEqualStageOrderKeepsTheOrderOfTheDocument(t *testing.T) {
	p := mustCheck(t, `name: p
agents:
  - {name: d, remote: {}, stage_order: 2}
  - {name: b, remote: {}, stage_order: 1}
  - {name: c, remote: {}, stage_order: 1}
  - {name: first, remote: {}, stage_order: -1}
  - {name: a, remote: {}, stage_order: 1}
`)
	if got := namesIn(p.Agents); got != "first b c a d" {
		t.Error(got)
	}
	for i, a := range p.Agents {
		if a.Index != i || p.Agent(a.Name) != a {
			t.Errorf("%s: %d", a.Name, a.Index)
		}
	}
	if p.Agent("nobody") != nil {
		t.Error("there is somebody called nobody")
	}
}

func TestRoutesMayLeadBack(t *testing.T) {
	p := mustCheck(t, `name: p
agents:
  - {name: a, remote: {}, default_next: a}
  - {name: b, remote: {}, default_next: a, error_next: b, denied_next: c}
  - {name: c, remote: {}, routing_rules: [{when: 'true', target: end}, {when: 'true', target: clarification}], default_next: b}
`)
	for edge, want := range map[Edge]bool{
		{"a", "a"}: true, {"b", "a"}: true, {"b", "b"}: true, {"c", "b"}: true,
		{"a", "b"}: false, {"b", "c"}: false, {"c", End}: false, {"c", Clarification}: false, {"x", "a"}: false,
	} {
		if got := p.IsCycle(edge.From, edge.To); got != want {
			t.Errorf("%v: %v", edge, got)
		}
	}
}

func TestEntries(t *testing.T) {
	for _, test := range []struct{ want, agents string }{
		{"a", "[{name: a, remote: {}}, {name: b, remote: {}}]"},
		{"a", "[{name: a, remote: {}, default_next: b}, {name: b, remote: {}, default_next: a}]"},
		{"a b", "[{name: a, remote: {}}, {name: b, remote: {}}, {name: c, remote: {}, requires: [a, b]}]"},
		{"a", "[{name: a, remote: {}, default_next: b}, {name: b, remote: {}}, {name: c, remote: {}, requires: [a]}]"},
		{"a b", "[{name: a, remote: {}}, {name: b, remote: {}, default_next: a}, {name: c, remote: {}, after: [c2]}, {name: c2, remote: {}, requires: [a]}]/c"},
		{"b", "[{name: a, remote: {}, entry: false}, {name: b, remote: {}, entry: true}]"},
		{"a c", "[{name: a, remote: {}, error_next: b}, {name: b, remote: {}}, {name: c, remote: {}, after: [a]}]"},
	} {
		agents, also, _ := strings.Cut(test.agents, "/")
		want := strings.TrimSpace(test.want + " " + also)
		if got := entryNames(mustCheck(t, "name: p\nagents: "+agents+"\n")); got != want {
			t.Errorf("%s: %s, not %s", test.agents, got, want)
		}
	}
}

func TestAJumpBeginsLaterStagesAndDependentsAnew(t *testing.T) {
	p := mustCheck(t, `name: p
agents:
  - {name: a, remote: {}}
  - {name: d, remote: {}, requires: [b, c]}
  - {name: b, remote: {}, requires: [a]}
  - {name: c, remote: {}, requires: [a, a]}
  - {name: soft, remote: {}, after: [a]}
  - {name: e, remote: {}, requires: [d], join: any}
`)
	for name, want := range map[string]string{"a": "a d b c soft e", "b": "d b c soft e", "soft": "soft e", "e": "e"} {
		if got := namesIn(p.after(p.Agent(name))); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	if !p.depends || mustCheck(t, loop).depends {
		t.Error("who depends on whom is not known")
	}
	if p.Agent("e").Join != joinAny || p.Agent("d").Join == joinAny {
		t.Error("join")
	}
}

func TestAGivenOrderReplacesTheDocuments(t *testing.T) {
	p := mustCheck(t, "name: p\nagents:\n  - {name: a, remote: {}, stage_order: 1, default_next: b}\n  - {name: b, remote: {}, stage_order: 2}\n")
	same, err := p.WithOrder([]string{"a", "b"})
	if err != nil || same != p {
		t.Errorf("%v %v", same, err)
	}
	turned, err := p.WithOrder([]string{"b", "a"})
	if err != nil {
		t.Fatal(err)
	}
	if namesIn(turned.Agents) != "b a" || entryNames(turned) != "b" || !turned.IsCycle("a", "b") || turned.Digest() == p.Digest() {
		t.Errorf("%s, entries %s", namesIn(turned.Agents), entryNames(turned))
	}
	if namesIn(p.Agents) != "a b" {
		t.Error("the pipeline itself has changed")
	}
	frozen, err := Load(turned.Canonical())
	if err != nil || namesIn(frozen.Agents) != "b a" {
		t.Errorf("%v", err)
	}
	for _, names := range [][]string{{"a"}, {"a", "a"}, {"a", "b", "b"}, {"a", "c"}, {}} {
		if _, err := p.WithOrder(names); err == nil {
			t.Errorf("%v is taken for an order", names)
		}
	}
}

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// Document is a policy as it is written.
type Document struct {
	Guards []GuardConfig
	Rules  []Rule
}

// Rule is one line of a policy.
type Rule struct {
	ID     string       `json:"id" doc:""`                                           // unique; names the verdict
	Tool   string       `json:"tool" doc:""`                                         // glob on server/tool
	Effect []flow.Class `json:"effect,omitempty" doc:",one,in=read|idempotent|once"` // nil: any class
	When   string       `json:"when,omitempty" doc:""`                               // a condition in CEL; "": always
	Do     Action       `json:"do" doc:""`
	Why    string       `json:"why,omitempty" doc:""` // shown where the call is asked about or refused
}

// Lists of a document.
const (
	InGuards = "guards"
	InRules  = "rules"
)

// Problem is a fault of one guard or rule: which of which list, and which of its
// fields, by the name it has in documents. "" is the whole entry.
type Problem struct {
	List    string // InGuards, InRules
	Index   int
	Field   string
	Message string
}

// New compiles a document. It reports every problem; with any, the policy is nil.
func New(d Document) (*Policy, []Problem) {
	c := &compiler{ids: map[string]string{}}
	p := &Policy{digest: digest(d)}
	for i, g := range d.Guards {
		p.guards = append(p.guards, c.guard(i, g))
	}
	c.overlaps(p.guards)
	for i, r := range d.Rules {
		p.rules = append(p.rules, c.rule(i, r))
	}
	if c.problems != nil {
		return nil, c.problems
	}
	return p, nil
}

// compiler goes through a document and collects what is wrong with it.
type compiler struct {
	ids      map[string]string // who has an id
	problems []Problem
}

func (c *compiler) report(list string, i int, field, format string, args ...any) {
	c.problems = append(c.problems, Problem{list, i, field, fmt.Sprintf(format, args...)})
}

func (c *compiler) rule(i int, r Rule) compiled {
	c.id(InRules, i, r.ID)
	r.Effect = slices.Clone(r.Effect)
	x := compiled{Rule: r}
	var err error
	if x.glob, err = parseGlob(r.Tool); err != nil {
		c.report(InRules, i, "tool", "%v", err)
	}
	if err := checkEffect(r.Effect); err != nil {
		c.report(InRules, i, "effect", "%v", err)
	}
	if r.When != "" {
		if x.when, err = compileCondition(r.When); err != nil {
			c.report(InRules, i, "when", "%v", err)
		}
	}
	return x
}

// id checks an id, which is unique in the whole document: records name by it who
// decided.
func (c *compiler) id(list string, i int, id string) {
	if err := checkID(id); err != nil {
		c.report(list, i, "id", "%v", err)
		return
	}
	holder := fmt.Sprintf("entry %d of %s", i+1, list)
	if first, ok := c.ids[id]; ok {
		c.report(list, i, "id", "%s has the id %q already", first, id)
		return
	}
	c.ids[id] = holder
}

func checkID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("an id is needed: records name by it who decided")
	case len(id) > 64:
		return fmt.Errorf("the id %.20q… has %d characters: 64 are the most", id, len(id))
	case strings.HasPrefix(id, "builtin/"):
		return fmt.Errorf("the id %q begins with builtin/, which is reserved", id)
	}
	for _, r := range id {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("the id %q has the character %q: use letters, digits and punctuation", id, r)
		}
	}
	return nil
}

func checkEffect(classes []flow.Class) error {
	if classes != nil && len(classes) == 0 {
		return fmt.Errorf("an empty list of effects matches nothing: leave effect out to match every class")
	}
	for i, c := range classes {
		if c != flow.Read && c != flow.Idempotent && c != flow.Once {
			return fmt.Errorf("%q is not an effect class: use read, idempotent or once", string(c))
		}
		if slices.Contains(classes[:i], c) {
			return fmt.Errorf("%q stands twice", string(c))
		}
	}
	return nil
}

// digest covers the document as parsed, in its order, since the order can change
// which rule a verdict names.
func digest(d Document) string {
	doc := struct {
		Version int           `json:"version"`
		Guards  []GuardConfig `json:"guards,omitempty"`
		Rules   []Rule        `json:"rules"`
	}{1, d.Guards, d.Rules}
	if doc.Rules == nil {
		doc.Rules = []Rule{}
	}
	canonical, err := canon.Form(flow.JSON(doc))
	if err != nil {
		panic(fmt.Sprintf("policy: a document has no canonical form: %v", err)) // strings, booleans and a small integer always have one
	}
	return flow.Digest(canonical)
}

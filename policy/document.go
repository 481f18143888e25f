package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

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
	// Command is what the call runs, word for word; a last word * stands for any further
	// ones. An allow holds for calls that run nothing else, ask and deny for those that may
	// run it among others. "": whatever it runs.
	Command string `json:"command,omitempty" doc:""`
	When    string `json:"when,omitempty" doc:""` // a condition in CEL; "": always
	Do      Action `json:"do" doc:""`
	Why     string `json:"why,omitempty" doc:""` // shown where the call is asked about or refused
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

// New compiles a document, whose guards are of these kinds. It reports every problem;
// with any, the policy is nil.
func New(d Document, kinds ...GuardKind) (*Policy, []Problem) {
	c := &compiler{kinds: kinds, ids: map[string]string{}}
	p := &Policy{digest: digest(d)}
	for i, g := range d.Guards {
		p.guards = append(p.guards, c.guard(i, g))
	}
	c.overlaps(p.guards)
	if slices.ContainsFunc(d.Rules, func(r Rule) bool { return r.Command != "" }) {
		p.guards = append(p.guards, c.known(p.guards)...)
	}
	for i, r := range d.Rules {
		p.rules = append(p.rules, c.rule(i, r, p.guards))
	}
	if c.problems != nil {
		return nil, c.problems
	}
	return p, nil
}

// compiler goes through a document and collects what is wrong with it.
type compiler struct {
	kinds    []GuardKind
	ids      map[string]string // who has an id
	problems []Problem
}

func (c *compiler) report(list string, i int, field, format string, args ...any) {
	c.problems = append(c.problems, Problem{list, i, field, fmt.Sprintf(format, args...)})
}

func (c *compiler) rule(i int, r Rule, guards []watch) compiled {
	c.id(InRules, i, r.ID)
	r.Effect = slices.Clone(r.Effect)
	x := compiled{Rule: r}
	var err error
	if x.tools, err = ParsePattern(r.Tool); err != nil {
		c.report(InRules, i, "tool", "%v", err)
	}
	if err := checkEffect(r.Effect); err != nil {
		c.report(InRules, i, "effect", "%v", err)
	}
	if r.Command != "" {
		c.command(i, &x, guards)
	}
	if r.When != "" {
		var condition *cel.Ast
		if x.when, condition, err = compileCondition(r.When); err != nil {
			c.report(InRules, i, "when", "%v", err)
		} else {
			x.comparesText = comparesText(condition, x.tools, c.commands(guards))
		}
	}
	return x
}

// shellKind is which kind looks after commands; -1: none.
func (c *compiler) shellKind() int {
	return slices.IndexFunc(c.kinds, func(k GuardKind) bool { return k.Name == ShellGuard })
}

// commands are where commands stand: in calls that guards of the document look after, and
// in those that are known.
func (c *compiler) commands(guards []watch) (all []GuardConfig) {
	for _, w := range guards {
		if w.config.Use == ShellGuard {
			all = append(all, w.config)
		}
	}
	if kind := c.shellKind(); kind >= 0 {
		all = append(all, c.kinds[kind].Known...)
	}
	return all
}

// command reads what a rule names, which some guard must be able to see.
func (c *compiler) command(i int, x *compiled, guards []watch) {
	kind := c.shellKind()
	switch {
	case kind < 0 || !slices.ContainsFunc(guards, func(w watch) bool { return w.config.Use == ShellGuard && w.tools.overlaps(x.tools) }):
		c.report(InRules, i, "command", "no %s looks into the calls of %q: declare one that says which argument is the command", ShellGuard, x.Tool)
	default:
		words, err := c.kinds[kind].Words(x.Command)
		if err != nil {
			c.report(InRules, i, "command", "%q: %v", x.Command, err)
			return
		}
		command := CommandOf(words)
		x.command = &command
	}
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

// Pattern is a glob on server/tool, as rules have it. Its two halves are matched
// separately, so that no wildcard can cross the slash. The zero value matches nothing.
type Pattern struct{ server, tool string }

var errNoSlash = errors.New(`a tool pattern is server/tool with exactly one "/", as in "*/delete_*"`)

// ParsePattern reads a pattern like "*/delete_*". It refuses one without its slash: a
// deny rule that silently matches nothing would be worse than an error.
func ParsePattern(s string) (Pattern, error) {
	server, tool, ok := strings.Cut(s, "/")
	switch {
	case !ok || strings.Contains(tool, "/"):
		return Pattern{}, fmt.Errorf("%q: %w", s, errNoSlash)
	case server == "" || tool == "":
		return Pattern{}, fmt.Errorf("%q: both sides of the slash need a pattern", s)
	}
	for _, r := range s {
		if !globRune(r) {
			return Pattern{}, fmt.Errorf("%q: %q cannot stand in the name of a server or tool", s, r)
		}
	}
	return Pattern{server, tool}, nil
}

// globRune admits the characters of names and the two wildcards. Brackets and
// braces are refused rather than matched literally: who writes them expects a
// set, and would get a rule that never matches.
func globRune(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return true
	}
	return strings.ContainsRune("_.-/*?", r)
}

// Match reports whether a tool is meant.
func (p Pattern) Match(server, tool string) bool {
	return wild(p.server, server) && wild(p.tool, tool)
}

// wild matches * (any run, also empty) and ? (one character).
func wild(pattern, s string) bool {
	ok, err := path.Match(pattern, s)
	return ok && err == nil
}

// overlaps reports whether some tool could match both patterns.
func (p Pattern) overlaps(q Pattern) bool {
	return meet(p.server, q.server) && meet(p.tool, q.tool)
}

// meet reports whether some text matches both patterns: it walks them together, and
// wherever one has a star the other may go ahead by one.
func meet(a, b string) bool {
	reach := make([]bool, len(b)+1) // after the part of a so far: which parts of b can stand beside it
	reach[0] = true
	spread := func(of []bool, star bool) {
		for j := range len(b) {
			if of[j] && (star || b[j] == '*') {
				of[j+1] = true
			}
		}
	}
	spread(reach, false)
	for i := range len(a) {
		next := make([]bool, len(b)+1)
		for j, here := range reach {
			switch {
			case !here:
			case a[i] == '*':
				next[j] = true
			case j < len(b) && b[j] == '*':
				next[j] = true
			case j < len(b) && (a[i] == '?' || b[j] == '?' || a[i] == b[j]):
				next[j+1] = true
			}
		}
		spread(next, a[i] == '*')
		reach = next
	}
	return reach[len(b)]
}

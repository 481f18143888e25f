package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff/flow"
)

// Kinds of guards.
const (
	SQLGuard   = "sql_guard"
	ShellGuard = "shell_guard"
)

// builtinShell is the id of guards that look after commands without being declared.
const builtinShell = "builtin/shell"

// GuardConfig is a guard as a policy declares it.
type GuardConfig struct {
	ID   string `json:"id" doc:""`   // unique among guards and rules
	Use  string `json:"use" doc:""`  // SQLGuard, ShellGuard
	Tool string `json:"tool" doc:""` // glob on server/tool
	Arg  string `json:"arg" doc:""`  // JSON pointer to the statement, or to the command

	// Of sql_guard:
	Dialect   string   `json:"dialect" doc:""`             // postgres, mysql, trino
	Functions []string `json:"functions,omitempty" doc:""` // further functions without effects
	Single    bool     `json:"single" doc:""`              // more than one statement is refused; true unless the document says false
}

func (c GuardConfig) clone() GuardConfig {
	c.Functions = slices.Clone(c.Functions)
	return c
}

// Finding is what a guard found in a call's arguments.
type Finding struct {
	Guard   string          // id of the guard
	Name    string          // under which policies see the facts: sql, shell
	Facts   json.RawMessage // an object, as it is recorded
	Seen    json.RawMessage // the facts, and what conditions see besides
	Class   string          // the guard's own class, part of what a grant covers: read, write
	Writes  bool            // the call is once, whatever its tool says
	Refused string          // why the call is refused; "": it is not
}

// Guard looks at arguments. It must be pure and total: what it cannot understand
// it takes for the worst.
type Guard interface {
	Find(args json.RawMessage) Finding
}

// GuardKind makes the guards that documents use by its name.
type GuardKind struct {
	Name string
	New  func(GuardConfig) (Guard, error)

	// Of ShellGuard alone: how commands in rules are read, and the tools that the kind
	// knows. They are watched over wherever a rule names a command.
	Words ShellWords
	Known []GuardConfig
}

// FieldError is what is wrong with one field of a guard.
type FieldError struct{ Field, Message string }

func (e *FieldError) Error() string { return e.Message }

// watch is a guard and the tools it looks after.
type watch struct {
	Guard
	config  GuardConfig
	tools   Pattern
	implied bool // the document does not have it
}

func (c *compiler) guard(i int, config GuardConfig) watch {
	c.id(InGuards, i, config.ID)
	w := watch{config: config.clone()}
	var err error
	if w.tools, err = ParsePattern(config.Tool); err != nil {
		c.report(InGuards, i, "tool", "%v", err)
	}
	switch kind := slices.IndexFunc(c.kinds, func(k GuardKind) bool { return k.Name == config.Use }); {
	case kind >= 0:
		w.Guard, err = c.kinds[kind].New(w.config)
	case config.Use == "":
		err = &FieldError{"use", fmt.Sprintf("a guard says what it uses: %s or %s", SQLGuard, ShellGuard)}
	default:
		err = &FieldError{"use", fmt.Sprintf("there is no guard %q: use %s or %s", config.Use, SQLGuard, ShellGuard)}
	}
	if err != nil {
		field := ""
		if f := (*FieldError)(nil); errors.As(err, &f) {
			field = f.Field
		}
		c.report(InGuards, i, field, "%v", err)
	}
	return w
}

// overlaps: two guards of one kind give their facts one name, so that of one tool
// only one of them may speak.
func (c *compiler) overlaps(guards []watch) {
	for i, g := range guards {
		for _, earlier := range guards[:i] {
			if g.config.Use == earlier.config.Use && g.tools.overlaps(earlier.tools) {
				c.report(InGuards, i, "tool", "%q and %q of guard %q may mean the same tool, which can have one %s: narrow one of them",
					g.config.Tool, earlier.config.Tool, earlier.config.ID, g.config.Use)
				break
			}
		}
	}
}

// known are the guards over commands that a document with such rules need not declare: of
// tools that no guard of the document looks after.
func (c *compiler) known(declared []watch) (all []watch) {
	i := c.shellKind()
	if i < 0 {
		return nil
	}
	for _, config := range c.kinds[i].Known {
		config.ID, config.Use = builtinShell, ShellGuard
		w := watch{config: config, implied: true}
		var faults [2]error
		w.tools, faults[0] = ParsePattern(config.Tool)
		w.Guard, faults[1] = c.kinds[i].New(config)
		if err := errors.Join(faults[:]...); err != nil {
			panic(fmt.Sprintf("policy: a guard that is known has a fault: %v", err)) // a table in the program
		}
		if !slices.ContainsFunc(declared, func(d watch) bool { return d.config.Use == ShellGuard && d.tools.overlaps(w.tools) }) {
			all = append(all, w)
		}
	}
	return all
}

// watching are the ids of the guards that look after a tool.
func (p *Policy) watching(server, tool string) (ids []string) {
	if p == nil {
		return nil
	}
	for i := range p.guards {
		if p.guards[i].tools.Match(server, tool) {
			ids = append(ids, p.guards[i].config.ID)
		}
	}
	return ids
}

// Inspect is what the guards of a tool find in a call's arguments, in the order of
// the document. Like Decide it is pure and total.
func (p *Policy) Inspect(c Call) Findings {
	if p == nil {
		return nil
	}
	var all Findings
	for i := range p.guards {
		if w := &p.guards[i]; w.tools.Match(c.Server, c.Tool) {
			f := w.Find(c.Args)
			f.Guard = w.config.ID
			all = append(all, f)
		}
	}
	return all
}

// Findings are what the guards of one tool found in one call.
type Findings []Finding

// Facts are what was found, by name; nil: nothing was looked for.
func (f Findings) Facts() json.RawMessage {
	return f.byName(func(x Finding) json.RawMessage { return x.Facts })
}

// Seen are what conditions see under facts, by name; nil: nothing was looked for.
func (f Findings) Seen() json.RawMessage {
	return f.byName(func(x Finding) json.RawMessage { return x.Seen })
}

func (f Findings) byName(part func(Finding) json.RawMessage) json.RawMessage {
	if len(f) == 0 {
		return nil
	}
	facts := map[string]json.RawMessage{}
	for _, x := range f {
		facts[x.Name] = part(x)
	}
	return flow.JSON(facts)
}

// Classes are the guards' own, each with the guard's id: what was allowed once for
// these is allowed for no others.
func (f Findings) Classes() []string {
	var all []string
	for _, x := range f {
		all = append(all, x.Guard+":"+x.Class)
	}
	return all
}

// Refused is the first that refuses the call.
func (f Findings) Refused() (Finding, bool) {
	if i := slices.IndexFunc(f, func(x Finding) bool { return x.Refused != "" }); i >= 0 {
		return f[i], true
	}
	return Finding{}, false
}

// Writes reports whether one of them makes the call once.
func (f Findings) Writes() bool {
	return slices.ContainsFunc(f, func(x Finding) bool { return x.Writes })
}

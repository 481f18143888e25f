package sqlguard

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// sqlLook is one look at a parsed text: what it holds, and the first thing in it
// that may have an effect.
type sqlLook struct {
	harmless func(function string) bool

	explaining bool // inside an EXPLAIN: what is changed there is not changed
	kinds      []string
	tables     []sqlTable // real ones
	parts      []sqlTable // names that a WITH gave to a query
	why        string
	depth      int
}

// maxSQLTree is how far down a tree is looked at, which bounds the stack: chains
// like 1+1+1 nest without brackets.
const maxSQLTree = 3000

// effect notes that something may have an effect. The first is the one that is reported.
func (l *sqlLook) effect(format string, args ...any) {
	if l.why == "" {
		l.why = fmt.Sprintf(format, args...)
	}
}

func (l *sqlLook) kind(kind string) { l.kinds = appendNew(l.kinds, kind) }

// calls notes a call of a function, an aggregate or, in some dialects, the cast to
// a type.
func (l *sqlLook) calls(function string) {
	if !l.harmless(function) {
		l.effect("the function %s is not known to be without effects", function)
	}
}

// changes notes a statement that changes data, unless it is only explained.
func (l *sqlLook) changes(kind string) {
	l.kind(kind)
	if !l.explaining {
		l.effect("%s changes data", strings.ToUpper(kind))
	}
}

// facts are what is said of a text that was understood. In one that writes, the
// name of a WITH query may also be that of the table written to, so that both are
// listed.
func (l *sqlLook) facts(statements int) sqlFound {
	f := sqlFound{sqlFacts{Access: sqlRead, Statements: statements, Kinds: l.kinds, Tables: []string{}, Why: l.why}, append([]sqlTable{}, l.tables...)}
	if l.why != "" {
		f.Access = sqlWrite
		for _, part := range l.parts {
			f.Names = appendNew(f.Names, part)
		}
	}
	for _, t := range f.Names {
		f.Tables = appendNew(f.Tables, t.String())
	}
	return f
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// sqlGrammar says what the nodes of a parser's tree mean. A type that it does not
// list may have effects.
type sqlGrammar struct {
	// rules has the types that may stand in a statement that reads. A rule may
	// note an effect; nil: it has none. What lies below the node is
	// looked at in any case.
	rules map[reflect.Type]sqlRule

	// queries are the statements to which a rule gives their kind. That of the
	// others is their first word.
	queries []reflect.Type

	// wrapper says that a type only holds another, in its one exported field.
	wrapper func(reflect.Type) bool

	// with is the type of a WITH clause, and names gives its queries in their order.
	with  reflect.Type
	names func(with any) (queries []sqlNamed, recursive bool)

	// table is the name of a table that a node is, and the form of it that is
	// compared to names of queries, "" if it cannot be one.
	table func(node any) (name sqlTable, plain string, ok bool)
}

type sqlRule func(l *sqlLook, node any)

// sqlNamed is a query that a WITH clause gives a name.
type sqlNamed struct {
	name string
	node any
}

// sqlScope is the names of queries that can be seen from a place, innermost last.
type sqlScope []string

// ruleOf makes a rule of a function on one type of node.
func ruleOf[T any](rule func(l *sqlLook, node *T)) (reflect.Type, sqlRule) {
	return reflect.TypeFor[T](), func(l *sqlLook, node any) { rule(l, node.(*T)) }
}

var (
	errNotParsed = errors.New("the text is not understood")
	errNotSplit  = errors.New("it is not clear where its statements end")
)

// read looks at the statements that a parser found in a text.
func (g *sqlGrammar) read(l *sqlLook, t *sqlText, statements []any) error {
	if len(statements) != len(t.statements) {
		return errNotSplit
	}
	for i, s := range statements {
		v := reflect.ValueOf(s)
		if statement := g.unwrap(v); !slices.Contains(g.queries, statement) {
			g.other(l, statement, t.statements[i].kind())
		}
		l.explaining = false
		g.walk(l, v, nil)
	}
	return nil
}

// unwrap is the type of a node, without what only holds it.
func (g *sqlGrammar) unwrap(v reflect.Value) reflect.Type {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if g.wrapper(v.Type()) {
		for i := range v.NumField() {
			if field := v.Field(i); field.CanInterface() {
				return g.unwrap(field)
			}
		}
	}
	return v.Type()
}

// other notes a statement that is no query, by the word that it begins with.
func (g *sqlGrammar) other(l *sqlLook, statement reflect.Type, word string) {
	l.kind(word)
	if _, known := g.rules[statement]; !known {
		l.effect("%s is not known to be without effects", strings.ToUpper(word))
	}
}

// walk looks at a node and everything below it. It goes by the fields of the
// parser's types and not by a visitor, which could leave one out.
func (g *sqlGrammar) walk(l *sqlLook, v reflect.Value, scope sqlScope) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			g.walk(l, v.Elem(), scope)
		}
	case reflect.Slice:
		for i := range v.Len() {
			g.walk(l, v.Index(i), scope)
		}
	case reflect.Struct:
		g.node(l, v, scope)
	case reflect.Map, reflect.Array, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		l.effect("a part of the statement is not known") // no tree of today has one
	}
}

func (g *sqlGrammar) node(l *sqlLook, v reflect.Value, scope sqlScope) {
	if !v.CanAddr() || l.depth == maxSQLTree {
		l.effect("a part of the statement is not known, or too deep")
		return
	}
	l.depth++
	defer func() { l.depth-- }()
	node := v.Addr().Interface()
	rule, known := g.rules[v.Type()]
	switch {
	case rule != nil:
		rule(l, node)
	case !known && !g.wrapper(v.Type()):
		l.effect("%s is not known to be without effects", v.Type().Name())
	}
	if name, plain, ok := g.table(node); ok {
		l.table(name, plain, scope)
	}
	g.below(l, v, scope)
}

func (l *sqlLook) table(name sqlTable, plain string, scope sqlScope) {
	if plain != "" && slices.Contains(scope, plain) {
		l.parts = appendNew(l.parts, name)
		return
	}
	l.tables = appendNew(l.tables, name)
}

// below looks at the exported fields of a node. The others are a parser's own
// notes.
func (g *sqlGrammar) below(l *sqlLook, v reflect.Value, scope sqlScope) {
	for i := range v.NumField() {
		if field := v.Field(i); field.CanInterface() && field.Type() == g.with && !field.IsNil() {
			scope = g.named(l, field, scope)
		}
	}
	for i := range v.NumField() {
		if field := v.Field(i); field.CanInterface() && field.Type() != g.with {
			g.walk(l, field, scope)
		}
	}
}

// named looks at the queries of a WITH clause and gives the scope of what else is
// in its statement. A query sees those before it; all, if the clause is recursive.
func (g *sqlGrammar) named(l *sqlLook, with reflect.Value, scope sqlScope) sqlScope {
	queries, recursive := g.names(with.Interface())
	scope = slices.Clone(scope)
	if recursive {
		for _, q := range queries {
			scope = append(scope, q.name)
		}
	}
	for _, q := range queries {
		g.walk(l, reflect.ValueOf(q.node), scope)
		if !recursive {
			scope = append(scope, q.name)
		}
	}
	return scope
}

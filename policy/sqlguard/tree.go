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
	sqlGrammar

	statement  any    // that is looked at
	word       string // with which it begins
	explaining bool   // inside an EXPLAIN: what is changed there is not changed
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

// sqlGrammar says what the nodes of a parser's tree mean. Nodes are pointers.
type sqlGrammar interface {
	// rule notes the effects of a node, without what lies below it. A type that may not
	// stand in a statement that reads is not known.
	rule(l *sqlLook, node any) (known bool)

	// query reports whether rule gives a statement its kind. That of others is their
	// first word.
	query(statement any) bool

	// wrapper says that a type only holds another, in its one exported field.
	wrapper(t reflect.Type) bool

	// with is the queries of a WITH clause in their order; not ok: the part is none.
	with(part any) (queries []sqlNamed, recursive, ok bool)

	// table is the name of a table that a node is, and the form of it that is
	// compared to names of queries, "" if it cannot be one.
	table(node any) (name sqlTable, plain string, ok bool)
}

// sqlNamed is a query that a WITH clause gives a name.
type sqlNamed struct {
	name string
	node any
}

// sqlScope is the names of queries that can be seen from a place, innermost last.
type sqlScope []string

var (
	errNotParsed = errors.New("the text is not understood")
	errNotSplit  = errors.New("it is not clear where its statements end")
)

// readTree looks at the statements that a parser found in a text.
func readTree[T any](l *sqlLook, g sqlGrammar, t *sqlText, statements []T) error {
	if len(statements) != len(t.statements) {
		return errNotSplit
	}
	l.sqlGrammar = g
	for i, s := range statements {
		v := reflect.ValueOf(s)
		if l.statement, l.word = l.unwrap(v), t.statements[i].kind(); !l.query(l.statement) {
			l.kind(l.word)
		}
		l.explaining = false
		l.walk(v, nil)
	}
	return nil
}

// unwrap is a node without what only holds it.
func (l *sqlLook) unwrap(v reflect.Value) any {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if l.wrapper(v.Type()) {
		for i := range v.NumField() {
			if field := v.Field(i); field.CanInterface() {
				return l.unwrap(field)
			}
		}
	}
	return v.Addr().Interface()
}

// walk looks at a node and everything below it. It goes by the fields of the
// parser's types and not by a visitor, which could leave one out.
func (l *sqlLook) walk(v reflect.Value, scope sqlScope) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			l.walk(v.Elem(), scope)
		}
	case reflect.Slice:
		for i := range v.Len() {
			l.walk(v.Index(i), scope)
		}
	case reflect.Struct:
		l.node(v, scope)
	case reflect.Map, reflect.Array, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		l.effect("a part of the statement is not known") // no tree of today has one
	}
}

func (l *sqlLook) node(v reflect.Value, scope sqlScope) {
	if !v.CanAddr() || l.depth == maxSQLTree {
		l.effect("a part of the statement is not known, or too deep")
		return
	}
	l.depth++
	defer func() { l.depth-- }()
	node := v.Addr().Interface()
	switch known := l.rule(l, node); {
	case known || l.wrapper(v.Type()):
	case node == l.statement:
		l.effect("%s is not known to be without effects", strings.ToUpper(l.word))
	default:
		l.effect("%s is not known to be without effects", v.Type().Name())
	}
	if name, plain, ok := l.table(node); ok {
		if plain != "" && slices.Contains(scope, plain) {
			l.parts = appendNew(l.parts, name)
		} else {
			l.tables = appendNew(l.tables, name)
		}
	}
	l.below(v, scope)
}

// below looks at the exported fields of a node. The others are a parser's own
// notes.
func (l *sqlLook) below(v reflect.Value, scope sqlScope) {
	with := -1
	for i := range v.NumField() {
		field := v.Field(i)
		if !field.CanInterface() || field.Kind() != reflect.Pointer {
			continue
		}
		if queries, recursive, ok := l.with(field.Interface()); ok {
			with, scope = i, l.named(queries, recursive, scope)
		}
	}
	for i := range v.NumField() {
		if field := v.Field(i); field.CanInterface() && i != with {
			l.walk(field, scope)
		}
	}
}

// named looks at the queries of a WITH clause and gives the scope of what else is
// in its statement. A query sees those before it; all, if the clause is recursive.
func (l *sqlLook) named(queries []sqlNamed, recursive bool, scope sqlScope) sqlScope {
	scope = slices.Clone(scope)
	if recursive {
		for _, q := range queries {
			scope = append(scope, q.name)
		}
	}
	for _, q := range queries {
		l.walk(reflect.ValueOf(q.node), scope)
		if !recursive {
			scope = append(scope, q.name)
		}
	}
	return scope
}

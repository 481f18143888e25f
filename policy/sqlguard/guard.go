// Package sqlguard is the guard of policies that distinguishes SQL that reads from SQL
// that writes. It is separate from package policy because of the size of its parsers.
//
// Start at [Kind].
package sqlguard

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// What a statement does, as policies see it in facts.sql.access.
const (
	sqlRead  = "read"
	sqlWrite = "write"
)

// maxSQL is the longest text that is looked into. The parsers descend
// recursively, so that length is what bounds their stack.
const maxSQL = 32 << 10

// sqlGuard distinguishes reading SQL from everything else. A text counts as reading
// only after three independent looks agree: scanSQL finds no character that two
// readers could read differently, a parser accepts the whole of it, and the tree
// consists of nothing but parts that are known to have no effect. Whatever any of
// them does not know is writing.
type sqlGuard struct {
	arg       policy.Pointer
	dialect   *sqlDialect
	functions map[string]bool // besides those of the dialect
	single    bool
}

// sqlFacts is what is found, as conditions and approvers see it.
type sqlFacts struct {
	Access     string   `json:"access"`
	Statements int      `json:"statements"` // of a text that could not be read: the most it can hold
	Kinds      []string `json:"kinds"`      // each once, also those inside a WITH or EXPLAIN
	Tables     []string `json:"tables"`     // each once; what can be seen of them without a catalog
	Why        string   `json:"why,omitempty"`
}

// sqlFound is the facts, and the names of tables part by part, so that a rule about a
// schema holds whatever stands before it. Conditions see both; what is recorded is the
// facts alone, as it always was.
type sqlFound struct {
	sqlFacts
	Names []sqlTable `json:"names"`
}

// sqlTable is the name of a table, as far as the statement gives it.
type sqlTable struct {
	Catalog string `json:"catalog"` // "": it is not given
	Schema  string `json:"schema"`
	Table   string `json:"table"`
}

func (t sqlTable) String() string {
	name := t.Table
	for _, part := range []string{t.Schema, t.Catalog} {
		if part != "" {
			name = part + "." + name
		}
	}
	return name
}

// Kind is for [policy.New].
var Kind = policy.GuardKind{Name: policy.SQLGuard, New: newGuard}

func newGuard(c policy.GuardConfig) (policy.Guard, error) {
	arg, err := policy.ParsePointer(c.Arg)
	if err != nil {
		return nil, &policy.FieldError{Field: "arg", Message: err.Error()}
	}
	dialect, err := sqlDialectOf(c.Dialect)
	if err != nil {
		return nil, &policy.FieldError{Field: "dialect", Message: err.Error()}
	}
	functions, err := extraFunctions(c.Functions)
	if err != nil {
		return nil, &policy.FieldError{Field: "functions", Message: err.Error()}
	}
	return &sqlGuard{arg, dialect, functions, c.Single}, nil
}

// extraFunctions are compared in lower case, the form that dialects fold names to.
func extraFunctions(names []string) (map[string]bool, error) {
	extra := map[string]bool{}
	for _, name := range names {
		for part := range strings.SplitSeq(name, ".") {
			if !isSQLName(part) {
				return nil, fmt.Errorf("%q is not the name of a function: write it without quotes and arguments, as in my_function or schema.my_function", name)
			}
		}
		extra[strings.ToLower(name)] = true
	}
	return extra, nil
}

func isSQLName(s string) bool {
	for i := range len(s) {
		if !isWordByte(s[i]) || i == 0 && isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

// sqlDialect is one way to read SQL.
type sqlDialect struct {
	lexis sqlLexis

	// read looks into a text that was scanned without doubt. Reporting an error
	// and panicking both mean that the text is not understood.
	read func(t *sqlText, look *sqlLook) error

	harmless func() map[string]bool // functions without effects
}

func sqlDialectOf(name string) (*sqlDialect, error) {
	switch name {
	case "postgres":
		return &sqlPostgres, nil
	case "mysql":
		return &sqlMySQL, nil
	case "trino":
		return &sqlTrino, nil
	}
	return nil, fmt.Errorf("the dialect %q is not known: use postgres, mysql or trino", name)
}

func (g *sqlGuard) Find(args json.RawMessage) policy.Finding {
	found := g.look(args)
	facts := found.sqlFacts
	f := policy.Finding{Name: "sql", Facts: flow.JSON(facts), Seen: flow.JSON(found), Class: facts.Access, Writes: facts.Access != sqlRead}
	if g.single && facts.Statements > 1 {
		f.Refused = fmt.Sprintf("%d statements in one call, or what may be so many: send one at a time", facts.Statements)
	}
	return f
}

func (g *sqlGuard) look(args json.RawMessage) sqlFound {
	sql, err := g.arg.Text(args)
	if err != nil {
		return unread(0, err)
	}
	if len(sql) > maxSQL {
		return unread(atMost(sql), fmt.Errorf("the text has %d bytes: more than %d are not looked into", len(sql), maxSQL))
	}
	text, err := scanSQL(sql, g.dialect.lexis)
	if err != nil {
		return unread(atMost(sql), err)
	}
	if len(text.statements) == 0 {
		return unread(0, fmt.Errorf("the text holds no statement"))
	}
	look := &sqlLook{harmless: g.harmless}
	if err := understand(g.dialect, text, look); err != nil {
		return unread(len(text.statements), err)
	}
	return look.facts(len(text.statements))
}

// understand confines the parser: a text that makes it panic is one that it does
// not understand.
func understand(d *sqlDialect, t *sqlText, look *sqlLook) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser failed")
		}
	}()
	return d.read(t, look)
}

// harmless says whether a function is known to have no effect.
func (g *sqlGuard) harmless(name string) bool {
	return g.dialect.harmless()[name] || g.functions[name]
}

// unread is what is said of a text that was not understood.
func unread(statements int, why error) sqlFound {
	f := sqlFacts{Access: sqlWrite, Statements: statements, Kinds: []string{}, Tables: []string{}, Why: why.Error()}
	if statements > 0 {
		f.Kinds = []string{"unknown"}
	}
	return sqlFound{f, []sqlTable{}}
}

// atMost is how many statements a text can hold however its quotes are read.
func atMost(sql string) int {
	n := 0
	for part := range strings.SplitSeq(sql, ";") {
		if strings.TrimSpace(part) != "" {
			n++
		}
	}
	return n
}

package sqlguard

import (
	"reflect"
	"strings"
	"sync"

	"github.com/sqlc-dev/oliphant"
	"github.com/sqlc-dev/oliphant/ast"
)

var sqlPostgres = sqlDialect{
	lexis:    sqlLexis{marks: "()[],.:=<>+-*/%^|&~!@#?$"},
	read:     func(t *sqlText, l *sqlLook) error { return postgresGrammar().read(t, l) },
	harmless: sync.OnceValue(func() map[string]bool { return wordSet(postgresFunctions) }),
}

var postgresGrammar = sync.OnceValue(func() *postgresRules {
	return &postgresRules{
		operators: wordSet(postgresOperators),
		types:     wordSet(postgresTypes),
		explain:   wordSet("verbose costs settings generic_plan buffers summary memory format"),
		own:       true,
	}
})

// postgresRules is what differs between the dialects that are read with the parser
// of PostgreSQL.
type postgresRules struct {
	operators map[string]bool
	types     map[string]bool // that a cast may name; nil: any
	explain   map[string]bool // options of EXPLAIN that do not run what is explained
	own       bool            // the dialect is the parser's own
}

func (r *postgresRules) read(t *sqlText, l *sqlLook) error {
	tree, err := oliphant.Parse(t.whole)
	if err != nil {
		return errNotParsed
	}
	statements := make([]*ast.Node, len(tree.Stmts))
	for i, raw := range tree.Stmts {
		statements[i] = raw.Stmt
	}
	return readTree(l, r, t, statements)
}

// wrapper knows the types of the fields that can hold any node.
func (r *postgresRules) wrapper(t reflect.Type) bool {
	return t == reflect.TypeFor[ast.Node]() || strings.HasPrefix(t.Name(), "Node_") || strings.HasPrefix(t.Name(), "A_Const_")
}

func (r *postgresRules) query(statement any) bool {
	switch statement.(type) {
	case *ast.SelectStmt, *ast.InsertStmt, *ast.UpdateStmt, *ast.DeleteStmt, *ast.MergeStmt:
		return true
	}
	return false
}

func (r *postgresRules) with(part any) (queries []sqlNamed, recursive, ok bool) {
	with, ok := part.(*ast.WithClause)
	if !ok || with == nil {
		return nil, false, false
	}
	for _, n := range with.Ctes {
		queries = append(queries, sqlNamed{r.fold(n.GetCommonTableExpr().GetCtename()), n})
	}
	return queries, with.Recursive, true
}

func (r *postgresRules) table(node any) (name sqlTable, plain string, ok bool) {
	t, ok := node.(*ast.RangeVar)
	if !ok {
		return sqlTable{}, "", false
	}
	name = sqlTable{r.fold(t.Catalogname), r.fold(t.Schemaname), r.fold(t.Relname)}
	if name.Schema == "" {
		plain = name.Table
	}
	return name, plain, true
}

// fold is a name as the server compares it. The parser has folded those without
// quotes; to Trino quotes make no difference.
func (r *postgresRules) fold(name string) string {
	if r.own {
		return name
	}
	return strings.ToLower(name)
}

func (r *postgresRules) rule(l *sqlLook, node any) (known bool) {
	switch n := node.(type) {
	default:
		return false
	case *ast.NamedArgExpr, *ast.ParamRef, *ast.VariableShowStmt:
		return r.own
	case *ast.SelectStmt:
		l.kind("select")
		if n.IntoClause != nil {
			l.effect("SELECT INTO makes a table")
		}
		if len(n.LockingClause) > 0 {
			l.effect("FOR UPDATE and the like lock rows")
		}
	case *ast.FuncCall:
		r.call(l, n)
	case *ast.A_Expr:
		switch n.Kind {
		case ast.A_Expr_Kind_AEXPR_BETWEEN, ast.A_Expr_Kind_AEXPR_NOT_BETWEEN, ast.A_Expr_Kind_AEXPR_BETWEEN_SYM, ast.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM:
			// named by words
		default:
			r.operator(l, n.Name)
		}
	case *ast.SubLink:
		r.operator(l, n.OperName)
	case *ast.SortBy:
		r.operator(l, n.UseOp)
	case *ast.TypeName:
		r.typeName(l, n)
	case *ast.RangeTableSample:
		if name := strings.Join(parts(n.Method), "."); name != "system" && name != "bernoulli" {
			l.effect("the sampling method %s is not known to be without effects", name)
		}
	case *ast.ExplainStmt:
		r.explained(l, n)
	case *ast.InsertStmt:
		l.changes("insert")
	case *ast.UpdateStmt:
		l.changes("update")
	case *ast.DeleteStmt:
		l.changes("delete")
	case *ast.MergeStmt:
		l.changes("merge")

	// The rest say nothing against reading by themselves.
	// Names, constants, lists.
	case *ast.Alias, *ast.RangeVar, *ast.ColumnRef, *ast.A_Star, *ast.A_Const, *ast.Integer, *ast.Float, *ast.Boolean, *ast.String,
		*ast.BitString, *ast.List:
	// Parts of a query.
	case *ast.ResTarget, *ast.CommonTableExpr, *ast.CTESearchClause, *ast.CTECycleClause, *ast.JoinExpr, *ast.RangeSubselect,
		*ast.RangeFunction, *ast.ColumnDef, *ast.WindowDef, *ast.GroupingSet, *ast.DefElem:
	// Expressions.
	case *ast.BoolExpr, *ast.NullTest, *ast.BooleanTest, *ast.CaseExpr, *ast.CaseWhen, *ast.CoalesceExpr, *ast.MinMaxExpr, *ast.RowExpr,
		*ast.GroupingFunc, *ast.SQLValueFunction, *ast.TypeCast, *ast.CollateClause, *ast.A_ArrayExpr, *ast.A_Indirection,
		*ast.A_Indices:
	// SQL/JSON.
	case *ast.JsonFormat, *ast.JsonReturning, *ast.JsonOutput, *ast.JsonArgument, *ast.JsonBehavior, *ast.JsonValueExpr,
		*ast.JsonFuncExpr, *ast.JsonIsPredicate, *ast.JsonKeyValue, *ast.JsonObjectConstructor, *ast.JsonArrayConstructor,
		*ast.JsonArrayQueryConstructor, *ast.JsonAggConstructor, *ast.JsonObjectAgg, *ast.JsonArrayAgg, *ast.JsonParseExpr,
		*ast.JsonScalarExpr, *ast.JsonSerializeExpr, *ast.JsonTable, *ast.JsonTableColumn, *ast.JsonTablePathSpec:
	// Of statements that change data, which are allowed inside an EXPLAIN.
	case *ast.OnConflictClause, *ast.InferClause, *ast.IndexElem, *ast.MultiAssignRef, *ast.SetToDefault, *ast.MergeWhenClause,
		*ast.ReturningClause, *ast.ReturningOption:
	}
	return true
}

// call checks a function. What is syntax to the parser (EXTRACT, TRIM, AT TIME ZONE)
// is a call of a built-in function.
func (r *postgresRules) call(l *sqlLook, f *ast.FuncCall) {
	name := parts(f.Funcname)
	if len(name) == 2 && name[0] == "pg_catalog" && (r.own || f.Funcformat == ast.CoercionForm_COERCE_SQL_SYNTAX) {
		name = name[1:]
	}
	l.calls(strings.Join(name, "."))
}

func (r *postgresRules) operator(l *sqlLook, written []*ast.Node) {
	if len(written) == 0 {
		return
	}
	if name := strings.Join(parts(written), "."); !r.operators[name] {
		l.effect("the operator %s is not known to be without effects", name)
	}
}

// typeName checks a type: a cast calls its input function, and a domain's checks.
func (r *postgresRules) typeName(l *sqlLook, t *ast.TypeName) {
	if r.types == nil {
		return
	}
	name := parts(t.Names)
	if len(name) == 2 && name[0] == "pg_catalog" {
		name = name[1:]
	}
	if full := strings.Join(name, "."); !r.types[full] && !l.harmless(full) {
		l.effect("the type %s is not built in: its functions are not known to be without effects", full)
	}
}

// explained checks the options, and lets the look know that what follows is not run.
func (r *postgresRules) explained(l *sqlLook, e *ast.ExplainStmt) {
	for _, o := range e.Options {
		option := o.GetDefElem().GetDefname()
		if option == "analyze" {
			l.effect("EXPLAIN ANALYZE runs the statement")
		} else if !r.explain[option] {
			l.effect("the option %s of EXPLAIN is not known to be without effects", option)
		}
	}
	l.explaining = true
}

// parts are the parts of a name, as the parser has folded them.
func parts(name []*ast.Node) []string {
	all := make([]string, len(name))
	for i, n := range name {
		all[i] = n.GetString_().GetSval()
	}
	return all
}

// sqlTrino is read with the parser of PostgreSQL, since there is none for Trino.
// That is sound because of what Trino is: a statement that begins with SELECT,
// WITH, VALUES, TABLE or a bracket is a query to it, and a query has no effect but
// through the functions it calls. What the parser does not accept, TABLE(function())
// and TRY_CAST among it, is writing. The scan leaves over only what both read
// alike: without prefixes of strings, dollar quotes, nested comments and long names.
var sqlTrino = sqlDialect{
	lexis:    sqlLexis{noPrefixes: true, maxName: 63, marks: "()[],.=<>+-*/%|!"},
	read:     readTrino,
	harmless: sync.OnceValue(func() map[string]bool { return wordSet(trinoFunctions) }),
}

var trinoGrammar = sync.OnceValue(func() *postgresRules {
	return &postgresRules{operators: wordSet(trinoOperators), explain: wordSet("type format")}
})

func readTrino(t *sqlText, l *sqlLook) error {
	if !areShows(t.statements) {
		return trinoGrammar().read(t, l)
	}
	for _, s := range t.statements {
		l.kind(s.kind())
	}
	return nil
}

// areShows knows SHOW and DESCRIBE of names and patterns, which the parser of
// PostgreSQL does not. Without a bracket nothing is called, and no statement of
// Trino that begins with these words changes anything.
func areShows(statements []sqlStatement) bool {
	for _, s := range statements {
		if kind := s.kind(); !s.bare || kind != "show" && kind != "describe" {
			return false
		}
	}
	return true
}

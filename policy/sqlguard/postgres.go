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
	read:     readPostgres,
	harmless: sync.OnceValue(func() map[string]bool { return wordSet(postgresFunctions) }),
}

var postgresGrammar = sync.OnceValue(func() *sqlGrammar {
	rules := postgresRules{
		operators: wordSet(postgresOperators),
		types:     wordSet(postgresTypes),
		explain:   wordSet("verbose costs settings generic_plan buffers summary memory format"),
		own:       true,
	}
	return rules.grammar()
})

func readPostgres(t *sqlText, l *sqlLook) error { return readByPostgres(t, l, postgresGrammar()) }

func readByPostgres(t *sqlText, l *sqlLook, g *sqlGrammar) error {
	tree, err := oliphant.Parse(t.whole)
	if err != nil {
		return errNotParsed
	}
	statements := make([]any, len(tree.Stmts))
	for i, raw := range tree.Stmts {
		statements[i] = raw.Stmt
	}
	return g.read(l, t, statements)
}

// postgresRules is what differs between the dialects that are read with the parser
// of PostgreSQL.
type postgresRules struct {
	operators map[string]bool
	types     map[string]bool // that a cast may name; nil: any
	explain   map[string]bool // options of EXPLAIN that do not run what is explained
	own       bool            // the dialect is the parser's own
}

func (r *postgresRules) grammar() *sqlGrammar {
	rules := map[reflect.Type]sqlRule{}
	for _, t := range postgresNodes {
		rules[t] = nil
	}
	if r.own {
		rules[reflect.TypeFor[ast.NamedArgExpr]()] = nil
		rules[reflect.TypeFor[ast.ParamRef]()] = nil
		rules[reflect.TypeFor[ast.VariableShowStmt]()] = nil
	}
	add := func(t reflect.Type, rule sqlRule) { rules[t] = rule }
	add(ruleOf(r.query))
	add(ruleOf(r.call))
	add(ruleOf(r.expression))
	add(ruleOf(r.subquery))
	add(ruleOf(r.order))
	add(ruleOf(r.typeName))
	add(ruleOf(r.sample))
	add(ruleOf(r.explained))
	add(ruleOf(func(l *sqlLook, _ *ast.InsertStmt) { l.changes("insert") }))
	add(ruleOf(func(l *sqlLook, _ *ast.UpdateStmt) { l.changes("update") }))
	add(ruleOf(func(l *sqlLook, _ *ast.DeleteStmt) { l.changes("delete") }))
	add(ruleOf(func(l *sqlLook, _ *ast.MergeStmt) { l.changes("merge") }))
	return &sqlGrammar{
		rules:   rules,
		queries: postgresQueries,
		wrapper: isPostgresWrapper,
		with:    reflect.TypeFor[*ast.WithClause](),
		names:   r.names,
		table:   r.table,
	}
}

// postgresQueries are the statements to which a rule above gives their kind.
var postgresQueries = []reflect.Type{
	reflect.TypeFor[ast.SelectStmt](), reflect.TypeFor[ast.InsertStmt](), reflect.TypeFor[ast.UpdateStmt](), reflect.TypeFor[ast.DeleteStmt](), reflect.TypeFor[ast.MergeStmt](),
}

// isPostgresWrapper knows the types of the fields that can hold any node.
func isPostgresWrapper(t reflect.Type) bool {
	return t == reflect.TypeFor[ast.Node]() || strings.HasPrefix(t.Name(), "Node_") || strings.HasPrefix(t.Name(), "A_Const_")
}

func (r *postgresRules) names(clause any) (queries []sqlNamed, recursive bool) {
	with := clause.(*ast.WithClause)
	for _, n := range with.Ctes {
		queries = append(queries, sqlNamed{r.fold(n.GetCommonTableExpr().GetCtename()), n})
	}
	return queries, with.Recursive
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

func (r *postgresRules) query(l *sqlLook, s *ast.SelectStmt) {
	l.kind("select")
	if s.IntoClause != nil {
		l.effect("SELECT INTO makes a table")
	}
	if len(s.LockingClause) > 0 {
		l.effect("FOR UPDATE and the like lock rows")
	}
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

func (r *postgresRules) expression(l *sqlLook, e *ast.A_Expr) {
	switch e.Kind {
	case ast.A_Expr_Kind_AEXPR_BETWEEN, ast.A_Expr_Kind_AEXPR_NOT_BETWEEN, ast.A_Expr_Kind_AEXPR_BETWEEN_SYM, ast.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM:
		return // named by words
	}
	r.operator(l, e.Name)
}

func (r *postgresRules) subquery(l *sqlLook, s *ast.SubLink) { r.operator(l, s.OperName) }
func (r *postgresRules) order(l *sqlLook, s *ast.SortBy)     { r.operator(l, s.UseOp) }

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

func (r *postgresRules) sample(l *sqlLook, s *ast.RangeTableSample) {
	if name := strings.Join(parts(s.Method), "."); name != "system" && name != "bernoulli" {
		l.effect("the sampling method %s is not known to be without effects", name)
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

// postgresNodes are the nodes that say nothing against reading by themselves.
var postgresNodes = []reflect.Type{
	// Names, constants, lists.
	reflect.TypeFor[ast.Alias](), reflect.TypeFor[ast.RangeVar](), reflect.TypeFor[ast.ColumnRef](), reflect.TypeFor[ast.A_Star](),
	reflect.TypeFor[ast.A_Const](), reflect.TypeFor[ast.Integer](), reflect.TypeFor[ast.Float](), reflect.TypeFor[ast.Boolean](),
	reflect.TypeFor[ast.String](), reflect.TypeFor[ast.BitString](), reflect.TypeFor[ast.List](),

	// Parts of a query.
	reflect.TypeFor[ast.ResTarget](), reflect.TypeFor[ast.CommonTableExpr](), reflect.TypeFor[ast.CTESearchClause](), reflect.TypeFor[ast.CTECycleClause](),
	reflect.TypeFor[ast.JoinExpr](), reflect.TypeFor[ast.RangeSubselect](), reflect.TypeFor[ast.RangeFunction](), reflect.TypeFor[ast.ColumnDef](),
	reflect.TypeFor[ast.WindowDef](), reflect.TypeFor[ast.GroupingSet](), reflect.TypeFor[ast.DefElem](),

	// Expressions.
	reflect.TypeFor[ast.BoolExpr](), reflect.TypeFor[ast.NullTest](), reflect.TypeFor[ast.BooleanTest](), reflect.TypeFor[ast.CaseExpr](), reflect.TypeFor[ast.CaseWhen](),
	reflect.TypeFor[ast.CoalesceExpr](), reflect.TypeFor[ast.MinMaxExpr](), reflect.TypeFor[ast.RowExpr](), reflect.TypeFor[ast.GroupingFunc](),
	reflect.TypeFor[ast.SQLValueFunction](), reflect.TypeFor[ast.TypeCast](), reflect.TypeFor[ast.CollateClause](),
	reflect.TypeFor[ast.A_ArrayExpr](), reflect.TypeFor[ast.A_Indirection](), reflect.TypeFor[ast.A_Indices](),

	// SQL/JSON.
	reflect.TypeFor[ast.JsonFormat](), reflect.TypeFor[ast.JsonReturning](), reflect.TypeFor[ast.JsonOutput](), reflect.TypeFor[ast.JsonArgument](),
	reflect.TypeFor[ast.JsonBehavior](), reflect.TypeFor[ast.JsonValueExpr](), reflect.TypeFor[ast.JsonFuncExpr](), reflect.TypeFor[ast.JsonIsPredicate](),
	reflect.TypeFor[ast.JsonKeyValue](), reflect.TypeFor[ast.JsonObjectConstructor](), reflect.TypeFor[ast.JsonArrayConstructor](),
	reflect.TypeFor[ast.JsonArrayQueryConstructor](), reflect.TypeFor[ast.JsonAggConstructor](), reflect.TypeFor[ast.JsonObjectAgg](),
	reflect.TypeFor[ast.JsonArrayAgg](), reflect.TypeFor[ast.JsonParseExpr](), reflect.TypeFor[ast.JsonScalarExpr](), reflect.TypeFor[ast.JsonSerializeExpr](),
	reflect.TypeFor[ast.JsonTable](), reflect.TypeFor[ast.JsonTableColumn](), reflect.TypeFor[ast.JsonTablePathSpec](),

	// Of statements that change data, which are allowed inside an EXPLAIN.
	reflect.TypeFor[ast.OnConflictClause](), reflect.TypeFor[ast.InferClause](), reflect.TypeFor[ast.IndexElem](), reflect.TypeFor[ast.MultiAssignRef](),
	reflect.TypeFor[ast.SetToDefault](), reflect.TypeFor[ast.MergeWhenClause](), reflect.TypeFor[ast.ReturningClause](), reflect.TypeFor[ast.ReturningOption](),
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

var trinoGrammar = sync.OnceValue(func() *sqlGrammar {
	rules := postgresRules{
		operators: wordSet(trinoOperators),
		explain:   wordSet("type format"),
	}
	return rules.grammar()
})

func readTrino(t *sqlText, l *sqlLook) error {
	if !areShows(t.statements) {
		return readByPostgres(t, l, trinoGrammar())
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

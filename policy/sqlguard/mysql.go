package sqlguard

import (
	"reflect"
	"strings"
	"sync"

	"github.com/sqlc-dev/marino/ast"
	"github.com/sqlc-dev/marino/auth"
	"github.com/sqlc-dev/marino/parser"
	"github.com/sqlc-dev/marino/types"
)

var sqlMySQL = sqlDialect{
	lexis:    sqlLexis{backticks: true, hash: true, dashSpace: true, marks: "(),.:=<>+-*/%^|&~!@?"},
	read:     readMySQL,
	harmless: sync.OnceValue(func() map[string]bool { return wordSet(mysqlFunctions) }),
}

func readMySQL(t *sqlText, l *sqlLook) error {
	tree, warnings, err := parser.New().ParseSQL(t.whole)
	if err != nil || len(warnings) > 0 {
		return errNotParsed
	}
	statements := make([]any, len(tree))
	for i, s := range tree {
		statements[i] = s
	}
	return mysqlGrammar().read(l, t, statements)
}

var mysqlGrammar = sync.OnceValue(func() *sqlGrammar {
	rules := map[reflect.Type]sqlRule{}
	for _, t := range mysqlNodes {
		rules[t] = nil
	}
	add := func(t reflect.Type, rule sqlRule) { rules[t] = rule }
	add(ruleOf(mysqlQuery))
	add(ruleOf(func(l *sqlLook, _ *ast.SetOprStmt) { l.kind("select") }))
	add(ruleOf(mysqlCall))
	add(ruleOf(func(l *sqlLook, f *ast.AggregateFuncExpr) { l.calls(strings.ToLower(f.F)) }))
	add(ruleOf(func(l *sqlLook, f *ast.WindowFuncExpr) { l.calls(strings.ToLower(f.Name)) }))
	add(ruleOf(mysqlVariable))
	add(ruleOf(mysqlExplained))
	add(ruleOf(mysqlInsert))
	add(ruleOf(func(l *sqlLook, _ *ast.UpdateStmt) { l.changes("update") }))
	add(ruleOf(func(l *sqlLook, _ *ast.DeleteStmt) { l.changes("delete") }))
	return &sqlGrammar{
		rules:   rules,
		queries: mysqlQueries,
		wrapper: func(reflect.Type) bool { return false },
		with:    reflect.TypeFor[*ast.WithClause](),
		names:   mysqlNames,
		table:   mysqlTable,
	}
})

// mysqlQueries are the statements to which a rule above gives their kind.
var mysqlQueries = []reflect.Type{
	reflect.TypeFor[ast.SelectStmt](), reflect.TypeFor[ast.SetOprStmt](), reflect.TypeFor[ast.InsertStmt](), reflect.TypeFor[ast.UpdateStmt](), reflect.TypeFor[ast.DeleteStmt](),
}

func mysqlNames(clause any) (queries []sqlNamed, recursive bool) {
	with := clause.(*ast.WithClause)
	for _, q := range with.CTEs {
		queries = append(queries, sqlNamed{q.Name.L, q})
	}
	return queries, with.IsRecursive
}

func mysqlTable(node any) (name sqlTable, plain string, ok bool) {
	t, ok := node.(*ast.TableName)
	if !ok {
		return sqlTable{}, "", false
	}
	if t.Schema.O == "" {
		plain = t.Name.L
	}
	return sqlTable{Schema: t.Schema.O, Table: t.Name.O}, plain, true
}

func mysqlQuery(l *sqlLook, s *ast.SelectStmt) {
	l.kind("select")
	if s.SelectIntoOpt != nil {
		l.effect("SELECT INTO writes a file or a variable")
	}
	if s.LockInfo != nil || len(s.MoreLockInfos) > 0 {
		l.effect("FOR UPDATE and the like lock rows")
	}
}

func mysqlCall(l *sqlLook, f *ast.FuncCallExpr) {
	switch {
	case f.Schema.L != "":
		l.calls(f.Schema.L + "." + f.FnName.L)
	case f.FnName.L == ast.DateLiteral || f.FnName.L == ast.TimeLiteral || f.FnName.L == ast.TimestampLiteral:
		// DATE '2026-01-31': a constant, which the parser writes as a call.
	default:
		l.calls(f.FnName.L)
	}
}

func mysqlVariable(l *sqlLook, v *ast.VariableExpr) {
	if v.Value != nil {
		l.effect("@%s is assigned to", v.Name)
	}
}

func mysqlInsert(l *sqlLook, s *ast.InsertStmt) {
	if s.IsReplace {
		l.changes("replace")
		return
	}
	l.changes("insert")
}

func mysqlExplained(l *sqlLook, e *ast.ExplainStmt) {
	switch {
	case e.Analyze:
		l.effect("EXPLAIN ANALYZE runs the statement")
	case e.IntoVar != "":
		l.effect("EXPLAIN INTO assigns to a variable")
	case e.Stmt == nil || e.Explore:
		l.effect("this form of EXPLAIN is not known to be without effects")
	}
	l.explaining = true
}

// mysqlNodes are the nodes that say nothing against reading by themselves.
var mysqlNodes = []reflect.Type{
	// Names, constants, types.
	reflect.TypeFor[ast.CIStr](), reflect.TypeFor[ast.TableName](), reflect.TypeFor[ast.ColumnName](), reflect.TypeFor[ast.ColumnNameExpr](),
	reflect.TypeFor[ast.ValueExprBase](), reflect.TypeFor[ast.ParamMarkerExprBase](), reflect.TypeFor[ast.Datum](), reflect.TypeFor[types.FieldType](),

	// Parts of a query.
	reflect.TypeFor[ast.SelectStmtOpts](), reflect.TypeFor[ast.SetOprSelectList](), reflect.TypeFor[ast.CommonTableExpression](),
	reflect.TypeFor[ast.FieldList](), reflect.TypeFor[ast.SelectField](), reflect.TypeFor[ast.WildCardField](),
	reflect.TypeFor[ast.TableRefsClause](), reflect.TypeFor[ast.Join](), reflect.TypeFor[ast.OnCondition](), reflect.TypeFor[ast.TableSource](), reflect.TypeFor[ast.IndexHint](),
	reflect.TypeFor[ast.GroupByClause](), reflect.TypeFor[ast.HavingClause](), reflect.TypeFor[ast.OrderByClause](), reflect.TypeFor[ast.ByItem](), reflect.TypeFor[ast.Limit](),
	reflect.TypeFor[ast.WindowSpec](), reflect.TypeFor[ast.PartitionByClause](), reflect.TypeFor[ast.FrameClause](), reflect.TypeFor[ast.FrameExtent](), reflect.TypeFor[ast.FrameBound](),

	// Expressions.
	reflect.TypeFor[ast.BinaryOperationExpr](), reflect.TypeFor[ast.UnaryOperationExpr](), reflect.TypeFor[ast.ParenthesesExpr](), reflect.TypeFor[ast.RowExpr](),
	reflect.TypeFor[ast.BetweenExpr](), reflect.TypeFor[ast.PatternInExpr](), reflect.TypeFor[ast.PatternLikeOrIlikeExpr](), reflect.TypeFor[ast.PatternRegexpExpr](),
	reflect.TypeFor[ast.IsNullExpr](), reflect.TypeFor[ast.IsTruthExpr](), reflect.TypeFor[ast.CaseExpr](), reflect.TypeFor[ast.WhenClause](),
	reflect.TypeFor[ast.SubqueryExpr](), reflect.TypeFor[ast.ExistsSubqueryExpr](), reflect.TypeFor[ast.CompareSubqueryExpr](), reflect.TypeFor[ast.PositionExpr](),
	reflect.TypeFor[ast.DefaultExpr](), reflect.TypeFor[ast.MatchAgainst](), reflect.TypeFor[ast.SetCollationExpr](), reflect.TypeFor[ast.FuncCastExpr](),
	reflect.TypeFor[ast.TimeUnitExpr](), reflect.TypeFor[ast.GetFormatSelectorExpr](), reflect.TypeFor[ast.TrimDirectionExpr](),
	reflect.TypeFor[ast.JSONTableExpr](), reflect.TypeFor[ast.JSONTableColumn](), reflect.TypeFor[ast.JSONValueExpr](), reflect.TypeFor[ast.JSONOnResponse](),

	// SHOW, DESCRIBE, EXPLAIN FOR CONNECTION.
	reflect.TypeFor[ast.ShowStmt](), reflect.TypeFor[ast.ExplainForStmt](), reflect.TypeFor[auth.UserIdentity](), reflect.TypeFor[auth.RoleIdentity](),

	// Of statements that change data, which are allowed inside an EXPLAIN.
	reflect.TypeFor[ast.Assignment](), reflect.TypeFor[ast.DeleteTableList](), reflect.TypeFor[ast.ValuesExpr](),
}

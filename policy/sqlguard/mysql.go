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
	statements, warnings, err := parser.New().ParseSQL(t.whole)
	if err != nil || len(warnings) > 0 {
		return errNotParsed
	}
	return readTree(l, mysqlGrammar{}, t, statements)
}

type mysqlGrammar struct{}

func (mysqlGrammar) wrapper(reflect.Type) bool { return false }

func (mysqlGrammar) query(statement any) bool {
	switch statement.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt, *ast.InsertStmt, *ast.UpdateStmt, *ast.DeleteStmt:
		return true
	}
	return false
}

func (mysqlGrammar) with(part any) (queries []sqlNamed, recursive, ok bool) {
	with, ok := part.(*ast.WithClause)
	if !ok || with == nil {
		return nil, false, false
	}
	for _, q := range with.CTEs {
		queries = append(queries, sqlNamed{q.Name.L, q})
	}
	return queries, with.IsRecursive, true
}

func (mysqlGrammar) table(node any) (name sqlTable, plain string, ok bool) {
	t, ok := node.(*ast.TableName)
	if !ok {
		return sqlTable{}, "", false
	}
	if t.Schema.O == "" {
		plain = t.Name.L
	}
	return sqlTable{Schema: t.Schema.O, Table: t.Name.O}, plain, true
}

func (mysqlGrammar) rule(l *sqlLook, node any) (known bool) {
	switch n := node.(type) {
	default:
		return false
	case *ast.SelectStmt:
		l.kind("select")
		if n.SelectIntoOpt != nil {
			l.effect("SELECT INTO writes a file or a variable")
		}
		if n.LockInfo != nil || len(n.MoreLockInfos) > 0 {
			l.effect("FOR UPDATE and the like lock rows")
		}
	case *ast.SetOprStmt:
		l.kind("select")
	case *ast.FuncCallExpr:
		mysqlCall(l, n)
	case *ast.AggregateFuncExpr:
		l.calls(strings.ToLower(n.F))
	case *ast.WindowFuncExpr:
		l.calls(strings.ToLower(n.Name))
	case *ast.VariableExpr:
		if n.Value != nil {
			l.effect("@%s is assigned to", n.Name)
		}
	case *ast.ExplainStmt:
		mysqlExplained(l, n)
	case *ast.InsertStmt:
		if n.IsReplace {
			l.changes("replace")
		} else {
			l.changes("insert")
		}
	case *ast.UpdateStmt:
		l.changes("update")
	case *ast.DeleteStmt:
		l.changes("delete")

	// The rest say nothing against reading by themselves.
	// Names, constants, types.
	case *ast.CIStr, *ast.TableName, *ast.ColumnName, *ast.ColumnNameExpr, *ast.ValueExprBase, *ast.ParamMarkerExprBase, *ast.Datum,
		*types.FieldType:
	// Parts of a query.
	case *ast.SelectStmtOpts, *ast.SetOprSelectList, *ast.CommonTableExpression, *ast.FieldList, *ast.SelectField, *ast.WildCardField,
		*ast.TableRefsClause, *ast.Join, *ast.OnCondition, *ast.TableSource, *ast.IndexHint, *ast.GroupByClause, *ast.HavingClause,
		*ast.OrderByClause, *ast.ByItem, *ast.Limit, *ast.WindowSpec, *ast.PartitionByClause, *ast.FrameClause, *ast.FrameExtent,
		*ast.FrameBound:
	// Expressions.
	case *ast.BinaryOperationExpr, *ast.UnaryOperationExpr, *ast.ParenthesesExpr, *ast.RowExpr, *ast.BetweenExpr, *ast.PatternInExpr,
		*ast.PatternLikeOrIlikeExpr, *ast.PatternRegexpExpr, *ast.IsNullExpr, *ast.IsTruthExpr, *ast.CaseExpr, *ast.WhenClause,
		*ast.SubqueryExpr, *ast.ExistsSubqueryExpr, *ast.CompareSubqueryExpr, *ast.PositionExpr, *ast.DefaultExpr, *ast.MatchAgainst,
		*ast.SetCollationExpr, *ast.FuncCastExpr, *ast.TimeUnitExpr, *ast.GetFormatSelectorExpr, *ast.TrimDirectionExpr,
		*ast.JSONTableExpr, *ast.JSONTableColumn, *ast.JSONValueExpr, *ast.JSONOnResponse:
	// SHOW, DESCRIBE, EXPLAIN FOR CONNECTION.
	case *ast.ShowStmt, *ast.ExplainForStmt, *auth.UserIdentity, *auth.RoleIdentity:
	// Of statements that change data, which are allowed inside an EXPLAIN.
	case *ast.Assignment, *ast.DeleteTableList, *ast.ValuesExpr:
	}
	return true
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

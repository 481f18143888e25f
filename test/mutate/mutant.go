package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// A mutant is one change to the code.
type mutant struct {
	id       int
	name     string // the same when lines move: file, function, change, and which of several alike
	position string // file:line:column
	fate     fate
}

type fate string

const (
	untried   fate = ""
	killed    fate = "killed"
	timedOut  fate = "timed out" // counts as killed
	survived  fate = "survived"
	unreached fate = "not reached"
)

func (m *mutant) survives() bool { return m.fate == survived || m.fate == unreached }

// An edit puts text around the source from start to end, or in its place.
type edit struct {
	start, end    token.Pos
	before, after string
	replace       bool // with before
}

// mutator collects the mutants of one package. What is mutated:
//
//   - comparisons are negated, and < > moved by one to <= >= and back;
//   - conditions are negated; && and || take each other's place;
//   - a guard, an if that leaves, is passed by (but for err != nil, which is a
//     matter of fault injection);
//   - + - * / % on numbers take each other's place, += -= ++ -- too;
//   - calls whose result nobody takes, assignments, break and continue are removed
//     (but for panic, and for Lock and Unlock: without them tests hang, or pass by luck);
//   - true and false that are returned take each other's place.
//
// Each mutant is an expression that does what the original does unless it is
// switched on. Operands are evaluated as often, and in the order, as in the original.
type mutator struct {
	fset    *token.FileSet
	info    *types.Info
	mutants []*mutant
	alike   map[string]int

	// of the file and the function at hand
	source   []byte
	file     string
	function string
	edits    []edit
}

func (m *mutator) text(n ast.Node) string {
	return string(m.source[m.offset(n.Pos()):m.offset(n.End())])
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

// add makes a mutant of n and returns its number.
func (m *mutator) add(n ast.Node, format string, args ...any) int {
	const most = 100
	change := []rune(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
	if len(change) > most {
		change = append(change[:most], '…')
	}
	name := fmt.Sprintf("%s %s: %s", m.file, m.function, string(change))
	if m.alike[name]++; m.alike[name] > 1 {
		name = fmt.Sprintf("%s (%d)", name, m.alike[name])
	}
	p := m.fset.Position(n.Pos())
	id := len(m.mutants) + 1
	m.mutants = append(m.mutants, &mutant{id: id, name: name, position: fmt.Sprintf("%s:%d:%d", m.file, p.Line, p.Column)})
	return id
}

func (m *mutator) around(n ast.Node, before, after string) {
	m.edits = append(m.edits, edit{start: n.Pos(), end: n.End(), before: before, after: after})
}

// visit mutates a node; it is a function for ast.Inspect.
func (m *mutator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		m.function = functionName(n)
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.BlockStmt:
		m.statements(n.List)
	case *ast.CaseClause:
		m.statements(n.Body)
	case *ast.CommClause:
		m.statements(n.Body)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, clause := range n.Body.List {
				for _, e := range clause.(*ast.CaseClause).List {
					m.condition(e)
				}
			}
		}
	case *ast.IfStmt:
		m.guard(n)
		m.condition(n.Cond)
	case *ast.ForStmt:
		m.condition(n.Cond)
	case *ast.ReturnStmt:
		for _, e := range n.Results {
			if text := m.text(e); text == "true" || text == "false" {
				m.negate(e, "%s -> %v", text, text == "false")
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			m.condition(n.X)
		}
	case *ast.IncDecStmt:
		m.step(n, n.X, nil, n.Tok)
	case *ast.AssignStmt:
		if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
			m.step(n, n.Lhs[0], n.Rhs[0], n.Tok)
		}
	case *ast.BinaryExpr:
		if m.constant(n) {
			return false
		}
		m.binary(n)
	}
	return true
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

func (m *mutator) constant(e ast.Expr) bool { return m.info.Types[e].Value != nil }

// isBool tells an expression whose value bool can take the place of.
func (m *mutator) isBool(e ast.Expr) bool {
	t := m.info.TypeOf(e)
	return t == types.Typ[types.Bool] || t == types.Typ[types.UntypedBool]
}

func (m *mutator) isNumber(e ast.Expr) bool {
	basic, ok := m.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsInteger|types.IsFloat) != 0
}

func (m *mutator) negate(e ast.Expr, format string, args ...any) {
	if m.isBool(e) {
		m.around(e, "((", fmt.Sprintf(") != mutant__(%d))", m.add(e, format, args...)))
	}
}

// condition negates what is neither a comparison nor made of conditions: those are
// met on the way down.
func (m *mutator) condition(e ast.Expr) {
	switch e := e.(type) {
	case nil, *ast.BinaryExpr:
	case *ast.ParenExpr:
		m.condition(e.X)
	case *ast.UnaryExpr:
		if e.Op != token.NOT {
			m.negate(e, "%s -> !", m.text(e))
		}
	default:
		if !m.constant(e) {
			m.negate(e, "%[1]s -> !%[1]s", m.text(e))
		}
	}
}

// otherwise uses text in place of a condition.
func (m *mutator) otherwise(e ast.Expr, text string) {
	if m.isBool(e) {
		id := m.add(e, "%s -> %s", m.text(e), text)
		m.around(e, fmt.Sprintf("(mutant__(%d) && (%s) || original__(%d) && (", id, text, id), "))")
	}
}

var (
	negation = map[token.Token]token.Token{token.EQL: token.NEQ, token.NEQ: token.EQL,
		token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR}
	boundary = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}
	logical  = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
	numeric  = map[token.Token]token.Token{token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL}
	helper   = map[token.Token]string{token.ADD: "add__", token.SUB: "sub__", token.MUL: "mul__", token.QUO: "quo__", token.REM: "rem__"}
)

func (m *mutator) binary(e *ast.BinaryExpr) {
	x, y := m.text(e.X), m.text(e.Y)
	if to, ok := logical[e.Op]; ok {
		m.otherwise(e, fmt.Sprintf("(%s) %s (%s)", x, to, y))
		m.condition(e.X)
		m.condition(e.Y)
	}
	if to, ok := negation[e.Op]; ok {
		m.negate(e, "%s -> %s %s %s", m.text(e), x, to, y)
	}
	if to, ok := boundary[e.Op]; ok {
		m.otherwise(e, fmt.Sprintf("%s %s %s", x, to, y))
	}
	if to, ok := numeric[e.Op]; ok && m.isNumber(e) {
		id := m.add(e, "%s -> %s %s %s", m.text(e), x, to, y)
		m.around(e, fmt.Sprintf("%s(%d, ", helper[e.Op], id), ")")
		m.edits = append(m.edits, edit{start: e.OpPos, end: e.OpPos + token.Pos(len(e.Op.String())), before: ",", replace: true})
	}
}

// step turns a step up into one down, and back. The target is evaluated twice, so
// that it must not do anything.
func (m *mutator) step(n ast.Stmt, target, by ast.Expr, op token.Token) {
	if !m.isNumber(target) || calls(target) {
		return
	}
	name := map[token.Token]string{token.INC: "--", token.DEC: "++", token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}[op]
	if by != nil {
		id := m.add(n, "%s -> %s", m.text(n), name)
		m.around(by, fmt.Sprintf("step__(%d, %s, ", id, m.text(target)), ")")
		return
	}
	assign := map[token.Token]string{token.INC: "+=", token.DEC: "-="}[op]
	id := m.add(n, "%s -> %s", m.text(n), name)
	m.edits = append(m.edits, edit{start: target.End(), end: n.End(), before: fmt.Sprintf(" %s step__(%d, %s, 1)", assign, id, m.text(target)), replace: true})
}

func calls(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		_, call := n.(*ast.CallExpr)
		found = found || call
		return !found
	})
	return found
}

// guard passes by an if that leaves.
func (m *mutator) guard(n *ast.IfStmt) {
	if n.Else != nil || len(n.Body.List) == 0 || !m.isBool(n.Cond) || m.errorCheck(n.Cond) {
		return
	}
	switch n.Body.List[len(n.Body.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		id := m.add(n, "if %s -> if false", m.text(n.Cond))
		m.around(n.Cond, fmt.Sprintf("(original__(%d) && (", id), "))")
	}
}

// errorCheck tells err != nil.
func (m *mutator) errorCheck(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	return ok && b.Op == token.NEQ && m.text(b.Y) == "nil" && types.Identical(m.info.TypeOf(b.X), types.Universe.Lookup("error").Type())
}

// statements removes those of a list that can go.
func (m *mutator) statements(list []ast.Stmt) {
	for _, n := range list {
		switch s := n.(type) {
		case *ast.ExprStmt:
			call, ok := s.X.(*ast.CallExpr)
			if !ok || m.spared(call) {
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || m.text(s.Lhs[0]) == "_" {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
				continue
			}
		default:
			continue
		}
		id := m.add(n, "remove %s", m.text(n))
		m.around(n, fmt.Sprintf("if original__(%d) { ", id), " }")
	}
}

func (m *mutator) spared(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "panic"
	case *ast.SelectorExpr:
		switch f.Sel.Name {
		case "Lock", "Unlock", "RLock", "RUnlock":
			return true
		}
	}
	return false
}

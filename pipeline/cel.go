package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/document"
)

// Limits of an expression.
const (
	maxCost       = 1_000_000 // of one evaluation, in the units of CEL
	maxExpression = 16 << 10  // characters
)

// expression is a CEL expression, compiled once and evaluated by any number of runs.
type expression struct {
	source  string
	program cel.Program
}

// environment is what every expression sees, and the same for all of them.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return newEnvironment(
		cel.Variable("input", cel.StringType),
		cel.Variable("output", cel.DynType),
		cel.Variable("outputs", object),
		cel.Variable("prior", object),
		cel.Variable("metadata", object),
		cel.Variable("response", cel.DynType),
		cel.Variable("error", cel.DynType),
		cel.Variable("iteration", cel.IntType),
		cel.Variable("visits", cel.MapType(cel.StringType, cel.IntType)),
		cel.Variable("goals", cel.ListType(cel.MapType(cel.StringType, cel.StringType))),
	)
})

var object = cel.MapType(cel.StringType, cel.DynType)

// newEnvironment has the rules that hold for all expressions.
func newEnvironment(variables ...cel.EnvOption) (*cel.Env, error) {
	return cel.NewEnv(append([]cel.EnvOption{
		cel.CustomTypeAdapter(adapter{}),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true), // not that of the machine
		cel.ParserExpressionSizeLimit(maxExpression),
	}, variables...)...)
}

// compileExpression reads and checks source.
func compileExpression(source string) (*expression, *cel.Type, error) {
	env, err := environment()
	if err != nil {
		return nil, nil, err
	}
	return compileIn(env, source)
}

func compileIn(env *cel.Env, source string) (*expression, *cel.Type, error) {
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, nil, expressionError(issues)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.CustomDecoratorV2(orderLiterals))
	if err != nil {
		return nil, nil, err
	}
	return &expression{source, program}, ast.OutputType(), nil
}

// compileCondition is compileExpression for what must yield a boolean. What the
// checker cannot know, being a stage's own output, is found when it is evaluated.
func compileCondition(source string) (*expression, error) {
	x, yields, err := compileExpression(source)
	return condition(x, yields, err)
}

func condition(x *expression, yields *cel.Type, err error) (*expression, error) {
	if err != nil {
		return nil, err
	}
	if !yields.IsExactType(cel.BoolType) && !yields.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it yields %s, not a boolean", yields)
	}
	return x, nil
}

// expressionError is the first thing that is wrong, and where.
func expressionError(issues *cel.Issues) error {
	errs := issues.Errors()
	if len(errs) == 0 {
		return issues.Err()
	}
	text := strings.TrimSuffix(errs[0].Message, " (in container '')")
	return fmt.Errorf("%s (character %d)", text, errs[0].Location.Column()+1)
}

func (x *expression) eval(s *scope) (ref.Val, error) {
	v, _, err := x.program.Eval(s)
	return v, err
}

// adapter makes CEL values of ours, such that nothing depends on the order in which
// Go walks a map.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return ordered{types.NewStringInterfaceMap(a, v), v}
	case []any:
		return types.NewDynamicList(a, v)
	case json.Number:
		if u, err := strconv.ParseUint(string(v), 10, 64); err == nil { // one beyond int64 may still be a uint
			return types.Uint(u)
		}
		return exact(v)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// ordered is an object that iterates in key order.
type ordered struct {
	traits.Mapper
	origin map[string]any // what it was made of; nil: an expression's own literal
}

// Iterator implements traits.Iterable.
func (o ordered) Iterator() traits.Iterator {
	keys := []ref.Val{}
	for it := o.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	sortKeys(keys)
	return types.NewRefValList(adapter{}, keys).Iterator()
}

// orderLiterals makes objects that an expression writes down iterate like others.
func orderLiterals(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if c, ok := i.(interpreter.InterpretableConstructor); ok && c.Type() == types.MapType {
		return orderedLiteral{c}, nil
	}
	return i, nil
}

type orderedLiteral struct {
	interpreter.InterpretableConstructor
}

// Exec implements interpreter.InterpretableV2.
func (l orderedLiteral) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return ordering(l.InterpretableConstructor.Exec(frame))
}

// Eval implements interpreter.Interpretable.
func (l orderedLiteral) Eval(ctx interpreter.Activation) ref.Val {
	return ordering(l.InterpretableConstructor.Eval(ctx))
}

func ordering(v ref.Val) ref.Val {
	if m, ok := v.(traits.Mapper); ok {
		return ordered{m, nil}
	}
	return v
}

// exact is a number that none of CEL's types can hold exactly. It passes through a
// template unchanged and can be compared for equality. Ordering it or counting with
// it is an error: a judgement over a rounded number is none.
type exact json.Number

var exactType = types.NewOpaqueType("number")

// ConvertToNative implements ref.Val.
func (n exact) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s cannot be held exactly as %v", document.Brief(string(n)), t)
}

// ConvertToType implements ref.Val.
func (n exact) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return exactType
	}
	return types.NewErr("%s cannot be held exactly as %s", document.Brief(string(n)), t.TypeName())
}

// Equal implements ref.Val. What CEL's own types hold is never equal to it.
func (n exact) Equal(other ref.Val) ref.Val {
	o, ok := other.(exact)
	return types.Bool(ok && canon.SameNumber(string(n), string(o)))
}

// Type implements ref.Val.
func (n exact) Type() ref.Type { return exactType }

// Value implements ref.Val.
func (n exact) Value() any { return json.Number(n) }

// valueOf is what an expression yielded as a value of an Envelope. It may share
// parts with the Envelope that the expression saw.
func valueOf(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v <= math.MaxInt64 {
			return int64(v), nil
		}
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double, types.String, exact:
		return Normalize(v.Value())
	case ordered:
		if v.origin != nil {
			return v.origin, nil
		}
		return objectOf(v)
	case traits.Mapper:
		return objectOf(ordered{v, nil})
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			item, err := valueOf(it.Next())
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	}
	return nil, fmt.Errorf("it yields a %s, which is no JSON value; convert it with string()", v.Type().TypeName())
}

func objectOf(v ordered) (any, error) {
	object := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("it yields an object whose key %v is a %s, not a string", key.Value(), key.Type().TypeName())
		}
		item, err := valueOf(v.Get(key))
		if err != nil {
			return nil, err
		}
		object[string(name)] = item
	}
	return object, nil
}

// sortKeys orders the keys of an object: strings by their bytes, and by their type
// before that, which only literals mix.
func sortKeys(keys []ref.Val) {
	slices.SortFunc(keys, func(a, b ref.Val) int {
		if by := strings.Compare(a.Type().TypeName(), b.Type().TypeName()); by != 0 {
			return by
		}
		switch a := a.(type) {
		case types.String:
			return cmp.Compare(a, b.(types.String))
		case types.Int:
			return cmp.Compare(a, b.(types.Int))
		case types.Uint:
			return cmp.Compare(a, b.(types.Uint))
		}
		return strings.Compare(fmt.Sprint(a.Value()), fmt.Sprint(b.Value())) // booleans
	})
}

// scope is what the expressions of one stage see. It reads the Envelope and never
// changes it, and is for one goroutine.
type scope struct {
	p        *Pipeline
	env      *Envelope
	agent    *Agent
	brought  map[string]any // by the stage itself, just now; nil: see its slot
	response *Response      // to its interrupt; nil: there was none
	err      *StageError    // with which it is entered; nil: none
}

func (x *executor) scope(v *visit, brought map[string]any) *scope {
	return &scope{x.p, x.env, v.agent, brought, v.entry.Response, v.entry.Error}
}

// ResolveName implements cel.Activation.
func (s *scope) ResolveName(name string) (any, bool) {
	switch name {
	case "input":
		return s.env.RawInput, true
	case "output":
		return orNull(s.output()), true
	case "outputs":
		outputs := slotsOf(s.env.Outputs)
		if s.brought != nil {
			outputs[s.agent.OutputKey] = s.brought
		}
		return outputs, true
	case "prior":
		return slotsOf(s.env.Prior), true
	case "metadata":
		if s.env.Metadata == nil {
			return map[string]any{}, true
		}
		return s.env.Metadata, true
	case "response":
		return s.response.object(), true
	case "error":
		return s.err.object(), true
	case "iteration":
		return s.env.Iteration, true
	case "visits": // of every stage; one that never started has none
		all := make(map[string]any, len(s.p.Agents))
		for _, a := range s.p.Agents {
			all[a.Name] = s.env.Visits[a.Name]
		}
		return all, true
	case "goals":
		all := make([]any, len(s.env.Goals))
		for i, g := range s.env.Goals {
			all[i] = map[string]any{"name": g.Name, "status": g.Status}
		}
		return all, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (s *scope) Parent() interpreter.Activation { return nil }

// output is the stage's own: what it has just brought, else what stands in its slot.
func (s *scope) output() map[string]any {
	if s.brought != nil {
		return s.brought
	}
	return s.env.Outputs[s.agent.OutputKey]
}

func slotsOf(slots map[string]map[string]any) map[string]any {
	all := make(map[string]any, len(slots))
	for key, slot := range slots {
		all[key] = slot
	}
	return all
}

// object is the answer with all its members, so that asking for one that was left
// empty is no error. nil: there was no answer.
func (r *Response) object() any {
	if r == nil {
		return nil
	}
	object := map[string]any{
		"interrupt_id": r.InterruptID, "kind": r.Kind, "action": r.Action, "approved": nil,
		"text": r.Text, "data": r.Data, "note": r.Note, "by": r.By,
	}
	if r.Approved != nil {
		object["approved"] = *r.Approved
	}
	return object
}

func (e *StageError) object() any {
	if e == nil {
		return nil
	}
	return map[string]any{"code": e.Code, "message": e.Message, "retryable": e.Retryable}
}

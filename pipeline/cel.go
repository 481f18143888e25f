package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
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
	object := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.CustomTypeAdapter(adapter{}),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true), // not that of the machine
		cel.ParserExpressionSizeLimit(maxExpression),
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

// compileExpression reads and checks source.
func compileExpression(source string) (*expression, *cel.Type, error) {
	env, err := environment()
	if err != nil {
		return nil, nil, err
	}
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
		return exactNumber(v)
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

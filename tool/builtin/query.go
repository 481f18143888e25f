package builtin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"github.com/tipstaff/tipstaff/flow"
)

// queryCost bounds the work of one query.
const queryCost = 1_000_000

var jsonQueryTool = definition{
	name:        "json_query",
	title:       "Query a JSON value",
	description: "Evaluates a CEL expression in which value is the given JSON value. Numbers of the value are doubles, as CEL has it for JSON.",
	input: `{"type":"object","additionalProperties":false,"required":["value","expr"],"properties":{
		"value":{"description":"any JSON value"},
		"expr":{"type":"string","minLength":1,"maxLength":10000,"description":"like value.items.filter(i, i.open).map(i, i.name)"}}}`,
	output: `{"type":"object","additionalProperties":false,"required":["result"],"properties":{"result":{}}}`,
	hints:  annotations{ReadOnly: true},
}

type jsonQueryArgs struct {
	Value json.RawMessage `json:"value"`
	Expr  string          `json:"expr"`
}

type queried struct {
	Result any `json:"result"`
}

func newCELEnv() (*celEnv, error) {
	env, err := cel.NewEnv(
		cel.Variable("value", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		ext.Strings(), ext.Lists(), ext.Sets(), ext.Math(), ext.Encoders(),
	)
	if err != nil {
		return nil, err
	}
	measured := &celEnv{Env: env}
	return measured, measured.measured()
}

func (s *Server) jsonQuery(c call, in jsonQueryArgs) (answer, error) {
	var value any
	if err := json.Unmarshal(in.Value, &value); err != nil {
		return answer{}, fmt.Errorf("value is not JSON: %w", err)
	}
	env, err := s.cel()
	if err != nil {
		return answer{}, err
	}
	compiled, issues := env.Compile(in.Expr)
	if issues.Err() != nil {
		return answer{}, fmt.Errorf("the expression cannot be compiled: %w", issues.Err())
	}
	program, err := env.Program(compiled, cel.CostLimit(queryCost), cel.InterruptCheckFrequency(1), cel.CustomDecoratorV2(env.measure))
	if err != nil {
		return answer{}, fmt.Errorf("the expression cannot be used: %w", err)
	}
	out, _, err := program.ContextEval(c.ctx, map[string]any{"value": value})
	if err != nil {
		return answer{}, fmt.Errorf("the expression failed: %w", err)
	}
	n := &nativeValue{ctx: c.ctx}
	result, err := n.of(out, 0)
	if err != nil {
		return answer{}, err
	}
	return answer{value: queried{result}, text: string(flow.JSON(result))}, nil
}

// nativeValue brings a CEL value into a form that JSON has.
type nativeValue struct {
	ctx    context.Context
	values int // so far
}

func (n *nativeValue) of(v ref.Val, depth int) (any, error) {
	n.values++
	switch {
	case depth > 1000:
		return nil, fmt.Errorf("the result is nested too deeply")
	case n.values > mostValues:
		return nil, fmt.Errorf("the result has more than %d values: query a part of it", mostValues)
	case n.values%1000 == 0 && n.ctx.Err() != nil:
		return nil, n.ctx.Err()
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		return number(float64(v))
	case types.String:
		return string(v), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.Time.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case traits.Mapper:
		return n.object(v, depth)
	case traits.Lister:
		return n.list(v, depth)
	}
	return nil, fmt.Errorf("the result is of type %s, which JSON does not have", v.Type().TypeName())
}

func number(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the result is %v, which JSON does not have", f)
	}
	return f, nil
}

func (n *nativeValue) list(v traits.Lister, depth int) (any, error) {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := n.of(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func (n *nativeValue) object(v traits.Mapper, depth int) (any, error) {
	object := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the result has a key of type %s: JSON has text alone", key.Type().TypeName())
		}
		item, err := n.of(v.Get(key), depth+1)
		if err != nil {
			return nil, err
		}
		object[string(name)] = item
	}
	return object, nil
}

const (
	mostWork   = 2_000_000 // of one call of a function, in comparisons or bytes
	mostValues = 1_000_000 // in a list that is put together, and in a result
)

// CEL counts what an expression costs after the fact, and can be interrupted between
// the rounds of a macro alone. Functions that do more than look at each argument once
// are therefore measured before they are called: the work that they would make of
// their arguments.
var heavy = map[string]func(args []ref.Val) int{
	"distinct":        func(a []ref.Val) int { return times(size(a[0]), weight(a[0])) },
	"sort":            func(a []ref.Val) int { return times(20, weight(a[0])) },
	"sets.contains":   crossed,
	"sets.equivalent": crossed,
	"sets.intersects": crossed,
	"hasOnly":         crossed,
	"hasAny":          crossed,
	"hasAll":          crossed,
	"hasExactly":      crossed,
	"lists.range":     func(a []ref.Val) int { n, _ := a[0].(types.Int); return int(min(max(n, 0), mostWork+1)) },
	"replace": func(a []ref.Val) int {
		if len(a) < 3 {
			return 0
		}
		return size(a[0]) + times(size(a[0])/max(size(a[1]), 1)+1, size(a[2]))
	},
	"join": func(a []ref.Val) int {
		sep := 0
		if len(a) > 1 {
			sep = size(a[1])
		}
		return weight(a[0])*bytesWeighed + times(size(a[0]), sep)
	},
	"indexOf":     func(a []ref.Val) int { return searched(a) },
	"lastIndexOf": func(a []ref.Val) int { return searched(a) },
}

func crossed(a []ref.Val) int {
	if len(a) < 2 {
		return 0
	}
	return max(times(size(a[0]), weight(a[1])), times(size(a[1]), weight(a[0])))
}

func searched(a []ref.Val) int {
	if len(a) < 2 {
		return 0
	}
	return times(size(a[0]), 1+size(a[1])/bytesWeighed)
}

// times multiplies as far as it matters.
func times(a, b int) int { return min(a, mostWork+1) * min(b, mostWork+1) }

// size is the number of a list's items, or of a text's bytes.
func size(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case traits.Sizer:
		n, _ := v.Size().(types.Int)
		return int(n)
	}
	return 1
}

// bytesWeighed are compared as fast as anything else is looked at once.
const bytesWeighed = 64

// weight is what it takes to look at all of a value.
func weight(v ref.Val) int {
	total := 0
	var add func(ref.Val)
	add = func(v ref.Val) {
		if total++; total > mostWork {
			return
		}
		switch v := v.(type) {
		case types.String:
			total += len(v) / bytesWeighed
		case traits.Mapper:
			for it := v.Iterator(); it.HasNext() == types.True && total <= mostWork; {
				key := it.Next()
				add(key)
				add(v.Get(key))
			}
		case traits.Lister:
			for it := v.Iterator(); it.HasNext() == types.True && total <= mostWork; {
				add(it.Next())
			}
		}
	}
	add(v)
	return total
}

// celEnv is what expressions are compiled in, and the functions that are measured.
type celEnv struct {
	*cel.Env
	heavy map[string]*functions.Overload // by name
}

func (e *celEnv) measured() error {
	e.heavy = map[string]*functions.Overload{}
	for name, fn := range e.Functions() {
		if heavy[name] == nil {
			continue
		}
		bindings, err := fn.Bindings()
		if err != nil {
			return err
		}
		for _, b := range bindings {
			if b.Operator == name {
				e.heavy[name] = b
			}
		}
	}
	return nil
}

// measure puts its own calls in the place of those that are heavy, and looks at the
// size of what is put together.
func (e *celEnv) measure(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	c, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	if f := e.heavy[c.Function()]; f != nil {
		return heavyCall{c, f}, nil
	}
	if c.Function() == operators.Add {
		return sum{c}, nil
	}
	return i, nil
}

// heavyCall is a call that is measured once its arguments are known.
type heavyCall struct {
	interpreter.InterpretableCall
	function *functions.Overload
}

// Eval implements interpreter.Interpretable.
func (c heavyCall) Eval(vars interpreter.Activation) ref.Val {
	frame, err := interpreter.NewExecutionFrame(vars)
	if err != nil {
		return types.WrapErr(err)
	}
	defer frame.Close()
	return c.Exec(frame)
}

// Exec implements interpreter.InterpretableV2.
func (c heavyCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	var args []ref.Val
	for _, arg := range c.Args() {
		v := arg.Exec(frame)
		if types.IsUnknownOrError(v) {
			return v
		}
		args = append(args, v)
	}
	if frame.CheckInterrupt() {
		return types.WrapErr(interpreter.InterruptError{})
	}
	if heavy[c.Function()](args) > mostWork {
		return types.NewErr("%s has too much to do: query a part of the value", c.Function())
	}
	switch f := c.function; {
	case len(args) == 1 && f.Unary != nil:
		return f.Unary(args[0])
	case len(args) == 2 && f.Binary != nil:
		return f.Binary(args[0], args[1])
	case f.Function != nil:
		return f.Function(args...)
	}
	return types.NewErr("%s cannot be called like this", c.Function())
}

// sum is an addition, of lists or texts possibly.
type sum struct{ interpreter.InterpretableCall }

// Eval implements interpreter.Interpretable.
func (s sum) Eval(vars interpreter.Activation) ref.Val {
	return s.checked(s.InterpretableCall.Eval(vars))
}

// Exec implements interpreter.InterpretableV2.
func (s sum) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return s.checked(s.InterpretableCall.Exec(frame))
}

func (s sum) checked(v ref.Val) ref.Val {
	switch v.(type) {
	case types.String, types.Bytes:
		if size(v) > mostWork*bytesWeighed/4 {
			return types.NewErr("the text has more than %d bytes", mostWork*bytesWeighed/4)
		}
	case traits.Lister:
		if size(v) > mostValues {
			return types.NewErr("the list has more than %d items", mostValues)
		}
	}
	return v
}

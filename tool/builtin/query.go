package builtin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"

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

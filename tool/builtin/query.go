package builtin

import (
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
	hints:  hints(true, false, false, false),
}

type jsonQueryArgs struct {
	Value json.RawMessage `json:"value"`
	Expr  string          `json:"expr"`
}

type queried struct {
	Result any `json:"result"`
}

type celEnv = cel.Env

func newCELEnv() (*celEnv, error) {
	return cel.NewEnv(
		cel.Variable("value", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		ext.Strings(), ext.Lists(), ext.Sets(), ext.Math(), ext.Encoders(),
	)
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
	program, err := env.Program(compiled, cel.CostLimit(queryCost), cel.InterruptCheckFrequency(1000))
	if err != nil {
		return answer{}, fmt.Errorf("the expression cannot be used: %w", err)
	}
	out, _, err := program.ContextEval(c.ctx, map[string]any{"value": value})
	if err != nil {
		return answer{}, fmt.Errorf("the expression failed: %w", err)
	}
	result, err := native(out, 0)
	if err != nil {
		return answer{}, err
	}
	text, err := encode(result)
	if err != nil {
		return answer{}, err
	}
	return answer{value: queried{result}, text: string(text)}, nil
}

// native brings a CEL value into a form that JSON has.
func native(v ref.Val, depth int) (any, error) {
	if depth > 1000 {
		return nil, fmt.Errorf("the result is nested too deeply")
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
		return nativeMap(v, depth)
	case traits.Lister:
		return nativeList(v, depth)
	}
	return nil, fmt.Errorf("the result is of type %s, which JSON does not have", v.Type().TypeName())
}

func number(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the result is %v, which JSON does not have", f)
	}
	return f, nil
}

func nativeList(v traits.Lister, depth int) (any, error) {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := native(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func nativeMap(v traits.Mapper, depth int) (any, error) {
	object := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the result has a key of type %s: JSON has text alone", key.Type().TypeName())
		}
		item, err := native(v.Get(key), depth+1)
		if err != nil {
			return nil, err
		}
		object[string(name)] = item
	}
	return object, nil
}

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

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/document"
)

// exact is a number that none of CEL's types can hold exactly. It passes through a
// template unchanged and can be compared for equality. Ordering it or counting with
// it is an error: a judgement over a rounded number is none.
type exact json.Number

var exactType = types.NewOpaqueType("number")

// exactNumber is a literal as CEL sees it: one beyond int64 may still be a uint.
func exactNumber(n json.Number) ref.Val {
	if u, err := strconv.ParseUint(string(n), 10, 64); err == nil {
		return types.Uint(u)
	}
	return exact(n)
}

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
		return listOf(v)
	}
	return nil, fmt.Errorf("it yields a %s, which is no JSON value; convert it with string()", v.Type().TypeName())
}

func listOf(v traits.Lister) (any, error) {
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

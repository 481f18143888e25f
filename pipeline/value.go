package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/document"
)

// MaxDepth is how deep objects and lists may be nested in a value.
const MaxDepth = 64

// Decode reads one JSON value in the types that values of an Envelope have: nil,
// bool, string, int64, float64, json.Number for literals that these two cannot hold
// exactly, []any and map[string]any. What [canon.Decode] refuses is a
// [*canon.Fault].
func Decode(raw []byte) (any, error) {
	v, err := canon.Decode(raw, MaxDepth)
	if err != nil {
		return nil, err
	}
	return Normalize(v)
}

// DecodeObject is Decode for what must be an object.
func DecodeObject(raw []byte) (map[string]any, error) {
	v, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("an object belongs here, not %s", typeName(v))
	}
	return object, nil
}

// Normalize is a copy of v in the types of values. It also takes an int, and numbers
// that are literals still. Anything else is refused with its path (a [*canon.Fault]),
// never dropped.
func Normalize(v any) (any, error) {
	n, fault := normalize(v, 0)
	if fault != nil {
		slices.Reverse(fault.Path)
		return nil, fault
	}
	return n, nil
}

// NormalizeObject is Normalize for an object; nil stays nil.
func NormalizeObject(object map[string]any) (map[string]any, error) {
	n, err := Normalize(object)
	object, _ = n.(map[string]any)
	return object, err
}

// normalize normalises a value. The path of its fault leads from the offender to the
// value.
func normalize(v any, depth int) (any, *canon.Fault) {
	switch v := v.(type) {
	case nil, bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, &canon.Fault{Reason: "the text is not valid UTF-8"}
		}
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &canon.Fault{Reason: fmt.Sprintf("%v is no number in JSON", v)}
		}
		return v, nil
	case json.Number:
		return number(string(v))
	case []any:
		if v == nil {
			return nil, nil
		}
		if depth == MaxDepth {
			return nil, tooDeep()
		}
		c := make([]any, len(v))
		for i, item := range v {
			var fault *canon.Fault
			if c[i], fault = normalize(item, depth+1); fault != nil {
				fault.Path = append(fault.Path, i)
				return nil, fault
			}
		}
		return c, nil
	case map[string]any:
		if v == nil {
			return nil, nil
		}
		if depth == MaxDepth {
			return nil, tooDeep()
		}
		c := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) { // of several offenders the first is named
			item, fault := normalize(v[key], depth+1)
			if !utf8.ValidString(key) {
				fault = &canon.Fault{Reason: "the text is not valid UTF-8"}
			}
			if fault != nil {
				fault.Path = append(fault.Path, key)
				return nil, fault
			}
			c[key] = item
		}
		return c, nil
	}
	return nil, &canon.Fault{Reason: fmt.Sprintf("a %T cannot be stored; use null, booleans, numbers, strings, lists and objects", v)}
}

// number is a literal in the type that holds it exactly. A whole literal stays
// whole however large it is, and one with a point or an exponent stays a float:
// 1 and 1.0 are different.
func number(literal string) (any, *canon.Fault) {
	if !isNumber(literal) {
		return nil, &canon.Fault{Reason: fmt.Sprintf("%q is no number in JSON", document.Brief(literal))}
	}
	if !strings.ContainsAny(literal, ".eE") {
		if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return n, nil
		}
	} else if canon.SafeNumber(literal) {
		if f, err := strconv.ParseFloat(literal, 64); err == nil {
			return f, nil
		}
	}
	return json.Number(literal), nil
}

// isNumber reports whether s is a number as JSON writes it.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

func tooDeep() *canon.Fault {
	return &canon.Fault{Reason: fmt.Sprintf("it is more than %d lists and objects deep", MaxDepth)}
}

// cloneValue copies a normalised value. Strings and numbers cannot be changed and
// stay what they are.
func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneObject(v)
	case []any:
		list := slices.Clone(v)
		for i, item := range list {
			list[i] = cloneValue(item)
		}
		return list
	}
	return v
}

func cloneObject(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	c := make(map[string]any, len(object))
	for key, v := range object {
		c[key] = cloneValue(v)
	}
	return c
}

// AppendValue appends the canonical encoding of a value: JSON with keys sorted by
// their bytes and no spaces. Literals of json.Number stay as they are and floats
// with a whole value keep a ".0", so that a value and what Decode makes of its
// encoding are the same. RFC 8785 would make one of 1 and 1.0, and round what lies
// beyond 2^53.
//
// v is normalised: what [Normalize] would refuse panics here, being a fault of ours.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return canon.AppendString(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v)
	case json.Number:
		return append(b, v...)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendValue(b, item)
		}
		return append(b, ']')
	case []string: // of an Envelope: no value has one
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = canon.AppendString(b, item)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, key := range sortedKeys(v) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(canon.AppendString(b, key), ':')
			b = AppendValue(b, v[key])
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("pipeline: a %T is no value", v))
}

// EncodeValue is AppendValue to nothing.
func EncodeValue(v any) json.RawMessage { return AppendValue(nil, v) }

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// appendFloat writes the shortest text that reads as f again, with a point or an
// exponent in it.
func appendFloat(b []byte, f float64) []byte {
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	begin := len(b)
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if format == 'f' && !strings.Contains(string(b[begin:]), ".") {
		b = append(b, ".0"...)
	}
	return b
}

// Equal reports whether two values are the same to a rule: strings and booleans
// exactly, numbers by their decimal value (1 equals 1.0, and no float comes
// between), null with null, lists and objects by their parts. What is no value
// equals nothing.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		other, ok := b.(bool)
		return ok && a == other
	case string:
		other, ok := b.(string)
		return ok && a == other
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, Equal)
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, other, Equal)
	}
	x, ok := literal(a)
	if !ok {
		return false
	}
	y, ok := literal(b)
	return ok && canon.SameNumber(x, y)
}

// literal is a number in the decimal digits that it is written with. Of a float
// these are the shortest that read as it again: they are what its author wrote.
func literal(v any) (string, bool) {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), true
	case int:
		return strconv.Itoa(v), true
	case float64:
		s := strconv.FormatFloat(v, 'e', -1, 64)
		return s, isNumber(s) // NaN and infinities are none
	case json.Number:
		return string(v), isNumber(string(v))
	}
	return "", false
}

// typeName is the JSON type of a value, in words.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

package pipeline

import (
	"encoding/json"
	"strconv"

	"github.com/tipstaff/tipstaff/canon"
)

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
		return ok && equalLists(a, other)
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && equalObjects(a, other)
	}
	x, ok := literal(a)
	if !ok {
		return false
	}
	y, ok := literal(b)
	return ok && canon.SameNumber(x, y)
}

func equalLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equalObjects(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for key, v := range a {
		if w, ok := b[key]; !ok || !Equal(v, w) {
			return false
		}
	}
	return true
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

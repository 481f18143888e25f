package pipeline

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/document"
)

// MaxDepth is how deep objects and lists may be nested in a value.
const MaxDepth = 64

// ValueError is why something cannot be a value, and where in it the offender
// stands: outputs.plan.steps[2].
type ValueError struct {
	Path string // "": the whole
	Text string
}

func (e *ValueError) Error() string {
	if e.Path == "" {
		return e.Text
	}
	return e.Path + ": " + e.Text
}

// Normalize is v in the types that values of an Envelope have: nil, bool, string,
// int64, float64, json.Number for literals that these two cannot hold exactly,
// []any and map[string]any. What is in these types is returned as it is, not
// copied; other Go types are converted by the rules of encoding/json, except that
// a float stays one though its value is whole. What cannot be converted is refused
// with its path (a [*ValueError]), never dropped.
func Normalize(v any) (any, error) {
	return normalize(v, place{}, 0)
}

// NormalizeObject is Normalize for what must be an object; nil stays nil.
func NormalizeObject(v any) (map[string]any, error) {
	n, err := Normalize(v)
	if err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case map[string]any:
		return n, nil
	case nil:
		return nil, nil
	}
	return nil, &ValueError{Text: fmt.Sprintf("an object belongs here, not %s", typeName(n))}
}

// place is where a value stands, written down only when somebody asks.
type place struct {
	above *place
	key   string
	index int // of an item; the key is then empty
	item  bool
}

func (p *place) member(key string) place { return place{above: p, key: key} }
func (p *place) at(i int) place          { return place{above: p, index: i, item: true} }

func (p *place) String() string {
	if p == nil || p.above == nil {
		return ""
	}
	above := p.above.String()
	switch {
	case p.item:
		return above + "[" + strconv.Itoa(p.index) + "]"
	case above == "":
		return document.Brief(p.key)
	}
	return above + "." + document.Brief(p.key)
}

func (p *place) refuse(format string, args ...any) error {
	return &ValueError{Path: p.String(), Text: fmt.Sprintf(format, args...)}
}

// Texts of refusals that the door and the decoder share.
const (
	notUTF8 = "the string is not UTF-8"
	tooDeep = "nested more than %d deep"
	noJSON  = "%v is no number in JSON"
	noType  = "a %s cannot be stored; use null, booleans, numbers, strings, lists and objects"
)

func normalize(v any, p place, depth int) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, p.refuse(notUTF8)
		}
		return v, nil
	case float64:
		return finite(v, p)
	case int:
		return int64(v), nil
	case json.Number:
		return number(string(v), p)
	case []any:
		if v == nil {
			return nil, nil
		}
		return normalizeList(v, p, depth)
	case map[string]any:
		if v == nil {
			return nil, nil
		}
		return normalizeObject(v, p, depth)
	}
	return convert(v, p, depth)
}

func finite(f float64, p place) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, p.refuse(noJSON, f)
	}
	return f, nil
}

// number is a literal in the type that holds it exactly. A whole literal stays
// whole however large it is, and one with a point or an exponent stays a float:
// 1 and 1.0 are different.
func number(literal string, p place) (any, error) {
	if !isNumber(literal) {
		return nil, p.refuse("%q is no number in JSON", document.Brief(literal))
	}
	if !strings.ContainsAny(literal, ".eE") {
		if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return n, nil
		}
		return json.Number(literal), nil
	}
	if canon.SafeNumber(literal) {
		f, err := strconv.ParseFloat(literal, 64)
		return f, err
	}
	return json.Number(literal), nil
}

// isNumber reports whether s is a number as JSON writes it.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

// normalizeList returns the list itself if nothing in it had to be converted.
func normalizeList(list []any, p place, depth int) (any, error) {
	if depth >= MaxDepth {
		return nil, p.refuse(tooDeep, MaxDepth)
	}
	var changed []any
	for i, item := range list {
		n, err := normalize(item, p.at(i), depth+1)
		if err != nil {
			return nil, err
		}
		if changed == nil && !same(n, item) {
			changed = make([]any, len(list))
			copy(changed, list[:i])
		}
		if changed != nil {
			changed[i] = n
		}
	}
	if changed != nil {
		return changed, nil
	}
	return list, nil
}

// normalizeObject, like normalizeList, copies only what has to change. Of several
// offenders the first by key is named.
func normalizeObject(object map[string]any, p place, depth int) (any, error) {
	if depth >= MaxDepth {
		return nil, p.refuse(tooDeep, MaxDepth)
	}
	var changed map[string]any
	for _, key := range sortedKeys(object) {
		at := p.member(key)
		if !utf8.ValidString(key) {
			return nil, at.refuse(notUTF8)
		}
		n, err := normalize(object[key], at, depth+1)
		if err != nil {
			return nil, err
		}
		if same(n, object[key]) {
			continue
		}
		if changed == nil {
			changed = make(map[string]any, len(object))
			for k, v := range object {
				changed[k] = v
			}
		}
		changed[key] = n
	}
	if changed != nil {
		return changed, nil
	}
	return object, nil
}

// same reports whether normalising changed nothing: the very list or object, or a
// scalar of a type that was right already.
func same(n, v any) bool {
	switch n := n.(type) {
	case []any:
		list, ok := v.([]any)
		return ok && len(n) == len(list) && (len(n) == 0 || &n[0] == &list[0])
	case map[string]any:
		object, ok := v.(map[string]any)
		return ok && reflect.ValueOf(n).Pointer() == reflect.ValueOf(object).Pointer()
	case json.Number:
		_, ok := v.(json.Number)
		return ok
	case int64:
		_, ok := v.(int64)
		return ok
	case float64:
		_, ok := v.(float64)
		return ok
	case string:
		_, ok := v.(string)
		return ok
	case bool:
		_, ok := v.(bool)
		return ok
	}
	return v == nil
}

// convert is the way in for Go types that values do not have.
func convert(v any, p place, depth int) (any, error) {
	if n, ok, err := convertMarshaler(v, p, depth); ok {
		return n, err
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Bool:
		return r.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return number(strconv.FormatUint(r.Uint(), 10), p)
	case reflect.Float32: // as it prints: 0.1, not 0.10000000149011612
		f, _ := strconv.ParseFloat(strconv.FormatFloat(r.Float(), 'g', -1, 32), 64)
		return finite(f, p)
	case reflect.Float64:
		return finite(r.Float(), p)
	case reflect.String:
		return normalize(r.String(), p, depth)
	case reflect.Pointer:
		if r.IsNil() {
			return nil, nil
		}
		if depth >= MaxDepth { // pointers may lead in a circle
			return nil, p.refuse(tooDeep, MaxDepth)
		}
		return normalize(r.Elem().Interface(), p, depth+1)
	case reflect.Slice, reflect.Array:
		return convertList(r, p, depth)
	case reflect.Map:
		return convertMap(r, p, depth)
	case reflect.Struct:
		return convertStruct(r, p, depth)
	}
	return nil, p.refuse(noType, r.Type())
}

// convertMarshaler converts what knows its own JSON or text.
func convertMarshaler(v any, p place, depth int) (_ any, ok bool, _ error) {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
		return nil, true, nil
	}
	switch v := v.(type) {
	case json.RawMessage:
		n, err := decode(v, p, depth)
		return n, true, err
	case json.Marshaler:
		raw, err := v.MarshalJSON()
		if err != nil {
			return nil, true, p.refuse("%v", err)
		}
		n, err := decode(raw, p, depth)
		return n, true, err
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return nil, true, p.refuse("%v", err)
		}
		n, err := normalize(string(text), p, depth)
		return n, true, err
	}
	return nil, false, nil
}

func convertList(r reflect.Value, p place, depth int) (any, error) {
	if r.Kind() == reflect.Slice && r.IsNil() {
		return nil, nil
	}
	if r.Type().Elem().Kind() == reflect.Uint8 {
		return nil, p.refuse("bytes cannot be stored; encode them as a string")
	}
	list := make([]any, r.Len())
	for i := range list {
		list[i] = r.Index(i).Interface()
	}
	return normalizeList(list, p, depth)
}

func convertMap(r reflect.Value, p place, depth int) (any, error) {
	if r.IsNil() {
		return nil, nil
	}
	if r.Type().Key().Kind() != reflect.String {
		return nil, p.refuse("the keys of an object are strings; a %s has others", r.Type())
	}
	object := make(map[string]any, r.Len())
	for entries := r.MapRange(); entries.Next(); {
		object[entries.Key().String()] = entries.Value().Interface()
	}
	return normalizeObject(object, p, depth)
}

// convertStruct takes exported fields under their JSON names.
func convertStruct(r reflect.Value, p place, depth int) (any, error) {
	object := make(map[string]any, r.NumField())
	for _, f := range reflect.VisibleFields(r.Type()) {
		name, options, tagged := jsonName(f)
		if name == "-" && options == "" || !f.IsExported() || f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct {
			continue
		}
		v, err := r.FieldByIndexErr(f.Index)
		if err != nil { // inside an embedded pointer that is nil
			continue
		}
		if omitted(v, options) {
			continue
		}
		object[name] = v.Interface()
	}
	return normalizeObject(object, p, depth)
}

func jsonName(f reflect.StructField) (name, options string, tagged bool) {
	name, options, _ = strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		return f.Name, options, false
	}
	return name, options, true
}

func omitted(v reflect.Value, options string) bool {
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitzero":
			if v.IsZero() {
				return true
			}
		case "omitempty":
			switch v.Kind() {
			case reflect.Map, reflect.Slice, reflect.Array, reflect.String:
				return v.Len() == 0
			case reflect.Struct:
				return false
			}
			return v.IsZero()
		}
	}
	return false
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

package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// MaxEnvelope is how many bytes the stored form of an Envelope has at most.
const MaxEnvelope = 12 << 20

// schema is the version of the stored form. There has been no other.
const schema = 1

// stored is what stands in a file or a blob.
type stored struct {
	Schema int64 `json:"schema"`
	Envelope
}

// EncodeEnvelope is the stored form: every field, times with their nanoseconds, the
// version of the schema, in the canonical encoding of values.
func EncodeEnvelope(e *Envelope) []byte {
	return appendField(nil, reflect.ValueOf(stored{schema, *e}))
}

// Shown is an Envelope as surfaces give it: with where its run stands.
type Shown struct {
	*Envelope
	State     string `json:"state"`
	Condition string `json:"condition,omitempty"`
	LastSeq   int64  `json:"last_seq"`
}

// MarshalJSON keeps the types of values, as the stored form does.
func (s Shown) MarshalJSON() ([]byte, error) {
	return appendField(nil, reflect.ValueOf(placed{*s.Envelope, s.State, s.Condition, s.LastSeq})), nil
}

type placed struct {
	Envelope
	State     string `json:"state"`
	Condition string `json:"condition,omitempty"`
	LastSeq   int64  `json:"last_seq"`
}

// DecodeEnvelope reads the stored form back, and nothing else: what EncodeEnvelope
// would have written in another way it did not write.
func DecodeEnvelope(raw []byte) (*Envelope, error) {
	var version struct{ Schema json.Number }
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, fmt.Errorf("the stored Envelope cannot be read: %w", err)
	}
	if version.Schema.String() != fmt.Sprint(schema) {
		return nil, fmt.Errorf("the stored Envelope has schema %q; this version reads %d", version.Schema, schema)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	d.DisallowUnknownFields()
	var s stored
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("the stored Envelope cannot be read: %w", err)
	}
	e := &s.Envelope
	if err := e.settle(); err != nil {
		return nil, fmt.Errorf("the stored Envelope cannot be read: %w", err)
	}
	if !bytes.Equal(EncodeEnvelope(e), raw) {
		return nil, fmt.Errorf("the stored Envelope is not in its canonical form")
	}
	return e, nil
}

// settle gives values their types after encoding/json, and checks what must be one
// of a closed set.
func (e *Envelope) settle() (err error) {
	if e.TerminalReason != "" {
		if _, err = ParseReason(string(e.TerminalReason)); err != nil {
			return err
		}
	}
	if e.Outcome != e.TerminalReason.Outcome() {
		return fmt.Errorf("outcome is %q, but terminal_reason %q", e.Outcome, e.TerminalReason)
	}
	if err := settleObject(&e.Metadata, "metadata"); err != nil {
		return err
	}
	for _, slots := range []map[string]map[string]any{e.Outputs, e.Prior} {
		for _, key := range sortedKeys(slots) {
			object := slots[key]
			if err := settleObject(&object, key); err != nil {
				return err
			}
			slots[key] = object
		}
	}
	for i := range e.Interrupts {
		in := &e.Interrupts[i]
		if err := settleObject(&in.Data, "interrupts"); err != nil {
			return err
		}
		if in.Response != nil {
			if in.Response.Data, err = Normalize(in.Response.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

func settleObject(object *map[string]any, key string) error {
	if *object == nil {
		return nil
	}
	root := place{}
	n, err := normalizeObject(*object, root.member(key), 0)
	if err != nil {
		return err
	}
	*object = n.(map[string]any)
	return nil
}

// Size is how many bytes the stored form has. It costs, like [Envelope.DataDigest],
// what has changed.
func (e *Envelope) Size() int {
	rest := *e
	rest.Outputs, rest.Prior, rest.RawInput = nil, nil, ""
	e.slots.look(e)
	size := len(EncodeEnvelope(&rest)) + e.slots.input.size - len(`""`)
	for _, all := range []struct {
		there bool
		slots []slot
	}{{e.Outputs != nil, e.slots.outputs}, {e.Prior != nil, e.slots.prior}} {
		if !all.there {
			continue
		}
		size += len(`{}`) - len(`null`) + max(0, len(all.slots)-1) // and its commas
		for _, s := range all.slots {
			size += len(appendText(nil, s.key)) + len(`:`) + s.size
		}
	}
	return size
}

// layout is the fields of a struct by their JSON names, sorted.
type layout []field

type field struct {
	name     string
	index    []int
	optional bool // left out while it has no value
}

// layouts of everything in a stored Envelope.
var layouts = layoutsOf(reflect.TypeFor[placed](), layoutsOf(reflect.TypeFor[stored](), map[reflect.Type]layout{}))

func layoutsOf(t reflect.Type, known map[reflect.Type]layout) map[reflect.Type]layout {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return layoutsOf(t.Elem(), known)
	case reflect.Struct:
	default:
		return known
	}
	if _, ok := known[t]; ok || t == reflect.TypeFor[time.Time]() {
		return known
	}
	var l layout
	for _, f := range reflect.VisibleFields(t) {
		name, options, tagged := jsonName(f)
		if !tagged || name == "-" {
			continue
		}
		l = append(l, field{name, f.Index, options == "omitempty"})
		layoutsOf(f.Type, known)
	}
	slices.SortFunc(l, func(a, b field) int { return strings.Compare(a.name, b.name) })
	known[t] = l
	return known
}

// appendField appends a field of an Envelope, whatever its type.
func appendField(b []byte, v reflect.Value) []byte {
	switch x := v.Interface().(type) {
	case time.Time:
		return append(x.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
	case tipstaff.USD:
		return appendText(b, x.String())
	case map[string]any:
		if x == nil {
			return append(b, "null"...)
		}
		return AppendValue(b, x)
	}
	switch v.Kind() {
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Int64:
		return AppendValue(b, v.Int())
	case reflect.Bool:
		return AppendValue(b, v.Bool())
	case reflect.Pointer:
		return appendField(b, v.Elem())
	case reflect.Interface:
		return AppendValue(b, v.Interface())
	case reflect.Slice:
		return appendList(b, v)
	case reflect.Map:
		return appendMap(b, v)
	}
	return appendStruct(b, v)
}

func appendStruct(b []byte, v reflect.Value) []byte {
	b = append(b, '{')
	first := true
	for _, f := range layouts[v.Type()] {
		part := v.FieldByIndex(f.index)
		if f.optional && part.IsZero() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendText(b, f.name), ':')
		b = appendField(b, part)
	}
	return append(b, '}')
}

func appendList(b []byte, v reflect.Value) []byte {
	if v.IsNil() {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendField(b, v.Index(i))
	}
	return append(b, ']')
}

func appendMap(b []byte, v reflect.Value) []byte {
	if v.IsNil() {
		return append(b, "null"...)
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, key.String()), ':')
		b = appendField(b, v.MapIndex(key))
	}
	return append(b, '}')
}

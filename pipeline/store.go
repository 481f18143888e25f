package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
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
	return AppendValue(nil, asValue(reflect.ValueOf(stored{schema, *e})))
}

// Shown is an Envelope as surfaces give it: with where its run stands.
type Shown struct {
	Envelope
	State     string `json:"state"`
	Condition string `json:"condition,omitempty"`
	LastSeq   int64  `json:"last_seq"`
}

// MarshalJSON keeps the types of values, as the stored form does.
func (s Shown) MarshalJSON() ([]byte, error) {
	return AppendValue(nil, asValue(reflect.ValueOf(s))), nil
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
		if err = e.TerminalReason.Check(); err != nil {
			return err
		}
	}
	if e.Outcome != e.TerminalReason.Outcome() {
		return fmt.Errorf("outcome is %q, but terminal_reason %q", e.Outcome, e.TerminalReason)
	}
	if e.Metadata, err = NormalizeObject(e.Metadata); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	for _, slots := range []map[string]map[string]any{e.Outputs, e.Prior} {
		for _, key := range sortedKeys(slots) {
			if slots[key], err = NormalizeObject(slots[key]); err != nil {
				return fmt.Errorf("%s: %w", document.Brief(key), err)
			}
		}
	}
	for i := range e.Interrupts {
		in := &e.Interrupts[i]
		if in.Data, err = NormalizeObject(in.Data); err == nil && in.Response != nil {
			in.Response.Data, err = Normalize(in.Response.Data)
		}
		if err != nil {
			return fmt.Errorf("interrupts: %w", err)
		}
	}
	return nil
}

// Size is how many bytes the stored form has.
func (e *Envelope) Size() int { return len(EncodeEnvelope(e)) }

// asValue is a part of an Envelope as a value: structs by the names in their tags, times
// and amounts as texts.
func asValue(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case tipstaff.USD:
		return x.String()
	case map[string]any:
		return orNull(x)
	case []string:
		if x != nil {
			return x
		}
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Int64:
		return v.Int()
	case reflect.Bool:
		return v.Bool()
	case reflect.Pointer:
		return asValue(v.Elem())
	case reflect.Interface:
		return v.Interface()
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = asValue(v.Index(i))
		}
		return list
	case reflect.Map:
		if v.IsNil() {
			return nil
		}
		object := make(map[string]any, v.Len())
		for entries := v.MapRange(); entries.Next(); {
			object[entries.Key().String()] = asValue(entries.Value())
		}
		return object
	}
	object := make(map[string]any, v.NumField())
	addFields(object, v)
	return object
}

// addFields adds the fields of a struct, and of those in it that have no name.
func addFields(object map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch part := v.Field(i); {
		case v.Type().Field(i).Anonymous:
			addFields(object, part)
		case name == "", name == "-", options == "omitempty" && part.IsZero():
		default:
			object[name] = asValue(part)
		}
	}
}

func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}

// Clone is a deep copy that shares nothing with e and keeps every type: whole
// numbers and floats, nil and empty. It keeps the identity too; only forks get a
// new one.
func (e *Envelope) Clone() *Envelope { return clone(reflect.ValueOf(e)).Interface().(*Envelope) }

// clone copies whatever an Envelope holds. Fields that are not exported, which only
// times have, are shared.
func clone(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return v
		}
	}
	switch c := reflect.New(v.Type()).Elem(); v.Kind() {
	case reflect.Pointer:
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(clone(v.Elem()))
		return c
	case reflect.Interface:
		return reflect.ValueOf(cloneValue(v.Interface()))
	case reflect.Slice:
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(clone(v.Index(i)))
		}
		return c
	case reflect.Map:
		if object, ok := v.Interface().(map[string]any); ok {
			return reflect.ValueOf(cloneObject(object))
		}
		c.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for entries := v.MapRange(); entries.Next(); {
			c.SetMapIndex(entries.Key(), clone(entries.Value()))
		}
		return c
	case reflect.Struct:
		c.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(clone(v.Field(i)))
			}
		}
		return c
	}
	return v
}

// DataDigest names the data of a run: the groups input, state and progress without
// times, identity, counters and records. Two runs that stand at the same place with
// the same data have one digest, whatever it took them to come there.
//
// It is SHA-256 of the canonical encoding of a list of these fields, in which the raw
// input and every slot of outputs and prior stand as digests of their own.
func (e *Envelope) DataDigest() string { return newSlots(e).digest(e) }

// slotCache remembers digests from turn to turn, so that a turn costs what it changes
// and not what the Envelope holds. Slots are replaced, never changed in place, and the
// raw input stays.
type slotCache struct {
	input          string
	outputs, prior map[string]slot
}

type slot struct {
	of     map[string]any
	digest string
	size   int
}

func newSlots(e *Envelope) *slotCache {
	return &slotCache{flow.Digest(canon.AppendString(nil, e.RawInput)), map[string]slot{}, map[string]slot{}}
}

func (c *slotCache) digest(e *Envelope) string {
	of := func(v any) any { return asValue(reflect.ValueOf(v)) }
	b := AppendValue(nil, []any{c.input, of(e.Metadata), e.Pipeline, e.PipelineDigest, of(e.StageOrder), e.CurrentStage, e.Epoch,
		of(e.Frontier), of(e.ActiveStages), of(e.CompletedStages), of(e.FailedStages), of(e.SkippedStages), of(e.Goals), e.CurrentStageNumber,
		of(e.Rounds), of(e.Feedback), of(e.Waivers)})
	b = appendDigests(append(b[:len(b)-1], ','), c.outputs, e.Outputs)
	b = appendDigests(append(b, ','), c.prior, e.Prior)
	return flow.Digest(append(b, ']'))
}

// appendDigests appends those of slots, by their keys. It brings known up to date.
func appendDigests(b []byte, known map[string]slot, slots map[string]map[string]any) []byte {
	b = append(b, '{')
	for i, key := range sortedKeys(slots) {
		s, ok := known[key]
		if object := slots[key]; object == nil {
			s = slot{size: len("null")}
		} else if !ok || reflect.ValueOf(s.of).Pointer() != reflect.ValueOf(object).Pointer() {
			encoded := EncodeValue(object)
			s = slot{object, flow.Digest(encoded), len(encoded)}
		}
		known[key] = s
		if i > 0 {
			b = append(b, ',')
		}
		b = append(canon.AppendString(b, key), `:"`...)
		b = append(append(b, s.digest...), '"')
	}
	return append(b, '}')
}

// perVisit is more than what one visit adds to the lists of an Envelope, its texts
// not counted.
const perVisit = 2048

// grow counts what a visit adds to the Envelope.
func (x *executor) grow(v *visit) {
	x.size += perVisit + len(v.control.Feedback) + len(v.control.Summary)
	if v.status == statusSuccess {
		x.size += len(v.encoded) + len(EncodeValue(v.control.Metadata))
	}
	if v.failure != nil {
		x.size += 3 * len(v.failure.Message)
	}
	if i := v.control.Interrupt; i != nil {
		x.size += len(i.Question) + len(i.Message) + len(EncodeValue(i.Data))
	}
}

// fits reports whether the Envelope can take an output beside what it has. Branches
// of a batch ask at once, so nothing is changed here.
func (x *executor) fits(encoded json.RawMessage) bool {
	return x.size+len(encoded) <= MaxEnvelope
}

// dataSize is how many bytes the data of the run has: its input, metadata and slots.
func (x *executor) dataSize() int {
	e := x.env
	size := len(e.RawInput) + len(EncodeValue(e.Metadata))
	appendDigests(nil, x.slots.outputs, e.Outputs)
	appendDigests(nil, x.slots.prior, e.Prior)
	for key := range e.Outputs {
		size += x.slots.outputs[key].size
	}
	for key := range e.Prior {
		size += x.slots.prior[key].size
	}
	return size
}

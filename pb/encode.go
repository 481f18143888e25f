package pb

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// ToJSON is the JSON form of a message, which [FromJSON] reads: fields in the order of
// core.proto, map keys sorted. Fields that know absence are left out where they are
// not set; lists, maps, numbers and texts always stand there.
//
// A bytes field that [CheckJSON] refuses, a word outside of its closed set, an
// unknown value of an enum, a negative amount of money and a time that no calendar
// has are [*FieldError]s.
func ToJSON(m proto.Message) ([]byte, error) {
	var w writer
	if err := w.message(m.ProtoReflect()); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

// Check reports the first field of a message that cannot be taken, as a
// [*FieldError]: what a stranger sent is looked at before it is used.
func Check(m proto.Message) error {
	w := writer{sparse: true}
	return w.message(m.ProtoReflect())
}

type writer struct {
	bytes.Buffer
	trail
	sparse bool // leaves out every field that nothing can be wrong with
}

// comma separates what follows from what stands before it, if something does.
func (w *writer) comma() {
	if last := w.Bytes()[w.Len()-1]; last != '{' && last != '[' {
		w.WriteByte(',')
	}
}

// name begins a member; whoever has written its value goes back.
func (w *writer) name(s string) {
	w.member(s)
	w.comma()
	w.Write(flow.JSON(s))
	w.WriteByte(':')
}

func (w *writer) message(m protoreflect.Message) error {
	w.WriteByte('{')
	for _, fd := range w.fields(m) {
		w.name(memberName(fd))
		if err := w.field(fd, m.Get(fd)); err != nil {
			return err
		}
		w.back()
	}
	w.WriteByte('}')
	return nil
}

// fields are those that are written, in the order of the definition.
func (w *writer) fields(m protoreflect.Message) (written []protoreflect.FieldDescriptor) {
	if w.sparse {
		for fd := range m.Range {
			if !harmless(fd) {
				written = append(written, fd)
			}
		}
		slices.SortFunc(written, func(a, b protoreflect.FieldDescriptor) int { return a.Index() - b.Index() })
		return written
	}
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		if fd := all.Get(i); !absent(m, fd) {
			written = append(written, fd)
		}
	}
	return written
}

// harmless: any value that the field can hold will do.
func harmless(fd protoreflect.FieldDescriptor) bool {
	if fd.IsMap() {
		return harmless(fd.MapValue())
	}
	switch fd.Kind() {
	case protoreflect.BoolKind, protoreflect.Int32Kind:
		return true
	case protoreflect.Int64Kind:
		return !isMoney(fd)
	case protoreflect.StringKind:
		_, closed := closedSets[fd.FullName()]
		return !closed
	}
	return false
}

// absent: no JSON value is empty, so a bytes field that is empty is not there.
func absent(m protoreflect.Message, fd protoreflect.FieldDescriptor) bool {
	return !m.Has(fd) && (fd.HasPresence() || isJSON(fd) && !fd.IsList() && !fd.IsMap())
}

func (w *writer) field(fd protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch {
	case fd.IsList():
		return w.list(fd, v.List())
	case fd.IsMap():
		return w.object(fd, v.Map())
	}
	return w.value(fd, v)
}

func (w *writer) list(fd protoreflect.FieldDescriptor, list protoreflect.List) error {
	w.WriteByte('[')
	for i := range list.Len() {
		w.element(i)
		w.comma()
		if err := w.value(fd, list.Get(i)); err != nil {
			return err
		}
		w.back()
	}
	w.WriteByte(']')
	return nil
}

func (w *writer) object(fd protoreflect.FieldDescriptor, entries protoreflect.Map) error {
	var keys []protoreflect.MapKey
	entries.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	w.WriteByte('{')
	for _, k := range keys {
		w.name(k.String())
		if err := w.value(fd.MapValue(), entries.Get(k)); err != nil {
			return err
		}
		w.back()
	}
	w.WriteByte('}')
	return nil
}

func (w *writer) value(fd protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		w.WriteString(strconv.FormatBool(v.Bool()))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return w.integer(fd, v.Int())
	case protoreflect.StringKind:
		w.Write(flow.JSON(v.String()))
		return checkWord(fd, v.String(), w.trail)
	case protoreflect.BytesKind:
		return w.bytes(fd, v.Bytes())
	case protoreflect.EnumKind:
		return w.enum(fd, v.Enum())
	case protoreflect.MessageKind:
		if isTime(fd) {
			return w.time(v.Message())
		}
		return w.message(v.Message())
	default:
		return w.fault(fmt.Sprintf("a field of kind %s has no JSON form", fd.Kind()))
	}
	return nil
}

func (w *writer) integer(fd protoreflect.FieldDescriptor, n int64) error {
	if !isMoney(fd) {
		w.WriteString(strconv.FormatInt(n, 10))
		return nil
	}
	if n < 0 {
		return w.fault("an amount is never negative")
	}
	w.Write(flow.JSON(tipstaff.FormatBound(tipstaff.BoundCostUSD, n)))
	return nil
}

func (w *writer) bytes(fd protoreflect.FieldDescriptor, raw []byte) error {
	if isJSON(fd) {
		w.Write(raw)
		return checkJSON(raw, w.trail, MaxDepth)
	}
	if !utf8.Valid(raw) {
		return w.fault("the text is not valid UTF-8")
	}
	w.Write(flow.JSON(string(raw)))
	return nil
}

func (w *writer) enum(fd protoreflect.FieldDescriptor, n protoreflect.EnumNumber) error {
	word := fd.Enum().Values().ByNumber(n)
	if word == nil {
		return w.fault(fmt.Sprintf("%d is no %s", n, fd.Enum().Name()))
	}
	w.Write(flow.JSON(string(word.Name())))
	return nil
}

func (w *writer) time(m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	stamp := &timestamppb.Timestamp{
		Seconds: m.Get(fields.ByName("seconds")).Int(),
		Nanos:   int32(m.Get(fields.ByName("nanos")).Int()),
	}
	if err := stamp.CheckValid(); err != nil {
		return w.fault("there is no such time")
	}
	w.Write(flow.JSON(stamp.AsTime().Format(time.RFC3339Nano)))
	return nil
}

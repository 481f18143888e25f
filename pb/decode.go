package pb

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
)

// FromJSON reads the JSON form of a message into m, which it clears first: the
// members of an object are the fields of core.proto. A bytes field takes the JSON of
// its member as it stands there, a map to bytes that of the members of an object;
// times are RFC 3339, amounts of money decimal texts.
//
// The stored form of an Envelope has a member schema besides, which must be 1.
//
// A member that is null or not there is a field that is not set. One that no field
// is for, a number that does not fit, a word outside of its closed set and anything
// [CheckJSON] refuses is a [*FieldError], and m is then empty.
func FromJSON(raw []byte, m proto.Message) error {
	proto.Reset(m)
	r := reader{rest: raw}
	err := r.message(m.ProtoReflect())
	if err == nil {
		err = r.end()
	}
	if err != nil {
		proto.Reset(m)
	}
	return err
}

func (r *reader) message(m protoreflect.Message) error {
	if err := r.expect('{', "it is not an object"); err != nil {
		return err
	}
	return r.members(func(name string) error {
		fd := fieldOf(m.Descriptor(), name)
		if fd == nil {
			return r.schema(m.Descriptor(), name)
		}
		if o := fd.ContainingOneof(); o != nil && m.WhichOneof(o) != nil {
			return r.fault("only one of its kind may be given, and " + string(m.WhichOneof(o).Name()) + " is")
		}
		return r.field(m, fd)
	})
}

// schema reads the version of an Envelope's stored form, the one member that no field
// is for.
func (r *reader) schema(md protoreflect.MessageDescriptor, name string) error {
	if name != "schema" || md.FullName() != "tipstaff.core.v1.Envelope" {
		return r.fault("there is no such member")
	}
	switch version, err := r.verbatim(); {
	case err != nil:
		return err
	case string(version) != "1":
		return r.fault(fmt.Sprintf("the Envelope was stored in form %.20s; this version reads 1", version))
	}
	return nil
}

func (r *reader) field(m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	if knowsNull(fd) && r.word("null") {
		return nil
	}
	switch {
	case fd.IsList():
		return r.list(fd, m.Mutable(fd).List())
	case fd.IsMap():
		return r.object(fd, m.Mutable(fd).Map())
	}
	v, err := r.value(fd, m.NewField(fd))
	if err == nil {
		m.Set(fd, v)
	}
	return err
}

// knowsNull: null is that the field is not set. To a field for JSON that knows
// absence, null is a value.
func knowsNull(fd protoreflect.FieldDescriptor) bool {
	if isJSON(fd) {
		return fd.IsMap() || !fd.HasPresence()
	}
	return fd.IsList() || fd.IsMap() || fd.HasPresence()
}

func (r *reader) list(fd protoreflect.FieldDescriptor, list protoreflect.List) error {
	if err := r.expect('[', "it is not a list"); err != nil {
		return err
	}
	return r.elements(func() error {
		v, err := r.value(fd, list.NewElement())
		if err == nil {
			list.Append(v)
		}
		return err
	})
}

func (r *reader) object(fd protoreflect.FieldDescriptor, entries protoreflect.Map) error {
	if err := r.expect('{', "it is not an object"); err != nil {
		return err
	}
	return r.members(func(name string) error {
		v, err := r.value(fd.MapValue(), entries.NewValue())
		if err == nil {
			entries.Set(protoreflect.ValueOfString(name).MapKey(), v)
		}
		return err
	})
}

// expect looks at the beginning of a value. A value that begins in another way is
// read first: whether it is JSON at all comes before what it should be.
func (r *reader) expect(mark byte, otherwise string) error {
	if r.peek() == mark {
		return nil
	}
	if err := r.skip(0); err != nil {
		return err
	}
	return r.fault(otherwise)
}

// value reads one value. A message goes into the given one.
func (r *reader) value(fd protoreflect.FieldDescriptor, into protoreflect.Value) (v protoreflect.Value, err error) {
	switch {
	case isJSON(fd):
		raw, err := r.verbatim()
		return protoreflect.ValueOfBytes(raw), err
	case isTime(fd):
		return into, r.time(into.Message())
	case fd.Kind() == protoreflect.MessageKind:
		return into, r.message(into.Message())
	}
	switch c := r.peek(); {
	case c == '"':
		return r.fromText(fd)
	case c == '-' || '0' <= c && c <= '9':
		return r.fromNumber(fd)
	case fd.Kind() == protoreflect.BoolKind && r.word("true"):
		return protoreflect.ValueOfBool(true), nil
	case fd.Kind() == protoreflect.BoolKind && r.word("false"):
		return protoreflect.ValueOfBool(false), nil
	}
	return v, r.misfit(fd)
}

// verbatim is the text of the next value.
func (r *reader) verbatim() ([]byte, error) {
	r.peek()
	start := r.rest
	if err := r.skip(0); err != nil {
		return nil, err
	}
	return bytes.Clone(start[:len(start)-len(r.rest)]), nil
}

func (r *reader) fromText(fd protoreflect.FieldDescriptor) (v protoreflect.Value, err error) {
	s, err := r.text()
	switch {
	case err != nil:
		return v, err
	case fd.Kind() == protoreflect.StringKind:
		return protoreflect.ValueOfString(s), checkWord(fd, s, r.trail)
	case fd.Kind() == protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(s)), nil
	case isMoney(fd):
		amount, err := tipstaff.ParseBound(tipstaff.BoundCostUSD, s)
		if bad := (*tipstaff.BoundError)(nil); errors.As(err, &bad) {
			return v, r.fault(bad.Message)
		}
		return protoreflect.ValueOfInt64(amount), err
	case fd.Kind() == protoreflect.EnumKind:
		word := fd.Enum().Values().ByName(protoreflect.Name(s))
		if word == nil {
			return v, r.fault(fmt.Sprintf("%q is no %s", s, fd.Enum().Name()))
		}
		return protoreflect.ValueOfEnum(word.Number()), nil
	}
	return v, r.fault(belongs(fd))
}

func (r *reader) fromNumber(fd protoreflect.FieldDescriptor) (v protoreflect.Value, err error) {
	literal, err := r.number()
	if err != nil {
		return v, err
	}
	bits := map[protoreflect.Kind]int{protoreflect.Int32Kind: 32, protoreflect.Int64Kind: 64}[fd.Kind()]
	if bits == 0 || isMoney(fd) {
		return v, r.fault(belongs(fd))
	}
	n, err := strconv.ParseInt(literal, 10, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return v, r.fault(fmt.Sprintf("%.40s does not fit in %d bits", literal, bits))
	case err != nil:
		return v, r.fault(fmt.Sprintf("%.40s is not a whole number", literal))
	case bits == 32:
		return protoreflect.ValueOfInt32(int32(n)), nil
	}
	return protoreflect.ValueOfInt64(n), nil
}

// misfit is a value that cannot be that of the field, or none at all.
func (r *reader) misfit(fd protoreflect.FieldDescriptor) error {
	if err := r.skip(0); err != nil {
		return err
	}
	return r.fault(belongs(fd))
}

func (r *reader) time(m protoreflect.Message) error {
	if err := r.expect('"', "it is not a time in quotes"); err != nil {
		return err
	}
	s, err := r.text()
	if err != nil {
		return err
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(s)); err != nil {
		return r.fault(fmt.Sprintf("%.60q is not a time like 2006-01-02T15:04:05.999999999Z", s))
	}
	if _, fraction, _ := strings.Cut(s, "."); strings.IndexAny(fraction, "Z+-") > len("999999999") {
		return r.fault(fmt.Sprintf("%.60q is finer than a nanosecond", s))
	}
	stamp := timestamppb.New(t)
	if err := stamp.CheckValid(); err != nil {
		return r.fault(fmt.Sprintf("%q is before the year 1 or after 9999", s))
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(stamp.GetSeconds()))
	m.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(stamp.GetNanos()))
	return nil
}

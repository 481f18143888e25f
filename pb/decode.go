package pb

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
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
	err := checkJSON(raw, nil, canon.MaxDepth)
	if err == nil {
		err = new(reader).message(raw, m.ProtoReflect())
	}
	if err != nil {
		proto.Reset(m)
	}
	return err
}

// MaxDepth is how many lists and objects of one JSON value may stand in each other.
const MaxDepth = 64

// CheckJSON reports whether raw is one JSON value that every reader takes for the
// same, as [canon.Decode] does, and at most [MaxDepth] deep. A fault is a
// [*FieldError].
func CheckJSON(raw []byte) error { return checkJSON(raw, nil, MaxDepth) }

func checkJSON(raw []byte, at trail, depth int) error {
	_, err := canon.Decode(raw, depth)
	if fault := (*canon.Fault)(nil); errors.As(err, &fault) {
		return trail(slices.Concat(at, trail(fault.Path))).fault(fault.Reason)
	}
	return err
}

// reader puts JSON that was checked into messages.
type reader struct{ trail }

func (r *reader) message(raw []byte, m protoreflect.Message) error {
	return r.members(raw, func(name string, raw []byte) error {
		fd := fieldOf(m.Descriptor(), name)
		if fd == nil {
			return r.schema(m.Descriptor(), name, raw)
		}
		if o := fd.ContainingOneof(); o != nil && m.WhichOneof(o) != nil {
			return r.fault("only one of its kind may be given, and " + string(m.WhichOneof(o).Name()) + " is")
		}
		return r.field(raw, m, fd)
	})
}

// members reads an object: each is given a name and a value.
func (r *reader) members(raw []byte, each func(name string, raw []byte) error) error {
	if first(raw) != '{' {
		return r.fault("it is not an object")
	}
	for m := range canon.Members(raw) {
		r.member(m.Name)
		if err := each(m.Name, raw[m.Start:m.End]); err != nil {
			return err
		}
		r.back()
	}
	return nil
}

// first is the byte that a value begins with.
func first(raw []byte) byte { return bytes.TrimLeft(raw, " \t\r\n")[0] }

// schema reads the version of an Envelope's stored form, the one member that no field
// is for.
func (r *reader) schema(md protoreflect.MessageDescriptor, name string, version []byte) error {
	if name != "schema" || md.FullName() != "tipstaff.core.v1.Envelope" {
		return r.fault("there is no such member")
	}
	if string(version) != "1" {
		return r.fault(fmt.Sprintf("the Envelope was stored in form %.20s; this version reads 1", version))
	}
	return nil
}

func (r *reader) field(raw []byte, m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	switch {
	case knowsNull(fd) && string(raw) == "null":
		return nil
	case fd.IsList():
		return r.list(raw, fd, m.Mutable(fd).List())
	case fd.IsMap():
		entries := m.Mutable(fd).Map()
		return r.members(raw, func(name string, raw []byte) error {
			v, err := r.value(raw, fd.MapValue(), entries.NewValue())
			if err == nil {
				entries.Set(protoreflect.ValueOfString(name).MapKey(), v)
			}
			return err
		})
	}
	v, err := r.value(raw, fd, m.NewField(fd))
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

func (r *reader) list(raw []byte, fd protoreflect.FieldDescriptor, list protoreflect.List) error {
	if first(raw) != '[' {
		return r.fault("it is not a list")
	}
	for raw := range canon.Elements(raw) {
		r.element(list.Len())
		v, err := r.value(raw, fd, list.NewElement())
		if err != nil {
			return err
		}
		list.Append(v)
		r.back()
	}
	return nil
}

// value reads one value. A message goes into the given one.
func (r *reader) value(raw []byte, fd protoreflect.FieldDescriptor, into protoreflect.Value) (v protoreflect.Value, err error) {
	switch {
	case isJSON(fd):
		return protoreflect.ValueOfBytes(bytes.Clone(raw)), checkJSON(raw, r.trail, MaxDepth)
	case isTime(fd):
		return into, r.time(raw, into.Message())
	case fd.Kind() == protoreflect.MessageKind:
		return into, r.message(raw, into.Message())
	}
	switch c := raw[0]; {
	case c == '"':
		return r.fromText(canon.Unquote(raw), fd)
	case c == '-' || '0' <= c && c <= '9':
		return r.fromNumber(string(raw), fd)
	case fd.Kind() == protoreflect.BoolKind && (c == 't' || c == 'f'):
		return protoreflect.ValueOfBool(c == 't'), nil
	}
	return v, r.fault(belongs(fd))
}

func (r *reader) fromText(s string, fd protoreflect.FieldDescriptor) (v protoreflect.Value, err error) {
	switch {
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

func (r *reader) fromNumber(literal string, fd protoreflect.FieldDescriptor) (v protoreflect.Value, err error) {
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

func (r *reader) time(raw []byte, m protoreflect.Message) error {
	if raw[0] != '"' {
		return r.fault("it is not a time in quotes")
	}
	s := canon.Unquote(raw)
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

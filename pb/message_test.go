package pb

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

// everyMessage gives each a maker of every message in core.proto.
func everyMessage(each func(new func() protoreflect.Message)) {
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		if md := mt.Descriptor(); md.ParentFile() == File_tipstaff_core_v1_core_proto && !md.IsMapEntry() {
			each(mt.New)
		}
		return true
	})
}

func requireSame(t rapid.TB, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Fatalf("not what was sent (-sent +received):\n%s", cmp.Diff(want, got, protocmp.Transform()))
	}
}

// overTheWire is what a receiver makes of a message.
func overTheWire(t rapid.TB, m protoreflect.Message) proto.Message {
	t.Helper()
	raw, err := proto.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	received := m.New().Interface()
	if err := proto.Unmarshal(raw, received); err != nil {
		t.Fatal(err)
	}
	return received
}

// requireTaken: what may be sent arrives, and passes Check.
func requireTaken(t rapid.TB, m protoreflect.Message) {
	t.Helper()
	requireSame(t, overTheWire(t, m), m.Interface())
	if err := Check(m.Interface()); err != nil {
		t.Fatal(err)
	}
}

var shortText = rapid.StringN(0, 8, -1)

// draw fills a message: every field may be set or not, to anything that may be sent.
func draw(t *rapid.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		taken := fd.ContainingOneof() != nil && m.WhichOneof(fd.ContainingOneof()) != nil
		if taken || rapid.IntRange(0, 4).Draw(t, "leave out "+string(fd.Name())) == 0 {
			continue
		}
		drawField(t, m, fd)
	}
}

func drawField(t *rapid.T, m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	few := rapid.IntRange(0, 3)
	switch {
	case fd.IsList():
		list := m.Mutable(fd).List()
		for range few.Draw(t, "length") {
			list.Append(drawValue(t, fd, list.NewElement()))
		}
	case fd.IsMap():
		entries := m.Mutable(fd).Map()
		for range few.Draw(t, "size") {
			key := protoreflect.ValueOfString(shortText.Draw(t, "key")).MapKey()
			entries.Set(key, drawValue(t, fd.MapValue(), entries.NewValue()))
		}
	default:
		m.Set(fd, drawValue(t, fd, m.NewField(fd)))
	}
}

func drawValue(t *rapid.T, fd protoreflect.FieldDescriptor, into protoreflect.Value) protoreflect.Value {
	name := string(fd.Name())
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, name))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, name))
	case protoreflect.Int64Kind:
		if isMoney(fd) {
			return protoreflect.ValueOfInt64(rapid.Int64Min(0).Draw(t, name))
		}
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, name))
	case protoreflect.StringKind:
		if set, closed := closedSets[fd.FullName()]; closed {
			return protoreflect.ValueOfString(rapid.SampledFrom(set).Draw(t, name))
		}
		return protoreflect.ValueOfString(shortText.Draw(t, name))
	case protoreflect.BytesKind:
		if isText(fd) {
			return protoreflect.ValueOfBytes([]byte(shortText.Draw(t, name)))
		}
		return protoreflect.ValueOfBytes([]byte(jsonObject().Draw(t, name)))
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(rapid.IntRange(0, values.Len()-1).Draw(t, name)).Number())
	case protoreflect.MessageKind:
		switch m := into.Message(); fd.Message().Name() {
		case "Timestamp":
			drawTime(t, m)
		case "Envelope": // has its own turn, and takes long
			drawField(t, m, fd.Message().Fields().ByName("outputs"))
		default:
			draw(t, m)
		}
		return into
	}
	panic(fmt.Sprintf("no values for %s of kind %s", fd.FullName(), fd.Kind()))
}

func drawTime(t *rapid.T, m protoreflect.Message) {
	const year1, endOf9999 = -62135596800, 253402300799
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(rapid.Int64Range(year1, endOf9999).Draw(t, "seconds")))
	m.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(rapid.Int32Range(0, 999_999_999).Draw(t, "nanos")))
}

// jsonObject has values that are easily changed on their way: numbers that a float
// cannot hold, 1 and 1.0, spaces.
func jsonObject() *rapid.Generator[string] {
	leaf := rapid.SampledFrom([]string{`null`, `false`, `""`, `"é\u2028\ud83d\ude00"`, `1`, `1.0`, `9007199254740993`, `1e400`, `-0`, `[]`, `{}`, `[1, 2]`, `{"a": {"a":[{}]}}`})
	return rapid.Custom(func(t *rapid.T) string {
		members := rapid.SliceOfN(leaf, 0, 3).Draw(t, "members")
		text := "{"
		for i, v := range members {
			if i > 0 {
				text += ", "
			}
			text += fmt.Sprintf(`"k%d":%s`, i, v)
		}
		return text + "}"
	})
}

// The Envelope, which is most of the wire, and another message each time.
func TestMessagesThatMayBeSentAreTaken(t *testing.T) {
	var others []func() protoreflect.Message
	everyMessage(func(new func() protoreflect.Message) { others = append(others, new) })
	rapid.Check(t, func(t *rapid.T) {
		other := others[rapid.IntRange(0, len(others)-1).Draw(t, "message")]
		for _, m := range []protoreflect.Message{new(Envelope).ProtoReflect(), other()} {
			draw(t, m)
			requireTaken(t, m)
		}
	})
}

// Each field alone, and each word of each closed set: none depends on luck.
func TestEveryFieldAndWordIsTaken(t *testing.T) {
	tried := 0
	everyMessage(func(new func() protoreflect.Message) {
		fields := new().Descriptor().Fields()
		for i := range fields.Len() {
			fd := fields.Get(i)
			for _, v := range telling(fd, new()) {
				m := new()
				m.Set(fd, v)
				if !m.Has(fd) {
					t.Fatalf("%s was not set by %v", fd.FullName(), v)
				}
				requireTaken(t, m)
				tried++
			}
		}
	})
	if tried < 300 { // there are about 250 fields and 80 words
		t.Errorf("%d values were tried", tried)
	}
}

// telling are values of a field that cannot be mistaken for its absence.
func telling(fd protoreflect.FieldDescriptor, m protoreflect.Message) (all []protoreflect.Value) {
	switch {
	case fd.IsList():
		for _, v := range singles(fd, func() protoreflect.Value { return m.NewField(fd).List().NewElement() }) {
			list := m.NewField(fd)
			list.List().Append(v)
			all = append(all, list)
		}
		return all
	case fd.IsMap():
		for _, v := range singles(fd.MapValue(), func() protoreflect.Value { return m.NewField(fd).Map().NewValue() }) {
			entries := m.NewField(fd)
			entries.Map().Set(protoreflect.ValueOfString("a key").MapKey(), v)
			all = append(all, entries)
		}
		return all
	}
	return singles(fd, func() protoreflect.Value { return m.NewField(fd) })
}

func singles(fd protoreflect.FieldDescriptor, new func() protoreflect.Value) (all []protoreflect.Value) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return []protoreflect.Value{protoreflect.ValueOfBool(true)}
	case protoreflect.Int32Kind:
		return []protoreflect.Value{protoreflect.ValueOfInt32(math.MinInt32), protoreflect.ValueOfInt32(math.MaxInt32)}
	case protoreflect.Int64Kind:
		return []protoreflect.Value{protoreflect.ValueOfInt64(1), protoreflect.ValueOfInt64(math.MaxInt64)}
	case protoreflect.StringKind:
		set, closed := closedSets[fd.FullName()]
		if !closed {
			set = []string{"a\x00 \u2028 \"text\" <&>"}
		}
		for _, word := range set {
			all = append(all, protoreflect.ValueOfString(word))
		}
		return all
	case protoreflect.BytesKind:
		return []protoreflect.Value{protoreflect.ValueOfBytes([]byte(`{"n": 9007199254740993.0, "": [1.0,1]}`))}
	case protoreflect.EnumKind:
		for i := range fd.Enum().Values().Len() - 1 {
			all = append(all, protoreflect.ValueOfEnum(fd.Enum().Values().Get(i+1).Number()))
		}
		return all
	case protoreflect.MessageKind:
		return []protoreflect.Value{new()}
	}
	panic(fmt.Sprintf("no values for %s of kind %s", fd.FullName(), fd.Kind()))
}

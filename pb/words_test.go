package pb

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// A word outside of its set is refused wherever a set is closed.
func TestClosedSetsAreClosed(t *testing.T) {
	for name := range closedSets {
		fd := mustField(t, name)
		m := mustMessage(t, fd.ContainingMessage().FullName())
		m.Set(fd, protoreflect.ValueOfString("perhaps"))
		requireFault(t, string(name), Check(m.Interface()), string(fd.Name()), `"perhaps" is none of`)
	}
}

// core.proto is what people read in other languages: comments there list the words.
func TestCommentsListTheWords(t *testing.T) {
	file := compile(t, "tipstaff/core/v1/core.proto")
	for name, set := range closedSets {
		if slices.Contains(listedElsewhere, name) {
			continue
		}
		fd := file.Messages().ByName(name.Parent().Name()).Fields().ByName(name.Name())
		listed := words(file.SourceLocations().ByDescriptor(fd).LeadingComments)
		slices.Sort(listed)
		if want := slices.Sorted(slices.Values(set)); !slices.Equal(listed, want) {
			t.Errorf("the comment of %s lists %q, want %q", name, listed, want)
		}
	}
}

// listedElsewhere are fields that have the set of another one.
var listedElsewhere = []protoreflect.FullName{
	"tipstaff.core.v1.BoundsResult.terminal_reason",
	"tipstaff.core.v1.BoundsResult.outcome",
	"tipstaff.core.v1.InterruptDecision.kind",
}

// words are those of a comment's first sentence, after the colon if it has one.
func words(comment string) []string {
	list, _, _ := strings.Cut(comment, ".")
	if _, after, ok := strings.Cut(list, ":"); ok {
		list = after
	}
	return strings.FieldsFunc(list, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' })
}

func mustField(t *testing.T, name protoreflect.FullName) protoreflect.FieldDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d.(protoreflect.FieldDescriptor)
}

func mustMessage(t *testing.T, name protoreflect.FullName) protoreflect.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return mt.New()
}

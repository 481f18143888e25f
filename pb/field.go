package pb

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// memberName is what a field is called in JSON: as in core.proto, unless a json_name
// there says otherwise. The name in camel case that every field has besides is not
// used.
func memberName(fd protoreflect.FieldDescriptor) string {
	name := string(fd.Name())
	if strings.EqualFold(fd.JSONName(), strings.ReplaceAll(name, "_", "")) {
		return name
	}
	return fd.JSONName()
}

func fieldOf(md protoreflect.MessageDescriptor, member string) protoreflect.FieldDescriptor {
	fields := md.Fields()
	if fd := fields.ByName(protoreflect.Name(member)); fd != nil && memberName(fd) == member {
		return fd
	}
	for i := range fields.Len() {
		if fd := fields.Get(i); memberName(fd) == member {
			return fd
		}
	}
	return nil
}

// isMoney: an amount of 10⁻⁹ USD here, a decimal text in JSON.
func isMoney(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.Int64Kind && slices.Contains(strings.Split(string(fd.Name()), "_"), "cost")
}

// isText: bytes that are a document as somebody wrote it, not a JSON value. In JSON
// it is a text.
func isText(fd protoreflect.FieldDescriptor) bool {
	return fd.FullName() == "tipstaff.core.v1.PipelineConfig.document"
}

// isJSON: bytes that are a JSON value.
func isJSON(fd protoreflect.FieldDescriptor) bool {
	if fd.IsMap() {
		return isJSON(fd.MapValue())
	}
	return fd.Kind() == protoreflect.BytesKind && !isText(fd)
}

func isTime(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && fd.Message().FullName() == "google.protobuf.Timestamp"
}

// belongs says of something else what a field would have.
func belongs(fd protoreflect.FieldDescriptor) string {
	if isMoney(fd) {
		return `it is not a decimal in quotes, like "5.00"`
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "it is neither true nor false"
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return "it is not a whole number"
	case protoreflect.EnumKind:
		return "it is not the name of a value"
	}
	return "it is not a text"
}

package document

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Fields reads the members of one object. Each is asked for by name; what was
// never asked for is unknown. A wrong type is reported once and reads as absent.
type Fields struct {
	Problems *Problems
	Value    *Value // the object; an empty one if the value is not an object
	Path     string // of the object, for reports
	Name     string // of the member that the object is; "": it is not a member
	Dotted   bool   // reports name the member, as in path.name; false: the object alone
	Context  any    // what hooks of Decode need; objects inside have it too

	open    bool // unknown members are accepted
	asked   []string
	variant string                 // which members it may have: see Decode
	tags    map[reflect.Type][]tag // that were parsed; objects inside share them
}

// FieldsOf reads v, which is reported if it is no object.
func FieldsOf(ps *Problems, v *Value, path string) *Fields {
	return fieldsOf(ps, v, path, map[reflect.Type][]tag{})
}

func fieldsOf(ps *Problems, v *Value, path string, tags map[reflect.Type][]tag) *Fields {
	f := &Fields{Problems: ps, Path: path, Value: v, tags: tags}
	if v.Kind != Object {
		ps.Add(CodeFieldType, v.At, path, "an object belongs here, not %v", v.Kind)
		f.Value = &Value{Kind: Object, At: v.At}
	}
	return f
}

// Of reads an object that stands inside f, which path names, and reports as f
// does.
func (f *Fields) Of(v *Value, path string) *Fields {
	inner := fieldsOf(f.Problems, v, path, f.tags)
	inner.Dotted, inner.Context = f.Dotted, f.Context
	return inner
}

// PathOf is the dotted path of a member.
func (f *Fields) PathOf(name string) string {
	if f.Path == "" {
		return name
	}
	return f.Path + "." + name
}

// Report notes a problem with a member.
func (f *Fields) Report(code string, at Position, name, format string, args ...any) {
	path := f.Path
	if f.Dotted {
		path = f.PathOf(name)
	}
	f.Problems.Add(code, at, path, format, args...)
}

// Get is the member of that name, or nil.
func (f *Fields) Get(name string) *Value {
	f.Ignore(name)
	return f.Value.Get(name)
}

// Ignore lets members stand that are not read here.
func (f *Fields) Ignore(names ...string) {
	for _, name := range names {
		if !slices.Contains(f.asked, name) {
			f.asked = append(f.asked, name)
		}
	}
}

// Known are the names that were asked for so far.
func (f *Fields) Known() []string { return slices.Clone(f.asked) }

// IgnoreRest lets every member stand.
func (f *Fields) IgnoreRest() { f.open = true }

// Typed is Get for members of one type.
func (f *Fields) Typed(name string, k Kind) *Value {
	v := f.Get(name)
	if v == nil || !f.kind(name, v, k) {
		return nil
	}
	return v
}

// Need reports that a member is missing.
func (f *Fields) Need(name string) {
	if f.Value.Get(name) == nil {
		f.Report(CodeFieldMissing, f.Value.At, name, "%s is missing", name)
	}
}

// Required is Typed for a member that must be there.
func (f *Fields) Required(name string, k Kind) *Value {
	f.Need(name)
	return f.Typed(name, k)
}

// Text is a string; absent it is empty.
func (f *Fields) Text(name string) string {
	if v := f.Typed(name, Text); v != nil {
		return v.Text
	}
	return ""
}

// Word is a text that must be one of a few; absent it is the first of them.
func (f *Fields) Word(name string, words ...string) string {
	if v := f.Typed(name, Text); v != nil && f.among(name, v, words) {
		return v.Text
	}
	return words[0]
}

// Boolean is true or false.
func (f *Fields) Boolean(name string, absent bool) bool {
	if v := f.Typed(name, Boolean); v != nil {
		return v.Text == "true"
	}
	return absent
}

// Integer is a whole number from least to most.
func (f *Fields) Integer(name string, absent, least, most int64) int64 {
	if v := f.Get(name); v != nil {
		if x, ok := f.number(name, v, float64(least), float64(most), true, tag{}); ok {
			return int64(x)
		}
	}
	return absent
}

// Duration is a Go duration above zero, or 0 where there is none.
func (f *Fields) Duration(name string) (d time.Duration) {
	if v := f.Get(name); v != nil {
		f.duration(reflect.ValueOf(&d).Elem(), name, v, tag{})
	}
	return d
}

// Texts is a list of strings. nil: there is none.
func (f *Fields) Texts(name string) (texts []string) {
	if v := f.Get(name); v != nil {
		f.list(reflect.ValueOf(&texts).Elem(), name, v, tag{})
	}
	return texts
}

// Object calls read with the fields of an object, if there is one.
func (f *Fields) Object(name string, read func(*Fields)) {
	v := f.Typed(name, Object)
	if v == nil {
		return
	}
	f.inner(name, v, read)
}

// Parameter is a value that a program takes or promises: a JSON Schema, which may also
// say whether the value is required.
type Parameter struct {
	Name     string
	Required bool
	Default  json.RawMessage // nil: none
	Schema   json.RawMessage // JSON Schema
	At       Position        // of its name
}

// Parameters reads an object of them, in document order; nil: there is none. bad
// reports a name that none can have.
func (f *Fields) Parameters(name string, bad func(Member) bool) []Parameter {
	v := f.Typed(name, Object)
	if v == nil {
		return nil
	}
	all := []Parameter{}
	for _, m := range v.Members {
		path := name + "." + m.Key
		if bad(m) {
			path = name
		}
		if m.Value.Kind != Object {
			f.Problems.Add(CodeFieldType, m.Value.At, path, "%s is described by a JSON Schema, an object; this is %v", path, m.Value.Kind)
			continue
		}
		p := Parameter{Name: m.Key, Default: Raw(m.Value.Get("default")), At: m.At}
		p.Required = p.Default == nil
		schema := *m.Value
		// In a schema of objects, required is a list of the object's own members.
		if own := m.Value.Get("required"); own != nil && own.Kind != List {
			p.Required = FieldsOf(f.Problems, m.Value, path).Boolean("required", p.Required)
			schema.Members = slices.DeleteFunc(slices.Clone(schema.Members), func(m Member) bool { return m.Key == "required" })
		}
		p.Schema = Raw(&schema)
		all = append(all, p)
	}
	return all
}

// End reports every member that was not asked for, and the name that was probably
// meant.
func (f *Fields) End() {
	if f.open {
		return
	}
	for _, m := range f.Value.Members {
		if !slices.Contains(f.asked, m.Key) {
			f.Report(CodeFieldUnknown, m.At, m.Key, "%s is not a field here%s", Brief(strconv.Quote(m.Key)), f.advice(m.Key))
		}
	}
}

// mostListed is how many names a message lists.
const mostListed = 20

// advice names the nearest field that could still be written here, or all of them if
// they are few.
func (f *Fields) advice(name string) string {
	absent := slices.DeleteFunc(slices.Clone(f.asked), func(known string) bool { return f.Value.Get(known) != nil })
	near := tipstaff.DidYouMean(name, absent)
	if near == "" && len(f.asked) > 0 && len(f.asked) <= mostListed {
		return "; the fields are " + strings.Join(slices.Sorted(slices.Values(f.asked)), ", ")
	}
	return near
}

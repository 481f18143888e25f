package document

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that stands in JSON as people write it.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Checker is a struct that has something to say about its members once Decode has
// read them: what goes together, and members that need more than a tag. Members that
// it asks f for are known.
type Checker interface{ CheckDocument(f *Fields) }

// Reader is a type that reads itself: v is the member of f by that name.
type Reader interface {
	ReadDocument(f *Fields, name string, v *Value)
}

// Keyed is the type of the entries of a map whose keys have a form. The error says what
// a key must look like.
type Keyed interface{ CheckKey(key string) error }

// Decode reads members into the struct that into points to, by the tags of its fields:
//
//	MaxSteps int `json:"max_steps" doc:",min=1,max=1000"`
//
// A tag begins with the name of the member, where it is another than in JSON. Options
// follow:
//
//	required       the member must be there
//	min=, max=     the bounds of a number, or of a duration
//	in=a|b         the words that a text may be; an empty one stands for a text left blank
//	one            a list that may be written as a single value
//	null           a member that is null counts as absent
//	object         JSON that must be an object
//	variant        the text that says which kind of thing the object is
//	of=a|b         the kinds that have the member; such fields stand after the variant
//	unit=1s        a duration that is written as a number of these, as its bounds are
//	code=          the code of a number out of range
//	negative=      the code of a number below zero
//
// A field without a tag is not read, nor is one whose member is absent or wrong: it keeps
// its value, which is therefore its default. Of an object in which something is wrong the
// rest is read.
//
// Texts, booleans, numbers, durations, structs, lists, maps by name, pointers to these,
// [json.RawMessage], [*Value], [encoding.TextUnmarshaler] and [Reader] can be read. A
// [Checker] is called after its members were read.
func (f *Fields) Decode(into any) {
	s := reflect.ValueOf(into).Elem()
	f.members(s)
	if c, ok := into.(Checker); ok {
		c.CheckDocument(f)
	}
}

func (f *Fields) members(s reflect.Value) {
	for _, t := range f.tagsOf(s.Type()) {
		if t.of != nil && !slices.Contains(t.of, f.variant) {
			continue
		}
		v := f.Get(t.name)
		if v != nil && v.Kind == Null && t.null {
			v = nil
		}
		if t.variant && v != nil && v.Kind == Text {
			f.variant = v.Text
		}
		switch {
		case v != nil:
			f.decode(s.FieldByIndex(t.index), t.name, v, t)
		case t.required:
			f.Report(CodeFieldMissing, f.Value.At, t.name, "%s is missing", t.name)
		}
	}
}

// tagsOf are the tags of a struct, with those of the structs embedded in it. They are
// parsed once a document: a plan has thousands of nodes.
func (f *Fields) tagsOf(s reflect.Type) []tag {
	all, known := f.tags[s]
	if known {
		return all
	}
	for _, field := range reflect.VisibleFields(s) {
		text, tagged := field.Tag.Lookup("doc")
		if !tagged {
			continue
		}
		t := parseTag(text)
		t.index = field.Index
		if t.name == "" {
			t.name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
		}
		all = append(all, t)
	}
	f.tags[s] = all
	return all
}

// tag is what a struct says of a member.
type tag struct {
	index                   []int // of the field
	name                    string
	min, max                string
	words, of               []string
	rangeCode, negativeCode string
	unit                    time.Duration
	required, one, null     bool
	object, variant         bool
}

func parseTag(text string) (t tag) {
	parts := strings.Split(text, ",")
	t.name = parts[0]
	for _, option := range parts[1:] {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "required":
			t.required = true
		case "one":
			t.one = true
		case "null":
			t.null = true
		case "object":
			t.object = true
		case "variant":
			t.variant = true
		case "of":
			t.of = strings.Split(value, "|")
		case "unit":
			t.unit = span(value, 0)
		case "code":
			t.rangeCode = value
		case "negative":
			t.negativeCode = value
		case "min":
			t.min = value
		case "max":
			t.max = value
		case "in":
			t.words = strings.Split(value, "|")
		default:
			panic("document: the tag " + text + " has an option that is none")
		}
	}
	return t
}

// decode reads v, the member of f by that name, into a field. What is wrong leaves the
// field as it is.
func (f *Fields) decode(into reflect.Value, name string, v *Value, t tag) {
	switch p := into.Addr().Interface().(type) {
	case Reader:
		p.ReadDocument(f, name, v)
		return
	case *Duration, *time.Duration:
		f.duration(into, name, v, t)
		return
	case *json.RawMessage:
		if !t.object || f.kind(name, v, Object) {
			*p = Raw(v)
		}
		return
	case **Value:
		*p = v
		return
	case encoding.TextUnmarshaler:
		if f.kind(name, v, Text) {
			if err := p.UnmarshalText([]byte(v.Text)); err != nil {
				f.Report(CodeFieldInvalid, v.At, name, "%v", err)
			}
		}
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		target := reflect.New(into.Type().Elem())
		before := len(*f.Problems)
		f.decode(target.Elem(), name, v, t)
		if len(*f.Problems) == before || isObject(target.Elem(), v) {
			into.Set(target)
		}
	case reflect.String:
		if f.kind(name, v, Text) && f.among(name, v, t.words) {
			into.SetString(v.Text)
		}
	case reflect.Bool:
		if f.kind(name, v, Boolean) {
			into.SetBool(v.Text == "true")
		}
	case reflect.Int, reflect.Int64:
		least, most := bound(t.min, 0), bound(t.max, 1<<53) // beyond which numbers are not exact
		if x, ok := f.number(name, v, least, most, true, t); ok {
			into.SetInt(int64(x))
		}
	case reflect.Float64:
		if x, ok := f.number(name, v, bound(t.min, -math.MaxFloat64), bound(t.max, math.MaxFloat64), false, t); ok {
			into.SetFloat(x)
		}
	case reflect.Struct:
		if v.Kind != Object {
			f.Of(v, f.PathOf(name)) // reports it
			return
		}
		f.inner(name, v, func(of *Fields) { of.Decode(into.Addr().Interface()) })
	case reflect.Slice:
		f.list(into, name, v, t)
	case reflect.Map:
		f.entries(into, name, v, t)
	default:
		panic(fmt.Sprintf("document: %s cannot be read into a %v", name, into.Type()))
	}
}

// isObject reports whether a struct was read of an object. It is kept with its faults:
// its place in a list counts, and more may be wrong with what it says.
func isObject(into reflect.Value, v *Value) bool {
	return into.Kind() == reflect.Struct && v.Kind == Object
}

// bound is one of a tag, or what holds without it.
func bound(text string, absent float64) float64 {
	if text == "" {
		return absent
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("document: the bound " + text + " of a tag is no number")
	}
	return x
}

// kind reports a value of another kind.
func (f *Fields) kind(name string, v *Value, k Kind) bool {
	if v.Kind == k {
		return true
	}
	advice := ""
	if k == Text && (v.Kind == Number || v.Kind == Boolean) {
		advice = "; put it in quotes"
	}
	f.Report(CodeFieldType, v.At, name, "%s must be %v, not %v%s", name, k, v.Kind, advice)
	return false
}

// among reports a text that is not one of the words; without words any text will do.
func (f *Fields) among(name string, v *Value, words []string) bool {
	ok := len(words) == 0 || slices.Contains(words, v.Text)
	if !ok {
		said := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
		f.Report(CodeFieldInvalid, v.At, name, "%s is %q; it must be %s", name, Brief(v.Text), Alternatives(said))
	}
	return ok
}

// inner reads an object inside f, which must not have members that read does not ask for.
func (f *Fields) inner(name string, v *Value, read func(*Fields)) {
	of := f.Of(v, f.PathOf(name))
	of.Name = name
	read(of)
	of.End()
}

// list reads every item that can be read. The list is never nil then: a member that is
// there says something.
func (f *Fields) list(into reflect.Value, name string, v *Value, t tag) {
	items := []*Value{v}
	if !t.one || v.Kind == List {
		if !f.kind(name, v, List) {
			return
		}
		items = v.Items
	}
	list := reflect.MakeSlice(into.Type(), 0, len(items))
	for i, item := range items {
		at := name
		if v.Kind == List {
			at = name + "[" + strconv.Itoa(i) + "]"
		}
		read := reflect.New(into.Type().Elem()).Elem()
		before := len(*f.Problems)
		f.decode(read, at, item, t)
		if len(*f.Problems) == before || read.Kind() == reflect.Struct || read.Kind() == reflect.Pointer && !read.IsNil() {
			list = reflect.Append(list, read)
		}
	}
	into.Set(list)
}

// entries reads a map by names, each of which has the form that its type asks for.
func (f *Fields) entries(into reflect.Value, name string, v *Value, t tag) {
	if !f.kind(name, v, Object) {
		return
	}
	of := f.Of(v, f.PathOf(name))
	all := reflect.MakeMap(into.Type())
	for _, m := range v.Members {
		entry := reflect.New(into.Type().Elem())
		if keyed, ok := entry.Interface().(Keyed); ok {
			if err := keyed.CheckKey(m.Key); err != nil {
				of.Report(CodeFieldUnknown, m.At, m.Key, "%v", err)
				continue
			}
		}
		of.decode(entry.Elem(), m.Key, m.Value, t)
		all.SetMapIndex(reflect.ValueOf(m.Key).Convert(into.Type().Key()), entry.Elem())
	}
	into.Set(all)
}

// number is one from least to most, whole if it must be.
func (f *Fields) number(name string, v *Value, least, most float64, whole bool, t tag) (x float64, ok bool) {
	if !f.kind(name, v, Number) {
		return 0, false
	}
	x, err := strconv.ParseFloat(v.Text, 64)
	code := cmp.Or(t.rangeCode, CodeRange)
	switch {
	case err == nil && x < 0 && t.negativeCode != "":
		f.Report(t.negativeCode, v.At, name, "%s is %s; it cannot be negative", name, Brief(v.Text))
	case whole && (err != nil || x != math.Trunc(x) || x < least || x > most):
		f.Report(code, v.At, name, "%s is %s; it must be a whole number from %d to %d", name, Brief(v.Text), int64(least), int64(most))
	case err != nil || x < least || x > most:
		f.Report(code, v.At, name, "%s is %s; it must be from %s to %s", name, Brief(v.Text), plain(least), plain(most))
	default:
		return x, true
	}
	return 0, false
}

// plain is a bound as people write it: 1000000, not 1e+06.
func plain(x float64) json.RawMessage {
	b, _ := json.Marshal(x)
	return b
}

// longest is the longest duration that is written as a number: twice as much would
// overflow.
const longest = time.Duration(1 << 62)

// duration is one within the bounds of a tag; without a least one it is longer than
// nothing.
func (f *Fields) duration(into reflect.Value, name string, v *Value, t tag) {
	if t.unit > 0 {
		most := float64(longest / t.unit)
		if x, ok := f.number(name, v, bound(t.min, 0), min(bound(t.max, most), most), false, t); ok {
			into.SetInt(int64(x * float64(t.unit)))
		}
		return
	}
	if !f.kind(name, v, Text) {
		return
	}
	d, err := time.ParseDuration(v.Text)
	least, most := span(t.min, 1), span(t.max, math.MaxInt64)
	switch {
	case err != nil:
		f.Report(CodeFieldInvalid, v.At, name, "%s is %q; a duration is written like 90s, 10m or 1h30m", name, Brief(v.Text))
	case d < least && t.min == "":
		f.Report(CodeRange, v.At, name, "%s is %s; it must be longer than nothing", name, v.Text)
	case d < least || d > most:
		f.Report(CodeRange, v.At, name, "%s is %s; it must be a duration from %v to %v", name, v.Text, least, most)
	default:
		into.SetInt(int64(d))
	}
}

func span(text string, absent time.Duration) time.Duration {
	if text == "" {
		return absent
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic("document: the bound " + text + " of a tag is no duration")
	}
	return d
}

// Alternatives is a list of words as a sentence has it: "a, b or c".
func Alternatives(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// UnmarshalStrict is json.Unmarshal that refuses unknown members and anything after
// the value.
func UnmarshalStrict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return Readable(err)
	}
	if dec.More() {
		return errors.New("text follows the value")
	}
	return nil
}

// Readable is an error of encoding/json for people: without the names of Go's types.
func Readable(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	got, _, _ := strings.Cut(wrong.Value, " ") // a number may be told with it
	names := map[string]string{"string": "a text", "number": "a number", "bool": "true or false", "object": "an object", "array": "a list"}
	want := "another value"
	switch wrong.Type.Kind() {
	case reflect.String:
		want = "a text"
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice, reflect.Array:
		want = "a list"
	case reflect.Struct, reflect.Map:
		want = "an object"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	default:
		if wrong.Type.Kind() >= reflect.Int && wrong.Type.Kind() <= reflect.Uint64 {
			want = "a whole number"
		}
	}
	where := "the value"
	if wrong.Field != "" {
		where = strconv.Quote(wrong.Field)
	}
	return fmt.Errorf("%s is %s where %s belongs", where, cmp.Or(names[got], got), want)
}

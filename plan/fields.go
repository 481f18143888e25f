package plan

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fields reads the members of one object. Each is asked for by name; what was
// never asked for is unknown. A wrong type is reported once and reads as absent.
type fields struct {
	ps    *problems
	path  string // for reports
	v     *value
	asked map[string]bool
}

func fieldsOf(ps *problems, v *value, path string) *fields {
	f := &fields{ps: ps, path: path, v: v, asked: map[string]bool{}}
	if v.kind != object {
		ps.add(codeFieldType, v.at, path, "an object belongs here, not %v", v.kind)
		f.v = &value{kind: object, at: v.at}
	}
	return f
}

// get is the member of that name, or nil.
func (f *fields) get(name string) *value {
	f.asked[name] = true
	return f.v.get(name)
}

// typed is get for members of one type.
func (f *fields) typed(name string, k kind) *value {
	v := f.get(name)
	if v != nil && v.kind != k {
		f.ps.add(codeFieldType, v.at, f.path, "%s must be %v, not %v", name, k, v.kind)
		return nil
	}
	return v
}

// need reports that a member is missing.
func (f *fields) need(name string) {
	if f.v.get(name) == nil {
		f.ps.add(codeFieldMissing, f.v.at, f.path, "%s is missing", name)
	}
}

func (f *fields) text(name string) string {
	if v := f.typed(name, text); v != nil {
		return v.text
	}
	return ""
}

// word is a text that must be one of a few; absent it is the first of them.
func (f *fields) word(name string, words ...string) string {
	v := f.typed(name, text)
	if v == nil {
		return words[0]
	}
	if !slices.Contains(words, v.text) {
		f.ps.add(codeFieldInvalid, v.at, f.path, "%s is %q; it must be %s", name, brief(v.text), strings.Join(words, " or "))
		return words[0]
	}
	return v.text
}

func (f *fields) boolean(name string, absent bool) bool {
	if v := f.typed(name, boolean); v != nil {
		return v.text == "true"
	}
	return absent
}

// integer is a whole number from least to most.
func (f *fields) integer(name string, absent, least, most int64) int64 {
	v := f.typed(name, number)
	if v == nil {
		return absent
	}
	x, err := strconv.ParseFloat(v.text, 64)
	if err != nil || x != math.Trunc(x) || x < float64(least) || x > float64(most) {
		f.ps.add(codeRange, v.at, f.path, "%s is %s; it must be a whole number from %d to %d", name, brief(v.text), least, most)
		return absent
	}
	return int64(x)
}

// duration is a Go duration above zero, or 0 where there is none.
func (f *fields) duration(name string) time.Duration {
	v := f.typed(name, text)
	if v == nil {
		return 0
	}
	d, err := time.ParseDuration(v.text)
	switch {
	case err != nil:
		f.ps.add(codeFieldInvalid, v.at, f.path, "%s is %q; a duration is written like 90s, 10m or 1h30m", name, brief(v.text))
		return 0
	case d <= 0:
		f.ps.add(codeRange, v.at, f.path, "%s is %s; it must be longer than nothing", name, v.text)
		return 0
	}
	return d
}

// texts is a list of strings, and where each stands.
func (f *fields) texts(name string) ([]string, []position) {
	v := f.typed(name, list)
	if v == nil {
		return nil, nil
	}
	words, at := []string{}, []position{}
	for _, item := range v.items {
		if item.kind != text {
			f.ps.add(codeFieldType, item.at, f.path, "%s is a list of strings; this is %v", name, item.kind)
			continue
		}
		words, at = append(words, item.text), append(at, item.at)
	}
	return words, at
}

// tools is an allow-list: a list of URIs, or the word none. nil: absent, which
// is another thing than empty.
func (f *fields) tools() (*[]string, []position) {
	v := f.get("tools")
	if v == nil {
		return nil, nil
	}
	if v.kind == text && v.text == "none" {
		return &[]string{}, nil
	}
	if v.kind == text {
		f.ps.add(codeFieldInvalid, v.at, f.path, "tools is %q; it must be a list of tool URIs, or none", brief(v.text))
		return &[]string{}, nil
	}
	list, at := f.texts("tools")
	if list == nil {
		list = []string{}
	}
	return &list, at
}

// each calls read with every item of a list of objects.
func (f *fields) each(name string, read func(*fields)) {
	v := f.typed(name, list)
	if v == nil {
		return
	}
	for i, item := range v.items {
		of := fieldsOf(f.ps, item, f.path+"."+name+"["+strconv.Itoa(i)+"]")
		read(of)
		of.end()
	}
}

// end reports every member nobody asked for.
func (f *fields) end() {
	for _, m := range f.v.members {
		if !f.asked[m.key] {
			f.ps.add(codeFieldUnknown, m.at, f.path, "%s is not a field here", brief(strconv.Quote(m.key)))
		}
	}
}

// raw is v in RFC 8785 form, nil for nil. Numbers that have none are reported
// elsewhere; such a document is never used.
func raw(v *value) json.RawMessage {
	if v == nil {
		return nil
	}
	b, err := v.json()
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

// textOr is a text of any kind; absent or empty it is the given one.
func (f *fields) textOr(name, absent string) string {
	if s := f.text(name); s != "" {
		return s
	}
	return absent
}

// number is a number from least to most.
func (f *fields) number(name string, absent, least, most float64) float64 {
	v := f.typed(name, number)
	if v == nil {
		return absent
	}
	x, err := strconv.ParseFloat(v.text, 64)
	if err != nil || x < least || x > most {
		f.ps.add(codeRange, v.at, f.path, "%s is %s; it must be from %v to %v", name, brief(v.text), least, most)
		return absent
	}
	return x
}

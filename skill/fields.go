package skill

// fields reads the members of one mapping. What was never asked for is unknown;
// a wrong type is reported once and reads as absent.
type fields struct {
	ps    *problems
	path  string
	v     *value
	wrong bool // v is no mapping, which has been said: nothing is missing from it
	asked map[string]bool
}

func fieldsOf(ps *problems, v *value, path string) *fields {
	f := &fields{ps: ps, path: path, v: v, asked: map[string]bool{}}
	if v.kind != object {
		ps.add(codeFieldType, v.at, path, "a mapping belongs here, not %v", v.kind)
		f.v, f.wrong = &value{kind: object, at: v.at}, true
	}
	return f
}

// named is the path of a member.
func (f *fields) named(name string) string {
	if f.path == "" {
		return name
	}
	return f.path + "." + name
}

// typed is the member of that name, nil if it is absent or of another type.
func (f *fields) typed(name string, k kind) *value {
	f.asked[name] = true
	v := f.v.get(name)
	if v != nil && v.kind != k {
		f.ps.add(codeFieldType, v.at, f.named(name), "%s must be %v, not %v", name, k, v.kind)
		return nil
	}
	return v
}

// need is typed for a member that must be there.
func (f *fields) need(name string, k kind) *value {
	if f.v.get(name) == nil && !f.wrong {
		f.ps.add(codeFieldMissing, f.v.at, f.named(name), "%s is missing", name)
	}
	return f.typed(name, k)
}

// textOf is the text of a member that may be absent.
func textOf(v *value) string {
	if v == nil {
		return ""
	}
	return v.text
}

// end reports every member nobody asked for.
func (f *fields) end() {
	for _, m := range f.v.members {
		if !f.asked[m.key] {
			f.ps.add(codeFieldUnknown, m.at, f.named(m.key), "%s is not a field here", quoted(m.key))
		}
	}
}

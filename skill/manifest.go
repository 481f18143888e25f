package skill

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// parseManifest reads skill.yaml, of the folder of that name, into s.
func (s *Skill) parseManifest(ps *problems, src []byte, folder string) {
	v := readYAML(ps, src, 1)
	if v == nil {
		return
	}
	s.decode(ps, v)
	if validID(s.ID) && s.ID != folder {
		ps.add(codeMismatch, v.get("id").at, "id", "id is %s, but the folder is named %s", quoted(s.ID), quoted(folder))
	}
}

// decode reads the manifest's fields and keeps the whole of it: the digest is of
// the document as it was given.
func (s *Skill) decode(ps *problems, v *value) {
	f := fieldsOf(ps, v, "")
	s.ID = f.id()
	s.Version = f.version()
	s.Verbs = f.verbs()
	s.Inputs = f.described("inputs")
	s.Outputs = f.described("outputs")
	s.Tools = f.uris("tools", checkToolURI, "mcp://server/tool@1.2.3")
	s.SubSkills = f.uris("sub_skills", checkSkillURI, "skill://name@1.2.3")
	s.FailureModes = f.failureModes()
	f.end()
	s.manifest, _ = f.v.canonical() // its numbers are safe and its names stand once
}

func (f *fields) id() string {
	v := f.need("id", text)
	if v != nil && !validID(v.text) {
		f.ps.add(codeFieldInvalid, v.at, "id", "%s cannot be the id of a skill; %s", quoted(v.text), idRule)
	}
	return textOf(v)
}

func (f *fields) version() string {
	v := f.need("version", text)
	if v != nil && !semverForm.MatchString(v.text) {
		f.ps.add(codeFieldInvalid, v.at, "version", "%s is not a full version like 1.2.3", quoted(v.text))
	}
	return textOf(v)
}

// verbs of intents. The same words stand in plans.
var (
	verbs = []string{"find", "acquire", "build", "modify", "deliver", "analyze", "negotiate", "schedule", "monitor", "delegate"}
	slug  = regexp.MustCompile(`^x:[a-z0-9][a-z0-9_-]{0,63}$`)
)

func (f *fields) verbs() []string {
	v := f.need("verbs", list)
	if v == nil {
		return nil
	}
	if len(v.items) == 0 {
		f.ps.add(codeFieldInvalid, v.at, "verbs", "a skill is for one verb at least: %s or x:<name>", strings.Join(verbs, ", "))
	}
	return f.words(v, "verbs", func(word string) string {
		if slices.Contains(verbs, word) || slug.MatchString(word) {
			return ""
		}
		return codeFieldInvalid
	}, "one of "+strings.Join(verbs, ", ")+" or x:<name>")
}

// uris is a list of pinned URIs, or the word none. What is not said is never
// taken for "anything": the field must be there.
func (f *fields) uris(name string, check func(string) string, form string) []string {
	v := f.v.get(name)
	f.asked[name] = true
	switch {
	case v == nil:
		f.ps.add(codeFieldMissing, f.v.at, name, "%s is missing; a skill that needs none says %s: none", name, name)
	case v.kind == text && v.text == "none":
	case v.kind != list:
		f.ps.add(codeFieldType, v.at, name, "%s must be a list of URIs, or none", name)
	default:
		return f.words(v, name, check, "a URI like "+form)
	}
	return []string{}
}

// checkSkillURI is the code of what is wrong with a skill URI; "" is nothing.
func checkSkillURI(s string) string {
	_, err := ParseURI(s)
	return uriCode(err)
}

// words reads a list of texts, each once. check gives the code of a bad one.
func (f *fields) words(v *value, path string, check func(string) string, form string) []string {
	words := []string{}
	for i, item := range v.items {
		where := path + "[" + strconv.Itoa(i) + "]"
		switch {
		case item.kind != text:
			f.ps.add(codeFieldType, item.at, where, "%s must be text, not %v", where, item.kind)
		case slices.Contains(words, item.text):
			f.ps.add(codeFieldInvalid, item.at, where, "%s stands twice", quoted(item.text))
		default:
			switch code := check(item.text); code {
			case "":
			case codeUnpinnedTool, codeUnpinnedSkill:
				f.ps.add(code, item.at, where, "%s is not pinned; write %s", quoted(item.text), form)
			default:
				f.ps.add(code, item.at, where, "%s is not %s", quoted(item.text), form)
			}
			words = append(words, item.text)
		}
	}
	return words
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// described reads inputs or outputs: by name a JSON Schema, which may also say
// whether the value is required.
func (f *fields) described(name string) []Field {
	v := f.typed(name, object)
	if v == nil {
		return nil
	}
	found := []Field{}
	for _, m := range v.members {
		path := name + "." + m.key
		switch {
		case !nameForm.MatchString(m.key):
			f.ps.add(codeFieldInvalid, m.at, name, "%s cannot be a name: 1 to 64 of A-Z, a-z, 0-9, _ and -", quoted(m.key))
		case m.value.kind != object:
			f.ps.add(codeFieldType, m.value.at, path, "%s is described by a JSON Schema, a mapping; this is %v", path, m.value.kind)
		default:
			found = append(found, f.field(m, path))
		}
	}
	slices.SortFunc(found, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func (f *fields) field(m member, path string) Field {
	out := Field{Name: m.key}
	schema := &value{kind: object}
	own := m.value.get("required")
	for _, part := range m.value.members {
		// In a schema of objects, required lists the object's own members.
		if part.key != "required" || part.value.kind == list {
			schema.members = append(schema.members, part)
		}
	}
	if v := m.value.get("default"); v != nil {
		out.Default, _ = v.canonical()
	}
	out.Required = out.Default == nil
	if own != nil && own.kind != list {
		if own.kind != boolean {
			f.ps.add(codeFieldType, own.at, path, "required must be true or false, not %v", own.kind)
		}
		out.Required = own.text == "true"
	}
	out.Schema, _ = schema.canonical()
	if err := compile(out.Schema); err != nil {
		f.ps.add(codeSchemaInvalid, m.value.at, path, "%s is not described by a JSON Schema: %v", path, err)
	} else {
		f.types(schema, path)
	}
	return out
}

func compile(schema json.RawMessage) error {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return err
	}
	_, err := s.Resolve(nil)
	return err
}

var schemaTypes = []string{"null", "boolean", "object", "array", "number", "integer", "string"}

// types finds misspelled types, which the library would only refuse values for.
func (f *fields) types(schema *value, path string) {
	if t := schema.get("type"); t != nil {
		names := t.items
		if t.kind != list {
			names = []*value{t}
		}
		for _, n := range names {
			if !slices.Contains(schemaTypes, n.text) {
				f.ps.add(codeSchemaInvalid, n.at, path, "%s is no type; it must be one of %s", quoted(n.text), strings.Join(schemaTypes, ", "))
			}
		}
	}
	if items := schema.get("items"); items != nil && items.kind == object {
		f.types(items, path+".items")
	}
	if properties := schema.get("properties"); properties != nil {
		for _, p := range properties.members {
			if p.value.kind == object {
				f.types(p.value, path+"."+p.key)
			}
		}
	}
}

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"

	"github.com/tipstaff/tipstaff"
)

// Check parses a document and validates it: everything that is wrong with it,
// in the order in which it stands there. The document is nil if any is.
func Check(name string, src []byte, r Resolver) (*Document, []tipstaff.Problem) {
	d, problems := Parse(name, src)
	if d == nil {
		return nil, problems
	}
	if problems = d.Validate(r); len(problems) > 0 {
		return nil, problems
	}
	return d, nil
}

// Parse reads a document from YAML 1.2 or JSON. name is that of the file, for
// messages. The problems are those of text and shape; a document whose text
// could be read is returned beside them, so that [Document.Validate] can say
// what else is wrong. nil problems do not make it valid.
func Parse(name string, src []byte) (*Document, []tipstaff.Problem) {
	v, p := read(src)
	if p != nil {
		return nil, problems{*p}.public(name)
	}
	d := &Document{file: name, at: map[string]position{}}
	ps := problems{}
	checkNumbers(v, &ps)
	if len(ps) == 0 {
		d.canonical = raw(v)
	}
	d.decode(v, &ps)
	d.problems = ps
	return d, ps.public(name)
}

// Load reads a document back from its canonical bytes, which were validated
// when they were frozen.
func Load(canonical []byte) (*Document, error) {
	d, problems := Parse("program", canonical)
	if len(problems) > 0 {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the stored program cannot be read", Problems: problems}
	}
	if string(d.canonical) != string(canonical) {
		return nil, errors.New("plan: the stored program is not in its canonical form")
	}
	return d, nil
}

// Canonical is the document as it was given, in RFC 8785 form. nil if a number
// in it has no such form.
func (d *Document) Canonical() []byte { return d.canonical }

// Digest names the program: sha256:<hex> of Canonical.
func (d *Document) Digest() string { return digest(d.canonical) }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (d *Document) decode(v *value, ps *problems) {
	f := fieldsOf(ps, v, "")
	for _, m := range f.v.members {
		d.at[m.key] = m.at
	}
	d.Kind = f.text("kind")
	if k := f.v.get("kind"); k == nil {
		ps.add(codeKindUnknown, f.v.at, "", "the document does not say what it is; a plan begins with kind: plan")
	} else if d.Kind == KindTurn {
		d.decodeTurn(f, ps)
		return
	} else if k.kind == text && d.Kind != KindPlan {
		ps.add(codeKindUnknown, k.at, "", "the document is a %q, neither a plan nor a turn", brief(d.Kind))
	}
	f.need("version")
	d.Version = int(f.integer("version", 1, 1, 1))
	d.Name = f.text("name")
	d.Skill = f.text("skill")
	d.Tools, d.toolsAt = f.tools()
	d.decodeInputs(f, ps)
	d.Intent = decodeIntent(f, ps)
	d.Bounds = decodeBounds(f, ps, "bounds")
	d.decodeRoot(f, ps)
	if d.outputs = f.typed("outputs", object); d.outputs != nil {
		d.Outputs = raw(d.outputs)
	}
	d.Workspace = f.word("workspace", "", "worktree", "checkout", "none")
	d.Deliver = decodeDeliver(f, ps)
	if d.Deliver != nil && d.Workspace != "" && d.Workspace != "worktree" {
		ps.add(codeFieldInvalid, d.at["workspace"], "", "workspace is %s, but deliver needs a worktree", d.Workspace)
	}
	f.end()
}

var nameGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (d *Document) decodeInputs(f *fields, ps *problems) {
	inputs := f.typed("inputs", object)
	if inputs == nil {
		return
	}
	for _, m := range inputs.members {
		path := "inputs." + m.key
		if !nameGrammar.MatchString(m.key) || m.key == inputFollowup {
			ps.add(codeIDGrammar, m.at, "inputs", "%q cannot name an input: 1 to 64 of A-Z, a-z, 0-9, _ and -, and not followup", brief(m.key))
			path = "inputs"
		}
		if m.value.kind != object {
			ps.add(codeFieldType, m.value.at, path, "an input is described by a JSON Schema, an object; this is %v", m.value.kind)
			continue
		}
		d.Inputs = append(d.Inputs, decodeInput(m, path, ps))
	}
}

// decodeInput reads a schema that may say required. Everything else is the
// schema's own matter.
func decodeInput(m member, path string, ps *problems) Input {
	in := Input{Name: m.key, at: m.at}
	schema := &value{kind: object, at: m.value.at}
	f := fieldsOf(ps, m.value, path)
	if v := f.get("default"); v != nil {
		in.Default = raw(v)
	}
	// In a schema for objects, required is a list of the object's own members.
	own := m.value.get("required")
	in.Required = in.Default == nil
	if own != nil && own.kind != list {
		in.Required = f.boolean("required", in.Required)
	}
	for _, field := range m.value.members {
		if field.key != "required" || own.kind == list {
			schema.members = append(schema.members, field)
		}
	}
	in.Schema = raw(schema)
	return in
}

func (d *Document) decodeRoot(f *fields, ps *problems) {
	f.need("root")
	root := f.get("root")
	if root == nil {
		d.Root = &Node{Kind: Sequential, Path: rootPath, segment: rootPath}
		return
	}
	nr := &nodeReader{ps: ps}
	d.Root = nr.node(root, rootPath, 1)
	d.Root.place("", 0)
}

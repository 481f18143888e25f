package plan

import (
	"errors"
	"regexp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
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
	v, p := document.Read(src, maxSize(src))
	if p != nil {
		return nil, document.Problems{*p}.Public(name)
	}
	d := &Document{file: name, at: map[string]document.Position{}}
	ps := document.Problems{}
	document.CheckNumbers(v, &ps)
	if len(ps) == 0 {
		d.canonical = document.Raw(v)
	}
	d.decode(v, &ps)
	d.problems = ps
	return d, ps.Public(name)
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
func (d *Document) Digest() string { return flow.Digest(d.canonical) }

func (d *Document) decode(v *document.Value, ps *document.Problems) {
	f := document.FieldsOf(ps, v, "")
	for _, m := range f.Value.Members {
		d.at[m.Key] = m.At
	}
	d.Kind = f.Text("kind")
	if k := f.Value.Get("kind"); k == nil {
		ps.Add(document.CodeKindUnknown, f.Value.At, "", "the document does not say what it is; a plan begins with kind: plan")
	} else if d.Kind == KindTurn {
		d.decodeTurn(f, ps)
		return
	} else if k.Kind == document.Text && d.Kind != KindPlan {
		ps.Add(document.CodeKindUnknown, k.At, "", "the document is a %q, neither a plan nor a turn", document.Brief(d.Kind))
	}
	f.Need("version")
	d.Version = int(f.Integer("version", 1, 1, 1))
	d.Name = f.Text("name")
	d.Skill = f.Text("skill")
	d.Tools, d.toolsAt = readTools(f)
	d.decodeInputs(f, ps)
	d.Intent = decodeIntent(f, ps)
	d.Bounds = decodeBounds(f)
	d.decodeRoot(f, ps)
	if d.outputs = f.Typed("outputs", document.Object); d.outputs != nil {
		d.Outputs = document.Raw(d.outputs)
	}
	d.Workspace = f.Word("workspace", "", "worktree", "checkout", "none")
	d.Deliver = decodeDeliver(f, ps)
	if d.Deliver != nil && d.Workspace != "" && d.Workspace != "worktree" {
		ps.Add(document.CodeFieldInvalid, d.at["workspace"], "", "workspace is %s, but deliver needs a worktree", d.Workspace)
	}
	f.End()
}

var nameGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (d *Document) decodeInputs(f *document.Fields, ps *document.Problems) {
	inputs := f.Typed("inputs", document.Object)
	if inputs == nil {
		return
	}
	for _, m := range inputs.Members {
		path := "inputs." + m.Key
		if !nameGrammar.MatchString(m.Key) || m.Key == inputFollowup {
			ps.Add(codeIDGrammar, m.At, "inputs", "%q cannot name an input: 1 to 64 of A-Z, a-z, 0-9, _ and -, and not followup", document.Brief(m.Key))
			path = "inputs"
		}
		if m.Value.Kind != document.Object {
			ps.Add(document.CodeFieldType, m.Value.At, path, "an input is described by a JSON Schema, an object; this is %v", m.Value.Kind)
			continue
		}
		d.Inputs = append(d.Inputs, decodeInput(m, path, ps))
	}
}

// decodeInput reads a schema that may say required. Everything else is the
// schema's own matter.
func decodeInput(m document.Member, path string, ps *document.Problems) Input {
	in := Input{Name: m.Key, at: m.At}
	schema := &document.Value{Kind: document.Object, At: m.Value.At}
	f := document.FieldsOf(ps, m.Value, path)
	if v := f.Get("default"); v != nil {
		in.Default = document.Raw(v)
	}
	// In a schema for objects, required is a list of the object's own members.
	own := m.Value.Get("required")
	in.Required = in.Default == nil
	if own != nil && own.Kind != document.List {
		in.Required = f.Boolean("required", in.Required)
	}
	for _, field := range m.Value.Members {
		if field.Key != "required" || own.Kind == document.List {
			schema.Members = append(schema.Members, field)
		}
	}
	in.Schema = document.Raw(schema)
	return in
}

func (d *Document) decodeRoot(f *document.Fields, ps *document.Problems) {
	f.Need("root")
	root := f.Get("root")
	if root == nil {
		d.Root = &Node{Kind: Sequential, Path: rootPath, segment: rootPath}
		return
	}
	nr := &nodeReader{ps: ps}
	d.Root = nr.node(root, rootPath, 1)
	d.Root.place("", 0)
}

// readTools is an allow-list: a list of URIs, or the word none. nil: absent, which
// is another thing than empty.
func readTools(f *document.Fields) (*[]string, []document.Position) {
	v := f.Get("tools")
	if v == nil {
		return nil, nil
	}
	if v.Kind == document.Text && v.Text == "none" {
		return &[]string{}, nil
	}
	if v.Kind == document.Text {
		f.Report(document.CodeFieldInvalid, v.At, "tools", "tools is %q; it must be a list of tool URIs, or none", document.Brief(v.Text))
		return &[]string{}, nil
	}
	list, at := f.Texts("tools")
	if list == nil {
		list = []string{}
	}
	return &list, at
}

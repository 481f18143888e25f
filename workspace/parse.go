package workspace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Codes of problems in a manifest, beside those of every document.
const (
	CodeRule       = "rule_invalid"
	CodeTool       = "unknown_tool"
	CodeCredential = "literal_credential"
)

const maxDocument = 1 << 20 // bytes

// FileName is the name of the manifest.
const FileName = "tipstaff.yaml"

// Read reads the manifest of a folder; nil: it has none. One that is not valid is
// invalid_program, with every problem.
func Read(dir string) (*Manifest, error) {
	path := filepath.Join(dir, FileName)
	src, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the manifest cannot be read: %v", err), Err: err}
	}
	m, problems := ParseIn(Beside(dir), FileName, src)
	if len(problems) > 0 {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the manifest " + path + " is not valid", Problems: problems}
	}
	return m, nil
}

// Parse reads tipstaff.yaml. It reports every problem with its line and column; with
// any, the manifest is nil. name is the file's, for the problems. A manifest that names
// other files needs [ParseIn].
func Parse(name string, src []byte) (*Manifest, []tipstaff.Problem) {
	return ParseIn(nil, name, src)
}

// ParseIn is Parse for a manifest beside which other files stand: those of dir.
func ParseIn(dir fs.FS, name string, src []byte) (*Manifest, []tipstaff.Problem) {
	p := &parser{dir: dir}
	m := newManifest()
	problems := append(p.read(name, src, m), p.elsewhere...)
	if len(problems) > 0 {
		return nil, problems
	}
	return m, nil
}

// Salvage is what can be read of a manifest, whatever is wrong with it.
func Salvage(dir fs.FS, src []byte) *Manifest {
	p := &parser{dir: dir}
	m := newManifest()
	p.read("", src, m)
	return m
}

// parser is what the readers of sections share.
type parser struct {
	dir       fs.FS              // files beside the manifest; nil: none can be read
	obeys     []string           // those that it names
	elsewhere []tipstaff.Problem // of these
}

// parserOf is the parser whose sections f reads.
func parserOf(f *document.Fields) *parser { return f.Context.(*parser) }

// read decodes a document into a struct, and says everything that is wrong with it. An
// empty one is left out.
func (p *parser) read(name string, src []byte, into any) []tipstaff.Problem {
	v, ps := document.ReadAll(src, maxDocument)
	if len(ps) == 1 && errors.Is(ps[0].Cause, document.ErrEmpty) {
		return nil
	}
	if v != nil {
		credentials(&ps, v, "")
		f := document.FieldsOf(&ps, v, "")
		f.Dotted, f.Context = true, p
		f.Decode(into)
		f.End()
	}
	problems := ps.Public(name)
	for i := range problems {
		problems[i].Path, problems[i].Message = conceal(problems[i].Path), conceal(problems[i].Message)
	}
	return problems
}

// CheckDocument reads what needs the whole document, and what a tag cannot say.
func (m *Manifest) CheckDocument(f *document.Fields) {
	p := parserOf(f)
	f.Integer("version", 1, 1, 1)
	if v := f.Get("allowed_effects"); v != nil && v.Kind == document.List {
		twice(f, "allowed_effects", v.Items)
	}
	f.Object("policy", func(f *document.Fields) { p.policy(f, m) })
	m.readBounds(f)
	if v := f.Typed("prompts", document.Text); v != nil {
		p.prompts(f, v, m)
	}
	f.Object("anchor", m.readAnchor)
	m.checkAgents(f)
	m.checkWorkers(f)
	m.checkTimeouts(f)
	m.obeys, m.unasked = p.obeys, unaskedRules(m.Policy)
}

// needs reports a member that is missing, and what it would be.
func needs(f *document.Fields, name, why string) {
	if f.Get(name) == nil {
		f.Problems.Add(document.CodeFieldMissing, f.Value.At, f.Path, "%s needs %s%s", f.Path, name, why)
	}
}

// check reports a text that does not pass.
func check(f *document.Fields, name string, pass func(string) error) {
	if v := f.Get(name); v != nil && v.Kind == document.Text {
		if err := pass(v.Text); err != nil {
			f.Report(document.CodeRange, v.At, name, "%v", err)
		}
	}
}

// checkEach reports texts of a list that do not pass.
func checkEach(f *document.Fields, name string, pass func(string) error) {
	if v := f.Get(name); v != nil {
		for i, item := range v.Items {
			if err := pass(item.Text); err != nil && item.Kind == document.Text {
				f.Report(document.CodeRange, item.At, index(name, i), "%v", err)
			}
		}
	}
}

func index(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// twice reports items that an earlier one equals.
func twice(f *document.Fields, name string, items []*document.Value) {
	for i, item := range items {
		if slices.ContainsFunc(items[:i], func(v *document.Value) bool { return v.Kind == document.Text && v.Text == item.Text }) {
			f.Report(document.CodeFieldInvalid, item.At, index(name, i), "%q stands twice", document.Brief(item.Text))
		}
	}
}

func (m *Manifest) readBounds(f *document.Fields) {
	f.Object("bounds", func(f *document.Fields) {
		m.Bounds = tipstaff.Bounds{}
		for _, e := range f.Value.Members {
			f.Ignore(e.Key)
			var value any = e.Value.Kind.String()
			switch e.Value.Kind {
			case document.Text:
				value = e.Value.Text
			case document.Number:
				value = json.Number(e.Value.Text)
			}
			limit, err := tipstaff.ParseBound(e.Key, value)
			var wrong *tipstaff.BoundError
			if errors.As(err, &wrong) {
				at := e.Value.At
				if wrong.Code == document.CodeFieldUnknown {
					at = e.At
				}
				f.Report(wrong.Code, at, e.Key, "bounds.%s: %s", wrong.Name, wrong.Message)
				continue
			}
			m.Bounds[e.Key] = limit
		}
	})
}

// readAnchor reads the file that where runs come to rest is written to. It is of use
// only outside the store.
func (m *Manifest) readAnchor(f *document.Fields) {
	needs(f, "file", ", the name of the file that anchors are written to")
	v := f.Typed("file", document.Text)
	if v == nil {
		return
	}
	m.Anchor = v.Text
	switch {
	case strings.TrimSpace(v.Text) == "":
		f.Report(document.CodeRange, v.At, "file", "%s is empty: it is the name of the file that anchors are written to", f.PathOf("file"))
	case slices.Contains(strings.Split(path.Clean(filepath.ToSlash(v.Text)), "/"), ".tipstaff"):
		f.Report(document.CodeRange, v.At, "file", "%s lies in .tipstaff: whoever changes the store could change it too", f.PathOf("file"))
	}
}

// checkTimeouts compares those of servers, tools and agents with max_timeout.
func (m *Manifest) checkTimeouts(f *document.Fields) {
	compare := func(d document.Duration, where ...string) {
		if v := f.Value.Find(where...); v != nil && m.MaxTimeout > 0 && d > m.MaxTimeout {
			at := strings.Join(where, ".")
			f.Problems.Add(document.CodeRange, v.At, at, "%s is %s: max_timeout is %s", at, d, m.MaxTimeout)
		}
	}
	for name, s := range m.Servers {
		compare(s.Timeout, "servers", name, "timeout")
		for tool, t := range s.Tools {
			compare(document.Duration(t.Timeout), "servers", name, "tools", tool, "timeout")
		}
	}
	for name, a := range m.Agents {
		compare(a.ToolTimeout, "agents", name, "tool_timeout")
	}
}

// beside reads a file that the manifest names, relative to its own folder.
func (p *parser) beside(name string) ([]byte, error) {
	switch {
	case p.dir == nil:
		return nil, errors.New("this manifest was given without the files beside it")
	case !fs.ValidPath(name) || name == ".":
		return nil, errors.New("only files in the folder of the manifest can be named, without . and .. in their path")
	}
	p.obeys = append(p.obeys, name)
	src, err := fs.ReadFile(p.dir, name)
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return nil, failed.Err // the path is in the message already
	}
	return src, err
}

// ReadDocument reads the file that is named.
func (file *File) ReadDocument(f *document.Fields, name string, v *document.Value) {
	if f.Typed(name, document.Text) == nil {
		return
	}
	src, err := parserOf(f).beside(v.Text)
	switch path := f.PathOf(name); {
	case err != nil:
		f.Report(document.CodeRange, v.At, name, "%s: the file %s cannot be read: %v", path, tipstaff.Quote(v.Text, 200), err)
	case len(src) > maxDocument:
		f.Report(document.CodeLimit, v.At, name, "%s: the file %s has %d bytes: %d are the most", path, tipstaff.Quote(v.Text, 200), len(src), maxDocument)
	case !utf8.Valid(src):
		f.Report(document.CodeRange, v.At, name, "%s: the file %s is not UTF-8", path, tipstaff.Quote(v.Text, 200))
	default:
		credential(f.Problems, v.At, path, string(src))
		*file = File{Name: v.Text, Digest: flow.Digest(src), Text: string(src)}
	}
}

// prompts reads the folder that replaces prompts.
func (p *parser) prompts(f *document.Fields, v *document.Value, m *Manifest) {
	name := path.Clean(cmp.Or(v.Text, "."))
	if p.dir == nil || !fs.ValidPath(name) {
		_, err := p.beside(name)
		f.Report(document.CodeRange, v.At, "prompts", "prompts: the folder %s cannot be read: %v", tipstaff.Quote(name, 200), err)
		return
	}
	if name != "." { // what is new there is read, too
		p.obeys = append(p.obeys, name)
	}
	for _, prompt := range prompts.Names() {
		p.obeys = append(p.obeys, path.Join(name, string(prompt)))
	}
	folder, err := fs.Sub(p.dir, name)
	var set prompts.Set
	if err == nil {
		set, err = prompts.Default().Override(folder)
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			f.Report(document.CodeRange, v.At, "prompts", "prompts: %s: %s", name, line)
		}
		return
	}
	for _, prompt := range prompts.Names() {
		credential(f.Problems, v.At, "prompts", set.Text(prompt))
	}
	if set.Toolkits != m.Prompts.Toolkits {
		_, problems := ParseToolkits(path.Join(name, string(prompts.Toolkits)), []byte(set.Toolkits))
		p.elsewhere = append(p.elsewhere, problems...)
	}
	m.Prompts = set
}

// Beside is the files of a manifest's folder. A link that leads out of it is not
// followed: what is obeyed stands where the manifest does, and is reviewed with it.
func Beside(dir string) fs.FS { return folder(dir) }

type folder string

// Open implements fs.FS.
func (dir folder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := os.OpenInRoot(string(dir), filepath.FromSlash(name))
	if err == nil {
		return f, nil
	}
	if real, rerr := filepath.EvalSymlinks(filepath.Join(string(dir), filepath.FromSlash(name))); rerr == nil {
		home, herr := filepath.EvalSymlinks(string(dir))
		if rel, lerr := filepath.Rel(home, real); herr == nil && (lerr != nil || !filepath.IsLocal(rel)) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it is a link that leads out of the folder of the manifest: put the file itself there")}
		}
	}
	return nil, err
}

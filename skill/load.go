package skill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Names of the files of a skill.
const (
	manifestFile = "skill.yaml"
	documentFile = "SKILL.md"
	planFile     = "plan.yaml"
)

const maxPlan = 1 << 20 // bytes of plan.yaml

// Causes of errors, for errors.Is.
var (
	// ErrInvalid: the files of the skill are at fault; the error lists how.
	ErrInvalid = errors.New("the skill is not valid")
	// ErrUnknown: there is no folder of that name.
	ErrUnknown = errors.New("there is no such skill")
	// ErrMismatch: the folder holds another version than the URI names.
	ErrMismatch = errors.New("the skill is not the one that is named")
)

// Load reads the skill in a folder, which bears the skill's id as its name. The
// error is a [*tipstaff.Error] with every problem, each in its file, line and
// column.
func Load(dir string) (*Skill, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(full)
	return loadFrom(root, err, dir, filepath.Base(full))
}

// loadFrom reads the skill in a folder that was opened, or says why it was not.
func loadFrom(root *os.Root, err error, dir, id string) (*Skill, error) {
	if err != nil {
		return nil, unreadable(dir, err)
	}
	defer root.Close()
	s, ps := load(root, dir, id)
	if len(ps) > 0 {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: fmt.Sprintf("the skill in %s is not valid", dir), Problems: ps, Err: ErrInvalid}
	}
	return s, nil
}

func unreadable(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("there is no skill in %s", dir), Err: ErrUnknown}
	}
	return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the skill in %s cannot be read: %v", dir, err), Err: err}
}

// load reads the files of a folder. dir is how the reader of messages knows it;
// id is its name.
func load(root *os.Root, dir, id string) (*Skill, []tipstaff.Problem) {
	s := &Skill{}
	var manifest, prose, plan, files, warnings document.Problems
	src, found := read(root, &manifest, manifestFile, maxYAML, false)
	switch s.Published = !found && len(manifest) == 0; {
	case found:
		s.parseManifest(&manifest, src, id)
	case s.Published && !tipstaff.IsSkillID(id):
		files.Add(document.CodeFieldInvalid, document.Position{}, "", "the folder is named %s, which cannot be the id of a skill; %s", tipstaff.Quote(id, 120), tipstaff.SkillIDRule)
	case s.Published:
		s.ID = id
	}
	if src, ok := read(root, &prose, documentFile, maxProse, true); ok {
		s.readDocument(&prose, &warnings, src)
	}
	if src, ok := read(root, &plan, planFile, maxPlan, false); ok {
		s.Plan = src
		if p := document.CheckText(src); p != nil {
			plan = append(plan, *p)
		}
	}
	s.readFiles(root, &files)
	if len(warnings) > 0 {
		s.Warnings = warnings.Public(filepath.Join(dir, documentFile))
	}
	return s, slices.Concat(
		files.Public(dir),
		manifest.Public(filepath.Join(dir, manifestFile)),
		prose.Public(filepath.Join(dir, documentFile)),
		plan.Public(filepath.Join(dir, planFile)))
}

// readObject reads YAML that is to be an object, whole and with numbers that can be
// kept. nil: ps says why not.
func readObject(ps *document.Problems, src []byte) *document.Value {
	v, found := document.ReadAll(src, maxYAML)
	if v != nil {
		document.CheckNumbers(v, &found)
	}
	if len(found) == 0 && v.Kind != document.Object {
		found.Add(document.CodeFieldType, v.At, "", "an object belongs here, not %v", v.Kind)
	}
	if len(found) == 0 {
		return v
	}
	*ps = append(*ps, found...)
	return nil
}

// read is the content of a file. false: it is not there or cannot be used, and
// ps says why unless it may be absent.
func read(root *os.Root, ps *document.Problems, name string, most int, required bool) ([]byte, bool) {
	refused := func(code, format string, args ...any) ([]byte, bool) {
		ps.Add(code, document.Position{}, "", format, args...)
		return nil, false
	}
	info, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := root.Lstat(name); err != nil && !required { // else it is a link to nothing
			return nil, false
		}
		return refused(codeFileMissing, "%s is missing", name)
	}
	if err == nil && !info.Mode().IsRegular() {
		return refused(codeFile, "%s is not a file", name)
	}
	var src []byte
	if err == nil {
		var f *os.File
		if f, err = root.Open(name); err == nil {
			defer f.Close()
			src, err = io.ReadAll(io.LimitReader(f, int64(most)+1))
		}
	}
	switch {
	case err != nil:
		return refused(codeFile, "%s cannot be read: %v", name, plain(err))
	case len(src) > most:
		return refused(document.CodeLimit, "%s has more than %d bytes", name, most)
	}
	return src, true
}

const (
	maxProse       = 256 << 10 // bytes of SKILL.md
	maxDescription = 1024      // characters
)

// readDocument reads SKILL.md: front matter between two lines of three dashes,
// then prose. Of the front matter name and description have a meaning here;
// other members are for other readers of the same convention. A skill that was published
// without a manifest may deviate from the convention, as many do: that is a warning.
func (s *Skill) readDocument(ps, warnings *document.Problems, src []byte) {
	s.document = src
	if p := document.CheckText(src); p != nil {
		*ps = append(*ps, *p)
		return
	}
	front, prose, ok := cutFrontMatter(src)
	if !ok {
		ps.Add(codeFrontMatter, document.Position{Line: 1, Column: 1}, "", "SKILL.md begins with front matter: a line ---, name and description, and a line --- again")
		return
	}
	s.Prose = strings.TrimSpace(string(prose))
	v := readObject(ps, front)
	if v == nil {
		return
	}
	f := document.FieldsOf(ps, v, "")
	f.Dotted = true
	if s.Published {
		s.publish(f, ps, warnings)
		return
	}
	// The name is the manifest's id, if that is one.
	if v := f.Required("name", document.Text); v != nil && tipstaff.IsSkillID(s.ID) && v.Text != s.ID {
		ps.Add(codeMismatch, v.At, "name", "name is %s, but the id in skill.yaml is %s", tipstaff.Quote(v.Text, 120), tipstaff.Quote(s.ID, 120))
	}
	s.Description = description(f.Required("description", document.Text), ps, ps)
}

// unversioned is the version of a published skill that states none.
const unversioned = "0.0.0"

// publish makes the manifest of a skill that has none: it is for everything, and may use
// nothing. Its version is that of the front matter's metadata.
func (s *Skill) publish(f *document.Fields, ps, warnings *document.Problems) {
	switch v := f.Get("name"); {
	case v == nil || v.Kind != document.Text:
		warnings.Add(document.CodeFieldMissing, f.Value.At, "name", "the front matter has no name: that of the folder is taken, %s", s.ID)
	case v.Text != s.ID:
		warnings.Add(codeMismatch, v.At, "name", "name is %s, but the folder is named %s, which counts", tipstaff.Quote(v.Text, 120), s.ID)
	}
	s.Description = description(f.Required("description", document.Text), ps, warnings)
	if s.manifest != nil {
		return // that with which it was frozen
	}
	s.Version, s.Verbs, s.Tools, s.SubSkills = unversioned, slices.Clone(document.Verbs), []string{}, []string{}
	if v := f.Value.Find("metadata", "version"); v != nil && tipstaff.IsVersion(v.Text) {
		s.Version = v.Text
	}
	if v := f.Get("allowed-tools"); v != nil {
		warnings.Add(codeNotGranted, v.At, "allowed-tools", "allowed-tools grants nothing here: skill.yaml lists the tools that a skill may use")
	}
	s.manifest = canonical(map[string]any{"id": s.ID, "version": s.Version, "verbs": s.Verbs, "tools": "none", "sub_skills": "none"})
}

func description(v *document.Value, ps, warnings *document.Problems) string {
	if v == nil {
		return ""
	}
	switch n := utf8.RuneCountInString(v.Text); {
	case strings.TrimSpace(v.Text) == "":
		ps.Add(document.CodeFieldInvalid, v.At, "description", "the description is blank")
	case n > maxDescription:
		warnings.Add(document.CodeFieldInvalid, v.At, "description", "the description has %d characters; at most %d are read", n, maxDescription)
	}
	return strings.Join(strings.Fields(v.Text), " ")
}

// cutFrontMatter splits a text that begins with a line of three dashes at the next
// such line. The front begins with its own, so that lines count as in the file.
func cutFrontMatter(src []byte) (front, rest []byte, ok bool) {
	first, rest := cutLine(src)
	if !isFence(first) {
		return nil, nil, false
	}
	for len(rest) > 0 {
		var line []byte
		end := len(src) - len(rest)
		if line, rest = cutLine(rest); isFence(line) {
			return src[:end], rest, true
		}
	}
	return nil, nil, false
}

func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r")) == "---" }

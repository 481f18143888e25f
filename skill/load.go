package skill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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
	if err != nil {
		return nil, unreadable(dir, err)
	}
	defer root.Close()
	s, ps := load(root, dir, filepath.Base(full))
	if len(ps) > 0 {
		return nil, invalid(dir, ps)
	}
	return s, nil
}

func unreadable(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("there is no skill in %s", dir), Err: ErrUnknown}
	}
	return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the skill in %s cannot be read: %v", dir, err), Err: err}
}

func invalid(dir string, ps []tipstaff.Problem) error {
	return &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: fmt.Sprintf("the skill in %s is not valid", dir), Problems: ps, Err: ErrInvalid}
}

// load reads the files of a folder. dir is how the reader of messages knows it;
// id is its name.
func load(root *os.Root, dir, id string) (*Skill, []tipstaff.Problem) {
	s := &Skill{}
	var manifest, prose, plan document.Problems
	if src, ok := read(root, &manifest, manifestFile, maxYAML, true); ok {
		s.parseManifest(&manifest, src, id)
	}
	if src, ok := read(root, &prose, documentFile, maxProse, true); ok {
		s.readDocument(&prose, src)
	}
	if src, ok := read(root, &plan, planFile, maxPlan, false); ok {
		s.Plan = src
		if p := document.CheckText(src); p != nil {
			plan = append(plan, *p)
		}
	}
	return s, slices.Concat(
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
		return refused(codeFile, "%s cannot be read: %v", name, cause(err))
	case len(src) > most:
		return refused(document.CodeLimit, "%s has more than %d bytes", name, most)
	}
	return src, true
}

// cause leaves out the path, which the message has.
func cause(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

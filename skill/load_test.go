package skill_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/skill"
)

const (
	goodManifest = `# Writes notes.
id: notes
version: 1.2.3
verbs: [build, "x:summarise"]
inputs:
  file: {type: string, description: what to read}
  depth: {type: integer, default: 2}
  tags: {type: object, properties: {a: {type: string}}, required: [a]}
outputs: {notes: {type: string}, title: {type: string, required: false}}
tools: [mcp://builtin/read_file@1.0.0, "mcp://git/log@sha256:0000000000000000000000000000000000000000000000000000000000000000"]
sub_skills: [skill://spelling@0.1.0]
failure_modes:
  - {reason: timeout, action: retry}
  - {reason: tool_error, action: gate, note: Is the file there?}
  - {reason: "x:mine", action: fail}
`
	goodDocument = `---
name: notes
description: >
  Writes notes
  from a file.
license: MIT
metadata: {author: someone}
---

# Notes

Read the file first.
`
)

// folder writes a skill called notes into a new folder of skills; "" is a file
// that is left out.
func folder(t testing.TB, manifest, document, plan string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "notes")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"skill.yaml": manifest, "SKILL.md": document, "plan.yaml": plan} {
		if text != "" {
			write(t, filepath.Join(dir, name), text)
		}
	}
	return dir
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, manifest, document, plan string) *skill.Skill {
	t.Helper()
	s, err := skill.Load(folder(t, manifest, document, plan))
	if err != nil {
		t.Fatalf("%v: %+v", err, problemsOf(err))
	}
	return s
}

func problemsOf(err error) []tipstaff.Problem {
	var e *tipstaff.Error
	if errors.As(err, &e) {
		return e.Problems
	}
	return nil
}

// codes of the problems of an error.
func codes(err error) []string {
	var all []string
	for _, p := range problemsOf(err) {
		all = append(all, p.Code)
	}
	return all
}

func TestLoad(t *testing.T) {
	got := load(t, goodManifest, goodDocument, "kind: plan\n")
	want := &skill.Skill{
		ID: "notes", Version: "1.2.3", Description: "Writes notes from a file.", Verbs: []string{"build", "x:summarise"},
		Inputs: []skill.Field{
			{Name: "depth", Default: []byte(`2`), Schema: []byte(`{"default":2,"type":"integer"}`)},
			{Name: "file", Required: true, Schema: []byte(`{"description":"what to read","type":"string"}`)},
			{Name: "tags", Required: true, Schema: []byte(`{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`)},
		},
		Outputs: []skill.Field{{Name: "notes", Required: true, Schema: []byte(`{"type":"string"}`)}, {Name: "title", Schema: []byte(`{"type":"string"}`)}},
		Tools:   []string{"mcp://builtin/read_file@1.0.0", "mcp://git/log@sha256:" + strings.Repeat("0", 64)},

		SubSkills:    []string{"skill://spelling@0.1.0"},
		FailureModes: []skill.FailureMode{{"timeout", skill.Retry, ""}, {"tool_error", skill.Gate, "Is the file there?"}, {"x:mine", skill.Fail, ""}},
		Prose:        "# Notes\n\nRead the file first.",
		Plan:         []byte("kind: plan\n"),
	}
	if diff := cmp.Diff(want, got, cmp.FilterPath(unexported, cmp.Ignore())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.URI().String() != "skill://notes@1.2.3" {
		t.Errorf("its URI is %s", got.URI())
	}
}

// unexported fields are compared through Digest and Freeze; places of fields are not.
func unexported(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && (f.Name() == "manifest" || f.Name() == "document" || f.Name() == "files" || f.Name() == "At")
}

func TestNoneAndEmptyAllowNothing(t *testing.T) {
	minimal := "id: notes\nversion: 1.0.0\nverbs: [find]\nsub_skills: none\n"
	for _, tools := range []string{"tools: none", "tools: []"} {
		s := load(t, minimal+tools, goodDocument, "")
		if s.Tools == nil || len(s.Tools) > 0 || s.SubSkills == nil || len(s.SubSkills) > 0 || s.Inputs != nil || s.Plan != nil {
			t.Errorf("%s: %+v", tools, s)
		}
	}
	if _, err := skill.Load(folder(t, minimal, goodDocument, "")); !slices.Equal(codes(err), []string{"field_missing"}) {
		t.Errorf("without tools: %v", codes(err))
	}
}

func TestMode(t *testing.T) {
	s := load(t, goodManifest, goodDocument, "")
	if m, ok := s.Mode("tool_error"); !ok || m.Action != skill.Gate || m.Note != "Is the file there?" {
		t.Errorf("tool_error: %+v", m)
	}
	if m, ok := s.Mode("internal"); ok {
		t.Errorf("internal: %+v", m)
	}
}

var marker = regexp.MustCompile(`«([a-z_,]+)»`)

// unmark takes the markers out of a file and returns where they stood.
func unmark(name, src string) (clean string, want []string) {
	for {
		m := marker.FindStringSubmatchIndex(src)
		if m == nil {
			return src, want
		}
		before := src[:m[0]]
		line := strings.Count(before, "\n") + 1
		column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
		for _, code := range strings.Split(src[m[2]:m[3]], ",") {
			want = append(want, fmt.Sprintf("%s:%d:%d %s", name, line, column, code))
		}
		src = before + src[m[1]:]
	}
}

func TestEveryFaultIsReportedWhereItStands(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/invalid.txtar")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]map[string]string{}
	for _, f := range archive.Files {
		name, file := filepath.Split(f.Name)
		if cases[name] == nil {
			cases[name] = map[string]string{"skill.yaml": goodManifest, "SKILL.md": goodDocument}
		}
		cases[name][file] = string(f.Data)
	}
	for name, files := range cases {
		t.Run(name, func(t *testing.T) {
			var want []string
			for file, text := range files {
				clean, found := unmark(file, text)
				files[file], want = clean, append(want, found...)
			}
			if len(want) == 0 {
				t.Fatal("the files have no markers")
			}
			dir := folder(t, files["skill.yaml"], files["SKILL.md"], "")
			s, err := skill.Load(dir)
			if s != nil || !errors.Is(err, skill.ErrInvalid) || tipstaff.CodeOf(err) != tipstaff.InvalidProgram {
				t.Fatalf("%v, %v", s, err)
			}
			var got []string
			for _, p := range problemsOf(err) {
				got = append(got, fmt.Sprintf("%s:%d:%d %s", strings.TrimPrefix(p.File, dir+"/"), p.Line, p.Column, p.Code))
				if p.Message == "" {
					t.Errorf("%+v has no message", p)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, problemsOf(err))
			}
		})
	}
}

func TestProblemsAreInTheOrderOfTheFiles(t *testing.T) {
	_, err := skill.Load(folder(t, strings.Replace(goodManifest, "inputs:", "b: 1\na: 2\ninputs:", 1), "no front matter", ""))
	var got []string
	for _, p := range problemsOf(err) {
		got = append(got, fmt.Sprintf("%s:%d", filepath.Base(p.File), p.Line))
	}
	if diff := cmp.Diff([]string{"skill.yaml:5", "skill.yaml:6", "SKILL.md:1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFilesThatAreNoText(t *testing.T) {
	for name, c := range map[string]struct{ manifest, document, plan, want string }{
		"no document":     {goodManifest, "", "", "SKILL.md:0:0 file_missing"},
		"manifest, bytes": {"id: notes\nversion: \xff", goodDocument, "", "skill.yaml:2:10 syntax"},
		"document, NUL":   {goodManifest, goodDocument + "é\x00", "", "SKILL.md:13:2 syntax"},
		"plan, bytes":     {goodManifest, goodDocument, "kind: \xc3\x28", "plan.yaml:1:7 syntax"},
		"document, mark":  {goodManifest, "\ufeff" + goodDocument, "", "SKILL.md:1:1 syntax"},
		"manifest, large": {goodManifest + strings.Repeat("# more\n", 10<<10), goodDocument, "", "skill.yaml:0:0 limit"},
		"document, large": {goodManifest, goodDocument + strings.Repeat("x", 256<<10), "", "SKILL.md:0:0 limit"},
		"plan, large":     {goodManifest, goodDocument, strings.Repeat("x", 1<<20+1), "plan.yaml:0:0 limit"},
		"brackets":        {"id: " + strings.Repeat("[", 30<<10), goodDocument, "", "skill.yaml:1:132 limit"},
		"dashes":          {"id:\n  " + strings.Repeat("- ", 15<<10) + "x", goodDocument, "", "skill.yaml:2:257 limit"},
		"long line":       {goodManifest, "---\nname: notes\ndescription: " + strings.Repeat("é", 1025) + "\n---\n", "", "SKILL.md:3:14 field_invalid"},
		"levels":          {"id: " + strings.Repeat("[", 128) + strings.Repeat("]", 128), goodDocument, "", "skill.yaml:1:132 limit"}, // id is a level too,
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, c.manifest, c.document, c.plan)
			_, err := skill.Load(dir)
			ps := problemsOf(err)
			if len(ps) != 1 {
				t.Fatalf("%v: %+v", err, ps)
			}
			if got := fmt.Sprintf("%s:%d:%d %s", filepath.Base(ps[0].File), ps[0].Line, ps[0].Column, ps[0].Code); got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, ps[0].Message)
			}
		})
	}
}

// Nothing outside of the folder is read, whichever way it is asked for.
func TestLinksDoNotLeadOut(t *testing.T) {
	outside := folder(t, goodManifest, goodDocument, "")
	for _, file := range []string{"skill.yaml", "SKILL.md", "plan.yaml"} {
		write(t, filepath.Join(outside, "plan.yaml"), "kind: plan\n")
		for _, target := range []string{filepath.Join(outside, file), "../other/" + file} {
			dir := folder(t, goodManifest, goodDocument, "kind: plan\n")
			other := filepath.Join(filepath.Dir(dir), "other")
			if err := os.CopyFS(other, os.DirFS(outside)); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, file)
			if err := errors.Join(os.Remove(name), os.Symlink(target, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := skill.Load(dir); !slices.Equal(codes(err), []string{"file_unreadable"}) {
				t.Errorf("%s -> %s: %v %v", file, target, err, codes(err))
			}
		}
	}
	dir := folder(t, goodManifest, goodDocument, "")
	if err := os.Symlink("SKILL.md", filepath.Join(dir, "plan.yaml")); err != nil {
		t.Fatal(err)
	}
	if s, err := skill.Load(dir); err != nil || string(s.Plan) != goodDocument {
		t.Errorf("a link inside the folder: %v", err)
	}
}

func TestWhatIsNoFile(t *testing.T) {
	dir := folder(t, goodManifest, "", "")
	if err := os.Mkdir(filepath.Join(dir, "SKILL.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "plan.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := skill.Load(dir); !slices.Equal(codes(err), []string{"file_unreadable", "file_unreadable"}) {
		t.Errorf("%v %v", err, codes(err))
	}
	if err := os.Remove(filepath.Join(dir, "plan.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "plan.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := skill.Load(dir); !slices.Equal(codes(err), []string{"file_unreadable", "file_missing"}) {
		t.Errorf("a link to nothing: %v %v", err, codes(err))
	}
	if _, err := skill.Load(filepath.Join(dir, "missing")); !errors.Is(err, skill.ErrUnknown) {
		t.Errorf("no folder: %v", err)
	}
}

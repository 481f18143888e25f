package skill_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/skill"
)

const publishedDocument = `---
name: notes
description: Writes notes. Use it when notes are wanted.
license: Apache-2.0
allowed-tools: Read, Bash(git:*)
metadata: {version: "2.1.0", author: someone}
---
Run scripts/write.py.
`

// A skill as it is published, SKILL.md alone, is for everything and may use nothing. What
// deviates from the convention, as many do, is a warning.
func TestPublishedSkills(t *testing.T) {
	for name, c := range map[string]struct {
		document, uri string
		warnings      []string
	}{
		"as the convention has it": {publishedDocument, "skill://notes@2.1.0", []string{"tools_not_granted"}},
		"no version":               {"---\nname: notes\ndescription: d\n---\n", "skill://notes@0.0.0", nil},
		"half a version":           {"---\nname: notes\ndescription: d\nmetadata: {version: \"1.0\"}\n---\n", "skill://notes@0.0.0", nil},
		"another name":             {"---\nname: Note Taking\ndescription: d\n---\n", "skill://notes@0.0.0", []string{"skill_mismatch"}},
		"no name":                  {"---\ndescription: d\n---\n", "skill://notes@0.0.0", []string{"field_missing"}},
		"a long description":       {"---\nname: notes\ndescription: " + strings.Repeat("d", 1025) + "\n---\n", "skill://notes@0.0.0", []string{"field_invalid"}},
	} {
		s := load(t, "", c.document, "")
		var warned []string
		for _, w := range s.Warnings {
			warned = append(warned, w.Code)
		}
		if s.URI().String() != c.uri || !s.Published || len(s.Tools) != 0 || s.Tools == nil || len(s.SubSkills) != 0 || !slices.Equal(s.Verbs, document.Verbs) || !slices.Equal(warned, c.warnings) {
			t.Errorf("%s: %+v", name, s)
		}
		back, err := skill.Thaw(s.Freeze())
		if err != nil || back.Digest() != s.Digest() || !back.Published || back.URI() != s.URI() {
			t.Errorf("%s: frozen and thawed it is %+v, %v", name, back, err)
		}
	}
	for name, c := range map[string]struct{ document, code string }{
		"nothing at all":    {"", "file_missing"},
		"no front matter":   {"# Notes\n", "front_matter"},
		"no description":    {"---\nname: notes\n---\n", "field_missing"},
		"blank description": {"---\nname: notes\ndescription: \" \"\n---\n", "field_invalid"},
	} {
		if _, err := skill.Load(folder(t, "", c.document, "")); !slices.Equal(codes(err), []string{c.code}) {
			t.Errorf("%s: %v", name, problemsOf(err))
		}
	}
	dir := folder(t, "", publishedDocument, "")
	other := filepath.Join(filepath.Dir(dir), "My Notes")
	if err := os.Rename(dir, other); err != nil {
		t.Fatal(err)
	}
	if _, err := skill.Load(other); !slices.Equal(codes(err), []string{"field_invalid"}) {
		t.Errorf("a folder that cannot be an id: %v", problemsOf(err))
	}
}

// The digest is of every file of the folder, also of those that only the model's reader
// opens, and of those without skill.yaml. What version control keeps there is not part of
// the skill.
func TestDigestCoversEveryFile(t *testing.T) {
	for _, manifest := range []string{"", goodManifest} {
		dir := folder(t, manifest, goodDocument, "")
		digest := func() string {
			t.Helper()
			s, err := skill.Load(dir)
			if err != nil {
				t.Fatalf("%v: %+v", err, problemsOf(err))
			}
			if back, err := skill.Thaw(s.Freeze()); err != nil || back.Digest() != s.Digest() {
				t.Fatalf("thawed: %v", err)
			}
			return s.Digest()
		}
		seen := map[string]string{digest(): "alone"}
		differs := func(what string) {
			t.Helper()
			d := digest()
			if before, ok := seen[d]; ok {
				t.Errorf("%s: the digest is that of %s", what, before)
			}
			seen[d] = what
		}
		for _, path := range []string{"scripts/deep/run.py", "references/api.md", "assets/logo.png", ".hidden"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, path), "one")
			differs("with " + path)
			write(t, filepath.Join(dir, path), "two")
			differs("with another " + path)
		}
		if err := os.Symlink("references/api.md", filepath.Join(dir, "link.md")); err != nil {
			t.Fatal(err)
		}
		differs("with a link inside")
		before := digest()
		if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, ".git", "HEAD"), "x")
		if digest() != before {
			t.Error("what version control keeps changes the digest")
		}
	}
}

// A folder of links that lead out, of devices, or of too much is no skill.
func TestFilesThatCannotBePartOfASkill(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) error
		code string
	}{
		"a link out":         {func(dir string) error { return os.Symlink("../../secret", filepath.Join(dir, "out")) }, "file_unreadable"},
		"a link to nothing":  {func(dir string) error { return os.Symlink("nothing", filepath.Join(dir, "out")) }, "file_unreadable"},
		"a link to a folder": {func(dir string) error { return os.Symlink(".", filepath.Join(dir, "again")) }, "file_unreadable"},
		"too many": {func(dir string) error {
			for i := range 1001 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
					return err
				}
			}
			return nil
		}, "limit"},
		"too large": {func(dir string) error {
			write(t, filepath.Join(dir, "big"), "")
			return os.Truncate(filepath.Join(dir, "big"), 64<<20+1)
		}, "limit"},
	} {
		dir := folder(t, "", goodDocument, "")
		write(t, filepath.Join(filepath.Dir(dir), "secret"), "secret")
		if err := c.make(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := skill.Load(dir); !slices.Equal(codes(err), []string{c.code}) {
			t.Errorf("%s: %v", name, problemsOf(err))
		}
	}
}

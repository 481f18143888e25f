package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withSkills is a workspace with the skills that come with Tipstaff.
func withSkills(t *testing.T, files string) *workspace {
	t.Helper()
	w := newWorkspace(t, manifest, files)
	w.Check(os.CopyFS(filepath.Join(w.Dir, "skills"), os.DirFS("../../skills")))
	return w
}

func TestShippedSkillsAreValid(t *testing.T) {
	t.Parallel()
	w := withSkills(t, "")
	listed := w.Must(0, "skills", "check").Out
	folders, err := filepath.Glob("../../skills/*/skill.yaml")
	w.Check(err)
	if got := strings.Count(listed, "  ok\n"); got != len(folders) || got < 3 {
		t.Errorf("%d of %d skills are valid:\n%s", got, len(folders), listed)
	}
	// Each has a plan of its own, so that it can be tried without a model.
	plans, err := filepath.Glob("../../skills/*/plan.yaml")
	w.Check(err)
	if len(plans) != len(folders) {
		t.Errorf("%d plans for %d skills", len(plans), len(folders))
	}
}

func TestReleaseNotesSkill(t *testing.T) {
	t.Parallel()
	w := withSkills(t, "-- CHANGELOG.md --\n# Changes\n\n## [1.4.0] - 2026-01-31\n\n- New\n- Mended\n\n## 1.4.0-rc.1\n\n- Rough\n\n## v1.3.0\n\n- Old\n")
	w.Must(4, "run", "skills/release-notes/plan.yaml", "--input", "version=1.4.0", "--unattended")
	if _, err := os.Stat(filepath.Join(w.Dir, "out")); err == nil {
		t.Error("the notes were written before anybody agreed")
	}
	w.Must(0, "decide", "@", "root/ok", "approve")
	w.Must(0, "resume", "@")
	if got, want := w.Read("out/release-notes.md"), "# 1.4.0\n\n- New\n- Mended\n"; got != want {
		t.Errorf("the notes are %q, want %q", got, want)
	}
	w.Must(0, "verify", "@")
	w.Must(0, "run", "skills/release-notes/plan.yaml", "--input", "version=1.3.0", "--input", "target=old.md", "--yes")
	if got, want := w.Read("old.md"), "# 1.3.0\n\n- Old\n"; got != want {
		t.Errorf("the notes are %q, want %q", got, want)
	}

	// A version that the changelog does not have is asked about, and never guessed.
	w.Must(4, "run", "skills/release-notes/plan.yaml", "--input", "version=1.5.0", "--yes")
	if gates := w.show("@").OpenGates; len(gates) != 1 || gates[0].Key != "root/notes/failure" {
		t.Errorf("it waits for %+v", gates)
	}
}

func TestRepoReportSkill(t *testing.T) {
	t.Parallel()
	w := withSkills(t, "-- repo/README.md --\nAbout it.\n-- repo/src/a.go --\npackage a\n-- repo/src/b.go --\npackage b // longer\n-- repo/Makefile --\nall:\n-- repo/.git/config --\nx\n")
	before := w.Read("repo/Makefile")
	w.Must(0, "run", "skills/repo-report/plan.yaml", "--input", "folder=repo")
	want := `{"about":"About it.\n","files":4,"report":"# repo\n\n4 files.\n\n| kind | files |\n|---|---|\n| .go | 2 |\n| .md | 1 |\n| none | 1 |\n\n` +
		`| largest | bytes |\n|---|---|\n| src/b.go | 20 |\n| README.md | 10 |\n| src/a.go | 10 |\n| Makefile | 5 |\n"}`
	if got := canonical(w, w.show("@").Outputs); got != want {
		t.Errorf("outputs %s\nwant    %s", got, want)
	}
	if w.Read("repo/Makefile") != before {
		t.Error("a report changed what it reports on")
	}
	w.Must(0, "verify", "@")
}

func TestSafeEditSkill(t *testing.T) {
	t.Parallel()
	edit := func(w *workspace, code int, find string) {
		w.Helper()
		w.Must(code, "run", "skills/safe-edit/plan.yaml", "--input", "path=f.txt", "--input", "find="+find, "--input", "replace=two", "--unattended")
	}
	const text = "one and three, three\n"
	t.Run("made", func(t *testing.T) {
		w := withSkills(t, "-- f.txt --\n"+text)
		edit(w, 4, "one")
		w.Must(0, "decide", "@", "root/ok", "approve")
		w.Must(0, "resume", "@")
		if got, want := w.Read("f.txt"), "two and three, three\n"; got != want {
			t.Errorf("the file is %q, want %q", got, want)
		}
		w.Must(0, "verify", "@")
	})
	t.Run("not allowed", func(t *testing.T) {
		w := withSkills(t, "-- f.txt --\n"+text)
		edit(w, 4, "one")
		w.Must(0, "decide", "@", "root/ok", "deny")
		w.Must(1, "resume", "@")
		if got := w.Read("f.txt"); got != text {
			t.Errorf("the file is %q", got)
		}
	})
	t.Run("the file has changed meanwhile", func(t *testing.T) {
		w := withSkills(t, "-- f.txt --\n"+text)
		edit(w, 4, "one")
		w.Check(os.WriteFile(filepath.Join(w.Dir, "f.txt"), []byte("one, changed\n"), 0o644))
		w.Must(0, "decide", "@", "root/ok", "approve")
		w.Must(1, "resume", "@")
		if got := w.Read("f.txt"); got != "one, changed\n" {
			t.Errorf("somebody's change was lost: %q", got)
		}
	})
	for _, find := range []string{"three", "four"} {
		t.Run(find, func(t *testing.T) {
			w := withSkills(t, "-- f.txt --\n"+text)
			edit(w, 1, find)
			if got := w.Read("f.txt"); got != text {
				t.Errorf("the file is %q", got)
			}
		})
	}
}

// skillOf is what the draft of a record says about its one skill.
func skillOf(w *workspace, draft record) (frozen, digest string) {
	w.Helper()
	var body struct {
		Frozen map[string]string
	}
	w.Check(json.Unmarshal(draft.Body, &body))
	return body.Frozen["skill://reader@1.0.0"], draft.field("skill_digest")
}

// Whoever holds the keys cannot make a run have used another skill than it did:
// not one that is not what its digest says, and not one that would have forbidden
// what was done.
func TestForgedSkill(t *testing.T) {
	t.Parallel()
	const skill = "id: reader\nversion: 1.0.0\nverbs: [find]\nsub_skills: none\ntools: "
	original := newWorkspace(t, manifest+"policy: {rules: [{id: all, tool: \"*/*\", do: allow}]}\n", `-- note.txt --
hello
-- skills/reader/SKILL.md --
---
name: reader
description: Reads.
---
-- ask.yaml --
kind: plan
version: 1
skill: skill://reader@1.0.0
root: {id: ok, kind: gate, question: Go?}
-- read.yaml --
kind: plan
version: 1
skill: skill://reader@1.0.0
root: {id: read, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}
`)
	original.Write("skills/reader/skill.yaml", skill+"none\n")
	original.Must(0, "run", "ask.yaml", "--yes")
	otherFrozen, otherDigest := skillOf(original, original.journal("@")[0])
	original.Write("skills/reader/skill.yaml", skill+"[mcp://builtin/read_file@1.0.0]\n")
	original.Must(0, "run", "read.yaml")
	original.Must(0, "verify", "@")
	ownFrozen, ownDigest := skillOf(original, original.journal("@")[0])
	for name, attack := range map[string]func(*book){
		"another skill":  func(b *book) { b.edit(0, ownFrozen, otherFrozen) },
		"another digest": func(b *book) { b.edit(0, ownDigest, otherDigest) },
		"one that forbids it": func(b *book) {
			b.edit(0, ownFrozen, otherFrozen)
			b.edit(0, ownDigest, otherDigest)
		},
		"another name": func(b *book) { b.edit(0, `"skill":"skill://reader@1.0.0"`, `"skill":"skill://reader@1.0.1"`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			b := w.openBook()
			attack(b)
			b.forge(w.keys())
			w.found(7, "unreadable", "replay_mismatch")
		})
	}
}

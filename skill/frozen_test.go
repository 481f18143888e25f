package skill_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/skill"
)

const (
	smallManifest  = "version: 1.0.0   # comment\nid: notes\nsub_skills: none\ntools: []\nverbs: [find]\n"
	smallCanonical = `{"id":"notes","sub_skills":"none","tools":[],"verbs":["find"],"version":"1.0.0"}`
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(h[:])
}

// The digest can be computed by anybody who has the files.
func TestDigest(t *testing.T) {
	plain := sum(`{"manifest":` + smallCanonical + `,"prose_sha256":"` + sum(goodDocument) + `"}`)
	if got := load(t, smallManifest, goodDocument, "").Digest(); got != plain {
		t.Errorf("without a plan: %s, want %s", got, plain)
	}
	planned := sum(`{"manifest":` + smallCanonical + `,"plan_sha256":"` + sum("kind: plan\n") + `","prose_sha256":"` + sum(goodDocument) + `"}`)
	if got := load(t, smallManifest, goodDocument, "kind: plan\n").Digest(); got != planned {
		t.Errorf("with a plan: %s, want %s", got, planned)
	}
}

func TestDigestIsOfWhatTheFilesSay(t *testing.T) {
	digest := func(manifest, document, plan string) string { return load(t, manifest, document, plan).Digest() }
	first := digest(smallManifest, goodDocument, "")
	if same := digest("# other comment\n"+smallManifest, goodDocument, ""); same != first {
		t.Error("a comment changed the digest")
	}
	seen := map[string]string{first: "the first"}
	for name, d := range map[string]string{
		"version":     digest(strings.Replace(smallManifest, "1.0.0", "1.0.1", 1), goodDocument, ""),
		"none for []": digest(strings.Replace(smallManifest, "[]", "none", 1), goodDocument, ""),
		"prose":       digest(smallManifest, goodDocument+"\n", ""),
		"description": digest(smallManifest, strings.Replace(goodDocument, "license: MIT\n", "", 1), ""),
		"a plan":      digest(smallManifest, goodDocument, "kind: plan"),
		"other plan":  digest(smallManifest, goodDocument, "kind: plan\n"),
	} {
		if former := seen[d]; former != "" {
			t.Errorf("%s has the digest of %s", name, former)
		}
		seen[d] = name
	}
}

func TestThawGivesTheSkillBack(t *testing.T) {
	for _, plan := range []string{"", "kind: plan\n"} {
		s := load(t, goodManifest, goodDocument, plan)
		back, err := skill.Thaw(s.Freeze())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, back, cmp.FilterPath(unexported, cmp.Ignore())); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		if s.Digest() != back.Digest() {
			t.Error("another digest came back")
		}
	}
}

func TestThawRefusesEverythingElse(t *testing.T) {
	good := string(load(t, smallManifest, goodDocument, "").Freeze())
	for name, frozen := range map[string]string{
		"nothing":       "",
		"null":          "null",
		"no JSON":       good[:len(good)-1],
		"more":          good + "{}",
		"blanks":        strings.Replace(good, ":", ": ", 1),
		"other member":  strings.Replace(good, `{"manifest"`, `{"extra":1,"manifest"`, 1),
		"no prose":      `{"manifest":` + smallCanonical + `}`,
		"not valid":     strings.Replace(good, `"tools":[],`, "", 1),
		"not a version": strings.Replace(good, "1.0.0", "1.0", 1),
		"front matter":  strings.Replace(good, `"---`, `"--`, 1),
	} {
		if frozen == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if s, err := skill.Thaw([]byte(frozen)); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A schema that Load refuses today was accepted earlier, and runs that froze its skill
// must go on.
func TestThawTakesSchemasAsTheyWere(t *testing.T) {
	manifest := strings.Replace(smallCanonical, `"id":"notes"`, `"id":"notes","outputs":{"a":{"anyOf":[{"type":"text"}]}}`, 1)
	frozen := `{"manifest":` + manifest + `,"prose":` + string(document.Quote(goodDocument)) + `}`
	s, err := skill.Thaw([]byte(frozen))
	if err != nil || len(s.Outputs) != 1 || string(s.Freeze()) != frozen {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzThaw(f *testing.F) {
	f.Add([]byte(`{"manifest":` + smallCanonical + `,"prose":"---\nname: notes\ndescription: x\n---\n"}`))
	f.Add([]byte(`{"manifest":{"id":"a","tools":[{}]},"plan":"","prose":""}`))
	f.Fuzz(func(t *testing.T, frozen []byte) {
		s, err := skill.Thaw(frozen)
		if err == nil && string(s.Freeze()) != string(frozen) {
			t.Fatalf("%s became %s", frozen, s.Freeze())
		}
	})
}

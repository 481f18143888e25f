package skill_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/skill"
)

func open(t *testing.T, dir string) *skill.Set {
	t.Helper()
	set, err := skill.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestLookup(t *testing.T) {
	skills := filepath.Dir(folder(t, goodManifest, goodDocument, ""))
	outside := folder(t, goodManifest, goodDocument, "")
	for name, target := range map[string]string{"linked": outside, "up": "../../x"} {
		if err := os.Symlink(target, filepath.Join(skills, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(skills, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	set := open(t, skills)
	for name, c := range map[string]struct {
		uri  tipstaff.SkillURI
		want error
	}{
		"there":         {tipstaff.SkillURI{ID: "notes", Version: "1.2.3"}, nil},
		"older":         {tipstaff.SkillURI{ID: "notes", Version: "1.2.2"}, skill.ErrMismatch},
		"unknown":       {tipstaff.SkillURI{ID: "other", Version: "1.2.3"}, skill.ErrUnknown},
		"dots":          {tipstaff.SkillURI{ID: "../notes", Version: "1.2.3"}, tipstaff.ErrInvalidURI},
		"folder itself": {tipstaff.SkillURI{ID: ".", Version: "1.2.3"}, tipstaff.ErrInvalidURI},
		"empty folder":  {tipstaff.SkillURI{ID: "empty", Version: "1.2.3"}, skill.ErrInvalid},
	} {
		s, err := set.Lookup(c.uri)
		if !errors.Is(err, c.want) || (s == nil) != (c.want != nil) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	for _, id := range []string{"linked", "up"} {
		if s, err := set.Lookup(tipstaff.SkillURI{ID: id, Version: "1.2.3"}); err == nil || s != nil {
			t.Errorf("%s leads out of the folder and was read", id)
		}
	}
}

func TestLookupSeesWhatIsThereNow(t *testing.T) {
	dir := folder(t, goodManifest, goodDocument, "")
	set := open(t, filepath.Dir(dir))
	before, err := set.Lookup(tipstaff.SkillURI{ID: "notes", Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "SKILL.md"), goodDocument+"More.\n")
	after, err := set.Lookup(tipstaff.SkillURI{ID: "notes", Version: "1.2.3"})
	if err != nil || after.Digest() == before.Digest() || !strings.HasSuffix(after.Prose, "More.") {
		t.Errorf("%v, %v", after, err)
	}
}

func TestList(t *testing.T) {
	skills := filepath.Dir(folder(t, goodManifest, goodDocument, ""))
	for _, name := range []string{"a-broken", ".git"} {
		if err := os.Mkdir(filepath.Join(skills, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(skills, "README.md"), "about\n")
	entries, err := open(t, skills).List()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
		if (e.Skill == nil) == (e.Err == nil) {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(ids, []string{"a-broken", "notes"}) {
		t.Errorf("%v", ids)
	}
}

func TestOpenWantsAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, "")
	for _, name := range []string{file, file + "missing"} {
		if set, err := skill.Open(name); err == nil {
			t.Errorf("%s: %v", name, set)
		}
	}
	var none *skill.Set
	if entries, err := none.List(); err != nil || len(entries) > 0 {
		t.Errorf("no set: %v, %v", entries, err)
	}
	if _, err := none.Lookup(tipstaff.SkillURI{ID: "notes", Version: "1.2.3"}); !errors.Is(err, skill.ErrUnknown) {
		t.Errorf("no set: %v", err)
	}
}

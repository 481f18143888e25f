package skill_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/skill"
)

func TestURIOfEachForm(t *testing.T) {
	for _, s := range []string{
		"skill://a@0.0.0",
		"skill://release-notes@1.2.3",
		"skill://0-1-2@10.20.30-rc.1+build.7",
		"skill://" + strings.Repeat("a", 64) + "@1.0.0",
	} {
		u, err := skill.ParseURI(s)
		if err != nil || u.String() != s {
			t.Errorf("%s became %s: %v", s, u, err)
		}
	}
}

func TestURIThatIsUnpinned(t *testing.T) {
	for _, pin := range []string{"", "@", "@latest", "@1", "@1.2", "@1.x", "@1.2.x", "@*", "@^1.2.3", "@~1.2", "@>=1.0.0", "@<2.0.0", "@=1.2.3",
		"@1.2.3 || 2.0.0", "@1.0.0 - 2.0.0"} {
		_, err := skill.ParseURI("skill://a-b" + pin)
		if !errors.Is(err, skill.ErrUnpinnedSkill) || errors.Is(err, skill.ErrInvalidURI) {
			t.Errorf("%q: %v", pin, err)
		}
	}
}

// The id is looked at first: one that could lead out of a folder is never taken
// for a name that only lacks its version.
func TestURIThatIsMalformed(t *testing.T) {
	for _, s := range []string{
		"", "skill://", "skill://@1.0.0", "skill:a@1.0.0", "SKILL://a@1.0.0", "mcp://a@1.0.0", "a@1.0.0",
		"skill://../x", "skill://../x@latest", "skill://..@1.0.0", "skill://.@1.0.0", "skill://a/b@1.0.0", "skill://a/../b@1.0.0", `skill://a\b@1.0.0`,
		"skill://A@1.0.0", "skill://a_b@1.0.0", "skill://a.b@1.0.0", "skill://-a@1.0.0", "skill://a-@1.0.0", "skill://a--b@1.0.0", "skill://é@1.0.0",
		"skill://" + strings.Repeat("a", 65) + "@1.0.0", "skill://a@1.0.0@latest", "skill://a b@1.0.0", "skill://a\x00@1.0.0",
		"skill://a@v1.0.0", "skill://a@01.0.0", "skill://a@1.0.0.0", "skill://a@1.0.0 ", " skill://a@1.0.0", "skill://a@1.0.0\n",
		"skill://a@next", "skill://a@LATEST", "skill://a@sha256:" + strings.Repeat("0", 64),
	} {
		u, err := skill.ParseURI(s)
		if !errors.Is(err, skill.ErrInvalidURI) || errors.Is(err, skill.ErrUnpinnedSkill) || !u.IsZero() {
			t.Errorf("%q: %v, %v", s, u, err)
		}
	}
}

func TestURIErrorsAreShort(t *testing.T) {
	_, err := skill.ParseURI("skill://" + strings.Repeat("\x1b", 1<<20))
	if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
}

func FuzzURI(f *testing.F) {
	for _, s := range []string{"skill://release-notes@1.2.3", "skill://a@latest", "skill://a", "skill://../x@1.0.0", "skill://a@1.2.3-rc.1+b", "skill://a@b@1.0.0", "skill://a@^1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := skill.ParseURI(s)
		if err != nil {
			if errors.Is(err, skill.ErrInvalidURI) == errors.Is(err, skill.ErrUnpinnedSkill) {
				t.Fatalf("%q: %v is not exactly one of the two errors", s, err)
			}
			return
		}
		if u.String() != s {
			t.Fatalf("%q is accepted and is not canonical: %q", s, u)
		}
		if u.ID == "" || len(u.ID) > 64 || strings.Trim(u.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Fatalf("%q gives the id %q", s, u.ID)
		}
		var back skill.URI
		if err := back.UnmarshalText([]byte(s)); err != nil || back != u {
			t.Fatalf("%q does not come back: %v, %v", s, back, err)
		}
	})
}

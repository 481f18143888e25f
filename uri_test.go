package tipstaff_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestToolURIOfEachForm(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	for _, s := range []string{
		"mcp://builtin/read_file@1.0.0",
		"mcp://a/b@0.0.0",
		"mcp://9-_/A.b-C_9@10.20.30",
		"mcp://a/b@1.2.3-rc.1",
		"mcp://a/b@1.2.3-0a.b-c+build.7",
		"mcp://a/b@1.2.3+001",
		"mcp://a/b@sha256:" + hex,
		"mcp://" + strings.Repeat("s", 32) + "/" + strings.Repeat("t", 128) + "@1.0.0",
	} {
		u, err := tipstaff.ParseToolURI(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if u.String() != s {
			t.Errorf("%s became %s", s, u)
		}
	}
}

func TestToolURIThatIsUnpinned(t *testing.T) {
	for _, pin := range []string{"", "@", "@latest", "@1", "@1.2", "@1.x", "@1.2.x", "@1.X.3", "@x", "@*", "@1.*", "@^1.2.3", "@~1.2",
		"@>=1.0.0", "@>1", "@<2.0.0", "@<=2", "@=1.2.3", "@1.2.3 || 2.0.0", "@1.0.0 - 2.0.0"} {
		_, err := tipstaff.ParseToolURI("mcp://a/b" + pin)
		if !errors.Is(err, tipstaff.ErrUnpinned) || errors.Is(err, tipstaff.ErrInvalidURI) {
			t.Errorf("%q: %v", pin, err)
		}
	}
}

func TestToolURIThatIsMalformed(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	for _, s := range []string{
		"", "mcp://", "a/b@1.0.0", "mcp:a/b@1.0.0", "http://a/b@1.0.0", "MCP://a/b@1.0.0", "mcp://a@1.0.0", "mcp://a/@1.0.0", "mcp:///b@1.0.0",
		"mcp://A/b@1.0.0", "mcp://-a/b@1.0.0", "mcp://_a/b@1.0.0", "mcp://a.b/c@1.0.0", "mcp://a/b/c@1.0.0", "mcp://a/b c@1.0.0",
		"mcp://a/é@1.0.0", "mcp://a/b@v1.0.0", "mcp://a/b@01.0.0", "mcp://a/b@1.0.0.0", "mcp://a/b@1.0.0-", "mcp://a/b@1.0.0-01",
		"mcp://a/b@1.0.0+", "mcp://a/b@1.0.0-a..b", "mcp://a/b@1.0.0@latest", "mcp://a/b@sha256:" + hex[:63], "mcp://a/b@sha256:" + strings.ToUpper(hex),
		"mcp://a/b@sha512:" + hex, "mcp://a/b@1.0.0 ", " mcp://a/b@1.0.0", "mcp://a/b@1.0.0\n", "mcp://A/b", "mcp://a/b?x=1@1.0.0",
		"mcp://" + strings.Repeat("s", 33) + "/b@1.0.0", "mcp://a/" + strings.Repeat("t", 129) + "@1.0.0", "mcp://a/b@LATEST", "mcp://a/b@next",
	} {
		_, err := tipstaff.ParseToolURI(s)
		if !errors.Is(err, tipstaff.ErrInvalidURI) || errors.Is(err, tipstaff.ErrUnpinned) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestToolURIErrorsAreShort(t *testing.T) {
	_, err := tipstaff.ParseToolURI("mcp://a/" + strings.Repeat("\x1b", 1<<20) + "@1.0.0")
	if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
}

func FuzzToolURI(f *testing.F) {
	for _, s := range []string{"mcp://builtin/read_file@1.0.0", "mcp://a/b@sha256:" + strings.Repeat("0", 64), "mcp://a/b@latest", "mcp://a/b",
		"mcp://a/b@1.2.3-rc.1+b", "mcp://a@b/c@1.0.0", "mcp://a/b@^1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := tipstaff.ParseToolURI(s)
		if err != nil {
			if errors.Is(err, tipstaff.ErrInvalidURI) == errors.Is(err, tipstaff.ErrUnpinned) {
				t.Fatalf("%q: %v is not exactly one of the two errors", s, err)
			}
			if u.String() != "" {
				t.Fatalf("%q: a URI came with the error", s)
			}
			return
		}
		if u.String() != s {
			t.Fatalf("%q is accepted and is not canonical: %q", s, u)
		}
		if len(u.Server) > 32 || len(u.Tool) > 128 || strings.ContainsAny(u.Server+u.Tool, "/@ ") || strings.ContainsAny(u.Pin, "^~*<>=@ ") {
			t.Fatalf("%q was taken apart into %+v", s, u)
		}
	})
}

// FuzzPinnedVersion compares with the expression that the definition of semantic
// versions gives.
func FuzzPinnedVersion(f *testing.F) {
	semver := regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?` +
		`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	for _, s := range []string{"1.0.0", "01.0.0", "1.0", "1.0.0.0", "1.2.3-rc.1", "1.2.3-01", "1.2.3-0a", "1.2.3--", "1.2.3+", "1.2.3+a-b.c", "1.2.3-a+b+c", "1.2.3-", "1..3", "-1.0.0", "1.0.0\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pin string) {
		if strings.Contains(pin, "@") || strings.HasPrefix(pin, "sha256:") {
			return
		}
		_, err := tipstaff.ParseToolURI("mcp://a/b@" + pin)
		if want := semver.MatchString(pin); want != (err == nil) {
			t.Fatalf("%q: %v", pin, err)
		}
	})
}

func TestSkillURIOfEachForm(t *testing.T) {
	for _, s := range []string{
		"skill://a@0.0.0",
		"skill://release-notes@1.2.3",
		"skill://0-1-2@10.20.30-rc.1+build.7",
		"skill://" + strings.Repeat("a", 64) + "@1.0.0",
	} {
		u, err := tipstaff.ParseSkillURI(s)
		if err != nil || u.String() != s {
			t.Errorf("%s became %s: %v", s, u, err)
		}
	}
}

func TestSkillURIThatIsUnpinned(t *testing.T) {
	for _, pin := range []string{"", "@", "@latest", "@1", "@1.2", "@1.x", "@1.2.x", "@*", "@^1.2.3", "@~1.2", "@>=1.0.0", "@<2.0.0", "@=1.2.3",
		"@1.2.3 || 2.0.0", "@1.0.0 - 2.0.0"} {
		_, err := tipstaff.ParseSkillURI("skill://a-b" + pin)
		if !errors.Is(err, tipstaff.ErrUnpinned) || errors.Is(err, tipstaff.ErrInvalidURI) {
			t.Errorf("%q: %v", pin, err)
		}
	}
}

// The id is looked at first: one that could lead out of a folder is never taken
// for a name that only lacks its version.
func TestSkillURIThatIsMalformed(t *testing.T) {
	for _, s := range []string{
		"", "skill://", "skill://@1.0.0", "skill:a@1.0.0", "SKILL://a@1.0.0", "mcp://a@1.0.0", "a@1.0.0",
		"skill://../x", "skill://../x@latest", "skill://..@1.0.0", "skill://.@1.0.0", "skill://a/b@1.0.0", "skill://a/../b@1.0.0", `skill://a\b@1.0.0`,
		"skill://A@1.0.0", "skill://a_b@1.0.0", "skill://a.b@1.0.0", "skill://-a@1.0.0", "skill://a-@1.0.0", "skill://a--b@1.0.0", "skill://é@1.0.0",
		"skill://" + strings.Repeat("a", 65) + "@1.0.0", "skill://a@1.0.0@latest", "skill://a b@1.0.0", "skill://a\x00@1.0.0",
		"skill://a@v1.0.0", "skill://a@01.0.0", "skill://a@1.0.0.0", "skill://a@1.0.0 ", " skill://a@1.0.0", "skill://a@1.0.0\n",
		"skill://a@next", "skill://a@LATEST", "skill://a@sha256:" + strings.Repeat("0", 64),
	} {
		u, err := tipstaff.ParseSkillURI(s)
		if !errors.Is(err, tipstaff.ErrInvalidURI) || errors.Is(err, tipstaff.ErrUnpinned) || u.String() != "" {
			t.Errorf("%q: %v, %v", s, u, err)
		}
	}
}

func TestSkillURIErrorsAreShort(t *testing.T) {
	_, err := tipstaff.ParseSkillURI("skill://" + strings.Repeat("\x1b", 1<<20))
	if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
}

func FuzzSkillURI(f *testing.F) {
	for _, s := range []string{"skill://release-notes@1.2.3", "skill://a@latest", "skill://a", "skill://../x@1.0.0", "skill://a@1.2.3-rc.1+b", "skill://a@b@1.0.0", "skill://a@^1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := tipstaff.ParseSkillURI(s)
		if err != nil {
			if errors.Is(err, tipstaff.ErrInvalidURI) == errors.Is(err, tipstaff.ErrUnpinned) {
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
	})
}

func TestQuotedTextIsCutAtItsLimit(t *testing.T) {
	if got := tipstaff.Quote("abc", 3); got != `"abc"` {
		t.Error(got)
	}
	if got := tipstaff.Quote("abcd", 3); got != `"abc"… (4 bytes)` {
		t.Error(got)
	}
}

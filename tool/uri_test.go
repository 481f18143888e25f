package tool_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/tool"
)

func TestURIOfEachForm(t *testing.T) {
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
		u, err := tool.ParseURI(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if u.String() != s {
			t.Errorf("%s became %s", s, u)
		}
	}
}

func TestURIThatIsUnpinned(t *testing.T) {
	for _, pin := range []string{"", "@", "@latest", "@1", "@1.2", "@1.x", "@1.2.x", "@1.X.3", "@x", "@*", "@1.*", "@^1.2.3", "@~1.2",
		"@>=1.0.0", "@>1", "@<2.0.0", "@<=2", "@=1.2.3", "@1.2.3 || 2.0.0", "@1.0.0 - 2.0.0"} {
		_, err := tool.ParseURI("mcp://a/b" + pin)
		if !errors.Is(err, tool.ErrUnpinnedTool) || errors.Is(err, tool.ErrInvalidURI) {
			t.Errorf("%q: %v", pin, err)
		}
	}
}

func TestURIThatIsMalformed(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	for _, s := range []string{
		"", "mcp://", "a/b@1.0.0", "mcp:a/b@1.0.0", "http://a/b@1.0.0", "MCP://a/b@1.0.0", "mcp://a@1.0.0", "mcp://a/@1.0.0", "mcp:///b@1.0.0",
		"mcp://A/b@1.0.0", "mcp://-a/b@1.0.0", "mcp://_a/b@1.0.0", "mcp://a.b/c@1.0.0", "mcp://a/b/c@1.0.0", "mcp://a/b c@1.0.0",
		"mcp://a/é@1.0.0", "mcp://a/b@v1.0.0", "mcp://a/b@01.0.0", "mcp://a/b@1.0.0.0", "mcp://a/b@1.0.0-", "mcp://a/b@1.0.0-01",
		"mcp://a/b@1.0.0+", "mcp://a/b@1.0.0-a..b", "mcp://a/b@1.0.0@latest", "mcp://a/b@sha256:" + hex[:63], "mcp://a/b@sha256:" + strings.ToUpper(hex),
		"mcp://a/b@sha512:" + hex, "mcp://a/b@1.0.0 ", " mcp://a/b@1.0.0", "mcp://a/b@1.0.0\n", "mcp://A/b", "mcp://a/b?x=1@1.0.0",
		"mcp://" + strings.Repeat("s", 33) + "/b@1.0.0", "mcp://a/" + strings.Repeat("t", 129) + "@1.0.0", "mcp://a/b@LATEST", "mcp://a/b@next",
	} {
		_, err := tool.ParseURI(s)
		if !errors.Is(err, tool.ErrInvalidURI) || errors.Is(err, tool.ErrUnpinnedTool) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestURIErrorsAreShort(t *testing.T) {
	_, err := tool.ParseURI("mcp://a/" + strings.Repeat("\x1b", 1<<20) + "@1.0.0")
	if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
}

func FuzzURI(f *testing.F) {
	for _, s := range []string{"mcp://builtin/read_file@1.0.0", "mcp://a/b@sha256:" + strings.Repeat("0", 64), "mcp://a/b@latest", "mcp://a/b",
		"mcp://a/b@1.2.3-rc.1+b", "mcp://a@b/c@1.0.0", "mcp://a/b@^1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := tool.ParseURI(s)
		if err != nil {
			if errors.Is(err, tool.ErrInvalidURI) == errors.Is(err, tool.ErrUnpinnedTool) {
				t.Fatalf("%q: %v is not exactly one of the two errors", s, err)
			}
			if !u.IsZero() {
				t.Fatalf("%q: a URI came with the error", s)
			}
			return
		}
		if u.String() != s {
			t.Fatalf("%q is accepted and is not canonical: %q", s, u)
		}
		var back tool.URI
		if err := back.UnmarshalText([]byte(u.String())); err != nil || back != u {
			t.Fatalf("%q does not come back: %v, %v", s, back, err)
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
		_, err := tool.ParseURI("mcp://a/b@" + pin)
		if want := semver.MatchString(pin); want != (err == nil) {
			t.Fatalf("%q: %v", pin, err)
		}
	})
}

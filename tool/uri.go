package tool

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Errors of ParseURI, wrapped with the text that was wrong.
var (
	// ErrUnpinnedTool: the URI names a tool, but no exact version of it.
	ErrUnpinnedTool = errors.New("the tool is not pinned to an exact version or digest")
	// ErrInvalidURI: the text is no tool URI at all.
	ErrInvalidURI = errors.New("not a tool URI, which is mcp://<server>/<tool>@<pin>")
)

// URI is the pinned name of a tool: mcp://<server>/<tool>@<pin>. Two pins of one
// tool are two URIs.
type URI struct {
	Server, Tool string
	Pin          string // a full semantic version, or sha256:<64 lower hex>
}

const scheme = "mcp://"

// looseForm is what people write who mean "some version": 1, 1.2, 1.x, 1.2.*.
var looseForm = regexp.MustCompile(`^(\d+(\.\d+)?|(\d+\.){0,2}[xX*](\.(\d+|[xX*])){0,2})$`)

// ParseURI reads a tool URI. Its form is checked before its pin: a URI that is
// both malformed and unpinned is ErrInvalidURI.
func ParseURI(s string) (URI, error) {
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return URI{}, invalid(s, "it does not begin with "+scheme)
	}
	name, pin := rest, ""
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		name, pin = rest[:at], rest[at+1:]
	}
	server, tool, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		return URI{}, invalid(s, "it has no tool")
	case !serverForm.MatchString(server):
		return URI{}, invalid(s, "a server is 1 to 32 of a-z, 0-9, _ and -, not beginning with _ or -")
	case !toolForm.MatchString(tool):
		return URI{}, invalid(s, "a tool is 1 to 128 of A-Z, a-z, 0-9, _, . and -")
	case digestForm.MatchString(pin) || semverForm.MatchString(pin):
		return URI{server, tool, pin}, nil
	case unpinned(pin):
		return URI{}, fmt.Errorf("%w: %s", ErrUnpinnedTool, shorten(s, 200))
	}
	return URI{}, invalid(s, "the pin is neither a full version like 1.2.3 nor sha256: and 64 lower-case hex digits")
}

// form is how something must be written. Forms are matched by hand, not by
// expressions: every call of a run has its URI read several times over.
type form func(string) bool

// MatchString reports whether s has the form.
func (f form) MatchString(s string) bool { return f(s) }

var (
	serverForm form = func(s string) bool {
		return len(s) <= 32 && consists(s, func(c byte) bool { return isLower(c) || isDigit(c) || c == '_' || c == '-' }) && s[0] != '_' && s[0] != '-'
	}
	toolForm form = func(s string) bool {
		return len(s) <= 128 && consists(s, func(c byte) bool { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-' })
	}
	digestForm form = func(s string) bool {
		hex, ok := strings.CutPrefix(s, "sha256:")
		return ok && len(hex) == 64 && consists(hex, func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' })
	}
	semverForm form = isVersion
)

// isVersion reports whether s is a full semantic version, 2.0.0.
func isVersion(s string) bool {
	s, build, hasBuild := strings.Cut(s, "+")
	if hasBuild && !all(build, isIdentifier) {
		return false
	}
	s, pre, hasPre := strings.Cut(s, "-")
	if hasPre && !all(pre, func(id string) bool { return isIdentifier(id) && (!consists(id, isDigit) || isNumber(id)) }) {
		return false
	}
	return strings.Count(s, ".") == 2 && all(s, isNumber)
}

// all reports whether every part of a dotted text passes.
func all(dotted string, pass func(string) bool) bool {
	for part := range strings.SplitSeq(dotted, ".") {
		if !pass(part) {
			return false
		}
	}
	return true
}

func isIdentifier(s string) bool {
	return consists(s, func(c byte) bool { return isAlphanumeric(c) || c == '-' })
}

// isNumber: digits without a leading zero.
func isNumber(s string) bool { return consists(s, isDigit) && (s == "0" || s[0] != '0') }

// consists reports whether s is not empty and of such characters alone.
func consists(s string, of func(byte) bool) bool {
	for i := range len(s) {
		if !of(s[i]) {
			return false
		}
	}
	return s != ""
}

func isDigit(c byte) bool        { return c >= '0' && c <= '9' }
func isLower(c byte) bool        { return c >= 'a' && c <= 'z' }
func isAlphanumeric(c byte) bool { return isDigit(c) || isLower(c) || c >= 'A' && c <= 'Z' }

func unpinned(pin string) bool {
	return pin == "" || pin == "latest" || strings.ContainsAny(pin[:1], "^~<>=*") ||
		strings.Contains(pin, "||") || strings.Contains(pin, " - ") || looseForm.MatchString(pin)
}

func invalid(s, why string) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalidURI, shorten(s, 200), why)
}

// String is the canonical form, the one that allow-lists compare.
func (u URI) String() string {
	if u.IsZero() {
		return ""
	}
	return scheme + u.Server + "/" + u.Tool + "@" + u.Pin
}

// IsZero reports whether u names nothing.
func (u URI) IsZero() bool { return u == URI{} }

// MarshalText is String.
func (u URI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText is ParseURI; the empty text is the zero URI.
func (u *URI) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*u = URI{}
		return nil
	}
	*u, err = ParseURI(string(b))
	return err
}

// shorten quotes s for a message, cut to about n bytes.
func shorten(s string, n int) string {
	if len(s) <= n {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(s[:n], ""), len(s))
}

// cut is the beginning of a text, of at most so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

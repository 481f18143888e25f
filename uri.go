package tipstaff

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Errors of [ParseToolURI] and [ParseSkillURI], for errors.Is. A pin that could move
// (none, a range, a word like latest) is another fault than a text that is no URI: it
// is what people write who do not know yet that everything is pinned.
var (
	// ErrUnpinned: the URI names something, but no exact version of it.
	ErrUnpinned = errors.New("not pinned")
	// ErrInvalidURI: the text is no such URI at all.
	ErrInvalidURI = errors.New("not a URI")
)

// uriError is one of the two, in words.
type uriError struct {
	kind error
	text string
}

func (e *uriError) Error() string { return e.text }
func (e *uriError) Unwrap() error { return e.kind }

// ToolURI is the pinned name of a tool: mcp://<server>/<tool>@<pin>. Two pins of one
// tool are two URIs.
type ToolURI struct {
	Server, Tool string
	Pin          string // a full semantic version, or sha256:<64 lower hex>
}

// SkillURI is the pinned name of a skill: skill://<id>@<version>.
type SkillURI struct {
	ID      string
	Version string // a full semantic version
}

const (
	toolScheme  = "mcp://"
	skillScheme = "skill://"
	maxSkillID  = 64

	// SkillIDRule says what [IsSkillID] accepts.
	SkillIDRule = "an id is 1 to 64 of a-z, 0-9 and single hyphens inside"
)

var (
	serverForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)
	toolForm    = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	skillForm   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	digestForm  = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	versionForm = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?` +
		`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	// looseForm is what people write who mean "some version": 1, 1.2, 1.x, 1.2.*.
	looseForm = regexp.MustCompile(`^(\d+(\.\d+)?|(\d+\.){0,2}[xX*](\.(\d+|[xX*])){0,2})$`)
)

// IsServerName reports whether a server of tools may be called so.
func IsServerName(s string) bool { return serverForm.MatchString(s) }

// IsToolName reports whether a tool may be called so.
func IsToolName(s string) bool { return toolForm.MatchString(s) }

// IsSkillID reports whether a skill, and its folder, may be called so.
func IsSkillID(s string) bool { return len(s) <= maxSkillID && skillForm.MatchString(s) }

// IsVersion reports whether s is a full semantic version, 2.0.0.
func IsVersion(s string) bool { return versionForm.MatchString(s) }

// IsDigest reports whether s is sha256: and 64 hex digits in lower case.
func IsDigest(s string) bool { return digestForm.MatchString(s) }

// ParseToolURI reads a tool URI. Its form is checked before its pin: a URI that is
// both malformed and unpinned is ErrInvalidURI.
func ParseToolURI(s string) (ToolURI, error) {
	invalid := func(why string) (ToolURI, error) {
		return ToolURI{}, &uriError{ErrInvalidURI, fmt.Sprintf("not a tool URI, which is mcp://<server>/<tool>@<pin>: %s: %s", Quote(s, 200), why)}
	}
	rest, ok := strings.CutPrefix(s, toolScheme)
	if !ok {
		return invalid("it does not begin with " + toolScheme)
	}
	name, pin := cutPin(rest)
	server, tool, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		return invalid("it has no tool")
	case !IsServerName(server):
		return invalid("a server is 1 to 32 of a-z, 0-9, _ and -, not beginning with _ or -")
	case !IsToolName(tool):
		return invalid("a tool is 1 to 128 of A-Z, a-z, 0-9, _, . and -")
	case IsDigest(pin) || IsVersion(pin):
		return ToolURI{server, tool, pin}, nil
	case moving(pin):
		return ToolURI{}, &uriError{ErrUnpinned, "the tool is not pinned to an exact version or digest: " + Quote(s, 200)}
	}
	return invalid("the pin is neither a full version like 1.2.3 nor sha256: and 64 lower-case hex digits")
}

// ParseSkillURI reads a skill URI. The id is checked before anything is made of it,
// and before the version: it is going to be the name of a folder.
func ParseSkillURI(s string) (SkillURI, error) {
	invalid := func(why string) (SkillURI, error) {
		return SkillURI{}, &uriError{ErrInvalidURI, fmt.Sprintf("not a skill URI, which is skill://<id>@<version>: %s: %s", Quote(s, 120), why)}
	}
	rest, ok := strings.CutPrefix(s, skillScheme)
	if !ok {
		return invalid("it does not begin with " + skillScheme)
	}
	id, pin := cutPin(rest)
	switch {
	case !IsSkillID(id):
		return invalid(SkillIDRule)
	case IsVersion(pin):
		return SkillURI{id, pin}, nil
	case moving(pin):
		return SkillURI{}, &uriError{ErrUnpinned, fmt.Sprintf("the skill is not pinned to an exact version: %s: write skill://%s@1.2.3", Quote(s, 120), id)}
	}
	return invalid("the version is not a full one like 1.2.3")
}

// cutPin splits at the last @. The pin of a text without one is empty.
func cutPin(s string) (name, pin string) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// moving reports whether a pin names many versions rather than none.
func moving(pin string) bool {
	return pin == "" || pin == "latest" || strings.ContainsAny(pin[:1], "^~<>=*") ||
		strings.Contains(pin, "||") || strings.Contains(pin, " - ") || looseForm.MatchString(pin)
}

// String is the canonical form, the one that allow-lists compare; that of the zero
// URI is empty.
func (u ToolURI) String() string {
	if u == (ToolURI{}) {
		return ""
	}
	return toolScheme + u.Server + "/" + u.Tool + "@" + u.Pin
}

// String is the canonical form; that of the zero URI is empty.
func (u SkillURI) String() string {
	if u == (SkillURI{}) {
		return ""
	}
	return skillScheme + u.ID + "@" + u.Version
}

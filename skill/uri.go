package skill

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Errors of ParseURI, wrapped with the text that was wrong.
var (
	// ErrUnpinnedSkill: the URI names a skill, but no exact version of it.
	ErrUnpinnedSkill = errors.New("the skill is not pinned to an exact version")
	// ErrInvalidURI: the text is no skill URI at all.
	ErrInvalidURI = errors.New("not a skill URI, which is skill://<id>@<version>")
)

// URI is the pinned name of a skill: skill://<id>@<version>.
type URI struct {
	ID      string
	Version string // a full semantic version
}

const (
	scheme = "skill://"
	maxID  = 64
	idRule = "an id is 1 to 64 of a-z, 0-9 and single hyphens inside"
)

var (
	idForm     = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	semverForm = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?` +
		`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	// looseForm is what people write who mean "some version": 1, 1.2, 1.x, 1.2.*.
	looseForm = regexp.MustCompile(`^(\d+(\.\d+)?|(\d+\.){0,2}[xX*](\.(\d+|[xX*])){0,2})$`)
)

func validID(s string) bool { return len(s) <= maxID && idForm.MatchString(s) }

// ParseURI reads a skill URI. The id is checked before anything is made of it,
// and before the version: it is going to be the name of a folder.
func ParseURI(s string) (URI, error) {
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return URI{}, invalidURI(s, "it does not begin with "+scheme)
	}
	id, pin := cutPin(rest)
	switch {
	case !validID(id):
		return URI{}, invalidURI(s, idRule)
	case semverForm.MatchString(pin):
		return URI{id, pin}, nil
	case unpinned(pin):
		return URI{}, fmt.Errorf("%w: %s: write skill://%s@1.2.3", ErrUnpinnedSkill, quoted(s), id)
	}
	return URI{}, invalidURI(s, "the version is not a full one like 1.2.3")
}

// cutPin splits at the last @. The pin of a text without one is empty.
func cutPin(s string) (name, pin string) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// unpinned reports whether a pin names many versions rather than none.
func unpinned(pin string) bool {
	return pin == "" || pin == "latest" || strings.ContainsAny(pin[:1], "^~<>=*") ||
		strings.Contains(pin, "||") || strings.Contains(pin, " - ") || looseForm.MatchString(pin)
}

func invalidURI(s, why string) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalidURI, quoted(s), why)
}

// String is the canonical form; that of the zero URI is empty.
func (u URI) String() string {
	if u.IsZero() {
		return ""
	}
	return scheme + u.ID + "@" + u.Version
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

// uriCode is the code of an error of ParseURI.
func uriCode(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrUnpinnedSkill):
		return codeUnpinnedSkill
	}
	return codeInvalidURI
}

// Tool URIs are another package's matter; here only their form is checked, so
// that a skill that reads well can be used.
var (
	toolForm   = regexp.MustCompile(`^mcp://[a-z0-9][a-z0-9_-]{0,31}/[A-Za-z0-9_.-]{1,128}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// checkToolURI is the code of what is wrong with a tool URI; "" is nothing.
func checkToolURI(s string) string {
	name, pin := cutPin(s)
	switch {
	case !toolForm.MatchString(name):
		return codeInvalidURI
	case semverForm.MatchString(pin), digestForm.MatchString(pin):
		return ""
	case unpinned(pin):
		return codeUnpinnedTool
	}
	return codeInvalidURI
}

// quoted is s for a message, cut to what fits in one.
func quoted(s string) string {
	const most = 120
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}

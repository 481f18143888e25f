package plan

import (
	"regexp"
	"strings"
)

// Pinned URIs. A pin that could move (none, a range, a word like latest) is
// another fault than a URI that is no URI: the first is what people write when
// they do not know yet that everything is pinned.
var (
	toolName  = regexp.MustCompile(`^mcp://[a-z0-9][a-z0-9_-]{0,31}/[A-Za-z0-9_.-]{1,128}$`)
	skillName = regexp.MustCompile(`^skill://[a-z0-9]+(?:-[a-z0-9]+)*$`)
	digestPin = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	semverPin = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
	movingPin = regexp.MustCompile(`^(|latest|[xX*]|\d+(\.\d+)?(\.[xX*]){0,2}|[\^~<>=].*)$`)
)

const maxSkillID = 64

// checkTool is the code of what is wrong with a tool URI; "" is nothing.
func checkTool(uri string) string {
	name, pin, pinned := cutPin(uri)
	switch {
	case !toolName.MatchString(name):
		return codeInvalidURI
	case pinned && (semverPin.MatchString(pin) || digestPin.MatchString(pin)):
		return ""
	case !pinned || movingPin.MatchString(pin):
		return codeUnpinnedTool
	}
	return codeInvalidURI
}

// checkSkill is the same for a skill URI, whose pin is a version.
func checkSkill(uri string) string {
	name, pin, pinned := cutPin(uri)
	switch {
	case !skillName.MatchString(name), len(strings.TrimPrefix(name, "skill://")) > maxSkillID:
		return codeInvalidURI
	case pinned && semverPin.MatchString(pin):
		return ""
	case !pinned || movingPin.MatchString(pin):
		return codeUnpinnedSkill
	}
	return codeInvalidURI
}

func cutPin(uri string) (name, pin string, pinned bool) {
	i := strings.LastIndexByte(uri, '@')
	if i < 0 {
		return uri, "", false
	}
	return uri[:i], uri[i+1:], true
}

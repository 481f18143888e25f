package plan

import (
	"errors"

	"github.com/tipstaff/tipstaff"
)

// checkTool is the code of what is wrong with a tool URI; "" is nothing.
func checkTool(uri string) string {
	_, err := tipstaff.ParseToolURI(uri)
	return uriCode(err, codeUnpinnedTool)
}

// checkSkill is the same for a skill URI, whose pin is a version.
func checkSkill(uri string) string {
	_, err := tipstaff.ParseSkillURI(uri)
	return uriCode(err, codeUnpinnedSkill)
}

func uriCode(err error, unpinned string) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, tipstaff.ErrUnpinned):
		return unpinned
	}
	return codeInvalidURI
}

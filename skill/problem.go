package skill

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
)

// Codes of what can be wrong with the files of a skill.
const (
	codeFileMissing   = "file_missing"
	codeFile          = "file_unreadable" // a folder, a device, or a link that leads out
	codeSyntax        = "syntax"
	codeLimit         = "limit"
	codeFrontMatter   = "front_matter" // SKILL.md does not begin with any, or it never ends
	codeFieldUnknown  = "field_unknown"
	codeFieldMissing  = "field_missing"
	codeFieldType     = "field_type"
	codeFieldInvalid  = "field_invalid"
	codeNumberUnsafe  = "number_unsafe"
	codeSchemaInvalid = "schema_invalid"
	codeInvalidURI    = "invalid_uri"
	codeUnpinnedTool  = "unpinned_tool"
	codeUnpinnedSkill = "unpinned_skill"
	codeMismatch      = "skill_mismatch" // id or version is not that of folder or URI
)

// problems gathers what is wrong with one file.
type problems struct {
	file string
	list []tipstaff.Problem
}

func (ps *problems) add(code string, at position, path, format string, args ...any) {
	ps.list = append(ps.list, tipstaff.Problem{
		Code: code, Path: path, File: ps.file, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...),
	})
}

// sorted is in the order of the text.
func (ps *problems) sorted() []tipstaff.Problem {
	slices.SortStableFunc(ps.list, func(a, b tipstaff.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps.list
}

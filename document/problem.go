package document

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
)

// Codes of problems that concern the text and shape of a document. Those of what
// it means stand with its reader.
const (
	CodeSyntax       = "syntax"        // not YAML or JSON, or a part of YAML that has no place here
	CodeFieldUnknown = "field_unknown" // nothing of that name belongs there
	CodeFieldMissing = "field_missing"
	CodeFieldType    = "field_type"    // a list where a string belongs
	CodeFieldInvalid = "field_invalid" // the right type, but none of the words that have a meaning
	CodeKindUnknown  = "kind_unknown"  // a document, or a part of one, that does not say what it is
	CodeRange        = "range"
	CodeLimit        = "limit"
	CodeNumberUnsafe = "number_unsafe"
)

// Causes that readers may treat apart from other faults of syntax.
var (
	ErrEmpty     = errors.New("the document is empty")
	ErrDuplicate = errors.New("a key stands twice")
)

// Problem is one fault of a document and where it stands.
type Problem struct {
	Code    string
	Path    string // what it concerns, in the terms of the document's reader; "": the whole
	Message string
	At      Position
	Cause   error // ErrEmpty or ErrDuplicate; nil for all others
}

// Trouble is why something that a document names cannot be used. The zero value is none.
type Trouble struct{ Code, Message string }

// Problems gathers them in any order.
type Problems []Problem

// Add notes a problem.
func (ps *Problems) Add(code string, at Position, path, format string, args ...any) {
	*ps = append(*ps, Problem{Code: code, Path: path, Message: fmt.Sprintf(format, args...), At: at})
}

// Public is what surfaces show: the problems of a file, sorted by their place.
func (ps Problems) Public(file string) []tipstaff.Problem {
	sorted := slices.Clone(ps)
	slices.SortStableFunc(sorted, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	out := make([]tipstaff.Problem, 0, len(sorted))
	for _, p := range sorted {
		out = append(out, tipstaff.Problem{
			Code: p.Code, Path: p.Path, Message: p.Message,
			File: file, Line: p.At.Line, Column: p.At.Column,
		})
	}
	return out
}

// Brief is s, cut to what fits in a message.
func Brief(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && s[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return s[:cut] + "…"
}

package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

// Codes of problems that concern the text and shape of a document. The codes of
// the checks that follow stand beside those checks, in validate.go.
const (
	codeSyntax       = "syntax"        // not YAML or JSON, or a part of YAML that plans do without
	codeFieldUnknown = "field_unknown" // nothing of that name belongs there
	codeFieldMissing = "field_missing"
	codeFieldType    = "field_type"    // a list where a string belongs
	codeFieldInvalid = "field_invalid" // the right type, but none of the words that have a meaning
	codeKindUnknown  = "kind_unknown"
	codeRange        = "range"
	codeLimit        = "limit"
	codeNumberUnsafe = "number_unsafe"
)

// problem is one fault of a document and where it stands.
type problem struct {
	code, path, message string
	at                  position
}

// problems gathers them; the order is made at the end.
type problems []problem

func (ps *problems) add(code string, at position, path, format string, args ...any) {
	*ps = append(*ps, problem{code, path, fmt.Sprintf(format, args...), at})
}

// public sorts by position and gives the form that surfaces show.
func (ps problems) public(file string) []tipstaff.Problem {
	sorted := slices.Clone(ps)
	slices.SortStableFunc(sorted, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.column, b.at.column))
	})
	out := make([]tipstaff.Problem, 0, len(sorted))
	for _, p := range sorted {
		out = append(out, tipstaff.Problem{
			Code: p.code, Path: p.path, Message: p.message,
			File: file, Line: p.at.line, Column: p.at.column,
		})
	}
	return out
}

// read turns source text into a value. It reports the first fault alone: what
// follows a syntax error means little.
func read(src []byte) (*value, *problem) {
	if p := refuseBytes(src); p != nil {
		return nil, p
	}
	// Every JSON document is YAML, but a JSON reader is exact about escapes and
	// quick with large documents.
	if json.Valid(src) {
		return readJSON(src)
	}
	return readYAML(string(src))
}

func refuseBytes(src []byte) *problem {
	switch {
	case len(src) > maxSize(src):
		return &problem{code: codeLimit, at: position{1, 1},
			message: fmt.Sprintf("the document has %d bytes; at most %d are read", len(src), maxSize(src))}
	case bytes.HasPrefix(src, []byte("\xef\xbb\xbf")):
		return syntaxAt(position{1, 1}, "the document begins with a byte order mark; save it as UTF-8 without one")
	}
	if i := firstInvalid(src); i >= 0 {
		return syntaxAt(positionOf(src, i), "not UTF-8 text")
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return syntaxAt(positionOf(src, i), "a NUL byte has no place in a document")
	}
	return nil
}

func syntaxAt(at position, format string, args ...any) *problem {
	return &problem{code: codeSyntax, at: at, message: fmt.Sprintf(format, args...)}
}

// firstInvalid is the offset of the first byte that is not UTF-8, or -1.
func firstInvalid(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// positionOf is the line and column of an offset.
func positionOf(src []byte, offset int) position {
	before := src[:offset]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	return position{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[lineStart:]) + 1}
}

// duplicate is the problem of a key that stands twice in an object.
func duplicate(key string, at, first position) *problem {
	return syntaxAt(at, "the key %q stands twice, first in line %d", brief(key), first.line)
}

// checkNumbers reports numbers that RFC 8785 cannot write down exactly.
func checkNumbers(v *value, ps *problems) {
	switch v.kind {
	case number:
		if !safeNumber(v.text) {
			ps.add(codeNumberUnsafe, v.at, "", "%s cannot be kept exactly as a number; write it as a string", brief(v.text))
		}
	case list:
		for _, item := range v.items {
			checkNumbers(item, ps)
		}
	case object:
		for _, m := range v.members {
			checkNumbers(m.value, ps)
		}
	}
}

package tool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Codes of problems in a manifest.
const (
	ProblemSyntax     = "syntax"
	ProblemField      = "field_unknown"
	ProblemMissing    = "field_missing"
	ProblemDuplicate  = "field_duplicate"
	ProblemType       = "type"
	ProblemRange      = "range"
	ProblemRule       = "rule_invalid"
	ProblemTool       = "unknown_tool"
	ProblemCredential = "literal_credential"
	ProblemLimit      = "limit"
)

const maxDocument = 1 << 20 // bytes

// reader takes a document apart and collects what is wrong, each with its place.
// It never stops at the first problem.
type reader struct {
	file     string
	problems []tipstaff.Problem
}

// at is a part of a document: a value, or a key, which has none.
type at struct {
	value *document.Value
	place document.Position
	path  string
}

func atValue(v *document.Value, path string) at { return at{v, v.At, path} }

// is reports whether there is a value of that kind.
func (n at) is(k document.Kind) bool { return n.value != nil && n.value.Kind == k }

func (r *reader) report(code string, where at, format string, args ...any) {
	r.problems = append(r.problems, tipstaff.Problem{
		Code: code, Path: conceal(where.path), File: r.file, Message: conceal(fmt.Sprintf(format, args...)),
		Line: where.place.Line, Column: where.place.Column,
	})
}

// document reads src to its root; one without a value for an empty document. With
// a problem that leaves nothing to read ok is false.
func (r *reader) document(src []byte) (root at, ok bool) {
	v, problems := document.ReadAll(src, maxDocument)
	if len(problems) == 1 && errors.Is(problems[0].Cause, document.ErrEmpty) {
		return at{}, true
	}
	for _, p := range problems {
		r.report(problemCode(p), at{place: p.At, path: p.Path}, "%s", p.Message)
	}
	if v == nil {
		return at{}, false
	}
	return atValue(v, ""), true
}

// problemCode is the code under which manifests report a fault of their text.
func problemCode(p document.Problem) string {
	switch {
	case errors.Is(p.Cause, document.ErrDuplicate):
		return ProblemDuplicate
	case p.Code == document.CodeNumberUnsafe:
		return ProblemType
	}
	return p.Code
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// entry is one member of a mapping.
type entry struct {
	name       string
	key, value at
}

// entries are the members of a mapping in document order.
func (r *reader) entries(n at) ([]entry, bool) {
	if !n.is(document.Object) {
		r.report(ProblemType, n, "%s must be a mapping, not %s", subject(n.path), describe(n))
		return nil, false
	}
	list := make([]entry, 0, len(n.value.Members))
	for _, m := range n.value.Members {
		path := join(n.path, m.Key)
		list = append(list, entry{m.Key, at{place: m.At, path: path}, atValue(m.Value, path)})
	}
	return list, true
}

// fields says what may stand in a mapping: how each name is read.
type fields map[string]func(at)

// object reads a mapping whose names are known. later are names that other
// versions of Tipstaff know.
func (r *reader) object(n at, known fields, later ...string) {
	list, _ := r.entries(n)
	for _, e := range list {
		switch read, ok := known[e.name]; {
		case ok:
			read(e.value)
		case slices.Contains(later, e.name):
			r.report(ProblemField, e.key, "%s: this version of Tipstaff does not support the field %q yet: remove it", subject(n.path), e.name)
		default:
			r.report(ProblemField, e.key, "%s has no field %q%s", subject(n.path), e.name, suggest(e.name, names(known)))
		}
	}
}

func names(known fields) []string {
	list := make([]string, 0, len(known))
	for name := range known {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (r *reader) list(n at, each func(int, at)) {
	if !n.is(document.List) {
		r.report(ProblemType, n, "%s must be a list, not %s", subject(n.path), describe(n))
		return
	}
	for i, v := range n.value.Items {
		each(i, atValue(v, join(n.path, strconv.Itoa(i))))
	}
}

func (r *reader) text(n at) (string, bool) {
	if n.is(document.Text) {
		return n.value.Text, true
	}
	r.report(ProblemType, n, "%s must be text, not %s: put it in quotes", subject(n.path), describe(n))
	return "", false
}

func (r *reader) boolean(n at) bool {
	if n.is(document.Boolean) {
		return n.value.Text == "true"
	}
	r.report(ProblemType, n, "%s must be true or false, not %s", subject(n.path), describe(n))
	return false
}

// integer reads a whole number between least and most.
func (r *reader) integer(n at, least, most int64) int64 {
	if !n.is(document.Number) {
		r.report(ProblemType, n, "%s must be a whole number, not %s", subject(n.path), describe(n))
		return 0
	}
	v, err := strconv.ParseInt(n.value.Text, 10, 64)
	if err != nil || v < least || v > most {
		r.report(ProblemRange, n, "%s is %s: %d to %d is possible", subject(n.path), document.Brief(n.value.Text), least, most)
		return 0
	}
	return v
}

func subject(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

// describe is the kind of a value in the words of YAML.
func describe(n at) string {
	return [...]string{"empty", "true or false", "a number", "text", "a list", "a mapping"}[n.value.Kind]
}

// suggest is advice for a name that is unknown: the nearest known one, if it is
// near, else all of them if they are few.
func suggest(name string, known []string) string {
	near := tipstaff.Nearest(name, known)
	switch {
	case near != "":
		return fmt.Sprintf(": did you mean %q?", near)
	case len(known) > 0 && len(known) <= 20:
		return ": it has " + strings.Join(known, ", ")
	}
	return ""
}

package worker

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// maxDocument is how long the document of a task may be: its description in characters of
// four bytes, and as much again for all else.
const maxDocument = 8 * tipstaff.MaxTaskDescription

// ParseTask reads the document of a task, YAML or JSON. Problems tell where in the file
// they are; without any the task is valid.
func ParseTask(file string, src []byte) (t tipstaff.Task, problems []tipstaff.Problem) {
	v, found := document.ReadAll(src, maxDocument)
	if v == nil || len(found) > 0 {
		return t, found.Public(file)
	}
	f := document.FieldsOf(&found, v, "")
	f.Dotted = true
	f.Decode(&t)
	f.End()
	spell(&found, v, "")
	if len(found) > 0 {
		return t, found.Public(file)
	}
	for _, p := range tipstaff.ValidateTask(t) {
		found.Add(p.Code, placeOf(v, p.Path), p.Path, "%s", p.Message)
	}
	return t, found.Public(file)
}

// Forms in which a document writes what Go would also read in others.
var (
	timeForm  = regexp.MustCompile(`^(19[7-9][0-9]|[2-9][0-9]{3})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`)
	wholeForm = regexp.MustCompile(`^-?[0-9]+$`)
)

// mayBeEmpty are the texts that say something although there is nothing in them. Others
// are left out instead.
var mayBeEmpty = []string{"description", "text"}

// spell reports values that have the right type and are not written as they must be.
func spell(ps *document.Problems, v *document.Value, path string) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch v.Kind {
	case document.Text:
		if (name == "at" || strings.HasSuffix(name, "_at")) && !timeForm.MatchString(v.Text) {
			ps.Add(document.CodeFieldInvalid, v.At, path, "%s: it is a time in UTC from 1970 on, as in 2026-11-15T02:30:00Z", path)
		}
		if v.Text == "" && !slices.Contains(mayBeEmpty, name) {
			ps.Add(document.CodeFieldInvalid, v.At, path, "%s is empty; leave it out", path)
		}
	case document.Number:
		if !wholeForm.MatchString(v.Text) {
			ps.Add(document.CodeRange, v.At, path, "%s: it is a whole number", path)
		}
	case document.List:
		for i, item := range v.Items {
			spell(ps, item, fmt.Sprintf("%s[%d]", path, i))
		}
	case document.Object:
		for _, m := range v.Members {
			if path == "" && m.Key == "metadata" { // whose names and texts are anybody's
				continue
			}
			spell(ps, m.Value, strings.TrimPrefix(path+"."+m.Key, "."))
		}
	}
}

// placeOf is where the value of a path stands, or else what it would stand in.
func placeOf(v *document.Value, path string) document.Position {
	for part := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		var next *document.Value
		if index, ok := strings.CutPrefix(part, "["); ok {
			i := 0
			if _, err := fmt.Sscanf(index, "%d]", &i); err == nil && i < len(v.Items) {
				next = v.Items[i]
			}
		} else {
			next = v.Get(part)
		}
		if next == nil {
			return v.At
		}
		v = next
	}
	return v.At
}

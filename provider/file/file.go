// Package file reads the two files that people write for models: tables of what
// models can do and cost ([ParseTable]), and scripts ([ParseScript]). It opens
// nothing itself. Every problem it finds has its line and column.
package file

import (
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// problemRule: fields of a script that do not go together.
const problemRule = "rule_invalid"

const maxDocument = 1 << 20 // bytes

// parse reads a document of version 1, which the reader knows as what, and decodes
// it. The error lists every problem.
func parse(name, what string, src []byte, into any) error {
	v, ps := document.ReadAll(src, maxDocument)
	if v != nil {
		f := document.FieldsOf(&ps, v, "")
		f.Dotted = true
		if v := f.Required("version", document.Number); v != nil && v.Text != "1" {
			f.Report(document.CodeRange, v.At, "version", "version is %s: this version of Tipstaff reads 1", document.Brief(v.Text))
		}
		f.Decode(into)
		f.End()
	}
	if len(ps) == 0 {
		return nil
	}
	problems := ps.Public(name)
	first := problems[0]
	e := tipstaff.Errorf(tipstaff.InvalidArgument, "%s:%d:%d: %s", name, first.Line, first.Column, first.Message)
	if more := len(problems) - 1; more > 0 {
		e.Message += fmt.Sprintf(" (and %d more)", more)
	}
	e.Problems = problems
	return e.WithHint("correct %s", what)
}

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// report says on standard error why a command failed. People get
//
//	error: what happened
//	plan.yaml:3:7: ref_unknown: nothing is called "sum"
//	hint: what to do about it
//
// and with --json one object on one line. Standard output stays data alone.
func (a *app) report(err error) {
	if a.json {
		fmt.Fprintf(a.err, "%s\n", errorJSON(err))
		return
	}
	fmt.Fprintf(a.err, "error: %s\n", clean(errorText(err)))
	for _, p := range problemsOf(err) {
		fmt.Fprintln(a.err, problemLine(p))
	}
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(a.err, "hint: %s\n", clean(hint))
	}
}

func errorText(err error) string {
	if err.Error() == "" {
		return "something failed without saying why"
	}
	return err.Error()
}

func hintOf(err error) string {
	var e *tipstaff.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	var u *usageError
	if errors.As(err, &u) {
		return u.hint
	}
	return ""
}

func problemsOf(err error) []tipstaff.Problem {
	var e *tipstaff.Error
	if errors.As(err, &e) {
		return e.Problems
	}
	return nil
}

// problemLine is a problem where editors can jump to: file:line:column: code:
// message. A problem of a journal has a record's number in place of a position.
func problemLine(p tipstaff.Problem) string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(clean(p.File))
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
			if p.Column > 0 {
				fmt.Fprintf(&b, ":%d", p.Column)
			}
		}
		b.WriteString(": ")
	}
	if p.Seq > 0 {
		fmt.Fprintf(&b, "seq %d: ", p.Seq)
	}
	fmt.Fprintf(&b, "%s: %s", clean(p.Code), clean(p.Message))
	if p.Path != "" {
		fmt.Fprintf(&b, " (%s)", clean(p.Path))
	}
	return b.String()
}

func errorJSON(err error) []byte {
	type object struct {
		Code     string             `json:"code"`
		Message  string             `json:"message"`
		Hint     string             `json:"hint,omitempty"`
		Run      tipstaff.ID        `json:"run_id,omitzero"`
		Problems []tipstaff.Problem `json:"problems,omitempty"`
	}
	o := object{Code: string(tipstaff.CodeOf(err)), Message: errorText(err), Hint: hintOf(err), Problems: problemsOf(err)}
	var (
		e *tipstaff.Error
		u *usageError
	)
	switch {
	case errors.As(err, &e):
		o.Run = e.Run
	case errors.As(err, &u):
		o.Code = string(tipstaff.InvalidArgument)
	}
	b, err := json.Marshal(map[string]object{"error": o})
	if err != nil { // strings and numbers alone: cannot happen
		panic(err)
	}
	return b
}

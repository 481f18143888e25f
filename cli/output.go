package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"

	"github.com/tipstaff/tipstaff"
)

// output is one of the two streams. The first error is kept and ends all
// writing: a reader that went away must not hurt what is going on here, and a
// loop that only feeds it can ask whether to stop.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}

// failure is the error that ended writing, if any.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// hungUp reports whether a write failed because nobody reads any more, which is
// no fault: `tipstaff events @ | head`.
func hungUp(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed)
}

func encoded(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// jsonOf is for what always has a form in JSON.
func jsonOf(v any) json.RawMessage {
	raw, err := encoded(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// writeJSON prints v as one line on standard output.
func (a *app) writeJSON(v any) error {
	raw, err := encoded(v)
	if err != nil {
		return err
	}
	return a.writeLine(raw)
}

// writeLine prints stored JSON. A pipe gets the very bytes; on a terminal what
// does not print is escaped, which leaves the meaning of JSON as it was.
func (a *app) writeLine(raw []byte) error {
	line := string(raw)
	if a.env.StdoutTTY {
		line = clean(line)
	}
	_, err := io.WriteString(a.out, line+"\n")
	return err
}

// print prints v with --json, else it calls text, which prints it for people.
func (a *app) print(v any, text func()) error {
	if a.json {
		return a.writeJSON(v)
	}
	text()
	return nil
}

// printEach prints the items of a list; with --json one object a line. none is said
// where there are none.
func printEach[T any](a *app, list []T, none string, text func(T)) error {
	for _, item := range list {
		if err := a.print(item, func() { text(item) }); err != nil {
			return err
		}
	}
	if len(list) == 0 && !a.json {
		fmt.Fprintln(a.err, none)
	}
	return nil
}

// row prints a line that a terminal shows on one row; a pipe gets all of it.
func (a *app) row(format string, args ...any) {
	row := fmt.Sprintf(format, args...)
	if a.env.StdoutTTY {
		width, _ := a.env.size()
		row = fit(row, width)
	}
	fmt.Fprintln(a.out, row)
}

// printTable prints a list in columns below their heads; with --json one object a line.
func printTable[T any](a *app, list []T, head string, row func(T) string) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, head)
	err := printEach(a, list, "there are none", func(item T) { fmt.Fprintln(w, row(item)) })
	if err != nil || a.json || len(list) == 0 {
		return err
	}
	_ = w.Flush() // a Builder takes everything
	for l := range strings.Lines(b.String()) {
		fmt.Fprintln(a.out, strings.TrimRight(l, " \n"))
	}
	return nil
}

// field is one fact about a run: a line "name  value".
type field struct{ name, value string }

// printFields prints the facts that are there, values in one column.
func (a *app) printFields(fields ...field) {
	column := 0
	for _, f := range fields {
		column = max(column, len(f.name))
	}
	for _, f := range fields {
		if f.value != "" {
			fmt.Fprintf(a.out, "%-*s  %s\n", column, f.name, clean(f.value))
		}
	}
}

// report says on standard error why a command failed. People get
//
//	error: what happened
//	plan.yaml:3:7: ref_unknown: nothing is called "sum"
//	hint: what to do about it
//
// and with --json one object on one line. Standard output stays data alone.
func (a *app) report(err error) {
	o := struct {
		Code     string             `json:"code"`
		Message  string             `json:"message"`
		Hint     string             `json:"hint,omitempty"`
		Run      tipstaff.ID        `json:"run_id,omitzero"`
		Problems []tipstaff.Problem `json:"problems,omitempty"`
	}{Code: string(tipstaff.CodeOf(err)), Message: err.Error()}
	if o.Message == "" {
		o.Message = "something failed without saying why"
	}
	var (
		e *tipstaff.Error
		u *usageError
	)
	switch {
	case errors.As(err, &e):
		o.Hint, o.Run, o.Problems = e.Advice(), e.Run, e.Problems
	case errors.As(err, &u):
		o.Hint, o.Code = u.hint, string(tipstaff.InvalidArgument)
	}
	if a.json {
		b, _ := json.Marshal(map[string]any{"error": o}) // strings and numbers alone: cannot fail
		fmt.Fprintf(a.err, "%s\n", b)
		return
	}
	fmt.Fprintf(a.err, "error: %s\n", clean(o.Message))
	for _, p := range o.Problems {
		if len(o.Problems) > 1 || !strings.Contains(o.Message, p.Message) { // else it was just said
			fmt.Fprintln(a.err, clean(p.String()))
		}
	}
	if o.Hint != "" {
		fmt.Fprintf(a.err, "hint: %s\n", clean(o.Hint))
	}
}

package cli

import "fmt"

// field is one fact about a run: a line "name  value".
type field struct{ name, value string }

// printFields prints the facts that are there, values in one column.
func (a *app) printFields(fields []field) {
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

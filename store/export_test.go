package store

import (
	"slices"
	"strings"
)

// WhereRuns is how runs are selected, for those who ask the planner.
var WhereRuns = whereRuns

// CopiedColumns are the tables that a copy takes, with their columns.
func CopiedColumns() map[string][]string {
	tables := map[string][]string{}
	for _, t := range copies {
		for _, column := range append(slices.Clone(t.key), t.columns...) {
			tables[t.table] = append(tables[t.table], strings.Trim(column, `"`))
		}
	}
	return tables
}

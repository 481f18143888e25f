package cli

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tipstaff/tipstaff"
)

// The rows of a view are those that the live tree shows where there is room for all, with
// the same states and texts: after every record of every script of TestView.
func TestRowsAreThoseOfTheTree(t *testing.T) {
	seen := 0
	datadriven.Walk(t, "testdata/view", func(t *testing.T, path string) {
		v := newView(runA, "notes", nil)
		seq := int64(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "outline":
				v, seq = newView(runA, "notes", parseOutline(t, d.Input)), 0
			case "pipeline":
				v, seq = newView(runA, "notes", parseStages(d.Input)), 0
			case "bulk":
				var n int
				d.ScanArgs(t, "of", &n)
				v, seq = newView(runA, "notes", bulk(n)), 0
			case "events":
				for text := range strings.Lines(d.Input) {
					seq++
					e := parseEvent(t, seq, strings.TrimSuffix(text, "\n"))
					v.Apply(&e)
					seen += sameRows(t, v, &e)
				}
			}
			return d.Expected
		})
	})
	if seen < 300 {
		t.Errorf("%d rows were compared", seen)
	}
}

func sameRows(t *testing.T, v view, e *tipstaff.Event) int {
	t.Helper()
	now := e.At.Add(1e9)
	rows := v.Rows(now)
	drawn := v.render(unlimited, 1<<20, now)
	drawn = drawn[1 : len(drawn)-len(v.footer(now))]
	if len(drawn) != len(rows) {
		t.Fatalf("after %s %s: %d rows, %d lines", e.Kind, e.Path, len(rows), len(drawn))
	}
	parents := map[string]int{"": -1}
	for i, r := range rows {
		text := drawn[i].text(false)
		mark := strings.Repeat("  ", r.Depth) + marks[r.Shown].text + " " + r.Name
		if !strings.HasPrefix(text, mark) || !strings.Contains(text, r.Title) || !strings.Contains(text, tipstaff.Printable(r.Note)) || r.Timed && !strings.Contains(text, human(r.Elapsed)) {
			t.Errorf("after %s %s: %q is drawn for %+v", e.Kind, e.Path, text, r)
		}
		if depth, known := parents[r.Parent]; !known || depth != r.Depth-1 && r.Depth > 0 {
			t.Errorf("%s is at %d, its parent %q at %d", r.Path, r.Depth, r.Parent, depth)
		}
		parents[r.Path] = r.Depth
	}
	return len(rows)
}

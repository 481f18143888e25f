package page

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

const (
	compareRows = 200 // that a page shows
	addressMost = 400 // bytes of what an address names
)

// comparePage is two runs side by side.
type comparePage struct {
	A, B    string   // as the address names them
	Chosen  []string // in a list, other than two
	Found   bool     // both were named
	Of      tipstaff.Comparison
	Rows    []compareRow
	First   *compareRow // that differs; nil: none does
	Values  []compareValue
	Differs int // how many rows do
	Order   string
	Path    string
	Later   string
}

// compareRow is one place of the programs.
type compareRow struct{ tipstaff.CompareRow }

// Left and Right are the two sides of a row.
func (r compareRow) Left() compareCell  { return compareCell{r.A} }
func (r compareRow) Right() compareCell { return compareCell{r.B} }

// compareCell is one side; without a cell the place is only in the other.
type compareCell struct{ *tipstaff.CompareCell }

// Known reports whether the state is one that has a mark.
func (c compareCell) Known() bool {
	return slices.Contains([]string{"ok", "running", "waiting", "skipped"}, c.State)
}

// Shown is the state as one that has a mark.
func (c compareCell) Shown() string {
	if c.State == "ok" {
		return "done"
	}
	return c.State
}

// Record is the address of the record that says so.
func (c compareCell) Record() string { return recordAddress(c.Run, c.Seq) }

// Says is what differs, in words.
func (r compareRow) Says() string {
	if r.A == nil {
		return "only in B"
	}
	if r.B == nil {
		return "only in A"
	}
	if len(r.Differs) == 0 {
		return "equal"
	}
	return "other " + strings.Join(r.Differs, ", ")
}

// Result says whether the results are equal.
func (r compareRow) Result() string {
	switch {
	case r.A == nil || r.B == nil || r.A.Result == "" && r.B.Result == "":
		return ""
	case r.A.Result == r.B.Result:
		return "equal"
	}
	return "differs"
}

// compareValue is something that was given to the runs and differs.
type compareValue struct {
	Name string
	A, B *string // nil: it was not given
}

// compare is two runs side by side; without both, a form that asks for them.
func (v *view) compare() error {
	page := comparePage{A: cutBytes(v.r.FormValue("a"), addressMost), B: cutBytes(v.r.FormValue("b"), addressMost), Path: cutBytes(v.r.FormValue("path"), addressMost)}
	if page.Chosen = v.r.Form["run"]; len(page.Chosen) == 2 {
		return v.redirect(comparePage{A: page.Chosen[0], B: page.Chosen[1]}.With("", ""))
	}
	if v.r.FormValue("order") == "changed" {
		page.Order = "changed"
	}
	if page.A == "" || page.B == "" {
		return v.show("compare", "Compare", page)
	}
	var req tipstaff.CompareRequest
	var err error
	if req.A, req.AtA, err = moment("a", page.A); err != nil {
		return err
	}
	if req.B, req.AtB, err = moment("b", page.B); err != nil {
		return err
	}
	from, err := v.number("from", 0)
	if err != nil {
		return err
	}
	if page.Of, err = tipstaff.CompareRuns(v.ctx(), v.s.control.Runs, req); err != nil {
		return err
	}
	page.Found = true
	page.fill(from)
	return v.show("compare", "Compare", page)
}

// moment is a run, and a record of it that it is shown as of: ID or ID@SEQ.
func moment(name, given string) (id tipstaff.ID, at int64, err error) {
	run, seq, as := strings.Cut(strings.TrimSpace(given), "@")
	if id, err = tipstaff.ParseID(run); err == nil && as {
		at, err = strconv.ParseInt(seq, 10, 64)
	}
	if err != nil || at < 0 {
		return id, 0, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not the id of a run, nor one with @ and the number of a record", name)
	}
	return id, at, nil
}

// fill chooses what is shown: the first difference, rows from one on, and values.
func (p *comparePage) fill(from int) {
	for i, r := range p.Of.Rows {
		row := compareRow{r}
		if p.Of.First != nil && *p.Of.First == i {
			p.First = &row
		}
		if len(r.Differs) > 0 {
			p.Differs++
		}
		if p.Path == "" || strings.HasPrefix(r.Path, p.Path) {
			p.Rows = append(p.Rows, row)
		}
	}
	if p.Order == "changed" {
		slices.SortStableFunc(p.Rows, func(a, b compareRow) int { return min(1, len(b.Differs)) - min(1, len(a.Differs)) })
	}
	p.Rows = p.Rows[min(from, len(p.Rows)):]
	if len(p.Rows) > compareRows {
		p.Rows, p.Later = p.Rows[:compareRows], p.With("from", strconv.Itoa(from+compareRows))
	}
	for _, given := range p.Of.Values {
		p.Values = append(p.Values, compareValue{given.Name, givenText(given.Name, given.A), givenText(given.Name, given.B)})
	}
}

// givenText is a value that was given to a run, for people; nil: it was not.
func givenText(name string, value json.RawMessage) *string {
	if value == nil {
		return nil
	}
	shown := valueText(value)
	if bound, is := strings.CutPrefix(name, "bound/"); is {
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			shown = tipstaff.FormatBound(bound, n)
		}
	}
	shown = passage(cutBytes(shown, valueMost))
	return &shown
}

// With is the address of the comparison with one parameter set.
func (p comparePage) With(name, value string) string {
	return address("/ui/compare", "a", p.A, "b", p.B, "order", p.Order, "path", p.Path, name, value)
}

package page

import (
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// runPages show one run: its overview, nodes and timeline.
var runPages = pages{
	"GET /ui/runs/{run}": (*view).run,
}

// runPage is one run: what stands above all of its views, and its tree.
type runPage struct {
	tipstaff.Run
	Tab    string
	Bounds []bound
	Rows   []tipstaff.Row
}

// bound is a bound as a bar.
type bound struct {
	Name, Used, Limit string
	Of                int64 // used, in thousandths of the limit; 0 where there is none
	Reserved          int64 // on top of that
	Class             string
}

// find is the run that an address names.
func (v *view) find() (tipstaff.Run, error) {
	id, err := tipstaff.ParseID(v.r.PathValue("run"))
	if err != nil {
		return tipstaff.Run{}, tipstaff.Errorf(tipstaff.RunNotFound, "there is no run %s", tipstaff.Quote(v.r.PathValue("run"), 40))
	}
	return v.s.control.Runs.Get(v.ctx(), id)
}

// run is the overview of a run.
func (v *view) run() error {
	r, err := v.find()
	if err != nil {
		return err
	}
	page := runPage{Run: r, Tab: "overview", Bounds: boundsOf(r)}
	drawn := tipstaff.NewView(nameOf(r), nil)
	for e, err := range v.s.control.Runs.Events(v.ctx(), tipstaff.EventsRequest{Run: r.ID}) {
		if err != nil {
			return err
		}
		drawn.Apply(&e)
	}
	page.Rows = drawn.Rows(v.now)
	return v.show("run", nameOf(r), page)
}

// boundsOf are the bounds of a run as bars, those with a limit first.
func boundsOf(r tipstaff.Run) (all []bound) {
	for name, b := range r.Bounds {
		one := bound{Name: strings.ReplaceAll(name, "_", " "), Used: tipstaff.FormatBound(name, b.Used)}
		if b.Limited && b.Limit > 0 {
			one.Limit = tipstaff.FormatBound(name, b.Limit)
			one.Of = min(1000, b.Used*1000/b.Limit)
			one.Reserved = min(1000-one.Of, b.Reserved*1000/b.Limit)
			if one.Of >= 800 {
				one.Class = "waiting"
			}
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b bound) int {
		if (a.Limit == "") != (b.Limit == "") {
			return len(b.Limit) - len(a.Limit)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

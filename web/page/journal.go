package page

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// recordPages show what is recorded of a run: journal, cost, files and proof.
var recordPages = pages{
	"GET /ui/runs/{run}/journal":        (*view).journal,
	"GET /ui/runs/{run}/journal/{seq}":  (*view).record,
	"GET /ui/runs/{run}/cost":           (*view).cost,
	"GET /ui/runs/{run}/files":          (*view).files,
	"GET /ui/runs/{run}/files/{digest}": (*view).file,
	"GET /ui/runs/{run}/proof":          (*view).proof,
	"POST /ui/runs/{run}/proof":         (*view).prove,
	"GET /ui/runs/{run}/export.tar":     (*view).export,
}

const (
	windowRows = 100 // of the journal, unless another number is asked for
	windowMost = 300
	lookMost   = 20_000 // records that one request for filtered ones looks at
	lookBlock  = 1000   // of which so many are read at once, backwards
)

// journalPage is a window of the journal, in the order of the records.
type journalPage struct {
	*runView
	Rows     []journalRow
	Groups   []filter
	Filter   url.Values
	Narrow   bool  // something is filtered out
	Found    int   // that fit, among those looked at
	Looked   int64 // records
	Low      int64 // the first of those looked at
	High     int64 // and the last
	Older    int64 // where the window before this one ends; 0: there is none
	Newer    int64 // where the one after it begins, less one; 0: there is none
	Backward bool  // it was looked for from the end
}

// journalRow is a record as a line.
type journalRow struct {
	tipstaff.Event
	said
	Group string
}

// selection is what the journal is narrowed to.
type selection struct {
	group, kind, path, text string
	failed                  bool
}

// narrow reports whether it leaves anything out.
func (s selection) narrow() bool { return s != selection{} }

// fits reports whether a record is selected. The cheap questions come first.
func (s selection) fits(e *tipstaff.Event) bool {
	return (s.group == "" || groupOf(e.Kind) == s.group) && (s.kind == "" || string(e.Kind) == s.kind) &&
		strings.HasPrefix(e.Path, s.path) && (s.text == "" || bytes.Contains(e.Stored(), []byte(s.text))) &&
		(!s.failed || sentence(e).Bad)
}

// selectionOf reads what an address asks for. kind names a group or one kind.
func selectionOf(q url.Values) (s selection, err error) {
	s = selection{path: q.Get("path"), text: q.Get("q"), failed: q.Get("failed") != ""}
	switch kind := q.Get("kind"); {
	case slices.Contains(groups, kind):
		s.group = kind
	case kind == "" || tipstaff.KnownKind(tipstaff.Kind(kind)):
		s.kind = kind
	default:
		err = tipstaff.Errorf(tipstaff.InvalidArgument, "there is no kind %s of records", tipstaff.Quote(kind, 100))
	}
	return s, err
}

// whole is a number of an address that is not negative; 0 where there is none.
func whole(q url.Values, name string) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not the number of a record", name)
	}
	return n, nil
}

// journal is a window of the records: the last ones, those after a record or those before one.
func (v *view) journal() error {
	run, q := v.run, v.r.URL.Query()
	page := journalPage{runView: v.about(), Filter: q}
	sel, err := selectionOf(q)
	if err != nil {
		return err
	}
	after, err := whole(q, "after")
	if err != nil {
		return err
	}
	before, err := whole(q, "before")
	if err != nil {
		return err
	}
	rows, err := whole(q, "limit")
	if err != nil {
		return err
	}
	rows = min(cmp.Or(rows, windowRows), windowMost)
	page.Narrow = sel.narrow()
	w := window{v: v, run: run, sel: sel, rows: int(rows), page: &page}
	if q.Has("after") {
		after = min(after, run.HeadSeq)
		if q.Get("part") == journalRows { // who has missed more than fits goes on with the last of them
			w.rows = windowMost
			if !page.Narrow {
				after = max(after, run.HeadSeq-windowMost)
			}
		}
		if err = w.forward(after); err == nil {
			v.w.Header().Set(seqHeader, strconv.FormatInt(page.Shown(), 10))
		}
	} else {
		page.Backward = true
		if before == 0 || before > run.HeadSeq+1 {
			before = run.HeadSeq + 1
		}
		err = w.backward(before)
	}
	if err != nil {
		return err
	}
	page.Groups = append(page.Groups, filter{Name: "kind", Title: "All", Chosen: q.Get("kind") == ""})
	for _, g := range groups {
		page.Groups = append(page.Groups, filter{Name: "kind", Value: g, Title: g, Chosen: q.Get("kind") == g})
	}
	return v.show("journal", "Journal · "+nameOf(run), page)
}

// window gathers the rows of a page. It reads what it shows and, where something is left
// out, at most lookMost records: never the whole of a long journal.
type window struct {
	v    *view
	run  tipstaff.Run
	sel  selection
	rows int
	page *journalPage
}

// take looks at a record, and keeps it if it fits and there is room.
func (w *window) take(e tipstaff.Event) (kept bool) {
	p := w.page
	p.Looked++
	if !w.sel.fits(&e) {
		return false
	}
	p.Found++
	if len(p.Rows) >= w.rows {
		return false
	}
	p.Rows = append(p.Rows, journalRow{Event: e, said: sentence(&e), Group: groupOf(e.Kind)})
	return true
}

// enough is how many records may be looked at.
func (w *window) enough() int64 {
	if w.sel.narrow() {
		return lookMost
	}
	return int64(w.rows)
}

// forward takes records after one.
func (w *window) forward(after int64) error {
	p := w.page
	p.Low, p.High = after+1, after
	last := after
	for e, err := range w.v.s.control.Runs.Events(w.v.ctx(), tipstaff.EventsRequest{Run: w.run.ID, After: after, Limit: int(w.enough())}) {
		if err != nil {
			return err
		}
		if e.Seq == 0 || e.Seq > w.run.HeadSeq {
			break
		}
		p.High = e.Seq
		if w.take(e) {
			last = e.Seq
		}
	}
	if after > 0 {
		p.Older = after + 1
	}
	if p.Found <= len(p.Rows) {
		last = p.High // all that fits is shown: go on behind what was looked at
	}
	if last < w.run.HeadSeq {
		p.Newer = last
	}
	return nil
}

// backward takes records before one, the nearest first, and turns them round.
func (w *window) backward(before int64) error {
	p := w.page
	p.Low, p.High = before, before-1
	first := before
	for p.Low > 1 && p.Looked < w.enough() {
		block := min(lookBlock, w.enough()-p.Looked, p.Low-1)
		all, err := w.v.block(p.Low-1-block, block)
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(all) {
			if w.take(e) {
				first = e.Seq
			}
		}
		p.Low -= block
	}
	slices.Reverse(p.Rows)
	if p.Found <= len(p.Rows) {
		first = p.Low
	}
	if first > 1 {
		p.Older = first
	}
	if before <= w.run.HeadSeq {
		p.Newer = before - 1
	}
	return nil
}

// block reads so many records of the run after one.
func (v *view) block(after, many int64) (all []tipstaff.Event, err error) {
	if many <= 0 {
		return nil, nil
	}
	for e, err := range v.s.control.Runs.Events(v.ctx(), tipstaff.EventsRequest{Run: v.run.ID, After: after, Limit: int(many)}) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// With is the address of the journal with one parameter set, from its end.
func (p journalPage) With(name, value string) string {
	return address("/ui/runs/"+p.Run.ID.String()+"/journal", "kind", p.Given("kind"), "path", p.Given("path"), "q", p.Given("q"), "failed", p.Given("failed"), "limit", p.Given("limit"), name, value)
}

// Given is a parameter of the address, for the fields of the form.
func (p journalPage) Given(name string) string { return p.Filter.Get(name) }

// Shown is the record up to which the window shows all that fit.
func (p journalPage) Shown() int64 {
	if p.Newer > 0 {
		return p.Newer
	}
	return p.Run.HeadSeq
}

// AtEnd reports whether the window goes on with what is written next.
func (p journalPage) AtEnd() bool { return p.Newer == 0 && !p.Run.State.Terminal() }

// First and Last are the true ends of what is shown.
func (p journalPage) First() int64 {
	if len(p.Rows) == 0 {
		return 0
	}
	return p.Rows[0].Seq
}

// Last is the last record that is shown.
func (p journalPage) Last() int64 {
	if len(p.Rows) == 0 {
		return 0
	}
	return p.Rows[len(p.Rows)-1].Seq
}

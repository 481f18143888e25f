package page

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// runHeader stands above all views of a run. It is made of the run's status alone, so that
// it is there at once however long the run is.
type runHeader struct {
	tipstaff.Run
	Tab    string // the view that is shown
	Now    time.Time
	Form   string // what forms carry
	Bounds []bound
	Advice *advice // nil: nothing is the matter
	At     *atBar  // nil: the run is shown as it is now
}

// bound is a bound as a bar.
type bound struct {
	Name, Used, Limit string
	Held              string // what is reserved; "": nothing
	Of                int64  // used, in thousandths of the limit; 0 where there is none
	Reserved          int64  // on top of that
	Class             string // waiting: it is nearly used up; refused: it was
}

// advice is what is the matter with a run, and what can be done about it.
type advice struct {
	Condition, Reason string
	Recommended       tipstaff.ID // the run to deal with instead
	Next              []adviceStep
}

// adviceStep is one thing that can be done: by a link, by a form, or elsewhere.
type adviceStep struct {
	Why        string
	Link, Post string
}

// header is what stands above a view of a run. The view is the one that the address names.
func (v *view) header(r tipstaff.Run) runHeader {
	h := runHeader{Run: r, Tab: v.tab(), Now: v.now, Bounds: boundsOf(r), Advice: v.advise(r)}
	if v.signed != nil {
		h.Form = v.signed.form()
	}
	return h
}

// tab is the name of the view that the address asks for.
func (v *view) tab() string {
	parts := strings.Split(v.r.URL.Path, "/") // /ui/runs/{run}/name
	if len(parts) < 5 || parts[4] == "" || parts[4] == "node" {
		return "overview"
	}
	return parts[4]
}

// Words are how the run stands, and why.
func (h runHeader) Words() string {
	if h.Error == nil {
		return words(h.Outcome)
	}
	code := h.Error.Code
	if code == "" {
		code = h.Error.Reason
	}
	return words(tipstaff.Joined(", ", code, h.Error.Bound))
}

// Message is why the run failed, in the words of who failed.
func (h runHeader) Message() string { return passage(cut(h.Error.Message, 2000)) }

// FailedAt is the address of the step that has failed.
func (h runHeader) FailedAt() string { return nodeLink(h.ID, h.Error.Path, h.At) }

// Query keeps the moment in addresses of other views.
func (h runHeader) Query() string {
	if h.At == nil {
		return ""
	}
	return "?" + query("at", h.At.Text())
}

// advise asks what is the matter with a run that has failed, or that nobody drives on. At
// gates there is nothing to advise: they stand below.
func (v *view) advise(r tipstaff.Run) *advice {
	if r.State == tipstaff.Completed || r.State == tipstaff.Cancelled || v.r.FormValue("at") != "" {
		return nil
	}
	d, err := tipstaff.DiagnoseRun(v.ctx(), v.s.control.Runs, r, v.now, v.s.control.Present)
	if err != nil {
		v.s.o.Log.WarnContext(v.ctx(), "a run cannot be diagnosed", "run", r.ID.String(), "error", err.Error())
		return nil
	}
	switch d.Condition {
	case tipstaff.DiagnosisActive, tipstaff.DiagnosisDecision, tipstaff.DiagnosisDelivery, tipstaff.DiagnosisNotStarted:
		return nil
	}
	a := &advice{Condition: words(d.Condition), Reason: d.Reason, Recommended: d.Recommended}
	for _, n := range d.Next {
		a.Next = append(a.Next, v.adviceStep(r.ID, n))
	}
	return a
}

// adviceStep is where the page does what a call would do, if it can.
func (v *view) adviceStep(id tipstaff.ID, n tipstaff.NextCall) adviceStep {
	about := id
	if named, ok := n.Args["run_id"].(tipstaff.ID); ok {
		about = named
	}
	run := "/ui/runs/" + about.String()
	a := adviceStep{Why: n.Why}
	switch n.Tool {
	case tipstaff.ToolRunResume:
		a.Post = run + "/resume"
	case tipstaff.ToolRunCancel:
		a.Link = run + "/cancel"
	case tipstaff.ToolRunStart:
		a.Link = "/ui/runs/" + id.String() + "/fork"
	case tipstaff.ToolRunEvidence:
		switch n.Args["slice"] {
		case tipstaff.SliceErrors:
			a.Link = run + "/journal?failed=1"
		case tipstaff.SliceBounds:
			a.Link = run + "/cost"
		default:
			a.Link = run + "/journal"
		}
	case tipstaff.ToolRunEventsTail:
		a.Link = run + "/journal"
	case tipstaff.ToolRunVerify:
		a.Link = run + "/proof"
	case tipstaff.ToolRunDiff:
		a.Link = run + "/files"
	case tipstaff.ToolRunStatus:
		a.Link = run
	}
	if a.Link != "" && !v.s.answers(http.MethodGet, a.Link) {
		a.Link = ""
	}
	if a.Post != "" && !v.s.answers(http.MethodPost, a.Post) {
		a.Post = ""
	}
	return a
}

// answers reports whether there is a page for an address, or something that takes a form.
func (s *Site) answers(method, address string) bool {
	r, err := http.NewRequest(method, address, nil)
	if err != nil {
		return false
	}
	_, pattern := s.mux.Handler(r)
	return pattern != "" && pattern != "GET /ui/"
}

// boundsOf are the bounds of a run as bars, those with a limit first.
func boundsOf(r tipstaff.Run) (all []bound) {
	for name, b := range r.Bounds {
		one := bound{Name: words(strings.TrimSuffix(name, "_usd")), Used: amount(name, b.Used)}
		if b.Reserved > 0 {
			one.Held = amount(name, b.Reserved)
		}
		if b.Limited {
			one.Limit = amount(name, b.Limit)
			one.Of = share(b.Used, b.Limit)
			one.Reserved = min(1000-one.Of, share(b.Reserved, b.Limit))
			if one.Of >= 800 {
				one.Class = "waiting"
			}
		}
		if refused(r, name) {
			one.Class = "refused"
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b bound) int {
		switch {
		case (a.Limit == "") == (b.Limit == ""):
			return strings.Compare(a.Name, b.Name)
		case a.Limit == "":
			return 1
		}
		return -1
	})
	return all
}

// amount is an amount of a bound, numbers with their digits in groups.
func amount(name string, n int64) string {
	text := tipstaff.AmountText(name, n)
	if strings.Trim(text, "0123456789") == "" {
		return thousands(text)
	}
	return text
}

// share is a part of a whole in thousandths, at most all of it.
func share(part, whole int64) int64 {
	if part >= whole {
		return 1000
	}
	return int64(float64(part) / float64(whole) * 1000)
}

// refused reports whether a bound stood in the way of the run: it failed of it, or asks for
// more.
func refused(r tipstaff.Run, name string) bool {
	is := func(said string) bool { return said == name || said == tipstaff.BoundField(name) }
	if r.Error != nil && is(r.Error.Bound) {
		return true
	}
	return slices.ContainsFunc(r.OpenGates, func(g tipstaff.Gate) bool { return g.Kind == tipstaff.Bound && is(boundAsked(g)) })
}

// boundAsked is the bound that a gate asks to extend.
func boundAsked(g tipstaff.Gate) string {
	var subject struct {
		Bound string `json:"bound"`
	}
	_ = json.Unmarshal(g.Subject, &subject) // what cannot be read names none
	return subject.Bound
}

// UsedPart and HeldPart are lengths on the bar.
func (b bound) UsedPart() string { return percent(b.Of) }
func (b bound) HeldPart() string { return percent(b.Reserved) }

package page

import (
	"encoding/json"
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
	Advice *tipstaff.Diagnosis // nil: nothing is the matter
	At     *atBar              // nil: the run is shown as it is now
}

// bound is a bound as a bar.
type bound struct {
	Name, Used, Limit string
	Held              string // for attempts that were lost; "": nothing
	InFlight          string // what is reserved; "": nothing
	Of                int64  // used, in thousandths of the limit; 0 where there is none
	Reserved          int64  // on top of that, in flight or held
	Class             string // waiting: it is nearly used up; refused: it was
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
func (v *view) advise(r tipstaff.Run) *tipstaff.Diagnosis {
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
	return &d
}

// advised are the views of a run that do what a call would do.
var advised = map[string]string{
	tipstaff.ToolRunResume: "/resume", tipstaff.ToolRunCancel: "/cancel", tipstaff.ToolRunStart: "/fork", tipstaff.ToolRunStatus: "", tipstaff.ToolRunDiff: "/files",
	tipstaff.ToolRunEvidence: "/journal", tipstaff.ToolRunEventsTail: "/journal", tipstaff.ToolRunVerify: "/proof",
}

// AdviceAt is where the page does what a call would do; "": nowhere.
func (h runHeader) AdviceAt(n tipstaff.NextCall) string {
	view, known := advised[n.Tool]
	switch n.Args["slice"] {
	case tipstaff.SliceErrors:
		view += "?failed=1"
	case tipstaff.SliceBounds:
		view = "/cost"
	}
	about, named := n.Args["run_id"].(tipstaff.ID)
	if !named || n.Tool == tipstaff.ToolRunStart { // what begins anew is this one
		about = h.ID
	}
	if !known {
		return ""
	}
	return "/ui/runs/" + about.String() + view
}

// AdviceActs reports whether a call changes something at once: it is sent by a form.
func (h runHeader) AdviceActs(n tipstaff.NextCall) bool { return n.Tool == tipstaff.ToolRunResume }

// boundsOf are the bounds of a run as bars, those with a limit first.
func boundsOf(r tipstaff.Run) (all []bound) {
	for name, b := range r.Bounds {
		one := bound{Name: words(strings.TrimSuffix(name, "_usd")), Used: amount(name, b.Used)}
		if b.Held > 0 {
			one.Held = amount(name, b.Held)
		}
		if b.Reserved > 0 {
			one.InFlight = amount(name, b.Reserved)
		}
		if b.Limited {
			one.Limit = amount(name, b.Limit)
			one.Of = share(b.Used, b.Limit)
			one.Reserved = min(1000-one.Of, share(b.Reserved+b.Held, b.Limit))
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

package page

import (
	"net/url"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// sent is a decision that was not taken, and why.
type sent struct {
	Title, Text, Hint string
	Code              tipstaff.Code
	Action            string
	Field             string // that is wrong; "": none of them
	Typed             []typedField
	Problems          []tipstaff.Problem
}

// Of is what is wrong with a field; "": nothing is.
func (s *sent) Of(field string) string {
	if s == nil || s.Field != field {
		return ""
	}
	return s.Text
}

// refused shows a gate with a decision that was not taken.
func (v *view) refused(page *gatePage, d decision, why error) error {
	refusal, err := v.notDone(why)
	if err != nil {
		return err
	}
	if page.Form != nil && closes(refusal.Code) { // it was open a moment ago
		in := page.Form.Typed
		now, err := v.gateOf()
		if err != nil {
			return err
		}
		if page = now; page.Form != nil {
			page.Form.Typed = in
		}
	}
	refusal.Title, refusal.Action, refusal.Field, refusal.Typed = refusalTitle(refusal.Code), d.Action, d.field, d.typed()
	page.Sent = refusal
	return v.showGate(page)
}

// closes reports whether a refusal means that the gate is not what it was when it was shown.
func closes(code tipstaff.Code) bool {
	return code == tipstaff.DecisionConflict || code == tipstaff.GateExpired || code == tipstaff.GateClosed || code == tipstaff.SubjectChanged || code == tipstaff.RunEnded
}

func refusalTitle(code tipstaff.Code) string {
	switch code {
	case tipstaff.DecisionConflict:
		return "It was decided otherwise before"
	case tipstaff.GateExpired:
		return "The gate has expired"
	case tipstaff.GateClosed, tipstaff.RunEnded:
		return "The gate was closed before"
	case tipstaff.SubjectChanged:
		return "This is not what you were shown"
	}
	return "Nothing was decided"
}

// confirm asks once more, where no script has made sure that the question was seen.
func (v *view) confirm(page *gatePage, d decision) error {
	return v.show("confirm", "Confirm "+d.Action, confirmPage{gatePage: page, Action: d.Action, Typed: d.typed(), Hidden: hiddenOf(page.Form.Typed)})
}

// confirmPage repeats a decision before it is taken.
type confirmPage struct {
	*gatePage
	Action string
	Typed  []typedField
	Hidden []typedField // the form once more
}

// hiddenOf are the fields of a form, to be sent again.
func hiddenOf(in url.Values) (all []typedField) {
	for name, values := range in {
		if name != "form" && name != "confirmed" && name != "action" {
			all = append(all, typedField{name, values[0]})
		}
	}
	slices.SortFunc(all, func(a, b typedField) int { return strings.Compare(a.Name, b.Name) })
	return all
}

package page

import (
	"crypto/rand"
	"net/url"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// gateForm is what a gate is decided with.
type gateForm struct {
	Actions []gateAction
	Fields  []field
	Typed   url.Values // what was sent before; nil: nothing was
	Key     string
	ID      string // what its elements are called besides, where there are several forms
	Resume  bool   // nobody drives the run: it may go on at once
	Scope   string // that is missing; "": none is
}

// gateAction is one of those that a gate offers.
type gateAction struct {
	Name    string
	Blocked *tipstaff.BlockedAction // nil: it can be taken
	Command string                  // that does the same; "": it is blocked
}

// field is one that an action takes its answer from.
type field struct {
	Name, Label, Hint string
	Kind              string // text, line, number, amount, json, program, file, boolean, choice
	Options           []string
	List              []choice // what can be typed, for a line
	Empty             bool     // an empty text may be meant
	Group             string   // of fields that belong together; "": none
	Now               string   // what it is about to change
}

// choice is something that can be typed, and what it means.
type choice struct{ Value, Text string }

// typedField is something that was typed, under its name.
type typedField struct{ Name, Text string }

// form is that of an open gate.
func (v *view) form(page *gatePage) *gateForm {
	f := &gateForm{Key: rand.Text(), Fields: answerFields(page.Gate)}
	if !v.signed.May(tipstaff.ScopeDecide) {
		f.Scope = tipstaff.ScopeDecide
	}
	f.Resume = v.signed.May(tipstaff.ScopeRun) && !isDriven(page.Run)
	for _, name := range page.Gate.Actions {
		a := gateAction{Name: name, Blocked: tipstaff.BlockedAt(page.Gate, name)}
		if a.Blocked == nil {
			a.Command = tipstaff.CommandLine(tipstaff.DecideCommand(page.Run.ID, page.Gate, name)...)
		}
		f.Actions = append(f.Actions, a)
	}
	return f
}

// isDriven reports whether somebody drives a run, or is about to.
func isDriven(r tipstaff.Run) bool {
	return r.Condition == tipstaff.Running || r.Status == tipstaff.StatusQueued
}

// Feedback names the actions that hand words on to whoever works next.
func (f *gateForm) Feedback() (all []string) {
	for _, a := range f.Actions {
		if a.Blocked == nil && tipstaff.NeedsFeedback(a.Name) {
			all = append(all, strings.ReplaceAll(a.Name, "_", " "))
		}
	}
	return all
}

// Value is what a field holds; without a form there is none.
func (f *gateForm) Value(name string) string {
	if f == nil {
		return ""
	}
	return f.Typed.Get(name)
}

// Goes reports whether going on is chosen: it is, unless somebody has taken it back.
func (f *gateForm) Goes() bool { return f.Typed == nil || f.Typed.Get("resume") != "" }

// answerFields are the fields that the actions of a gate take their answers from.
func answerFields(g tipstaff.Gate) (all []field) {
	for _, action := range g.Actions {
		switch {
		case tipstaff.BlockedAt(g, action) != nil:
		case action == "answer":
			all = append(all, questionFields(g)...)
		case action == "extend":
			all = append(all, field{Name: "amount", Label: "Extend by", Kind: "amount", Hint: tipstaff.AmountForm(tipstaff.BoundOf(g))})
		case action == "use_result":
			f := field{Name: "result", Label: "Result to use", Kind: "json", Hint: "JSON, as the call would have given it"}
			if g.Given != nil {
				f.Hint += "; empty: the one that has come"
			}
			all = append(all, f)
		case action == "modify":
			all = append(all, field{Name: "data", Label: "Data to go on with", Kind: "json", Hint: `a JSON object, like {"limit": 3}`})
		default:
			if files := tipstaff.AsksAgain(g, action); len(files) > 0 {
				all = append(all, field{Name: "obeyed", Label: "Change what runs and programs obey, too", Kind: "boolean",
					Hint: "needed by " + action + ": " + strings.Join(files, ", ")})
			}
		}
	}
	return all
}

// questionFields are those of an answer in words, or to the questions of a clarification.
func questionFields(g tipstaff.Gate) (all []field) {
	if tipstaff.AsksForText(g) {
		return []field{{Name: "answer", Label: "Answer", Kind: "text", Hint: `text; what is JSON, like 3, false or "", is taken as JSON`}}
	}
	for i, q := range tipstaff.QuestionsOf(g) {
		f := field{Name: questionName(i), Label: q.Prompt, Kind: q.Type, Options: q.Options}
		switch {
		case q.HasDefault():
			f.Hint = "left out: " + string(q.Default)
		case !q.Required:
			f.Hint = "may be left out"
		}
		if len(q.Options) > 0 {
			f.Kind = "choice"
		}
		f.Empty = f.Kind == "text"
		all = append(all, f)
	}
	return all
}

func questionName(i int) string { return "answer." + strconv.Itoa(i) }

// typedIn is a form as it was typed: browsers end lines as mail does.
func typedIn(form url.Values) url.Values {
	in := url.Values{}
	for name, values := range form {
		if len(values) > 0 && values[0] != "" {
			in.Set(name, strings.ReplaceAll(values[0], "\r\n", "\n"))
		}
	}
	return in
}

// decision is what was sent about a gate.
type decision struct {
	tipstaff.DecideRequest
	wrong error        // why it cannot be taken as it is
	field string       // that is wrong
	raw   []typedField // the answer as it was typed
}

// decisionOf reads the decision of a form.
func decisionOf(page *gatePage, in url.Values) (d decision) {
	d.DecideRequest = tipstaff.DecideRequest{Run: page.Run.ID, Gate: page.Gate.ID.String(), Action: in.Get("action"), Feedback: in.Get("feedback"), Note: in.Get("note"),
		SubjectDigest: in.Get("subject_digest"), Via: surface}
	if d.SubjectDigest == "" {
		d.wrong = tipstaff.Errorf(tipstaff.SubjectChanged, "the form does not say what was shown")
		return d
	}
	d.Answer, d.field, d.wrong = answerOf(page.Gate, d.Action, in)
	for _, f := range answerFields(page.Gate) {
		d.raw = append(d.raw, typedField{f.Label, in.Get(f.Name)})
	}
	return d
}

// typed is what was typed, for whoever wants to copy it.
func (d decision) typed() (all []typedField) {
	answer := []typedField{{"answer", string(d.Answer)}}
	if d.Answer == nil {
		answer = d.raw
	}
	for _, f := range append(answer, typedField{"feedback", d.Feedback}, typedField{"note", d.Note}) {
		if f.Text != "" {
			all = append(all, f)
		}
	}
	return all
}

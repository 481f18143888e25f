package page

import (
	"cmp"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// actions are all that can be done with a run, in the order in which they are offered.
func actions() []*action {
	return []*action{&resumeAction, &cancelAction, &forkAction, &rollbackAction, &correctAction, &labelAction}
}

// actPages are their forms. With a script they open in a dialog.
func actPages() pages {
	all := pages{}
	for _, a := range actions() {
		at := " /ui/runs/{run}/" + a.Name
		all["GET"+at] = func(v *view) error { return v.actForm(a) }
		all["POST"+at] = func(v *view) error { return v.act(a) }
	}
	return all
}

// action is something that can be done with a run.
type action struct {
	Name   string // in addresses
	Title  string
	Button string
	says   func(tipstaff.Run) string // what will happen, in a sentence
	is     func(tipstaff.Run) bool   // it would do something
	// fields are what it takes, filled with what was typed.
	fields func(v *view, run tipstaff.Run, in url.Values) ([]field, error)
	// command are the words of the command that does the same, after the name of the program.
	command func(run tipstaff.Run, in url.Values) []string
	do      func(v *view, run tipstaff.Run, in url.Values) (tipstaff.ID, error)
	// shown tells what it would do before it may be done; nil: what it says is enough.
	shown func(v *view, run tipstaff.Run, in url.Values) (*foreseen, error)
}

// actPage is the form of an action.
type actPage struct {
	*action
	Run     tipstaff.Run
	Says    string
	Fields  []field
	Typed   url.Values
	Key     string
	Scope   string // that is missing; "": none is
	Command string
	Sent    *sent     // what was not done, and why; nil: nothing was tried
	Seen    *foreseen // what it would do; nil: it is not known, or not needed
}

// Value is what a field holds.
func (p *actPage) Value(name string) string { return p.Typed.Get(name) }

// First reports whether something must be looked at before it can be done.
func (p *actPage) First() bool { return p.shown != nil && p.Seen == nil }

// errStale means that a form was changed after what it would do was shown.
var errStale = errors.New("the form was changed since")

// actForm shows the form of an action. What an address says is filled in.
func (v *view) actForm(a *action) error {
	page, err := v.actPage(a, typedIn(v.r.URL.Query()))
	if err != nil {
		return err
	}
	return v.show("act", a.Title+" · "+nameOf(page.Run), page)
}

func (v *view) actPage(a *action, in url.Values) (*actPage, error) {
	run, err := v.find()
	if err != nil {
		return nil, err
	}
	page := &actPage{action: a, Run: run, Says: a.says(run), Typed: in, Key: cmp.Or(in.Get("key"), rand.Text())}
	if a.fields != nil {
		if page.Fields, err = a.fields(v, run, in); err != nil {
			return nil, err
		}
	}
	page.Command = commandLine(a.command(run, in)...)
	if !v.signed.May(tipstaff.ScopeRun) {
		page.Scope = tipstaff.ScopeRun
	}
	return page, nil
}

// act does something with a run, and shows the run that comes of it. What cannot be done is
// answered with the form as it was sent.
func (v *view) act(a *action) error {
	in := typedIn(v.r.PostForm)
	run, err := v.find()
	if err == nil {
		err = v.needs(tipstaff.ScopeRun)
	}
	if err != nil {
		return err
	}
	var seen *foreseen
	if in.Get("command") == "" {
		var to string
		to, err = v.once(in, func() (string, error) {
			run, err := a.do(v, run, in)
			return backTo(in, "/ui/runs/"+run.String()), err
		})
		if err == nil {
			return v.redirect(to)
		}
	}
	if a.shown != nil && (err == nil || errors.Is(err, errStale)) {
		seen, err = a.shown(v, run, in)
	}
	page, failed := v.actPage(a, in)
	if failed != nil {
		return failed
	}
	page.Seen = seen
	if err != nil {
		if page.Sent, err = v.notDone(err); err != nil {
			return err
		}
	}
	return v.show("act", a.Title+" · "+nameOf(run), page)
}

// notDone is why something was not done, for its form. Errors that are not about what was
// asked for are errors of the page.
func (v *view) notDone(why error) (*sent, error) {
	known, ok := errors.AsType[*tipstaff.Error](why)
	if !ok {
		return nil, why
	}
	s := &sent{Title: "Nothing was done", Text: known.Message, Hint: known.Hint, Code: known.Code, Problems: known.Problems}
	if wrong, ok := errors.AsType[*fieldError](why); ok {
		s.Field = wrong.field
	}
	v.status = max(http.StatusBadRequest, v.s.o.Status(known.Code))
	return s, nil
}

// fieldError is an error about what was typed in one field.
type fieldError struct {
	error
	field string
}

func (e *fieldError) Unwrap() error { return e.error }

func wrongField(name, format string, args ...any) error {
	return &fieldError{tipstaff.Errorf(tipstaff.InvalidArgument, format, args...), name}
}

// runActions is what can be done with a run, for the part run-actions.
type runActions struct {
	Run   tipstaff.Run
	Acts  []*action
	Again bool // its program can be run again
}

// actionsOf are those of a run.
func actionsOf(run tipstaff.Run) runActions {
	of := runActions{Run: run, Again: run.Program.Digest != ""}
	for _, a := range actions() {
		if a.is(run) {
			of.Acts = append(of.Acts, a)
		}
	}
	return of
}

// commandLine is a command for people, whose words may have several lines.
func commandLine(words ...string) string {
	line := "tipstaff"
	for _, w := range words {
		if !strings.Contains(w, "\n") {
			line += " " + tipstaff.ShellWord(w)
			continue
		}
		line += " '" + strings.ReplaceAll(passage(w), "'", `'\''`) + "'"
	}
	return line
}

package page

import (
	"crypto/rand"
	"net/url"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// chatForm is what a message is sent with.
type chatForm struct {
	Typed  url.Values // what was sent before and not taken; nil: nothing was
	Key    string
	Scope  string               // that is missing; "": none is
	Agents []tipstaff.AgentInfo // to choose from, where a conversation begins
	Wrong  *sent                // why it was not taken
}

// Value is what a field holds.
func (f chatForm) Value(name string) string { return f.Typed.Get(name) }

// chatBounds are the bounds that a conversation can be begun with.
var chatBounds = []string{tipstaff.BoundCostUSD, tipstaff.BoundTokens, tipstaff.BoundModelCalls, tipstaff.BoundToolCalls, tipstaff.BoundWallTime}

// Bounds are the fields of bounds.
func (f chatForm) Bounds() (all []field) {
	for _, name := range chatBounds {
		all = append(all, field{Name: "bound." + name, Label: words(name), Hint: tipstaff.AmountForm(name)})
	}
	return all
}

// fillForm offers what can be said in a conversation.
func (v *view) fillForm(page *chatPage) (err error) {
	page.Form.Key = rand.Text()
	if !v.signed.May(tipstaff.ScopeRun) {
		page.Form.Scope = tipstaff.ScopeRun
	}
	if len(page.Turns) == 0 {
		page.Form.Agents, err = v.s.o.Sessions.Agents(v.ctx())
	}
	return err
}

// say sends a message: a turn begins, and the conversation shows it. One that is not taken is
// answered with the message as it was typed.
func (v *view) say() error {
	if err := v.needs(tipstaff.ScopeRun); err != nil {
		return err
	}
	page, err := v.chat()
	if err != nil {
		return err
	}
	in := typedIn(v.r.PostForm)
	turn, err := turnOf(page, in)
	if err == nil {
		var to string
		to, err = v.once(in, func() (string, error) {
			run, err := v.s.control.Say(v.ctx(), turn)
			if err != nil {
				return "", err
			}
			return sessionAddress(run.Turn.Session) + "#message", nil
		})
		if err == nil {
			return v.redirect(to)
		}
	}
	if page.Form.Wrong, err = v.notDone(err); err != nil {
		return err
	}
	page.Form.Typed, page.Form.Wrong.Title = in, "The message was not sent"
	if page.Form.Wrong.Code == tipstaff.SessionBusy {
		page.Form.Wrong.Title = "The turn before has not ended"
	}
	return v.show("session", page.Title(), page)
}

// turnOf reads a message.
func turnOf(page *chatPage, in url.Values) (tipstaff.TurnStart, error) {
	turn := tipstaff.TurnStart{Message: in.Get("message"), Agent: in.Get("agent"), Bounds: tipstaff.Bounds{}}
	if len(page.Turns) > 0 {
		last := page.Last()
		turn.After = &last
		return turn, nil
	}
	for _, name := range chatBounds {
		text := strings.TrimSpace(in.Get("bound." + name))
		if text == "" {
			continue
		}
		n, err := tipstaff.ParseAmount(name, text)
		if err != nil {
			return turn, err
		}
		turn.Bounds[name] = n
	}
	return turn, nil
}

// transcriptGate is an open gate in a transcript, ready to be decided.
type transcriptGate struct {
	Page  *gatePage
	Token string // what forms carry
	Back  string // where the decision leads
}

// asks puts the open gates of a run into its transcript: those about a call after it, others
// at the end.
func (v *view) asks(t *transcript, back string) error {
	if t.Later != "" {
		return nil
	}
	for _, open := range t.Run.OpenGates {
		page, err := v.gatePage(t.Run, open.ID.String(), false)
		if err != nil {
			return err
		}
		if page.Form == nil { // it has expired, or was decided meanwhile
			continue
		}
		page.Form.ID = "-" + open.ID.String()
		page.Form.Key = open.ID.String() // a part that is drawn again is the same; deciding twice is deciding once
		page.Form.Resume = v.signed.May(tipstaff.ScopeRun)
		t.put(open.ID.String(), &transcriptGate{page, v.signed.form(), back})
	}
	return nil
}

// put puts a gate to the call that it asks about.
func (t *transcript) put(gate string, g *transcriptGate) {
	for i := range t.Items {
		if call := t.Items[i].Call; call != nil && call.Gate == gate {
			t.Items[i].Ask = g
			return
		}
	}
	t.Asks = append(t.Asks, g)
}

// backTo is where the outcome of a form is shown: where the form says, or otherwise.
func backTo(in url.Values, otherwise string) string {
	if back := in.Get("back"); back != "" {
		return local(back)
	}
	return otherwise
}

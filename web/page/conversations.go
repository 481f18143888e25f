package page

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/tipstaff/tipstaff"
)

const sessionTurns = 20 // that a page shows

// sessionsPage is a page of the list of conversations.
type sessionsPage struct {
	Heads []tipstaff.Run // the last turn of each
	Next  tipstaff.ID
}

// sessions is the list of conversations, the one that was taken up last first.
func (v *view) sessions() error {
	before, err := v.id("before")
	if err != nil {
		return err
	}
	found, err := v.s.control.Runs.List(v.ctx(), tipstaff.ListRequest{Heads: true, Limit: 50, Before: before})
	if err != nil {
		return err
	}
	return v.show("sessions", "Sessions", sessionsPage{found.Runs, found.Next})
}

// id is a parameter of the address that names a run; zero: it is missing.
func (v *view) id(name string) (id tipstaff.ID, err error) {
	if given := v.r.FormValue(name); given != "" {
		if id, err = tipstaff.ParseID(given); err != nil {
			return id, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not the id of a run", name)
		}
	}
	return id, nil
}

func sessionAddress(session string) string { return "/ui/sessions/" + url.PathEscape(session) }

// chatPage is a conversation, turn by turn.
type chatPage struct {
	Session string
	Opening string
	Turns   []transcript // oldest first
	Earlier tipstaff.ID
}

// conversation is one conversation: its last turns, and a link to those before.
func (v *view) conversation() error {
	page := chatPage{Session: v.r.PathValue("session")}
	before, err := v.id("before")
	if err != nil {
		return err
	}
	found, err := v.s.control.Runs.List(v.ctx(), tipstaff.ListRequest{Session: page.Session, Limit: sessionTurns, Before: before})
	if err != nil {
		return err
	}
	if len(found.Runs) == 0 || page.Session == "" {
		return &problem{status: http.StatusNotFound, title: "There is no such conversation", text: "The address may be mistyped."}
	}
	page.Earlier, page.Opening = found.Next, found.Runs[0].Turn.Opening
	for _, r := range slices.Backward(found.Runs) {
		said, err := tipstaff.ConversationOf(v.ctx(), v.s.control.Runs, r, tipstaff.ProgramTurn, 0)
		if err != nil {
			return err
		}
		page.Turns = append(page.Turns, chatTurn(r, said))
	}
	return v.show("session", page.Opening, page)
}

// chatTurn is how a turn ends, and its beginning where that fits.
func chatTurn(r tipstaff.Run, said *tipstaff.Conversation) transcript {
	from := max(0, len(said.Items)-talkItems)
	t := transcriptOf(r, said, from, len(said.Items))
	if from > 0 {
		t.Earlier = "/ui/runs/" + r.ID.String() + "/talk?" + query("path", tipstaff.ProgramTurn, "from", "0")
	}
	return t
}

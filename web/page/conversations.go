package page

import (
	"cmp"
	"net/url"
	"slices"
	"sync"

	"github.com/tipstaff/tipstaff"
)

const (
	sessionTurns = 20    // that a page shows
	chatNew      = "new" // in addresses: the session that a message begins
)

// chatPages are conversations, and what was said in a run.
var chatPages = pages{
	"GET /ui/runs/{run}/talk":              (*view).talk,
	"GET /ui/sessions":                     (*view).sessions,
	"GET /ui/sessions/{session}":           (*view).conversation,
	"POST /ui/sessions/{session}/messages": (*view).say,
}

// sessions is the list of conversations, the one that was taken up last first.
func (v *view) sessions() error {
	before, err := v.id("before")
	if err != nil {
		return err
	}
	found, err := v.s.o.Sessions.Chats(v.ctx(), tipstaff.ChatsRequest{Before: before})
	if err != nil {
		return err
	}
	return v.show("sessions", "Sessions", found)
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

// chatPage is a conversation, turn by turn, and the form that goes on with it.
type chatPage struct {
	tipstaff.Chat              // zero: it begins with the first message
	Shown         []transcript // oldest first
	Form          chatForm
}

// Title is what the page is called.
func (p chatPage) Title() string { return cmp.Or(p.Opening, "New conversation") }

// Stop is the turn that is driven, which can be stopped; nil: there is none.
func (p chatPage) Stop() *tipstaff.Run { return p.unfinished(true) }

// Resume is the turn that nobody drives although nothing is asked; nil: there is none.
func (p chatPage) Resume() *tipstaff.Run {
	if r := p.unfinished(false); r != nil && len(r.OpenGates) == 0 {
		return r
	}
	return nil
}

// unfinished is the last turn if it has not ended.
func (p chatPage) unfinished(driven bool) *tipstaff.Run {
	if len(p.Turns) == 0 || p.Last().State.Terminal() || isDriven(p.Last()) != driven {
		return nil
	}
	r := p.Last()
	return &r
}

// conversation is one conversation: its last turns, and a link to those before.
func (v *view) conversation() error {
	page, err := v.chat()
	if err != nil {
		return err
	}
	return v.show("session", page.Title(), page)
}

// chat is the conversation that the address names.
func (v *view) chat() (*chatPage, error) {
	page := &chatPage{}
	session := v.r.PathValue("session")
	if session == chatNew {
		return page, v.fillForm(page)
	}
	before, err := v.id("before")
	if err != nil {
		return nil, err
	}
	if page.Chat, err = v.s.o.Sessions.Chat(v.ctx(), session, before, sessionTurns); err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(page.Turns) {
		t, err := v.turn(r)
		if err != nil {
			return nil, err
		}
		page.Shown = append(page.Shown, t)
	}
	return page, v.fillForm(page)
}

// turn is how a turn ends, and its beginning where that fits.
func (v *view) turn(r tipstaff.Run) (transcript, error) {
	said, err := v.s.transcripts.of(v.signed.User, r, func() (*tipstaff.Conversation, error) {
		return tipstaff.ConversationOf(v.ctx(), v.s.control.Runs, r, tipstaff.ProgramTurn, 0)
	})
	if err != nil {
		return transcript{}, err
	}
	from := max(0, len(said.Items)-talkItems)
	t := transcriptOf(r, said, from, len(said.Items))
	if from > 0 {
		t.Earlier = "/ui/runs/" + r.ID.String() + "/talk?" + query("path", tipstaff.ProgramTurn, "from", "0")
	}
	return t, v.asks(&t, sessionAddress(r.Turn.Session))
}

// Limits of the conversations that are kept.
const (
	transcriptsKept   = 100
	transcriptRecords = 1000 // of a run whose conversation is
)

// transcripts keeps conversations of turns that have ended, which do not change any more: a page is
// drawn anew whenever the last of its turns says something.
type transcripts struct {
	mu   sync.Mutex
	kept map[transcriptKey]*tipstaff.Conversation
}

// transcriptKey also names who may see it: what a fork inherits may be another's.
type transcriptKey struct {
	user string
	run  tipstaff.ID
}

// of is the conversation of a turn.
func (k *transcripts) of(user string, r tipstaff.Run, read func() (*tipstaff.Conversation, error)) (*tipstaff.Conversation, error) {
	key := transcriptKey{user, r.ID}
	k.mu.Lock()
	had := k.kept[key]
	k.mu.Unlock()
	if had != nil {
		return had, nil
	}
	said, err := read()
	if err != nil || !r.State.Terminal() || r.HeadSeq > transcriptRecords {
		return said, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= transcriptsKept {
		k.kept = map[transcriptKey]*tipstaff.Conversation{}
	}
	k.kept[key] = said
	return said, nil
}

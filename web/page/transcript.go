package page

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

const (
	talkItems = 100     // that a page shows
	valueMost = 4 << 10 // bytes of a text that is no Markdown
	// argumentsMost is how many of a call are shown; its record has all of them.
	argumentsMost = 40
)

// transcriptPage is what was said at a place of a run.
type transcriptPage struct {
	*runView
	Path   string
	Places []tipstaff.ConversationPlace
	Talk   transcript
}

// talk is a transcript, or a part of it.
type transcript struct {
	Run     tipstaff.Run
	Items   []transcriptItem
	Usage   tipstaff.ModelUsage
	Earlier string // the address of the part before; "": there is none
	Later   string
	Asks    []*transcriptGate // open gates that are about no call
}

// transcriptItem is one message or call.
type transcriptItem struct {
	tipstaff.ConversationItem
	run    tipstaff.ID
	Speaks bool            // it is a step that has not ended, and may still be
	Ask    *transcriptGate // the gate that asks about the call, while it is open; nil: there is none
}

// talk is the conversation of a turn, a step or a stage.
func (v *view) talk() error {
	shown, err := v.runView()
	if err != nil {
		return err
	}
	r, at := v.run, shown.at
	page := transcriptPage{runView: shown, Path: v.r.FormValue("path")}
	if page.Places, err = tipstaff.ConversationPlaces(v.ctx(), v.s.control.Runs, r, at); err != nil {
		return err
	}
	for _, place := range page.Places {
		if keyOf(place.Path) == page.Path {
			page.Path = place.Path
		}
	}
	switch {
	case page.Path != "":
	case r.Turn != nil:
		page.Path = tipstaff.ProgramTurn
	case len(page.Places) > 0:
		page.Path = page.Places[0].Path
	}
	if page.Path != "" {
		said, err := tipstaff.ConversationOf(v.ctx(), v.s.control.Runs, r, page.Path, at)
		if err != nil {
			return err
		}
		from, err := v.number("from", max(0, len(said.Items)-talkItems))
		if err != nil {
			return err
		}
		page.Talk = page.part(said, from)
		if at == 0 {
			err = v.asks(&page.Talk, page.address(page.Path))
		}
		if err != nil {
			return err
		}
	}
	return v.show("talk", "Talk · "+nameOf(r), page)
}

// part is what fits on a page of a conversation, from an item on.
func (p transcriptPage) part(said *tipstaff.Conversation, from int) transcript {
	from = min(max(0, from), len(said.Items))
	to := min(from+talkItems, len(said.Items))
	t := transcriptOf(p.Run, said, from, to)
	address := func(from int) string { return p.address(p.Path) + "&" + query("from", strconv.Itoa(from)) }
	if from > 0 {
		t.Earlier = address(max(0, from-talkItems))
	}
	if to < len(said.Items) {
		t.Later = address(to)
	}
	return t
}

// address is that of what was said at a path.
func (p transcriptPage) address(path string) string {
	a := "/ui/runs/" + p.Run.ID.String() + "/talk?" + query("path", path)
	if p.at > 0 {
		a += "&" + query("at", strconv.FormatInt(p.at, 10))
	}
	return a
}

// Others are links to what was said elsewhere in the run.
func (p transcriptPage) Others() (all []filter) {
	for _, place := range p.Places {
		all = append(all, filter{Value: p.address(place.Path), Title: place.Path, Chosen: place.Path == p.Path})
	}
	return all
}

func transcriptOf(r tipstaff.Run, said *tipstaff.Conversation, from, to int) transcript {
	t := transcript{Run: r, Usage: said.Usage}
	last := map[string]int{} // by agent: what it said last
	for i, it := range said.Items[from:to] {
		t.Items = append(t.Items, transcriptItem{ConversationItem: it, run: r.ID})
		if it.Call == nil {
			last[it.Path+"|"+it.Invocation+"|"+it.Parent] = i
		}
	}
	for _, i := range last {
		t.Items[i].Speaks = t.Items[i].Step != nil && t.Items[i].Step.Ended.IsZero() && !r.State.Terminal()
	}
	return t
}

// number is a parameter of the address, and what it is when it is missing.
func (v *view) number(name string, missing int) (int, error) {
	given := v.r.FormValue(name)
	if given == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 0 {
		return 0, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not a number", name)
	}
	return n, nil
}

// Who is the speaker in a word.
func (i transcriptItem) Who() string {
	switch {
	case i.Worker != "" && i.Role != tipstaff.RoleUser:
		return i.Worker
	case i.Role == tipstaff.RoleUser:
		return "User"
	case i.Role == tipstaff.RoleAssistant:
		return "Assistant"
	case i.Role == tipstaff.RoleError:
		return "Error"
	}
	return i.Role
}

// Said is the text of everybody else.
func (i transcriptItem) Said() string {
	return passage(cutBytes(i.ConversationItem.Text, markdownMost))
}

// More is how many bytes of the text are left out.
func (i transcriptItem) More() int {
	return max(0, len(i.ConversationItem.Text)-len(cutBytes(i.ConversationItem.Text, markdownMost)))
}

// Reasoning is what the model thought before it spoke.
func (i transcriptItem) Reasoning() string {
	return passage(cutBytes(i.Step.Reasoning, markdownMost))
}

// Record is the address of the record that brought it; "": it is the program's.
func (i transcriptItem) Record() string { return recordAddress(i.Run, i.Seq) }

// File is the address of a text that is in no record.
func (i transcriptItem) File() string { return fileAddress(i.run, i.Ref) }

// ToldPath is what the item is known by to those who hear what is told.
func (i transcriptItem) ToldPath() string { return toldPath(i.run, i.Told) }

// cutBytes leaves at most so many bytes of a text, and no half character.
func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

func recordAddress(run tipstaff.ID, seq int64) string {
	if seq == 0 {
		return ""
	}
	return "/ui/runs/" + run.String() + "/journal/" + strconv.FormatInt(seq, 10)
}

func fileAddress(run tipstaff.ID, digest string) string {
	if digest == "" {
		return ""
	}
	return "/ui/runs/" + run.String() + "/files/" + url.PathEscape(digest)
}

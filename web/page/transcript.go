package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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
	r, at := shown.run, shown.at
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
	t := transcriptOf(p.run, said, from, to)
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
	a := "/ui/runs/" + p.run.ID.String() + "/talk?" + query("path", path)
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

// State is the outcome of a call, as a state that has a mark.
func (i transcriptItem) State() string {
	switch i.Call.Outcome {
	case tipstaff.CallOK:
		return "done"
	case tipstaff.CallError:
		return "failed"
	case tipstaff.CallAsked:
		return "waiting"
	}
	return "running"
}

// Took is how long a call took.
func (i transcriptItem) Took() time.Duration {
	if i.Call.Ended.IsZero() {
		return -1
	}
	return time.Duration(i.Call.TookMS) * time.Millisecond
}

// Result is what the call gave, as far as it is shown.
func (i transcriptItem) Result() string { return passage(cutBytes(i.Call.Result, valueMost)) }

// ResultMore is how many bytes of the result are left out.
func (i transcriptItem) ResultMore() int64 {
	return i.Call.Cut + int64(len(i.Call.Result)-len(cutBytes(i.Call.Result, valueMost)))
}

// Whole is the address of all of the result; "": nothing has it.
func (i transcriptItem) Whole() string {
	if i.Call.Record > 0 {
		return recordAddress(i.Call.RecordRun, i.Call.Record)
	}
	return fileAddress(i.run, i.Call.Ref)
}

// Image is the address of an image of a result that may be shown; "": it may not be.
func (i transcriptItem) Image(m tipstaff.ConversationMedia) string {
	if !m.Kept || m.Bytes > imageMost || !slices.Contains(imageTypes, m.Type) {
		return ""
	}
	return fileAddress(i.run, m.Digest) + "?image=1"
}

// Gate is the address of the gate that asks about the call.
func (i transcriptItem) Gate() string {
	if i.Call.Gate == "" {
		return ""
	}
	return "/ui/runs/" + i.run.String() + "/gates/" + url.PathEscape(i.Call.Gate)
}

// argument is one of a call.
type argument struct {
	Name, Value string
	More        int // bytes that are left out
}

// Arguments are those of a call, in the order in which they were given.
func (i transcriptItem) Arguments() (all []argument) {
	in := json.NewDecoder(bytes.NewReader(i.Call.Arguments))
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') || !json.Valid(i.Call.Arguments) {
		return []argument{argumentOf("", i.Call.Arguments)}
	}
	for in.More() {
		var value json.RawMessage
		name, _ := in.Token()
		if in.Decode(&value) != nil || len(all) == argumentsMost {
			break
		}
		all = append(all, argumentOf(fmt.Sprint(name), value))
	}
	return all
}

// argumentOf shows strings as the text that they are, and all else as JSON.
func argumentOf(name string, value json.RawMessage) argument {
	shown := valueText(value)
	a := argument{Name: name, Value: cutBytes(shown, valueMost)}
	a.More, a.Value = len(shown)-len(a.Value), passage(a.Value)
	return a
}

// valueText is a JSON value for people.
func valueText(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil && !bytes.Equal(value, []byte("null")) {
		return s
	}
	var b bytes.Buffer
	if json.Indent(&b, value, "", "  ") == nil {
		return b.String()
	}
	return string(value)
}

// First is the argument that stands in the line of a call.
func (i transcriptItem) First() string {
	if all := i.Arguments(); len(all) > 0 {
		return cut(tipstaff.Printable(all[0].Value), 60)
	}
	return ""
}

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

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/tipstaff/tipstaff"
)

// gateView is a gate that is open on the screen. It is decided by the same questions and
// answers as at any other terminal: those of [prompter].
type gateView struct {
	id     tipstaff.ID
	run    tipstaff.Run
	gate   tipstaff.Gate
	read   bool
	shown  bool   // it is on the screen
	whole  bool   // long values are not cut
	top    int    // the first of its lines on the screen
	over   string // how it was closed; "": it is open, as far as is known
	next   tipstaff.ID
	said   []string // by who asks, besides the question
	stop   context.CancelCauseFunc
	asked  *askMsg     // nil: nothing is asked at the moment
	editor *lineEditor // of the answer
	drawn  bool        // the question was
}

// busy reports whether the gate is being decided: keys are for the questions then.
func (v *gateView) busy() bool { return v.stop != nil }

type openedMsg struct {
	view *gateView
	run  tipstaff.Run
	gate tipstaff.Gate
	err  error
}

// openGate shows a gate as it is now.
func (m *inbox) openGate(run, gate tipstaff.ID) tea.Cmd {
	v := &gateView{id: gate, run: tipstaff.Run{ID: run}}
	m.gate = v
	return func() tea.Msg {
		msg := openedMsg{view: v}
		if msg.run, msg.err = m.svc.Get(m.ctx, run); msg.err == nil {
			msg.gate, msg.err = m.svc.Gate(m.ctx, run, gate.String())
		}
		return msg
	}
}

func (m *inbox) opened(msg openedMsg) tea.Cmd {
	v := msg.view
	if m.gate != v {
		return nil
	}
	if msg.err != nil {
		m.gate, m.note = nil, problem(msg.err)
		return nil
	}
	v.run, v.gate, v.read = msg.run, msg.gate, true
	if !waitsAt(msg.run, v.id) {
		v.over = "it is no longer open"
	}
	return m.drawing(v)
}

// drawing tells of the frame after this one: those that follow it have all that there is to
// be read now.
func (m *inbox) drawing(v *gateView) tea.Cmd {
	asked := v.asked
	return func() tea.Msg { return dialogMsg{v, nil, drawnMsg{asked}} }
}

func waitsAt(run tipstaff.Run, gate tipstaff.ID) bool {
	return slices.ContainsFunc(run.OpenGates, func(g tipstaff.Gate) bool { return g.ID == gate })
}

// closedMsg says that a gate was closed, by whom if that is known.
type closedMsg struct {
	view *gateView
	by   error
}

// stillOpen looks whether somebody else has decided a gate.
func (m *inbox) stillOpen(v *gateView) tea.Cmd {
	if !v.read || v.over != "" {
		return nil
	}
	run, gate := v.run.ID, v.gate
	return func() tea.Msg {
		now, err := m.svc.Get(m.ctx, run)
		if err != nil || waitsAt(now, gate.ID) {
			return nil
		}
		return closedMsg{v, tipstaff.AnsweredBy(m.ctx, m.svc, run, gate)}
	}
}

func (m *inbox) closedBy(msg closedMsg) {
	v := msg.view
	if v.over != "" {
		return
	}
	v.over = "it is no longer open: it has expired, or its run has ended"
	var other *tipstaff.AnsweredElsewhere
	if errors.As(msg.by, &other) {
		v.over = other.Error()
	}
	if v.stop != nil {
		v.stop(cmp.Or(msg.by, errLeft))
	}
}

func (m *inbox) pressGate(k key) tea.Cmd {
	v := m.gate
	page := max(1, m.height/2)
	switch k.name {
	case "escape", "left", "h", "backspace":
		m.gate = nil
		return m.load(m.at, false)
	case "w":
		return m.openWatch(v.run.ID)
	case "j", "down":
		v.top++
	case "k", "up":
		v.top--
	case "page down", " ":
		v.top += page
	case "page up":
		v.top -= page
	case "g", "home":
		v.top = 0
	case "G", "end":
		v.top = unlimited * unlimited
	case "v":
		v.whole = !v.whole
	case "r":
		run := v.run.ID
		if !v.next.IsZero() {
			run = v.next
		}
		return m.resume(run)
	case "enter", "d":
		return m.decide(v)
	}
	return nil
}

// What a dialog says, and asks, in the order in which it does.
type (
	dialogMsg struct {
		view *gateView
		talk <-chan tea.Msg
		msg  tea.Msg // nil: it is over
	}
	saidMsg struct{ text string }
	askMsg  struct {
		prompt string
		answer chan<- typed // has room for one
	}
	drawnMsg   struct{ asked *askMsg }
	wholeMsg   struct{}
	decidedMsg struct {
		done *tipstaff.Decided // nil: nothing was decided
		why  string
	}
)

// decide asks what a gate needs to know. The questions come as messages, and the answers go
// back from the keys.
func (m *inbox) decide(v *gateView) tea.Cmd {
	switch {
	case !v.read:
		return nil
	case v.over != "":
		m.note = []line{{say(plain, v.over)}}
		return nil
	}
	ctx, stop := context.WithCancelCause(m.ctx)
	v.stop, v.said, v.asked = stop, nil, nil
	talk := make(chan tea.Msg)
	d := &dialog{send: func(msg tea.Msg) {
		select {
		case talk <- msg:
		case <-m.ctx.Done():
		}
	}}
	p := &prompter{out: d, in: d, away: true, whole: func() { d.send(wholeMsg{}) }}
	run, gate := v.run.ID, v.gate
	go func() {
		defer close(talk)
		d.send(settle(ctx, m.svc, p, run, gate))
	}()
	return listenTo(v, talk)
}

func listenTo(v *gateView, talk <-chan tea.Msg) tea.Cmd {
	return func() tea.Msg { return dialogMsg{v, talk, <-talk} }
}

// settle asks until an answer was accepted, or none can be.
func settle(ctx context.Context, svc tipstaff.Decider, p *prompter, run tipstaff.ID, g tipstaff.Gate) decidedMsg {
	for {
		choice, err := p.choose(ctx, g)
		switch {
		case errors.Is(err, errNonsense):
			return decidedMsg{why: "no answer that makes sense: nothing was decided"}
		case err != nil:
			return decidedMsg{}
		}
		done, err := svc.Decide(context.WithoutCancel(ctx), tipstaff.DecideRequest{Run: run, Gate: g.ID.String(), Action: choice.Action, Answer: choice.Answer,
			Feedback: choice.Feedback, Note: choice.Note, SubjectDigest: g.Digest, Via: "terminal"})
		if err == nil {
			return decidedMsg{done: &done}
		}
		p.refused(err)
		switch tipstaff.CodeOf(err) {
		case tipstaff.DecisionConflict, tipstaff.SubjectChanged, tipstaff.GateNotFound, tipstaff.RunNotFound, tipstaff.RunEnded:
			return decidedMsg{why: "nothing was decided here"} // nor can it be by another answer
		}
		if ctx.Err() != nil {
			return decidedMsg{}
		}
	}
}

// dialog is where a [prompter] writes and reads, for the inbox.
type dialog struct {
	send func(tea.Msg)
	tail []byte // of what was written since the last line feed: the prompt
}

func (d *dialog) Write(p []byte) (int, error) {
	d.tail = append(d.tail, p...)
	for {
		l, rest, found := bytes.Cut(d.tail, []byte("\n"))
		if !found {
			return len(p), nil
		}
		d.tail = rest
		if len(l) > 0 {
			d.send(saidMsg{string(l)})
		}
	}
}

// Forget is done by whoever draws the question.
func (d *dialog) Forget() {}

func (d *dialog) Line(ctx context.Context) (string, error) {
	answer := make(chan typed, 1)
	d.send(askMsg{string(d.tail), answer})
	d.tail = nil
	select {
	case t := <-answer:
		return t.text, t.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// hear takes in what a dialog says or asks.
func (m *inbox) hear(msg dialogMsg) tea.Cmd {
	v := msg.view
	switch said := msg.msg.(type) {
	case nil:
		return nil
	case drawnMsg: // what follows changes the screen, so that there is another frame
		if v.asked == said.asked {
			v.shown, v.drawn = true, v.asked != nil
			m.terminal.expect()
		}
		return nil
	case saidMsg:
		v.said = append(v.said, said.text)
	case wholeMsg:
		v.whole = true
		v.said = append(v.said, "all of it is shown above")
	case askMsg:
		v.asked, v.editor, v.drawn = &said, newLineEditor(nil, nil), false
		return tea.Batch(listenTo(v, msg.talk), m.drawing(v))
	case decidedMsg:
		return tea.Batch(listenTo(v, msg.talk), m.decided(v, said))
	}
	return listenTo(v, msg.talk)
}

// decided is the end of a dialog.
func (m *inbox) decided(v *gateView, msg decidedMsg) tea.Cmd {
	v.stop(nil)
	v.stop, v.asked, v.drawn = nil, nil, false
	if msg.done == nil {
		if msg.why != "" {
			v.said = append(v.said, msg.why)
		}
		return tea.Batch(m.stillOpen(v), m.load(m.at, false))
	}
	v.said = nil
	d := msg.done
	v.over = "decided: " + d.Decision.Action
	next := "; r resumes the run"
	switch {
	case !d.Decision.FollowupRunID.IsZero():
		v.next, next = d.Decision.FollowupRunID, "; r starts "+d.Decision.FollowupRunID.String()+", with what is to be corrected"
	case d.Run.State.Terminal():
		next = "; the run is " + string(d.Run.State)
	case d.Run.Condition == tipstaff.Running:
		next = "; the run goes on"
	}
	m.note = []line{{say(green, v.over+next)}}
	return m.load(m.at, false)
}

// answer is a key while a gate is being decided. Nothing that was typed before the question
// was on the screen belongs to the answer.
func (m *inbox) answer(k key, piece int) tea.Cmd {
	v := m.gate
	switch k.name {
	case "escape":
		v.stop(errLeft)
		return nil
	case "page down":
		v.top += max(1, m.height/2)
		return nil
	case "page up":
		v.top -= max(1, m.height/2)
		return nil
	}
	if v.asked == nil || !v.drawn || !m.terminal.answers(piece) {
		return nil
	}
	switch v.editor.press(k) {
	case entered:
		v.asked.answer <- typed{text: v.editor.String()}
		v.asked = nil
	case leaving:
		v.asked.answer <- typed{err: io.EOF}
		v.asked = nil
	}
	return nil
}

// mostSaid is how many lines of a dialog stay in sight.
const mostSaid = 4

// gateRows draw a gate: who asks what first, then what it is about, digests last. Where that
// does not fit it scrolls, and what would be done stays in sight. Below stands the dialog.
func (m *inbox) gateRows() (rows []line, keys []keyHelp, cursor *tea.Cursor) {
	v := m.gate
	width := m.width
	if !v.read {
		return []line{{say(dim, "reading …")}}, gateKeys, nil
	}
	t := textOf(v.gate, v.whole)
	rows = append(rows, line{say(bold, nameOf(v.run)), say(dim, "  "+v.run.ID.String()+"  waits "+age(m.now().Sub(v.gate.OpenedAt)))})
	if v.over != "" {
		rows = append(rows, line{say(bold, v.over)})
	}
	head := rowsOf(t.head, width)
	for _, text := range head[:min(len(head), max(2, m.height/4))] {
		rows = append(rows, line{{text, yellow}})
	}

	var below []line
	for _, text := range v.said[max(0, len(v.said)-mostSaid):] {
		for _, text := range rowsOf(clean(text), width) {
			below = append(below, line{{text, plain}})
		}
	}
	keys = gateKeys
	row, col := -1, 0
	switch {
	case v.asked != nil:
		keys = askedKeys
		typed := v.editor.rows(v.asked.prompt, max(1, width-1)).window(max(1, m.height/4))
		row, col = len(below)+typed.row, typed.col
		for _, text := range typed.rows {
			below = append(below, line{{text, bold}})
		}
	case v.over == "" && !v.busy() && v.shown:
		for _, text := range rowsOf("enter decides: "+clean(strings.Join(v.gate.Available(), ", ")), width) {
			below = append(below, line{{text, bold}})
		}
	}

	room := max(1, m.height-1-max(1, len(m.noteRows()))-len(rows)-len(below)-2)
	about := laidOut(t.all(), width)
	if len(about) > room {
		for _, l := range t.brief {
			rows = append(rows, line{{"  " + l, blue}}.fit(width))
		}
		room = max(1, room-len(t.brief))
		about = laidOut(t.rest(), width)
	}
	v.top = max(0, min(v.top, len(about)-room))
	rule := line{say(dim, "──")}
	if hidden := len(about) - room; hidden > 0 {
		rule = rule.and(dim, fmt.Sprintf("lines %d to %d of %d", v.top+1, v.top+room, len(about)))
	}
	rows = append(append(rows, rule), about[v.top:min(len(about), v.top+room)]...)
	rows = append(rows, line{say(dim, "──")})
	if v.drawn {
		cursor = tea.NewCursor(col, len(rows)+row)
	}
	return append(rows, below...), keys, cursor
}

// laidOut are printable lines in rows of a width.
func laidOut(lines []string, width int) (rows []line) {
	for _, l := range lines {
		for _, text := range rowsOf(l, width) {
			rows = append(rows, line{{text, plain}})
		}
	}
	return rows
}

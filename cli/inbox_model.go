package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tipstaff/tipstaff"
)

// inbox is the full screen: three lists, and above them the view of a gate, a run or the
// keys. It is a state machine: what it shows follows from the messages that it was given.
// What takes time is a command, whose result is a message.
type inbox struct {
	a        *app
	ctx      context.Context
	svc      tipstaff.Service
	terminal interface {
		expect()
		answers(piece int) bool
	}
	suspend func()
	page    func() string
	changed <-chan struct{} // nil: it is looked again every now and then
	now     func() time.Time
	colored bool

	width, height int
	lists         [3]inboxList
	at            int         // the list that is shown
	filter        *lineEditor // what is being looked for; nil: it is not being typed
	gate          *gateView   // nil: none is open
	watch         *watchView  // likewise
	help          bool
	note          []line // what there was to tell last
}

// The lists.
const (
	listWaits = iota
	listRuns
	listEnded
)

var listStatuses = [...][]string{
	listRuns:  {tipstaff.StatusRunning, tipstaff.StatusQueued, tipstaff.StatusInterrupted, tipstaff.StatusAwaitingResume},
	listEnded: {string(tipstaff.Completed), string(tipstaff.Failed), string(tipstaff.Cancelled)},
}

// inboxList is as much of a list as was read.
type inboxList struct {
	name    string
	rows    []inboxRow
	at, top int         // the chosen row, and the first on the screen
	next    tipstaff.ID // after which there is more; zero: there is none
	total   int         // of gates, filtered or not
	text    string      // that rows hold; "": any
	read    bool        // it was
	reading bool
	stale   bool // it has changed since the reading began
	failed  error
}

// inboxRow is a gate that waits, or a run.
type inboxRow struct {
	run     tipstaff.ID
	gate    tipstaff.ID // zero: it is a run
	when    time.Time   // since when it waits, or runs, or has ended
	expires time.Time
	mark    span
	text    string
	of      string
}

type loadedMsg struct {
	list  int
	more  bool   // behind what was read before
	text  string // that the rows hold
	rows  []inboxRow
	next  tipstaff.ID
	total int
	err   error
}

type (
	changedMsg struct{} // something has happened to some run
	reloadMsg  struct{ list int }
	clockMsg   struct{} // ages have grown
	toldMsg    struct{ lines []line }
)

const (
	clockEvery  = 10 * time.Second
	reloadEvery = 250 * time.Millisecond // at most
	lookEvery   = 2 * time.Second        // where nobody tells of changes
	sureRows    = 20                     // that are read of a list, however low the screen is
)

func newInbox(a *app, ctx context.Context, svc tipstaff.Service) *inbox {
	m := &inbox{a: a, ctx: ctx, svc: svc, suspend: func() {}, page: func() string { return "" }, now: time.Now, colored: a.env.colored(true)}
	for i, name := range []string{"Waits", "Runs", "Ended"} {
		m.lists[i].name = name
	}
	m.width, m.height = a.env.size()
	return m
}

func (m *inbox) Init() tea.Cmd { return tea.Batch(m.load(listWaits, false), m.listen(), m.tick()) }

// listen waits for the next change.
func (m *inbox) listen() tea.Cmd {
	if m.changed == nil {
		return tea.Tick(lookEvery, func(time.Time) tea.Msg { return changedMsg{} })
	}
	return func() tea.Msg {
		select {
		case <-m.changed:
			return changedMsg{}
		case <-m.ctx.Done():
			return nil
		}
	}
}

func (m *inbox) tick() tea.Cmd {
	return tea.Tick(clockEvery, func(time.Time) tea.Msg { return clockMsg{} })
}

// load reads a list from its beginning, as far as it was read before, or more of it. One
// reading is under way at a time.
func (m *inbox) load(i int, more bool) tea.Cmd {
	l := &m.lists[i]
	if l.reading {
		l.stale = l.stale || !more
		return nil
	}
	l.reading, l.stale = true, false
	msg, after, want := loadedMsg{list: i, more: more, text: l.text}, l.next, max(m.height, sureRows)
	if !more {
		after, want = tipstaff.ID{}, max(want, len(l.rows))
	}
	var holds func(inboxRow) bool
	if text := strings.ToLower(l.text); text != "" {
		holds = func(r inboxRow) bool {
			return strings.Contains(strings.ToLower(r.text+" "+r.of+" "+r.run.String()), text)
		}
	}
	return func() tea.Msg {
		var got loadedMsg
		if i == listWaits {
			got, msg.err = readGates(m.ctx, m.svc, after, want, holds)
		} else {
			got, msg.err = readRuns(m.ctx, m.svc, listStatuses[i], after, want, msg.text)
		}
		msg.rows, msg.next, msg.total = got.rows, got.next, got.total
		return msg
	}
}

// loaded takes in what was read. What was chosen stays chosen.
func (m *inbox) loaded(msg loadedMsg) tea.Cmd {
	l := &m.lists[msg.list]
	l.reading = false
	switch {
	case msg.err != nil:
		l.failed = msg.err
	case msg.text != l.text: // something else is looked for by now
	case msg.more:
		l.rows, l.next, l.failed = append(l.rows, msg.rows...), msg.next, nil
	default:
		chosen := l.chosen()
		l.rows, l.next, l.total, l.read, l.failed = msg.rows, msg.next, msg.total, true, nil
		if i := slices.IndexFunc(l.rows, func(r inboxRow) bool { return chosen != nil && r.run == chosen.run && r.gate == chosen.gate }); i >= 0 {
			l.at = i
		}
		l.at = max(0, min(l.at, len(l.rows)-1))
	}
	switch {
	case msg.text != l.text:
		return m.load(msg.list, false)
	case l.stale:
		return tea.Tick(reloadEvery, func(time.Time) tea.Msg { return reloadMsg{msg.list} })
	}
	return nil
}

func (l *inboxList) chosen() *inboxRow {
	if l.at < 0 || l.at >= len(l.rows) {
		return nil
	}
	row := l.rows[l.at]
	return &row
}

func (m *inbox) Update(msg tea.Msg) (tea.Model, tea.Cmd) { return m, m.update(msg) }

func (m *inbox) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(1, msg.Width), max(1, msg.Height)
	case clockMsg:
		return m.tick()
	case changedMsg:
		cmds := []tea.Cmd{m.listen(), m.load(m.at, false)}
		if m.gate != nil {
			cmds = append(cmds, m.stillOpen(m.gate))
		}
		return tea.Batch(cmds...)
	case reloadMsg:
		return m.load(msg.list, false)
	case loadedMsg:
		return m.loaded(msg)
	case toldMsg:
		m.note = msg.lines
	case pressedMsg:
		return m.pressed(msg)
	case openedMsg:
		return m.opened(msg)
	case dialogMsg:
		return m.hear(msg)
	case closedMsg:
		m.closedBy(msg)
	case recordsMsg:
		return m.records(msg)
	case paintMsg:
		if m.watch != nil && m.watch == msg.view && !m.watch.over {
			return m.watch.paintLater()
		}
	}
	return nil
}

// pressed does what keys ask for, one after another.
func (m *inbox) pressed(msg pressedMsg) tea.Cmd {
	var cmds []tea.Cmd
	for _, k := range msg.keys {
		if k.name != "text" || m.filter != nil || m.gate != nil && m.gate.asked != nil {
			cmds = append(cmds, m.press(k, msg.piece))
			continue
		}
		for i, r := range k.text { // each letter is a command
			if m.gate != nil && m.gate.busy() {
				break // what was typed behind it was typed before its question was there
			}
			if m.filter != nil {
				cmds = append(cmds, m.press(key{"text", k.text[i:]}, msg.piece))
				break
			}
			cmds = append(cmds, m.press(key{string(r), ""}, msg.piece))
		}
	}
	return tea.Batch(cmds...)
}

// press does what one key asks for. Letters are named by themselves, unless a text is typed.
func (m *inbox) press(k key, piece int) tea.Cmd {
	switch k.name {
	case "interrupt":
		if m.a.env.Interrupt != nil {
			interrupt := m.a.env.Interrupt
			return func() tea.Msg { interrupt(); return nil }
		}
		return tea.Quit
	case "suspend":
		m.suspend()
		return m.load(m.at, false)
	case "clear":
		return tea.ClearScreen
	}
	if m.filter != nil {
		return m.pressFilter(k)
	}
	if m.gate == nil || !m.gate.busy() {
		m.note = nil
	}
	switch {
	case m.help:
		m.help = false
		return nil
	case m.gate != nil && m.gate.busy():
		return m.answer(k, piece)
	case m.gate != nil && slices.Contains([]string{"r", "d", "enter"}, k.name) && !(m.gate.shown && m.terminal.answers(piece)),
		k.name == "r" && !m.terminal.answers(piece):
		return nil // whoever typed it had not seen what it is about
	case k.name == "q":
		return tea.Quit
	case k.name == "?":
		m.help = true
		return nil
	case k.name == "o":
		return m.tellAddress()
	case m.watch != nil:
		return m.pressWatch(k)
	case m.gate != nil:
		return m.pressGate(k)
	}
	return m.pressList(k)
}

func (m *inbox) pressList(k key) tea.Cmd {
	l := &m.lists[m.at]
	switch page := max(1, m.room()-1); k.name {
	case "1", "2", "3":
		return m.turn(int(k.name[0] - '1'))
	case "tab", "right", "l":
		return m.turn((m.at + 1) % len(m.lists))
	case "back tab", "left", "h":
		return m.turn((m.at + len(m.lists) - 1) % len(m.lists))
	case "j", "down":
		return m.choose(l.at + 1)
	case "k", "up":
		return m.choose(l.at - 1)
	case "page down", " ":
		return m.choose(l.at + page)
	case "page up":
		return m.choose(l.at - page)
	case "g", "home":
		return m.choose(0)
	case "G", "end":
		return m.choose(len(l.rows) - 1)
	case "/":
		m.filter = newLineEditor(nil, nil)
		m.filter.set([]rune(l.text))
	case "escape":
		return m.look("")
	case "enter", "d":
		switch row := l.chosen(); {
		case row == nil:
		case !row.gate.IsZero():
			return m.openGate(row.run, row.gate)
		default:
			return m.openWatch(row.run)
		}
	case "w":
		if row := l.chosen(); row != nil {
			return m.openWatch(row.run)
		}
	case "r":
		if row := l.chosen(); row != nil {
			return m.resume(row.run)
		}
	}
	return nil
}

// turn shows another list.
func (m *inbox) turn(to int) tea.Cmd {
	m.at = to
	return m.load(to, false)
}

// choose moves to a row, and has more of the list read before its end is reached.
func (m *inbox) choose(at int) tea.Cmd {
	l := &m.lists[m.at]
	l.at = max(0, min(at, len(l.rows)-1))
	if !l.next.IsZero() && l.at+m.room() >= len(l.rows) {
		return m.load(m.at, true)
	}
	return nil
}

// pressFilter is a key while what is looked for is typed.
func (m *inbox) pressFilter(k key) tea.Cmd {
	if k.name == "escape" {
		m.filter = nil
		return nil
	}
	did := m.filter.press(k)
	if did != entered && did != leaving {
		return nil
	}
	text := strings.TrimSpace(m.filter.String())
	m.filter = nil
	return m.look(text)
}

// look shows the rows of the list alone that hold a text.
func (m *inbox) look(text string) tea.Cmd {
	l := &m.lists[m.at]
	if l.text == text {
		return nil
	}
	l.text, l.at, l.top, l.rows, l.next, l.read = text, 0, 0, nil, tipstaff.ID{}, false
	return m.load(m.at, false)
}

// subject is the run, and the gate, that keys are about.
func (m *inbox) subject() (run, gate tipstaff.ID) {
	switch row := m.lists[m.at].chosen(); {
	case m.watch != nil:
		return m.watch.run, tipstaff.ID{}
	case m.gate != nil:
		return m.gate.run.ID, m.gate.id
	case row != nil:
		return row.run, row.gate
	}
	return run, gate
}

// tellAddress names the page of what is chosen.
func (m *inbox) tellAddress() tea.Cmd {
	run, gate := m.subject()
	if run.IsZero() {
		return nil
	}
	return func() tea.Msg {
		page := m.page()
		if page == "" {
			return toldMsg{[]line{{say(plain, "no page is served; to serve one: "+m.a.invocation("serve"))}}}
		}
		address := page + "/ui/runs/" + run.String()
		if !gate.IsZero() {
			address += "/gates/" + gate.String()
		}
		return toldMsg{[]line{{say(bold, address)}}}
	}
}

// resume has a run driven on by a process of its own, so that the inbox stays one.
func (m *inbox) resume(id tipstaff.ID) tea.Cmd {
	return func() tea.Msg {
		run, err := m.svc.Get(m.ctx, id)
		if err == nil {
			err = m.a.mustTrust()
		}
		if err != nil {
			return toldMsg{problem(err)}
		}
		run = topRun(m.ctx, m.svc, run)
		if run.Condition == tipstaff.Running {
			return toldMsg{[]line{{say(plain, nameOf(run)+" is being driven already; w watches it")}}}
		}
		s, err := m.svc.Resume(m.ctx, tipstaff.ResumeRequest{Run: run.ID, Detach: true})
		if err != nil {
			return toldMsg{problem(err)}
		}
		where := ""
		if s.Launched != nil {
			where = fmt.Sprintf(" in process %d", s.Launched.Pid)
		}
		return toldMsg{[]line{{say(green, nameOf(run)+" goes on"+where+"; w watches it")}}}
	}
}

// problem is an error for the line above the keys.
func problem(err error) []line {
	lines := []line{{say(red, err.Error())}}
	var e *tipstaff.Error
	if errors.As(err, &e) && e.Advice() != "" {
		lines = append(lines, line{say(plain, e.Advice())})
	}
	return lines
}

// room is how many rows of a list there are.
func (m *inbox) room() int { return max(1, m.height-3-max(1, len(m.noteRows()))) }

// noteRows is what there is to tell, in at most three rows.
func (m *inbox) noteRows() (rows []line) {
	for _, l := range m.note {
		for _, text := range rowsOf(l[0].text, m.width) {
			rows = append(rows, line{{text, l[0].color}})
		}
	}
	return rows[:min(len(rows), 3)]
}

func (m *inbox) View() tea.View {
	v := tea.View{AltScreen: true}
	var rows []line
	var keys []keyHelp
	switch {
	case m.help:
		rows, keys = m.helpRows(), []keyHelp{{"any key", "back"}}
	case m.watch != nil:
		rows, keys = m.watchRows(), watchKeys
	case m.gate != nil:
		rows, keys, v.Cursor = m.gateRows()
	default:
		rows, keys = m.listRows(), listKeys
	}
	note := m.noteRows()
	if m.filter != nil {
		typed := m.filter.rows("/", max(1, m.width-1)).window(1)
		note, v.Cursor = []line{{{typed.rows[0], plain}}}, tea.NewCursor(typed.col, m.height-2)
		keys = []keyHelp{{"enter", "look"}, {"esc", "back"}}
	}
	if len(note) == 0 {
		note = []line{nil}
	}
	body := max(0, m.height-1-len(note))
	for len(rows) < body {
		rows = append(rows, nil)
	}
	rows = append(append(rows[:body:body], note...), keyLine(keys, m.width))
	rows = rows[max(0, len(rows)-m.height):]
	texts := make([]string, len(rows))
	for i, l := range rows {
		texts[i] = l.fit(m.width).text(m.colored)
	}
	v.Content = strings.Join(texts, "\n")
	return v
}

// listRows are the names of the lists, and what can be seen of the one that is shown.
func (m *inbox) listRows() []line {
	head := line{say(bold, "tipstaff"), say(plain, "  ")}
	for i := range m.lists {
		l, look := &m.lists[i], dim
		if i == m.at {
			look = chosen
		}
		name := fmt.Sprintf(" %d %s%s ", i+1, l.name, l.count(i))
		if i == m.at && !m.colored {
			name = "[" + strings.TrimSpace(name) + "]"
		}
		head = append(head, say(look, name), say(plain, " "))
	}
	l := &m.lists[m.at]
	if l.text != "" {
		head = append(head, say(yellow, " /"+l.text))
	}
	rows := []line{head, {say(dim, m.columns("AGE", [...]string{"ASKS", "RUN", "RUN"}[m.at], [...]string{"OF", "STANDS", "ENDED AS"}[m.at], [...]string{"EXPIRES", "", ""}[m.at]))}}
	switch {
	case l.failed != nil:
		return append(append(rows, nil), problem(l.failed)...)
	case !l.read:
		return append(rows, nil, line{say(dim, "  reading …")})
	case len(l.rows) == 0:
		return append(append(rows, nil), m.emptyRows(l)...)
	}
	room := m.room()
	l.top = max(min(l.top, l.at), l.at-room+1, 0)
	for i := l.top; i < min(len(l.rows), l.top+room); i++ {
		rows = append(rows, m.rowLine(l.rows[i], i == l.at))
	}
	return rows
}

// count is how many there are, as far as that is known.
func (l *inboxList) count(i int) string {
	switch {
	case !l.read:
		return ""
	case i == listWaits && l.text == "":
		return fmt.Sprintf(" %d", l.total)
	case !l.next.IsZero():
		return fmt.Sprintf(" %d+", len(l.rows))
	}
	return fmt.Sprintf(" %d", len(l.rows))
}

// emptyRows say what to do where there is nothing.
func (m *inbox) emptyRows(l *inboxList) []line {
	switch {
	case l.text != "":
		return []line{{say(plain, "  nothing here holds "+l.text+"; esc shows all")}}
	case m.at == listWaits:
		return []line{{say(plain, "  Nothing waits for you.")}, nil, {say(dim, "  To start a run:  "+m.a.invocation("run", "plan.yaml"))}}
	case m.at == listRuns:
		return []line{{say(plain, "  Nothing runs.")}, nil, {say(dim, "  To start a run:  "+m.a.invocation("run", "plan.yaml"))}}
	}
	return []line{{say(plain, "  Nothing has ended yet.")}}
}

// Widths of columns, in cells.
const (
	ageCells     = 4
	expiresCells = 7
)

// columns lays out a row of a list.
func (m *inbox) columns(age, text, of, expires string) string {
	if m.at == listWaits {
		expires = pad(fit(expires, expiresCells), expiresCells) + "  "
	}
	rest := m.width - len("  ") - 2 - ageCells - cells(expires)
	right := rest * 2 / 5
	left := rest - right - 2
	return strings.TrimRight("  "+pad("", ageCells-cells(age))+age+"  "+expires+pad(fit(text, left), left)+"  "+fit(of, right), " ")
}

func (m *inbox) rowLine(r inboxRow, at bool) line {
	now := m.now()
	expires := ""
	if !r.expires.IsZero() {
		expires = "in " + age(r.expires.Sub(now))
	}
	text := m.columns(age(now.Sub(r.when)), clean(r.text), clean(r.of), expires)
	text = strings.TrimPrefix(text, "  ")
	if at {
		return line{say(blue, "›"), r.mark, {pad(text, m.width-2), chosen}}
	}
	return line{say(plain, " "), r.mark, {text, plain}}
}

// age is a duration in one number: 5s, 3m, 2h, 4d.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", min(d/(24*time.Hour), 999))
}

// keyHelp is a key, and what it does.
type keyHelp struct{ key, does string }

var (
	listKeys  = []keyHelp{{"?", "help"}, {"q", "quit"}, {"enter", "open"}, {"r", "resume"}, {"w", "watch"}, {"/", "filter"}, {"o", "address"}, {"tab", "next list"}}
	gateKeys  = []keyHelp{{"?", "help"}, {"esc", "back"}, {"enter", "decide"}, {"j/k", "scroll"}, {"r", "resume"}, {"w", "watch"}, {"v", "everything"}, {"o", "address"}}
	askedKeys = []keyHelp{{"enter", "send"}, {"esc", "do not decide"}, {"pgup/pgdn", "scroll"}}
	watchKeys = []keyHelp{{"?", "help"}, {"esc", "back"}, {"r", "resume"}, {"o", "address"}, {"q", "quit"}}
)

// keyLine is as many of the keys as have room.
func keyLine(keys []keyHelp, width int) (l line) {
	for _, k := range keys {
		next := append(slices.Clone(l), say(bold, k.key), say(dim, " "+k.does+"  "))
		if next.cells()-2 > width {
			break
		}
		l = next
	}
	return l
}

// helpRows tell all keys.
func (m *inbox) helpRows() []line {
	rows := []line{{say(bold, "Keys")}, nil}
	for _, k := range []keyHelp{
		{"1 2 3, tab", "what waits, what runs, what has ended"},
		{"j k, arrows", "move; pgup, pgdn, g and G move further"},
		{"enter", "open a gate, or watch a run"},
		{"enter, in a gate", "decide: type an action, and what it asks for"},
		{"v, in a gate", "show all of long values"},
		{"r", "resume the run, in a process of its own"},
		{"w", "watch the run"},
		{"o", "show the address of its page"},
		{"/", "show only what holds a text; esc shows all"},
		{"esc", "back"},
		{"q", "quit"},
		{"Ctrl-Z, Ctrl-L", "stop for a while; draw the screen anew"},
	} {
		rows = append(rows, line{say(bold, pad(k.key, 18)), say(plain, k.does)})
	}
	rows = append(rows, nil)
	for _, text := range rowsOf("A decision starts nothing: resume the run after it. What is typed before a question is on the screen answers nothing.", m.width-1) {
		rows = append(rows, line{say(dim, text)})
	}
	return rows
}

package cli

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tipstaff/tipstaff"
)

// watchView is the live tree of a run, as `tipstaff watch` draws it.
type watchView struct {
	run    tipstaff.ID
	view   view
	events <-chan recordsMsg
	stop   context.CancelFunc
	over   bool // nothing follows
	failed error
}

// recordsMsg are records of a run that is watched.
type recordsMsg struct {
	view    *watchView
	started bool // the run was read; its name is in title
	title   string
	outline *tipstaff.Outline
	events  []tipstaff.Event
	over    bool
	err     error
}

type paintMsg struct{ view *watchView }

// watchTime is how often a tree is drawn anew of which nothing is heard: times grow.
const watchTime = 500 * time.Millisecond

// watchBatch is how many records are taken in between two frames.
const watchBatch = 256

// openWatch follows a run, until the view is left.
func (m *inbox) openWatch(run tipstaff.ID) tea.Cmd {
	ctx, stop := context.WithCancel(m.ctx)
	events := make(chan recordsMsg)
	w := &watchView{run: run, view: newView(run, "", nil), events: events, stop: stop}
	m.watch = w
	go func() {
		defer close(events)
		w.follow(ctx, m.svc, func(msg recordsMsg) bool {
			select {
			case events <- msg:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	return tea.Batch(w.next(), w.paintLater())
}

// follow reads a run and its records, and those that come, until it has ended.
func (w *watchView) follow(ctx context.Context, svc tipstaff.Reader, send func(recordsMsg) bool) {
	run, err := svc.Get(ctx, w.run)
	if err != nil {
		send(recordsMsg{view: w, over: true, err: err})
		return
	}
	first := recordsMsg{view: w, started: true, title: nameOf(run)}
	if run.Program.Kind == tipstaff.ProgramPipeline { // whose stages appear as they start
		first.outline = &tipstaff.Outline{Kind: tipstaff.ProgramPipeline, ID: run.Program.Name}
	}
	if !send(first) {
		return
	}
	batch := make([]tipstaff.Event, 0, watchBatch)
	flush := func() bool {
		sent := len(batch) == 0 || send(recordsMsg{view: w, events: batch})
		batch = make([]tipstaff.Event, 0, watchBatch)
		return sent
	}
	for ev, err := range svc.Events(ctx, tipstaff.EventsRequest{Run: w.run, Follow: true, Stay: true}) {
		if err != nil {
			send(recordsMsg{view: w, over: true, err: err})
			return
		}
		batch = append(batch, ev)
		if (len(batch) == watchBatch || ev.Seq == 0 || ev.Seq >= run.HeadSeq) && !flush() {
			return
		}
	}
	if flush() {
		send(recordsMsg{view: w, over: true})
	}
}

func (w *watchView) next() tea.Cmd {
	return func() tea.Msg {
		msg, ok := <-w.events
		if !ok {
			return nil
		}
		return msg
	}
}

func (w *watchView) paintLater() tea.Cmd {
	return tea.Tick(watchTime, func(time.Time) tea.Msg { return paintMsg{w} })
}

// records takes in what a watched run has written.
func (m *inbox) records(msg recordsMsg) tea.Cmd {
	w := msg.view
	if m.watch != w {
		return nil
	}
	if msg.started {
		w.view = newView(w.run, msg.title, msg.outline)
	}
	for i := range msg.events {
		w.view.Apply(&msg.events[i])
	}
	w.over, w.failed = msg.over, msg.err
	if w.over {
		return nil
	}
	return w.next()
}

func (m *inbox) pressWatch(k key) tea.Cmd {
	switch k.name {
	case "escape", "left", "h", "backspace":
		m.watch.stop()
		m.watch = nil
		return m.load(m.at, false)
	case "r":
		return m.resume(m.watch.run)
	}
	return nil
}

func (m *inbox) watchRows() []line {
	w := m.watch
	if w.failed != nil {
		return problem(w.failed)
	}
	return w.view.render(m.width, max(1, m.height-2-len(m.noteRows())), m.now())
}

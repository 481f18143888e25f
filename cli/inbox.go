package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// bare is the command without a name: the inbox where somebody sits at a terminal and there
// is a workspace, else help.
func (a *app) bare(cmd *cobra.Command) error {
	if !a.fullScreen() {
		return cmd.Help()
	}
	if a.server == "" && !a.inWorkspace() {
		err := cmd.Help()
		fmt.Fprintf(a.out, "\nThis folder is no workspace yet. To make it one:\n  %s\n", a.invocation("init"))
		return err
	}
	return a.inbox(cmd.Context())
}

// fullScreen reports whether somebody sits at a terminal that can be drawn on as a whole.
func (a *app) fullScreen() bool {
	term := a.env.getenv("TERM")
	return a.env.StdinTTY && a.env.StdoutTTY && !a.json && term != "" && term != "dumb" && a.env.Raw != nil
}

// inWorkspace reports whether there is anything of a workspace in its folder.
func (a *app) inWorkspace() bool {
	for _, name := range []string{"tipstaff.yaml", ".tipstaff"} {
		if _, err := os.Stat(filepath.Join(a.workspaceDir(), name)); err == nil {
			return true
		}
	}
	return false
}

// inbox shows what waits, runs and has ended until the person leaves.
func (a *app) inbox(ctx context.Context) error {
	svc, err := a.open(ctx, OpenOptions{Starts: true})
	if err != nil {
		return err
	}
	changed, stop := a.session.Changed()
	defer stop()
	t, err := a.newTerminal()
	if err != nil {
		return err
	}
	hearing, deaf := context.WithCancel(ctx)
	m := newInbox(a, hearing, svc)
	m.terminal, m.changed, m.page, m.now = t, changed, a.session.Page, time.Now
	width, height := a.env.size()
	// The library would ask the terminal what it can do, and start programs to learn of its
	// colours. Sixteen are enough, and NO_COLOR is known by then.
	profile := colorprofile.ANSI
	if !m.colored {
		profile = colorprofile.Ascii
	}
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(nil), tea.WithOutput(t.out), tea.WithWindowSize(width, height),
		tea.WithoutSignalHandler(), tea.WithColorProfile(profile), tea.WithEnvironment([]string{"TERM=" + a.env.getenv("TERM"), "SSH_TTY=none"}))
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		_ = t.keys.hear(hearing, a.env.Stdin, func(keys []key, piece int) { p.Send(pressedMsg{keys, piece}) })
		p.Quit() // nobody types any more
	}()
	stops := make(chan os.Signal, 1)
	notifyStop(stops)
	go func() {
		for range stops {
			p.Send(pressedMsg{keys: []key{{name: "suspend"}}})
		}
	}()
	m.suspend = func() {
		_ = p.ReleaseTerminal()
		t.cook()
		stopNow()
		notifyStop(stops)
		if t.uncook() != nil || p.RestoreTerminal() != nil {
			p.Kill() // the terminal is gone
		}
	}
	_, err = p.Run()
	ignoreStop(stops)
	close(stops)
	deaf()
	if t.keys.typed != nil { // else its reading cannot be ended
		<-heard
	}
	t.keys.forget() // it was meant for what is no longer there
	t.cook()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, tea.ErrProgramPanic):
		return errors.New("the inbox cannot go on: see above")
	}
	return err
}

// terminal is the terminal that the inbox fills.
type terminal struct {
	keys *keyboard
	out  io.Writer
	raw  func() (restore func(), err error)

	mu       sync.Mutex
	restore  func() // nil: it is as a shell wants it
	expected bool   // a question is in the next frame
	after    int    // pieces of input up to here were typed before the question was there
}

func (a *app) newTerminal() (*terminal, error) {
	t := &terminal{keys: newKeyboard(a.env.Stdin), raw: a.env.Raw}
	t.out = frames{a.env.Stdout, t}
	width, height := 0, 0
	if a.env.Size != nil {
		width, height = a.env.Size()
	}
	if f, ok := a.env.Stdout.(device); ok && width > 0 && height > 0 { // else it does not know its size
		t.out = deviceFrames{f, t}
	}
	return t, t.uncook()
}

// device is an open terminal, which can be asked for its size.
type device interface {
	io.ReadWriteCloser
	Fd() uintptr
}

// frames and deviceFrames note when something was drawn.
type (
	frames struct {
		io.Writer
		t *terminal
	}
	deviceFrames struct {
		device
		t *terminal
	}
)

func (f frames) Write(p []byte) (int, error)       { return f.t.draw(f.Writer, p) }
func (f deviceFrames) Write(p []byte) (int, error) { return f.t.draw(f.device, p) }

// draw writes a frame. If it has a question, what was typed until now is no answer to it.
func (t *terminal) draw(w io.Writer, p []byte) (int, error) {
	t.mu.Lock()
	if t.expected {
		t.expected, t.after = false, t.keys.forget()
	}
	t.mu.Unlock()
	return w.Write(p)
}

// expect says that every frame from now on has a question in it, and that there will be one.
func (t *terminal) expect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected = true
}

// answers reports whether a piece of input was typed when the question was there to be read.
func (t *terminal) answers(piece int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.expected && piece > t.after
}

// cook gives the terminal back to a shell.
func (t *terminal) cook() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restore != nil {
		t.restore()
		t.restore = nil
	}
}

func (t *terminal) uncook() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restore == nil {
		t.restore, err = t.raw()
	}
	return err
}

// pressedMsg is what was typed, in one piece.
type pressedMsg struct {
	keys  []key
	piece int
}

// readGates reads undecided gates after one, oldest first, until there are so many that hold
// a text.
func readGates(ctx context.Context, svc tipstaff.Reader, after tipstaff.ID, want int, holds func(inboxRow) bool) (got loadedMsg, err error) {
	req := tipstaff.InboxRequest{Limit: min(want, mostGatesPage), After: after}
	if holds != nil { // most do not
		req.Limit = mostGatesPage
	}
	for {
		page, err := svc.Inbox(ctx, req)
		if err != nil {
			return got, err
		}
		got.total, got.next = page.Total, page.Next
		for _, g := range page.Gates {
			row := inboxRow{run: g.Run, gate: g.Gate.ID, when: g.Gate.OpenedAt, expires: g.Gate.ExpiresAt, mark: say(yellow, "?"),
				text: g.Gate.Question, of: tipstaff.Joined("  ", g.Title, g.Gate.Place())}
			if g.Title == "" {
				row.of = tipstaff.Joined("  ", g.Gate.Place(), g.Run.String())
			}
			if holds == nil || holds(row) {
				got.rows = append(got.rows, row)
			}
		}
		if len(got.rows) >= want || page.Next.IsZero() {
			return got, nil
		}
		req.After = page.Next
	}
}

// mostGatesPage and mostRunsPage are how many a service gives at once.
const (
	mostGatesPage = 200
	mostRunsPage  = 1000
)

// readRuns reads runs of some statuses that are older than one, newest first.
func readRuns(ctx context.Context, svc tipstaff.Reader, statuses []string, before tipstaff.ID, want int, text string) (got loadedMsg, err error) {
	page, err := svc.List(ctx, tipstaff.ListRequest{Status: statuses, Before: before, Limit: min(want, mostRunsPage), Text: text})
	if err != nil {
		return got, err
	}
	got.next = page.Next
	for _, r := range page.Runs {
		row := inboxRow{run: r.ID, when: r.CreatedAt, text: nameOf(r), of: tipstaff.Joined("  ", r.Status, r.Step), mark: statusMark(r.Status)}
		if r.State.Terminal() {
			row.when, row.of = r.EndedAt, tipstaff.Joined("  ", r.Status, failureOf(r))
		}
		got.rows = append(got.rows, row)
	}
	return got, nil
}

func failureOf(r tipstaff.Run) string {
	if r.Error == nil {
		return ""
	}
	return failureText(r, tipstaff.Driven{})
}

// statusMark is the sign of a status, as the live tree has it.
func statusMark(status string) span {
	switch status {
	case tipstaff.StatusRunning:
		return marks[tipstaff.NodeRunning]
	case string(tipstaff.Completed):
		return marks[tipstaff.NodeDone]
	case string(tipstaff.Failed), string(tipstaff.Cancelled):
		return marks[tipstaff.NodeFailed]
	case tipstaff.StatusInterrupted:
		return say(yellow, "!")
	}
	return marks[tipstaff.NodePending]
}

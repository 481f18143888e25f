package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

// frameTime is how often a live view is painted.
const frameTime = 125 * time.Millisecond

// follower shows the records of one run as they come: as a live tree on a
// terminal, as plain lines in a pipe, as stored with --json.
type follower struct {
	a      *app
	svc    tipstaff.Service
	run    tipstaff.ID
	view   view
	speech *speech            // of a turn that is talked about, in place of the view; nil: there is none
	screen *screen            // nil: no live view
	lines  bool               // plain lines on standard output
	shown  int64              // records up to here are folded, not printed: others saw them
	last   int64              // the last record taken in
	notes  chan string        // that others have to tell while the run is driven
	frames chan chan struct{} // whoever wants to write below the view: closed when it stands there

	echo    sync.Mutex
	restore func() // the echo of what is typed; nil: there is one
	over    bool   // the view is shown no more
}

// newFollower follows what s started; of a run that others drive, only s.Run
// and s.Program are set. Records up to shown are history.
func (a *app) newFollower(svc tipstaff.Service, s *tipstaff.Started, name string, shown int64) *follower {
	f := &follower{a: a, svc: svc, run: s.Run, shown: shown, view: newView(s.Run, name, s.Outline), notes: make(chan string, 4), frames: make(chan chan struct{})}
	f.screen = a.newScreen()
	f.lines = !a.json && (!a.env.StdoutTTY || f.screen == nil)
	if f.screen == nil { // nothing shows the history
		f.last = shown
	}
	return f
}

// newScreen is where a live view goes: standard error, else standard output, or
// nowhere if neither is a terminal that can move its cursor.
func (a *app) newScreen() *screen {
	if a.json || a.env.getenv("TERM") == "dumb" {
		return nil
	}
	switch {
	case a.env.StderrTTY:
		return &screen{w: a.err, size: a.env.size, colored: a.env.colored(true)}
	case a.env.StdoutTTY:
		return &screen{w: a.out, size: a.env.size, colored: a.env.colored(true)}
	}
	return nil
}

// drive shows the run until its drive has come to rest. Where that is one of this
// process a signal in ctx does not end it: the drive is stopped by others, and then
// rests. One at a server goes on, and the cause of the signal is returned.
func (f *follower) drive(ctx context.Context) (tipstaff.Driven, error) {
	f.hush()
	defer f.finish()
	// Observing must not be cut short by what stops the run: the last records are
	// those that tell how it stopped.
	calm, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	events := f.stream(calm)
	rested := make(chan tipstaff.Driven, 1)
	go func() { rested <- f.rest(calm) }()
	tick := time.NewTicker(frameTime)
	defer tick.Stop()
	asked := ctx.Done()
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			f.take(ev)
		case <-tick.C:
			f.paint()
		case text := <-f.notes:
			f.tell(text)
		case stands := <-f.frames:
			_ = f.catchUp(calm) // a view that is behind is better than none
			f.paint()
			close(stands)
		case <-asked:
			if f.a.server != "" {
				return tipstaff.Driven{}, context.Cause(ctx)
			}
			asked = nil
			f.tell("stopping; calls that cannot be repeated are given time to end")
		case d := <-rested:
			cancel()
			for len(f.notes) > 0 {
				f.tell(<-f.notes)
			}
			f.drain(events)
			if err := f.catchUp(context.WithoutCancel(ctx)); err != nil {
				f.tell("not every record could be shown: " + clean(err.Error()))
			}
			return d, nil
		}
	}
}

// rest waits until the run rests. That nobody can tell is how it ended, then.
func (f *follower) rest(ctx context.Context) tipstaff.Driven {
	d, err := f.svc.Wait(ctx, f.run)
	if err != nil {
		d = tipstaff.Driven{Outcome: "interrupted", Reason: string(tipstaff.CodeOf(err)), Message: err.Error()}
		if !errors.As(err, &d.Err) {
			d.Err = &tipstaff.Error{Code: tipstaff.Internal, Message: "the run cannot be followed: " + err.Error(), Err: err}
		}
	}
	return d
}

// watch shows the run until it has ended or nobody drives it, or ctx ends.
func (f *follower) watch(ctx context.Context) error {
	f.hush()
	defer f.finish()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	events := f.stream(inner)
	tick := time.NewTicker(frameTime)
	defer tick.Stop()
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				return f.caughtUp(ctx)
			}
			f.take(ev)
			if hungUp(f.a.out.failure()) && f.screen == nil {
				return f.a.out.failure() // nobody looks any more
			}
		case <-tick.C:
			f.paint()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *follower) caughtUp(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	defer f.paint()
	return f.catchUp(ctx)
}

// stream delivers records after the last one taken in, until the run rests. An
// error is not passed on: the reading afterwards meets it again, if it lasts.
func (f *follower) stream(ctx context.Context) <-chan tipstaff.Event {
	events := make(chan tipstaff.Event)
	after := f.last
	go func() {
		defer close(events)
		for ev, err := range f.svc.Events(ctx, tipstaff.EventsRequest{Run: f.run, After: after, Follow: true}) {
			if err != nil {
				return
			}
			select {
			case events <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// drain waits for a stream that was cancelled.
func (f *follower) drain(events <-chan tipstaff.Event) {
	if events == nil {
		return
	}
	for ev := range events {
		f.take(ev)
	}
}

// catchUp reads what was written since the last record taken in.
func (f *follower) catchUp(ctx context.Context) error {
	for ev, err := range f.svc.Events(ctx, tipstaff.EventsRequest{Run: f.run, After: f.last}) {
		if err != nil {
			return err
		}
		f.take(ev)
	}
	return nil
}

func (f *follower) take(ev tipstaff.Event) {
	if ev.Seq == 0 { // told, not recorded: a cursor does not move by it
		f.fold(ev)
		if f.a.json {
			f.a.writeLine(ev.Stored())
		}
		return
	}
	if ev.Seq <= f.last {
		return
	}
	f.last = ev.Seq
	f.fold(ev)
	if ev.Seq <= f.shown {
		return
	}
	switch {
	case f.a.json:
		f.a.writeLine(ev.Stored())
	case f.lines:
		if l := plainLine(ev); l != nil {
			fmt.Fprintln(f.a.out, l.text(f.a.env.colored(f.a.env.StdoutTTY)))
		}
	}
}

func (f *follower) fold(ev tipstaff.Event) {
	switch {
	case f.speech != nil:
		f.speech.take(&ev, ev.Seq != 0 && ev.Seq <= f.shown)
	case f.screen != nil:
		f.view.Apply(&ev)
	}
}

func (f *follower) paint() {
	switch {
	case f.screen == nil:
	case f.speech != nil:
		f.speech.paint()
	default:
		f.screen.paint(func(w, h int) []line { return f.view.render(w, h, time.Now()) })
	}
}

// mention has something told by the one who shows the run. It never waits.
func (f *follower) mention(text string) {
	select {
	case f.notes <- text:
	default:
	}
}

// tell says something beside a live view.
func (f *follower) tell(text string) {
	if f.speech != nil {
		f.speech.note(text)
		return
	}
	if f.screen != nil {
		f.screen.suspend()
		defer f.screen.resume()
	}
	fmt.Fprintln(f.a.err, text)
}

// frameWait is how long somebody who asks waits for the live view.
const frameWait = 300 * time.Millisecond

// leave lets the live view stand above what is written from now on, until unsuspend.
func (f *follower) leave() {
	if f.speech != nil || f.screen == nil {
		f.suspend() // what was said so far is said again, whole
		return
	}
	late := time.NewTimer(frameWait)
	defer late.Stop()
	stands := make(chan struct{})
	select {
	case f.frames <- stands:
		<-stands
	case <-late.C:
	}
	f.screen.leave()
	f.speak()
}

// suspend gives the terminal to somebody who asks: without a live view, and with an
// echo.
func (f *follower) suspend() {
	if f.screen != nil {
		f.screen.suspend()
		f.speak()
	}
}

func (f *follower) unsuspend() {
	if f.screen != nil {
		f.hush()
		f.screen.resume()
	}
}

// hush has the terminal echo nothing while a live view is shown: what is typed then is
// no answer to anything, and would stand in the middle of it.
func (f *follower) hush() {
	f.echo.Lock()
	defer f.echo.Unlock()
	if f.screen == nil || f.over || f.restore != nil || !f.a.env.StdinTTY || f.a.env.Hush == nil {
		return
	}
	if restore, err := f.a.env.Hush(); err == nil {
		f.restore = restore
	}
}

// finish gives the echo back for good, also if a question is still open.
func (f *follower) finish() {
	f.echo.Lock()
	f.over = true
	f.echo.Unlock()
	f.speak()
}

func (f *follower) speak() {
	f.echo.Lock()
	defer f.echo.Unlock()
	if f.restore != nil {
		f.restore()
		f.restore = nil
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	speech *speech              // of a turn that is talked about, in place of the view; nil: there is none
	screen *screen              // nil: no live view
	lines  bool                 // plain lines on standard output
	shown  int64                // records up to here are folded, not printed: others saw them
	last   int64                // the last record taken in
	failed string               // why the last of what failed did
	notes  chan string          // that others have to tell while the run is driven
	answer *string              // of a turn that has ended with one
	usage  *tipstaff.ModelUsage // of a turn that has ended
	frames chan chan struct{}   // whoever wants to write below the view: closed when it stands there

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

// show shows the run until it rests: where drives is set, until the drive that was
// begun has come to rest, else until it has ended or nobody drives it.
//
// A signal in ctx does not end a drive of this process: it is stopped by others, and
// then rests. All else goes on without us, and the cause of the signal is returned.
func (f *follower) show(ctx context.Context, drives bool) (tipstaff.Driven, error) {
	f.echoOff()
	defer f.finish()
	// Observing must not be cut short by what stops the run: the last records are
	// those that tell how it stopped.
	calm, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	events := f.stream(calm)
	rested := make(chan tipstaff.Driven, 1)
	if drives {
		go func() { rested <- f.rest(calm) }()
	}
	tick := time.NewTicker(frameTime)
	defer tick.Stop()
	asked := ctx.Done()
	for {
		select {
		case ev, ok := <-events:
			switch {
			case !ok && drives:
				events = nil
				continue
			case !ok:
				return tipstaff.Driven{}, f.catchUp(calm)
			}
			f.take(ev)
			if !drives && hungUp(f.a.out.failure()) && f.screen == nil {
				return tipstaff.Driven{}, f.a.out.failure() // nobody looks any more
			}
		case <-tick.C:
			f.paint()
		case text := <-f.notes:
			f.tell(text)
		case stands := <-f.frames:
			_ = f.catchUp(calm) // a view that is behind is better than none
			f.paint()
			close(stands)
		case <-asked:
			if !drives || f.a.server != "" {
				return tipstaff.Driven{}, context.Cause(ctx)
			}
			asked = nil
			f.tell("stopping; calls that cannot be repeated are given time to end")
		case d := <-rested:
			cancel()
			for len(f.notes) > 0 {
				f.tell(<-f.notes)
			}
			if events != nil {
				for ev := range events {
					f.take(ev)
				}
			}
			if d.State == "" && f.a.server != "" { // the server cannot be reached, and it alone knows what becomes of the run
				return d, d.Err
			}
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
	recorded := ev.Seq != 0 // else it was told: a cursor does not move by it
	if recorded && ev.Seq <= f.last {
		return
	}
	if recorded {
		f.last = ev.Seq
	}
	history := recorded && ev.Seq <= f.shown
	switch {
	case history:
	case ev.Kind == tipstaff.KindAgentFinish:
		b := tipstaff.BodyOf[tipstaff.AgentFinish](&ev)
		f.answer, f.usage = &b.Text, &b.Usage
	case ev.Kind == tipstaff.KindAgentError:
		b := tipstaff.BodyOf[tipstaff.AgentError](&ev)
		f.usage = &b.Usage
	}
	switch {
	case f.speech != nil:
		f.speech.take(&ev, history)
	case f.screen != nil:
		f.view.Apply(&ev)
	}
	switch {
	case history:
	case f.a.json:
		f.a.writeLine(ev.Stored())
	case f.lines && recorded:
		if l := f.plainLine(ev); l != nil {
			fmt.Fprintln(f.a.out, l.text(f.a.env.colored(f.a.env.StdoutTTY)))
		}
	}
}

// plainLine is the line of a record. Why a run failed is left out where the line of what
// made it fail has said so.
func (f *follower) plainLine(ev tipstaff.Event) line {
	what, detail := plainWords(&ev)
	if f.view.pipeline && strings.HasPrefix(what, "bound ") {
		detail = ofPipeline(detail)
	}
	if what == "failed" {
		if detail != "" && strings.HasSuffix(f.failed, detail) {
			detail = ""
		}
		f.failed = detail
	}
	return plainLine(ev, what, detail)
}

func (f *follower) paint() {
	render := f.view.render
	if f.speech != nil {
		render = f.speech.under
	}
	f.screen.paint(func(width, height int) []line { return render(width, height, time.Now()) })
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
	f.screen.suspend()
	defer f.screen.resume()
	fmt.Fprintln(f.a.err, text)
}

// frameWait is how long somebody who asks waits for the live view.
const frameWait = 300 * time.Millisecond

// leave gives the terminal to somebody who asks, with an echo, until takeBack. A live
// view stands above what is written from now on; what was said of a turn is said again,
// whole.
func (f *follower) leave() {
	switch {
	case f.screen == nil:
		return
	case f.speech != nil:
		f.screen.suspend()
	default:
		late := time.NewTimer(frameWait)
		defer late.Stop()
		stands := make(chan struct{})
		select {
		case f.frames <- stands:
			<-stands
		case <-late.C:
		}
		f.screen.leave()
	}
	f.echoOn()
}

func (f *follower) takeBack() {
	f.echoOff()
	f.screen.resume()
}

// echoOff has the terminal echo nothing while a live view is shown: what is typed then is
// no answer to anything, and would stand in the middle of it.
func (f *follower) echoOff() {
	f.echo.Lock()
	defer f.echo.Unlock()
	if f.screen == nil || f.over || f.restore != nil || !f.a.env.StdinTTY || f.a.env.EchoOff == nil {
		return
	}
	if restore, err := f.a.env.EchoOff(); err == nil {
		f.restore = restore
	}
}

// finish gives the echo back for good, also if a question is still open.
func (f *follower) finish() {
	f.echo.Lock()
	f.over = true
	f.echo.Unlock()
	f.echoOn()
}

func (f *follower) echoOn() {
	f.echo.Lock()
	defer f.echo.Unlock()
	if f.restore != nil {
		f.restore()
		f.restore = nil
	}
}
